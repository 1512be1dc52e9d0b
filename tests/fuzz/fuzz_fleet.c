/* Bytes -> a configuration and calls to a fleet of groups with its queue.  Everything that tests/sched/fleet_driver.c
 * checks, it checks. */
#include <stdint.h>

#include "sched/fleet_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { HEAD = 8 };
    struct fleet_report report;
    if (n < HEAD || n > 1024)
        return 0;
    struct sched_config cfg = {.max_seqs = 1 + data[0] % 8,
                               .max_step_tokens = 1 + data[1] % 24,
                               .max_waiting = 1 + data[2] % 24,
                               .max_waiting_tokens = 60 + 4 * data[3],
                               .max_ctx = 2 + data[4] % 150,
                               .n_blocks = 1 + data[5] % 60,
                               .block_len = 1 + data[6] % 20,
                               .prefix_cache = data[7] % 2,
                               .has_states = data[7] / 64 >= 2,
                               .n_snapshots = data[7] / 64 == 2 ? 1 + data[7] / 4 % 16 : 0,
                               .max_inflight = 1 + data[7] / 2 % 2,
                               .overtake = data[7] / 4 % 4,
                               .target_itl_us = data[7] / 16 % 2 ? SCHED_AUTO : 0,
                               .max_step_us = SCHED_AUTO,
                               .prefill_loss_pct = 4,
                               .target_of_all = true,
                               .turn_tokens = data[7] / 32};
    struct dice dice = {.data = data + HEAD, .n_data = n - HEAD};
    fleet_driver_run(&cfg, &dice, UINT64_MAX, NULL, &report);
    return 0;
}
