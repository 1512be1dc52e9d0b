/* Answers of /v1/responses: a form of answer_form.h. */
#ifndef CLIENT_GATEWAY_RESPONSES_FORM_H
#define CLIENT_GATEWAY_RESPONSES_FORM_H

#include "client/gateway/answer_form.h"
#include "client/gateway/responses_request.h"

extern const struct answer_form responses_form;

/* The form's ctx, which it releases; model: the name that the answer shows.  NULL: no memory. */
void *responses_answer_create(const struct responses_request *q, const char *model);

#endif
