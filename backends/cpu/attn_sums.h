/* The sums of attention: `rows` broadcast values against vectors of keys or values in f32, so that
 * the accumulators live in registers. */
#ifndef BACKENDS_CPU_ATTN_SUMS_H
#define BACKENDS_CPU_ATTN_SUMS_H

#include "backends/cpu/attn_load.h"

enum { SUM_ACCS = TILE_ROWS < 8 ? 12 : 28 }; /* most accumulators of values_pass */

/* c [rows, PANEL] (P_STRIDE apart) = scale * (q . keys of a panel), q [d][rows]. */
ALWAYS_INLINE void score_panel(int rows, const float *q, const float *panel, int d, float scale,
                               float *c)
{
    for (int part = 0; part < PARTS; part++) {
        struct pair acc[TILE_ROWS];
        const float *w = panel + VL * part, *x = q;
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
            v_store(c + r * P_STRIDE + VL * part, v_mul(acc[r].a, v_splat(scale)));
            v_store(c + r * P_STRIDE + PANEL / 2 + VL * part, v_mul(acc[r].b, v_splat(scale)));
        }
    }
}

/* o [rows, nv vectors] (stride apart) += p v over keys [k0, k1), from element i of the values on; p
 * [rows, SPLIT] (P_STRIDE apart), v [key][stride]. */
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
    const int nv = rows * 4 <= SUM_ACCS ? 4 : 2;
    int i = 0;
    for (; i + nv * VL <= d; i += nv * VL)
        values_pass(rows, nv, p, v, k0, k1, i, o, d);
    for (; i < d; i += VL)
        values_pass(rows, 1, p, v, k0, k1, i, o, d);
}

/* The same of values as they lie in the cache, d a multiple of VL. */
ALWAYS_INLINE void cache_pass(int rows, int nv, enum dtype t, const struct kv_operand *v,
                              const size_t *row, const float *p, int k0, int k1, int i, float *o,
                              int stride, struct ahead *ahead)
{
    const struct kv_operand from = *v;
    struct ahead h = *ahead;
    vf acc[SUM_ACCS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = v_load(o + r * stride + i + VL * j);
    }
    for (int k = k0; k < k1; k++) {
        if (i == 0)
            ahead_step(&h);
        UNROLL
        for (int j = 0; j < nv; j++) {
            vf x = load_kv(t, &from, row[k], i + VL * j, VL);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r * nv + j] = v_fma(v_splat(p[r * P_STRIDE + k]), x, acc[r * nv + j]);
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

ALWAYS_INLINE void add_cache(int rows, enum dtype t, const struct kv_operand *v, const size_t *row,
                             const float *p, int k0, int k1, float *o, int d, struct ahead *h)
{
    const int nv = rows * 4 <= SUM_ACCS ? 4 : 2;
    int i = 0;
    for (; i + nv * VL <= d; i += nv * VL)
        cache_pass(rows, nv, t, v, row, p, k0, k1, i, o, d, h);
    for (; i < d; i += VL)
        cache_pass(rows, 1, t, v, row, p, k0, k1, i, o, d, h);
}

#define SUM_FNS(R)                                                                                 \
    static void score_##R(const float *q, const float *panel, int d, float scale, float *c)        \
    {                                                                                              \
        score_panel(R, q, panel, d, scale, c);                                                     \
    }                                                                                              \
    static void values_##R(const float *p, const float *v, int k0, int k1, float *o, int d)        \
    {                                                                                              \
        add_values(R, p, v, k0, k1, o, d);                                                         \
    }
#define SUM_ROW(R) [R] = {score_##R, values_##R},

FIRST_ROWS(SUM_FNS)
#ifdef TILE_ROWS_14
LAST_ROWS(SUM_FNS)
#endif

/* One pair of functions for each number of rows. */
static const struct {
    void (*score)(const float *q, const float *panel, int d, float scale, float *c);
    void (*values)(const float *p, const float *v, int k0, int k1, float *o, int d);
} sum_fns[TILE_ROWS + 1] = {FIRST_ROWS(SUM_ROW)
#ifdef TILE_ROWS_14
                                LAST_ROWS(SUM_ROW)
#endif
};

enum { DIRECT_ROWS = TILE_ROWS < 8 ? TILE_ROWS : 8 };

#define DIRECT_FN(R, T)                                                                            \
    static void cache_##T##_##R(const struct kv_operand *v, const size_t *row, const float *p,     \
                                int k0, int k1, float *o, int d, struct ahead *h)                  \
    {                                                                                              \
        add_cache(R, T, v, row, p, k0, k1, o, d, h);                                               \
    }
#define DIRECT_FNS(R)                                                                              \
    DIRECT_FN(R, DT_F32)                                                                           \
    DIRECT_FN(R, DT_F16) DIRECT_FN(R, DT_BF16) DIRECT_FN(R, DT_I8) DIRECT_FN(R, DT_E4M3)
#define DIRECT_ROW(R)                                                                              \
    [R] = {[DT_F32] = cache_DT_F32_##R,                                                            \
           [DT_F16] = cache_DT_F16_##R,                                                            \
           [DT_BF16] = cache_DT_BF16_##R,                                                          \
           [DT_I8] = cache_DT_I8_##R,                                                              \
           [DT_E4M3] = cache_DT_E4M3_##R},
FIRST_ROWS(DIRECT_FNS)
#ifdef TILE_ROWS_14
DIRECT_FNS(7)
DIRECT_FNS(8)
#endif

static void (*const cache_fns[DIRECT_ROWS + 1][DT_N])(const struct kv_operand *v, const size_t *row,
                                                      const float *p, int k0, int k1, float *o,
                                                      int d, struct ahead *h) = {
    FIRST_ROWS(DIRECT_ROW)
#ifdef TILE_ROWS_14
        DIRECT_ROW(7) DIRECT_ROW(8)
#endif
};

#endif
