/* Vectors of 16 floats: AVX-512 F, BW, VL, DQ.  See tile_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_SIMD_AVX512_H
#define BACKENDS_CPU_SIMD_AVX512_H

#include <immintrin.h>

#include "backends/cpu/kernels.h"

enum { VL = 16, TILE_ROWS = 14 };
typedef __m512 vf;

static inline vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

static inline vf v_splat(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

static inline vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* *x * b + c.  On Zen 4 a load of its own that broadcasts takes a turn of the multipliers, this one
 * does not; compilers make it the former where *x is used twice. */
static inline vf v_fma_at(const float *x, vf b, vf c)
{
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*x));
    return c;
}

static inline vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline vf v_load_bf16(const uint16_t *p)
{
    __m512i r = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(r, 16));
}

static inline vf v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* VL values of OCP E4M3: as f16 their exponent is 8 too small; 0x7f is NaN. */
static inline vf v_of_e4m3(__m128i b)
{
    __m256i h = _mm256_cvtepu8_epi16(b), sign = _mm256_set1_epi16((short)0x8000);
    __m256i a = _mm256_slli_epi16(_mm256_and_si256(h, _mm256_set1_epi16(0x7f)), 7);
    __m256i nan = _mm256_cmpeq_epi16(a, _mm256_set1_epi16(0x7f << 7));
    a = _mm256_or_si256(a, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    a = _mm256_or_si256(a, _mm256_and_si256(_mm256_slli_epi16(h, 8), sign));
    return _mm512_mul_ps(_mm512_cvtph_ps(a), _mm512_set1_ps(256.0f));
}

static inline vf v_load_e4m3(const uint8_t *p)
{
    return v_of_e4m3(_mm_loadu_si128((const __m128i *)(const void *)p));
}

#ifdef __AVX512VBMI__
/* The halves of the bf16 that the codes 0 to 127 of OCP E4M3 are; 0x7f is NaN. */
static const uint8_t e4m3_high[128] = {
    0x00, 0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c, 0x3c,
    0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d, 0x3d,
    0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e,
    0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f, 0x3f,
    0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
    0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41,
    0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42,
    0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x43, 0x7f};
static const uint8_t e4m3_low[128] = {
    0x00, 0x00, 0x80, 0xc0, 0x00, 0x20, 0x40, 0x60, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0,
    0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xc0};

/* The halves of the bf16 that 64 codes are. */
static inline void e4m3_halves(__m512i x, __m512i *high, __m512i *low)
{
    *low = _mm512_permutex2var_epi8(_mm512_loadu_si512(e4m3_low), x,
                                    _mm512_loadu_si512(e4m3_low + 64));
    *high = _mm512_permutex2var_epi8(_mm512_loadu_si512(e4m3_high), x,
                                     _mm512_loadu_si512(e4m3_high + 64));
    *high = _mm512_ternarylogic_epi32(*high, x, _mm512_set1_epi8((char)0x80), 0xf8); /* | sign */
}

/* 4 VL values of OCP E4M3.  The bytes are put so that neighbours of a word become elements of two
 * vectors. */
#define V_LOAD_E4M3_X4
static inline void v_load_e4m3_x4(const uint8_t *p, vf out[4])
{
    static const uint8_t order[64] = {
        0,  16, 1,  17, 2,  18, 3,  19, 32, 48, 33, 49, 34, 50, 35, 51, 4,  20, 5,  21, 6,  22,
        7,  23, 36, 52, 37, 53, 38, 54, 39, 55, 8,  24, 9,  25, 10, 26, 11, 27, 40, 56, 41, 57,
        42, 58, 43, 59, 12, 28, 13, 29, 14, 30, 15, 31, 44, 60, 45, 61, 46, 62, 47, 63};
    __m512i x = _mm512_permutexvar_epi8(_mm512_loadu_si512(order), _mm512_loadu_si512(p));
    const __m512i odd = _mm512_set1_epi32((int)0xffff0000U);
    __m512i high, low;
    e4m3_halves(x, &high, &low);
    __m512i first = _mm512_unpacklo_epi8(low, high), last = _mm512_unpackhi_epi8(low, high);
    out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(first, 16));
    out[1] = _mm512_castsi512_ps(_mm512_and_si512(first, odd));
    out[2] = _mm512_castsi512_ps(_mm512_slli_epi32(last, 16));
    out[3] = _mm512_castsi512_ps(_mm512_and_si512(last, odd));
}
#endif

/* The first n < VL elements of a stored type, zeros behind them; reads nothing else. */
#define V_LOAD_FIRST
static inline vf v_load_first(enum dtype t, const void *p, int n)
{
    __mmask16 m = (__mmask16)((1U << n) - 1U);
    switch (t) {
    case DT_F16:
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
    case DT_BF16:
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
    case DT_E4M3:
        return v_of_e4m3(_mm_maskz_loadu_epi8(m, p));
    default:
        return _mm512_maskz_loadu_ps(m, p);
    }
}

/* VL bytes: the low halves, the high halves. */
static inline void v_load_halves(const uint8_t *p, vf *low, vf *high)
{
    __m512i r = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    *low = _mm512_cvtepi32_ps(_mm512_and_si512(r, _mm512_set1_epi32(15)));
    *high = _mm512_cvtepi32_ps(_mm512_srli_epi32(r, 4));
}

/* A table of 16 floats, and its entries that the low and the high halves of VL bytes choose. */
typedef __m512 vlevels;

static inline vlevels v_levels(const float *table)
{
    return _mm512_loadu_ps(table);
}

static inline void v_load_levels(const uint8_t *p, vlevels table, vf *low, vf *high)
{
    __m512i r = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    *low = _mm512_permutexvar_ps(r, table); /* takes the lowest 4 bits */
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(r, 4), table);
}

/* VL pairs (low, high) of neighbouring bf16: all low ones, all high ones. */
static inline void v_load_bf16_pairs(const uint16_t *p, vf *low, vf *high)
{
    __m512i r = _mm512_loadu_si512(p);
    *low = _mm512_castsi512_ps(_mm512_slli_epi32(r, 16));
    *high = _mm512_castsi512_ps(_mm512_and_si512(r, _mm512_set1_epi32((int)0xffff0000U)));
}

/* In place: r[i][j] <-> r[j][i].  Pairs, fours, then quarters of 128 bits in two rounds. */
static inline void v_transpose(vf r[16])
{
    vf t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + 2 + j]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; j++) {
            t[i + j] = _mm512_shuffle_f32x4(r[i + j], r[i + 4 + j], 0x88);
            t[i + 4 + j] = _mm512_shuffle_f32x4(r[i + j], r[i + 4 + j], 0xdd);
        }
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(t[j], t[8 + j], 0xdd);
    }
}

/* out[r] = the 16 bytes at p + r * stride, p + (r + 4) * stride, 8, 12: a lane each. */
static inline void v_load_lanes(const char *p, size_t stride, vf out[4])
{
    const char *a = p, *b = a + 4 * stride, *c = b + 4 * stride, *d = c + 4 * stride;
    size_t offset[4] = {0, stride, 2 * stride, 3 * stride};
    /* Opaque, so that these 4 registers and 2 address all 16; compilers take one for each. */
    __asm__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(offset[3]));
    for (int r = 0; r < 4; r++) {
        __m256i low =
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(a + offset[r])));
        __m256i high =
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(c + offset[r])));
        low = _mm256_inserti128_si256(
            low, _mm_loadu_si128((const __m128i *)(const void *)(b + offset[r])), 1);
        high = _mm256_inserti128_si256(
            high, _mm_loadu_si128((const __m128i *)(const void *)(d + offset[r])), 1);
        out[r] = _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
    }
}

/* In each lane of 16 bytes: x[i][j] <-> x[j][i]. */
static inline void v_transpose_4(vf x[4])
{
    __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1]));
    __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1]));
    __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3]));
    __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    x[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    x[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    x[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    x[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

/* Elements of a and b in turns: of the low, of the high half of each 16 bytes. */
static inline void v_zip(vf a, vf b, vf *low, vf *high)
{
    *low = _mm512_unpacklo_ps(a, b);
    *high = _mm512_unpackhi_ps(a, b);
}

/* Each 16 bytes, `stride` floats apart. */
static inline void v_store_lanes(float *p, vf v, int stride)
{
    _mm_storeu_ps(p, _mm512_castps512_ps128(v));
    _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(v, 1));
    _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(v, 2));
    _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(v, 3));
}

/* a > b ? a : b */
static inline vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

/* The greatest element; none is NaN. */
static inline float v_greatest(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/* x * 2^n of integers n from -150 to 0 and x from 0.5 to 2, rounded once; NaN of x = NaN. */
static inline vf v_scale_2(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}

/* Each 32-bit element holds neighbours of a smaller type, the first in its low bits: out[e] = the
 * e-th of each, to f32. */
static inline void v_widen_f16(vf words, vf out[2])
{
    const __m512i order =
        _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                         22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    _Alignas(64) uint16_t h[32]; /* a store across lines is not forwarded */
    _mm512_storeu_si512(h, _mm512_permutexvar_epi16(order, _mm512_castps_si512(words)));
    __asm__("" : "+m"(h)); /* converting from memory saves the shuffles of taking h apart */
    out[0] = v_load_f16(h);
    out[1] = v_load_f16(h + 16);
}

static inline void v_widen_bf16(vf words, vf out[2])
{
    __m512i r = _mm512_castps_si512(words);
    out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(r, 16));
    out[1] = _mm512_castsi512_ps(_mm512_and_si512(r, _mm512_set1_epi32((int)0xffff0000U)));
}

#ifdef __AVX512VBMI__
/* Low and high halves of bf16 in their bytes' places, then put together in pairs. */
static inline void v_widen_e4m3(vf words, vf out[4])
{
    __m512i x = _mm512_castps_si512(words), high, low;
    e4m3_halves(x, &high, &low);
    __m512i even = _mm512_ternarylogic_epi32(_mm512_slli_epi16(high, 8), low,
                                             _mm512_set1_epi16(0xff), 0xf8); /* a | (b & c) */
    __m512i odd = _mm512_ternarylogic_epi32(_mm512_srli_epi16(low, 8), high,
                                            _mm512_set1_epi16((short)0xff00), 0xf8);
    vf pair[2];
    v_widen_bf16(_mm512_castsi512_ps(even), pair);
    out[0] = pair[0];
    out[2] = pair[1];
    v_widen_bf16(_mm512_castsi512_ps(odd), pair);
    out[1] = pair[0];
    out[3] = pair[1];
}
#else
/* OCP E4M3 in the low bytes of 16-bit elements to f16 without the factor 2^8: the exponent's bias
 * is 8 less; 0x7f is NaN. */
static inline __m512i f16_of_e4m3(__m512i h)
{
    __m512i a = _mm512_slli_epi16(_mm512_and_si512(h, _mm512_set1_epi16(0x7f)), 7);
    __mmask32 nan = _mm512_cmpeq_epi16_mask(a, _mm512_set1_epi16(0x7f << 7));
    a = _mm512_mask_mov_epi16(a, nan, _mm512_set1_epi16(0x7e00));
    return _mm512_or_si512(
        a, _mm512_and_si512(_mm512_slli_epi16(h, 8), _mm512_set1_epi16((short)0x8000)));
}

static inline void v_widen_e4m3(vf words, vf out[4])
{
    __m512i r = _mm512_castps_si512(words);
    vf even[2], odd[2], scale = _mm512_set1_ps(256.0f);
    v_widen_f16(_mm512_castsi512_ps(f16_of_e4m3(r)), even);
    v_widen_f16(_mm512_castsi512_ps(f16_of_e4m3(_mm512_srli_epi16(r, 8))), odd);
    out[0] = _mm512_mul_ps(even[0], scale);
    out[1] = _mm512_mul_ps(odd[0], scale);
    out[2] = _mm512_mul_ps(even[1], scale);
    out[3] = _mm512_mul_ps(odd[1], scale);
}
#endif

#endif
