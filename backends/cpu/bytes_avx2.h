/* Vectors of 32 bytes, 8 columns of 4, and their dot products with 4 bytes of x.  With DOT_VNNI
 * weights are unsigned (q + 128), otherwise signed.  See quant_kernels.h for what each must do. */
#ifndef BACKENDS_CPU_BYTES_AVX2_H
#define BACKENDS_CPU_BYTES_AVX2_H

#include "backends/cpu/simd_avx2.h"
#include "backends/cpu/x_words.h"

#define DIRECT_FEW
enum { Q_ROWS = 4 };
typedef __m256i vb;
typedef __m256i vi;

static inline vb b_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline void b_store(void *p, vb v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

static inline vb b_splat(int x)
{
    return _mm256_set1_epi8((char)x);
}

static inline vb b_add(vb a, vb b)
{
    return _mm256_add_epi8(a, b);
}

static inline vb b_or(vb a, vb b)
{
    return _mm256_or_si256(a, b);
}

/* The bits of mask after a shift by n to the right (n < 0: to the left) that keeps bytes apart. */
static inline vb b_field(vb v, int n, int mask)
{
    v = n > 0 ? _mm256_srli_epi16(v, n) : _mm256_slli_epi16(v, -n);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

static inline vb b_table(const uint8_t t[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)t));
}

static inline vb b_lookup(vb table, vb index)
{
    return _mm256_shuffle_epi8(table, index);
}

static inline vi i_splat(int32_t x)
{
    return _mm256_set1_epi32(x);
}

static inline vf f_of_i(vi v)
{
    return _mm256_cvtepi32_ps(v);
}

#ifdef DOT_VNNI
enum { W_OFFSET = 128 };
static inline vi i_dot(vi acc, vb w, vi x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}
#else
enum { W_OFFSET = 0 };
#define DOT_NARROW
static inline vi i_mul16(vb w, vi x)
{
    return _mm256_maddubs_epi16(w, x);
}

/* Sums are added in the order of the calls: gcc would make a tree of them, whose products do not fit
 * the registers. */
static inline vi in_order(vi sum)
{
    __asm__("" : "+x"(sum));
    return sum;
}

static inline vi i_add16(vi a, vi b)
{
    return in_order(_mm256_add_epi16(a, b));
}

static inline vi i_widen(vi acc, vi sums)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}

/* The same with eight times the sums. */
static inline vi i_widen_eight(vi acc, vi sums)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(sums, _mm256_set1_epi16(8)));
}

/* VPSIGNB, which one product of signed bytes needs, takes the place of a multiplication. */
#define DOT_WORDS
static inline void i_words(vb v, vi *even, vi *odd)
{
    *even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
    *odd = _mm256_srai_epi16(v, 8);
}

static inline vi i_dot_words(vi acc, vi w, vi x)
{
    return in_order(_mm256_add_epi32(acc, _mm256_madd_epi16(w, x)));
}

static inline vi i_dot(vi acc, vb w, vi x)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return in_order(_mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
#endif

#endif
