#include "coordinator/jinja/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

struct jmem_chunk {
    struct jmem_chunk *next;
    size_t size;
    _Alignas(ALIGN) char bytes[]; /* [size], and as many marks */
};

void jmem_init(struct jmem *m, size_t max)
{
    *m = (struct jmem){.max = max};
}

void jmem_fini(struct jmem *m)
{
    while (m->chunks) {
        struct jmem_chunk *next = m->chunks->next;
        free(m->chunks);
        m->chunks = next;
    }
    *m = (struct jmem){.max = m->max, .marked = m->marked};
}

/* A chunk that holds n bytes; chunks double up to LARGEST_CHUNK so that small renderings stay
 * small. */
static bool add_chunk(struct jmem *m, size_t n)
{
    size_t size = m->chunks ? m->chunks->size * 2 : FIRST_CHUNK;
    if (size > LARGEST_CHUNK)
        size = LARGEST_CHUNK;
    if (size < n)
        size = n;
    if (size > m->max - m->used)
        size = n;
    if (size > m->max - m->used)
        return false;
    if (m->marked && size > SIZE_MAX / 4)
        return false;
    struct jmem_chunk *c = malloc(sizeof *c + size + (m->marked ? size : 0));
    if (!c)
        return false;
    if (m->marked)
        memset(c->bytes + size, 1, size);
    c->next = m->chunks;
    c->size = size;
    m->chunks = c;
    m->used += size;
    m->at = c->bytes;
    m->end = c->bytes + size;
    return true;
}

void *jmem_alloc(struct jmem *m, size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (n > (size_t)(m->end - m->at) && !add_chunk(m, n))
        return NULL;
    void *p = m->at;
    m->at += n;
    return p;
}

void *jmem_array(struct jmem *m, size_t count, size_t size)
{
    if (count > SIZE_MAX / 4 / size)
        return NULL;
    return jmem_alloc(m, count * size);
}

static const struct jmem_chunk *chunk_of(const struct jmem *m, const void *p)
{
    const struct jmem_chunk *c = m->chunks;
    while (c &&
           ((uintptr_t)p < (uintptr_t)c->bytes || (uintptr_t)p - (uintptr_t)c->bytes >= c->size))
        c = c->next;
    return c;
}

bool jmem_has(const struct jmem *m, const void *p)
{
    return chunk_of(m, p) != NULL;
}

char *jmem_mark(const struct jmem *m, const void *p)
{
    const struct jmem_chunk *c = m->marked ? chunk_of(m, p) : NULL;
    return c ? (char *)(uintptr_t)c->bytes + c->size + ((const char *)p - c->bytes) : NULL;
}

enum status jmem_full(const struct jmem *m)
{
    FAIL(ST_NOMEM, "needs more than the %zu bytes of memory it may have", m->max);
}
