/* The JSON that OpenAI's answers share: the members around the choices, usage, errors. */
#ifndef CLIENT_GATEWAY_OPENAI_JSON_H
#define CLIENT_GATEWAY_OPENAI_JSON_H

#include "client/gateway/answer_form.h"
#include "client/gateway/openai_request.h"

enum { OPENAI_ID_SIZE = 40 };

/* What all chunks of an answer say; the ctx of both forms. */
struct openai_head {
    enum openai_form form;
    const char *object;      /* "text_completion" */
    char id[OPENAI_ID_SIZE]; /* "chatcmpl-..." */
    char model[ANSWER_MAX_MODEL];
    int64_t created;       /* s since 1970 */
    bool include_usage;    /* a stream ends with usage, and its other chunks have "usage": null */
    bool continuous_usage; /* all chunks have usage */
    bool stream, logprobs, token_ids, echo, hide_reasoning;
    bool prompt_logprobs; /* vLLM's: with prompt_top alternatives of each token */
    uint32_t prompt_top, top_logprobs;
    int32_t stop_ids[REQUEST_MAX_STOP_IDS]; /* [n_stop_ids] of the request */
    size_t n_stop_ids;
};

/* prefix: of the id.  NULL: no memory.  free() releases it. */
struct openai_head *openai_head_create(const struct openai_request *q, const char *model,
                                       const char *object, const char *prefix);

/* Begin of a body up to its list of choices, and its end behind that list. */
void openai_write_head(struct json_writer *w, const struct openai_head *h);
void openai_write_tail(struct json_writer *w, const struct answer_usage *usage);
/* A member with the ids of a prompt. */
void openai_write_prompt_ids(struct json_writer *w, const struct answer_prompt_info *p);

/* A member prompt_logprobs, if the request has it. */
void openai_write_prompt_scores(struct json_writer *w, const struct openai_head *h,
                                const struct answer_prompt_info *p);

/* A chunk of a stream with one choice, of which the members between begin and end are the caller's.  end shows the
 * tokens that are ready too.  finish: the choice ends. */
struct json_writer openai_chunk_begin(const struct openai_head *h, const struct answer_choice *c,
                                      struct text_buf *out);
MUST_CHECK enum status openai_chunk_end(struct json_writer *w, const struct openai_head *h,
                                        struct answer_choice *c, bool finish);

/* Ends a chunk whose choice has its logprobs already, and nothing of the answer. */
MUST_CHECK enum status openai_chunk_end_shown(struct json_writer *w, const struct openai_head *h,
                                              const struct answer_choice *c);

void openai_choice_begin(struct json_writer *w, const struct answer_choice *c);
/* logprobs, finish_reason and the like. */
void openai_choice_end(struct json_writer *w, const struct openai_head *h,
                       const struct answer_choice *c, bool finish);

/* The functions of struct answer_form that both forms share. */
enum status openai_form_end(void *ctx, const struct answer_whole *whole, struct text_buf *out);
enum status openai_form_error(void *ctx, const struct answer_error *e, struct text_buf *out);
/* Ends the reply with it; prompt: the name of the field that holds the prompt. */
void openai_refuse(struct http_reply *r, const struct answer_error *e, const char *prompt);

#endif
