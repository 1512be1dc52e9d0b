/* Taking the backend's memory at start: one block of the device and one pinned block, sized by the
 * memory plan, and the buffers that the backend keeps for itself. */
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/linear_lt.h"
#include "common/checked.h"

size_t cuda_own_bytes(const struct backend *be)
{
    return alloc_bytes(SCRATCH_BYTES) + (be->lt ? alloc_bytes(LT_WORKSPACE) : 0);
}

enum status cuda_take_own(struct backend *be)
{
    cuda_part(be, PART_OWN);
    TRY(cuda_alloc(be, STAGING_BYTES, MEM_PINNED, &be->staging));
    TRY(cuda_alloc(be, SCRATCH_BYTES, MEM_DEVICE, &be->scratch));
    return be->lt ? lt_take_workspace(be->lt, be) : ST_OK;
}

static bool add_parts(const struct mem_plan *plan, size_t *sum)
{
    *sum = 0;
    for (int i = 0; i < N_MEM_PARTS; i++)
        if (!add_size(*sum, plan->part[i], sum))
            return false;
    return true;
}

/* The driver says what is free before it is asked for it: what it keeps for itself, graphs among
 * that, has to fit too. */
static enum status take_device(struct backend *be, const struct mem_plan *plan)
{
    size_t mem_free, mem_total, bytes, wanted;
    if (!add_parts(plan, &bytes) || !add_size(bytes, plan->driver, &wanted))
        FAIL(ST_NOMEM, "the memory plan is larger than any device");
    CUDA_TRY(cudaMemGetInfo(&mem_free, &mem_total));
    if (wanted > mem_free)
        FAIL(ST_NOMEM,
             "device %d has %zu of its %zu bytes free, wanted are %zu in one block and %zu for the "
             "driver",
             be->device, mem_free, mem_total, bytes, plan->driver);
    CUDA_TRY(cudaMalloc((void **)&be->device_pool.at, bytes));
    be->device_pool.bytes = bytes;
    return ST_OK;
}

enum status cuda_reserve(struct backend *be, const struct mem_plan *plan)
{
    size_t pinned;
    if (!be->planned || be->device_pool.at)
        FAIL(ST_BUG, "memory is reserved once, by a backend that was opened for it");
    if (plan->part[PART_OWN] != cuda_own_bytes(be))
        FAIL(ST_BUG, "the memory plan has %zu bytes for the backend, which wants %zu",
             plan->part[PART_OWN], cuda_own_bytes(be));
    if (!add_size(alloc_bytes(STAGING_BYTES), plan->pinned, &pinned))
        FAIL(ST_NOMEM, "the memory plan is larger than any host");
    TRY(take_device(be, plan));
    CUDA_TRY(cudaMallocHost((void **)&be->pinned_pool.at, pinned));
    be->pinned_pool.bytes = pinned;
    be->plan = *plan;
    return cuda_take_own(be);
}
