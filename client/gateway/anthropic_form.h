/* Answers of /v1/messages: a form of answer_form.h. */
#ifndef CLIENT_GATEWAY_ANTHROPIC_FORM_H
#define CLIENT_GATEWAY_ANTHROPIC_FORM_H

#include "client/gateway/answer_form.h"
#include "client/gateway/anthropic_request.h"

extern const struct answer_form anthropic_form;

/* The form's ctx, which it releases; model: the name that the answer shows.  NULL: no memory. */
void *anthropic_answer_create(const struct anthropic_request *q, const char *model);

/* {"type":"error","error":{"type":...,"message":...}} */
void anthropic_write_error(struct json_writer *w, int status, const char *message,
                           const char *param);

#endif
