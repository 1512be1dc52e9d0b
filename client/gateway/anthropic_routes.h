/* The paths of Anthropic's API. */
#ifndef CLIENT_GATEWAY_ANTHROPIC_ROUTES_H
#define CLIENT_GATEWAY_ANTHROPIC_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

void anthropic_serve_messages(struct gateway *g, const struct http_request *q,
                              struct http_reply *r);
void anthropic_serve_count(struct gateway *g, const struct http_request *q, struct http_reply *r);

/* Does the client speak Anthropic's API where a path belongs to OpenAI's too? */
bool anthropic_asks(const struct http_request *q);
/* /v1/models and /v1/models/NAME for such a client */
void anthropic_serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r);
void anthropic_serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
