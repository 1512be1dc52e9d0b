/* Calls the scheduler at random, runs its plans on the fake worker and compares every stream with
 * the oracle's.  sched_check after each call.  Aborts with a line on standard error at the first
 * difference. */
#ifndef TESTS_SCHED_DRIVER_H
#define TESTS_SCHED_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/journal/journal.h"
#include "coordinator/sched/sched.h"

/* Where decisions come from: a seed, or (data not NULL) given bytes, which end. */
struct dice {
    uint64_t state;
    const uint8_t *data;
    size_t n_data;
};

struct driver_options {
    bool whole;                           /* all requests are an encoder's */
    bool no_moves;                        /* never goes on with a restored copy of the scheduler */
    const struct journal_config *journal; /* NULL = none */
};

struct driver_report {
    uint64_t n_calls;
    uint64_t digest; /* of all plans and effects */
    uint64_t n_submitted, n_finished, n_cancelled, n_expired, n_failed, n_refused, n_busy;
    uint64_t n_tokens, n_scored, n_embedded, n_resets;
    uint64_t n_fed;               /* tokens that plans left to the device */
    uint64_t n_forced;            /* of n_tokens, behind another one of the same result */
    struct sched_stats stats;     /* at the end */
    struct journal_stats journal; /* likewise */
};

/* Makes n_calls random calls (or until the bytes end), then lets everything finish.  opts may be
 * NULL. */
void driver_run(const struct sched_config *cfg, struct dice *dice, uint64_t n_calls,
                const struct driver_options *opts, struct driver_report *out);

#endif
