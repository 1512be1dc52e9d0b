/* The sums of attention: `rows` broadcast values against vectors of keys or values in f32, so that
 * the accumulators stay in registers. */
#ifndef BACKENDS_CPU_ATTN_SUMS_H
#define BACKENDS_CPU_ATTN_SUMS_H

#include "backends/cpu/attn_pack.h"

enum {
    SUM_ACCS = TILE_ROWS < 8 ? 12 : 28, /* most accumulators of values_pass */
};

/* Vectors of a pass over many keys. */
ALWAYS_INLINE int pass_vectors(int rows)
{
    return rows * 4 <= SUM_ACCS ? 4 : 2;
}

/* q [d][rows] from rows of d elements. */
ALWAYS_INLINE void take_rows(int rows, const float *const *src, int d, float *q)
{
    for (int i = 0; i < d; i++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            q[i * rows + r] = src[r][i];
    }
}

/* c [rows, PANEL] (P_STRIDE apart) = scale * (q . keys of a panel), q [d][rows] */
ALWAYS_INLINE void score_panel(int rows, const float *q, const float *panel, int d, float scale,
                               float *c)
{
    for (int j = 0; j < PAIRS; j++) {
        struct pair acc[TILE_ROWS];
        const float *w = panel + VL * j, *x = q;
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r].a = acc[r].b = v_splat(0.0f);
        for (int i = 0; i < d; i++, w += PANEL, x += rows) {
            vf a = v_load(w), b = v_load(w + PANEL / 2);
            UNROLL
            for (int r = 0; r < rows; r++) {
                acc[r].a = v_fma(v_splat(x[r]), a, acc[r].a);
                acc[r].b = v_fma(v_splat(x[r]), b, acc[r].b);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            v_store(c + r * P_STRIDE + VL * j, v_mul(acc[r].a, v_splat(scale)));
            v_store(c + r * P_STRIDE + PANEL / 2 + VL * j, v_mul(acc[r].b, v_splat(scale)));
        }
    }
}

/* o [rows, nv vectors] (stride apart) += p v over keys [k0, k1), from element i of the values on;
 * p [rows, SPLIT] (P_STRIDE apart), v [key][stride]. */
ALWAYS_INLINE void values_pass(int rows, int nv, const float *p, const float *v, int k0, int k1,
                               int i, float *o, int stride)
{
    vf acc[SUM_ACCS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = v_load(o + r * stride + i + VL * j);
    }
    for (int k = k0; k < k1; k++) {
        vf x[4];
        UNROLL
        for (int j = 0; j < nv; j++)
            x[j] = v_load(v + (long)k * stride + i + VL * j);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf y = v_splat(p[r * P_STRIDE + k]);
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r * nv + j] = v_fma(y, x[j], acc[r * nv + j]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            v_store(o + r * stride + i + VL * j, acc[r * nv + j]);
    }
}

/* o [rows, d] += p v; d a multiple of VL, also the stride of o and of v. */
ALWAYS_INLINE void add_values(int rows, const float *p, const float *v, int k0, int k1, float *o,
                              int d)
{
    const int nv = pass_vectors(rows);
    int i = 0;
    for (; i + nv * VL <= d; i += nv * VL)
        values_pass(rows, nv, p, v, k0, k1, i, o, d);
    for (; i < d; i += VL)
        values_pass(rows, 1, p, v, k0, k1, i, o, d);
}

/* bf16 is read in pairs, which takes the fewest instructions: of 2 VL elements the even ones come
 * first in o.  That is so for every number of rows, since a tile's rows are summed together and
 * alone: add_cache leaves a single vector at the end of d only, sums_order follows it. */
ALWAYS_INLINE bool in_pairs(enum dtype t, int nv)
{
    return t == DT_BF16 && nv % 2 == 0;
}

/* nv vectors of a cache row. */
ALWAYS_INLINE void load_values(enum dtype t, int nv, const char *at, vf scale, vf *x)
{
    if (in_pairs(t, nv)) {
        v_load_bf16_pairs((const uint16_t *)(const void *)at, &x[0], &x[1]);
        if (nv > 2)
            v_load_bf16_pairs((const uint16_t *)(const void *)at + 2 * VL, &x[2], &x[3]);
        return;
    }
    UNROLL
    for (int j = 0; j < nv; j++)
        x[j] = load_kv(t, at + VL * j * (int)elem_size(t), VL, scale);
}

/* values_pass with values in the cache's type, d a multiple of VL.  One step of `ahead` a key. */
ALWAYS_INLINE void cache_pass(int rows, int nv, enum dtype t, const struct kv_operand *v,
                              const size_t *row, const float *p, int k0, int k1, int i, float *o,
                              int stride, struct ahead *ahead)
{
    struct ahead h = *ahead;
    const struct kv_operand from = *v;
    vf acc[SUM_ACCS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = v_load(o + r * stride + i + VL * j);
    }
    for (int k = k0; k < k1; k++) {
        ahead_step(&h);
        const char *at = kv_at(t, &from, row[k]) + (size_t)i * elem_size(t);
        vf x[4];
        load_values(t, nv, at, kv_scale(t, &from, row[k]), x);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf y = v_splat(p[r * P_STRIDE + k]);
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r * nv + j] = v_fma(y, x[j], acc[r * nv + j]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            v_store(o + r * stride + i + VL * j, acc[r * nv + j]);
    }
    *ahead = h;
}

/* Steps of `ahead` that add_cache takes for a key. */
static inline int value_steps(int rows, int d)
{
    int step = pass_vectors(rows) * VL;
    return d / step + d % step / (2 * VL) + d % (2 * VL) / VL;
}

/* One row's sums from the order of add_cache to ascending order. */
static void sums_order(enum dtype t, const float *o, int d, float *out)
{
    int i = 0;
    for (; in_pairs(t, 2) && i + 2 * VL <= d; i += 2 * VL)
        for (int j = 0; j < VL; j++) {
            out[i + 2 * j] = o[i + j];
            out[i + 2 * j + 1] = o[i + VL + j];
        }
    for (; i < d; i++)
        out[i] = o[i];
}

ALWAYS_INLINE void add_cache(int rows, enum dtype t, const struct kv_operand *v, const size_t *row,
                             const float *p, int k0, int k1, float *o, int d, struct ahead *h)
{
    const int nv = pass_vectors(rows);
    int i = 0;
    for (; i + nv * VL <= d; i += nv * VL)
        cache_pass(rows, nv, t, v, row, p, k0, k1, i, o, d, h);
    if (nv > 2 && i + 2 * VL <= d) {
        cache_pass(rows, 2, t, v, row, p, k0, k1, i, o, d, h);
        i += 2 * VL;
    }
    if (i < d)
        cache_pass(rows, 1, t, v, row, p, k0, k1, i, o, d, h);
}

#define SUM_FNS(R)                                                                                 \
    static void take_##R(const float *const *src, int d, float *q)                                 \
    {                                                                                              \
        take_rows(R, src, d, q);                                                                   \
    }                                                                                              \
    static void score_##R(const float *q, const float *panel, int d, float scale, float *c)        \
    {                                                                                              \
        score_panel(R, q, panel, d, scale, c);                                                     \
    }                                                                                              \
    static void values_##R(const float *p, const float *v, int k0, int k1, float *o, int d)        \
    {                                                                                              \
        add_values(R, p, v, k0, k1, o, d);                                                         \
    }
#define SUM_ROW(R) [R] = {take_##R, score_##R, values_##R},

FIRST_ROWS(SUM_FNS)
#ifdef TILE_ROWS_14
LAST_ROWS(SUM_FNS)
#endif

/* For each number of rows. */
static const struct {
    void (*take)(const float *const *src, int d, float *q);
    void (*score)(const float *q, const float *panel, int d, float scale, float *c);
    void (*values)(const float *p, const float *v, int k0, int k1, float *o, int d);
} sum_fns[TILE_ROWS + 1] = {FIRST_ROWS(SUM_ROW)
#ifdef TILE_ROWS_14
                                LAST_ROWS(SUM_ROW)
#endif
};

enum { SCORE_WORDS = VL / 4 }; /* words of a transposed square between two steps of `ahead` */

/* sums [rows] += q . dimensions of VL keys, q [dimensions][rows], over the first `words` words of a
 * transposed square, n elements in each. */
ALWAYS_INLINE void score_square(int rows, enum dtype t, const vf *square, int words, int n,
                                vf scale, const float *q, vf *sums, struct ahead *h)
{
    vf acc[DIRECT_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = sums[r];
    NO_UNROLL
    for (int j = 0; j < words; j++) {
        vf x[4] = {square[j]};
        if (j % SCORE_WORDS == 0)
            ahead_fetch(h);
        if (n > 1)
            widen_words(t, square[j], x);
        UNROLL
        for (int e = 0; e < n; e++, q += rows) {
            vf key = is_scaled(t) ? v_mul(x[e], scale) : x[e];
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r] = v_fma(v_splat(q[r]), key, acc[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        sums[r] = acc[r];
}

/* Scores of a panel of keys.  Vectors of VL keys take turns, so that the chains of sums of one hide
 * in the transposing of the next. */
ALWAYS_INLINE void score_cache(int rows, enum dtype t, const struct kv_operand *k, const size_t *at,
                               const float *q, int d, float scale, float *c, struct ahead *ahead)
{
    enum { VECTORS = PANEL / VL };
    const int n = word_elems(t), step = n * VL;
    const struct kv_operand from = *k;
    struct ahead h = *ahead;
    const char *row[PANEL];
    vf sums[VECTORS][DIRECT_ROWS], scales[VECTORS];
    for (int j = 0; j < PANEL; j++)
        row[j] = kv_at(t, &from, at[j]);
    for (int g = 0; g < VECTORS; g++) {
        scales[g] = key_scales(t, &from, at + g * VL);
        for (int r = 0; r < rows; r++)
            sums[g][r] = v_splat(0.0f);
    }
    for (int i = 0; i < d; i += d - i < step ? VL : step) {
        NO_UNROLL
        for (int g = 0; g < VECTORS; g++) {
            vf square[VL];
            size_t from_byte = (size_t)i * elem_size(t);
            const float *x = q + i * rows;
            ahead_turn(&h);
            if (d - i >= step) {
                transpose_words(row + g * VL, from_byte, square);
                score_square(rows, t, square, VL, n, scales[g], x, sums[g], &h);
            } else {
                int left = d - i < VL ? d - i : VL;
                transpose_rest(t, row + g * VL, from_byte, left, square);
                score_square(rows, t, square, left, 1, scales[g], x, sums[g], &h);
            }
        }
    }
    for (int g = 0; g < VECTORS; g++)
        for (int r = 0; r < rows; r++)
            v_store(c + r * P_STRIDE + g * VL, v_mul(sums[g][r], v_splat(scale)));
    *ahead = h;
}

/* Steps of `ahead` that score_cache takes. */
static inline int score_steps(enum dtype t, int d)
{
    int step = (int)(4 / dtype_size(t)) * VL;
    return PANEL / VL * (d / step + (d % step + VL - 1) / VL) * (VL / SCORE_WORDS);
}

#define DIRECT_FN(R, T)                                                                            \
    static void scores_##T##_##R(const struct kv_operand *k, const size_t *row, const float *q,    \
                                 int d, float scale, float *c, struct ahead *h)                    \
    {                                                                                              \
        score_cache(R, T, k, row, q, d, scale, c, h);                                              \
    }                                                                                              \
    static void cache_##T##_##R(const struct kv_operand *v, const size_t *row, const float *p,     \
                                int k0, int k1, float *o, int d, struct ahead *h)                  \
    {                                                                                              \
        add_cache(R, T, v, row, p, k0, k1, o, d, h);                                               \
    }
#define DIRECT_FNS(R)                                                                              \
    DIRECT_FN(R, DT_F32)                                                                           \
    DIRECT_FN(R, DT_F16) DIRECT_FN(R, DT_BF16) DIRECT_FN(R, DT_E4M3)
#define DIRECT_PAIR(R, T) [T] = {scores_##T##_##R, cache_##T##_##R}
#define DIRECT_ROW(R)                                                                              \
    [R] = {DIRECT_PAIR(R, DT_F32), DIRECT_PAIR(R, DT_F16), DIRECT_PAIR(R, DT_BF16),                \
           DIRECT_PAIR(R, DT_E4M3)},
FIRST_ROWS(DIRECT_FNS)
#ifdef TILE_ROWS_14
DIRECT_FNS(7)
DIRECT_FNS(8)
#endif

static const struct direct_fns {
    void (*scores)(const struct kv_operand *k, const size_t *row, const float *q, int d,
                   float scale, float *c, struct ahead *h);
    void (*sums)(const struct kv_operand *v, const size_t *row, const float *p, int k0, int k1,
                 float *o, int d, struct ahead *h);
} direct_fns[DIRECT_ROWS + 1][DT_N] = {FIRST_ROWS(DIRECT_ROW)
#ifdef TILE_ROWS_14
                                           DIRECT_ROW(7) DIRECT_ROW(8)
#endif
};

#endif
