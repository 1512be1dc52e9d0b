/* The result of one lane of an arithmetic instruction (manual, 9.7.1 to 9.7.9).  Everything is inlined, so that a caller
 * whose kind is constant gets a loop of that operation alone. */
#ifndef TESTS_PTX_PTX_RESULT_H
#define TESTS_PTX_PTX_RESULT_H

#include <math.h>

#include "ptx/ptx_block.h"
#include "ptx/ptx_float.h"

#define INLINED inline __attribute__((always_inline))

/* One lane's operands, of which an instruction uses the first ones. */
struct ptx_lane {
    uint64_t a, b, c, d;
};

/* What a lane's result depends on beside its operands; from: the source's type of cvt. */
struct ptx_kind {
    enum ptx_op op;
    enum ptx_type type, from;
    enum ptx_space space;
};

static INLINED int ptx_width_of(enum ptx_type t)
{
    return (int)ptx_type_bytes(t) * 8;
}

static INLINED bool ptx_is_signed(enum ptx_type t)
{
    return t >= PTX_S8 && t <= PTX_S64;
}

/* The value of v's low bits, extended to 64 as the type says. */
static INLINED uint64_t ptx_extend(uint64_t v, enum ptx_type t)
{
    switch (t) {
    case PTX_PRED:
        return v & 1;
    case PTX_S8:
        return (uint64_t)(int64_t)(int8_t)v;
    case PTX_S16:
        return (uint64_t)(int64_t)(int16_t)v;
    case PTX_S32:
        return (uint64_t)(int64_t)(int32_t)v;
    case PTX_B8:
    case PTX_U8:
        return (uint8_t)v;
    case PTX_B16:
    case PTX_U16:
    case PTX_F16:
    case PTX_BF16:
        return (uint16_t)v;
    case PTX_B64:
    case PTX_U64:
    case PTX_S64:
    case PTX_F64:
        return v;
    default:
        return (uint32_t)v;
    }
}

static INLINED uint64_t shift_left(uint64_t a, uint64_t by, int width)
{
    return (uint32_t)by >= (uint32_t)width ? 0 : a << (uint32_t)by;
}

/* Amounts beyond the width count as the width: signed values fill with their sign. */
static INLINED uint64_t shift_right(uint64_t a, uint64_t by, enum ptx_type t)
{
    uint32_t n = (uint32_t)by, width = (uint32_t)ptx_width_of(t);
    if (ptx_is_signed(t))
        return (uint64_t)((int64_t)ptx_extend(a, t) >> (n >= width ? 63 : n));
    return n >= width ? 0 : ptx_extend(a, t) >> n;
}

/* By 0 any value may come out: the caller poisons it.  The least value by -1 wraps. */
static INLINED uint64_t divide(uint64_t a, uint64_t b, enum ptx_type t, bool rest)
{
    a = ptx_extend(a, t);
    b = ptx_extend(b, t);
    if (b == 0)
        return UINT64_MAX;
    if (!ptx_is_signed(t))
        return rest ? a % b : a / b;
    if ((int64_t)b == -1)
        return rest ? 0 : 0 - a;
    return (uint64_t)(rest ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static INLINED uint64_t multiply_high(uint64_t a, uint64_t b, enum ptx_type t)
{
    a = ptx_extend(a, t);
    b = ptx_extend(b, t);
    return ptx_is_signed(t) ? (uint64_t)((int64_t)a * (int64_t)b >> 32) : a * b >> 32;
}

/* In bits of an integer or float type; NaN loses to a number, and -0 is less than +0. */
static INLINED bool ptx_is_less(uint64_t a, uint64_t b, enum ptx_type t)
{
    if (t == PTX_F32 || t == PTX_F64) {
        double x = ptx_float_value(a, t), y = ptx_float_value(b, t);
        return x < y || (x == 0 && y == 0 && signbit(x) && !signbit(y));
    }
    a = ptx_extend(a, t);
    b = ptx_extend(b, t);
    return ptx_is_signed(t) ? (int64_t)a < (int64_t)b : a < b;
}

static INLINED uint64_t least_or_greatest(uint64_t a, uint64_t b, enum ptx_type t, bool least)
{
    if (t == PTX_F32 || t == PTX_F64) {
        bool x = isnan(ptx_float_value(a, t)), y = isnan(ptx_float_value(b, t));
        if (x || y)
            return x && y ? ptx_float_nan(t) : x ? b : a;
    }
    return ptx_is_less(a, b, t) == least ? a : b;
}

/* bfi (9.7.1.20): the low bits of a into b, from bit c on, d of them; both amounts modulo 256. */
static INLINED uint64_t insert_bits(uint64_t a, uint64_t b, uint64_t c, uint64_t d, int width)
{
    uint64_t at = c & 0xff, n = d & 0xff;
    if (at >= (uint64_t)width || n == 0)
        return b;
    if (n > (uint64_t)width - at)
        n = (uint64_t)width - at;
    uint64_t ones = (n >= 64 ? UINT64_MAX : (1ULL << n) - 1) << at;
    return (b & ~ones) | (a << at & ones);
}

/* prmt (9.7.9.7) without mode: each nibble of c picks one of the bytes b3..b0 a3..a0, or with its
 * highest bit that byte's sign in all bits. */
static INLINED uint64_t permute_bytes(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t bytes = (uint32_t)a | (uint64_t)(uint32_t)b << 32, out = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t pick = c >> (4 * i) & 0xf, byte = bytes >> (8 * (pick & 7)) & 0xff;
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * i);
    }
    return out;
}

/* dp4a (9.7.1.23): c and the products of the four signed bytes of a and b, modulo 2^32. */
static INLINED uint64_t dot_bytes(uint64_t a, uint64_t b, uint64_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += ptx_extend(a >> i, PTX_S8) * ptx_extend(b >> i, PTX_S8);
    return c;
}

static INLINED uint64_t convert(enum ptx_type to, enum ptx_type from, uint64_t a)
{
    if (from == PTX_F16)
        return ptx_f32_bits(ptx_f32_of_f16((uint16_t)a, false));
    bool to_float = to == PTX_F32 || to == PTX_F64, of_float = from == PTX_F32 || from == PTX_F64;
    if (of_float)
        return to_float ? ptx_float_of(ptx_float_value(a, from), to)
                        : ptx_int_of_float(a, from, to);
    uint64_t v = ptx_extend(a, from);
    return to_float ? ptx_float_of_int(v, ptx_is_signed(from), to) : ptx_extend(v, to);
}

static INLINED uint64_t float_result(enum ptx_op op, enum ptx_type t, uint64_t a, uint64_t b,
                                     uint64_t c)
{
    if (t == PTX_F32) {
        float x = ptx_f32(a), y = ptx_f32(b);
        switch (op) {
        case PTX_ADD:
            return ptx_f32_bits(x + y);
        case PTX_SUB:
            return ptx_f32_bits(x - y);
        case PTX_MUL:
            return ptx_f32_bits(x * y);
        case PTX_FMA:
            return ptx_f32_bits(fmaf(x, y, ptx_f32(c)));
        case PTX_DIV:
            return ptx_f32_bits(x / y);
        case PTX_RCP:
            return ptx_f32_bits(1.0f / x);
        default:
            return ptx_f32_bits(sqrtf(x));
        }
    }
    double x = ptx_f64(a), y = ptx_f64(b);
    switch (op) {
    case PTX_ADD:
        return ptx_f64_bits(x + y);
    case PTX_SUB:
        return ptx_f64_bits(x - y);
    case PTX_MUL:
        return ptx_f64_bits(x * y);
    case PTX_FMA:
        return ptx_f64_bits(fma(x, y, ptx_f64(c)));
    case PTX_DIV:
        return ptx_f64_bits(x / y);
    case PTX_RCP:
        return ptx_f64_bits(1.0 / x);
    default:
        return ptx_f64_bits(sqrt(x));
    }
}

static INLINED uint64_t integer_result(struct ptx_kind k, struct ptx_lane v)
{
    enum ptx_type t = k.type;
    switch (k.op) {
    case PTX_ADD:
        return v.a + v.b;
    case PTX_SUB:
        return v.a - v.b;
    case PTX_MUL_LO:
        return ptx_extend(v.a, t) * ptx_extend(v.b, t);
    case PTX_MUL_WIDE:
        return ptx_extend(v.a, t) * ptx_extend(v.b, t);
    case PTX_MUL_HI:
        return multiply_high(v.a, v.b, t);
    case PTX_MAD_LO:
        return ptx_extend(v.a, t) * ptx_extend(v.b, t) + v.c;
    case PTX_DIV:
        return divide(v.a, v.b, t, false);
    case PTX_REM:
        return divide(v.a, v.b, t, true);
    case PTX_MIN:
        return least_or_greatest(v.a, v.b, t, true);
    case PTX_MAX:
        return least_or_greatest(v.a, v.b, t, false);
    case PTX_AND:
        return v.a & v.b;
    case PTX_OR:
        return v.a | v.b;
    case PTX_XOR:
        return v.a ^ v.b;
    case PTX_NOT:
        return ~v.a;
    case PTX_SHL:
        return shift_left(v.a, v.b, ptx_width_of(t));
    case PTX_SHR:
        return shift_right(v.a, v.b, t);
    case PTX_BFI:
        return insert_bits(v.a, v.b, v.c, v.d, ptx_width_of(t));
    case PTX_PRMT:
        return permute_bytes(v.a, v.b, v.c);
    case PTX_DP4A:
        return dot_bytes(v.a, v.b, v.c);
    case PTX_CLZ:
        return ptx_extend(v.a, t)
                   ? (uint64_t)(__builtin_clzll(ptx_extend(v.a, t)) - 64 + ptx_width_of(t))
                   : (uint64_t)ptx_width_of(t);
    case PTX_POPC:
        return (uint64_t)__builtin_popcountll(ptx_extend(v.a, t));
    case PTX_CVTA:
    case PTX_CVTA_TO: {
        uint64_t window = k.space == PTX_SHARED  ? PTX_SHARED_WINDOW
                          : k.space == PTX_LOCAL ? PTX_LOCAL_WINDOW
                                                 : 0;
        return k.op == PTX_CVTA ? v.a + window : v.a - window;
    }
    default:
        return v.a;
    }
}

/* neg and abs of floats change the sign bit alone. */
static INLINED uint64_t change_sign(uint64_t a, enum ptx_type t, bool absolute)
{
    uint64_t sign = 1ULL << (ptx_width_of(t) - 1);
    if (t == PTX_F32 || t == PTX_F64)
        return absolute ? a & ~sign : a ^ sign;
    int64_t v = (int64_t)ptx_extend(a, t);
    return absolute && v >= 0 ? (uint64_t)v : 0 - (uint64_t)v;
}

/* Two f16 each (9.7.4.3): a product is exact in f32, so it is rounded once. */
static INLINED uint64_t multiply_halves(uint64_t a, uint64_t b)
{
    uint64_t out = 0;
    for (int i = 0; i < 2; i++)
        out |= (uint64_t)ptx_f16_of(ptx_f32_of_f16((uint16_t)(a >> 16 * i), false) *
                                        ptx_f32_of_f16((uint16_t)(b >> 16 * i), false),
                                    false)
               << 16 * i;
    return out;
}

/* All but setp, whose lanes are compared together. */
static INLINED uint64_t ptx_result(struct ptx_kind k, struct ptx_lane v)
{
    enum ptx_type t = k.type;
    switch (k.op) {
    case PTX_NEG:
    case PTX_ABS:
        return change_sign(v.a, t, k.op == PTX_ABS);
    case PTX_SELP:
        return v.c & 1 ? v.a : v.b;
    case PTX_MOV:
        return v.a;
    case PTX_CVT:
        return convert(t, k.from, v.a);
    case PTX_CVT_PACK: /* the first source is the upper half */
        return ptx_f16_of(ptx_f32(v.b), t == PTX_BF16X2) |
               (uint64_t)ptx_f16_of(ptx_f32(v.a), t == PTX_BF16X2) << 16;
    case PTX_MUL_HALVES:
        return multiply_halves(v.a, v.b);
    case PTX_MIN:
    case PTX_MAX:
        return least_or_greatest(v.a, v.b, t, k.op == PTX_MIN);
    default:
        return t == PTX_F32 || t == PTX_F64 ? float_result(k.op, t, v.a, v.b, v.c)
                                            : integer_result(k, v);
    }
}

/* The type of the destination register. */
static INLINED enum ptx_type ptx_result_type(struct ptx_kind k)
{
    switch (k.op) {
    case PTX_SETP:
        return PTX_PRED;
    case PTX_CLZ:
    case PTX_POPC:
        return PTX_U32;
    case PTX_MUL_WIDE:
        return k.type == PTX_S16 ? PTX_S32 : k.type == PTX_U16 ? PTX_U32 : PTX_B64;
    case PTX_CVT_PACK:
    case PTX_MUL_HALVES:
        return PTX_B32;
    default:
        return k.type;
    }
}

#endif
