/* A group of x taken apart, with AVX2. */
#ifndef BACKENDS_CPU_X_WORDS_H
#define BACKENDS_CPU_X_WORDS_H

#include <immintrin.h>

/* x [32] int8; even, odd [16] int16: the words of the even and of the odd bytes */
static inline void x_words(const void *x, void *even, void *odd)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)x);
    __m256i first = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    _mm256_storeu_si256((__m256i *)even, first);
    _mm256_storeu_si256((__m256i *)odd, _mm256_srai_epi16(bytes, 8));
}

/* x [32] int8 = 8 high + low: high [32] int8 from -16 to 15, low [32] from 0 to 7 */
static inline void x_parts(const void *x, void *high, void *low)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)x), sign = _mm256_set1_epi8((char)0x80);
    __m256i eighths = _mm256_srli_epi16(_mm256_xor_si256(bytes, sign), 3); /* of x + 128 */
    eighths = _mm256_and_si256(eighths, _mm256_set1_epi8(31));
    _mm256_storeu_si256((__m256i *)high, _mm256_sub_epi8(eighths, _mm256_set1_epi8(16)));
    _mm256_storeu_si256((__m256i *)low, _mm256_and_si256(bytes, _mm256_set1_epi8(7)));
}

#endif
