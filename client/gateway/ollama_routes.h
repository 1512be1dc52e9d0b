/* The paths of Ollama's API. */
#ifndef CLIENT_GATEWAY_OLLAMA_ROUTES_H
#define CLIENT_GATEWAY_OLLAMA_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

void ollama_serve_chat(struct gateway *g, const struct http_request *q, struct http_reply *r);
void ollama_serve_generate(struct gateway *g, const struct http_request *q, struct http_reply *r);
void ollama_serve_tags(struct gateway *g, const struct http_request *q, struct http_reply *r);
void ollama_serve_show(struct gateway *g, const struct http_request *q, struct http_reply *r);
void ollama_serve_ps(struct gateway *g, const struct http_request *q, struct http_reply *r);
/* /api/pull and others that change the models */
void ollama_refuse_management(struct gateway *g, const struct http_request *q,
                              struct http_reply *r);

#endif
