/* Keys and values of any type to what the sums read: keys transposed into f32 panels of PANEL keys
 * (one row per dimension), values as f32 rows. */
#ifndef BACKENDS_CPU_ATTN_PACK_H
#define BACKENDS_CPU_ATTN_PACK_H

#include "backends/cpu/attn_load.h"

/* Elements in a unit of 32 bits. */
ALWAYS_INLINE int unit_elems(enum dtype t)
{
    return (int)(4 / elem_size(t));
}

/* Element e of each unit, to f32. */
ALWAYS_INLINE void split_units(enum dtype t, vf units, vf *out)
{
    if (t == DT_F16)
        v_split_f16(units, out);
    else if (t == DT_BF16)
        v_split_bf16(units, out);
    else if (t == DT_I8)
        v_split_i8(units, out);
    else if (t == DT_E4M3)
        v_split_e4m3(units, out);
    else
        out[0] = units;
}

/* VL units of VL keys from dimension i on.  Units are transposed, so that a vector has one unit of
 * all keys, and split then: that takes fewer shuffles than transposing f32. */
ALWAYS_INLINE void pack_units(enum dtype t, const struct kv_operand *k, const size_t *row, vf scale,
                              int i, float *panel)
{
    const int n = unit_elems(t);
    vf block[VL];
    UNROLL
    for (int j = 0; j < VL; j++) {
        const char *p = k->base;
        p += (row[j] * k->row_elems + (size_t)i) * elem_size(t);
        block[j] = v_load((const float *)(const void *)p);
    }
    v_transpose(block);
    UNROLL
    for (int j = 0; j < VL; j++) {
        vf x[4];
        split_units(t, block[j], x);
        UNROLL
        for (int e = 0; e < n; e++)
            v_store(panel + (i + j * n + e) * PANEL, is_scaled(t) ? v_mul(x[e], scale) : x[e]);
    }
}

/* The last n < VL dimensions of VL keys, zeros behind them. */
ALWAYS_INLINE void pack_rest(enum dtype t, const struct kv_operand *k, const size_t *row, int i,
                             int n, float *panel)
{
    vf block[VL];
    UNROLL
    for (int j = 0; j < VL; j++)
        block[j] = load_kv(t, k, row[j], i, n);
    v_transpose(block);
    UNROLL
    for (int j = 0; j < VL; j++)
        v_store(panel + (i + j) * PANEL, block[j]);
}

/* Calls of ahead_step for the keys of one group of VL. */
ALWAYS_INLINE int key_steps(enum dtype t, int d)
{
    int step = unit_elems(t) * VL;
    return d / step + (d % step + VL - 1) / VL;
}

/* Keys [lo, hi) of the split, all of one panel, lo a multiple of VL. */
ALWAYS_INLINE void pack_keys(const struct attn_split *a, enum dtype t, int lo, int hi, float *panel,
                             const struct attn_scratch *s, struct ahead *ahead)
{
    const int step = unit_elems(t) * VL;
    struct ahead h = *ahead; /* in registers */
    for (int k0 = lo; k0 < hi; k0 += VL) {
        const size_t *row = s->rows + k0;
        float scales[VL];
        vf scale = v_splat(1.0f);
        int i = 0;
        for (int j = 0; is_scaled(t) && j < VL; j++)
            scales[j] = a->k.scale[row[j] * a->k.scale_stride];
        if (is_scaled(t))
            scale = v_load(scales);
        for (; i + step <= a->d; i += step) {
            ahead_step(&h);
            pack_units(t, &a->k, row, scale, i, panel + k0 % PANEL);
        }
        for (; i < a->d; i += VL) {
            ahead_step(&h);
            pack_rest(t, &a->k, row, i, a->d - i < VL ? a->d - i : VL, panel + k0 % PANEL);
        }
    }
}

/* Values of keys [lo, hi) as rows of f32 from dst on. */
ALWAYS_INLINE void widen_values(const struct attn_split *a, enum dtype t, int lo, int hi,
                                float *dst, const struct attn_scratch *s, struct ahead *ahead)
{
    struct ahead h = *ahead;
    for (int k = lo; k < hi; k++) {
        int i = 0;
        ahead_step(&h);
        for (; i + VL <= a->d; i += VL, dst += VL)
            v_store(dst, load_kv(t, &a->v, s->rows[k], i, VL));
        if (i < a->d) {
            v_store(dst, load_kv(t, &a->v, s->rows[k], i, a->d - i));
            dst += VL;
        }
    }
    *ahead = h;
}

#define PACK_FNS(T)                                                                                \
    static int key_steps_##T(int d)                                                                \
    {                                                                                              \
        return key_steps(T, d);                                                                    \
    }                                                                                              \
    static void keys_##T(const struct attn_split *a, int lo, int hi, float *panel,                 \
                         const struct attn_scratch *s, struct ahead *h)                            \
    {                                                                                              \
        pack_keys(a, T, lo, hi, panel, s, h);                                                      \
    }                                                                                              \
    static void values_##T(const struct attn_split *a, int lo, int hi, float *dst,                 \
                           const struct attn_scratch *s, struct ahead *h)                          \
    {                                                                                              \
        widen_values(a, T, lo, hi, dst, s, h);                                                     \
    }
PACK_FNS(DT_F32)
PACK_FNS(DT_F16)
PACK_FNS(DT_BF16)
PACK_FNS(DT_I8)
PACK_FNS(DT_E4M3)

static const struct pack_fns {
    int (*key_steps)(int d);
    void (*keys)(const struct attn_split *a, int lo, int hi, float *panel,
                 const struct attn_scratch *s, struct ahead *h);
    void (*values)(const struct attn_split *a, int lo, int hi, float *dst,
                   const struct attn_scratch *s, struct ahead *h);
} pack_fns[DT_N] = {
    [DT_F32] = {key_steps_DT_F32, keys_DT_F32, values_DT_F32},
    [DT_F16] = {key_steps_DT_F16, keys_DT_F16, values_DT_F16},
    [DT_BF16] = {key_steps_DT_BF16, keys_DT_BF16, values_DT_BF16},
    [DT_I8] = {key_steps_DT_I8, keys_DT_I8, values_DT_I8},
    [DT_E4M3] = {key_steps_DT_E4M3, keys_DT_E4M3, values_DT_E4M3},
};

#endif
