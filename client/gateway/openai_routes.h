/* The paths of OpenAI's API. */
#ifndef CLIENT_GATEWAY_OPENAI_ROUTES_H
#define CLIENT_GATEWAY_OPENAI_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

void openai_serve_chat(struct gateway *g, const struct http_request *q, struct http_reply *r);
void openai_serve_completions(struct gateway *g, const struct http_request *q,
                              struct http_reply *r);
void openai_serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r);
/* /v1/models/NAME */
void openai_serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
