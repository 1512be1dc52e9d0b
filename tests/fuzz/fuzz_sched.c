/* Bytes -> a configuration and calls to the scheduler.  Everything that tests/sched checks, it
 * checks. */
#include <stdint.h>
#include <string.h>

#include "sched/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { HEAD = 9 };
    struct driver_report report;
    if (n < HEAD || n > 1024)
        return 0;
    struct sched_config cfg = {.max_seqs = 1 + data[0] % 10,
                               .max_step_tokens = 1 + data[1] % 24,
                               .max_waiting = 1 + data[2] % 12,
                               .max_waiting_tokens = 20 + 2 * data[3],
                               .max_ctx = 2 + data[4] % 150,
                               .n_blocks = 1 + data[5] % 60,
                               .block_len = 1 + data[6] % 20,
                               .prefix_cache = data[7] % 2,
                               .has_states = data[7] / 64 >= 2,
                               .n_snapshots = data[7] / 64 == 2 ? 1 + data[7] / 4 % 16 : 0,
                               .max_inflight = 1 + data[7] / 2 % 2,
                               .overtake = data[8] % 4,
                               .target_itl_us = data[8] / 4 % 2 ? SCHED_AUTO : 0,
                               .max_step_us = data[8] / 8 % 2 ? SCHED_AUTO : 700,
                               .prefill_loss_pct = data[8] / 16,
                               .target_of_all = data[8] / 32 % 2,
                               .turn_tokens = data[8] / 16};
    struct dice dice = {.data = data + HEAD, .n_data = n - HEAD};
    driver_run(&cfg, &dice, UINT64_MAX, NULL, &report);
    return 0;
}
