/* In whose name a request runs, within which limits, and under which id: what a route adds to a request before it goes
 * to the coordinator.
 *
 * Idempotency-Key: the request gets an id that is made of the key's text, in the tenant's own name space.  The
 * coordinator then knows a repetition, through whichever gateway it comes: the same body attaches to the running answer
 * or gets the finished one from its beginning (kept for 30 s), another body is refused (422).  Such a request goes on
 * for --resume-grace when its client has gone.  Without API keys only clients on this machine may use it: all of them
 * are one tenant. */
#ifndef CLIENT_GATEWAY_SCOPE_H
#define CLIENT_GATEWAY_SCOPE_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"
#include "common/sha256.h"

struct scope { /* what the request points to: as long as it is being sent */
    struct caller caller;
    char id[INGOT_ID_SIZE];
    uint8_t body_digest[SHA256_BYTES];
};

struct scope_refusal {
    int status; /* 400, 401, 403 or 503 */
    const char *message;
    const char *param; /* path of the field at fault, or "" */
    uint32_t retry_after_ms;
};

/* Sets tenant, limits, grace, and with an Idempotency-Key request_id and client_digest.  ask: with its priority.
 * false: *no says why; the route answers in its own form. */
bool scope_apply(struct scope *s, const struct gateway *g, const struct http_request *q,
                 const struct http_reply *r, struct ingot_request *ask, struct scope_refusal *no);

#endif
