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

/* o [rows, nv vectors] (SUM_STRIDE apart) += p v over keys [k0, k1), from element i of the values on;
 * p [rows, SPLIT] (P_STRIDE apart), v [key][stride]. */
ALWAYS_INLINE void values_pass(int rows, int nv, const float *p, const float *v, int k0, int k1,
                               int i, float *o, int stride)
{
    vf acc[SUM_ACCS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = v_load(o + r * SUM_STRIDE + i + VL * j);
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
            v_store(o + r * SUM_STRIDE + i + VL * j, acc[r * nv + j]);
    }
}

/* o [rows, d] (SUM_STRIDE apart) += p v; d a multiple of VL, also the stride of v. */
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
#ifdef V_LOAD_E4M3_X4
    if (t == DT_E4M3 && nv == 4) {
        v_load_e4m3_x4((const uint8_t *)at, x);
        UNROLL
        for (int j = 0; j < 4; j++)
            x[j] = v_mul(x[j], scale);
        return;
    }
#endif
    UNROLL
    for (int j = 0; j < nv; j++)
        x[j] = load_kv(t, at + VL * j * (int)elem_size(t), VL, scale);
}

/* values_pass with values in the cache's type, d a multiple of VL.  One step of `ahead` a key. */
ALWAYS_INLINE void cache_pass(int rows, int nv, enum dtype t, const struct kv_operand *v,
                              const size_t *row, const float *p, int k0, int k1, int i, float *o,
                              struct ahead *ahead)
{
    const struct kv_operand from = *v;
    vf acc[SUM_ACCS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = v_load(o + r * SUM_STRIDE + i + VL * j);
    }
    for (int k = k0; k < k1; k++) {
        ahead_step(ahead);
        const char *at = kv_at(t, &from, row[k]) + (size_t)i * elem_size(t);
        vf x[4];
        load_values(t, nv, at, kv_scale(t, &from, row[k]), x);
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r * nv + j] = v_fma_at(&p[r * P_STRIDE + k], x[j], acc[r * nv + j]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            v_store(o + r * SUM_STRIDE + i + VL * j, acc[r * nv + j]);
    }
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
        cache_pass(rows, nv, t, v, row, p, k0, k1, i, o, h);
    if (nv > 2 && i + 2 * VL <= d) {
        cache_pass(rows, 2, t, v, row, p, k0, k1, i, o, h);
        i += 2 * VL;
    }
    if (i < d)
        cache_pass(rows, 1, t, v, row, p, k0, k1, i, o, h);
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

enum { SCORE_STEPS = 2 }; /* steps of `ahead` for LANE_BYTES of each key */

/* acc [nv][rows] += q x over n dimensions: x[v][e] has dimension e of the keys of vector v, before
 * their scales; q [n][rows]. */
ALWAYS_INLINE void score_dims(int rows, enum dtype t, int nv, int n, vf (*x)[4], const vf *scales,
                              const float *q, vf *acc)
{
    UNROLL
    for (int e = 0; e < n; e++, q += rows) {
        UNROLL
        for (int v = 0; v < nv; v++)
            x[v][e] = is_scaled(t) ? v_mul(x[v][e], scales[v]) : x[v][e];
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < nv; v++)
                acc[v * rows + r] = v_fma_at(&q[r], x[v][e], acc[v * rows + r]);
        }
    }
}

/* sums [rows, VL] (P_STRIDE apart) += q x over the last n dimensions of VL keys at p + at * row_bytes, fewer than
 * LANE_BYTES have; then they become scores.  Inlined, it would take the registers of score_cache. */
static __attribute__((noinline)) void score_rest(int rows, enum dtype t, const char *p,
                                                 size_t row_bytes, const size_t *at, int n,
                                                 const float *scales, const float *q, float scale,
                                                 float *sums)
{
    const char *row[VL];
    for (int j = 0; j < VL; j++)
        row[j] = p + at[j] * row_bytes;
    for (int i = 0; i < n; i += VL) {
        vf square[VL];
        int m = n - i < VL ? n - i : VL;
        transpose_rest(t, row, (size_t)i * elem_size(t), m, square);
        for (int e = 0; e < m; e++, q += rows) {
            vf x = is_scaled(t) ? v_mul(square[e], v_load(scales)) : square[e];
            for (int r = 0; r < rows; r++)
                v_store(sums + r * P_STRIDE, v_fma_at(&q[r], x, v_load(sums + r * P_STRIDE)));
        }
    }
    for (int r = 0; r < rows; r++)
        v_store(sums + r * P_STRIDE, v_mul(v_load(sums + r * P_STRIDE), v_splat(scale)));
}

/* Scores c [n_kv][rows, PANEL] (P_STRIDE apart) of a panel of keys, q [n_kv][d][rows].  LANE_BYTES of
 * nv vectors of keys at a time: few instructions, so that the processor overlaps the transposing of some
 * with the sums of others. */
ALWAYS_INLINE void score_cache(int rows, enum dtype t, const struct attn_split *a, const size_t *at,
                               const float *q, float *c, struct ahead *ahead)
{
    const int n = word_elems(t), step = 4 * n, nv = score_vectors(rows), d = a->d;
    const size_t row_bytes = a->k.row_elems * elem_size(t);
    const bool copied = lines_are_copied(at, a->block_len, row_bytes);
    struct key_lines lines;
    float scales[ATTN_ROWS * PANEL];
    if (is_scaled(t))
        head_scales(&a->k, a->n_kv, at, a->block_len, scales, PANEL);
    for (int g = 0; g < a->n_kv * (PANEL / VL); g += nv) {
        vf acc[2 * DIRECT_ROWS], key_scale[2];
        int head = g / (PANEL / VL), key = g % (PANEL / VL) * VL, i = 0;
        const char *p = (const char *)a->k.base + (size_t)(head * d) * elem_size(t);
        const float *x = q + head * rows * d;
        float *to = c + head * rows * P_STRIDE + key;
        UNROLL
        for (int v = 0; v < nv; v++)
            key_scale[v] = is_scaled(t) ? v_load(scales + (g + v) * VL) : v_splat(1.0f);
        UNROLL
        for (int j = 0; j < nv * rows; j++)
            acc[j] = v_splat(0.0f);
        NO_UNROLL
        for (; i + step <= d; i += step, p += LANE_BYTES) {
            vf words[2][4];
            int at_byte = i * (int)elem_size(t);
            if (at_byte % 64 == 0)
                take_lines(&lines, nv, copied, p, at + key, row_bytes,
                           d * (int)elem_size(t) - at_byte);
            ahead_turn(ahead);
            UNROLL
            for (int v = 0; v < nv; v++) {
                v_load_lanes(lines.p[v], lines.stride, words[v]);
                v_transpose_4(words[v]);
                lines.p[v] += LANE_BYTES;
            }
            UNROLL
            for (int j = 0; j < 4; j++, x += n * rows) {
                vf dims[2][4];
                if (j % (4 / SCORE_STEPS) == 0)
                    ahead_fetch(ahead);
                UNROLL
                for (int v = 0; v < nv; v++)
                    widen_words(t, words[v][j], dims[v]);
                score_dims(rows, t, nv, n, dims, key_scale, x, acc);
            }
        }
        const float factor = i < d ? 1.0f : a->scale;
        UNROLL
        for (int j = 0; j < nv * rows; j++)
            v_store(to + j % rows * P_STRIDE + j / rows * VL, v_mul(acc[j], v_splat(factor)));
        for (int j = 0; i < d && j < SCORE_STEPS; j++)
            ahead_step(ahead);
        for (int v = 0; i < d && v < nv; v++)
            score_rest(rows, t, p, row_bytes, at + key + v * VL, d - i,
                       is_scaled(t) ? scales + (g + v) * VL : NULL, x, a->scale, to + v * VL);
    }
}

/* Steps of `ahead` that score_cache takes. */
static inline int score_steps(const struct attn_split *a)
{
    int lanes = (a->d * (int)dtype_size(a->k.dtype) + LANE_BYTES - 1) / LANE_BYTES;
    return a->n_kv * (PANEL / VL) / score_vectors(a->rows) * lanes * SCORE_STEPS;
}

#define DIRECT_FN(R, T)                                                                            \
    static void scores_##T##_##R(const struct attn_split *a, const size_t *row, const float *q,    \
                                 float *c, struct ahead *h)                                        \
    {                                                                                              \
        score_cache(R, T, a, row, q, c, h);                                                        \
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
    void (*scores)(const struct attn_split *a, const size_t *row, const float *q, float *c,
                   struct ahead *h);
    void (*sums)(const struct kv_operand *v, const size_t *row, const float *p, int k0, int k1,
                 float *o, int d, struct ahead *h);
} direct_fns[DIRECT_ROWS + 1][DT_N] = {FIRST_ROWS(DIRECT_ROW)
#ifdef TILE_ROWS_14
                                           DIRECT_ROW(7) DIRECT_ROW(8)
#endif
};

#endif
