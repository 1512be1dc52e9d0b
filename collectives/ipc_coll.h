/* "ipc": up to 8 CUDA ranks of one host, over memory that their kernels share (CUDA IPC and peer
 * access; backends/cuda/oneshot.h).  Takes operands of any size, in pieces; it is made for small
 * ones, and "nccl" passes these on to it.
 * Operations are enqueued on the backend's stream and may be captured.  poll and the backend's
 * waits name a rank that does not arrive. */
#ifndef COLLECTIVES_IPC_COLL_H
#define COLLECTIVES_IPC_COLL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backends/cuda/oneshot.h"
#include "collectives/coll.h"

extern const struct coll_ops ipc_coll_ops;

/* Device memory that open takes. */
size_t ipc_device_bytes(const struct coll_config *cfg);

/* For ranks without a control plane (tests): they share this, zeroed at start.  Threads of one
 * process read each other's addresses (on one device: CUDA opens no handle in the process that made
 * it); processes (of which none has used CUDA before fork) map each other's handles. */
struct ipc_group {
    bool processes;
    unsigned char handle[ONESHOT_MAX_WORLD][ONESHOT_HANDLE_BYTES];
    _Atomic(void *) area[ONESHOT_MAX_WORLD]; /* in its rank's address space; NULL: not here yet */
};
MUST_CHECK enum status ipc_join(struct coll **out, const struct coll_config *cfg,
                                struct ipc_group *group);

#endif
