/* Chooses tokens on rank 0 from what topk gathered of all ranks; common/draw.h has the arithmetic,
 * which the device's op `sample` shares.  Pure, exact over the full vocabulary: when MAX_CANDIDATES
 * candidates do not decide a draw, the sampler says so and is called again with the whole row; both
 * give the same token because both walk the same order with the same sums.
 *
 * Rules, in double precision (w = exp((l - max) / temperature), so w of the first is 1):
 *  - Order: logit descending; equal logits (also -0 and +0) by id ascending.
 *  - top_k keeps the first k of the order, exactly k: of equal logits at the border the lower ids.
 *  - top_p keeps the shortest prefix whose weight reaches top_p of the weight that top_k left; the
 *    token that reaches it is kept, so at least one is.
 *  - min_p keeps the tokens with w >= min_p, that is min_p of the most probable one's probability.
 *  - All three keep a prefix of the order, so the kept set is the shortest of the three.
 *  - Draw: the first token whose running sum exceeds u * (weight of the kept set).  The weight of
 *    the whole vocabulary is the device's sum (struct draw_sums), in both calls.  When rounding
 *    lets no token exceed it (probability of the order 1e-7), the first token is taken.
 *  - temperature 0 is greedy: the first of the order; top_k, top_p, min_p and seed play no part.
 *    Temperatures below 1e-5 work as 1e-5 (1 / temperature stays in the range of float).
 *  - logprobs are of the edited logits before temperature and before the filters.  Impossible tokens (-inf, by a mask
 *    or min_new) are no alternatives.
 *
 * u in [0,1) comes from Philox4x32-10 (common/rng.h) keyed by the seed, counter = position of the
 * token in its sequence. */
#ifndef WORKER_SAMPLE_SAMPLER_H
#define WORKER_SAMPLE_SAMPLER_H

#include <stddef.h>

#include "common/draw.h"
#include "common/plan.h"

enum sample_outcome { SAMPLED, NEED_ALL };

/* position: index in its sequence of the token to be drawn.  Fills token, logprob, n_top and top of
 * out; seq_id is the caller's. */
enum sample_outcome sampler_draw(const struct sample_params *sp, const struct draw_candidates *c,
                                 uint64_t position, struct result_token *out);

/* Fills out for candidate i, whoever drew it. */
void sampler_report(const struct sample_params *sp, const struct draw_candidates *c, int32_t i,
                    struct result_token *out);

/* Fills out for a token of that logit, which need not be among the candidates, with the first n_top of
 * these; the rank is 0 if it is not. */
void sampler_score(const struct draw_candidates *c, int32_t token, float logit, uint32_t n_top,
                   struct result_token *out);

/* Sorts a whole row: logit[n] of tokens 0 .. n-1 into (logit descending, id ascending).  No NaN.
 * scratch: [2 n] words. */
void sampler_sort(const float *logit, int32_t n, float *out_logit, int32_t *out_id,
                  uint64_t *scratch);

#endif
