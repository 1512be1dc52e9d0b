/* Keys and values of any type but int8 to what the sums read: keys transposed into f32 panels of PANEL keys
 * (one row per dimension), values as f32 rows. */
#ifndef BACKENDS_CPU_ATTN_PACK_H
#define BACKENDS_CPU_ATTN_PACK_H

#include "backends/cpu/attn_ahead.h"

/* Elements in a word of 32 bits. */
ALWAYS_INLINE int word_elems(enum dtype t)
{
    return (int)(4 / elem_size(t));
}

/* out[e] = element e of each word, in f32. */
ALWAYS_INLINE void widen_words(enum dtype t, vf words, vf *out)
{
    if (t == DT_F16)
        v_widen_f16(words, out);
    else if (t == DT_BF16)
        v_widen_bf16(words, out);
    else if (t == DT_E4M3)
        v_widen_e4m3(words, out);
    else
        out[0] = words;
}

/* VL words of VL keys, at byte `at` of each row: square[j] = word j of every key. */
ALWAYS_INLINE void transpose_words(const char *const *row, size_t at, vf *square)
{
    UNROLL
    for (int j = 0; j < VL; j++)
        square[j] = v_load((const float *)(const void *)(row[j] + at));
    v_transpose(square);
}

/* The last n < VL dimensions of VL keys in f32, zeros behind them. */
ALWAYS_INLINE void transpose_rest(enum dtype t, const char *const *row, size_t at, int n,
                                  vf *square)
{
    UNROLL
    for (int j = 0; j < VL; j++)
        square[j] = load_kv(t, row[j] + at, n, v_splat(1.0f));
    v_transpose(square);
}

/* The scales of VL keys. */
ALWAYS_INLINE vf key_scales(enum dtype t, const struct kv_operand *k, const size_t *rows)
{
    float scales[VL];
    for (int j = 0; is_scaled(t) && j < VL; j++)
        scales[j] = k->scale[rows[j] * k->scale_stride];
    return is_scaled(t) ? v_load(scales) : v_splat(1.0f);
}

/* VL words of VL keys, row[j] the first of key j. */
ALWAYS_INLINE void pack_words(enum dtype t, const char *const *row, size_t at, vf scale,
                              float *panel)
{
    const int n = word_elems(t);
    vf square[VL];
    transpose_words(row, at, square);
    UNROLL
    for (int j = 0; j < VL; j++) {
        vf x[4];
        widen_words(t, square[j], x);
        UNROLL
        for (int e = 0; e < n; e++)
            v_store(panel + (j * n + e) * PANEL, is_scaled(t) ? v_mul(x[e], scale) : x[e]);
    }
}

/* The last n < VL dimensions of VL keys, zeros behind them. */
ALWAYS_INLINE void pack_rest(enum dtype t, const char *const *row, size_t at, vf scale, int n,
                             float *panel)
{
    vf square[VL];
    transpose_rest(t, row, at, n, square);
    UNROLL
    for (int j = 0; j < VL; j++)
        v_store(panel + j * PANEL, is_scaled(t) ? v_mul(square[j], scale) : square[j]);
}

/* Keys [lo, hi) of the split, all of one panel, lo a multiple of VL. */
ALWAYS_INLINE void pack_keys(enum dtype t, const struct kv_operand *k, int d, const size_t *rows,
                             int lo, int hi, float *panel)
{
    const int step = word_elems(t) * VL;
    const struct kv_operand from = *k;
    for (int k0 = lo; k0 < hi; k0 += VL) {
        const char *row[VL];
        float *dst = panel + k0 % PANEL;
        vf scale = key_scales(t, &from, rows + k0);
        int i = 0;
        for (int j = 0; j < VL; j++)
            row[j] = kv_at(t, &from, rows[k0 + j]);
        for (; i + step <= d; i += step, dst += step * PANEL) {
            pack_words(t, row, (size_t)i * elem_size(t), scale, dst);
        }
        for (; i < d; i += VL, dst += VL * PANEL) {
            pack_rest(t, row, (size_t)i * elem_size(t), scale, d - i < VL ? d - i : VL, dst);
        }
    }
}

/* Values of keys [lo, hi) as rows of f32 from dst on. */
ALWAYS_INLINE void widen_values(enum dtype t, const struct kv_operand *v, int d, const size_t *rows,
                                int lo, int hi, float *dst)
{
    for (int k = lo; k < hi; k++) {
        const char *p = kv_at(t, v, rows[k]);
        vf scale = kv_scale(t, v, rows[k]);
        for (int i = 0; i < d; i += VL, dst += VL, p += VL * elem_size(t))
            v_store(dst, load_kv(t, p, d - i < VL ? d - i : VL, scale));
    }
}

#define PACK_FNS(T)                                                                                \
    static void keys_##T(const struct kv_operand *k, int d, const size_t *rows, int lo, int hi,    \
                         float *panel)                                                             \
    {                                                                                              \
        pack_keys(T, k, d, rows, lo, hi, panel);                                                   \
    }                                                                                              \
    static void values_##T(const struct kv_operand *v, int d, const size_t *rows, int lo, int hi,  \
                           float *dst)                                                             \
    {                                                                                              \
        widen_values(T, v, d, rows, lo, hi, dst);                                                  \
    }
PACK_FNS(DT_F32)
PACK_FNS(DT_F16)
PACK_FNS(DT_BF16)
PACK_FNS(DT_E4M3)

static const struct pack_fns {
    void (*keys)(const struct kv_operand *k, int d, const size_t *rows, int lo, int hi,
                 float *panel);
    void (*values)(const struct kv_operand *v, int d, const size_t *rows, int lo, int hi,
                   float *dst);
} pack_fns[DT_N] = {
    [DT_F32] = {keys_DT_F32, values_DT_F32},
    [DT_F16] = {keys_DT_F16, values_DT_F16},
    [DT_BF16] = {keys_DT_BF16, values_DT_BF16},
    [DT_E4M3] = {keys_DT_E4M3, values_DT_E4M3},
};

#endif
