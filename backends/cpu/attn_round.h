/* Queries and weights of attention over int8 entries, rounded to 16 bits, so that their products with
 * the stored bytes have exact sums: struct attn_split in kernels.h.  One source for all instruction
 * sets, as row_kernels.h. */
#ifndef BACKENDS_CPU_ATTN_ROUND_H
#define BACKENDS_CPU_ATTN_ROUND_H

#include <string.h>

#include "backends/cpu/kernels.h"

/* The greatest integer of a query of d elements, and of a weight: d (256) products with bytes from
 * -128 to 127 fit in 32 bits. */
static inline float query_top(int d)
{
    int32_t most = INT32_MAX / (128 * d);
    return (float)(most < INT16_MAX ? most : INT16_MAX);
}

static inline float weight_top(void)
{
    return (float)INT16_MAX; /* SPLIT keys: at most 2^30 */
}

/* x [n] to integers of at most `top`: with m the greatest |x|, out = nearest even of x * (top / m); the
 * result is the unit m / top.  m < 2^-100: zeros, unit 0.  An x that is not finite: zeros, unit NaN. */
static inline float round_16(const float *x, int n, float top, int16_t *out)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, nearest even */
    uint32_t bits = 0;
    for (int i = 0; i < n; i++) {
        uint32_t b = bits_of_f32(x[i]) & 0x7fffffffU; /* ordered as the magnitudes, NaN last */
        bits = b > bits ? b : bits;
    }
    float most = f32_of_bits(bits);
    bool finite = bits < 0x7f800000U;
    if (!finite || most < 0x1p-100f) {
        memset(out, 0, (size_t)n * sizeof *out);
        return finite ? 0.0f : f32_of_bits(0x7fc00000U);
    }
    float inv = top / most;
    for (int i = 0; i < n; i++) {
        int32_t v = (int32_t)(bits_of_f32(x[i] * inv + magic) - bits_of_f32(magic));
        out[i] = (int16_t)v;
    }
    return most / top;
}

/* Element i of the head in cache row `row`, and the scale of its elements. */
static inline int32_t int8_at(const struct kv_operand *o, size_t row, int i)
{
    return ((const int8_t *)o->base)[row * o->row_elems + (size_t)i];
}

static inline float int8_scale(const struct kv_operand *o, size_t row)
{
    return o->scale[row * o->scale_stride];
}

#endif
