/* Vectors of 16-bit integers in pairs, and their dot products: for attn_int8.h. */
#ifndef BACKENDS_CPU_WORDS_AVX2_H
#define BACKENDS_CPU_WORDS_AVX2_H

#include <string.h>

#include "backends/cpu/simd_avx2.h"

typedef __m256i vw;

static inline vw w_load(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* The first n < 4 VL bytes, zeros behind them; reads nothing else. */
static inline vw w_load_first(const void *p, int n)
{
    char tmp[32] = {0};
    if (n == 16)
        return _mm256_zextsi128_si256(_mm_loadu_si128(p));
    memcpy(tmp, p, (size_t)n);
    return w_load(tmp);
}

static inline void w_store(void *p, vw v)
{
    _mm256_storeu_si256(p, v);
}

static inline vw w_splat(int32_t x)
{
    return _mm256_set1_epi32(x);
}

static inline vw w_add(vw a, vw b)
{
    return _mm256_add_epi32(a, b);
}

/* Of 4 bytes the first and the third, + 128; the second and the fourth. */
static inline vw w_even(vw v)
{
    return _mm256_xor_si256(_mm256_and_si256(v, _mm256_set1_epi16(0xff)), _mm256_set1_epi16(0x80));
}

static inline vw w_odd(vw v)
{
    return _mm256_srai_epi16(v, 8);
}

/* acc + the sum of the products of each pair */
static inline vw w_dot(vw acc, vw a, vw b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
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
    *low = _mm256_unpacklo_epi16(a, b);
    *high = _mm256_unpackhi_epi16(a, b);
}

static inline vf w_float(vw v)
{
    return _mm256_cvtepi32_ps(v);
}

static inline vf f_of_words(vw v)
{
    return _mm256_castsi256_ps(v);
}

static inline vw words_of_f(vf v)
{
    return _mm256_castps_si256(v);
}

/* Bits of |x|: as integers they are ordered as the magnitudes, NaN last. */
static inline vw w_magnitude(vf x)
{
    return _mm256_and_si256(words_of_f(x), w_splat(INT32_MAX));
}

/* The greater ones of signed elements; the greatest of them. */
static inline vw w_max(vw a, vw b)
{
    return _mm256_max_epi32(a, b);
}

static inline int32_t w_greatest(vw v)
{
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

/* The sum of all elements. */
static inline int32_t w_sum(vw v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

/* The low halves of 2 VL elements, a first. */
static inline vw w_halves(vw a, vw b)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i x = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    return _mm256_permute4x64_epi64(x, 0xd8);
}

/* Of each four 16-bit elements the inner two change places. */
static inline vw w_swap_inner(vw v)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0,
                                           1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    return _mm256_shuffle_epi8(v, order);
}

#endif
