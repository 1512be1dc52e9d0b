/* What is kept of each token beside its id, for Deltas: log probability, rank, the most probable others, texts.  A
 * sample has it for the tokens of its answer, a request for those of its prompt.  One thread (the loop). */
#ifndef COORDINATOR_TOKEN_FACTS_H
#define COORDINATOR_TOKEN_FACTS_H

#include "common/plan.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/detok.h"

struct token_facts {
    float *logprobs;           /* [max] or NULL */
    uint32_t *ranks;           /* [max] or NULL */
    uint32_t *n_top;           /* [max] or NULL */
    struct token_logprob *top; /* concatenated, grows */
    uint32_t n_top_all, cap_top;
    uint32_t *n_token_text, *n_top_text;  /* bytes: [max], and of each of top; NULL: not wanted */
    struct text_buf token_text, top_text; /* concatenated */
    /* sent to the client so far */
    uint32_t sent_top;
    size_t sent_token_text, sent_top_text;
};

enum token_fact { FACT_LOGPROBS = 1, FACT_RANKS = 2, FACT_TOP = 4, FACT_TEXTS = 8 };

/* Room for max tokens; wanted: of enum token_fact. */
MUST_CHECK enum status token_facts_init(struct token_facts *f, uint32_t max, unsigned wanted);
void token_facts_fini(struct token_facts *f);

/* Those of token i, the next one.  d: before the token is pushed. */
MUST_CHECK enum status token_facts_add(struct token_facts *f, uint32_t i,
                                       const struct result_token *t, struct detok *d);
/* Those of the first n tokens have been sent. */
void token_facts_sent(struct token_facts *f, uint32_t n);

#endif
