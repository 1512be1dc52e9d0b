/* Queries that run at the coordinator and are answered by one event each: of text, of figures.  They are not sent again
 * when the connection is lost.  The loop's thread alone. */
#ifndef CLIENT_GATEWAY_QUERY_SLOTS_H
#define CLIENT_GATEWAY_QUERY_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "client/lib/ingot.h"
#include "common/status.h"

struct upstream_call;

struct query_slot {
    struct upstream_call *call; /* NULL: the slot is free, or its call has gone */
    char id[INGOT_ID_SIZE];     /* "": the slot is free */
};

struct query_slots {
    struct query_slot *slot; /* [n] */
    size_t n;
    uint64_t serial;
};

/* Takes a slot and makes its id. */
MUST_CHECK enum status query_slots_take(struct query_slots *q, struct upstream_call *call,
                                        size_t *slot);
/* NULL: none of that id. */
struct query_slot *query_slots_find(const struct query_slots *q, const char *id);
void query_slots_fini(struct query_slots *q);

#endif
