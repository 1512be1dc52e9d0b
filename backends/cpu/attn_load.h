/* Reading the KV cache in vectors: any element type but int8 (attn_int8.h) to f32. */
#ifndef BACKENDS_CPU_ATTN_LOAD_H
#define BACKENDS_CPU_ATTN_LOAD_H

#include "backends/cpu/tile_kernels.h"

enum {
    P_STRIDE = SPLIT + LANES, /* between rows of weights, off a multiple of 4 KiB */
    KEY_PANELS = SPLIT / PANEL,
    VALUE_KEYS = 2 * PANEL, /* whose values decoding adds for one head, then for the next */
    LANE_BYTES = 16,        /* of a vector, see v_load_lanes */
    DIRECT_ROWS = TILE_ROWS < 8 ? TILE_ROWS : 8, /* few rows read keys and values in the cache */
    SUM_STRIDE =
        HEAD_MAX, /* between rows of sums: a constant, so that one register addresses them */
};

/* n tiles: one in a prefill; in decoding one for each KV head. */
struct attn_scratch {
    _Alignas(64) float p[ATTN_ROWS * P_STRIDE]; /* [n][rows][SPLIT] scores, then weights */
    size_t rows[SPLIT];                         /* of the cache, see find_rows */
    union {
        struct {
            /* [KEY_PANELS][d rounded up to VL][PANEL] */
            float keys[KEY_PANELS * HEAD_MAX * PANEL];
            float values[SPLIT * HEAD_MAX];  /* [SPLIT][d_value rounded up to VL], zeros behind */
            float q[ATTN_ROWS * HEAD_MAX];   /* [n][d][rows] */
            float o[ATTN_ROWS * SUM_STRIDE]; /* [n][rows][SUM_STRIDE], the first d_value */
        };
        struct { /* int8 entries: see attn_int8.h */
            int32_t key_pairs[KEY_PANELS * HEAD_MAX / 2 * PANEL]; /* [KEY_PANELS][pairs][PANEL] */
            int32_t value_pairs[SPLIT / 2 * HEAD_MAX];            /* [SPLIT / 2][int8_cols] */
            int32_t q_pairs[ATTN_ROWS * HEAD_MAX / 2];            /* of struct int8_query */
            int32_t sums[ATTN_ROWS * SUM_STRIDE]; /* [n][rows][SUM_STRIDE], the first int8_cols */
            int16_t w[ATTN_ROWS * SPLIT];         /* [n][rows][SPLIT] */
            int32_t start[ATTN_ROWS];             /* of the sums of scores, then of values */
            float unit[ATTN_ROWS]; /* the factor of a score, then of a sum of values */
        };
    };
};

/* Vectors of keys whose scores are computed at one time, where there are registers enough. */
ALWAYS_INLINE int score_vectors(int rows)
{
    return (int)TILE_ROWS == 14 && rows <= 4 ? 2 : 1;
}

static inline int round_up_vl(int d)
{
    return (d + VL - 1) / VL * VL;
}

static inline bool is_scaled(enum dtype t)
{
    return t == DT_E4M3;
}

ALWAYS_INLINE size_t elem_size(enum dtype t) /* dtype_size where t is a constant */
{
    return t == DT_F32 ? 4 : t == DT_F16 || t == DT_BF16 ? 2 : 1;
}

/* VL elements to f32, before the scale. */
ALWAYS_INLINE vf load_wide(enum dtype t, const void *p)
{
    switch (t) {
    case DT_F16:
        return v_load_f16(p);
    case DT_BF16:
        return v_load_bf16(p);
    case DT_E4M3:
        return v_load_e4m3(p);
    default:
        return v_load(p);
    }
}

/* The first n < VL elements to f32, before the scale, then zeros; reads nothing else. */
ALWAYS_INLINE vf load_first(enum dtype t, const void *p, int n)
{
#ifdef V_LOAD_FIRST
    return v_load_first(t, p, n);
#else
    float tmp[VL] = {0};
    memcpy(tmp, p, (size_t)n * elem_size(t));
    return load_wide(t, tmp);
#endif
}

ALWAYS_INLINE const char *kv_at(enum dtype t, const struct kv_operand *o, size_t row)
{
    return (const char *)o->base + row * o->row_elems * elem_size(t);
}

/* The scale of a cache row. */
ALWAYS_INLINE vf kv_scale(enum dtype t, const struct kv_operand *o, size_t row)
{
    return is_scaled(t) ? v_splat(o->scale[row * o->scale_stride]) : v_splat(1.0f);
}

/* Are rows [VL] neighbours in the cache?  Where a block holds whole vectors of keys, one never crosses blocks, and a
 * row that stands for keys outside the split makes the difference smaller. */
static inline bool are_neighbours(const size_t *rows, int block_len)
{
    return block_len % VL == 0 && rows[VL - 1] - rows[0] == VL - 1;
}

/* Up to 64 bytes of each key of nv vectors: those of vector v at p[v], `stride` apart. */
struct key_lines {
    const char *p[2];
    size_t stride;
    _Alignas(64) char bytes[PANEL * 64];
};

/* Are the lines of a panel's keys copied?  They are copied where the rows of a vector are not neighbours, and where
 * rows are a multiple of 2 KiB apart: these share few sets of the first-level cache, and a line would be
 * evicted before all of its lanes were read. */
static inline bool lines_are_copied(const size_t *rows, int block_len, size_t row_bytes)
{
    bool copied = row_bytes % 2048 == 0;
    for (int j = 0; j < PANEL; j += VL)
        copied = copied || !are_neighbours(rows + j, block_len);
    return copied;
}

/* The lines at p + row * row_bytes of rows [nv * VL], of which n bytes are the head's. */
ALWAYS_INLINE void take_lines(struct key_lines *l, int nv, bool copied, const char *p,
                              const size_t *rows, size_t row_bytes, int n)
{
    l->stride = copied ? 64 : row_bytes;
    for (int v = 0; v < nv; v++)
        l->p[v] = copied ? l->bytes + v * VL * 64 : p + rows[v * VL] * row_bytes;
    for (int j = 0; copied && j < nv * VL; j++) {
        if (n >= 64)
            memcpy(l->bytes + j * 64, p + rows[j] * row_bytes, 64);
        else
            memcpy(l->bytes + j * 64, p + rows[j] * row_bytes, (size_t)n);
    }
}

/* The scales of a panel of keys: out [n_kv][PANEL], heads `stride` apart. */
static inline void head_scales(const struct kv_operand *o, int n_kv, const size_t *rows,
                               int block_len, float *out, int stride)
{
    for (int j = 0; j < PANEL; j += VL, rows += VL) {
        const float *scale = o->scale + rows[0] * o->scale_stride;
        int g = 0;
        for (; g + 4 <= n_kv && are_neighbours(rows, block_len); g += 4) {
            vf x[4];
            v_load_lanes((const char *)(scale + g), o->scale_stride * sizeof *scale, x);
            v_transpose_4(x);
            UNROLL
            for (int i = 0; i < 4; i++)
                v_store(out + (g + i) * stride + j, x[i]);
        }
        for (; g < n_kv; g++)
            for (int i = 0; i < VL; i++)
                out[g * stride + j + i] = o->scale[rows[i] * o->scale_stride + (size_t)g];
    }
}

/* n <= VL elements, zeros behind them. */
ALWAYS_INLINE vf load_kv(enum dtype t, const char *p, int n, vf scale)
{
    vf x = n == VL ? load_wide(t, p) : load_first(t, p, n);
    return is_scaled(t) ? v_mul(x, scale) : x;
}

/* Cache rows of keys [lo, hi) of the split; panels that the range touches are filled up
 * with the nearest key inside. */
static void find_rows(const struct attn_split *a, int lo, int hi, size_t *rows)
{
    for (int j = lo; j < hi;) {
        int32_t key = a->first_key + j, n = a->block_len - key % a->block_len;
        size_t row = kv_row(a->blocks, a->block_len, key);
        for (int end = hi - j < n ? hi : j + n; j < end; j++)
            rows[j] = row++;
    }
    for (int j = lo / PANEL * PANEL; j < lo; j++)
        rows[j] = rows[lo];
    for (int j = hi; j % PANEL != 0; j++)
        rows[j] = rows[hi - 1];
}

#endif
