/* One answer: a request of OpenAI's form that runs at the coordinator, as a stream of chunks or as a whole. */
#ifndef CLIENT_GATEWAY_OPENAI_ANSWER_H
#define CLIENT_GATEWAY_OPENAI_ANSWER_H

#include "client/gateway/http_server.h"
#include "client/gateway/openai_request.h"
#include "client/gateway/upstream.h"

/* Sends the request and takes over the reply: the answer goes there, whatever happens.  q is borrowed; model: the name
 * that the answer shows.  The upstream is connected. */
void openai_answer_start(struct upstream *u, struct http_reply *r, struct openai_request *q,
                         const char *model);

#endif
