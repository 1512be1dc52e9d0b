/* "nccl": CUDA ranks, one device each, on any number of hosts.  Operations are enqueued on the
 * backend's stream and may be captured in a graph; graphs that hold them are freed before close.
 *
 * Rank 0 makes the unique id and control_bcast carries it, so that a rank that does not come has a
 * name.  The communicator is non-blocking: every wait, here and in the backend's sync, asks for its
 * errors and has the deadline.  After a failure it is aborted; the ranks are started again by
 * whoever started them. */
#ifndef COLLECTIVES_NCCL_COLL_H
#define COLLECTIVES_NCCL_COLL_H

#include <stdatomic.h>

#include "collectives/coll.h"

extern const struct coll_ops nccl_coll_ops;

enum { NCCL_ID_BYTES = 128, NCCL_BOARD_RANKS = 64 };

/* What ranks of one host tell each other beside NCCL, which does not name the rank that failed.  Zeroed at start. */
struct nccl_board {
    _Atomic uint32_t gave_up;                   /* 1 + rank */
    _Atomic uint64_t n_calls[NCCL_BOARD_RANKS]; /* collectives that the rank has begun */
    _Atomic uint32_t closed[NCCL_BOARD_RANKS];  /* not 0: it begins no more */
};

/* With cfg->share_device: NCCL refuses two ranks that have host and device in common, so this
 * process gets an NCCL_HOSTID of its own, unless the environment has one; ranks then talk through
 * sockets, which is slow: for tests.  Before NCCL is loaded; open and join call it. */
MUST_CHECK enum status nccl_take_host_id(const struct coll_config *cfg);

/* The same for ranks that have no control plane (tests: threads of one process): the id of
 * nccl_unique_id is given to all of them. */
MUST_CHECK enum status nccl_unique_id(unsigned char id[NCCL_ID_BYTES]);
MUST_CHECK enum status nccl_join(struct coll **out, const struct coll_config *cfg,
                                 const unsigned char id[NCCL_ID_BYTES], struct nccl_board *board);

#endif
