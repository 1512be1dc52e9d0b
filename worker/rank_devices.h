/* Which ranks of a group share a GPU.  Called once by every rank at the start. */
#ifndef WORKER_RANK_DEVICES_H
#define WORKER_RANK_DEVICES_H

#include "backends/backend.h"
#include "collectives/control.h"

/* The device of a rank, told by what does not depend on CUDA_VISIBLE_DEVICES. */
struct rank_device {
    char host[64]; /* the running system, also of a container: Linux's boot id, or the host name */
    char bus[16], uuid[48]; /* as struct backend_info; "": no GPU with memory of its own */
};

struct rank_sharing {
    int32_t
        n_memory; /* ranks with this rank's device, or its part of one (MIG): they share its memory; >= 1 */
    int32_t
        n_device; /* ranks with a part of this rank's device, which NCCL takes for one; >= n_memory */
    int32_t other; /* the first other rank among n_memory; -1: none */
};

/* of [world] devices, for rank i. */
struct rank_sharing rank_sharing_of(const struct rank_device *all, int world, int i);

/* The same for this rank, of the devices of all ranks. */
MUST_CHECK enum status rank_devices(const struct control_info *ci, const struct backend_info *info,
                                    struct rank_sharing *out);

#endif
