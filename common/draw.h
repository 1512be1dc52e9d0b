/* The draw of a token from the greatest logits: the one place where its arithmetic is written, for
 * C and CUDA C++.  Only + - * / of IEEE single and double precision, an exp of its own, and no
 * contraction to fused multiply-adds (the default of C11; nvcc: -fmad=false; C++: -ffp-contract=
 * off), so that host and device draw the same token, bit for bit.
 *
 * Candidates come from topk (backends/backend.h), gathered from all ranks: struct draw_shape.  The
 * rules of a draw are in worker/sample/sampler.h. */
#ifndef COMMON_DRAW_H
#define COMMON_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/dtype.h"
#include "common/rng.h"

enum { DRAW_MAX_RANKS = 1024, DRAW_MAX_LEVELS = 16 }; /* sums of up to 2^15 slices */
enum { DRAW_NEED_ALL = -1 };

/* e^x for x <= 0, relative error below 2^-51; 0 below -708, NaN for NaN.  x = n ln 2 + r; e^r by
 * its Taylor polynomial of degree 13 (remainder below 2^-57 for |r| <= ln 2 / 2).  The high part of
 * ln 2 has 32 trailing zero bits, so n times it is exact. */
NUMBER_FN double draw_exp(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    if (x < -708.0)
        return 0.0;
    if (!(x < 0.0))
        return x == 0.0 ? 1.0 : x; /* NaN */
    double n = x * 1.4426950408889634 + magic;
    n = n - magic;
    double r = x - n * 6.93147180369123816490e-01;
    r = r - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* 1 / temperature as topk takes it; 1 for greedy. */
NUMBER_FN float draw_inv_temperature(float temperature)
{
    if (temperature == 0.0f)
        return 1.0f;
    return temperature < 1e-5f ? 1e5f : 1.0f / temperature;
}

/* ---- sums over the vocabulary ---- */

struct draw_sums {
    float max;         /* greatest logit */
    double sum, sum_t; /* sum exp(l - max), sum exp((l - max) / temperature) */
};

NUMBER_FN struct draw_sums draw_join(struct draw_sums a, struct draw_sums b, double inv_t)
{
    struct draw_sums r = {a.max > b.max ? a.max : b.max, 0.0, 0.0};
    if (a.max != a.max || b.max != b.max)
        r.max = a.max + b.max;    /* NaN */
    if (r.max < -3.402823466e38f) /* both empty: exp(-inf - -inf) would be NaN */
        return r;
    double da = (double)a.max - (double)r.max, db = (double)b.max - (double)r.max;
    r.sum = a.sum * draw_exp(da) + b.sum * draw_exp(db);
    r.sum_t = a.sum_t * draw_exp(da * inv_t) + b.sum_t * draw_exp(db * inv_t);
    return r;
}

/* Joins neighbours level by level, an odd last one moving up unchanged; n > 0 parts come in order.
 * level[i], where bit i of n_parts is set, holds 2^i of them: a binary counter makes that tree
 * without keeping the parts. */
struct draw_tree {
    struct draw_sums level[DRAW_MAX_LEVELS];
    uint32_t n_parts;
};

NUMBER_FN void draw_tree_add(struct draw_tree *t, struct draw_sums part, double inv_t)
{
    int i = 0;
    for (; t->n_parts >> i & 1U; i++)
        part = draw_join(t->level[i], part, inv_t);
    t->level[i] = part;
    t->n_parts++;
}

NUMBER_FN struct draw_sums draw_tree_end(const struct draw_tree *t, double inv_t)
{
    int i = 0;
    while (!(t->n_parts >> i & 1U))
        i++;
    struct draw_sums all = t->level[i];
    for (i++; i < DRAW_MAX_LEVELS; i++)
        if (t->n_parts >> i & 1U)
            all = draw_join(t->level[i], all, inv_t);
    return all;
}

/* Did the model give numbers?  A draw wants true. */
NUMBER_FN bool draw_finite(const struct draw_sums *s)
{
    const float f = 3.402823466e38f;
    const double d = 1.7976931348623157e308;
    return s->max >= -f && s->max <= f && s->sum > 0.0 && s->sum <= d && s->sum_t > 0.0 &&
           s->sum_t <= d;
}

/* ---- the draw ---- */

struct draw_rule {
    float temperature, top_p, min_p;
    uint32_t top_k;
};

struct draw_candidates {
    int32_t n;          /* >= 1; sorted by (logit descending, id ascending) */
    const float *logit; /* [n] edited, before temperature */
    const int32_t *id;  /* [n] */
    bool complete;      /* n is the whole vocabulary */
    struct draw_sums sums;
    const double *weight; /* [n] draw_weight of each, or NULL: made where it is needed */
};

NUMBER_FN double draw_weight(const struct draw_candidates *c, int32_t i, double inv_t)
{
    return c->weight ? c->weight[i] : draw_exp(((double)c->logit[i] - (double)c->sums.max) * inv_t);
}

/* First of the order whose running sum exceeds target; -1 when none of the first n does. */
NUMBER_FN int32_t draw_find(const struct draw_candidates *c, int32_t n, double inv_t, double target)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += draw_weight(c, i, inv_t);
        if (sum > target)
            return i;
    }
    return -1;
}

/* What the kept set weighs: exactly (lo == hi), or bounds when the candidates end inside it. */
struct draw_mass {
    double lo, hi;
};

/* reach: the weight at which top_p ends the kept set.  The walk that decides is the same for
 * candidates and for the whole row; candidates that end early give bounds that hold for every
 * continuation: with top_p alone the sum ends in [reach, reach + w_last], with min_p possibly
 * before, above sum. */
NUMBER_FN struct draw_mass draw_kept_mass(const struct draw_candidates *c, int32_t n, double inv_t,
                                          double reach, double min_p)
{
    struct draw_mass m = {0.0, 0.0};
    double last = 1.0;
    for (int32_t i = 0; i < n; i++) {
        last = draw_weight(c, i, inv_t);
        if (last < min_p) {
            m.hi = m.lo;
            return m;
        }
        m.lo += last;
        m.hi = m.lo;
        if (m.lo >= reach)
            return m;
    }
    /* exp is exact to 2^-51, so a later weight may exceed the last one by that much */
    m.hi = c->complete ? reach : reach + last * (1.0 + 1e-12);
    if (c->complete || !(min_p > 0.0)) /* complete: rounding only, reach is all but its last bits */
        m.lo = reach;
    return m;
}

/* Index of the token drawn with u in [0, 1), or DRAW_NEED_ALL.  The sums are finite. */
NUMBER_FN int32_t draw_pick(const struct draw_rule *rule, const struct draw_candidates *c, double u)
{
    double inv_t = (double)draw_inv_temperature(rule->temperature), all = c->sums.sum_t;
    int32_t n = c->n;
    if (rule->temperature == 0.0f)
        return 0;
    if (rule->top_k > (uint32_t)c->n && !c->complete)
        return DRAW_NEED_ALL; /* the weight of the first top_k is not known */
    if (rule->top_k > 0 && rule->top_k < (uint32_t)c->n)
        n = (int32_t)rule->top_k;
    if (rule->top_k > 0 && (!c->complete || n < c->n)) {
        all = 0.0; /* cut by top_k they weigh exactly this: the walk ends inside */
        for (int32_t i = 0; i < n; i++)
            all += draw_weight(c, i, inv_t);
    }
    struct draw_mass m =
        draw_kept_mass(c, n, inv_t, (double)rule->top_p * all, (double)rule->min_p);
    int32_t i = draw_find(c, n, inv_t, u * m.lo);
    if (m.lo != m.hi && (i < 0 || i != draw_find(c, n, inv_t, u * m.hi)))
        return DRAW_NEED_ALL;
    return i < 0 ? 0 : i;
}

/* ---- gathered candidates ---- */

/* What the ranks found for n_rows rows, rank after rank, each: values [n_rows, k] f32, ids [n_rows,
 * k] i32, stat [n_rows, 3 n_slices] f32 as topk gives them. */
struct draw_shape {
    int32_t n_ranks, n_rows, k, n_slices; /* n_slices: of one rank */
    int32_t vocab;                        /* of all ranks */
};

/* 4-byte words of one rank's part. */
NUMBER_FN size_t draw_words(const struct draw_shape *s)
{
    return (size_t)s->n_rows * (2 * (size_t)s->k + 3 * (size_t)s->n_slices);
}

/* Slice i of all ranks' slices, in the order of the vocabulary. */
NUMBER_FN struct draw_sums draw_row_part(const struct draw_shape *s, const void *top, int32_t row,
                                         int32_t i)
{
    const float *stat = (const float *)top + (size_t)(i / s->n_slices) * draw_words(s) +
                        2 * (size_t)s->n_rows * (size_t)s->k +
                        3 * ((size_t)row * (size_t)s->n_slices + (size_t)(i % s->n_slices));
    struct draw_sums part = {stat[0], (double)stat[1], (double)stat[2]};
    return part;
}

NUMBER_FN struct draw_sums draw_row_sums(const struct draw_shape *s, const void *top, int32_t row,
                                         float inv_temperature)
{
    struct draw_tree tree;
    tree.n_parts = 0;
    for (int32_t i = 0; i < s->n_ranks * s->n_slices; i++)
        draw_tree_add(&tree, draw_row_part(s, top, row, i), (double)inv_temperature);
    return draw_tree_end(&tree, (double)inv_temperature);
}

/* Merges world sorted lists of k (padded with id -1, no NaN) into the first k of their order;
 * returns how many.  logit, id: rank w's list begins at w * stride.  Ranks hold ascending ids: of
 * equal logits the lower rank's goes first. */
NUMBER_FN int32_t draw_merge(const float *logit, const int32_t *id, int32_t world, int32_t k,
                             size_t stride, float *out_logit, int32_t *out_id)
{
    uint8_t at[DRAW_MAX_RANKS];
    int32_t n = 0;
    for (int32_t w = 0; w < world; w++)
        at[w] = 0;
    for (; n < k; n++) {
        int32_t best = -1;
        float best_logit = 0.0f;
        for (int32_t w = 0; w < world; w++) {
            size_t i = (size_t)w * stride + at[w];
            if (at[w] >= k || id[i] < 0 || (best >= 0 && !(logit[i] > best_logit)))
                continue;
            best = w;
            best_logit = logit[i];
        }
        if (best < 0)
            break;
        size_t i = (size_t)best * stride + at[best]++;
        out_logit[n] = logit[i];
        out_id[n] = id[i];
    }
    return n;
}

/* The candidates of a row whose sums are finite, merged into logit and id, [k] each. */
NUMBER_FN struct draw_candidates draw_row_candidates(const struct draw_shape *s, const void *top,
                                                     int32_t row, struct draw_sums sums,
                                                     float *logit, int32_t *id)
{
    const float *first = (const float *)top + (size_t)row * (size_t)s->k;
    const int32_t *first_id =
        (const int32_t *)top + ((size_t)s->n_rows + (size_t)row) * (size_t)s->k;
    struct draw_candidates c;
    c.n = draw_merge(first, first_id, s->n_ranks, s->k, draw_words(s), logit, id);
    c.logit = logit;
    c.id = id;
    c.complete = c.n == s->vocab;
    c.sums = sums;
    c.weight = NULL;
    return c;
}

/* ---- on the device ---- */

/* How the op `sample` draws a row.  Eight words, uploaded with the step. */
struct draw_row {
    struct draw_rule rule;
    uint32_t seed_lo, seed_hi;
    uint32_t position;  /* of the token to be drawn */
    uint32_t on_device; /* 0: the host draws this row */
};
enum { DRAW_ROW_WORDS = 8, DRAW_MAX_K = 64 };

/* The token of a row; -1 when the host draws it, when its candidates do not decide, or when they
 * are not finite numbers (the host names the sequence).  shape->k <= DRAW_MAX_K. */
NUMBER_FN int32_t draw_row_token(const struct draw_shape *s, const void *top, int32_t row,
                                 const struct draw_row *how)
{
    float logit[DRAW_MAX_K];
    int32_t id[DRAW_MAX_K];
    if (!how->on_device)
        return -1;
    struct draw_sums sums = draw_row_sums(s, top, row, draw_inv_temperature(how->rule.temperature));
    if (!draw_finite(&sums))
        return -1;
    struct draw_candidates c = draw_row_candidates(s, top, row, sums, logit, id);
    double u = rng_uniform((uint64_t)how->seed_hi << 32 | how->seed_lo, how->position);
    int32_t i = draw_pick(&how->rule, &c, u);
    return i < 0 ? -1 : c.id[i];
}

#endif
