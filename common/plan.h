/* The step plan: what the scheduler decides, the wire carries and the ranks execute.  Plain data;
 * pointers are borrowed from whoever made the struct (scheduler or decoder) and valid until its
 * next call. */
#ifndef COMMON_PLAN_H
#define COMMON_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum plan_want {
    WANT_NONE,      /* an inner chunk of a prompt: no logits */
    WANT_LAST,      /* sample one token after the chunk's last token */
    WANT_EMBEDDING, /* no logits: the prompt is complete, its embedding is made */
};

enum {
    MAX_TOP_LOGPROBS = 20,
    MAX_CANDIDATES = 64, /* k of the device's topk */
    MAX_STOP_IDS = 32,
    MAX_LOGIT_BIAS = 1024,
    MAX_SAMPLES = 16,       /* parallel samples of one request */
    MAX_SCORED_ROWS = 64,   /* prompt tokens of a step that get log probabilities */
    MAX_FORCED_TOKENS = 64, /* of a result: see step_result */
    /* Steps that were sent to a worker group and not answered: the protocol's, so the scheduler, the
     * coordinator's port and the ranks have room for as many. */
    MAX_STEPS_IN_FLIGHT = 2,

    /* In plan->tokens: the token that the rank sampled for this sequence in the step before this
     * one.  Only for sequences whose parameters sample_on_device(), when the scheduler may have two
     * steps in flight (sched_config.max_inflight 2). */
    TOKEN_OF_LAST_STEP = -1,

    /* In step_result->tokens: there is none, for the logits are not finite numbers.  The sequence
     * ends. */
    TOKEN_NOT_FINITE = -1,
    /* ... for the sequence's grammar allows none: its text is complete, or cannot be completed with
     * the vocabulary.  The sequence ends. */
    TOKEN_GRAMMAR_COMPLETE = -2,
    TOKEN_GRAMMAR_STUCK = -3,
};

/* What a sequence gives: tokens, or the embedding of its prompt.  Values are on the wire. */
enum embed_rows {
    EMBED_NONE,
    EMBED_LAST,  /* the embedding needs the last token's row alone */
    EMBED_ALL,   /* it needs the rows of all tokens, so that none comes from the prefix cache */
    EMBED_WHOLE, /* an encoder's: each token sees all others, so that all are computed in one step */
    EMBED_N
};

struct logit_bias {
    int32_t id;
    float bias; /* added to the logit; [-100, 100] */
};

/* How one sequence samples.  Order: penalties and bias edit the logits; logprobs are of that edited
 * distribution; then temperature, top_k, top_p, min_p; then one draw keyed by (seed, position).
 * temperature 0 = greedy: the first of the order (logit descending, id ascending). */
struct sample_params {
    float temperature;        /* >= 0 */
    float top_p;              /* (0, 1], 1 = off */
    float min_p;              /* [0, 1), 0 = off */
    uint32_t top_k;           /* 0 = off */
    float repetition_penalty; /* > 0, 1 = off; over prompt and output (HuggingFace) */
    float presence_penalty, frequency_penalty; /* [-2, 2]; over the output only (OpenAI) */
    uint32_t min_new; /* stop ids are impossible before that many new tokens */
    uint64_t seed;
    uint32_t top_logprobs; /* <= MAX_TOP_LOGPROBS */
    bool logprobs;         /* report the chosen token's logprob */
    bool prompt_logprobs;  /* score the prompt: see plan_seq.n_score */
    uint32_t prompt_top;   /* <= MAX_TOP_LOGPROBS: alternatives of each scored token */
    enum embed_rows embed; /* not EMBED_NONE: no token is drawn, the sequence ends at its prefill */
};

/* Bounds of every field, NaN included; ST_RANGE names the field and its value, *name (may be NULL)
 * gets the field's name. */
MUST_CHECK enum status sample_params_check(const struct sample_params *sp, const char **name);

/* temperature 1, everything else off. */
struct sample_params sample_params_default(void);

/* Do the penalties of these parameters look at the tokens so far? */
static inline bool sample_params_need_history(const struct sample_params *sp)
{
    return sp->repetition_penalty != 1.0f || sp->presence_penalty != 0.0f ||
           sp->frequency_penalty != 0.0f;
}

/* Can a device draw every token of these parameters alone?  It can when MAX_CANDIDATES candidates
 * always decide (greedy, or a top_k of at most as many) and the logits are edited by nothing that
 * depends on the tokens before (biases and min_new depend on the position at most). */
static inline bool sample_on_device(const struct sample_params *sp)
{
    return (sp->temperature == 0.0f || (sp->top_k > 0 && sp->top_k <= MAX_CANDIDATES)) &&
           !sample_params_need_history(sp);
}

/* One sequence's share of a step. */
struct plan_seq {
    uint64_t seq_id;
    uint32_t pos;                 /* KV length before the step = position of its first token */
    uint32_t n_tokens, token_off; /* its tokens: plan->tokens[token_off ..] */
    uint32_t n_blocks, block_off; /* blocks appended to its table: plan->blocks[block_off ..] */
    enum plan_want want;
    /* Rows that are scored: the last ones before a WANT_LAST row, else the last ones of all.  Row k of
     * them gives the unedited log probability of plan->scores[score_off + k], which follows it. */
    uint32_t n_score, score_off;
    /* Of a model with states: the snapshot, row + 1, that a sequence opened at pos > 0 begins with, and the one that
     * gets the state behind the step.  0: none.  All of a plan's snapshots are read before any is written. */
    uint32_t restore, keep;
};

/* Is that a sequence whose tokens must all be in one step? */
static inline bool sample_whole(const struct sample_params *sp)
{
    return sp->embed == EMBED_WHOLE;
}

/* A sequence first seen in this step (also after a preemption or a new epoch). */
struct plan_open {
    uint64_t seq_id;
    struct sample_params sp;
    uint32_t n_prompt;               /* of its tokens, how many are prompt */
    uint32_t n_history, history_off; /* plan->history[..]: all its tokens before this step's, when a
                                        penalty or the grammar needs them; else 0 */
    uint32_t n_stop_ids, stop_off;   /* plan->stop_ids[..]: when min_new needs them; else 0 */
    uint32_t n_bias, bias_off;       /* plan->bias[..] */
    uint64_t grammar;                /* id of a Grammar that was sent, 0 = none */
};

/* Do the ranks need the tokens before those that they compute? */
static inline bool plan_open_needs_history(const struct plan_open *o)
{
    return sample_params_need_history(&o->sp) || o->grammar != 0;
}

struct step_plan {
    uint64_t step_id, epoch;
    uint32_t n_seqs, n_tokens, n_blocks, n_opens, n_closes;
    uint32_t n_history, n_stop_ids, n_bias, n_scores;
    struct plan_seq *seqs;
    int32_t *tokens; /* [n_tokens], concatenated */
    int32_t *blocks; /* [n_blocks], concatenated */
    struct plan_open *opens;
    uint64_t *closes; /* sequences whose state ranks forget before this step's work */
    int32_t *history, *stop_ids;
    struct logit_bias *bias;
    int32_t *scores; /* [n_scores] tokens, concatenated; at most MAX_SCORED_ROWS */
};

struct token_logprob {
    int32_t id;
    float logprob;
};

/* One sampled token, in the order of the plan's WANT_LAST sequences; behind these, in the order of the
 * plan, the scored tokens (TOKEN_NOT_FINITE: the row has no finite logits); behind these the forced ones. */
struct result_token {
    uint64_t seq_id;
    int32_t token;
    float logprob;
    uint32_t rank; /* scored: 1 = the most probable; 0 = not among MAX_CANDIDATES, or not scored */
    uint32_t n_top;
    struct token_logprob top[MAX_TOP_LOGPROBS];
    const char *place; /* of TOKEN_GRAMMAR_STUCK: where in the source (borrowed); else NULL */
};

/* The embedding of a sequence, in the order of the plan's WANT_EMBEDDING sequences. */
struct result_embedding {
    uint64_t seq_id;
    uint64_t digest;     /* of the vector's bytes (common/hash.h); 0: they are not finite numbers */
    const float *vector; /* [step_result.dim]; NULL where only the digest is known (a replay) */
};

/* Of n finite components, never 0; 0: they are not all finite. */
uint64_t embedding_digest(const float *v, size_t n);

/* Forced tokens: where a sequence's grammar allows the sampled token alone, those that follow it and are each the only
 * one that the grammar allows; at most MAX_FORCED_TOKENS in all, in the order of the plan's sequences.  They were not
 * computed: the next steps compute them as they do a prompt. */
struct step_result {
    uint64_t step_id, epoch;
    uint32_t n;
    struct result_token *tokens;
    uint32_t n_embeddings, dim; /* dim: components of each */
    struct result_embedding *embeddings;
    uint64_t compute_us, comm_us;                        /* of rank 0 */
    uint64_t masks, masks_cached, mask_us, mask_wait_us; /* of rank 0, since its last result */
};

#endif
