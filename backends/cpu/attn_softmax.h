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

/* Scores p [SPLIT] of one row become weights: zero outside [lo, hi), up to the multiples of LANES
 * around that range. */
static void softmax_row(float *p, float cap, int lo, int hi, float *m_out, float *l_out)
{
    float lane[LANES] = {0}, m, each[VL];
    vf most = v_splat(-INFINITY);
    int from = lo / LANES * LANES, to = (hi + LANES - 1) / LANES * LANES;
    if (cap > 0.0f)
        for (int i = from; i < to; i++)
            p[i] = exact_soft_cap(p[i], cap);
    for (int i = from; i < lo; i++)
        p[i] = -INFINITY;
    for (int i = hi; i < to; i++)
        p[i] = -INFINITY;
    for (int i = from; i < to; i += VL)
        most = v_max(v_load(p + i), most);
    v_store(each, most);
    for (int j = 0; VL > 8 && j < 8; j++) /* loops of constant length become vectors */
        each[j] = each[j] > each[j + VL / 2] ? each[j] : each[j + VL / 2];
    for (int j = 0; VL > 4 && j < 4; j++)
        each[j] = each[j] > each[j + 4] ? each[j] : each[j + 4];
    for (int j = 0; j < 2; j++)
        each[j] = each[j] > each[j + 2] ? each[j] : each[j + 2];
    m = each[0] > each[1] ? each[0] : each[1];
    for (int i = from; i < to; i += LANES)
        for (int j = 0; j < LANES; j++) {
            p[i + j] = exact_exp(p[i + j] - m);
            lane[j] += p[i + j];
        }
    for (int i = from; i < lo; i++)
        p[i] = 0.0f;
    for (int i = hi; i < to; i++)
        p[i] = 0.0f;
    *m_out = m;
    *l_out = lane_sum(lane);
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

/* Scores of rows [row0, row0 + rows) become weights; their m and l. */
static void weigh_rows(const struct attn_split *a, int row0, int rows, const struct tile_ranges *g,
                       float *p)
{
    for (int r = 0; r < rows; r++) {
        float *ml = partial_of(a, row0 + r) + a->d_value;
        ml[0] = ml[1] = 0.0f;
        add_rel_bias(a, row0 + r, g->row_lo[r], g->row_hi[r], p + r * P_STRIDE);
        if (g->row_lo[r] < g->row_hi[r])
            softmax_row(p + r * P_STRIDE, a->cap, g->row_lo[r], g->row_hi[r], &ml[0], &ml[1]);
    }
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
