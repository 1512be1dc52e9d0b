/* What a request's path means: the table of routes.  Called by the HTTP server, from its loop. */
#ifndef CLIENT_GATEWAY_GATEWAY_H
#define CLIENT_GATEWAY_GATEWAY_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

/* The handler of the HTTP server; ctx is the struct gateway. */
bool gateway_wants_body(void *ctx, const struct http_request *head);
void gateway_request(void *ctx, const struct http_request *q, struct http_reply *r);
void gateway_ended(void *ctx, const struct http_outcome *o);

#endif
