/* How long a worker group may take over a step before it is given up: a multiple of the time that the
 * step is expected to take, by the measured times of the group's steps (sched/cost.h) and its
 * slowest recent one.  A group that begins is expected to be as fast as the one before it.  Plain
 * data and arithmetic; one thread. */
#ifndef COORDINATOR_STEP_CLOCK_H
#define COORDINATOR_STEP_CLOCK_H

#include "common/plan.h"
#include "coordinator/sched/cost.h"

enum {
    STEP_PATIENCE = 10,     /* times the expected time */
    STEP_TRUSTED = 3,       /* steps after which measured times are believed */
    STEP_MAX_DOUBLINGS = 8, /* of the deadline, for groups lost one after the other by it */
};

struct step_limits {
    uint64_t least_us; /* no step has less */
    uint64_t first_us; /* before STEP_TRUSTED steps were measured, of this group or one before it */
    uint32_t n_late;   /* groups lost in a row by a deadline, without a finished step */
};

struct step_clock {
    struct cost_model cost;
    uint64_t slow_us; /* of the slowest recent step; its weight halves in about 11 steps */
    uint64_t n;       /* steps measured */
};

/* known: of the group before; NULL: there was none. */
void step_clock_init(struct step_clock *c, const struct step_clock *known);
/* What the step computes. */
struct cost_load step_clock_load(const struct step_plan *plan);
uint64_t step_clock_limit_us(const struct step_clock *c, const struct cost_load *load,
                             const struct step_limits *limits);
/* A step took that long. */
void step_clock_learn(struct step_clock *c, const struct cost_load *load, uint64_t us);

#endif
