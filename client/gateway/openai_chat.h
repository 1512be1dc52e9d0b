/* The form of answers of /v1/chat/completions: its ctx is a struct openai_head. */
#ifndef CLIENT_GATEWAY_OPENAI_CHAT_H
#define CLIENT_GATEWAY_OPENAI_CHAT_H

#include "client/gateway/openai_json.h"

extern const struct answer_form openai_chat_form;

/* stream: the answer is one.  NULL: no memory. */
struct openai_head *openai_chat_create(const struct openai_request *q, const char *model);

#endif
