#include "client/gateway/query_slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status find_free(struct query_slots *q, size_t *slot)
{
    for (*slot = 0; *slot < q->n; (*slot)++)
        if (!*q->slot[*slot].id)
            return ST_OK;
    size_t n = q->n ? 2 * q->n : 64;
    struct query_slot *grown = realloc(q->slot, n * sizeof *grown);
    if (!grown)
        FAIL(ST_NOMEM, "no memory for %zu queries", n);
    memset(grown + q->n, 0, (n - q->n) * sizeof *grown);
    q->slot = grown;
    q->n = n;
    return ST_OK;
}

enum status query_slots_take(struct query_slots *q, struct upstream_call *call, size_t *slot)
{
    TRY(find_free(q, slot));
    struct query_slot *s = &q->slot[*slot];
    s->call = call;
    snprintf(s->id, sizeof s->id, "q%zu-%" PRIu64, *slot, ++q->serial);
    return ST_OK;
}

struct query_slot *query_slots_find(const struct query_slots *q, const char *id)
{
    size_t i = *id == 'q' ? (size_t)strtoull(id + 1, NULL, 10) : SIZE_MAX;
    return i < q->n && strcmp(q->slot[i].id, id) == 0 ? &q->slot[i] : NULL;
}

void query_slots_fini(struct query_slots *q)
{
    free(q->slot);
    *q = (struct query_slots){0};
}
