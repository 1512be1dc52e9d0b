/* "ipc": CUDA ranks of one host, up to 8, over memory that their kernels share (CUDA IPC and peer
 * access; backends/cuda/oneshot.h).  In pieces of any size; made for small ones: "nccl" hands these
 * to it. Operations are enqueued on the backend's stream and may be captured.  A rank that does not
 * come is named by poll, and by the backend's waits. */
#ifndef COLLECTIVES_IPC_COLL_H
#define COLLECTIVES_IPC_COLL_H

#include <stdatomic.h>

#include "backends/cuda/oneshot.h"
#include "collectives/coll.h"

extern const struct coll_ops ipc_coll_ops;

/* Device memory that open takes. */
size_t ipc_device_bytes(const struct coll_config *cfg);

/* For ranks that are threads of one process (tests): they share this, zeroed at start. */
struct ipc_group {
    _Atomic(void *) area[ONESHOT_MAX_WORLD];
};
MUST_CHECK enum status ipc_join(struct coll **out, const struct coll_config *cfg,
                                struct ipc_group *group);

#endif
