/* A budget of tokens for the thinking of an answer: which token must come once it is used up.
 *
 * Thinking is what stands between the model's marks, open and close: at the beginning of the answer (blanks may come
 * first), behind a prompt that ends inside it, or, where marks begin messages, anywhere.  Each token behind the opening
 * mark counts, up to the one that completes the closing mark, over all thinking of the answer together.  When the budget
 * is used up, the next tokens are the ids of the closing mark, one after the other; the bytes of a UTF-8 character that
 * is not complete come before, in at most 3 tokens.  What is written then is free again.
 *
 * The state is a function of the rule and of the answer's tokens, so it can be rebuilt from them.  Pure. */
#ifndef COMMON_GRAMMAR_THINKING_H
#define COMMON_GRAMMAR_THINKING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json/json_read.h"
#include "common/status.h"

enum { THINKING_MAX_MARK = 64, THINKING_MAX_IDS = 64 }; /* bytes of a mark; its ids */

struct thinking_rule {
    uint32_t budget;
    char open[THINKING_MAX_MARK], close[THINKING_MAX_MARK]; /* [n_open], [n_close] bytes */
    uint32_t n_open, n_close;
    int32_t close_ids[THINKING_MAX_IDS]; /* [n_close_ids], at least one */
    uint32_t n_close_ids;
    bool inside;   /* the answer begins inside thinking */
    bool anywhere; /* thinking may begin behind other text */
};

/* Reads {"budget": N, "open": T, "close": T, "close_ids": [N, ...], "inside": B, "anywhere": B}, all but the last two
 * required, and "answer", any value, which is not looked into: *answer, of text.  ST_FORMAT, ST_RANGE: the text names the
 * member. */
MUST_CHECK enum status thinking_read(struct thinking_rule *rule, const char *text, size_t n,
                                     struct json_span *answer);

enum thinking_phase {
    THINKING_AT_START, /* blanks alone so far; not with anywhere */
    THINKING_OUTSIDE,  /* it may begin */
    THINKING_WITHIN,
    THINKING_OVER, /* there will be none */
};

struct thinking_state {
    enum thinking_phase phase;
    uint32_t n_used;
    uint32_t n_forced;               /* of close_ids, so far */
    uint32_t n_tail;                 /* at most THINKING_MAX_MARK */
    uint32_t n_missing;              /* bytes of a UTF-8 character that has begun */
    uint8_t tail[THINKING_MAX_MARK]; /* [n_tail] the last bytes of the phase */
};

void thinking_begin(const struct thinking_rule *rule, struct thinking_state *state);
/* The answer goes on with the token, which stands for these bytes; bytes that no UTF-8 has are passed over. */
void thinking_token(const struct thinking_rule *rule, struct thinking_state *state, int32_t id,
                    const uint8_t *bytes, size_t n);
/* The only token that may come next, -1: any may. */
int32_t thinking_forced(const struct thinking_rule *rule, const struct thinking_state *state);

#endif
