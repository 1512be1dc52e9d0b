/* Vectors of 16-bit integers in pairs, and their dot products: for attn_int8.h.  With VNNI one
 * instruction each. */
#ifndef BACKENDS_CPU_WORDS_AVX512_H
#define BACKENDS_CPU_WORDS_AVX512_H

#include <string.h>

#include "backends/cpu/simd_avx512.h"

typedef __m512i vw;

static inline vw w_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

/* The first n < 4 VL bytes, zeros behind them; reads nothing else. */
static inline vw w_load_first(const void *p, int n)
{
    return _mm512_maskz_loadu_epi8((1ULL << n) - 1, p);
}

static inline void w_store(void *p, vw v)
{
    _mm512_storeu_si512(p, v);
}

static inline vw w_splat(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline vw w_add(vw a, vw b)
{
    return _mm512_add_epi32(a, b);
}

/* Of 4 bytes the first and the third, + 128; the second and the fourth. */
static inline vw w_even(vw v)
{
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi16(0x80), _mm512_set1_epi16(0xff), 0x28);
}

static inline vw w_odd(vw v)
{
    return _mm512_srai_epi16(v, 8);
}

/* acc + the sum of the products of each pair */
static inline vw w_dot(vw acc, vw a, vw b)
{
#ifdef __AVX512VNNI__
    acc = _mm512_dpwssd_epi32(acc, a, b);
    __asm__("" : "+v"(acc)); /* in place: gcc 12 would copy the accumulators of a loop to and fro */
    return acc;
#else
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}

/* w_dot with the pair at p in every element */
static inline vw w_dot_at(vw acc, vw a, const void *p)
{
#ifdef __AVX512VNNI__
    struct pair_at {
        char bytes[4];
    };
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" /* as v_fma_at */
            : "+v"(acc)
            : "v"(a), "m"(*(const struct pair_at *)p));
    return acc;
#else
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return w_dot(acc, a, w_splat(pair));
#endif
}

/* Two neighbours of a, then two of b: of the low, of the high half of each 16 bytes. */
static inline void w_zip(vw a, vw b, vw *low, vw *high)
{
    *low = _mm512_unpacklo_epi16(a, b);
    *high = _mm512_unpackhi_epi16(a, b);
}

static inline vf w_float(vw v)
{
    return _mm512_cvtepi32_ps(v);
}

static inline vf f_of_words(vw v)
{
    return _mm512_castsi512_ps(v);
}

static inline vw words_of_f(vf v)
{
    return _mm512_castps_si512(v);
}

/* Bits of |x|: as integers they are ordered as the magnitudes, NaN last. */
static inline vw w_magnitude(vf x)
{
    return _mm512_and_si512(words_of_f(x), w_splat(INT32_MAX));
}

/* The greater ones of signed elements; the greatest of them. */
static inline vw w_max(vw a, vw b)
{
    return _mm512_max_epi32(a, b);
}

static inline int32_t w_greatest(vw v)
{
    return _mm512_reduce_max_epi32(v);
}

/* The sum of all elements. */
static inline int32_t w_sum(vw v)
{
    return _mm512_reduce_add_epi32(v);
}

/* The low halves of 2 VL elements, a first. */
static inline vw w_halves(vw a, vw b)
{
    const __m512i even =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_epi16(a, even, b);
}

/* Of each four 16-bit elements the inner two change places. */
static inline vw w_swap_inner(vw v)
{
    const __m512i order = _mm512_set4_epi32(0x0f0e0b0a, 0x0d0c0908, 0x07060302, 0x05040100);
    return _mm512_shuffle_epi8(v, order);
}

#endif
