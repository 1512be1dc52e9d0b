/* The coordinator as the gateway's loop sees it: one connection through libingot, made again when it breaks,
 * and the requests that run over it.
 *
 * Connecting waits, so a thread does it and hands the client to the loop; all else is the loop's.  While there is
 * no connection upstream_server is NULL.  When a connection is lost its requests wait for the next one, to the same
 * coordinator or to another one of the list, and are sent again: the answers go on where they were (replay.h).  After
 * resume_grace_ms without a connection they end with an INGOT_EVENT_ERROR of code INGOT_PEER. */
#ifndef CLIENT_GATEWAY_UPSTREAM_H
#define CLIENT_GATEWAY_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "client/gateway/request_log.h"
#include "client/lib/ingot.h"
#include "common/secret.h"
#include "common/status.h"

struct event_base;
struct upstream;

/* One request; part of its owner, at one place as long as it runs. */
struct upstream_call {
    void (*event)(struct upstream_call *call, const struct ingot_event *ev);
    struct request_log *log; /* gets the events too; or NULL */
    size_t part;             /* of several requests with one request_id: which */
    /* the upstream's */
    bool running; /* until its terminal event or upstream_cancel */
    size_t slot;
    struct replay *replay;
};

struct upstream_config {
    const char *const
        *endpoints; /* coordinators of one service, tried in order; borrowed, as the secret */
    size_t n_endpoints;
    const struct secret *secret; /* of the service */
    uint32_t resume_grace_ms;
    bool needs_tenants; /* requests name tenants: a coordinator that refuses them is no use */
};

/* It begins to connect at once. */
MUST_CHECK enum status upstream_create(struct upstream **out, struct event_base *base,
                                       const struct upstream_config *cfg);
/* No call may be running.  NULL is fine. */
void upstream_destroy(struct upstream *u);

/* The server at the other end, or NULL. */
const struct ingot_server *upstream_server(const struct upstream *u);
/* Is it connected, and has the server a worker group and takes requests? */
bool upstream_is_ready(const struct upstream *u);

/* Sends the request; its events come through call->event, from the loop.  request_id NULL: one is chosen here.  Else
 * the client has chosen it, and the request may run already: call gets its answer from the beginning, and the call that
 * had it ends with an INGOT_EVENT_ERROR of field "request_id".  On failure, ingot_last_error has the text, and there are
 * no events. */
enum ingot_code upstream_generate(struct upstream *u, struct upstream_call *call,
                                  const struct ingot_request *request);
/* Queries of text, in the same way: one event, INGOT_EVENT_TOKENS, INGOT_EVENT_TEXT or INGOT_EVENT_ERROR. */
enum ingot_code upstream_tokenize(struct upstream *u, struct upstream_call *call, const char *text,
                                  size_t n, bool add_special);
/* Special tokens are part of the text. */
enum ingot_code upstream_detokenize(struct upstream *u, struct upstream_call *call,
                                    const int32_t *ids, size_t n);
/* Renders the request's turns; request_id is chosen here. */
enum ingot_code upstream_apply_template(struct upstream *u, struct upstream_call *call,
                                        const struct ingot_request *request);
/* The server's figures: one event, INGOT_EVENT_STATS or INGOT_EVENT_ERROR. */
enum ingot_code upstream_stats(struct upstream *u, struct upstream_call *call);
/* Cancels at the server; there are no further events.  Nothing when it does not run. */
void upstream_cancel(struct upstream *u, struct upstream_call *call);
/* Its client has gone: the same, but a request whose id the client has chosen goes on for resume_grace_ms. */
void upstream_abandon(struct upstream *u, struct upstream_call *call);

#endif
