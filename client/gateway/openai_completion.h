/* The form of answers of /v1/completions: its ctx is a struct openai_head. */
#ifndef CLIENT_GATEWAY_OPENAI_COMPLETION_H
#define CLIENT_GATEWAY_OPENAI_COMPLETION_H

#include "client/gateway/openai_json.h"

extern const struct answer_form openai_completion_form;

/* NULL: no memory. */
struct openai_head *openai_completion_create(const struct openai_request *q, const char *model);

#endif
