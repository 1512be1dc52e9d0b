/* tool_choice of OpenAI's two APIs and of Anthropic's: whether the answer must call tools, and which. */
#ifndef CLIENT_GATEWAY_TOOL_CHOICE_H
#define CLIENT_GATEWAY_TOOL_CHOICE_H

#include "client/gateway/answer_request.h"
#include "common/json/json_read.h"

enum tool_choice_form {
    TOOL_CHOICE_CHAT,      /* "auto", ..., {"type": "function", "function": {"name"}} */
    TOOL_CHOICE_RESPONSES, /* "auto", ..., {"type": "function", "name"} */
    TOOL_CHOICE_ANTHROPIC, /* {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"} */
};

/* Sets q->ask.tool_choice, and q->one_call where the form has it.  *none: the tools are not to be called. */
MUST_CHECK enum status tool_choice_read(struct answer_request *q, struct json_cursor *c,
                                        enum tool_choice_form form, bool *none);
/* When the whole request has been read: are there tools, and the named one? */
MUST_CHECK enum status tool_choice_check(const struct answer_request *q);

#endif
