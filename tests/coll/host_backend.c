#include "coll/host_backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct buf {
    size_t bytes;
    char *at;
};

static char *row(struct view v, int32_t i)
{
    size_t elem = dtype_size(v.dtype);
    size_t at = v.off + (size_t)i * (size_t)v.stride * elem;
    assert(at + (size_t)v.cols * elem <= v.buf->bytes);
    return v.buf->at + at;
}

static enum status host_alloc(struct backend *be, size_t bytes, enum mem_kind kind,
                              struct buf **out)
{
    (void)be;
    (void)kind;
    *out = calloc(1, sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "out of memory");
    (*out)->bytes = bytes;
    (*out)->at = calloc(1, bytes + 1);
    if (!(*out)->at) {
        free(*out);
        FAIL(ST_NOMEM, "no %zu bytes", bytes);
    }
    return ST_OK;
}

static void host_free(struct backend *be, struct buf *b)
{
    (void)be;
    if (b)
        free(b->at);
    free(b);
}

static enum status host_write(struct backend *be, struct view dst, const void *src)
{
    (void)be;
    size_t bytes = (size_t)dst.cols * dtype_size(dst.dtype);
    for (int32_t i = 0; i < dst.rows; i++)
        memcpy(row(dst, i), (const char *)src + (size_t)i * bytes, bytes);
    return ST_OK;
}

static enum status host_read(struct backend *be, void *dst, struct view src)
{
    (void)be;
    size_t bytes = (size_t)src.cols * dtype_size(src.dtype);
    for (int32_t i = 0; i < src.rows; i++)
        memcpy((char *)dst + (size_t)i * bytes, row(src, i), bytes);
    return ST_OK;
}

static enum status host_copy(struct backend *be, struct view dst, struct view src)
{
    (void)be;
    for (int32_t i = 0; i < src.rows; i++)
        memmove(row(dst, i), row(src, i), (size_t)src.cols * dtype_size(src.dtype));
    return ST_OK;
}

static enum status host_sync(struct backend *be)
{
    (void)be;
    return ST_OK;
}

static void *host_host_ptr(struct backend *be, struct view v)
{
    (void)be;
    return v.buf->at + v.off;
}

const struct backend_ops host_backend_ops = {
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
    .write = host_write,
    .read = host_read,
    .copy = host_copy,
    .sync = host_sync,
    .host_ptr = host_host_ptr,
};

const struct backend_ops device_backend_ops = {
    .name = "device",
    .alloc = host_alloc,
    .free = host_free,
    .write = host_write,
    .read = host_read,
    .copy = host_copy,
    .sync = host_sync,
};
