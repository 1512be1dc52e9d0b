/* The coordinator as the gateway's loop sees it: one connection through libingot, made again when it breaks,
 * and the requests that run over it.
 *
 * Connecting blocks, so a thread connects and hands the client to the loop; everything else runs in the loop.  While
 * there is no connection, upstream_server returns NULL.  When a connection is lost, its requests wait for the next one,
 * to the same coordinator or to another one of the list, and are sent again; each answer continues where it stopped
 * (replay.h).  After resume_grace_ms without a connection they end with an INGOT_EVENT_ERROR of code INGOT_PEER. */
#ifndef CLIENT_GATEWAY_UPSTREAM_H
#define CLIENT_GATEWAY_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "client/gateway/api_keys.h"
#include "client/gateway/request_log.h"
#include "client/lib/ingot.h"
#include "common/secret.h"
#include "common/status.h"

struct event_base;
struct upstream;

/* One request.  The owner embeds it and must not move it while it runs. */
struct upstream_call {
    void (*event)(struct upstream_call *call, const struct ingot_event *ev);
    struct request_log *log; /* also gets the events; may be NULL */
    size_t part;             /* index among the requests that share one request_id */
    /* private to upstream */
    bool running; /* until its terminal event or upstream_cancel */
    size_t slot;
    struct replay *replay;
};

struct upstream_config {
    const char *const *endpoints; /* coordinators of one service, tried in order; borrowed */
    size_t n_endpoints;
    const struct secret *secret;  /* of the service; borrowed */
    const uint8_t *tenant;        /* [CALLER_TENANT], the gateway's own; copied */
    const char *key, *server_key; /* of ingot_options; borrowed */
    uint32_t resume_grace_ms;
    bool needs_tenants; /* do not use a coordinator that refuses requests which name a tenant */
};

/* Begins to connect at once. */
MUST_CHECK enum status upstream_create(struct upstream **out, struct event_base *base,
                                       const struct upstream_config *cfg);
/* No call may be running.  NULL is fine. */
void upstream_destroy(struct upstream *u);

/* The server at the other end, or NULL. */
const struct ingot_server *upstream_server(const struct upstream *u);
/* True if connected to a server that has a worker group and accepts requests. */
bool upstream_is_ready(const struct upstream *u);

/* Sends the request; its events come through call->event, from the loop.  If request_id is NULL,
 * upstream chooses one.  Otherwise the client has chosen it, and the request may already be running: then call gets the
 * answer from the beginning, and the call that was attached to it ends with an INGOT_EVENT_ERROR of field "request_id".
 * On failure ingot_last_error has the text, and there are no events. */
enum ingot_code upstream_generate(struct upstream *u, struct upstream_call *call,
                                  const struct ingot_request *request);
/* Text queries are sent in the same way; each gives one event: INGOT_EVENT_TOKENS, INGOT_EVENT_TEXT or
 * INGOT_EVENT_ERROR. */
enum ingot_code upstream_tokenize(struct upstream *u, struct upstream_call *call, const char *text,
                                  size_t n, bool add_special, bool want_token_text);
/* Of the prompt that the request's turns make; upstream chooses the request_id. */
enum ingot_code upstream_tokenize_chat(struct upstream *u, struct upstream_call *call,
                                       const struct ingot_request *request, bool add_special,
                                       bool want_token_text);
/* The text includes special tokens. */
enum ingot_code upstream_detokenize(struct upstream *u, struct upstream_call *call,
                                    const int32_t *ids, size_t n);
/* Renders the request's turns; upstream chooses the request_id. */
enum ingot_code upstream_apply_template(struct upstream *u, struct upstream_call *call,
                                        const struct ingot_request *request);
/* Queries the server's statistics: one event, INGOT_EVENT_STATS or INGOT_EVENT_ERROR. */
enum ingot_code upstream_stats(struct upstream *u, struct upstream_call *call);
/* Cancels at the server; there are no further events.  Does nothing if the call is not running. */
void upstream_cancel(struct upstream *u, struct upstream_call *call);
/* For a call whose client has gone: as upstream_cancel, but a request whose id the client has chosen continues for
 * resume_grace_ms. */
void upstream_abandon(struct upstream *u, struct upstream_call *call);

#endif
