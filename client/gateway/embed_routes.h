/* /v1/embeddings, /api/embed and /api/embeddings; /v1/rerank and /v1/score. */
#ifndef CLIENT_GATEWAY_EMBED_ROUTES_H
#define CLIENT_GATEWAY_EMBED_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

void embed_serve_openai(struct gateway *g, const struct http_request *q, struct http_reply *r);
void embed_serve_rerank(struct gateway *g, const struct http_request *q, struct http_reply *r);
void embed_serve_score(struct gateway *g, const struct http_request *q, struct http_reply *r);
void embed_serve_ollama(struct gateway *g, const struct http_request *q, struct http_reply *r);
/* Ollama's older call: one prompt. */
void embed_serve_ollama_one(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
