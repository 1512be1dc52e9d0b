#include "ptx/ptx_float.h"

uint64_t ptx_float_of_int(uint64_t v, bool is_signed, enum ptx_type t)
{
    if (t == PTX_F32)
        return ptx_f32_bits(is_signed ? (float)(int64_t)v : (float)v);
    return ptx_f64_bits(is_signed ? (double)(int64_t)v : (double)v);
}

uint64_t ptx_int_of_float(uint64_t bits, enum ptx_type from, enum ptx_type to)
{
    int width = (int)ptx_type_bytes(to) * 8;
    bool is_signed = to >= PTX_S8 && to <= PTX_S64;
    double v = ptx_float_value(bits, from), end = ldexp(1, is_signed ? width - 1 : width);
    uint64_t greatest = is_signed ? (1ULL << (width - 1)) - 1 : UINT64_MAX >> (64 - width);
    uint64_t least = is_signed ? ~greatest : 0;
    if (isnan(v))
        return from == PTX_F64 || width == 64 ? 1ULL << (width - 1) : 0;
    v = trunc(v);
    if (v >= end)
        return greatest;
    if (is_signed)
        return v < -end ? least : (uint64_t)(int64_t)v;
    return v <= 0 ? 0 : (uint64_t)v;
}

/* A value with `mantissa` stored bits whose least normal exponent is `least`. */
static uint16_t round_16(float v, int mantissa, int least, uint16_t infinity)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs((double)v);
    if (isnan(v))
        return 0x7fff;
    int e = least;
    if (a >= ldexp(1, least)) {
        (void)frexp(a, &e);
        e--;
    }
    double units = nearbyint(ldexp(a, mantissa - e)); /* exact but for the rounding */
    double whole = isinf(a) ? (double)infinity : units + ldexp(e - least, mantissa);
    return (uint16_t)(sign | (whole >= infinity ? infinity : (uint16_t)whole));
}

uint16_t ptx_f16_of(float v, bool bf16)
{
    return bf16 ? round_16(v, 7, -126, 0x7f80) : round_16(v, 10, -14, 0x7c00);
}

float ptx_f32_of_f16(uint16_t v, bool bf16)
{
    if (bf16)
        return ptx_f32((uint32_t)v << 16);
    int e = v >> 10 & 31, m = v & 0x3ff;
    double a = e == 0 ? ldexp(m, -24) : ldexp(m + 1024, e - 25);
    if (e == 31)
        a = m ? (double)NAN : (double)INFINITY;
    return (float)(v & 0x8000 ? -a : a);
}
