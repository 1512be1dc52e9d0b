/* Figures of the ranks of a worker group, in Figures (worker.proto) and WorkerGroup (ingot.proto). */
#ifndef COMMON_WIRE_RANKS_MSG_H
#define COMMON_WIRE_RANKS_MSG_H

#include <stdint.h>

enum { MAX_GROUP_RANKS = 64 };

/* Columns of n ranks each, n <= MAX_GROUP_RANKS; the times and steps are sums since the group connected. */
struct msg_ranks {
    uint32_t n; /* 0: not known (yet) */
    const uint64_t *steps;
    const uint64_t *step_us;       /* in steps, collectives included */
    const uint64_t *collective_us; /* in collectives of steps, waiting for other ranks included */
    const uint64_t *kv_bytes;      /* size of the rank's part of the KV cache */
};

#endif
