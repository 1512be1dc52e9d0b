/* The tokens of one choice that its form has not shown yet, with their texts and log probabilities.
 *
 * A token is ready when the text that it makes has come.  Together the ready tokens make the text of the answer, but for
 * bytes that are not UTF-8 there: of a token whose text was cut away by a stop string only what is left of it counts. */
#ifndef CLIENT_GATEWAY_ANSWER_TOKENS_H
#define CLIENT_GATEWAY_ANSWER_TOKENS_H

#include "client/lib/ingot.h"
#include "common/status.h"
#include "common/text/text_buf.h"

struct answer_top {
    int32_t id;
    float logprob;
    size_t at, n; /* its text, in answer_tokens.bytes */
};

struct answer_token {
    int32_t id;
    float logprob;
    uint32_t rank;     /* of a prompt's: 1 = the most probable; 0 = not known */
    size_t at, n;      /* its text, in answer_tokens.bytes; perhaps a part of a character */
    size_t top, n_top; /* in answer_tokens.tops: the most probable ones */
    uint64_t begin;    /* bytes of the answer before it */
    bool cut;          /* the answer ended before its text: the stop token, or of the stop string */
};

struct answer_tokens {
    struct answer_token *token; /* show [first, ready) */
    size_t first, ready, n;
    uint64_t n_chars; /* characters of the answer before token[first] */
    struct answer_top *tops;
    size_t n_tops;
    struct text_buf bytes;
    uint64_t end; /* bytes of the answer with all tokens */
};

void answer_tokens_free(struct answer_tokens *t);

/* Takes the tokens of an event DELTA. */
MUST_CHECK enum status answer_tokens_add(struct answer_tokens *t, const struct ingot_event *ev);
/* Takes the entries of a prompt, whose ids are given; all of them are ready. */
MUST_CHECK enum status answer_tokens_add_prompt(struct answer_tokens *t, const int32_t *ids,
                                                const struct ingot_prompt_logprobs *p);
/* n_text bytes of the answer have come. */
void answer_tokens_make_ready(struct answer_tokens *t, uint64_t n_text);
/* The answer ends with n_text bytes.  cut: by a stop token or string, so that what lies behind is dropped. */
void answer_tokens_finish(struct answer_tokens *t, uint64_t n_text, bool cut);
/* The ready ones have been shown. */
void answer_tokens_taken(struct answer_tokens *t);

/* Bytes of memory that they use. */
size_t answer_tokens_size(const struct answer_tokens *t);

/* Characters that begin in the n bytes. */
uint64_t answer_count_chars(const char *text, size_t n);

#endif
