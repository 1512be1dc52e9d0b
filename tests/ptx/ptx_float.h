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

/* f16 or bf16 of v, to nearest even; NaN is 0x7fff. */
uint16_t ptx_f16_of(float v, bool bf16);
float ptx_f32_of_f16(uint16_t v, bool bf16);

#endif
