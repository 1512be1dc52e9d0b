/* The table of collectives of this build, and the choice of one by name or by configuration. */
#include "collectives/coll.h"

#include <string.h>

#include "collectives/local.h"
#include "collectives/shm.h"
#ifdef INGOT_HAVE_MPI
#include "collectives/mpi_coll.h"
#endif

#ifdef INGOT_HAVE_CUDA
#include "backends/cuda/device.h"
#include "collectives/ipc_coll.h"
#endif
#ifdef INGOT_HAVE_NCCL
#include "collectives/nccl_coll.h"
#endif

static const struct coll_ops *const registry[] = {
    &local_coll_ops, &shm_coll_ops,
#ifdef INGOT_HAVE_MPI
    &mpi_coll_ops,
#endif
#ifdef INGOT_HAVE_CUDA
    &ipc_coll_ops,
#endif
#ifdef INGOT_HAVE_NCCL
    &nccl_coll_ops,
#endif
};

const char *coll_names(void)
{
    return "local shm"
#ifdef INGOT_HAVE_MPI
           " mpi"
#endif
#ifdef INGOT_HAVE_CUDA
           " ipc"
#endif
#ifdef INGOT_HAVE_NCCL
           " nccl"
#endif
        ;
}

static const char *choose(const struct coll_config *cfg)
{
    if (cfg->world == 1)
        return "local";
#ifdef INGOT_HAVE_NCCL
    if (cfg->be && cuda_is(cfg->be))
        return "nccl";
#endif
    return cfg->one_host && cfg->be && backend_ops_of(cfg->be)->host_ptr ? "shm" : "mpi";
}

static const struct coll_ops *find(const char *name, const struct coll_config *cfg)
{
    if (!name || strcmp(name, "auto") == 0)
        name = choose(cfg);
    for (size_t i = 0; i < ARRAY_LEN(registry); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i];
    return NULL;
}

bool coll_in_graph(const char *name, const struct coll_config *cfg)
{
    const struct coll_ops *ops = find(name, cfg);
    return ops && ops->in_graph;
}

size_t coll_device_bytes(const char *name, const struct coll_config *cfg)
{
    const struct coll_ops *ops = find(name, cfg);
    return ops && ops->device_bytes ? ops->device_bytes(cfg) : 0;
}

size_t coll_host_bytes(const char *name, const struct coll_config *cfg)
{
    const struct coll_ops *ops = find(name, cfg);
    return ops && ops->host_bytes ? ops->host_bytes(cfg) : 0;
}

enum status coll_open(struct coll **out, const char *name, const struct coll_config *cfg)
{
    const struct coll_ops *ops = find(name, cfg);
    *out = NULL;
    if (!ops)
        FAIL(ST_UNSUPPORTED, "no collective '%s' in this build (it has: %s)", name, coll_names());
    return ops->open(out, cfg);
}
