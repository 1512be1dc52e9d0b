#include "coordinator/jinja/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

struct jmem_chunk {
    struct jmem_chunk *next;
    size_t size;
    _Alignas(ALIGN) char bytes[];
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
    jmem_init(m, m->max);
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
    struct jmem_chunk *c = malloc(sizeof *c + size);
    if (!c)
        return false;
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

enum status jmem_full(const struct jmem *m)
{
    FAIL(ST_NOMEM, "needs more than the %zu bytes of memory it may have", m->max);
}
