/* Start-up of one rank: device, model, agreement with the other ranks, memory plan, weights.  In
 * the end everything that the loop needs is there and no more memory is taken. */
#ifndef WORKER_RANK_H
#define WORKER_RANK_H

#include "collectives/control.h"
#include "worker/rank_plan.h"
#include "worker/timed_coll.h"

struct rank {
    const struct shared_options *opt;
    struct control_info ci;
    struct backend *be;
    struct loader *ld;
    struct timed_coll *co;
    struct decoder *model;
    struct rank_step *step;
    struct rank_plan plan;
    uint64_t digest; /* of the model */
    uint64_t launch; /* random, equal on all ranks */
    int threads;
};

/* Opens the device, reads the model's headers, agrees with the other ranks on everything.  After
 * this g->plan is final and the memory plan has been logged.  Collective. */
MUST_CHECK enum status rank_prepare(struct rank *g, const struct shared_options *opt,
                                    const struct control_info *ci);

/* Opens the collective, loads the weights, takes all memory.  Collective. */
MUST_CHECK enum status rank_load(struct rank *g);

void rank_close(struct rank *g);

#endif
