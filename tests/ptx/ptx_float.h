/* Floating point as PTX defines it: IEEE 754, results rounded to nearest even, denormals kept, one NaN
 * (0x7fffffff) as the result of f32 arithmetic. */
#ifndef TESTS_PTX_PTX_FLOAT_H
#define TESTS_PTX_PTX_FLOAT_H

#include <math.h>
#include <string.h>

#include "ptx/ptx_module.h"

static inline float ptx_f32(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline double ptx_f64(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static inline uint64_t ptx_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return isnan(f) ? 0x7fffffffU : u;
}

static inline uint64_t ptx_f64_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return isnan(d) ? 0x7fffffffffffffffULL : u;
}

/* t: F32 or F64 */
static inline double ptx_float_value(uint64_t bits, enum ptx_type t)
{
    return t == PTX_F32 ? (double)ptx_f32(bits) : ptx_f64(bits);
}

static inline uint64_t ptx_float_of(double v, enum ptx_type t)
{
    return t == PTX_F32 ? ptx_f32_bits((float)v) : ptx_f64_bits(v);
}

static inline uint64_t ptx_float_nan(enum ptx_type t)
{
    return t == PTX_F32 ? 0x7fffffffU : 0x7fffffffffffffffULL;
}

/* v: 64 bits, sign-extended if is_signed */
uint64_t ptx_float_of_int(uint64_t v, bool is_signed, enum ptx_type t);
/* cvt.rzi (9.7.9.21): towards zero, beyond the range its end; NaN gives 0, or for 64-bit types the
 * highest bit alone. */
uint64_t ptx_int_of_float(uint64_t bits, enum ptx_type from, enum ptx_type to);

/* f16 or bf16 of v, to nearest even; NaN is 0x7fff.  The bits of a magnitude are an integer that grows with it, so
 * rounding them to fewer bits rounds the value, over the end of a binade and to infinity too. */
static inline uint16_t ptx_f16_of(float v, bool bf16)
{
    uint32_t bits, sign;
    memcpy(&bits, &v, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return 0x7fff;
    if (bf16)
        return (uint16_t)(sign | (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (bits >= 0x47800000) /* 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* 2^-14: a denormal, a multiple of 2^-24 as is the sum's last bit */
        float sum = fabsf(v) + 0.5f;
        memcpy(&bits, &sum, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits -= 112 << 23; /* the exponents' zeros are 127 and 15 */
    return (uint16_t)(sign | (bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

static inline float ptx_f32_of_f16(uint16_t v, bool bf16)
{
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, rest = v & 0x7fff;
    if (bf16)
        return ptx_f32((uint32_t)v << 16);
    if (rest >= 0x7c00) /* infinity and NaN */
        return ptx_f32(sign | (rest == 0x7c00 ? 0x7f800000 : 0x7fc00000));
    if (rest < 0x0400) /* zero and denormals */
        return ptx_f32(sign | (uint32_t)ptx_f32_bits((float)rest * 0x1p-24f));
    return ptx_f32(sign | ((rest << 13) + (112U << 23)));
}

#endif
