/* Vectors of 16-bit integers in pairs, and their dot products: for attn_int8.h. */
#ifndef BACKENDS_CPU_WORDS_NEON_H
#define BACKENDS_CPU_WORDS_NEON_H

#include <string.h>

#include "backends/cpu/simd_neon.h"

typedef int32x4_t vw;

static inline vw w_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

/* The first n < 4 VL bytes, zeros behind them; reads nothing else. */
static inline vw w_load_first(const void *p, int n)
{
    char tmp[16] = {0};
    memcpy(tmp, p, (size_t)n);
    return w_load(tmp);
}

static inline void w_store(void *p, vw v)
{
    vst1q_u8(p, vreinterpretq_u8_s32(v));
}

static inline vw w_splat(int32_t x)
{
    return vdupq_n_s32(x);
}

static inline vw w_add(vw a, vw b)
{
    return vaddq_s32(a, b);
}

/* Of 4 bytes the first and the third, + 128; the second and the fourth. */
static inline vw w_even(vw v)
{
    int16x8_t low = vandq_s16(vreinterpretq_s16_s32(v), vdupq_n_s16(0xff));
    return vreinterpretq_s32_s16(veorq_s16(low, vdupq_n_s16(0x80)));
}

static inline vw w_odd(vw v)
{
    return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(v), 8));
}

/* acc + the sum of the products of each pair */
static inline vw w_dot(vw acc, vw a, vw b)
{
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(x, y)));
}

/* w_dot with the pair at p in every element */
static inline vw w_dot_at(vw acc, vw a, const void *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return w_dot(acc, a, w_splat(pair));
}

/* Two neighbours of a, then two of b: of the low, of the high half of each 16 bytes. */
static inline void w_zip(vw a, vw b, vw *low, vw *high)
{
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    *low = vreinterpretq_s32_s16(vzip1q_s16(x, y));
    *high = vreinterpretq_s32_s16(vzip2q_s16(x, y));
}

static inline vf w_float(vw v)
{
    return vcvtq_f32_s32(v);
}

static inline vf f_of_words(vw v)
{
    return vreinterpretq_f32_s32(v);
}

static inline vw words_of_f(vf v)
{
    return vreinterpretq_s32_f32(v);
}

/* Bits of |x|: as integers they are ordered as the magnitudes, NaN last. */
static inline vw w_magnitude(vf x)
{
    return vandq_s32(words_of_f(x), w_splat(INT32_MAX));
}

/* The greater ones of signed elements; the greatest of them. */
static inline vw w_max(vw a, vw b)
{
    return vmaxq_s32(a, b);
}

static inline int32_t w_greatest(vw v)
{
    return vmaxvq_s32(v);
}

/* The sum of all elements. */
static inline int32_t w_sum(vw v)
{
    return vaddvq_s32(v);
}

/* The low halves of 2 VL elements, a first. */
static inline vw w_halves(vw a, vw b)
{
    return vreinterpretq_s32_s16(vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b)));
}

/* Of each four 16-bit elements the inner two change places. */
static inline vw w_swap_inner(vw v)
{
    static const uint8_t order[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(v), vld1q_u8(order)));
}

#endif
