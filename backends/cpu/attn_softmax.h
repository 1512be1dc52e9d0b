/* What attention does between its two sums: ranges of keys, scores to weights. */
#ifndef BACKENDS_CPU_ATTN_SOFTMAX_H
#define BACKENDS_CPU_ATTN_SOFTMAX_H

#include "backends/cpu/attn_load.h"

static int most_of(int a, int b)
{
    return a > b ? a : b;
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* Vectors that are taken together, so that their chains overlap; their elements. */
enum { EXPS = 4, FOUR_VL = 4 * VL };

_Static_assert(SPLIT % FOUR_VL == 0 && FOUR_VL % LANES == 0, "whole groups of whole lanes");

/* exact_exp of x that are not positive or NaN, in place: the same operations. */
ALWAYS_INLINE void exp_vectors(vf x[EXPS])
{
    static const float poly[] = {0x1.123a20p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f,
                                 0x1.fffffcp-2f, 1.0f,           1.0f};
    const vf magic = v_splat(0x1.8p23f), least = v_splat(-104.0f);
    vf n[EXPS], r[EXPS];
    UNROLL
    for (int j = 0; j < EXPS; j++)
        x[j] = v_max(least, x[j]);
    UNROLL
    for (int j = 0; j < EXPS; j++)
        n[j] = v_add(v_fma(x[j], v_splat(0x1.715476p0f), magic), v_splat(-0x1.8p23f));
    UNROLL
    for (int j = 0; j < EXPS; j++)
        r[j] = v_fma(n[j], v_splat(-0x1.62e4p-1f), x[j]);
    UNROLL
    for (int j = 0; j < EXPS; j++) {
        r[j] = v_fma(n[j], v_splat(-0x1.7f7d1cp-20f), r[j]);
        x[j] = v_splat(0x1.6a23cep-10f);
    }
    UNROLL
    for (int i = 0; i < (int)ARRAY_LEN(poly); i++) {
        UNROLL
        for (int j = 0; j < EXPS; j++)
            x[j] = v_fma(x[j], r[j], v_splat(poly[i]));
    }
    UNROLL
    for (int j = 0; j < EXPS; j++)
        x[j] = v_scale_2(x[j], n[j]);
}

/* The groups of elements around [lo, hi). */
static inline int group_start(int lo)
{
    return lo / FOUR_VL * FOUR_VL;
}

static inline int group_end(int hi)
{
    return (hi + FOUR_VL - 1) / FOUR_VL * FOUR_VL;
}

/* x = value for keys of those groups outside [lo, hi). */
static void fill_outside(float *x, int lo, int hi, float value)
{
    for (int i = group_start(lo); i < lo; i++)
        x[i] = value;
    for (int i = hi; i < group_end(hi); i++)
        x[i] = value;
}

/* The greatest of scores p [lo, hi) after the soft cap; p is -inf in their groups outside. */
static float greatest_score(float *p, float cap, int lo, int hi)
{
    vf most[2] = {v_splat(-INFINITY), v_splat(-INFINITY)};
    if (cap > 0.0f)
        for (int i = lo; i < hi; i++)
            p[i] = exact_soft_cap(p[i], cap);
    fill_outside(p, lo, hi, -INFINITY);
    for (int i = group_start(lo); i < group_end(hi); i += 2 * VL) {
        most[0] = v_max(v_load(p + i), most[0]);
        most[1] = v_max(v_load(p + i + VL), most[1]);
    }
    return v_greatest(v_max(most[0], most[1]));
}

/* Scores p of keys [lo, hi), -inf in their groups outside, become weights p = exp(score - m), and lane their
 * sums.  With `scale` p * scale replaces them, 0 outside; returns the greatest bits of a magnitude. */
ALWAYS_INLINE int32_t weigh_row(bool scaled, const float *scale, float *p, int lo, int hi, float m,
                                float *lane)
{
    vf sums[LANES / VL], base = v_splat(-m);
    vw most[2] = {w_splat(0), w_splat(0)};
    float seen[SPLIT]; /* no other key's scale matters to the row, not even NaN */
    if (scaled && (lo % FOUR_VL || hi % FOUR_VL)) {
        memcpy(seen + lo, scale + lo, (size_t)(hi - lo) * sizeof *seen);
        fill_outside(seen, lo, hi, 0.0f);
        scale = seen;
    }
    UNROLL
    for (int j = 0; j < LANES / VL; j++)
        sums[j] = v_splat(0.0f);
    for (int i = group_start(lo); i < group_end(hi); i += FOUR_VL) {
        vf x[EXPS];
        UNROLL
        for (int j = 0; j < EXPS; j++)
            x[j] = v_add(v_load(p + i + VL * j), base);
        exp_vectors(x);
        UNROLL
        for (int j = 0; j < EXPS; j++)
            sums[j % (LANES / VL)] = v_add(sums[j % (LANES / VL)], x[j]);
        UNROLL
        for (int j = 0; scaled && j < EXPS; j++) {
            x[j] = v_mul(x[j], v_load(scale + i + VL * j));
            most[j % 2] = w_max(most[j % 2], w_magnitude(x[j]));
        }
        UNROLL
        for (int j = 0; j < EXPS; j++)
            v_store(p + i + VL * j, x[j]);
    }
    UNROLL
    for (int j = 0; j < LANES / VL; j++)
        v_store(lane + VL * j, sums[j]);
    return scaled ? w_greatest(w_max(most[0], most[1])) : 0;
}

/* Keys that all rows of a tile see, [lo, hi), and each row's own range. */
struct tile_ranges {
    int lo, hi;
    int row_lo[TILE_ROWS], row_hi[TILE_ROWS];
};

static void ranges_of(const struct attn_split *a, int row0, int rows, struct tile_ranges *g)
{
    g->lo = 0;
    g->hi = SPLIT;
    for (int r = 0; r < rows; r++) {
        attn_range(a, row0 + r, &g->row_lo[r], &g->row_hi[r]);
        g->lo = g->row_lo[r] > g->lo ? g->row_lo[r] : g->lo;
        g->hi = g->row_hi[r] < g->hi ? g->row_hi[r] : g->hi;
    }
}

static float *partial_of(const struct attn_split *a, int row)
{
    return a->partial + (size_t)row * (size_t)(a->d_value + 2);
}

static void add_rel_bias(const struct attn_split *a, int row, int lo, int hi, float *p)
{
    for (int k = lo; a->rel_bias && k < hi; k++)
        p[k] += attn_rel_bias(a, row, k);
}

/* Scores of rows [row0, row0 + rows) become weights, times the keys' scales where `scaled`; their m and l; most: of
 * weigh_row.  Each step for all rows: what a row ends with overlaps the next one's work. */
ALWAYS_INLINE void weigh_tile(bool scaled, const float *scale, const struct attn_split *a, int row0,
                              int rows, const struct tile_ranges *g, float *p, int32_t *most)
{
    float m[TILE_ROWS];
    _Alignas(64) float lane[TILE_ROWS][LANES];
    for (int r = 0; r < rows; r++) {
        int lo = g->row_lo[r], hi = g->row_hi[r];
        add_rel_bias(a, row0 + r, lo, hi, p + r * P_STRIDE);
        m[r] = lo < hi ? greatest_score(p + r * P_STRIDE, a->cap, lo, hi) : 0.0f;
    }
    for (int r = 0; r < rows; r++) {
        int lo = g->row_lo[r], hi = g->row_hi[r];
        most[r] = 0;
        memset(lane[r], 0, sizeof lane[r]);
        if (lo < hi)
            most[r] = weigh_row(scaled, scale, p + r * P_STRIDE, lo, hi, m[r], lane[r]);
    }
    for (int r = 0; r < rows; r++) {
        float *ml = partial_of(a, row0 + r) + a->d_value;
        ml[0] = m[r];
        ml[1] = lane_sum(lane[r]);
    }
}

static void weigh_rows(const struct attn_split *a, int row0, int rows, const struct tile_ranges *g,
                       float *p)
{
    int32_t none[TILE_ROWS];
    weigh_tile(false, NULL, a, row0, rows, g, p, none);
}

/* Keys that any of rows [row0, row1) sees. */
static void union_of(const struct attn_split *a, int row0, int row1, int *lo, int *hi)
{
    *lo = SPLIT;
    *hi = 0;
    for (int row = row0; row < row1; row++) {
        int l, h;
        attn_range(a, row, &l, &h);
        *lo = l < *lo ? l : *lo;
        *hi = h > *hi ? h : *hi;
    }
}

#endif
