/* attn_split over int8 entries in vectors, in the two ways of attn_kernels.h. */
#ifndef BACKENDS_CPU_ATTN_INT8_SPLIT_H
#define BACKENDS_CPU_ATTN_INT8_SPLIT_H

#include "backends/cpu/attn_int8.h"
#include "backends/cpu/attn_int8_round.h"

/* Scores of those rows become weights in integers, 0 for keys that a row does not see, and their sums begin.
 * scales [SPLIT]: of the values. */
static void int8_weigh_rows(const struct attn_split *a, const float *scales, int row0, int rows,
                            int at, struct attn_scratch *s)
{
    struct tile_ranges g;
    int32_t most[TILE_ROWS];
    ranges_of(a, row0, rows, &g);
    weigh_tile(true, scales, a, row0, rows, &g, s->p + at * P_STRIDE, most);
    for (int r = 0; r < rows; r++) {
        int i = at + r, from = group_start(g.row_lo[r]), to = group_end(g.row_hi[r]);
        int16_t *w = s->w + i * SPLIT;
        int32_t sum;
        if (g.row_lo[r] >= g.row_hi[r])
            from = to = 0;
        memset(w, 0, (size_t)from * sizeof *w);
        memset(w + to, 0, (size_t)(SPLIT - to) * sizeof *w);
        s->unit[i] = round_row(false, s->p + i * P_STRIDE + from, to - from, most[r], weight_top(),
                               w + from, &sum);
        s->start[i] = -128 * sum;
        int8_begin(s->sums + i * SUM_STRIDE, a->d_value, s->start[i]);
    }
}

/* The scales of n heads' values, from KV head 0 of a on. */
static void value_scales(const struct attn_split *a, int n, const size_t *rows, float (*out)[SPLIT])
{
    for (int k = a->lo / PANEL * PANEL; k < a->hi; k += PANEL)
        head_scales(&a->v, n, rows + k, a->block_len, out[0] + k, SPLIT);
}

static void int8_finish_rows(const struct attn_split *a, int row0, int rows, int at,
                             const struct attn_scratch *s)
{
    for (int r = 0; r < rows; r++)
        int8_finish(s->sums + (at + r) * SUM_STRIDE, a->d_value, s->unit[at + r],
                    partial_of(a, row0 + r));
}

/* Prefill: the only KV head's keys and values are packed, then the tiles take them. */
static void int8_many_rows(const struct attn_split *a, struct attn_scratch *s)
{
    int n_tiles = (a->rows + TILE_ROWS - 1) / TILE_ROWS, panel = 2 * int8_words(a->d) * PANEL;
    int first = a->lo / PANEL, cols = int8_cols(a->d_value);
    float scales[SPLIT], of_values[1][SPLIT];
    value_scales(a, 1, s->rows, of_values);
    for (int i = first; i * PANEL < a->hi; i++) {
        head_scales(&a->k, 1, s->rows + i * PANEL, a->block_len, scales + i * PANEL, 0);
        int8_pack_keys(&a->k, a->d, s->rows, i * PANEL, a->lo, a->hi, s->key_pairs + i * panel);
    }
    int8_pack_values(&a->v, a->d_value, s->rows, first * PANEL, a->hi, s->value_pairs);
    for (int i = 0; i < n_tiles; i++) {
        int row0 = a->rows * i / n_tiles, rows = a->rows * (i + 1) / n_tiles - row0, lo, hi;
        struct int8_query t = int8_query(s, 0);
        int8_queries(a, row0, rows, s);
        union_of(a, row0, row0 + rows, &lo, &hi);
        for (int k = lo / PANEL; k * PANEL < hi; k++)
            int8_fns[rows].scores(s->key_pairs + k * panel, scales + k * PANEL, &t, a->d,
                                  s->p + k * PANEL);
        int8_weigh_rows(a, of_values[0], row0, rows, 0, s);
        int k0 = lo / 2 * 2;
        struct int8_values v = {
            .packed = s->value_pairs + (k0 / 2 - first * PANEL / 2) * cols, .k0 = k0, .k1 = hi};
        int8_fns[rows].sums(&v, s->w, s->sums, a->d_value);
        int8_finish_rows(a, row0, rows, 0, s);
    }
}

/* Do so many rows, of one tile, take keys and values directly from the cache? */
static bool int8_is_direct(int rows)
{
    return (int)DIRECT_ROWS == (int)TILE_ROWS || rows <= DIRECT_ROWS;
}

/* Scores of a panel of keys for all KV heads. */
static void int8_score_heads(const struct attn_split *a, const struct int8_query *queries, int k,
                             struct attn_scratch *s, struct ahead *h)
{
    float scales[PANEL];
    if (int8_is_direct(a->rows)) {
        int8_direct[a->rows].scores(a, s->rows + k, queries, s->p + k, h);
        return;
    }
    for (int g = 0; g < a->n_kv; g++) {
        struct kv_operand keys = attn_head(a->k, g, a->d);
        head_scales(&keys, 1, s->rows + k, a->block_len, scales, 0);
        int8_pack_keys(&keys, a->d, s->rows, k, a->lo, a->hi, s->key_pairs);
        int8_fns[a->rows].scores(s->key_pairs, scales, &queries[g], a->d,
                                 s->p + g * a->rows * P_STRIDE + k);
    }
}

/* Values of keys [k, end) for all KV heads, k even. */
static void int8_sum_heads(const struct attn_split *a, int k, int end, struct attn_scratch *s,
                           struct ahead *h)
{
    int rows = a->rows, d = a->d_value;
    for (int g = 0; g < a->n_kv; g++) {
        const int16_t *w = s->w + g * rows * SPLIT;
        int32_t *o = s->sums + g * rows * SUM_STRIDE;
        struct int8_values v = {.cache = attn_head(a->v, g, d),
                                .rows = s->rows,
                                .packed = s->value_pairs,
                                .k0 = k,
                                .k1 = end};
        if (int8_is_direct(rows)) {
            int8_direct[rows].sums(&v, w, o, d, h);
        } else {
            int8_pack_values(&v.cache, d, s->rows, k, end, s->value_pairs);
            int8_fns[rows].sums(&v, w, o, d);
        }
    }
}

/* Decoding: a panel of keys for all KV heads, one after the other. */
static void int8_few_rows(const struct attn_split *a, struct attn_scratch *s)
{
    int rows = a->rows, lo = a->lo / PANEL * PANEL;
    struct int8_query queries[ATTN_ROWS];
    struct ahead h;
    float scales[4][SPLIT]; /* of so many heads head_scales takes the fewest instructions */
    int8_queries(a, 0, rows, s);
    for (int g = 0; g < a->n_kv; g++)
        queries[g] = int8_query(s, g * rows);
    h = ahead_of(a, false, lo, a->hi - lo, (a->hi - lo + PANEL - 1) / PANEL * int8_score_steps(a));
    for (int k = lo; k < a->hi; k += PANEL)
        int8_score_heads(a, queries, k, s, &h);
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        if (g % 4 == 0)
            value_scales(&one, least_of(a->n_kv - g, 4), s->rows, scales);
        int8_weigh_rows(&one, scales[g % 4], 0, rows, g * rows, s);
    }
    lo = a->lo / 2 * 2;
    h = ahead_of(a, true, lo, a->hi - lo, a->n_kv * int8_value_steps(rows, a->d_value, a->hi - lo));
    for (int k = lo; k < a->hi; k = (k / VALUE_KEYS + 1) * VALUE_KEYS)
        int8_sum_heads(a, k, least_of((k / VALUE_KEYS + 1) * VALUE_KEYS, a->hi), s, &h);
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        int8_finish_rows(&one, 0, rows, g * rows, s);
    }
}

#endif
