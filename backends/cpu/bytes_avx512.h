/* Vectors of 64 bytes, 16 columns of 4, and their dot products with 4 bytes of x.  With DOT_VNNI
 * weights are unsigned (q + 128), otherwise signed.  See quant_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_BYTES_AVX512_H
#define BACKENDS_CPU_BYTES_AVX512_H

#include "backends/cpu/simd_avx512.h"
#include "backends/cpu/x_words.h"

#define DIRECT_FEW
#define Q_ROWS_8
enum { Q_ROWS = 8 };
typedef __m512i vb;
typedef __m512i vi;

static inline vb b_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline void b_store(void *p, vb v)
{
    _mm512_storeu_si512(p, v);
}

static inline vb b_splat(int x)
{
    return _mm512_set1_epi8((char)x);
}

static inline vb b_add(vb a, vb b)
{
    return _mm512_add_epi8(a, b);
}

static inline vb b_or(vb a, vb b)
{
    return _mm512_or_si512(a, b);
}

/* The bits of mask after a shift by n to the right (n < 0: to the left) that keeps bytes apart. */
static inline vb b_field(vb v, int n, int mask)
{
    v = n > 0 ? _mm512_srli_epi32(v, (unsigned)n) : _mm512_slli_epi32(v, (unsigned)-n);
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

static inline vb b_table(const uint8_t t[16])
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)t));
}

static inline vb b_lookup(vb table, vb index)
{
    return _mm512_shuffle_epi8(table, index);
}

static inline vi i_splat(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline vf f_of_i(vi v)
{
    return _mm512_cvtepi32_ps(v);
}

#ifdef DOT_VNNI
enum { W_OFFSET = 128 };
static inline vi i_dot(vi acc, vb w, vi x)
{
    return _mm512_dpbusd_epi32(acc, w, x);
}

#define DOT_WIDE
static inline vi i_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

static inline vi i_sixteenth(vi a)
{
    return _mm512_srai_epi32(a, 4);
}
#else
enum { W_OFFSET = 0 };
#define DOT_NARROW
static inline vi i_mul16(vb w, vi x)
{
    return _mm512_maddubs_epi16(w, x);
}

/* Sums are added in the order of the calls: gcc would make a tree of them, whose products do not fit
 * the registers. */
static inline vi in_order(vi sum)
{
    __asm__("" : "+v"(sum));
    return sum;
}

static inline vi i_add16(vi a, vi b)
{
    return in_order(_mm512_add_epi16(a, b));
}

static inline vi i_widen(vi acc, vi sums)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(sums, _mm512_set1_epi16(1)));
}

/* The same with eight times the sums. */
static inline vi i_widen_eight(vi acc, vi sums)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(sums, _mm512_set1_epi16(8)));
}

/* One product of signed bytes takes six instructions, two of words take four. */
#define DOT_WORDS
static inline void i_words(vb v, vi *even, vi *odd)
{
    *even = _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8);
    *odd = _mm512_srai_epi16(v, 8);
}

static inline vi i_dot_words(vi acc, vi w, vi x)
{
    return in_order(_mm512_add_epi32(acc, _mm512_madd_epi16(w, x)));
}

static inline vi i_dot(vi acc, vb w, vi x)
{
    vi signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    vi pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x); /* at most 2 * 128 * 127 */
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

#endif
