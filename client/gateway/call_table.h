/* The requests that run at the coordinator, by the ids under which it knows them.  A table that grows; finding one takes
 * the same time for any number.  The loop's thread alone. */
#ifndef CLIENT_GATEWAY_CALL_TABLE_H
#define CLIENT_GATEWAY_CALL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/ingot.h"
#include "common/status.h"

struct upstream_call;

struct call_slot {
    char id[INGOT_ID_SIZE];      /* "": the slot is free */
    struct ingot_packed *packed; /* NULL: a query, which is not sent again */
    struct upstream_call *call;  /* gets the events; NULL: its client has gone */
    struct upstream_call
        *next; /* has sent the same request, and gets its answer from the beginning */
    struct ingot_packed *next_packed;
    bool query; /* ends by its first event */
    bool named; /* by the client: it can come again */
    bool
        awaits; /* its Accepted has not come since it was sent: what comes before is of another time */
    bool unsent;           /* the connection took nothing when it was to be sent */
    bool cancel_unsent;    /* ... to be cancelled */
    uint64_t abandoned_us; /* since when it goes on without a client; 0: it does not */
    uint64_t lost_us;      /* when its connection was lost; 0: its answer comes */
    unsigned n_short;      /* how often it ended for lack of memory */
    size_t next_same_hash; /* 1 + slot, 0: none */
};

struct call_table {
    struct call_slot *slot; /* [n] */
    size_t n, n_used;
    size_t first_free; /* 1 + slot, linked by next_same_hash; 0: none */
    size_t *bucket;    /* [n] 1 + slot, 0: none; n is a power of two or 0 */
};

/* Takes a slot for a request of that id, which is not in the table. */
MUST_CHECK enum status call_table_add(struct call_table *t, const char *id, size_t *slot);
/* NULL: none of that id.  Valid until the next call_table_add. */
struct call_slot *call_table_find(const struct call_table *t, const char *id);
/* Frees the slot and its requests. */
void call_table_remove(struct call_table *t, struct call_slot *s);
void call_table_fini(struct call_table *t);

#endif
