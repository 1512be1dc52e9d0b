/* A server of many worker groups without ranks, sockets or a clock: the fleet of coordinator/sched, groups whose steps take the
 * time of a formula, and requests of a load_source.  The same calls give the same report.
 *
 * Placement: as fleet_place does it (prefixes and load), by load alone (placement_choose with no known tokens), or round
 * robin, as a balancer in front of separate servers does it: at arrival, without looking at the groups. */
#ifndef TESTS_SCHED_SIMULATE_H
#define TESTS_SCHED_SIMULATE_H

#include "coordinator/sched/fleet.h"
#include "sched/load_source.h"

enum sim_policy { SIM_AFFINITY, SIM_LOAD, SIM_ROUND_ROBIN, SIM_POLICIES };

struct sim_config {
    struct sched_config sched; /* of each group */
    uint32_t n_groups;
    enum sim_policy policy;
    double step_us, decode_us, prompt_us; /* a step: fixed, each decode, each token of a prompt */
};

struct sim_times { /* of all requests, in seconds */
    double p50, p99, greatest;
};

struct sim_report {
    uint64_t n_requests, n_busy; /* n_busy: refused because the queue was full */
    uint64_t prompt_tokens, cached_tokens, new_tokens;
    struct sim_times start;       /* from arrival to the first step */
    struct sim_times first;       /* to the first token */
    double seconds;               /* from the first arrival to the last token */
    double busy;                  /* share of this time in which a group computes, mean */
    double least_busy, most_busy; /* of the groups */
    uint64_t digest;              /* of all effects with their times */
};

extern const char *const sim_policy_names[SIM_POLICIES];

/* Takes requests until none comes and all have ended.  Aborts with a line on standard error when a request is lost. */
void simulate(const struct sim_config *cfg, struct load_source *source, uint64_t max_requests,
              struct sim_report *out);

#endif
