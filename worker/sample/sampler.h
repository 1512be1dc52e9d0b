/* Chooses tokens on rank 0 from what topk gathered of all ranks.  Pure, exact over the full vocabulary:
 * when MAX_CANDIDATES candidates do not decide a draw, the sampler says so and is called again with the
 * whole row; both give the same token because both walk the same order with the same sums.
 *
 * Draw: u in [0,1) from Philox4x32-10 (Salmon et al. 2011) keyed by the seed, counter = position of the
 * token in its sequence. */
#ifndef WORKER_SAMPLE_SAMPLER_H
#define WORKER_SAMPLE_SAMPLER_H

#include "common/plan.h"

struct candidates {
    int32_t n;          /* sorted by (logit descending, id ascending) */
    const float *logit; /* edited, before temperature */
    const int32_t *id;
    bool complete;      /* n is the whole vocabulary */
    float max;          /* over the vocabulary */
    double sum;         /* sum exp(l - max) */
    double sum_t;       /* sum exp((l - max) / temperature) */
};

enum sample_outcome { SAMPLED, NEED_ALL };

/* Combines the partial sums of the vocabulary slices (stat of topk, in slice order). */
void sampler_combine(struct candidates *c, const float *stat, int32_t n_slices,
                     float inv_temperature);

/* position: index in its sequence of the token to be drawn. */
enum sample_outcome sampler_draw(const struct sample_params *sp, const struct candidates *c,
                                 uint64_t position, struct result_token *out);


#endif
