#include "worker/sample/sampler.h"

#include <assert.h>
#include <math.h>

#include "common/dtype.h"
#include "common/rng.h"

float sampler_inv_temperature(const struct sample_params *sp)
{
    if (sp->temperature == 0.0f)
        return 1.0f;
    return sp->temperature < 1e-5f ? 1e5f : 1.0f / sp->temperature;
}

/* ---- sums over the vocabulary ---- */

struct part {
    float max;
    double sum, sum_t;
};

static struct part join(struct part a, struct part b, double inv_t)
{
    struct part r = {.max = a.max > b.max ? a.max : b.max};
    if (isnan(a.max) || isnan(b.max))
        r.max = NAN;
    if (r.max == -INFINITY) /* both empty: exp(-inf - -inf) would be NaN */
        return r;
    double da = (double)a.max - (double)r.max, db = (double)b.max - (double)r.max;
    r.sum = a.sum * exp(da) + b.sum * exp(db);
    r.sum_t = a.sum_t * exp(da * inv_t) + b.sum_t * exp(db * inv_t);
    return r;
}

void sampler_combine(struct candidates *c, const float *stat, int32_t n_slices,
                     float inv_temperature)
{
    struct part p[SAMPLER_MAX_SLICES];
    assert(n_slices >= 1 && n_slices <= SAMPLER_MAX_SLICES);
    for (int32_t i = 0; i < n_slices; i++)
        p[i] = (struct part){stat[3 * i], (double)stat[3 * i + 1], (double)stat[3 * i + 2]};
    for (int32_t n = n_slices; n > 1; n = (n + 1) / 2) {
        for (int32_t i = 0; i + 1 < n; i += 2)
            p[i / 2] = join(p[i], p[i + 1], (double)inv_temperature);
        if (n % 2)
            p[n / 2] = p[n - 1];
    }
    c->max = p[0].max;
    c->sum = p[0].sum;
    c->sum_t = p[0].sum_t;
}

bool sampler_finite(const struct candidates *c)
{
    return isfinite(c->max) && isfinite(c->sum) && isfinite(c->sum_t) && c->sum > 0.0 &&
           c->sum_t > 0.0;
}

/* ---- the draw ---- */

static void report(const struct sample_params *sp, const struct candidates *c, int32_t i,
                   struct result_token *out)
{
    double log_sum = log(c->sum);
    out->token = c->id[i];
    out->logprob = (float)((double)c->logit[i] - (double)c->max - log_sum);
    out->n_top = sp->top_logprobs;
    if (out->n_top > (uint32_t)c->n)
        out->n_top = (uint32_t)c->n;
    for (uint32_t k = 0; k < out->n_top; k++)
        out->top[k] = (struct token_logprob){
            c->id[k], (float)((double)c->logit[k] - (double)c->max - log_sum)};
}

struct walk {
    const struct candidates *c;
    double inv_t;
};

static double weight(const struct walk *w, int32_t i)
{
    return exp(((double)w->c->logit[i] - (double)w->c->max) * w->inv_t);
}

/* Weight of the first n of the order. */
static double prefix_sum(const struct walk *w, int32_t n)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        sum += weight(w, i);
    return sum;
}

/* First of the order whose running sum exceeds target; -1 when none of n does. */
static int32_t find(const struct walk *w, int32_t n, double target)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += weight(w, i);
        if (sum > target)
            return i;
    }
    return -1;
}

/* What the kept set weighs: exactly (lo == hi), or bounds when the candidates end inside it. */
struct mass {
    double lo, hi;
};

/* reach: the weight at which top_p ends the kept set.  The walk that decides is the same for
 * candidates and for the whole row; candidates that end early give bounds that hold for every
 * continuation: with top_p alone the sum ends in [reach, reach + w_last], with min_p possibly
 * before, above sum. */
static struct mass kept_mass(const struct walk *w, double reach, double min_p)
{
    const struct candidates *c = w->c;
    double sum = 0.0, last = 1.0;
    for (int32_t i = 0; i < c->n; i++) {
        last = weight(w, i);
        if (last < min_p)
            return (struct mass){sum, sum};
        sum += last;
        if (sum >= reach)
            return (struct mass){sum, sum};
    }
    if (c->complete) /* rounding only: reach is the whole vocabulary, give or take its last bits */
        return (struct mass){reach, reach};
    /* exp rounds to within an ulp, so a later weight may exceed the last one by that much */
    return (struct mass){min_p > 0.0 ? sum : reach, reach + last * (1.0 + 1e-12)};
}

enum sample_outcome sampler_draw(const struct sample_params *sp, const struct candidates *c,
                                 uint64_t position, struct result_token *out)
{
    struct walk w = {c, (double)sampler_inv_temperature(sp)};
    bool top_k = sp->top_k > 0;
    int32_t n = c->n;
    double all = c->sum_t;

    assert(c->n >= 1 && sampler_finite(c));
    if (sp->temperature == 0.0f) {
        report(sp, c, 0, out);
        return SAMPLED;
    }
    if (top_k && sp->top_k > (uint32_t)c->n && !c->complete)
        return NEED_ALL; /* the weight of the first k is not known */
    if (top_k && sp->top_k < (uint32_t)c->n)
        n = (int32_t)sp->top_k;
    struct candidates kept = *c; /* cut by top_k it weighs `all` exactly: the walk ends inside */
    kept.n = n;
    w.c = &kept;
    if (top_k && (!c->complete || n < c->n))
        all = prefix_sum(&w, n);
    struct mass m = kept_mass(&w, (double)sp->top_p * all, (double)sp->min_p);
    double u = rng_uniform(sp->seed, position);
    int32_t i = find(&w, n, u * m.lo);
    if (m.lo != m.hi && (i < 0 || i != find(&w, n, u * m.hi)))
        return NEED_ALL;
    report(sp, c, i < 0 ? 0 : i, out);
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

int32_t sampler_merge(const float *logit, const int32_t *id, int32_t world, int32_t k,
                      size_t stride, float *out_logit, int32_t *out_id)
{
    int32_t at[SAMPLER_MAX_SLICES] = {0};
    int32_t n = 0;
    assert(world >= 1 && world <= SAMPLER_MAX_SLICES);
    for (; n < k; n++) {
        int32_t best = -1;
        uint32_t best_key = 0;
        for (int32_t r = 0; r < world;
             r++) { /* ranks hold ascending ids: ties go to the lower rank */
            size_t i = (size_t)r * stride + (size_t)at[r];
            if (at[r] >= k || id[i] < 0)
                continue;
            uint32_t key = sort_key(logit[i]);
            if (best < 0 || key < best_key) {
                best = r;
                best_key = key;
            }
        }
        if (best < 0)
            break;
        size_t i = (size_t)best * stride + (size_t)at[best]++;
        out_logit[n] = logit[i];
        out_id[n] = id[i];
    }
    return n;
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
