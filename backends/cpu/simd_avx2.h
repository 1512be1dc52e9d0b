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

static inline vf v_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* *x * b + c */
static inline vf v_fma_at(const float *x, vf b, vf c)
{
    return v_fma(v_splat(*x), b, c);
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

/* VL values of OCP E4M3: as f16 their exponent is 8 too small; 0x7f is NaN. */
static inline vf v_load_e4m3(const uint8_t *p)
{
    __m128i h = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m128i a = _mm_slli_epi16(_mm_and_si128(h, _mm_set1_epi16(0x7f)), 7);
    __m128i nan = _mm_cmpeq_epi16(a, _mm_set1_epi16(0x7f << 7));
    a = _mm_or_si128(a, _mm_and_si128(nan, _mm_set1_epi16(0x7e00)));
    a = _mm_or_si128(a, _mm_and_si128(_mm_slli_epi16(h, 8), _mm_set1_epi16((short)0x8000)));
    return _mm256_mul_ps(_mm256_cvtph_ps(a), _mm256_set1_ps(256.0f));
}

/* VL bytes: the low halves, the high halves. */
static inline void v_load_halves(const uint8_t *p, vf *low, vf *high)
{
    __m256i r = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    *low = _mm256_cvtepi32_ps(_mm256_and_si256(r, _mm256_set1_epi32(15)));
    *high = _mm256_cvtepi32_ps(_mm256_srli_epi32(r, 4));
}

/* A table of 16 floats, and its entries that the low and the high halves of VL bytes choose. */
typedef struct {
    __m256 low, high;
} vlevels;

static inline vlevels v_levels(const float *table)
{
    return (vlevels){_mm256_loadu_ps(table), _mm256_loadu_ps(table + 8)};
}

/* Entries 0 to 7 and 8 to 15, by the lowest 3 bits; bit 3, as a sign, chooses. */
static inline vf v_level(__m256i i, vlevels table)
{
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, i),
                            _mm256_permutevar8x32_ps(table.high, i),
                            _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

static inline void v_load_levels(const uint8_t *p, vlevels table, vf *low, vf *high)
{
    __m256i r = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    *low = v_level(r, table);
    *high = v_level(_mm256_srli_epi32(r, 4), table);
}

/* VL pairs (low, high) of neighbouring bf16: all low ones, all high ones. */
static inline void v_load_bf16_pairs(const uint16_t *p, vf *low, vf *high)
{
    __m256i r = _mm256_loadu_si256((const __m256i *)(const void *)p);
    *low = _mm256_castsi256_ps(_mm256_slli_epi32(r, 16));
    *high = _mm256_castsi256_ps(_mm256_and_si256(r, _mm256_set1_epi32((int)0xffff0000U)));
}

/* In place: r[i][j] <-> r[j][i].  Pairs, fours, then halves of 128 bits. */
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

/* out[r] = the 16 bytes at p + r * stride and p + (r + 4) * stride: a lane each. */
static inline void v_load_lanes(const char *p, size_t stride, vf out[4])
{
    const char *high = p + 4 * stride;
    for (size_t r = 0; r < 4; r++) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(p + r * stride));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(high + r * stride));
        out[r] = _mm256_castsi256_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1));
    }
}

/* In each lane of 16 bytes: x[i][j] <-> x[j][i]. */
static inline void v_transpose_4(vf x[4])
{
    __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1]));
    __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1]));
    __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3]));
    __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    x[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    x[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    x[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    x[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
}

/* Elements of a and b in turns: of the low, of the high half of each 16 bytes. */
static inline void v_zip(vf a, vf b, vf *low, vf *high)
{
    *low = _mm256_unpacklo_ps(a, b);
    *high = _mm256_unpackhi_ps(a, b);
}

/* Each 16 bytes, `stride` floats apart. */
static inline void v_store_lanes(float *p, vf v, int stride)
{
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(p + stride, _mm256_extractf128_ps(v, 1));
}

/* a > b ? a : b */
static inline vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

/* The greatest element; none is NaN. */
static inline float v_greatest(vf x)
{
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/* x * 2^n of integers n from -150 to 0 and x from 0.5 to 2, rounded once; NaN of x = NaN.  The first of two
 * factors leaves a normal number. */
static inline vf v_scale_2(vf x, vf n)
{
    __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1);
    __m256i rest = _mm256_sub_epi32(all, half), one = _mm256_set1_epi32(127);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(rest, one), 23);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(a));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(b));
}

/* Each 32-bit element holds neighbours of a smaller type, the first in its low bits: out[e] = the
 * e-th of each, to f32. */
static inline void v_widen_f16(vf words, vf out[2])
{
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m256i r = _mm256_shuffle_epi8(_mm256_castps_si256(words), order);
    r = _mm256_permute4x64_epi64(r, 0xd8);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(r));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(r, 1));
}

static inline void v_widen_bf16(vf words, vf out[2])
{
    __m256i r = _mm256_castps_si256(words);
    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(r, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(r, _mm256_set1_epi32((int)0xffff0000U)));
}

/* OCP E4M3 in the low bytes of 16-bit elements to f16 without the factor 2^8: the exponent's bias
 * is 8 less; 0x7f is NaN. */
static inline __m256i f16_of_e4m3(__m256i h)
{
    __m256i a = _mm256_slli_epi16(_mm256_and_si256(h, _mm256_set1_epi16(0x7f)), 7);
    __m256i nan = _mm256_cmpeq_epi16(a, _mm256_set1_epi16(0x7f << 7));
    a = _mm256_or_si256(a, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    return _mm256_or_si256(
        a, _mm256_and_si256(_mm256_slli_epi16(h, 8), _mm256_set1_epi16((short)0x8000)));
}

static inline void v_widen_e4m3(vf words, vf out[4])
{
    __m256i r = _mm256_castps_si256(words);
    vf even[2], odd[2], scale = _mm256_set1_ps(256.0f);
    v_widen_f16(_mm256_castsi256_ps(f16_of_e4m3(r)), even);
    v_widen_f16(_mm256_castsi256_ps(f16_of_e4m3(_mm256_srli_epi16(r, 8))), odd);
    out[0] = _mm256_mul_ps(even[0], scale);
    out[1] = _mm256_mul_ps(odd[0], scale);
    out[2] = _mm256_mul_ps(even[1], scale);
    out[3] = _mm256_mul_ps(odd[1], scale);
}

#endif
