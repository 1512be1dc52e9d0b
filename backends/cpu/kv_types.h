/* Elements of the KV cache and their value in f32. */
#ifndef BACKENDS_CPU_KV_TYPES_H
#define BACKENDS_CPU_KV_TYPES_H

#include "backends/cpu/kernels.h"

/* OCP 8-bit floating point E4M3FN: bias 7, no infinities, NaN = 0x7f, greatest 448.  Exponent and
 * mantissa are put in place as they are; the product moves the bias from 7 to 127 and normalises,
 * exactly. */
static inline float f32_of_e4m3(uint8_t h)
{
    float f = f32_of_bits((h & 0x7fU) << 20) * 0x1p120f;
    uint32_t u = (h & 0x7fU) == 0x7fU ? 0x7fc00000U : bits_of_f32(f);
    return f32_of_bits(u | (h & 0x80U) << 24);
}

/* Nearest, ties to even; beyond 448 it saturates; NaN stays NaN. */
static inline uint8_t e4m3_of_f32(float f)
{
    uint32_t u = bits_of_f32(f), sign = (u >> 24) & 0x80U, a = u & 0x7fffffffU;
    if (a > 0x7f800000U)
        return (uint8_t)(sign | 0x7fU);
    if (a >= 0x43e00000U) /* 448 */
        return (uint8_t)(sign | 0x7eU);
    if (a < 0x3c800000U) { /* below 2^-6: the step is 2^-9; adding 2^14 aligns it in f32 */
        float r = f32_of_bits(a) + 0x1p14f;
        return (uint8_t)(sign | (bits_of_f32(r) - 0x46800000U));
    }
    a += 0x7ffffU + ((a >> 20) & 1U);
    return (uint8_t)(sign | ((a - 0x3c000000U) >> 20));
}

/* Element i of the head in cache row `row`; the scale's product is rounded to f32. */
static inline float kv_value(const struct kv_operand *o, size_t row, int i)
{
    size_t at = row * o->row_elems + (size_t)i;
    switch (o->dtype) {
    case DT_F16:
        return f32_of_f16(((const uint16_t *)o->base)[at]);
    case DT_BF16:
        return f32_of_bf16(((const uint16_t *)o->base)[at]);
    case DT_I8:
        return (float)((const int8_t *)o->base)[at] * o->scale[row * o->scale_stride];
    case DT_E4M3:
        return f32_of_e4m3(((const uint8_t *)o->base)[at]) * o->scale[row * o->scale_stride];
    default:
        return ((const float *)o->base)[at];
    }
}

#endif
