#include "worker/sample/sampler.h"

#include <assert.h>
#include <math.h>

#include "common/dtype.h"
#include "common/rng.h"

/* ---- the draw ---- */

static void report(const struct draw_candidates *c, int32_t token, float logit, uint32_t n_top,
                   struct result_token *out)
{
    double log_sum = log(c->sums.sum);
    out->token = token;
    out->logprob = (float)((double)logit - (double)c->sums.max - log_sum);
    out->rank = 0;
    out->n_top = n_top;
    if (out->n_top > (uint32_t)c->n)
        out->n_top = (uint32_t)c->n;
    while (out->n_top > 0 && c->logit[out->n_top - 1] == -INFINITY)
        out->n_top--;
    for (uint32_t k = 0; k < out->n_top; k++)
        out->top[k] = (struct token_logprob){
            c->id[k], (float)((double)c->logit[k] - (double)c->sums.max - log_sum)};
}

void sampler_report(const struct sample_params *sp, const struct draw_candidates *c, int32_t i,
                    struct result_token *out)
{
    report(c, c->id[i], c->logit[i], sp->top_logprobs, out);
}

void sampler_score(const struct draw_candidates *c, int32_t token, float logit, uint32_t n_top,
                   struct result_token *out)
{
    report(c, token, logit, n_top, out);
    for (int32_t i = 0; i < c->n && !out->rank; i++)
        if (c->id[i] == token)
            out->rank = (uint32_t)i + 1;
}

enum sample_outcome sampler_draw(const struct sample_params *sp, const struct draw_candidates *c,
                                 uint64_t position, struct result_token *out)
{
    struct draw_rule rule = {sp->temperature, sp->top_p, sp->min_p, sp->top_k};
    assert(c->n >= 1 && draw_finite(&c->sums));
    int32_t i = draw_pick(&rule, c, rng_uniform(sp->seed, position));
    if (i == DRAW_NEED_ALL)
        return NEED_ALL;
    sampler_report(sp, c, i, out);
    return SAMPLED;
}

/* ---- order ---- */

/* Unsigned key whose ascending order is logit descending; -0 counts as +0. */
static uint32_t sort_key(float logit)
{
    uint32_t u = bits_of_f32(logit + 0.0f);
    u = u & 0x80000000U ? ~u : u | 0x80000000U; /* ascending order of the floats */
    return ~u;
}

void sampler_sort(const float *logit, int32_t n, float *out_logit, int32_t *out_id,
                  uint64_t *scratch)
{
    uint64_t *from = scratch, *to = scratch + n;
    for (int32_t i = 0; i < n; i++)
        from[i] = (uint64_t)sort_key(logit[i]) << 32 | (uint32_t)i;
    for (int shift = 32; shift < 64; shift += 8) { /* stable: ids stay ascending */
        int32_t start[257] = {0};
        for (int32_t i = 0; i < n; i++)
            start[((from[i] >> shift) & 255) + 1]++;
        for (int b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (int32_t i = 0; i < n; i++)
            to[start[(from[i] >> shift) & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    for (int32_t i = 0; i < n; i++) {
        out_id[i] = (int32_t)(uint32_t)from[i];
        out_logit[i] = logit[out_id[i]];
    }
}
