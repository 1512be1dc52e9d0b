/* attn_split on the tile functions: keys are transposed into panels of PANEL keys (one row per
 * dimension) and values copied into panels of PANEL dimensions (one row per key), both in f32, once
 * for all rows. */
#ifndef BACKENDS_CPU_ATTN_KERNELS_H
#define BACKENDS_CPU_ATTN_KERNELS_H

#include "backends/cpu/tile_kernels.h"

enum { DIM_PANELS = HEAD_MAX / PANEL };

struct attn_scratch {
    float keys[KEY_PANELS * HEAD_MAX * PANEL]; /* [KEY_PANELS][d][PANEL] */
    float values[DIM_PANELS * SPLIT * PANEL];  /* [ceil(d / PANEL)][SPLIT][PANEL] */
    float q[HEAD_MAX * TILE_ROWS];             /* [d][rows] */
    float p[TILE_ROWS * P_STRIDE];             /* [rows][SPLIT] scores, then weights */
    float o[TILE_ROWS * HEAD_MAX];             /* [rows][d rounded up to PANEL] */
    size_t rows[SPLIT];                        /* of the cache */
};

static inline bool is_scaled(enum dtype t)
{
    return t == DT_I8 || t == DT_E4M3;
}

/* VL elements to f32, before the scale. */
ALWAYS_INLINE vf load_wide(enum dtype t, const void *base, size_t at)
{
    float tmp[VL];
    switch (t) {
    case DT_F16:
        return v_load_f16((const uint16_t *)base + at);
    case DT_BF16:
        return v_load_bf16((const uint16_t *)base + at);
    case DT_I8:
        return v_load_i8((const int8_t *)base + at);
    case DT_E4M3:
        for (int j = 0; j < VL; j++)
            tmp[j] = f32_of_e4m3(((const uint8_t *)base)[at + (size_t)j]);
        return v_load(tmp);
    default:
        return v_load((const float *)base + at);
    }
}

/* Elements [i, i + n) of one head in a cache row, to f32. */
ALWAYS_INLINE void widen(const struct kv_operand *o, enum dtype t, size_t row, int i, int n,
                         float *dst)
{
    size_t at = row * o->row_elems + (size_t)i;
    int j = 0;
    if (is_scaled(t)) {
        vf scale = v_splat(o->scale[row * o->scale_stride]);
        for (; j + VL <= n; j += VL)
            v_store(dst + j, v_mul(load_wide(t, o->base, at + (size_t)j), scale));
    } else {
        for (; j + VL <= n; j += VL)
            v_store(dst + j, load_wide(t, o->base, at + (size_t)j));
    }
    for (; j < n; j++)
        dst[j] = kv_value(o, row, i + j);
}

ALWAYS_INLINE size_t elem_size(enum dtype t) /* dtype_size where t is a constant */
{
    return t == DT_F32 ? 4 : t == DT_F16 || t == DT_BF16 ? 2 : 1;
}

ALWAYS_INLINE void prefetch_row(const struct kv_operand *o, enum dtype t, size_t row, int d)
{
    size_t size = elem_size(t);
    const char *p = (const char *)o->base + row * o->row_elems * size;
    for (size_t i = 0; i < (size_t)d * size; i += 64)
        __builtin_prefetch(p + i);
}

/* Key i of n is being packed: the same share of the rows that come next is called into the L2
 * cache. */
ALWAYS_INLINE void prefetch_next(const struct attn_split *a, const struct kv_operand *o,
                                 enum dtype t, int i, int n)
{
    int step = (a->n_next << 16) / n; /* n_next <= SPLIT */
    for (int j = i * step >> 16; j < (i + 1) * step >> 16; j++) {
        size_t size = elem_size(t), row = kv_row(a->blocks, a->block_len, a->next_key + j);
        const char *p = (const char *)o->base + (row * o->row_elems - a->next_back) * size;
        for (size_t b = 0; b < a->next_elems * size; b += 64)
            __builtin_prefetch(p + b, 0, 2);
    }
}

enum { AHEAD = 16, CHUNK = 64 }; /* keys */

/* Cache rows of keys [lo, hi) of the split. */
static void find_rows(const struct attn_split *a, int lo, int hi, size_t *rows)
{
    int32_t key = a->first_key + lo, block = key / a->block_len, offset = key % a->block_len;
    for (int j = lo; j < hi; j++) {
        rows[j] = (size_t)a->blocks[block] * (size_t)a->block_len + (size_t)offset;
        if (++offset == a->block_len) {
            offset = 0;
            block++;
        }
    }
}

/* Keys [lo, hi) of the split into s->keys, which begins with key `base`.  Columns of a group of VL
 * that are outside repeat a key inside; their scores are not used. */
ALWAYS_INLINE void pack_keys(const struct attn_split *a, enum dtype t, int base, int lo, int hi,
                             struct attn_scratch *s)
{
    int d = a->d;
    for (int k0 = lo / VL * VL; k0 < hi; k0 += VL) {
        float *panel = s->keys + (size_t)((k0 - base) / PANEL * d) * PANEL + k0 % PANEL;
        size_t row[VL];
        vf scale[VL];
        for (int j = 0; j < VL; j++) {
            int key = k0 + j < lo ? lo : k0 + j < hi ? k0 + j : hi - 1;
            prefetch_next(a, &a->k, t, key - lo, hi - lo);
            if (key + AHEAD < hi)
                prefetch_row(&a->k, t, s->rows[key + AHEAD], d);
            row[j] = s->rows[key];
            if (is_scaled(t))
                scale[j] = v_splat(a->k.scale[row[j] * a->k.scale_stride]);
        }
        int i = 0;
        for (; i + VL <= d; i += VL) {
            vf block[VL];
            UNROLL
            for (int j = 0; j < VL; j++) {
                block[j] = load_wide(t, a->k.base, row[j] * a->k.row_elems + (size_t)i);
                if (is_scaled(t))
                    block[j] = v_mul(block[j], scale[j]);
            }
            v_transpose(block);
            UNROLL
            for (int j = 0; j < VL; j++)
                v_store(panel + (i + j) * PANEL, block[j]);
        }
        for (; i < d; i++)
            for (int j = 0; j < VL; j++)
                panel[i * PANEL + j] = kv_value(&a->k, row[j], i);
    }
}

ALWAYS_INLINE void pack_values(const struct attn_split *a, enum dtype t, int base, int lo, int hi,
                               struct attn_scratch *s)
{
    for (int k = lo; k < hi; k++) {
        prefetch_next(a, &a->v, t, k - lo, hi - lo);
        if (k + AHEAD < hi)
            prefetch_row(&a->v, t, s->rows[k + AHEAD], a->d);
        float *dst = s->values + (size_t)(k - base) * PANEL;
        int i = 0;
        for (; i + PANEL <= a->d; i += PANEL, dst += SPLIT * PANEL)
            widen(&a->v, t, s->rows[k], i, PANEL, dst);
        if (i < a->d) {
            memset(dst, 0, PANEL * sizeof *dst);
            widen(&a->v, t, s->rows[k], i, a->d - i, dst);
        }
    }
}

#define PACK_FNS(T)                                                                                \
    static void keys_##T(const struct attn_split *a, int base, int lo, int hi,                     \
                         struct attn_scratch *s)                                                   \
    {                                                                                              \
        pack_keys(a, T, base, lo, hi, s);                                                          \
    }                                                                                              \
    static void values_##T(const struct attn_split *a, int base, int lo, int hi,                   \
                           struct attn_scratch *s)                                                 \
    {                                                                                              \
        pack_values(a, T, base, lo, hi, s);                                                        \
    }
PACK_FNS(DT_F32)
PACK_FNS(DT_F16)
PACK_FNS(DT_BF16)
PACK_FNS(DT_I8)
PACK_FNS(DT_E4M3)

/* Keys and values are of one type. */
static const struct {
    void (*keys)(const struct attn_split *a, int base, int lo, int hi, struct attn_scratch *s);
    void (*values)(const struct attn_split *a, int base, int lo, int hi, struct attn_scratch *s);
} pack_fns[DT_N] = {
    [DT_F32] = {keys_DT_F32, values_DT_F32},    [DT_F16] = {keys_DT_F16, values_DT_F16},
    [DT_BF16] = {keys_DT_BF16, values_DT_BF16}, [DT_I8] = {keys_DT_I8, values_DT_I8},
    [DT_E4M3] = {keys_DT_E4M3, values_DT_E4M3},
};

static inline float *row_part(const struct attn_split *a, int row)
{
    return a->part + (size_t)row * (size_t)(a->d + 2);
}

/* Scores p [SPLIT] of one row become weights: zero outside [lo, hi) within the groups of LANES that
 * the range touches. */
static void softmax_row(float *p, int lo, int hi, float *m_out, float *l_out)
{
    float lane[LANES] = {0}, m = -INFINITY, most[LANES];
    for (int j = 0; j < LANES; j++)
        most[j] = -INFINITY;
    for (int i = lo / LANES * LANES; i < hi; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = i + j >= lo && i + j < hi ? p[i + j] : -INFINITY;
            most[j] = v > most[j] ? v : most[j];
        }
    for (int j = 0; j < LANES; j++)
        m = most[j] > m ? most[j] : m;
    for (int i = lo / LANES * LANES; i < hi; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float e = exact_exp(p[i + j] - m);
            p[i + j] = i + j >= lo && i + j < hi ? e : 0.0f;
            lane[j] += p[i + j];
        }
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

/* o of one row += p v over keys [from, to), of which s->values begins with `base`. */
static void add_row(const struct attn_split *a, int r, int from, int to, int base,
                    struct attn_scratch *s, size_t stride)
{
    for (int i = 0; i < a->d && from < to; i += PANEL)
        tile_fns[1].value(s->p + r * P_STRIDE + base,
                          s->values + (size_t)(i / PANEL) * SPLIT * PANEL, from - base, to - base,
                          s->o + (size_t)r * stride + i, stride);
}

/* o += p v over keys [from, to): each row's keys before the common ones, the common ones for all
 * rows at once, the rest.  So no row meets a value that it does not see, not even with weight 0 (0
 * * inf is NaN). */
static void add_values(const struct attn_split *a, const struct tile_ranges *g, int rows, int from,
                       int to, int base, struct attn_scratch *s, size_t stride)
{
    int lo = g->lo > from ? g->lo : from, hi = g->hi < to ? g->hi : to;
    bool common = lo < hi;
    for (int r = 0; r < rows; r++) {
        int first = g->row_lo[r] > from ? g->row_lo[r] : from;
        int end = g->row_hi[r] < to ? g->row_hi[r] : to;
        add_row(a, r, first, common ? lo : end, base, s, stride);
    }
    for (int i = 0; common && i < a->d; i += PANEL)
        tile_fns[rows].value(s->p + base, s->values + (size_t)(i / PANEL) * SPLIT * PANEL,
                             lo - base, hi - base, s->o + i, stride);
    for (int r = 0; common && r < rows; r++)
        add_row(a, r, hi, g->row_hi[r] < to ? g->row_hi[r] : to, base, s, stride);
}

/* Scores of keys [from, to), of which s->keys begins with `base`. */
static void score_keys(const struct attn_split *a, int rows, int from, int to, int base,
                       struct attn_scratch *s)
{
    for (int k = from / PANEL * PANEL; k < to; k += PANEL)
        tile_fns[rows].score(s->q, s->keys + (size_t)((k - base) / PANEL * a->d) * PANEL, a->d,
                             a->scale, s->p + k);
}

static void pack_queries(const struct attn_split *a, int row0, int rows, float *q)
{
    for (int r = 0; r < rows; r++) {
        int row = row0 + r;
        const float *src = a->q + (size_t)(row / a->n_heads) * a->q_stride +
                           (size_t)(row % a->n_heads) * (size_t)a->d;
        for (int i = 0; i < a->d; i++)
            q[i * rows + r] = src[i];
    }
}

/* Rows [row0, row0 + rows).  packed: all keys and values of [lo, hi) are in s already; else they
 * are packed CHUNK keys at a time, which stay in the first-level cache until they are used. */
static void attn_tile(const struct attn_split *a, int row0, int rows, int lo, int hi, bool packed,
                      struct attn_scratch *s)
{
    struct tile_ranges g;
    size_t stride = (size_t)(a->d + PANEL - 1) / PANEL * PANEL;
    int step = packed ? SPLIT : CHUNK;
    ranges_of(a, row0, rows, &g);
    pack_queries(a, row0, rows, s->q);
    for (int base = lo / step * step; base < hi; base += step) {
        int from = base > lo ? base : lo, to = base + step < hi ? base + step : hi;
        if (!packed)
            pack_fns[a->k.dtype].keys(a, base, from, to, s);
        score_keys(a, rows, from, to, base, s);
    }
    memset(s->o, 0, (size_t)rows * stride * sizeof(float));
    for (int r = 0; r < rows; r++) {
        float *part = row_part(a, row0 + r);
        part[a->d] = part[a->d + 1] = 0.0f;
        if (g.row_lo[r] < g.row_hi[r])
            softmax_row(s->p + r * P_STRIDE, g.row_lo[r], g.row_hi[r], &part[a->d],
                        &part[a->d + 1]);
    }
    for (int base = lo / step * step; base < hi; base += step) {
        int from = base > lo ? base : lo, to = base + step < hi ? base + step : hi;
        if (!packed)
            pack_fns[a->v.dtype].values(a, base, from, to, s);
        add_values(a, &g, rows, from, to, base, s, stride);
    }
    for (int r = 0; r < rows; r++)
        memcpy(row_part(a, row0 + r), s->o + (size_t)r * stride, (size_t)a->d * sizeof(float));
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
        if (packed) {
            pack_fns[a->k.dtype].keys(a, 0, lo, hi, s);
            pack_fns[a->v.dtype].values(a, 0, lo, hi, s);
        }
    }
    for (int i = 0; i < n_tiles; i++) {
        int from = a->rows * i / n_tiles, to = a->rows * (i + 1) / n_tiles;
        union_of(a, from, to, &lo, &hi);
        attn_tile(a, from, to - from, lo, hi, packed, s);
    }
}

#endif
