/* Failures of the coordinator and of libingot as answers of HTTP. */
#ifndef CLIENT_GATEWAY_OPENAI_ERROR_H
#define CLIENT_GATEWAY_OPENAI_ERROR_H

#include "client/gateway/http_server.h"
#include "client/gateway/openai_request.h"

struct openai_error {
    int status;
    const char *message;
    char param[64];          /* "": none */
    uint32_t retry_after_ms; /* 0: trying again does not help */
};

/* An INGOT_EVENT_ERROR; the message is borrowed.  ready: the server has a worker group. */
struct openai_error openai_error_of(const struct ingot_event *ev, enum openai_form form,
                                    bool ready);

/* Ends the reply with it. */
void openai_error_send(struct http_reply *r, const struct openai_error *e);

#endif
