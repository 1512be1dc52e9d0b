/* The part of a tensor's axis (common/formats/model_config.h) that a rank has. */
#ifndef WORKER_LOAD_AXIS_SHARE_H
#define WORKER_LOAD_AXIS_SHARE_H

#include "worker/load/shard.h"

struct axis_range {
    int32_t first, n;
};

/* sh: of the rank. */
struct axis_range axis_share(const struct model_config *mc, const struct shard *sh, enum axis ax,
                             int32_t layer);

#endif
