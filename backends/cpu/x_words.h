/* The bytes of a group of x as words, with AVX2: the even ones, then the odd ones. */
#ifndef BACKENDS_CPU_X_WORDS_H
#define BACKENDS_CPU_X_WORDS_H

#include <immintrin.h>

/* x [32] int8; even, odd [16] int16 */
static inline void x_words(const void *x, void *even, void *odd)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)x);
    __m256i first = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    _mm256_storeu_si256((__m256i *)even, first);
    _mm256_storeu_si256((__m256i *)odd, _mm256_srai_epi16(bytes, 8));
}

#endif
