#include "ptx/ptx_memory.h"

#include <stdlib.h>
#include <string.h>

/* The first region that ends behind address. */
static size_t search(const struct ptx_memory *m, uint64_t address)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct ptx_region *r = &m->region[mid];
        if ((uint64_t)(uintptr_t)r->at + r->bytes <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool contains(const struct ptx_region *r, uint64_t address, size_t n)
{
    uint64_t from = (uint64_t)(uintptr_t)r->at;
    return address >= from && n <= r->bytes && address - from <= r->bytes - n;
}

struct ptx_region *ptx_memory_find(struct ptx_memory *m, uint64_t address, size_t n)
{
    if (m->recent < m->n && contains(&m->region[m->recent], address, n))
        return &m->region[m->recent];
    size_t i = search(m, address);
    if (i == m->n || !contains(&m->region[i], address, n))
        return NULL;
    m->recent = i;
    return &m->region[i];
}

enum status ptx_memory_add(struct ptx_memory *m, void *at, size_t bytes, bool tracked)
{
    struct ptx_region *more = realloc(m->region, (m->n + 1) * sizeof *more);
    struct ptx_region r = {.at = at, .bytes = bytes};
    if (more)
        m->region = more;
    if (tracked)
        r.state = calloc(bytes + 1, 1);
    r.marks = ptx_marks_create(bytes);
    if (!more || (tracked && !r.state) || !r.marks) {
        free(r.state);
        ptx_marks_destroy(r.marks, bytes);
        FAIL(ST_NOMEM, "no memory for the state of %zu bytes", bytes);
    }
    size_t i = search(m, (uint64_t)(uintptr_t)at);
    memmove(m->region + i + 1, m->region + i, (m->n - i) * sizeof *m->region);
    m->region[i] = r;
    m->n++;
    return ST_OK;
}

static void release(struct ptx_region *r)
{
    free(r->state);
    ptx_marks_destroy(r->marks, r->bytes);
}

enum status ptx_memory_remove(struct ptx_memory *m, const void *at)
{
    size_t i = search(m, (uint64_t)(uintptr_t)at);
    if (i == m->n || m->region[i].at != at)
        FAIL(ST_NOT_FOUND, "no memory begins at %p", at);
    release(&m->region[i]);
    m->n--;
    memmove(m->region + i, m->region + i + 1, (m->n - i) * sizeof *m->region);
    return ST_OK;
}

void ptx_memory_fini(struct ptx_memory *m)
{
    for (size_t i = 0; i < m->n; i++)
        release(&m->region[i]);
    free(m->region);
    *m = (struct ptx_memory){0};
}

/* The states of n bytes; NULL: they are no device memory, or all defined. */
static uint8_t *states(struct ptx_memory *m, const void *at, size_t n)
{
    struct ptx_region *r = ptx_memory_find(m, (uint64_t)(uintptr_t)at, n);
    return r && r->state ? r->state + ((const uint8_t *)at - r->at) : NULL;
}

void ptx_memory_define(struct ptx_memory *m, const void *at, size_t n)
{
    uint8_t *s = states(m, at, n);
    if (s)
        memset(s, PTX_DEFINED, n);
}

void ptx_memory_forget(struct ptx_memory *m, const void *at, size_t n)
{
    uint8_t *s = states(m, at, n);
    if (s)
        memset(s, PTX_UNDEFINED, n);
}

void ptx_memory_copy_state(struct ptx_memory *m, const void *dst, const void *src, size_t n)
{
    uint8_t *to = states(m, dst, n), *from = states(m, src, n);
    if (to && from)
        memmove(to, from, n);
    else if (to)
        memset(to, PTX_DEFINED, n);
}

enum status ptx_memory_check(struct ptx_memory *m, const void *at, size_t n)
{
    const uint8_t *s = states(m, at, n);
    const uint8_t *bad = s && n ? memchr(s, PTX_UNDEFINED, n) : NULL;
    if (bad)
        FAIL(ST_BUG, "the host reads %zu bytes, of which byte %zu was never written", n,
             (size_t)(bad - s));
    return ST_OK;
}
