/* The format of an API's answers: a table of functions, which get a ctx of the API's own.
 *
 * A new API needs
 *   1. a reader of its JSON that fills a struct answer_request (answer_request.h),
 *   2. a struct answer_form, whose functions write the API's events and bodies,
 *   3. a route (gateway.c) that calls the reader, checks the model, and calls answer_start (answer.h).
 * openai_chat.c is an example of 2.
 *
 * The functions with an argument out only append to *out; they call no function of the answer, the reply or the
 * coordinator.  In a stream each call must append whole events.  If a function fails, the answer ends with an error that
 * has the text of the status.
 *
 * Order of the calls:
 *
 *     stream          begin
 *                     for each choice: scored, if asked for;
 *                     any number of reasoning, content and tool calls (call_begin, call_arguments ...,
 *                         call_end; tool calls are not nested), then finish; choices are interleaved
 *                     end, after all choices have finished
 *                     error may come in place of any of these; only release follows it
 *     whole answer    body
 *     refusal         refuse, before the first byte of a stream or body, in place of all others
 *
 * release is always the last call. */
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
    char id[ANSWER_CALL_ID_SIZE]; /* from the model, or generated here: unique, at least 9 bytes */
    struct text_buf name;
    struct text_buf arguments; /* a JSON object; present when content is (struct answer_choice) */
    bool ended; /* its arguments are whole; false at its end: the answer was cut inside them */
};

enum answer_part { ANSWER_NO_PART, ANSWER_REASONING, ANSWER_CONTENT, ANSWER_CALL };

enum answer_finish { ANSWER_STOP, ANSWER_LENGTH, ANSWER_CALLS };

struct answer_end {
    enum answer_finish finish;  /* ANSWER_CALLS: the model ended it, with a tool call or more */
    struct text_buf stop;       /* the stop string that ended it, or empty */
    int32_t stop_id;            /* the stop token that ended it, -1: none */
    uint64_t completion_tokens; /* of this choice */
    uint64_t reasoning_tokens;  /* part of completion_tokens; includes the marks */
};

/* One prompt, as the coordinator reports it. */
struct answer_prompt_info {
    uint64_t n_tokens;
    int32_t *ids;         /* [n_tokens] if ask.want_prompt_ids, else NULL */
    struct text_buf text; /* if ask.want_prompt_text */
    struct answer_tokens
        tokens; /* if ask.prompt_logprobs: all n_tokens, before the first text of a choice */
};

struct answer_usage {
    uint64_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
    uint64_t
        total_us; /* from the coordinator's receipt to the end; the longest of several prompts */
    uint64_t first_token_us; /* to the first token */
};

/* One choice.  Sample s of prompt p has the index p * n + s, with n samples per prompt. */
struct answer_choice {
    size_t index;
    /* All text so far.  Set for body; in a stream only if form->collect is set. */
    struct text_buf reasoning, content;
    struct answer_call **calls; /* in a stream too, but without arguments unless collected */
    size_t n_calls;
    enum answer_part
        last; /* the part that came last: where an answer that ended by its length was cut */
    /* With request.tokens: the tokens to write.  In a stream a form writes those that are ready and then calls
     * answer_tokens_taken; in finish all remaining ones are ready. */
    struct answer_tokens tokens;
    const struct answer_prompt_info *prompt;
    const struct answer_usage *so_far; /* token counts of the whole answer up to now */
    struct answer_end end;             /* from finish on, and in body */
};

/* What is known before the first text of a stream. */
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
    uint32_t retry_after_ms; /* 0: retrying does not help */
};

/* The functions for tool calls and reasoning are NULL in a form whose requests have neither. */
struct answer_form {
    const char *stream_type; /* Content-Type; NULL: text/event-stream, with comments while idle */
    const char *call_prefix; /* prefix of generated call ids: "call_" */
    bool collect;            /* collect the text of choices in streams too */

    enum status (*begin)(void *ctx, const struct answer_start *start, struct text_buf *out);
    /* The log probabilities of the choice's prompt have come; NULL: they are shown in body only. */
    enum status (*scored)(void *ctx, struct answer_choice *c, struct text_buf *out);
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

/* Write one event of text/event-stream whose data is one line of JSON: begin, write with the writer, end.  name NULL: no
 * "event:" line. */
struct json_writer answer_event_begin(struct text_buf *out, const char *name);
MUST_CHECK enum status answer_event_end(struct json_writer *w);

#endif
