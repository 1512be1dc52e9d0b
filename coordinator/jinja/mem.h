/* A bump arena with a cap: all values of one rendering, or all nodes of one template.  Single
 * allocations are never freed.  Owner: its declarer; one thread at a time. */
#ifndef COORDINATOR_JINJA_MEM_H
#define COORDINATOR_JINJA_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct jmem_chunk;

struct jmem {
    struct jmem_chunk *chunks; /* newest first */
    char *at, *end;            /* free part of the newest chunk */
    size_t used;               /* bytes of all chunks */
    size_t max;                /* bytes that used may reach */
    bool marked; /* each byte has a mark, beside those that used counts; set after jmem_init */
};

void jmem_init(struct jmem *m, size_t max);
void jmem_fini(struct jmem *m);

/* n bytes aligned for any value, not cleared;
 * NULL when that would pass the cap or memory ran out. */
void *jmem_alloc(struct jmem *m, size_t n);

/* The same for count things of size bytes; NULL also when the product overflows. */
void *jmem_array(struct jmem *m, size_t count, size_t size);

/* Is p in this arena? */
bool jmem_has(const struct jmem *m, const void *p);
/* The mark of the byte at p, before those of the bytes behind it of the same allocation; 1 until it is changed.  NULL:
 * p is not in this arena, or it is not marked. */
char *jmem_mark(const struct jmem *m, const void *p);

/* What to return after NULL: ST_NOMEM with the cap in the text. */
MUST_CHECK enum status jmem_full(const struct jmem *m);

#endif
