/* Start-up of one rank: device, model, agreement with the other ranks, memory plan, weights.  In
 * the end everything that the loop needs is there and no more memory is taken. */
#ifndef WORKER_RANK_H
#define WORKER_RANK_H

#include "collectives/control.h"
#include "common/digest/weights_digest.h"
#include "common/wire/worker_msg.h"
#include "worker/rank_hosts.h"
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
    uint64_t digest;                /* of the model's headers: loader_digest */
    struct weights_digest *weights; /* NULL: there will be none */
    bool weights_agreed;            /* rank 0: every rank knew it at start, and they are equal */
    bool has_text;                  /* rank 0 */
    uint8_t text[SHA256_BYTES];
    char numerics[NUMERICS_ID_SIZE];
    char hosts[RANK_HOSTS_SIZE]; /* rank 0: of all ranks */
    uint64_t launch;             /* random, equal on all ranks */
    int threads;
};

/* Opens the device, reads the model's headers, agrees with the other ranks on everything, opens the
 * collective.  After this g->plan is final and the memory plan has been logged.  cache: of digests,
 * copied.  Collective. */
MUST_CHECK enum status rank_prepare(struct rank *g, const struct shared_options *opt,
                                    const struct control_info *ci,
                                    const struct digest_cache *cache);

/* Loads the weights, takes all memory, runs the first steps (worker/rank_warm.h) if warm_up;
 * after that the weight files may be hashed.  Collective. */
MUST_CHECK enum status rank_load(struct rank *g, bool warm_up);

void rank_close(struct rank *g);

#endif
