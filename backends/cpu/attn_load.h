/* Reading the KV cache in vectors: any element type to f32, and the prefetches that hide memory. */
#ifndef BACKENDS_CPU_ATTN_LOAD_H
#define BACKENDS_CPU_ATTN_LOAD_H

#include "backends/cpu/tile_kernels.h"

enum {
    P_STRIDE = SPLIT + LANES, /* between rows of weights, off a multiple of 4 KiB */
    KEY_PANELS = SPLIT / PANEL,
};

struct attn_scratch {
    float keys[KEY_PANELS * HEAD_MAX * PANEL]; /* [KEY_PANELS][d rounded up to VL][PANEL] */
    float values[SPLIT * HEAD_MAX];            /* [SPLIT][d rounded up to VL], zeros beyond d */
    float q[HEAD_MAX * TILE_ROWS];             /* [d][rows] */
    float p[TILE_ROWS * P_STRIDE];             /* [rows][SPLIT] scores, then weights */
    float o[TILE_ROWS * HEAD_MAX];             /* [rows][d rounded up to VL] */
    size_t rows[SPLIT];                        /* of the cache, see find_rows */
};

static inline int round_up_vl(int d)
{
    return (d + VL - 1) / VL * VL;
}

static inline bool is_scaled(enum dtype t)
{
    return t == DT_I8 || t == DT_E4M3;
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
    case DT_I8:
        return v_load_i8(p);
    case DT_E4M3:
        return v_load_e4m3(p);
    default:
        return v_load(p);
    }
}

/* The same of the first n < VL elements, zeros behind them; reads nothing else. */
ALWAYS_INLINE vf load_part(enum dtype t, const void *p, int n)
{
#ifdef V_LOAD_PART
    return v_load_part(t, p, n);
#else
    float tmp[VL] = {0};
    memcpy(tmp, p, (size_t)n * elem_size(t));
    return load_wide(t, tmp);
#endif
}

/* Elements [i, i + n) of the head in cache row `row`, n <= VL. */
ALWAYS_INLINE vf load_kv(enum dtype t, const struct kv_operand *o, size_t row, int i, int n)
{
    const char *p = (const char *)o->base + (row * o->row_elems + (size_t)i) * elem_size(t);
    vf x = n == VL ? load_wide(t, p) : load_part(t, p, n);
    return is_scaled(t) ? v_mul(x, v_splat(o->scale[row * o->scale_stride])) : x;
}

/* Calls the whole cache rows that come next into the L2 cache, a few lines at each of n_steps
 * steps: in one burst they would fill the line buffers that the present work needs, and in the
 * order of memory they let the hardware's prefetcher run ahead. */
struct ahead {
    const struct attn_split *a;
    const char *base; /* of whole rows */
    size_t row_bytes, bytes, at;
    const char *row;
    int32_t key, end;
    int per_step; /* lines */
};

ALWAYS_INLINE void ahead_row(struct ahead *h)
{
    if (h->key < h->end)
        h->row = h->base + h->row_bytes * kv_row(h->a->next_blocks, h->a->block_len, h->key);
}

static struct ahead ahead_start(const struct attn_split *a, const struct kv_operand *o, int n_steps)
{
    size_t size = elem_size(o->dtype), bytes = a->next_elems * size;
    int lines = a->n_next * (int)((bytes + 63) / 64);
    struct ahead h = {.a = a,
                      .base = (const char *)o->base - a->next_back * size,
                      .row_bytes = o->row_elems * size,
                      .bytes = bytes,
                      .key = a->next_key,
                      .end = a->next_key + a->n_next,
                      .per_step = n_steps > 0 ? (lines + n_steps - 1) / n_steps : 0};
    ahead_row(&h);
    return h;
}

ALWAYS_INLINE void ahead_step(struct ahead *h)
{
    for (int i = 0; i < h->per_step && h->key < h->end; i++) {
        __builtin_prefetch(h->row + h->at, 0, 2);
        h->at += 64;
        if (h->at >= h->bytes) {
            h->at = 0;
            h->key++;
            ahead_row(h);
        }
    }
}

/* Cache rows of keys [lo, hi) of the split; groups of LANES keys that the range touches are filled
 * up with the nearest key inside. */
static void find_rows(const struct attn_split *a, int lo, int hi, size_t *rows)
{
    for (int j = lo; j < hi;) {
        int32_t key = a->first_key + j, n = a->block_len - key % a->block_len;
        size_t row = kv_row(a->blocks, a->block_len, key);
        for (int end = hi - j < n ? hi : j + n; j < end; j++)
            rows[j] = row++;
    }
    for (int j = lo / LANES * LANES; j < lo; j++)
        rows[j] = rows[lo];
    for (int j = hi; j % LANES != 0; j++)
        rows[j] = rows[hi - 1];
}

#endif
