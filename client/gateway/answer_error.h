/* Failures of the coordinator and of libingot in the terms of HTTP. */
#ifndef CLIENT_GATEWAY_ANSWER_ERROR_H
#define CLIENT_GATEWAY_ANSWER_ERROR_H

#include "client/gateway/answer_form.h"

/* An INGOT_EVENT_ERROR; texts are borrowed.  ready: the server has a worker group. */
struct answer_error answer_error_of(const struct ingot_event *ev, bool ready);

/* The failure that a sample's end is; status 0: it ended well. */
struct answer_error answer_error_of_reason(enum ingot_reason reason);

/* Sets retry-after-ms and retry-after where trying again helps. */
void answer_error_headers(struct http_reply *r, const struct answer_error *e);

#endif
