/* Taking the backend's memory at start: one block of the device and one pinned block for the
 * collective, another of each for the rest of the memory plan, and the buffers that the backend keeps
 * for itself. */
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
static enum status take_device(struct backend *be, struct pool *pool, size_t bytes, size_t driver)
{
    size_t mem_free, mem_total, wanted;
    if (!add_size(bytes, driver, &wanted))
        FAIL(ST_NOMEM, "the memory plan is larger than any device");
    CUDA_TRY(cudaMemGetInfo(&mem_free, &mem_total));
    if (wanted > mem_free)
        FAIL(ST_NOMEM,
             "device %d has %zu of its %zu bytes free, wanted are %zu in one block and %zu for the "
             "driver",
             be->device, mem_free, mem_total, bytes, driver);
    CUDA_TRY(cudaMalloc((void **)&pool->at, bytes));
    pool->bytes = bytes;
    return ST_OK;
}

static enum status take_pinned(struct pool *pool, size_t bytes)
{
    CUDA_TRY(cudaMallocHost((void **)&pool->at, bytes));
    pool->bytes = bytes;
    return ST_OK;
}

/* PART_COLL, and nothing else. */
static enum status reserve_coll(struct backend *be, const struct mem_plan *plan)
{
    int i = pool_of(PART_COLL);
    if (be->device_pool[i].at)
        FAIL(ST_BUG, "the collective's memory is reserved once");
    TRY(take_device(be, &be->device_pool[i], plan->part[PART_COLL], plan->driver));
    TRY(take_pinned(&be->pinned_pool[i], plan->pinned));
    be->plan.part[PART_COLL] = plan->part[PART_COLL];
    return ST_OK;
}

static enum status reserve_rest(struct backend *be, const struct mem_plan *plan, size_t bytes)
{
    int i = pool_of(PART_OWN);
    size_t pinned, coll = be->plan.part[PART_COLL];
    if (be->device_pool[i].at)
        FAIL(ST_BUG, "memory is reserved once");
    if (plan->part[PART_OWN] != cuda_own_bytes(be))
        FAIL(ST_BUG, "the memory plan has %zu bytes for the backend, which wants %zu",
             plan->part[PART_OWN], cuda_own_bytes(be));
    if (!add_size(alloc_bytes(STAGING_BYTES), plan->pinned, &pinned))
        FAIL(ST_NOMEM, "the memory plan is larger than any host");
    TRY(take_device(be, &be->device_pool[i], bytes, plan->driver));
    TRY(take_pinned(&be->pinned_pool[i], pinned));
    be->plan = *plan;
    be->plan.part[PART_COLL] = coll;
    return cuda_take_own(be);
}

enum status cuda_reserve(struct backend *be, const struct mem_plan *plan)
{
    size_t bytes, coll = plan->part[PART_COLL];
    if (!be->planned)
        FAIL(ST_BUG, "memory is reserved by a backend that was opened for it");
    if (!add_parts(plan, &bytes))
        FAIL(ST_NOMEM, "the memory plan is larger than any device");
    if (coll > 0 && coll != bytes)
        FAIL(ST_BUG, "the collective's memory is reserved by a call of its own");
    return coll > 0 ? reserve_coll(be, plan) : reserve_rest(be, plan, bytes);
}
