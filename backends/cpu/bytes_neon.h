/* Vectors of 16 bytes, 4 columns of 4, and their dot products with 4 bytes of x; weights are
 * signed, or, with the matrix instructions (FEAT_I8MM, which has USDOT too), unsigned (q + 128).
 * See quant_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_BYTES_NEON_H
#define BACKENDS_CPU_BYTES_NEON_H

#include "backends/cpu/simd_neon.h"

#define Q_ROWS_6
#define DOT_UNITS
enum { Q_ROWS = 6 };
typedef uint8x16_t vb;
typedef int32x4_t vi;

static inline vb b_load(const void *p)
{
    return vld1q_u8(p);
}

static inline void b_store(void *p, vb v)
{
    vst1q_u8(p, v);
}

static inline vb b_splat(int x)
{
    return vdupq_n_u8((uint8_t)x);
}

static inline vb b_add(vb a, vb b)
{
    return vaddq_u8(a, b);
}

static inline vb b_or(vb a, vb b)
{
    return vorrq_u8(a, b);
}

/* The bits of mask after a shift by n to the right (n < 0: to the left). */
static inline vb b_field(vb v, int n, int mask)
{
    const int kept = n < 0 ? 0xff << -n & 0xff : 0xff >> n;
    v = vshlq_u8(v, vdupq_n_s8((int8_t)-n));
    return (mask & kept) == kept ? v : vandq_u8(v, vdupq_n_u8((uint8_t)mask));
}

static inline vb b_table(const uint8_t t[16])
{
    return vld1q_u8(t);
}

static inline vb b_lookup(vb table, vb index)
{
    return vqtbl1q_u8(table, index);
}

static inline vi i_splat(int32_t x)
{
    return vdupq_n_s32(x);
}

static inline vf f_of_i(vi v)
{
    return vcvtq_f32_s32(v);
}

#ifdef __ARM_FEATURE_MATMUL_INT8
#define DOT_MATRIX
enum { W_OFFSET = 128 };
static inline vi i_dot(vi acc, vb w, vi x)
{
    return vusdotq_s32(acc, w, vreinterpretq_s8_s32(x));
}

/* Quads a of 4 columns and the quads b that follow them: 8 bytes of each column. */
static inline void b_zip_quads(vb a, vb b, vb *low, vb *high)
{
    uint32x4_t first = vreinterpretq_u32_u8(a), second = vreinterpretq_u32_u8(b);
    *low = vreinterpretq_u8_u32(vzip1q_u32(first, second));
    *high = vreinterpretq_u8_u32(vzip2q_u32(first, second));
}
#else
enum { W_OFFSET = 0 };
static inline vi i_dot(vi acc, vb w, vi x)
{
    int8x16_t a = vreinterpretq_s8_u8(w), b = vreinterpretq_s8_s32(x);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(acc, a, b);
#else
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(a), vget_high_s8(b)));
    return vaddq_s32(acc, vpaddq_s32(low, high));
#endif
}

/* i_dot with quad e of the 4 of x; lanes are constants to compilers. */
static inline vi i_dot_quad(vi acc, vb w, vb x, int e)
{
#ifdef __ARM_FEATURE_DOTPROD
    int8x16_t a = vreinterpretq_s8_u8(w), b = vreinterpretq_s8_u8(x);
    return e == 0   ? vdotq_laneq_s32(acc, a, b, 0)
           : e == 1 ? vdotq_laneq_s32(acc, a, b, 1)
           : e == 2 ? vdotq_laneq_s32(acc, a, b, 2)
                    : vdotq_laneq_s32(acc, a, b, 3);
#else
    vi quads = vreinterpretq_s32_u8(x);
    return i_dot(acc, w,
                 e == 0   ? vdupq_laneq_s32(quads, 0)
                 : e == 1 ? vdupq_laneq_s32(quads, 1)
                 : e == 2 ? vdupq_laneq_s32(quads, 2)
                          : vdupq_laneq_s32(quads, 3));
#endif
}
#endif

#endif
