/* Buffers and transfers of the CUDA backend: alloc, read, write, copy, upload, sync.  Host data
 * goes through the pinned staging buffer; each wait has a limit. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "common/clock.h"

enum { SYNC_LIMIT_S = 300 }; /* longer than any step: the device hangs */

/* Never a bare wait: a device that hangs becomes an error. */
enum status cuda_sync(struct backend *be)
{
    uint64_t from = clock_us();
    if (be->capturing)
        FAIL(ST_BUG, "a wait for the device while ops are recorded");
    for (;;) {
        cudaError_t e = cudaStreamQuery(be->stream);
        if (e == cudaSuccess) {
            be->n_ended = be->n_enqueued;
            return ST_OK;
        }
        if (e != cudaErrorNotReady)
            return cuda_fault(be, e);
        if (be->watch)
            TRY(be->watch(be->watch_ctx, clock_us() - from));
        if (clock_us() - from > SYNC_LIMIT_S * UINT64_C(1000000))
            FAIL(ST_DEVICE, "the device has not finished after %d s", SYNC_LIMIT_S);
        sched_yield();
    }
}

static enum status take(struct backend *be, struct buf *b)
{
    if (b->bytes == 0)
        return ST_OK;
    if (be->planned)
        TRY(pool_take(be, b));
    else if (b->kind == MEM_PINNED)
        CUDA_TRY(cudaMallocHost(&b->data, b->bytes));
    else
        CUDA_TRY(cudaMalloc(&b->data, b->bytes));
    if (b->kind == MEM_PINNED)
        memset(b->data, 0, b->bytes);
    else
        CUDA_TRY(cudaMemsetAsync(b->data, 0, b->bytes, be->stream));
    return ST_OK;
}

enum status cuda_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out)
{
    if (be->capturing)
        FAIL(ST_BUG, "an allocation while ops are recorded");
    struct buf *b = calloc(1, sizeof *b);
    if (!b)
        FAIL(ST_NOMEM, "no memory for a buffer");
    b->bytes = bytes;
    b->kind = kind;
    enum status st = take(be, b);
    if (st != ST_OK) {
        cuda_free(be, b);
        return st;
    }
    *out = b;
    return ST_OK;
}

void cuda_free(struct backend *be, struct buf *b)
{
    if (!b)
        return;
    if (b->pool) {
        pool_give(be, b);
    } else if (b->data && b->kind == MEM_PINNED) {
        cudaFreeHost(b->data);
    } else if (b->data) {
        cudaFree(b->data); /* waits for the ops that use it */
    }
    free(b);
}

void *cuda_pinned_ptr(struct backend *be, struct buf *b)
{
    (void)be;
    assert(b->kind == MEM_PINNED);
    return b->data;
}

enum status staging_take(struct backend *be, size_t bytes, char **out)
{
    size_t held = round_up_size(bytes, 64);
    assert(held <= STAGING_BYTES);
    if (held > STAGING_BYTES - be->staging_used) {
        TRY(cuda_sync(be));
        be->staging_used = 0;
    }
    *out = (char *)be->staging->data + be->staging_used;
    be->staging_used += held;
    return ST_OK;
}

/* Bytes of a row, and from one row to the next. */
static size_t row_bytes(struct view v)
{
    return (size_t)v.cols * dtype_size(v.dtype);
}

static size_t row_step(struct view v)
{
    return (size_t)v.stride * dtype_size(v.dtype);
}

/* The next piece of a transfer through the staging memory: whole rows, or a part of one that is
 * larger than it. */
struct piece {
    size_t row, n_rows, col, n_bytes; /* n_bytes of each row from byte col on */
};

static bool next_piece(struct piece *p, struct view v)
{
    size_t all = row_bytes(v), most = STAGING_BYTES / 2;
    p->col += p->n_bytes;
    if (p->col == all) {
        p->row += p->n_rows;
        p->col = 0;
    }
    if (all == 0 || p->row == (size_t)v.rows)
        return false;
    p->n_bytes = all - p->col < most ? all - p->col : most;
    p->n_rows = all > most ? 1 : most / all;
    if (p->n_rows > (size_t)v.rows - p->row)
        p->n_rows = (size_t)v.rows - p->row;
    return true;
}

enum status cuda_write(struct backend *be, struct view dst, const void *src)
{
    char *to = (char *)view_ptr(dst), *staged;
    struct piece p = {0};
    if (be->capturing)
        FAIL(ST_BUG, "a write of host data while ops are recorded");
    while (next_piece(&p, dst)) {
        const char *from = (const char *)src + p.row * row_bytes(dst) + p.col;
        size_t bytes = p.n_rows * p.n_bytes;
        TRY(staging_take(be, bytes, &staged));
        memcpy(staged, from, bytes); /* packed: more than one row only if rows are whole */
        CUDA_TRY(cudaMemcpy2DAsync(to + p.row * row_step(dst) + p.col, row_step(dst), staged,
                                   p.n_bytes, p.n_bytes, p.n_rows, cudaMemcpyHostToDevice,
                                   be->stream));
    }
    return ST_OK;
}

enum status cuda_read(struct backend *be, void *dst, struct view src)
{
    char *from = (char *)view_ptr(src), *staged;
    struct piece p = {0};
    if (be->capturing)
        FAIL(ST_BUG, "a read of device data while ops are recorded");
    while (next_piece(&p, src)) {
        size_t bytes = p.n_rows * p.n_bytes;
        TRY(staging_take(be, bytes, &staged));
        CUDA_TRY(cudaMemcpy2DAsync(staged, p.n_bytes, from + p.row * row_step(src) + p.col,
                                   row_step(src), p.n_bytes, p.n_rows, cudaMemcpyDeviceToHost,
                                   be->stream));
        TRY(cuda_sync(be));
        memcpy((char *)dst + p.row * row_bytes(src) + p.col, staged, bytes);
        be->staging_used = 0; /* the device has finished with all of it */
    }
    return ST_OK;
}

enum status cuda_copy(struct backend *be, struct view dst, struct view src)
{
    assert(dst.rows == src.rows && dst.cols == src.cols && dst.dtype == src.dtype);
    if (dst.rows > 0 && dst.cols > 0)
        CUDA_TRY(cudaMemcpy2DAsync(view_ptr(dst), row_step(dst), view_ptr(src), row_step(src),
                                   row_bytes(src), (size_t)src.rows, cudaMemcpyDefault,
                                   be->stream));
    return ST_OK;
}

/* The copy engine works beside the kernels; only what follows on `stream` waits for it. */
enum status cuda_upload(struct backend *be, struct view dst, struct view src)
{
    assert(dst.rows == src.rows && dst.cols == src.cols && dst.dtype == src.dtype);
    if (be->capturing)
        FAIL(ST_BUG, "an upload while ops are recorded");
    if (dst.rows == 0 || dst.cols == 0)
        return ST_OK;
    CUDA_TRY(cudaMemcpy2DAsync(view_ptr(dst), row_step(dst), view_ptr(src), row_step(src),
                               row_bytes(src), (size_t)src.rows, cudaMemcpyHostToDevice,
                               be->upload_stream));
    CUDA_TRY(cudaEventRecord(be->uploaded, be->upload_stream));
    CUDA_TRY(cudaStreamWaitEvent(be->stream, be->uploaded, 0));
    return ST_OK;
}

enum status cuda_zero(struct backend *be, struct view dst)
{
    if (dst.rows > 0 && dst.cols > 0)
        CUDA_TRY(cudaMemset2DAsync(view_ptr(dst), row_step(dst), 0, row_bytes(dst),
                                   (size_t)dst.rows, be->stream));
    return ST_OK;
}
