/* The body of an OpenAI request -> struct answer_request and the options of its form.
 *
 * Fields are of three classes: served; accepted without effect (a list); all others are refused by name, and so are
 * values that the gateway cannot honour.  null is absent. */
#ifndef CLIENT_GATEWAY_OPENAI_REQUEST_H
#define CLIENT_GATEWAY_OPENAI_REQUEST_H

#include "client/gateway/request_fields.h"

enum openai_form { OPENAI_CHAT = 1, OPENAI_COMPLETION = 2 };

struct openai_request {
    enum openai_form form;
    struct answer_request of;
    bool include_usage, continuous_usage; /* of a stream */
    bool logprobs, token_ids, echo;
    bool prompt_logprobs; /* vLLM's field; with prompt_top alternatives */
    uint32_t prompt_top;
    bool hide_reasoning; /* it is told from content, and not shown */
    /* its own */
    uint32_t max_completion_tokens;
    uint32_t best_of; /* 0: absent */
    bool has_tool_choice, no_tools, has_stream_options, has_top_logprobs;
    struct request_variables variables;
};

struct openai_refusal {
    char param[JSON_PATH_SIZE]; /* "": none */
};

/* Reads the body.  On failure status_text() says why and *refusal where; answer_request_free(&q->of) in both cases. */
MUST_CHECK enum status openai_request_read(struct openai_request *q, enum openai_form form,
                                           const char *body, size_t n_body,
                                           struct openai_refusal *refusal);

/* ---- for the readers of fields ---- */

/* openai_messages.c: messages and tools as the chat template wants them. */
MUST_CHECK enum status openai_read_messages(struct openai_request *q, struct json_cursor *c);
MUST_CHECK enum status openai_read_tools(struct openai_request *q, struct json_cursor *c);

/* A string that holds an object, as that object: a call's arguments, which templates write themselves. */
MUST_CHECK enum status openai_write_arguments(struct json_writer *w, struct json_cursor *c);

/* openai_prompt.c: the prompts of a completion, or the input of embeddings: at most that many. */
MUST_CHECK enum status openai_read_prompts(struct answer_request *q, struct json_cursor *c,
                                           size_t most);

#endif
