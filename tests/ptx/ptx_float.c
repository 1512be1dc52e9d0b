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
