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

/* ---- reserve ---- */

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

void pools_free(struct backend *be)
{
    if (be->device_pool.at)
        cudaFree(be->device_pool.at); /* waits for the ops that use it */
    if (be->pinned_pool.at)
        cudaFreeHost(be->pinned_pool.at);
    be->device_pool = be->pinned_pool = (struct pool){0};
}

/* ---- pieces ---- */

static const char *name_of(enum mem_part part)
{
    static const char *const names[N_MEM_PARTS] = {
        [PART_OWN] = "the backend itself", [PART_COLL] = "the collective",
        [PART_WEIGHTS] = "weights",        [PART_SCRATCH] = "scratch",
        [PART_KV] = "the KV cache",        [PART_TABLES] = "RoPE tables",
        [PART_STEP] = "the step"};
    return names[part];
}

void cuda_part(struct backend *be, enum mem_part part)
{
    be->part = part;
}

void cuda_used(struct backend *be, struct mem_plan *out)
{
    *out = be->used;
    out->pinned = be->pinned_pool.used - (be->staging ? alloc_bytes(STAGING_BYTES) : 0);
}

/* The plan is exact: what it has not is a fault of it, and never taken from elsewhere. */
enum status pool_take(struct backend *be, struct buf *b)
{
    bool pinned = b->kind == MEM_PINNED;
    struct pool *pool = pinned ? &be->pinned_pool : &be->device_pool;
    if (!pool->at)
        FAIL(ST_BUG, "an allocation before memory is reserved");
    size_t held = alloc_bytes(b->bytes);
    size_t used = pinned ? pool->used : be->used.part[be->part];
    size_t planned = pinned ? pool->bytes : be->plan.part[be->part];
    if (held < b->bytes || held > planned - used)
        FAIL(ST_BUG, "the memory plan has %zu bytes for %s, of which %zu are taken: not %zu more",
             planned, pinned ? "pinned memory" : name_of(be->part), used, b->bytes);
    b->data = pool->at + pool->used;
    b->pool = pool;
    b->part = be->part;
    pool->used += held;
    if (!pinned)
        be->used.part[b->part] += held;
    return ST_OK;
}

/* What was taken last can be taken again; the rest comes back when the backend closes. */
void pool_give(struct backend *be, struct buf *b)
{
    size_t at = (size_t)((char *)b->data - b->pool->at), held = alloc_bytes(b->bytes);
    if (at + held != b->pool->used)
        return;
    b->pool->used = at;
    if (b->kind == MEM_DEVICE)
        be->used.part[b->part] -= held;
}
