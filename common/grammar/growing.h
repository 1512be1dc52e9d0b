/* Arrays that grow by doubling, up to a bound of their own: the memory of grammars and their automata.  A macro makes
 * room, so that each array keeps its element's type.
 *
 *     TRY(GROW(&p->nodes, &p->cap_nodes, p->n_nodes + 1, MAX_NODES, "the grammar's nodes"));
 */
#ifndef COMMON_GRAMMAR_GROWING_H
#define COMMON_GRAMMAR_GROWING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"

/* Makes room for need elements of size bytes.  ST_RANGE: more than max; ST_NOMEM. */
MUST_CHECK static inline enum status grow_array(void **array, uint32_t *cap, size_t need,
                                                size_t max, size_t size, const char *what)
{
    if (need <= *cap)
        return ST_OK;
    if (need > max)
        FAIL(ST_RANGE, "%s: more than %zu", what, max);
    size_t room = *cap ? *cap : 64;
    while (room < need)
        room *= 2;
    if (room > max)
        room = max;
    void *data = realloc(*array, room * size);
    if (!data)
        FAIL(ST_NOMEM, "%s: no memory for %zu of them", what, room);
    *array = data;
    *cap = (uint32_t)room;
    return ST_OK;
}

#define GROW(array, cap, need, max, what)                                                          \
    grow_array((void **)(array), (cap), (need), (max), sizeof **(array), (what))

/* Gives the memory beyond `keep` elements back, as far as realloc does. */
static inline void shrink_array(void **array, uint32_t *cap, size_t keep, size_t size)
{
    size_t room = keep > 64 ? keep : 64;
    void *data = room < *cap ? realloc(*array, room * size) : NULL;
    if (!data)
        return;
    *array = data;
    *cap = (uint32_t)room;
}

#define SHRINK(array, cap, keep) shrink_array((void **)(array), (cap), (keep), sizeof **(array))

#endif
