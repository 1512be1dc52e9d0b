/* Memory of the CPU backend: buffers, huge pages, nodes; copies between views and the host. */
#define _GNU_SOURCE /* syscall */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#endif

#include "backends/cpu/cpu_backend.h"

enum { HUGE_PAGE = 2 << 20, SMALL_LIMIT = 1 << 20 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t mem_held(size_t bytes)
{
    return bytes == 0 ? 0 : round_up(bytes, bytes < SMALL_LIMIT ? 64 : page_size());
}

/* Large allocations begin at a huge page's boundary; only the last, partial page consists of small
 * ones, so nothing is taken beyond the size. */
static void *map_aligned(size_t held)
{
    size_t all = held + HUGE_PAGE;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *start = (char *)round_up((size_t)p, HUGE_PAGE);
    if (start > p)
        munmap(p, (size_t)(start - p));
    if (start + held < p + all)
        munmap(start + held, (size_t)(p + all - (start + held)));
#ifdef MADV_HUGEPAGE
    madvise(start, held, MADV_HUGEPAGE); /* a hint: small pages work too */
#endif
    return start;
}

enum status mem_take(struct buf *b, size_t bytes)
{
    *b = (struct buf){.bytes = bytes, .held = mem_held(bytes)};
    if (bytes == 0)
        return ST_OK;
    if (bytes > SIZE_MAX / 2)
        FAIL(ST_NOMEM, "%zu bytes are more than there can be", bytes);
    if (bytes >= SMALL_LIMIT) {
        b->data = map_aligned(b->held);
    } else if (posix_memalign(&b->data, 64, b->held) == 0) {
        memset(b->data, 0, b->held);
    } else {
        b->data = NULL;
    }
    if (!b->data)
        FAIL(ST_NOMEM, "no memory for %zu bytes", bytes);
    return ST_OK;
}

bool mem_spread(const struct buf *b, uint64_t nodes)
{
#ifdef __linux__
    unsigned long mask = (unsigned long)nodes;
    return b->bytes >= SMALL_LIMIT && syscall(SYS_mbind, b->data, b->held, MPOL_INTERLEAVE, &mask,
                                              8 * sizeof mask + 1, 0) == 0;
#else
    (void)b;
    (void)nodes;
    return false;
#endif
}

void mem_give(struct buf *b)
{
    bool taken = b->data && b->held > 0;
    if (taken && b->bytes >= SMALL_LIMIT)
        munmap(b->data, b->held);
    else if (taken)
        free(b->data);
    *b = (struct buf){0};
}

enum status cpu_alloc(struct backend *be, size_t bytes, enum mem_kind kind, struct buf **out)
{
    (void)kind; /* all memory is the host's */
    struct buf *b = calloc(1, sizeof *b);
    if (!b)
        FAIL(ST_NOMEM, "no memory for a buffer");
    enum status st = mem_take(b, bytes);
    if (st != ST_OK) {
        free(b);
        return st;
    }
    if (be->nodes & (be->nodes - 1)) /* more than one */
        mem_spread(b, be->nodes);
    *out = b;
    return ST_OK;
}

void cpu_free(struct backend *be, struct buf *b)
{
    (void)be;
    if (!b)
        return;
    mem_give(b);
    free(b);
}

void *cpu_host_ptr(struct backend *be, struct view v)
{
    (void)be;
    return (char *)v.buf->data + v.off;
}

void *cpu_pinned_ptr(struct backend *be, struct buf *b)
{
    (void)be;
    return b->data;
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

static char *first_byte(struct view v)
{
    size_t end = v.rows > 0 ? (size_t)(v.rows - 1) * row_step(v) + row_bytes(v) : 0;
    assert(v.rows >= 0 && v.cols >= 0 && v.stride >= v.cols);
    assert(v.off <= v.buf->bytes && end <= v.buf->bytes - v.off);
    (void)end;
    return (char *)v.buf->data + v.off;
}

/* rows x n bytes; a step is the distance between rows. */
static void copy_rows(char *dst, size_t dst_step, const char *src, size_t src_step, size_t n,
                      int32_t rows)
{
    if (n == 0 || rows == 0)
        return;
    if (dst_step == n && src_step == n) {
        memmove(dst, src, n * (size_t)rows);
        return;
    }
    for (int32_t i = 0; i < rows; i++)
        memmove(dst + (size_t)i * dst_step, src + (size_t)i * src_step, n);
}

enum status cpu_write(struct backend *be, struct view dst, const void *src)
{
    (void)be;
    copy_rows(first_byte(dst), row_step(dst), src, row_bytes(dst), row_bytes(dst), dst.rows);
    return ST_OK;
}

enum status cpu_read(struct backend *be, void *dst, struct view src)
{
    (void)be;
    copy_rows(dst, row_bytes(src), first_byte(src), row_step(src), row_bytes(src), src.rows);
    return ST_OK;
}

enum status cpu_copy(struct backend *be, struct view dst, struct view src)
{
    (void)be;
    assert(dst.rows == src.rows && dst.cols == src.cols && dst.dtype == src.dtype);
    copy_rows(first_byte(dst), row_step(dst), first_byte(src), row_step(src), row_bytes(src),
              src.rows);
    return ST_OK;
}

enum status cpu_zero(struct backend *be, struct view dst)
{
    (void)be;
    char *p = first_byte(dst);
    for (int32_t i = 0; i < dst.rows && dst.cols > 0; i++)
        memset(p + (size_t)i * row_step(dst), 0, row_bytes(dst));
    return ST_OK;
}
