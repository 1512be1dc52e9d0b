/* Memory of a plan: allocations are pieces of as few MTLBuffers as the device's largest length allows.
 * A buffer is made when no earlier one has room for the next piece, as long as what is planned and not
 * yet taken, or the device's largest.  Weights that are mapped (mapped.c) count in their part; the backend's has the
 * pages at their ends.  Pinned memory has buffers of its own: the host writes one while
 * commands read another. */
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"
#include "common/checked.h"

static bool add_parts(const struct mem_plan *plan, size_t *sum)
{
    *sum = 0;
    for (int i = 0; i < N_MEM_PARTS; i++)
        if (!add_size(*sum, plan->part[i], sum))
            return false;
    return true;
}

size_t metal_pool_own(const struct backend *be)
{
    return be->planned && !be->scratch ? alloc_bytes(SCRATCH_BYTES) + metal_edge_bytes() : 0;
}

enum status metal_pool_reserve(struct backend *be, const struct mem_plan *plan)
{
    size_t wanted, used, total = metal_device_bytes(be, &used);
    if (!be->planned || be->used.part[PART_OWN] > 0)
        FAIL(ST_BUG, "memory is reserved once, by a backend that was opened for it");
    if (plan->part[PART_OWN] != metal_pool_own(be))
        FAIL(ST_BUG, "the memory plan has %zu bytes for the backend, which wants %zu",
             plan->part[PART_OWN], metal_pool_own(be));
    if (!add_parts(plan, &wanted) || used > total || wanted > total - used)
        FAIL(ST_NOMEM, "Metal device %s has %zu of its %zu bytes free: not those of the plan",
             be->name, used > total ? 0 : total - used, total);
    be->plan = *plan;
    be->mem_part = PART_OWN;
    be->used.part[PART_OWN] = metal_edge_bytes();
    return ST_OK;
}

void metal_pool_part(struct backend *be, enum mem_part part)
{
    be->mem_part = part;
}

void metal_pool_used(struct backend *be, struct mem_plan *out)
{
    *out = be->used;
}

/* A block with room for so many bytes. */
static enum status find_block(struct backend *be, size_t held, struct metal_block **out)
{
    size_t planned, used;
    for (int i = 0; i < be->n_blocks; i++)
        if (be->block[i].bytes - be->block[i].used >= held) {
            *out = &be->block[i];
            return ST_OK;
        }
    if (be->n_blocks == METAL_MAX_BLOCKS)
        FAIL(ST_NOMEM, "Metal device %s: the memory plan takes more than %d buffers", be->name,
             METAL_MAX_BLOCKS);
    (void)add_parts(&be->plan, &planned);
    (void)add_parts(&be->used, &used);
    struct metal_block *b = &be->block[be->n_blocks];
    size_t left = planned - used - be->mapped_left,
           bytes = left < be->max_buffer ? left : be->max_buffer;
    bytes = bytes / ALLOC_ALIGN * ALLOC_ALIGN;
    *b = (struct metal_block){.bytes = bytes > held ? bytes : held};
    TRY(metal_new_buffer(be, b->bytes, &b->buffer, &b->data));
    be->n_blocks++;
    *out = b;
    return ST_OK;
}

/* The part that is allocated now has room for it. */
static enum status check_part(const struct backend *be, const struct buf *b)
{
    static const char *const names[N_MEM_PARTS] = {
        [PART_OWN] = "the backend itself", [PART_COLL] = "the collective",
        [PART_WEIGHTS] = "weights",        [PART_SCRATCH] = "scratch",
        [PART_KV] = "the KV cache",        [PART_TABLES] = "RoPE tables",
        [PART_STEP] = "the step"};
    size_t held = alloc_bytes(b->bytes), planned = be->plan.part[be->mem_part];
    size_t used = be->used.part[be->mem_part];
    if (held < b->bytes || held > planned - used)
        FAIL(ST_BUG, "the memory plan has %zu bytes for %s, of which %zu are taken: not %zu more",
             planned, names[be->mem_part], used, b->bytes);
    return ST_OK;
}

static void count(struct backend *be, struct buf *b)
{
    b->part = be->mem_part;
    be->used.part[b->part] += alloc_bytes(b->bytes);
}

static enum status take(struct backend *be, struct buf *b)
{
    size_t held = alloc_bytes(b->bytes);
    struct metal_block *block = NULL;
    TRY(check_part(be, b));
    if (held == 0)
        return ST_OK;
    if (b->kind == MEM_PINNED) {
        TRY(metal_new_buffer(be, held, &b->buffer, &b->data));
    } else {
        TRY(find_block(be, held, &block));
        TRY(metal_sync(be)); /* commands may use its other pieces */
        b->block = block;
        b->buffer = block->buffer;
        b->at = block->used;
        b->data = block->data + b->at;
        block->used += held;
    }
    count(be, b);
    memset(b->data, 0, held);
    return ST_OK;
}

/* The first piece. */
static enum status take_scratch(struct backend *be)
{
    struct buf *b = calloc(1, sizeof *b);
    enum mem_part part = be->mem_part;
    if (!b)
        FAIL(ST_NOMEM, "no memory for a buffer");
    b->bytes = SCRATCH_BYTES;
    b->kind = MEM_DEVICE;
    be->mem_part = PART_OWN;
    enum status st = take(be, b);
    be->mem_part = part;
    if (st != ST_OK) {
        free(b);
        return st;
    }
    be->scratch = b;
    return ST_OK;
}

enum status metal_pool_take(struct backend *be, struct buf *b)
{
    if (!be->scratch)
        TRY(take_scratch(be));
    return take(be, b);
}

enum status metal_pool_take_mapped(struct backend *be, struct buf *b)
{
    TRY(check_part(be, b));
    count(be, b);
    be->mapped_left -= alloc_bytes(b->bytes);
    return ST_OK;
}

void metal_pool_give(struct backend *be, struct buf *b)
{
    size_t held = alloc_bytes(b->bytes);
    if (!b->buffer || (b->block && b->at + held != b->block->used))
        return;
    if (b->block)
        b->block->used = b->at;
    be->used.part[b->part] -= held;
}

void metal_pool_close(struct backend *be)
{
    for (int i = 0; i < be->n_blocks; i++)
        metal_give(&be->block[i].buffer);
    be->n_blocks = 0;
}
