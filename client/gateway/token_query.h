/* One query of the coordinator's tokenizer or chat template for one reply: it is sent, and its result becomes the
 * reply's JSON.  The loop does not wait; a client that goes away ends it. */
#ifndef CLIENT_GATEWAY_TOKEN_QUERY_H
#define CLIENT_GATEWAY_TOKEN_QUERY_H

#include "client/gateway/http_server.h"
#include "client/gateway/upstream.h"
#include "common/json/json_write.h"

/* Writes the body.  ev: INGOT_EVENT_TOKENS or INGOT_EVENT_TEXT; max_ctx: the model's, in tokens. */
typedef void token_query_body(struct json_writer *w, const struct ingot_event *ev,
                              uint32_t max_ctx);

/* Each takes the reply over.  prompt: the name that errors give to the field with the text.  The upstream is
 * connected, texts are borrowed for the call. */
void token_query_tokenize(struct upstream *u, struct http_reply *r, const char *text, size_t n,
                          bool add_special, bool token_text, token_query_body *body,
                          const char *prompt);
void token_query_detokenize(struct upstream *u, struct http_reply *r, const int32_t *ids, size_t n,
                            token_query_body *body);
/* The text of the request's turns, and its tokens. */
void token_query_template(struct upstream *u, struct http_reply *r, struct ingot_request *request,
                          token_query_body *body);
void token_query_tokenize_chat(struct upstream *u, struct http_reply *r,
                               const struct ingot_request *request, bool add_special,
                               bool token_text, token_query_body *body);

#endif
