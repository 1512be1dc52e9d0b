/* What the tensor-core kernels of linear_*.cu share: which columns meet in one mma, and segments.
 *
 * A chunk is K_CHUNK columns.  The four lanes t = 0..3 of a fragment row own its columns 8t .. 8t +
 * 7: one 16-byte load.  Columns 8t + {0, 1} and 8t + {2, 3} are the lane's two pairs of the first
 * mma, 8t + {4, 5} and 8t + {6, 7} those of the second.  The mapping is the same for w and x, so
 * row-major rows need no shuffling, and a kernel that reads registers from global memory makes the
 * very mma's of one that goes through shared memory.
 *
 * Few tokens: w is the operand of 16 rows.  Many: x is, packed in the order in which lanes hold it
 * (FRAGMENT_BYTES), and w is that of 8, whose registers follow each other in a row of it.  An output is the
 * sum of the same products in the same order of k either way: a product of two 16-bit numbers is
 * exact, so it does not matter which of them is in which operand. */
#ifndef BACKENDS_CUDA_LINEAR_MMA_H
#define BACKENDS_CUDA_LINEAR_MMA_H

#include "backends/cuda/gpu.h"
#include "backends/cuda/linear_kernels.h"

/* Element types: two values to one register, and the product. */
struct elem_bf16 {
    static const bool scaled = false;
    DEVICE uint32_t pair(float lo, float hi)
    {
        return pack_bf16(lo, hi);
    }
    DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        mma_m16n8k16_bf16(c, a, b);
    }
};

struct elem_f16 {
    static const bool scaled = true;
    DEVICE uint32_t pair(float lo, float hi)
    {
        return pack_f16(lo, hi);
    }
    DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        mma_m16n8k16_f16(c, a, b);
    }
};

/* c [16, 8] += one chunk of 16 rows of w and 8 tokens (b).
 * lo: row g of the lane; hi: row g + 8. */
template <class E>
DEVICE void mma_chunk(float (&c)[4], const uint4 &lo, const uint4 &hi, const uint4 &b)
{
    const uint32_t a0[4] = {lo.x, hi.x, lo.y, hi.y}, b0[2] = {b.x, b.y};
    const uint32_t a1[4] = {lo.z, hi.z, lo.w, hi.w}, b1[2] = {b.z, b.w};
    E::mma(c, a0, b0);
    E::mma(c, a1, b1);
}

/* A block of 16 tokens and a chunk in the order of an mma's first operand: the 16 bytes of each lane for
 * the chunk's first mma, then those for its second. */
enum { FRAGMENT_TOKENS = 16, FRAGMENT_BYTES = FRAGMENT_TOKENS * K_CHUNK * 2 };

/* Both mma's registers, of the lane's columns of tokens g and g + 8. */
struct fragment {
    uint4 first, second;
};

DEVICE struct fragment fragment_of(const uint4 &lo, const uint4 &hi)
{
    return {{lo.x, hi.x, lo.y, hi.y}, {lo.z, hi.z, lo.w, hi.w}};
}

/* c [16 tokens, 8] += one chunk of x and 8 rows of w (b). */
template <class E> DEVICE void mma_fragment(float (&c)[4], const struct fragment &x, const uint4 &b)
{
    const uint32_t a0[4] = {x.first.x, x.first.y, x.first.z, x.first.w}, b0[2] = {b.x, b.y};
    const uint32_t a1[4] = {x.second.x, x.second.y, x.second.z, x.second.w}, b1[2] = {b.z, b.w};
    E::mma(c, a0, b0);
    E::mma(c, a1, b1);
}

/* Product `head` of a job of several, to the kernels of linear_*.h. */
struct head_job {
    const struct k_layout &k;
    int32_t n, n_tokens;
    const unsigned char *w;
    const float *x;
    size_t x_stride;
    const int32_t *rows;
    bool x_aligned;
    float *out;
    size_t out_stride;
    uint16_t *packed;
    float *unscale;
};

DEVICE struct head_job head_job_of(const struct linear_job &j, unsigned head)
{
    const int64_t T = j.n_tokens,
                  padded = (T + FRAGMENT_TOKENS - 1) / FRAGMENT_TOKENS * FRAGMENT_TOKENS;
    return {j.k,
            j.n,
            j.n_tokens,
            (const unsigned char *)j.w + head * j.head_bytes,
            j.x + head * j.head_x,
            j.x_stride,
            j.rows,
            j.x_aligned,
            j.out + head * j.head_out,
            j.out_stride,
            j.packed + head * padded * j.k.at[j.k.n_slices],
            j.unscale + head * T * j.k.seg[j.k.n_slices]};
}

/* A segment: n_cols columns from col on, stored from element `at` on in n_chunks chunks. */
struct segment {
    int32_t at, n_chunks, col, n_cols;
};

/* n_chunks 0 beyond the last. */
DEVICE struct segment segment_at(const struct k_layout &k, int32_t i)
{
    struct segment s = {0, 0, 0, 0};
    if (i >= k.seg[k.n_slices])
        return s;
    int32_t slice = 0;
    while (i >= k.seg[slice + 1])
        slice++;
    int32_t off = (i - k.seg[slice]) * K_SEGMENT;
    int32_t cols = k.col[slice + 1] - k.col[slice] - off;
    s.at = k.at[slice] + off;
    s.col = k.col[slice] + off;
    s.n_cols = cols < K_SEGMENT ? cols : K_SEGMENT;
    s.n_chunks = (s.n_cols + K_CHUNK - 1) / K_CHUNK;
    return s;
}

/* Elements of a row from segment i's first one to the next segment's, or to the row's end. */
DEVICE int32_t stored_elements(const struct k_layout &k, int32_t i)
{
    const bool last = i + 1 >= k.seg[k.n_slices];
    return (last ? k.at[k.n_slices] : segment_at(k, i + 1).at) - segment_at(k, i).at;
}

/* Rows of gate|up for the hidden columns f0, f0 + 1, ...: 8 of gate, the 8 of up beside them, the
 * next 8 of gate, ...: a lane's sums of an mma are c[0], c[1] of gate and c[2], c[3] of up at the
 * same places.  Beyond the last it is the last one again. */
struct gate_up_rows {
    int32_t f0, ffn;
};

DEVICE int32_t w_row(const struct gate_up_rows &rows, int r)
{
    const int32_t f = rows.f0 + r / 16 * 8 + r % 8, last = rows.ffn - 1;
    return (f < last ? f : last) + (r / 8 % 2) * rows.ffn;
}

/* Eight columns of x at a multiple of 16 bytes. */
DEVICE void load_x8(float (&v)[8], const float *p)
{
    const float4 a = ld_f32x4(p), b = ld_f32x4(p + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

/* Eight columns of x anywhere, of which n exist; the others are zero. */
DEVICE void load_x8_part(float (&v)[8], const float *p, int32_t n)
{
    for (int i = 0; i < 8; i++)
        v[i] = i < n ? p[i] : 0.0f;
}

template <class E> DEVICE uint4 pack_x8(const float (&v)[8], float scale)
{
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = E::scaled ? v[i] * scale : v[i];
    return uint4{E::pair(s[0], s[1]), E::pair(s[2], s[3]), E::pair(s[4], s[5]),
                 E::pair(s[6], s[7])};
}

/* The sum of 2^j values that come in order, as the pairwise tree of struct weight_src: returns
 * value i's own subtree, so after the last one the whole sum.  stack: what waits for a neighbour.
 */
DEVICE float tree_push(float (&stack)[STACK_LEVELS], int i, float v)
{
    bool waits = false; /* no early return: the stack stays in registers */
    UNROLL
    for (int level = 0; level < STACK_LEVELS; level++) {
        const bool here = !waits && !(i >> level & 1);
        v = waits || here ? v : stack[level] + v;
        stack[level] = here ? v : stack[level];
        waits = waits || here;
    }
    return v;
}

/* Greatest finite magnitude of v and m. */
DEVICE float max_finite(const float (&v)[8], float m)
{
    for (int i = 0; i < 8; i++) {
        float a = fabsf(v[i]);
        m = a < INFINITY && a > m ? a : m;
    }
    return m;
}

/* The power of two that brings magnitude m >= 0 to [2^14, 2^15), as far as it is finite itself. */
DEVICE float f16_scale(float m)
{
    uint32_t e = bits_of_f32(m) >> 23; /* 2^(e - 127) <= m */
    return f32_of_bits((e > 15 ? 268 - e : 253) << 23);
}

/* 1 / s of f16_scale, exact. */
DEVICE float inverse_pow2(float s)
{
    return f32_of_bits((254U << 23) - bits_of_f32(s));
}

#endif
