/* Calls a fleet at random: requests, plans and results of every group, groups that are opened, lost and balanced.
 * Each group has a fake worker of its own; every stream is compared with the oracle's, wherever its parts were
 * computed.  fleet_check after each call.  Aborts with a line on standard error at the first difference. */
#ifndef TESTS_SCHED_FLEET_DRIVER_H
#define TESTS_SCHED_FLEET_DRIVER_H

#include "sched/driver.h"

enum { FLEET_DRIVER_GROUPS = 5 };

struct fleet_report {
    uint64_t n_submitted, n_finished, n_cancelled, n_expired, n_failed;
    uint64_t n_opened, n_lost, n_placed, n_balanced, n_tokens;
    uint64_t tokens[FLEET_DRIVER_GROUPS]; /* of each group */
    uint64_t digest;                      /* of all plans, moves and effects */
};

/* cfg: at most 64 sequences that run or wait, max_ctx at most 160.  jc may be NULL. */
void fleet_driver_run(const struct sched_config *cfg, struct dice *dice, uint64_t n_calls,
                      const struct journal_config *jc, struct fleet_report *out);

#endif
