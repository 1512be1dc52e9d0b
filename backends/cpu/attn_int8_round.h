/* round_16 of attn_round.h in vectors: the same bits.  Queries of int8 attention as its sums read them. */
#ifndef BACKENDS_CPU_ATTN_INT8_ROUND_H
#define BACKENDS_CPU_ATTN_INT8_ROUND_H

#include "backends/cpu/attn_int8.h"
#include "backends/cpu/attn_softmax.h"

/* x [n], whole groups, to the nearest integers of x * inv.  Weights: the result is their sum.  A query: in the
 * pairs of struct int8_query, the result is the sum of the first, the third and so on. */
ALWAYS_INLINE int32_t round_groups(bool query, const float *x, int n, float inv, int16_t *out)
{
    const vf magic = v_splat(0x1.8p23f), factor = v_splat(inv);
    const vw ones = w_splat(query ? 1 : 0x10001); /* pairs (1, 0) or (1, 1) */
    vw sum = w_splat(0);
    for (int i = 0; i < n; i += FOUR_VL) {
        UNROLL
        for (int j = 0; j < FOUR_VL; j += 2 * VL) {
            vw a = words_of_f(v_add(v_mul(v_load(x + i + j), factor), magic));
            vw b = words_of_f(v_add(v_mul(v_load(x + i + j + VL), factor), magic));
            vw both = w_halves(a, b); /* the low half of magic's bits is 0 */
            sum = w_dot(sum, both, ones);
            w_store(out + i + j, query ? w_swap_inner(both) : both);
        }
    }
    return w_sum(sum);
}

/* round_16 of x [n], whole groups, whose greatest magnitude has the bits `most`; out, sum: of round_groups. */
ALWAYS_INLINE float round_row(bool query, const float *x, int n, int32_t most, float top,
                              int16_t *out, int32_t *sum)
{
    float m = f32_of_bits((uint32_t)most);
    bool finite = most < 0x7f800000;
    if (!finite || m < 0x1p-100f) {
        memset(out, 0, (size_t)n * sizeof *out);
        *sum = 0;
        return finite ? 0.0f : f32_of_bits(0x7fc00000U);
    }
    *sum = round_groups(query, x, n, top / m, out);
    return m / top;
}

/* The greatest bits of a magnitude of x [n], whole groups. */
static inline int32_t greatest_magnitude(const float *x, int n)
{
    vw most[2] = {w_splat(0), w_splat(0)};
    for (int i = 0; i < n; i += 2 * VL) {
        most[0] = w_max(most[0], w_magnitude(v_load(x + i)));
        most[1] = w_max(most[1], w_magnitude(v_load(x + i + VL)));
    }
    return w_greatest(w_max(most[0], most[1]));
}

/* A row of queries of KV head g; `padded` [HEAD_MAX] has it with zeros where d is not whole groups. */
static const float *query_row(const struct attn_split *a, int g, int row, float *padded)
{
    const float *x = a->q + (size_t)(row / a->n_heads) * a->q_stride +
                     (size_t)(g * a->n_heads + row % a->n_heads) * (size_t)a->d;
    if (a->d == group_end(a->d))
        return x;
    memcpy(padded, x, (size_t)a->d * sizeof *x);
    memset(padded + a->d, 0, (size_t)(group_end(a->d) - a->d) * sizeof *x);
    return padded;
}

/* Rows [row0, row0 + rows) of each KV head: in s one head after the other. */
static void int8_queries(const struct attn_split *a, int row0, int rows, struct attn_scratch *s)
{
    int n = group_end(a->d);
    float padded[HEAD_MAX], top = query_top(a->d);
    int32_t most[ATTN_ROWS] = {0}, even;
    for (int i = 0; i < a->n_kv * rows; i++)
        most[i] = greatest_magnitude(query_row(a, i / rows, row0 + i % rows, padded), n);
    for (int i = 0; i < a->n_kv * rows; i++) {
        float unit = round_row(true, query_row(a, i / rows, row0 + i % rows, padded), n, most[i],
                               top, (int16_t *)(s->q_pairs + i * QUERY_PAIRS), &even);
        s->unit[i] = unit * a->scale;
        s->start[i] = -128 * even;
    }
}

/* Those of the rows from row i of s on. */
static struct int8_query int8_query(const struct attn_scratch *s, int i)
{
    return (struct int8_query){s->q_pairs + i * QUERY_PAIRS, s->start + i, s->unit + i};
}

#endif
