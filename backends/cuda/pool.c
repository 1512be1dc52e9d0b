/* Buffers out of the blocks that reserve.c took, accounted by part of the memory plan. */
#include "backends/cuda/cuda_backend.h"

int pool_of(enum mem_part part)
{
    return part == PART_COLL ? 0 : 1;
}

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
    out->pinned = 0;
    for (int i = 0; i < N_POOLS; i++)
        out->pinned += be->pinned_pool[i].used;
    out->pinned -= be->staging ? alloc_bytes(STAGING_BYTES) : 0;
}

/* The plan is exact: what it has not is a fault of it, and never taken from elsewhere. */
enum status pool_take(struct backend *be, struct buf *b)
{
    bool pinned = b->kind == MEM_PINNED;
    struct pool *pool = &(pinned ? be->pinned_pool : be->device_pool)[pool_of(be->part)];
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

void pools_free(struct backend *be)
{
    for (int i = 0; i < N_POOLS; i++) {
        if (be->device_pool[i].at)
            cudaFree(be->device_pool[i].at); /* waits for the ops that use it */
        if (be->pinned_pool[i].at)
            cudaFreeHost(be->pinned_pool[i].at);
        be->device_pool[i] = be->pinned_pool[i] = (struct pool){0};
    }
}
