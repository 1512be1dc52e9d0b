/* How an API shows an answer: a table of functions and a ctx of its own.
 *
 * A new API needs
 *   1. a reader of its JSON that fills a struct answer_request (answer_request.h),
 *   2. a struct answer_form, whose functions write the API's events and bodies,
 *   3. a route (gateway.c) that reads, checks the model, and calls answer_start (answer.h).
 * openai_chat.c is an example of 2.
 *
 * The functions write into *out, and do nothing else: no call of the answer, of the reply or of the coordinator.  What a
 * function appends must be whole events of the stream.  A failure ends the answer with the status' text.
 *
 * Order, of a stream: begin; for each choice any number of reasoning, content and calls (call_begin, call_arguments ...,
 * call_end; never nested), then finish; the choices of one answer come mixed; when all have finished, end.  At any
 * moment error may come instead, and is the last one.  Of a whole answer: body alone.  Before the first byte of either:
 * refuse alone.  release is always the last call. */
#ifndef CLIENT_GATEWAY_ANSWER_FORM_H
#define CLIENT_GATEWAY_ANSWER_FORM_H

#include "client/gateway/answer_tokens.h"
#include "client/gateway/http_server.h"
#include "client/lib/ingot.h"
#include "common/json/json_write.h"
#include "common/text/text_buf.h"

enum { ANSWER_CALL_ID_SIZE = 72 };

struct answer_call {
    size_t index;                 /* 0, 1, ... in its choice */
    char id[ANSWER_CALL_ID_SIZE]; /* the model's, or one made here: unique, at least 9 bytes */
    struct text_buf name;
    struct text_buf arguments; /* a JSON object; filled as content is (struct answer_choice) */
};

enum answer_finish { ANSWER_STOP, ANSWER_LENGTH, ANSWER_CALLS };

struct answer_end {
    enum answer_finish finish;  /* ANSWER_CALLS: it ended by itself and holds at least one call */
    struct text_buf stop;       /* the stop string that ended it, or empty */
    int32_t stop_id;            /* the stop token that ended it, -1: none */
    uint64_t completion_tokens; /* of this choice */
    uint64_t reasoning_tokens;  /* of them, with the marks */
};

/* One prompt as the coordinator has it. */
struct answer_prompt_info {
    uint64_t n_tokens;
    int32_t *ids;         /* [n_tokens], with ask.want_prompt_ids; else NULL */
    struct text_buf text; /* with ask.want_prompt_text */
};

struct answer_usage {
    uint64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
    uint64_t
        total_us; /* from the coordinator's receipt to the end; the longest of several prompts */
    uint64_t first_token_us; /* to the first token */
};

/* One choice: of prompt p, sample s of n: index p * n + s. */
struct answer_choice {
    size_t index;
    /* All that was written so far, for body, and for the functions of a stream where form->collect is set. */
    struct text_buf reasoning, content;
    struct answer_call **calls; /* also in a stream, but there without their arguments */
    size_t n_calls;
    /* With request.tokens: those to show.  In a stream a form that has shown the ready ones calls answer_tokens_taken;
     * in finish all that are left are ready. */
    struct answer_tokens tokens;
    const struct answer_prompt_info *prompt;
    const struct answer_usage *so_far; /* of the whole answer: its tokens up to now */
    struct answer_end end;             /* from finish on, and in body */
};

/* What a stream knows before its first text. */
struct answer_start {
    size_t n_choices;
    uint64_t prompt_tokens;                   /* of all prompts */
    const struct answer_prompt_info *prompts; /* choice i has prompts[i / n_samples] */
    size_t n_samples;
};

/* Everything of a whole answer, or of a stream at its end. */
struct answer_whole {
    const struct answer_choice *choices;
    size_t n_choices;
    struct answer_usage usage;
};

struct answer_error {
    int status;
    const char *message;
    const char *field; /* the protocol's path of the field at fault ("sampling.top_p"); "": none */
    uint32_t retry_after_ms; /* 0: trying again does not help */
};

/* A form whose requests have neither calls nor reasoning leaves those functions NULL. */
struct answer_form {
    const char *
        stream_type; /* of the Content-Type; NULL: text/event-stream, with its comments in silence */
    const char *call_prefix; /* of call ids that are made here: "call_" */
    bool collect;            /* choices are collected in streams too */

    enum status (*begin)(void *ctx, const struct answer_start *start, struct text_buf *out);
    enum status (*reasoning)(void *ctx, struct answer_choice *c, const char *text, size_t n,
                             struct text_buf *out);
    enum status (*content)(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out);
    enum status (*call_begin)(void *ctx, struct answer_choice *c, const struct answer_call *call,
                              struct text_buf *out);
    enum status (*call_arguments)(void *ctx, struct answer_choice *c,
                                  const struct answer_call *call, const char *text, size_t n,
                                  struct text_buf *out);
    enum status (*call_end)(void *ctx, struct answer_choice *c, const struct answer_call *call,
                            struct text_buf *out);
    enum status (*finish)(void *ctx, struct answer_choice *c, struct text_buf *out);
    enum status (*end)(void *ctx, const struct answer_whole *whole, struct text_buf *out);
    enum status (*error)(void *ctx, const struct answer_error *e, struct text_buf *out);

    /* The JSON of a whole answer; its type is application/json. */
    enum status (*body)(void *ctx, const struct answer_whole *whole, struct text_buf *out);
    /* Ends the reply with the error. */
    void (*refuse)(void *ctx, struct http_reply *r, const struct answer_error *e);
    void (*release)(void *ctx); /* may be NULL */
};

/* One event of text/event-stream with a line of JSON: begin, write, end.  name NULL: no "event:" line. */
struct json_writer answer_event_begin(struct text_buf *out, const char *name);
MUST_CHECK enum status answer_event_end(struct json_writer *w);

#endif
