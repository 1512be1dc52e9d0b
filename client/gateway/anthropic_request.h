/* The body of /v1/messages and of /v1/messages/count_tokens -> struct answer_request.
 *
 * Fields are of the three classes of openai_request.h.  Besides Anthropic's own fields those of request_fields.h are
 * taken (seed, min_p, ...). */
#ifndef CLIENT_GATEWAY_ANTHROPIC_REQUEST_H
#define CLIENT_GATEWAY_ANTHROPIC_REQUEST_H

#include "client/gateway/request_fields.h"

struct anthropic_request {
    struct answer_request of;
    bool hide_thinking; /* its blocks come without their text */
    /* its own */
    struct text_buf system;
    bool no_tools, prefilled;   /* prefilled: the last turn is the beginning of the answer */
    struct request_turns turns; /* the first is the system's */
    struct request_variables variables;
};

/* count: of count_tokens, where max_tokens may be missing.  On failure status_text() says why and param where;
 * anthropic_request_free in both cases. */
MUST_CHECK enum status anthropic_request_read(struct anthropic_request *q, bool count,
                                              const char *body, size_t n_body,
                                              char param[JSON_PATH_SIZE]);
void anthropic_request_free(struct anthropic_request *q);

/* anthropic_messages.c: messages, system and tools as the chat template wants them. */
MUST_CHECK enum status anthropic_read_messages(struct anthropic_request *q, struct json_cursor *c);
MUST_CHECK enum status anthropic_read_system(struct anthropic_request *q, struct json_cursor *c);
MUST_CHECK enum status anthropic_read_tools(struct anthropic_request *q, struct json_cursor *c);

#endif
