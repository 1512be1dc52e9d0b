/* Answers of /api/chat and /api/generate: a form of answer_form.h, lines of JSON. */
#ifndef CLIENT_GATEWAY_OLLAMA_FORM_H
#define CLIENT_GATEWAY_OLLAMA_FORM_H

#include "client/gateway/answer_form.h"
#include "client/gateway/ollama_request.h"

extern const struct answer_form ollama_form;

/* The form's ctx, which it releases; model: the name that the answer shows.  NULL: no memory. */
void *ollama_answer_create(const struct ollama_request *q, const char *model);

/* The answer to a request without a prompt. */
void ollama_write_loaded(struct json_writer *w, const struct ollama_request *q, const char *model);

/* {"error":message} */
void ollama_write_error(struct json_writer *w, int status, const char *message, const char *param);

#endif
