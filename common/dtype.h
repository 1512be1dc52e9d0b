/* Element types of weights, activations and KV entries, and the conversions between the small
 * floats.  Conversions to f16, bf16 and e4m3 round to nearest even.  NaN stays NaN.  Overflow gives
 * infinity in f16 and saturates in e4m3. */
#ifndef COMMON_DTYPE_H
#define COMMON_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Arithmetic that hosts and devices share, bit for bit. */
#ifdef __CUDACC__
#define NUMBER_FN static __host__ __device__ inline
#else
#define NUMBER_FN static inline
#endif

enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_I32,
    DT_I8,   /* KV entries with one f32 scale per token and head */
    DT_E4M3, /* likewise (OCP 8-bit floating point, "FN" form without infinities) */
    /* weights in blocks: common/quant.h */
    DT_Q4_0,
    DT_Q4_1,
    DT_Q5_0,
    DT_Q5_1,
    DT_Q8_0,
    DT_Q4_K,
    DT_Q5_K,
    DT_Q6_K,
    DT_Q2_K,
    DT_Q3_K,
    DT_IQ4_NL,
    DT_IQ4_XS,
    DT_MXFP4,
    /* integers of HuggingFace folders in blocks as common/quant.h has them: a scale of the named type,
     * and a zero point where "zero" is in the name */
    DT_INT4_BF16,
    DT_INT4_ZERO_F16,
    DT_INT4_ZERO_BF16,
    DT_INT8_BF16,
    DT_INT8_ZERO_F16,
    DT_INT8_ZERO_BF16,
    /* the same with an index of groups for the columns: struct weight_part */
    DT_INT4_INDEX,
    DT_INT8_INDEX,
    /* floats of 4 bits: an element is one of 16 levels (dtype_levels) times the scale of its block of
     * columns: struct weight_part */
    DT_NF4,   /* bitsandbytes' "nf4": quantiles of the normal distribution; scales in f32 */
    DT_FP4,   /* bitsandbytes' "fp4"; scales in f32 */
    DT_NVFP4, /* e2m1 of OCP MX, scales in e4m3 */
    /* INT4_INDEX and INT8_INDEX whose columns the backend sorts by group, to meet 8 bits */
    DT_INT4_SORTED,
    DT_INT8_SORTED,
    DT_N
};

enum { FP8_BLOCK = 128 }; /* columns that share a scale of E4M3 weights */

static inline int is_sorted(enum dtype t)
{
    return t == DT_INT4_SORTED || t == DT_INT8_SORTED;
}

/* Sorted ones are. */
static inline int is_indexed(enum dtype t)
{
    return t == DT_INT4_INDEX || t == DT_INT8_INDEX || is_sorted(t);
}

static inline int has_levels(enum dtype t)
{
    return t == DT_NF4 || t == DT_FP4 || t == DT_NVFP4;
}

/* Scales of a row of `cols` elements that begins `skip` elements into a block of `block`. */
static inline int32_t scale_blocks(int32_t block, int32_t skip, int32_t cols)
{
    return cols > 0 ? (int32_t)(((int64_t)skip + cols + block - 1) / block) : 0;
}

/* The same of E4M3 weights. */
static inline int32_t fp8_blocks(int32_t skip, int32_t cols)
{
    return scale_blocks(FP8_BLOCK, skip, cols);
}

#ifdef __cplusplus
extern "C" {
#endif

/* "f32", "bf16", ...; never NULL. */
const char *dtype_name(enum dtype t);

/* What the 16 codes of a type of has_levels stand for, [16]; NULL: another type.  NF4 and FP4: the
 * tables of bitsandbytes (create_normal_map; the fp4 tree), whose files repeat them. */
const float *dtype_levels(enum dtype t);

/* Bytes of one element; 0 for an unknown value and for types in blocks. */
size_t dtype_size(enum dtype t);

#ifdef __cplusplus
}
#endif

NUMBER_FN float f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

NUMBER_FN uint32_t bits_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

NUMBER_FN float f32_of_bf16(uint16_t h)
{
    return f32_of_bits((uint32_t)h << 16);
}

NUMBER_FN uint16_t bf16_of_f32(float f)
{
    uint32_t u = bits_of_f32(f);
    if ((u & 0x7fffffffU) > 0x7f800000U)
        return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

NUMBER_FN float f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31U, man = h & 0x3ffU;
    if (exp == 31)
        return f32_of_bits(sign | 0x7f800000U | man << 13);
    if (exp)
        return f32_of_bits(sign | (exp + 112) << 23 | man << 13);
    float f = (float)man * 0x1p-24f; /* zero and subnormals, exact */
    return sign ? -f : f;
}

NUMBER_FN uint16_t f16_of_f32(float f)
{
    uint32_t u = bits_of_f32(f), sign = (u >> 16) & 0x8000U, a = u & 0x7fffffffU;
    if (a > 0x7f800000U)
        return (uint16_t)(sign | 0x7e00U);
    if (a >= 0x477ff000U) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00U);
    if (a < 0x38800000U) { /* below 2^-14: the f16 step is 2^-24; adding 0.5 aligns it in f32 */
        float r = f32_of_bits(a) + 0.5f;
        return (uint16_t)(sign | (bits_of_f32(r) - 0x3f000000U));
    }
    a += 0xfffU + ((a >> 13) & 1U);
    return (uint16_t)(sign | ((a - 0x38000000U) >> 13));
}

/* What a KV cache holds of f: NaN in place of what its type has no number for, so that tokens that see it
 * fail.  An infinite key would have a score of minus infinity with some queries, which hides it. */
NUMBER_FN uint16_t kv_f16_of_f32(float f)
{
    uint16_t h = f16_of_f32(f);
    return (h & 0x7c00U) == 0x7c00U ? (uint16_t)0x7e00U : h;
}

NUMBER_FN uint16_t kv_bf16_of_f32(float f)
{
    uint16_t h = bf16_of_f32(f);
    return (h & 0x7f80U) == 0x7f80U ? (uint16_t)0x7fc0U : h;
}

NUMBER_FN float kv_f32(float f)
{
    uint32_t u = bits_of_f32(f);
    return f32_of_bits((u & 0x7f800000U) == 0x7f800000U ? 0x7fc00000U : u);
}

/* OCP 8-bit floating point E4M3FN: bias 7, no infinities, NaN = 0x7f, greatest 448.  Exponent and
 * mantissa are put in place as they are; the product moves the bias from 7 to 127 and normalises,
 * exactly. */
NUMBER_FN float f32_of_e4m3(uint8_t h)
{
    float f = f32_of_bits((h & 0x7fU) << 20) * 0x1p120f;
    uint32_t u = (h & 0x7fU) == 0x7fU ? 0x7fc00000U : bits_of_f32(f);
    return f32_of_bits(u | (h & 0x80U) << 24);
}

/* Nearest, ties to even; beyond 448 it saturates; NaN stays NaN. */
NUMBER_FN uint8_t e4m3_of_f32(float f)
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

#endif
