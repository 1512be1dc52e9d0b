/* One answer of any API: a request that runs at the coordinator, one or several prompts with n samples each, shown by
 * its form as a stream or as a whole.
 *
 * It parses the model's text into reasoning, content and tool calls; keeps back what a slow client does not take;
 * cancels when the client goes away or the answer takes too much memory; turns failures into the form's errors.  One
 * thread, the loop's. */
#ifndef CLIENT_GATEWAY_ANSWER_H
#define CLIENT_GATEWAY_ANSWER_H

#include "client/gateway/answer_form.h"
#include "client/gateway/answer_memory.h"
#include "client/gateway/answer_request.h"
#include "client/gateway/http_server.h"
#include "client/gateway/upstream.h"

/* Sends the request and takes over the reply and ctx: the answer goes to the reply, whatever happens, and ctx is
 * released at its end.  q is borrowed for the call, form and memory for good.  The upstream is connected. */
void answer_start(struct upstream *u, struct answer_memory *memory, struct http_reply *r,
                  struct answer_request *q, const struct answer_form *form, void *ctx);

#endif
