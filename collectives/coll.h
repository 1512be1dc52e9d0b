/* Collectives over device buffers: one communicator per rank, called by the rank's main thread, in
 * the same order on all ranks.  "local" (world 1), "shm" (ranks on one host, CPU), "mpi" (any
 * backend, staged through host memory), "nccl" (CUDA ranks, a device each), "ipc" (CUDA ranks of
 * one host).
 *
 * Numeric contract: all_reduce with REDUCE_SUM adds f32 in rank order as a binary tree: with a
 * power-of-two world ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)); with any other world the
 * same pairing level by level, an odd last operand moving up unchanged.  Every rank gets the same
 * bits.
 *
 * A peer that does not come within deadline_ms is ST_TIMEOUT naming its rank; after any failure the
 * communicator is broken and only abort and close are allowed. */
#ifndef COLLECTIVES_COLL_H
#define COLLECTIVES_COLL_H

#include "backends/backend.h"

enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };

struct coll_config {
    int rank, world;
    struct backend *be;
    size_t max_bytes; /* largest all_reduce or broadcast, and largest world * src of all_gather */
    uint32_t deadline_ms; /* how long a rank waits for a peer */
    uint64_t session;     /* shm: names the segment; equal on all ranks, fresh for each launch */
    bool any_order;       /* --numerics fast: SUM may add in another order than the contract's */
    bool one_host;        /* all ranks on this host (control_info): what "auto" goes by */
    bool share_device;    /* ranks of a host were told to take one GPU (--device N): nccl refuses
                             that else */
};

struct coll;

struct coll_ops {
    const char *name;
    bool in_graph; /* its collectives may stand between graph_begin and graph_end */
    /* Device memory that open takes; NULL: none. */
    size_t (*device_bytes)(const struct coll_config *cfg);
    /* Host memory that open takes; of memory that ranks share, this rank's part.  NULL: none. */
    size_t (*host_bytes)(const struct coll_config *cfg);
    /* Collective: every rank opens.  shm and mpi size their buffers here. */
    enum status (*open)(struct coll **out, const struct coll_config *cfg);
    void (*close)(struct coll *c);
    /* In place, [rows, cols] f32 with stride == cols.  MAX and MIN: NaN where an operand is NaN. */
    enum status (*all_reduce)(struct coll *c, struct view x, enum reduce_op op);
    /* dst = src of rank 0, of rank 1, ...; src [n, m], dst [world * n, m], same type, strides ==
     * cols. src may be this rank's own part of dst. */
    enum status (*all_gather)(struct coll *c, struct view src, struct view dst);
    enum status (*broadcast)(struct coll *c, struct view x, int root);
    /* Has a peer failed?  Cheap; for asynchronous communicators. */
    enum status (*poll)(struct coll *c);
    /* Makes waiting peers fail soon (ST_PEER) instead of at their deadline.  Async-signal-unsafe.
     */
    void (*abort)(struct coll *c);
};

struct coll { /* head of every communicator */
    const struct coll_ops *ops;
    int rank, world;
};

/* name NULL or "auto": local for world 1, shm when all ranks share a host and the backend is on
 * host memory, nccl for CUDA ranks, else mpi.  ST_UNSUPPORTED names what there is. */
MUST_CHECK enum status coll_open(struct coll **out, const char *name,
                                 const struct coll_config *cfg);

/* in_graph of the one that coll_open would take, without opening it; false when there is none. */
bool coll_in_graph(const char *name, const struct coll_config *cfg);

enum { COLL_PINNED_BYTES = 64 }; /* pinned memory that coll_open takes at most */

/* Device memory that coll_open would take, and host memory (that of the library, such as MPI's own
 * buffers, is not in it). */
size_t coll_device_bytes(const char *name, const struct coll_config *cfg);
size_t coll_host_bytes(const char *name, const struct coll_config *cfg);

/* Names compiled in, "local shm mpi ipc nccl". */
const char *coll_names(void);

#endif
