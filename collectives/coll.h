/* Collectives over device buffers.  Each rank has one communicator, called by its main thread; all
 * ranks make the same calls in the same order.
 *
 *   local  world 1
 *   shm    ranks of one host, backend in host memory
 *   mpi    any backend, staged through host memory
 *   nccl   CUDA ranks, one device each
 *   ipc    CUDA ranks of one host
 *
 * Numeric contract: all_reduce with REDUCE_SUM adds f32 in rank order as a binary tree.  With a
 * power-of-two world this is ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)).  With another world
 * the operands are paired in the same way at each level, and an odd last operand passes to the next
 * level unchanged.  Every rank gets the same bits.
 *
 * ST_TIMEOUT names a peer that did not arrive within deadline_ms.  After any failure the
 * communicator is broken: only abort and close are allowed. */
#ifndef COLLECTIVES_COLL_H
#define COLLECTIVES_COLL_H

#include "backends/backend.h"

enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };

struct coll_config {
    int rank, world;
    struct backend *be;
    size_t max_bytes;     /* largest all_reduce, broadcast, and world * src of all_gather */
    uint32_t deadline_ms; /* how long a rank waits for a peer */
    uint64_t session;     /* shm: names the segment; equal on all ranks, new for each launch */
    bool any_order;       /* --numerics fast: SUM may add in another order than the contract's */
    bool one_host;        /* all ranks are on this host (control_info); "auto" depends on it */
    bool share_device;    /* nccl: allow several ranks on one GPU, as --device N asks for */
};

struct coll;

struct coll_ops {
    const char *name;
    bool in_graph; /* its calls may be recorded between graph_begin and graph_end */
    /* Bytes of device memory that open takes; NULL: none. */
    size_t (*device_bytes)(const struct coll_config *cfg);
    /* Bytes of host memory that open takes; of shared memory, this rank's part.  NULL: none. */
    size_t (*host_bytes)(const struct coll_config *cfg);
    /* Called by all ranks together.  shm and mpi take their buffers here. */
    enum status (*open)(struct coll **out, const struct coll_config *cfg);
    /* By all ranks, each at its own time: ipc and nccl end a call that another rank makes afterwards
     * with ST_PEER and this rank's name ("a rank" on several hosts, at the deadline), and ipc waits for
     * the others, deadline_ms at most, because their kernels read its memory. */
    void (*close)(struct coll *c);
    /* In place, [rows, cols] f32 with stride == cols.  MAX and MIN: NaN where an operand is NaN. */
    enum status (*all_reduce)(struct coll *c, struct view x, enum reduce_op op);
    /* dst = src of rank 0, of rank 1, ...; src [n, m], dst [world * n, m], same type,
     * strides == cols.  src may be this rank's own part of dst. */
    enum status (*all_gather)(struct coll *c, struct view src, struct view dst);
    enum status (*broadcast)(struct coll *c, struct view x, int root);
    /* Reports the failure of a peer, without waiting; for asynchronous communicators. */
    enum status (*poll)(struct coll *c);
    /* Makes waiting peers fail soon (ST_PEER) instead of at their deadline.  Not
     * async-signal-safe. */
    void (*abort)(struct coll *c);
};

/* The first member of every communicator. */
struct coll {
    const struct coll_ops *ops;
    int rank, world;
};

/* name NULL or "auto" selects:
 *   local  for world 1
 *   nccl   for CUDA ranks, if this build has it
 *   shm    when all ranks are on one host and the backend is in host memory
 *   mpi    otherwise
 * ST_UNSUPPORTED lists the collectives of this build. */
MUST_CHECK enum status coll_open(struct coll **out, const char *name,
                                 const struct coll_config *cfg);

/* in_graph of the collective that coll_open would select; false when there is none. */
bool coll_in_graph(const char *name, const struct coll_config *cfg);

enum { COLL_PINNED_BYTES = 64 }; /* most pinned memory that coll_open takes */

/* Bytes of device and of host memory that coll_open would take.  Memory of libraries, such as the
 * buffers of MPI and of NCCL's channels, is not counted. */
size_t coll_device_bytes(const char *name, const struct coll_config *cfg);
size_t coll_host_bytes(const char *name, const struct coll_config *cfg);

/* The collectives of this build, such as "local shm mpi ipc nccl". */
const char *coll_names(void);

#endif
