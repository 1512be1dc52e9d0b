/* The tenant, limits and request id of a request.  A route sets them before it sends the request to the coordinator.
 *
 * Idempotency-Key: the request id is derived from the text of the key, within the tenant's name space.  The coordinator
 * therefore recognises a repeated request, also from another gateway.  If the body is the same, the request attaches to
 * the running answer, or gets the finished one (kept for 30 s) from its beginning.  If the body differs, it is refused
 * with status 422.  When its client has gone, such a request continues for --resume-grace-ms.  Without API keys only
 * clients on this machine may use the header, because all clients are then one tenant. */
#ifndef CLIENT_GATEWAY_SCOPE_H
#define CLIENT_GATEWAY_SCOPE_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"
#include "common/sha256.h"

struct scope { /* the ingot_request points into it until it is sent */
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

/* Sets the tenant, limits and grace of ask; with an Idempotency-Key also request_id and client_digest.  The caller has
 * set ask->priority.  Returns false when the request is refused: *no has the reason, and the route writes the error. */
bool scope_apply(struct scope *s, const struct gateway *g, const struct http_request *q,
                 const struct http_reply *r, struct ingot_request *ask, struct scope_refusal *no);

#endif
