/* The log probabilities of a request's prompt, one entry for each of its tokens, and how many of them were sent.  The
 * first token has none: its entry holds its text only.  One thread (the loop). */
#ifndef COORDINATOR_PROMPT_SCORES_H
#define COORDINATOR_PROMPT_SCORES_H

#include "common/wire/client_msg.h"
#include "coordinator/resolved.h"
#include "coordinator/token_facts.h"

enum { TOKEN_TEXT_BYTES = 16 };

struct prompt_scores {
    uint32_t n;      /* entries that have come */
    uint32_t n_here; /* of these, the first that is held here: a client had the ones before */
    uint32_t sent;
    struct token_facts facts; /* by index in the prompt */
    struct detok detok;
};

/* Bytes that the log probabilities of the request's prompt take at most, with token texts of TOKEN_TEXT_BYTES on average;
 * 0: it wants none. */
uint64_t prompt_scores_bytes(const struct resolved *q);

/* n_received: entries that the client has got from another server, at most q->n_prompt. */
MUST_CHECK enum status prompt_scores_create(struct prompt_scores **out, const struct resolved *q,
                                            const struct tokenizer *tok, uint32_t n_received);
void prompt_scores_destroy(struct prompt_scores *p);

/* The entry of the next token. */
MUST_CHECK enum status prompt_scores_add(struct prompt_scores *p, const struct result_token *t);
/* n entries have been sent; not fewer than n_here. */
void prompt_scores_seek(struct prompt_scores *p, uint32_t n);
/* The next entries to be sent, as many as a Delta has at most; d->n 0: none. */
void prompt_scores_next(const struct prompt_scores *p, struct msg_prompt_scores *d);
void prompt_scores_took(struct prompt_scores *p, const struct msg_prompt_scores *d);

#endif
