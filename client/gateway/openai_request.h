/* The body of an OpenAI request -> struct ingot_request and the options of its answer.
 *
 * Fields are of three classes: served; accepted without effect (a list); all others are refused by name, and so are
 * values that the gateway cannot honour.  null is absent. */
#ifndef CLIENT_GATEWAY_OPENAI_REQUEST_H
#define CLIENT_GATEWAY_OPENAI_REQUEST_H

#include "client/lib/ingot.h"
#include "common/json/json_read.h"
#include "common/json/json_write.h"

enum openai_form { OPENAI_CHAT = 1, OPENAI_COMPLETION = 2 };

enum { OPENAI_MAX_CHOICES = 128, OPENAI_MAX_NAME = 256 };

struct openai_prompt { /* text or ids */
    const char *text;
    size_t n_text;
    const int32_t *ids;
    size_t n_ids;
};

struct openai_request {
    enum openai_form form;
    struct ingot_request ask; /* of a completion: without its prompt */
    struct openai_prompt *prompts;
    size_t n_prompts;            /* chat: 1 */
    char model[OPENAI_MAX_NAME]; /* "": not named */
    bool stream, include_usage;
    bool calls; /* the answer may hold tool calls */
    /* its own */
    uint32_t max_completion_tokens;
    bool has_tools, no_tools, has_stream_options;
    struct json_span variables, reasoning_effort;
    void **block; /* all memory of the above */
    size_t n_blocks, max_blocks;
};

struct openai_refusal {
    char param[JSON_PATH_SIZE]; /* "": none */
};

/* Reads the body.  On failure status_text() says why and *refusal where; q is to be freed in both cases. */
MUST_CHECK enum status openai_request_read(struct openai_request *q, enum openai_form form,
                                           const char *body, size_t n_body,
                                           struct openai_refusal *refusal);
void openai_request_free(struct openai_request *q);

/* ---- for the readers of fields ---- */

/* n bytes, at least one, that live as long as q; NULL: no memory. */
void *openai_keep(struct openai_request *q, const void *data, size_t n);
/* The text with a NUL; b is emptied. */
MUST_CHECK enum status openai_keep_text(struct openai_request *q, struct text_buf *b,
                                        const char **out);
/* An array that grows by doubling: room for one more after n. */
MUST_CHECK enum status openai_grow(void **array, size_t n, size_t item_size);

/* A failure of the value before which `whole` is: something is missing in it. */
MUST_CHECK enum status openai_fail_at(struct json_cursor *c, const struct json_cursor *whole,
                                      const char *text);
/* Passes a member on as it came; its value is next. */
MUST_CHECK enum status openai_pass_member(struct json_writer *w, struct json_span key,
                                          struct json_cursor *c);

/* openai_messages.c: messages and tools as the chat template wants them. */
MUST_CHECK enum status openai_read_messages(struct openai_request *q, struct json_cursor *c);
MUST_CHECK enum status openai_read_tools(struct openai_request *q, struct json_cursor *c);

/* openai_prompt.c: the prompts of a completion. */
MUST_CHECK enum status openai_read_prompt(struct openai_request *q, struct json_cursor *c);

#endif
