#include "client/gateway/call_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { FIRST_SLOTS = 64 };

static size_t *bucket_of(const struct call_table *t, const char *id)
{
    return &t->bucket[hash_bytes(0, id, strlen(id)) & (t->n - 1)];
}

static void link_slot(struct call_table *t, size_t i)
{
    size_t *bucket = bucket_of(t, t->slot[i].id);
    t->slot[i].next_same_hash = *bucket;
    *bucket = i + 1;
}

/* All slots are in use. */
static enum status grow(struct call_table *t)
{
    size_t n = t->n ? 2 * t->n : FIRST_SLOTS;
    size_t *bucket = calloc(n, sizeof *bucket);
    struct call_slot *slot = bucket ? realloc(t->slot, n * sizeof *slot) : NULL;
    if (!slot) {
        free(bucket);
        FAIL(ST_NOMEM, "no memory for %zu requests", n);
    }
    memset(slot + t->n, 0, (n - t->n) * sizeof *slot);
    free(t->bucket);
    size_t old = t->n;
    *t = (struct call_table){.slot = slot, .n = n, .n_used = t->n_used, .bucket = bucket};
    for (size_t i = 0; i < old; i++)
        link_slot(t, i);
    for (size_t i = n; i > old; i--) {
        slot[i - 1].next_same_hash = t->first_free;
        t->first_free = i;
    }
    return ST_OK;
}

enum status call_table_add(struct call_table *t, const char *id, size_t *slot)
{
    if (!t->first_free)
        TRY(grow(t));
    size_t i = t->first_free - 1;
    t->first_free = t->slot[i].next_same_hash;
    t->slot[i] = (struct call_slot){.packed = NULL};
    snprintf(t->slot[i].id, sizeof t->slot[i].id, "%s", id);
    link_slot(t, i);
    t->n_used++;
    *slot = i;
    return ST_OK;
}

struct call_slot *call_table_find(const struct call_table *t, const char *id)
{
    size_t i = t->n ? *bucket_of(t, id) : 0;
    while (i && strcmp(t->slot[i - 1].id, id) != 0)
        i = t->slot[i - 1].next_same_hash;
    return i ? &t->slot[i - 1] : NULL;
}

void call_table_remove(struct call_table *t, struct call_slot *s)
{
    size_t i = (size_t)(s - t->slot) + 1, *at = bucket_of(t, s->id);
    while (*at != i)
        at = &t->slot[*at - 1].next_same_hash;
    *at = s->next_same_hash;
    ingot_packed_free(s->packed);
    ingot_packed_free(s->next_packed);
    *s = (struct call_slot){.next_same_hash = t->first_free};
    t->first_free = i;
    t->n_used--;
}

void call_table_fini(struct call_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        ingot_packed_free(t->slot[i].packed);
        ingot_packed_free(t->slot[i].next_packed);
    }
    free(t->slot);
    free(t->bucket);
    *t = (struct call_table){0};
}
