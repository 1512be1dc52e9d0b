/* Vectors of 4 floats: AArch64.  See tile_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_SIMD_NEON_H
#define BACKENDS_CPU_SIMD_NEON_H

#include <arm_neon.h>

#include "backends/cpu/kernels.h"

enum { VL = 4, TILE_ROWS = 14 };
typedef float32x4_t vf;

static inline vf v_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void v_store(float *p, vf v)
{
    vst1q_f32(p, v);
}

static inline vf v_splat(float x)
{
    return vdupq_n_f32(x);
}

static inline vf v_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

static inline vf v_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

static inline vf v_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* *x * b + c */
static inline vf v_fma_at(const float *x, vf b, vf c)
{
    return v_fma(v_splat(*x), b, c);
}

static inline vf v_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline vf v_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline vf v_load_i8(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

/* VL values of OCP E4M3: as f16 their exponent is 8 too small; 0x7f is NaN. */
static inline vf v_load_e4m3(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    uint16x4_t h = vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))));
    uint16x4_t a = vshl_n_u16(vand_u16(h, vdup_n_u16(0x7f)), 7);
    uint16x4_t nan = vceq_u16(a, vdup_n_u16(0x7f << 7));
    a = vorr_u16(a, vand_u16(nan, vdup_n_u16(0x7e00)));
    a = vorr_u16(a, vand_u16(vshl_n_u16(h, 8), vdup_n_u16(0x8000)));
    return vmulq_f32(vcvt_f32_f16(vreinterpret_f16_u16(a)), vdupq_n_f32(256.0f));
}

/* VL bytes: the low halves, the high halves. */
static inline void v_load_halves(const uint8_t *p, vf *low, vf *high)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    uint32x4_t r = vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)))));
    *low = vcvtq_f32_u32(vandq_u32(r, vdupq_n_u32(15)));
    *high = vcvtq_f32_u32(vshrq_n_u32(r, 4));
}

/* A table of 16 floats, and its entries that the low and the high halves of VL bytes choose. */
typedef const float *vlevels;

static inline vlevels v_levels(const float *table)
{
    return table;
}

static inline void v_load_levels(const uint8_t *p, vlevels table, vf *low, vf *high)
{
    float a[VL], b[VL];
    for (int i = 0; i < VL; i++) {
        a[i] = table[p[i] & 15];
        b[i] = table[p[i] >> 4];
    }
    *low = v_load(a);
    *high = v_load(b);
}

/* VL pairs (low, high) of neighbouring bf16: all low ones, all high ones. */
static inline void v_load_bf16_pairs(const uint16_t *p, vf *low, vf *high)
{
    uint32x4_t r = vreinterpretq_u32_u16(vld1q_u16(p));
    *low = vreinterpretq_f32_u32(vshlq_n_u32(r, 16));
    *high = vreinterpretq_f32_u32(vandq_u32(r, vdupq_n_u32(0xffff0000U)));
}

/* In place: r[i][j] <-> r[j][i] */
static inline void v_transpose(vf r[4])
{
    float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    r[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    r[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    r[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

/* out[r] = the 16 bytes at p + r * stride */
static inline void v_load_lanes(const char *p, size_t stride, vf out[4])
{
    for (size_t r = 0; r < 4; r++)
        out[r] = vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)(p + r * stride)));
}

static inline void v_transpose_4(vf x[4])
{
    v_transpose(x);
}

/* Elements of a and b in turns: of the low, of the high half of each 16 bytes. */
static inline void v_zip(vf a, vf b, vf *low, vf *high)
{
    *low = vzip1q_f32(a, b);
    *high = vzip2q_f32(a, b);
}

/* Each 16 bytes, `stride` floats apart. */
static inline void v_store_lanes(float *p, vf v, int stride)
{
    (void)stride; /* one lane */
    v_store(p, v);
}

/* a > b ? a : b */
static inline vf v_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* The greatest element; none is NaN. */
static inline float v_greatest(vf x)
{
    return vmaxvq_f32(x);
}

/* x * 2^n of integers n from -150 to 0 and x from 0.5 to 2, rounded once; NaN of x = NaN.  The first of two
 * factors leaves a normal number. */
static inline vf v_scale_2(vf x, vf n)
{
    int32x4_t all = vcvtq_s32_f32(n), half = vshrq_n_s32(all, 1), rest = vsubq_s32(all, half);
    int32x4_t a = vshlq_n_s32(vaddq_s32(half, vdupq_n_s32(127)), 23);
    int32x4_t b = vshlq_n_s32(vaddq_s32(rest, vdupq_n_s32(127)), 23);
    x = vmulq_f32(x, vreinterpretq_f32_s32(a));
    return vmulq_f32(x, vreinterpretq_f32_s32(b));
}

/* Each 32-bit element holds neighbours of a smaller type, the first in its low bits: out[e] = the
 * e-th of each, to f32. */
static inline void v_widen_f16(vf words, vf out[2])
{
    uint32x4_t r = vreinterpretq_u32_f32(words);
    out[0] = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(r)));
    out[1] = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(r, 16)));
}

static inline void v_widen_bf16(vf words, vf out[2])
{
    uint32x4_t r = vreinterpretq_u32_f32(words);
    out[0] = vreinterpretq_f32_u32(vshlq_n_u32(r, 16));
    out[1] = vreinterpretq_f32_u32(vandq_u32(r, vdupq_n_u32(0xffff0000U)));
}

/* OCP E4M3 in the low bytes of 16-bit elements to f16 without the factor 2^8: the exponent's bias
 * is 8 less; 0x7f is NaN. */
static inline uint16x8_t f16_of_e4m3(uint16x8_t h)
{
    uint16x8_t a = vshlq_n_u16(vandq_u16(h, vdupq_n_u16(0x7f)), 7);
    uint16x8_t nan = vceqq_u16(a, vdupq_n_u16(0x7f << 7));
    a = vorrq_u16(a, vandq_u16(nan, vdupq_n_u16(0x7e00)));
    return vorrq_u16(a, vandq_u16(vshlq_n_u16(h, 8), vdupq_n_u16(0x8000)));
}

static inline void v_widen_e4m3(vf words, vf out[4])
{
    uint16x8_t r = vreinterpretq_u16_f32(words);
    vf even[2], odd[2], scale = vdupq_n_f32(256.0f);
    v_widen_f16(vreinterpretq_f32_u16(f16_of_e4m3(r)), even);
    v_widen_f16(vreinterpretq_f32_u16(f16_of_e4m3(vshrq_n_u16(r, 8))), odd);
    out[0] = vmulq_f32(even[0], scale);
    out[1] = vmulq_f32(odd[0], scale);
    out[2] = vmulq_f32(even[1], scale);
    out[3] = vmulq_f32(odd[1], scale);
}

#endif
