/* attn_split in vectors: scores, weights and sums of one tile of rows after the other.  Many tiles
 * share the split's packed keys and values; a single one, as in decoding, packs them a panel at a
 * time, which stays in the first-level cache until it is used. */
#ifndef BACKENDS_CPU_ATTN_KERNELS_H
#define BACKENDS_CPU_ATTN_KERNELS_H

#include "backends/cpu/attn_pack.h"
#include "backends/cpu/attn_sums.h"

/* Scores p [SPLIT] of one row become weights: zero outside [lo, hi) within the groups of LANES that
 * the range touches. */
static void softmax_row(float *p, int lo, int hi, float *m_out, float *l_out)
{
    float lane[LANES] = {0}, m = -INFINITY, each[VL];
    vf most = v_splat(-INFINITY);
    int from = lo / LANES * LANES, to = (hi + LANES - 1) / LANES * LANES;
    for (int i = from; i < lo; i++)
        p[i] = -INFINITY;
    for (int i = hi; i < to; i++)
        p[i] = -INFINITY;
    for (int i = from; i < to; i += VL)
        most = v_max(v_load(p + i), most);
    v_store(each, most);
    for (int j = 0; j < VL; j++)
        m = each[j] > m ? each[j] : m;
    for (int i = from; i < to; i++)
        p[i] = exact_exp(p[i] - m);
    for (int i = from; i < to; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += p[i + j];
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

/* Where a tile's values come from. */
struct value_source {
    bool
        in_place; /* from the cache; else f32 rows in s->values, of which the first is key `base` */
    int base;
    struct ahead ahead;
};

/* o of rows [r, r + rows) += p v over keys [from, to), if there are any. */
static void add_rows(const struct attn_split *a, int r, int rows, int from, int to,
                     struct value_source *v, struct attn_scratch *s)
{
    int d = round_up_vl(a->d);
    float *p = s->p + r * P_STRIDE, *o = s->o + r * d;
    if (from >= to)
        return;
    if (v->in_place)
        cache_fns[rows][a->v.dtype](&a->v, s->rows, p, from, to, o, d, &v->ahead);
    else
        sum_fns[rows].values(p + v->base, s->values, from - v->base, to - v->base, o, d);
}

static int most_of(int a, int b)
{
    return a > b ? a : b;
}

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* o += p v over keys [from, to): each row's keys before the common ones, the common ones for all
 * rows at once, the rest.  So no row meets a value that it does not see, not even with weight 0 (0
 * * inf is NaN). */
static void add_ranges(const struct attn_split *a, const struct tile_ranges *g, int rows, int from,
                       int to, struct value_source *v, struct attn_scratch *s)
{
    int lo = most_of(g->lo, from), hi = least_of(g->hi, to);
    bool common = lo < hi;
    for (int r = 0; r < rows; r++)
        add_rows(a, r, 1, most_of(g->row_lo[r], from), common ? lo : least_of(g->row_hi[r], to), v,
                 s);
    if (!common)
        return;
    add_rows(a, 0, rows, lo, hi, v, s);
    for (int r = 0; r < rows; r++)
        add_rows(a, r, 1, hi, least_of(g->row_hi[r], to), v, s);
}

static float *panel_of(const struct attn_split *a, int key, bool packed, struct attn_scratch *s)
{
    return s->keys + (packed ? (size_t)(key / PANEL * round_up_vl(a->d)) * PANEL : 0);
}

/* All keys of a panel that begins with key k, as far as they are in [lo, hi). */
static void pack_panel(const struct attn_split *a, int k, int lo, int hi, bool packed,
                       struct attn_scratch *s, struct ahead *h)
{
    pack_fns[a->k.dtype].keys(a, most_of(k, lo / VL * VL), least_of(k + PANEL, hi),
                              panel_of(a, k, packed, s), s, h);
}

static struct ahead keys_ahead(const struct attn_split *a, int lo, int hi)
{
    int groups = (hi - lo / VL * VL + VL - 1) / VL;
    return ahead_start(a, &a->k, groups * pack_fns[a->k.dtype].key_steps(a->d));
}

static void score_keys(const struct attn_split *a, int rows, int lo, int hi, bool packed,
                       struct attn_scratch *s)
{
    struct ahead h = keys_ahead(a, lo, hi);
    for (int k = lo / PANEL * PANEL; k < hi; k += PANEL) {
        if (!packed)
            pack_panel(a, k, lo, hi, false, s, &h);
        sum_fns[rows].score(s->q, panel_of(a, k, packed, s), a->d, a->scale, s->p + k);
    }
}

static void sum_values(const struct attn_split *a, const struct tile_ranges *g, int rows, int lo,
                       int hi, bool packed, struct attn_scratch *s)
{
    struct value_source v = {.in_place = !packed && rows <= DIRECT_ROWS && a->d % VL == 0,
                             .ahead = ahead_start(a, &a->v, hi - lo)};
    memset(s->o, 0, (size_t)(rows * round_up_vl(a->d)) * sizeof(float));
    for (int k = lo, end; k < hi; k = end) {
        end = packed ? hi : least_of(k + PANEL, hi);
        if (!packed && !v.in_place) {
            v.base = k;
            pack_fns[a->v.dtype].values(a, k, end, s->values, s, &v.ahead);
        }
        add_ranges(a, g, rows, k, end, &v, s);
    }
}

static void pack_all(const struct attn_split *a, int lo, int hi, struct attn_scratch *s)
{
    struct ahead h = keys_ahead(a, lo, hi);
    for (int k = lo / PANEL * PANEL; k < hi; k += PANEL)
        pack_panel(a, k, lo, hi, true, s, &h);
    h = ahead_start(a, &a->v, hi - lo);
    pack_fns[a->v.dtype].values(a, lo, hi, s->values + lo * round_up_vl(a->d), s, &h);
}

static void take_queries(const struct attn_split *a, int row0, int rows, float *q)
{
    for (int r = 0; r < rows; r++) {
        int row = row0 + r;
        const float *src = a->q + (size_t)(row / a->n_heads) * a->q_stride +
                           (size_t)(row % a->n_heads) * (size_t)a->d;
        for (int i = 0; i < a->d; i++)
            q[i * rows + r] = src[i];
    }
}

/* Rows [row0, row0 + rows), which together see keys [lo, hi). */
static void attn_tile(const struct attn_split *a, int row0, int rows, int lo, int hi, bool packed,
                      struct attn_scratch *s)
{
    struct tile_ranges g;
    size_t n = (size_t)a->d, stride = (size_t)round_up_vl(a->d);
    ranges_of(a, row0, rows, &g);
    take_queries(a, row0, rows, s->q);
    if (lo < hi)
        score_keys(a, rows, lo, hi, packed, s);
    for (int r = 0; r < rows; r++) {
        float *part = a->part + (size_t)(row0 + r) * (n + 2);
        part[n] = part[n + 1] = 0.0f;
        if (g.row_lo[r] < g.row_hi[r])
            softmax_row(s->p + r * P_STRIDE, g.row_lo[r], g.row_hi[r], &part[n], &part[n + 1]);
    }
    sum_values(a, &g, rows, lo, hi, packed, s);
    for (int r = 0; r < rows; r++)
        memcpy(a->part + (size_t)(row0 + r) * (n + 2), s->o + (size_t)r * stride,
               n * sizeof(float));
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

static void fast_attn_split(const struct attn_split *a, float *scratch)
{
    struct attn_scratch *s = (struct attn_scratch *)scratch;
    int lo, hi, n_tiles = (a->rows + TILE_ROWS - 1) / TILE_ROWS;
    bool packed = n_tiles > 1;
    union_of(a, 0, a->rows, &lo, &hi);
    if (lo < hi) {
        find_rows(a, lo, hi, s->rows);
        if (packed)
            pack_all(a, lo, hi, s);
    }
    for (int i = 0; i < n_tiles; i++) {
        int from = a->rows * i / n_tiles, to = a->rows * (i + 1) / n_tiles;
        union_of(a, from, to, &lo, &hi);
        attn_tile(a, from, to - from, lo, hi, packed, s);
    }
}

#endif
