/* attn_split in vectors.  Two ways, the same sums:
 * - Prefill, many rows: each KV head's keys and values of the split are packed once and shared by
 *   its tiles of rows, one tile after the other.
 * - Decoding, one tile of rows for each KV head: PANEL keys, then VALUE_KEYS values at a time for
 *   all heads, so that the cache is read in address order.
 */
#ifndef BACKENDS_CPU_ATTN_KERNELS_H
#define BACKENDS_CPU_ATTN_KERNELS_H

#include "backends/cpu/attn_int8_split.h"
#include "backends/cpu/attn_sums.h"

/* Where the values of a tile come from. */
struct value_source {
    bool in_place; /* from the cache; else f32 rows, of which the first is key `base` */
    struct kv_operand cache;
    const size_t *rows;
    const float *wide;
    int base;
    struct ahead *ahead;
};

/* A tile's weights [rows, SPLIT] (P_STRIDE apart) and sums [rows, d] (SUM_STRIDE apart), d a multiple of VL. */
struct tile_sums {
    const float *p;
    float *o;
    int d;
};

/* o of rows [r, r + rows) += p v over keys [from, to), if there are any. */
static void add_rows(const struct tile_sums *t, int r, int rows, int from, int to,
                     struct value_source *v)
{
    const float *p = t->p + r * P_STRIDE;
    float *o = t->o + r * SUM_STRIDE;
    if (from >= to)
        return;
    if (v->in_place)
        direct_fns[rows][v->cache.dtype].sums(&v->cache, v->rows, p, from, to, o, t->d, v->ahead);
    else
        sum_fns[rows].values(p + v->base, v->wide, from - v->base, to - v->base, o, t->d);
}

/* o += p v over keys [from, to): each row's keys before the common ones, the common ones for all
 * rows at once, the rest.  So no row reads a value that it does not see, not even with weight 0
 * (0 * inf is NaN). */
static void add_ranges(const struct tile_sums *t, const struct tile_ranges *g, int rows, int from,
                       int to, struct value_source *v)
{
    int lo = most_of(g->lo, from), hi = least_of(g->hi, to);
    bool common = lo < hi;
    for (int r = 0; r < rows; r++)
        add_rows(t, r, 1, most_of(g->row_lo[r], from), common ? lo : least_of(g->row_hi[r], to), v);
    if (!common)
        return;
    add_rows(t, 0, rows, lo, hi, v);
    for (int r = 0; r < rows; r++)
        add_rows(t, r, 1, hi, least_of(g->row_hi[r], to), v);
}

static void zero_rows(int rows, int d, float *o)
{
    for (int r = 0; r < rows; r++)
        memset(o + r * SUM_STRIDE, 0, (size_t)d * sizeof *o);
}

/* Keys of a panel that begins with key k, as far as they are in [lo, hi). */
static void pack_panel(const struct kv_operand *keys, int d, const size_t *rows, int k, int lo,
                       int hi, float *panel)
{
    pack_fns[keys->dtype].keys(keys, d, rows, most_of(k, lo / VL * VL), least_of(k + PANEL, hi),
                               panel);
}

static void take_queries(const struct attn_split *a, int row0, int rows, float *q)
{
    const float *src[TILE_ROWS];
    for (int r = 0; r < rows; r++)
        src[r] = a->q + (size_t)((row0 + r) / a->n_heads) * a->q_stride +
                 (size_t)((row0 + r) % a->n_heads) * (size_t)a->d;
    sum_fns[rows].take(src, a->d, q);
}

/* Rows [row0, row0 + rows) of the only KV head, its keys and values packed. */
static void packed_tile(const struct attn_split *a, int row0, int rows, struct attn_scratch *s)
{
    struct value_source v = {.wide = s->values};
    struct tile_sums t = {s->p, s->o, round_up_vl(a->d_value)};
    struct tile_ranges g;
    int lo, hi, d = round_up_vl(a->d);
    union_of(a, row0, row0 + rows, &lo, &hi);
    ranges_of(a, row0, rows, &g);
    take_queries(a, row0, rows, s->q);
    for (int k = lo / PANEL * PANEL; k < hi; k += PANEL)
        sum_fns[rows].score(s->q, s->keys + k * d, a->d, a->scale, s->p + k);
    weigh_rows(a, row0, rows, &g, s->p);
    zero_rows(rows, t.d, s->o);
    add_ranges(&t, &g, rows, lo, hi, &v);
    for (int r = 0; r < rows; r++)
        memcpy(partial_of(a, row0 + r), t.o + r * SUM_STRIDE, (size_t)a->d_value * sizeof(float));
}

static void many_rows(const struct attn_split *a, struct attn_scratch *s)
{
    int n_tiles = (a->rows + TILE_ROWS - 1) / TILE_ROWS, d = round_up_vl(a->d);
    int n = round_up_vl(a->d_value);
    for (int k = a->lo / PANEL * PANEL; k < a->hi; k += PANEL)
        pack_panel(&a->k, a->d, s->rows, k, a->lo, a->hi, s->keys + k * d);
    pack_fns[a->v.dtype].values(&a->v, a->d_value, s->rows, a->lo, a->hi, s->values + a->lo * n);
    for (int i = 0; i < n_tiles; i++) {
        int from = a->rows * i / n_tiles, to = a->rows * (i + 1) / n_tiles;
        packed_tile(a, from, to - from, s);
    }
}

/* Scores of a panel of keys for all KV heads. */
static void score_heads(const struct attn_split *a, int k, struct attn_scratch *s, struct ahead *h)
{
    if (a->rows <= DIRECT_ROWS) {
        direct_fns[a->rows][a->k.dtype].scores(a, s->rows + k, s->q, s->p + k, h);
        return;
    }
    for (int g = 0; g < a->n_kv; g++) {
        struct kv_operand keys = attn_head(a->k, g, a->d);
        pack_panel(&keys, a->d, s->rows, k, a->lo, a->hi, s->keys);
        sum_fns[a->rows].score(s->q + g * a->rows * a->d, s->keys, a->d, a->scale,
                               s->p + g * a->rows * P_STRIDE + k);
    }
}

static bool values_in_place(const struct attn_split *a)
{
    return a->rows <= DIRECT_ROWS && a->d_value % VL == 0;
}

/* Values of keys [k, end) for all KV heads. */
static void sum_heads(const struct attn_split *a, const struct tile_ranges *ranges, int k, int end,
                      struct attn_scratch *s, struct ahead *h)
{
    int rows = a->rows, d = round_up_vl(a->d_value);
    struct value_source v = {
        .in_place = values_in_place(a), .rows = s->rows, .wide = s->values, .base = k, .ahead = h};
    for (int g = 0; g < a->n_kv; g++) {
        struct tile_sums t = {s->p + g * rows * P_STRIDE, s->o + g * rows * SUM_STRIDE, d};
        v.cache = attn_head(a->v, g, a->d_value);
        if (!v.in_place)
            pack_fns[a->v.dtype].values(&v.cache, a->d_value, s->rows, k, end, s->values);
        add_ranges(&t, ranges, rows, k, end, &v);
    }
}

static void few_rows(const struct attn_split *a, struct attn_scratch *s)
{
    int rows = a->rows, d = round_up_vl(a->d_value), lo = a->lo / PANEL * PANEL;
    struct tile_ranges ranges;
    struct ahead h;
    ranges_of(a, 0, rows, &ranges);
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        take_queries(&one, 0, rows, s->q + g * rows * a->d);
    }
    h = ahead_of(a, false, lo, a->hi - lo, (a->hi - lo + PANEL - 1) / PANEL * score_steps(a));
    for (int k = lo; k < a->hi; k += PANEL)
        score_heads(a, k, s, &h);
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        weigh_rows(&one, 0, rows, &ranges, s->p + g * rows * P_STRIDE);
    }
    zero_rows(a->n_kv * rows, d, s->o);
    h = ahead_of(a, true, a->lo, a->hi - a->lo, a->n_kv * (a->hi - a->lo) * value_steps(rows, d));
    for (int k = a->lo; k < a->hi; k = (k / VALUE_KEYS + 1) * VALUE_KEYS)
        sum_heads(a, &ranges, k, least_of((k / VALUE_KEYS + 1) * VALUE_KEYS, a->hi), s, &h);
    for (int r = 0; r < a->n_kv * rows; r++) {
        if (values_in_place(a))
            sums_order(a->v.dtype, s->o + r * SUM_STRIDE, d, partial_of(a, r));
        else
            memcpy(partial_of(a, r), s->o + r * SUM_STRIDE, (size_t)a->d_value * sizeof(float));
    }
}

static void fast_attn_split(const struct attn_split *a, float *scratch)
{
    struct attn_scratch *s = (struct attn_scratch *)scratch;
    bool i8 = a->k.dtype == DT_I8;
    find_rows(a, a->lo, a->hi, s->rows);
    if (a->rows <= TILE_ROWS && a->n_kv * a->rows <= ATTN_ROWS) {
        (i8 ? int8_few_rows : few_rows)(a, s);
        return;
    }
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        (i8 ? int8_many_rows : many_rows)(&one, s);
    }
}

#endif
