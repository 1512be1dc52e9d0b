/* Vectors of 8 floats: AVX2, FMA, F16C.  See tile_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_SIMD_AVX2_H
#define BACKENDS_CPU_SIMD_AVX2_H

#include <immintrin.h>

#include "backends/cpu/kernels.h"

enum { VL = 8, TILE_ROWS = 6 };
typedef __m256 vf;

static inline vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

static inline vf v_splat(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf v_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline vf v_load_bf16(const uint16_t *p)
{
    __m256i r = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(r, 16));
}

static inline vf v_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

/* VL bytes: the low halves, the high halves. */
static inline void v_load_halves(const uint8_t *p, vf *low, vf *high)
{
    __m256i r = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    *low = _mm256_cvtepi32_ps(_mm256_and_si256(r, _mm256_set1_epi32(15)));
    *high = _mm256_cvtepi32_ps(_mm256_srli_epi32(r, 4));
}

/* VL pairs (low, high) of neighbouring bf16: all low ones, all high ones. */
static inline void v_load_bf16_pairs(const uint16_t *p, vf *low, vf *high)
{
    __m256i r = _mm256_loadu_si256((const __m256i *)(const void *)p);
    *low = _mm256_castsi256_ps(_mm256_slli_epi32(r, 16));
    *high = _mm256_castsi256_ps(_mm256_and_si256(r, _mm256_set1_epi32((int)0xffff0000U)));
}

/* In place: r[i][j] <-> r[j][i].  Pairs, quads, then 128-bit halves. */
static inline void v_transpose(vf r[8])
{
    vf t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            __m256d a = _mm256_castps_pd(t[i + j]), b = _mm256_castps_pd(t[i + 2 + j]);
            r[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
            r[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    }
    for (int j = 0; j < 8; j++)
        r[j] = t[j];
}

#endif
