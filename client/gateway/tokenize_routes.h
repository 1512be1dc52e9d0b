/* Text to tokens and back, in the shapes of vLLM and llama.cpp. */
#ifndef CLIENT_GATEWAY_TOKENIZE_ROUTES_H
#define CLIENT_GATEWAY_TOKENIZE_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

/* /tokenize: {"prompt"} or {"messages"} -> {"count","max_model_len","tokens","token_strs"};
 * {"content"} -> {"tokens"} */
void tokenize_serve(struct gateway *g, const struct http_request *q, struct http_reply *r);
/* /detokenize: {"tokens"} -> {"prompt","content"}, the same text twice */
void detokenize_serve(struct gateway *g, const struct http_request *q, struct http_reply *r);
/* /apply-template: {"messages"} -> {"prompt"} */
void apply_template_serve(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
