/* Times of a rank's steps and the size of its KV cache, gathered by rank 0 for the coordinator. */
#ifndef WORKER_RANK_FIGURES_H
#define WORKER_RANK_FIGURES_H

#include "worker/coordinator_port.h"

/* Sums since the Welcome, as in struct msg_ranks. */
struct rank_figures {
    uint64_t steps, step_us, collective_us;
    uint64_t kv_bytes; /* not a sum */
};

void rank_figures_add(struct rank_figures *f, uint64_t steps, uint64_t step_us,
                      uint64_t collective_us);
/* Every rank, together: all[world] on rank 0, which may be NULL on others. */
MUST_CHECK enum status rank_figures_gather(const struct rank_figures *mine,
                                           struct rank_figures *all);
/* Rank 0: sends those of all ranks; a group of more than MAX_GROUP_RANKS sends none. */
MUST_CHECK enum status rank_figures_send(struct coordinator_port *port, uint64_t epoch,
                                         const struct rank_figures *all, int world);

#endif
