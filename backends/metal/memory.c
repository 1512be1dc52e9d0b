/* Buffers and transfers.  An allocation is an MTLBuffer, or a piece of one of the memory plan's
 * (pool.c): maxBufferLength bounds each.  The host copies to and from shared memory itself when the
 * queue is empty; copies in the order of the queue are kernels. */
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"

static enum status take(struct backend *be, struct buf *b)
{
    size_t held = alloc_bytes(b->bytes);
    if (be->planned)
        return metal_pool_take(be, b);
    if (held < b->bytes)
        FAIL(ST_NOMEM, "a buffer of %zu bytes", b->bytes);
    if (held == 0)
        return ST_OK;
    TRY(metal_new_buffer(be, held, &b->buffer, &b->data));
    memset(b->data, 0, held);
    return ST_OK;
}

enum status metal_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out)
{
    struct buf *b = calloc(1, sizeof *b);
    if (!b)
        FAIL(ST_NOMEM, "no memory for a buffer");
    b->bytes = bytes;
    b->kind = kind;
    enum status st = take(be, b);
    if (st != ST_OK) {
        metal_free(be, b);
        return st;
    }
    *out = b;
    return ST_OK;
}

/* Of bytes that are mapped; they stay when it is freed. */
static enum status use_mapped(struct backend *be, struct metal_block *block, const char *at,
                              struct buf *b)
{
    b->block = block;
    b->buffer = block->buffer;
    b->at = (size_t)(at - block->data);
    b->data = block->data + b->at;
    return be->planned ? metal_pool_take_mapped(be, b) : ST_OK;
}

enum status metal_take_packed(struct backend *be, const void *packed, size_t bytes,
                              struct buf **out)
{
    struct metal_block *block = bytes > 0 ? metal_mapped_at(be, packed, bytes) : NULL;
    if (!block) {
        TRY(metal_alloc(be, bytes, MEM_DEVICE, out));
        if (bytes > 0)
            memcpy((*out)->data, packed, bytes);
        return ST_OK;
    }
    struct buf *b = calloc(1, sizeof *b);
    if (!b)
        FAIL(ST_NOMEM, "no memory for a buffer");
    b->bytes = bytes;
    b->kind = MEM_DEVICE;
    enum status st = use_mapped(be, block, packed, b);
    if (st != ST_OK) {
        free(b);
        return st;
    }
    *out = b;
    return ST_OK;
}

/* Command buffers keep what they use until they have ended. */
void metal_free(struct backend *be, struct buf *b)
{
    if (!b)
        return;
    if (be->planned)
        metal_pool_give(be, b);
    if (!b->block)
        metal_give(&b->buffer);
    free(b);
}

void *metal_host_ptr(struct backend *be, struct view v)
{
    (void)be;
    return view_data(v);
}

void *metal_pinned_ptr(struct backend *be, struct buf *b)
{
    (void)be;
    assert(b->kind == MEM_PINNED);
    return b->data;
}

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

enum status metal_write(struct backend *be, struct view dst, const void *src)
{
    char *to = view_data(dst);
    size_t n = view_row_bytes(dst);
    if (nothing(dst))
        return ST_OK;
    TRY(metal_sync(be));
    for (int32_t i = 0; i < dst.rows; i++)
        memcpy(to + (size_t)i * view_row_step(dst), (const char *)src + (size_t)i * n, n);
    return ST_OK;
}

enum status metal_read(struct backend *be, void *dst, struct view src)
{
    const char *from = view_data(src);
    size_t n = view_row_bytes(src);
    TRY(metal_sync(be));
    for (int32_t i = 0; i < src.rows && n > 0; i++)
        memcpy((char *)dst + (size_t)i * n, from + (size_t)i * view_row_step(src), n);
    return ST_OK;
}

/* Bytes of a row and from row to row as kernels take them. */
static enum status check_moved(struct view v)
{
    if (view_row_step(v) > INT32_MAX)
        FAIL(ST_UNSUPPORTED, "a transfer of rows %zu bytes apart", view_row_step(v));
    return ST_OK;
}

static struct mtl_size move_groups(struct view v)
{
    int64_t per = METAL_STRIP * METAL_BYTES_OF_THREAD;
    return (struct mtl_size){(unsigned long)v.rows, groups_for((int64_t)view_row_bytes(v), per), 1};
}

enum status metal_copy(struct backend *be, struct view dst, struct view src)
{
    assert(dst.rows == src.rows && dst.cols == src.cols && dst.dtype == src.dtype);
    if (nothing(dst))
        return ST_OK;
    TRY(check_moved(dst));
    TRY(check_moved(src));
    const struct metal_bound bound[] = {bound_any(src), bound_any(dst)};
    const struct metal_move_args args = {.n_bytes = (int32_t)view_row_bytes(dst),
                                         .dst_step = (int32_t)view_row_step(dst),
                                         .src_step = (int32_t)view_row_step(src)};
    return METAL_DISPATCH(be, KERNEL_copy_bytes, args, bound, move_groups(dst), METAL_STRIP, 0);
}

enum status metal_zero(struct backend *be, struct view dst)
{
    if (nothing(dst))
        return ST_OK;
    TRY(check_moved(dst));
    const struct metal_bound bound[] = {bound_any(dst)};
    const struct metal_move_args args = {.n_bytes = (int32_t)view_row_bytes(dst),
                                         .dst_step = (int32_t)view_row_step(dst)};
    return METAL_DISPATCH(be, KERNEL_zero_bytes, args, bound, move_groups(dst), METAL_STRIP, 0);
}
