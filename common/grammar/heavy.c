#include "common/grammar/heavy.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

static struct heavy_entry *place_of(const struct heavy *h, uint32_t key)
{
    uint32_t at = (uint32_t)hash_mix(key) & (h->cap - 1);
    while (h->entries[at].key && h->entries[at].key != key + 1)
        at = (at + 1) & (h->cap - 1);
    return &h->entries[at];
}

static enum status grow(struct heavy *h)
{
    struct heavy old = *h;
    h->cap = old.cap ? 2 * old.cap : 64;
    h->entries = calloc(h->cap, sizeof *h->entries);
    if (!h->entries) {
        *h = old;
        FAIL(ST_NOMEM, "no memory for a grammar's automaton");
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.entries[i].key)
            *place_of(h, old.entries[i].key - 1) = old.entries[i];
    free(old.entries);
    return ST_OK;
}

enum status heavy_add(struct heavy *h, uint32_t key, uint32_t steps)
{
    if (2 * (h->n + 1) > h->cap)
        TRY(grow(h));
    struct heavy_entry *e = place_of(h, key);
    h->n += e->key == 0;
    *e = (struct heavy_entry){.key = key + 1, .steps = steps};
    return ST_OK;
}

void heavy_begin(struct heavy *h)
{
    if (++h->number)
        return;
    for (uint32_t i = 0; i < h->cap; i++) /* the numbers begin anew */
        h->entries[i].number = 0;
    h->number = 1;
}

uint32_t heavy_count(struct heavy *h, uint32_t key)
{
    struct heavy_entry *e = place_of(h, key);
    if (e->number == h->number)
        return 0;
    e->number = h->number;
    return e->steps;
}

void heavy_clear(struct heavy *h)
{
    if (h->cap)
        memset(h->entries, 0, h->cap * sizeof *h->entries);
    h->n = 0;
}

void heavy_fini(struct heavy *h)
{
    free(h->entries);
    *h = (struct heavy){0};
}

size_t heavy_bytes(const struct heavy *h)
{
    return h->cap * sizeof *h->entries;
}
