/* The body of /v1/responses -> struct answer_request.  Nothing is stored: each request has its whole input.
 *
 * Fields are of the three classes of openai_request.h; those of request_fields.h are taken too. */
#ifndef CLIENT_GATEWAY_RESPONSES_REQUEST_H
#define CLIENT_GATEWAY_RESPONSES_REQUEST_H

#include "client/gateway/request_fields.h"

/* Fields that the answer repeats. */
enum responses_echo {
    ECHO_INSTRUCTIONS,
    ECHO_MAX_OUTPUT_TOKENS,
    ECHO_METADATA,
    ECHO_REASONING,
    ECHO_TEMPERATURE,
    ECHO_TOOL_CHOICE,
    ECHO_TOOLS,
    ECHO_TOP_P,
    RESPONSES_N_ECHOES
};

struct responses_request {
    struct answer_request of;
    struct json_span echo[RESPONSES_N_ECHOES]; /* as they came, of the body; n 0: not given */
    /* its own */
    bool no_tools;
    struct request_turns turns; /* the first is that of the instructions */
    struct request_variables variables;
};

/* On failure status_text() says why and param where; responses_request_free in both cases. */
MUST_CHECK enum status responses_request_read(struct responses_request *q, const char *body,
                                              size_t n_body, char param[JSON_PATH_SIZE]);
void responses_request_free(struct responses_request *q);

/* responses_input.c: the input's items as the messages of a chat template. */
MUST_CHECK enum status responses_read_input(struct responses_request *q, struct json_cursor *c);

#endif
