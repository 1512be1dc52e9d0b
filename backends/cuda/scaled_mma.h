/* What the kernels of scaled_rows.cu and scaled_tiles.cu share: codes widened to f16 in registers, and
 * which columns meet in one mma.
 *
 * A step is SCALED_STEP bytes of a row, 16 for each of the four lanes t = 0..3 of a fragment row: E4M3 64
 * columns, of which lane t owns 16t .. 16t + 15, SMALL 128, lane t 32t .. 32t + 31.  An mma takes the next four
 * columns of each lane, c .. c + 3: c and c + 2 are its first pair, c + 1 and c + 3 the second, so that
 * bytes widen in place.  x is packed in this order.  LEVELS: 128 columns, of which lane t owns 16t .. 16t + 15 of
 * each half, so that a half's mma have no other columns.
 *
 * E4M3: exponent and mantissa put in place are the element / 2^8, subnormal ones too.  SMALL: the level is
 * so level / 2^14, the scale 2^7 scale, and their product is exact: 6 significant bits, a multiple of
 * 2^-17.  LEVELS: looked up, rounded to f16. */
#ifndef BACKENDS_CUDA_SCALED_MMA_H
#define BACKENDS_CUDA_SCALED_MMA_H

#include "backends/cuda/linear_mma.h"
#include "backends/cuda/moe_tile.h"
#include "backends/cuda/scaled_kernels.h"

template <int KIND> struct mma_shape {
    static const int halves = KIND == SCALED_E4M3 ? 1 : 2;   /* of a step, QUADS mma each */
    static const int step = 64 * halves, segment = 2 * step; /* columns */
    static const int x_bytes = 2 * step;                     /* of a step of packed */
    static const int unscale_bits = KIND == SCALED_E4M3 ? 8 : KIND == SCALED_SMALL ? 7 : 0;
    static const bool scales = KIND != SCALED_E4M3; /* of steps, in front of the codes; */
    static const int scales_at = KIND == SCALED_SMALL ? 3 * SCALED_PANEL * (int)sizeof(float) : 0;
};

enum {
    WARPS = 8,
    QUADS = 4,
    SEGMENT_STEPS = SCALED_SEGMENT / SCALED_STEP,
    STEP_BYTES = SCALED_PANEL * SCALED_STEP, /* of a panel's codes, */
    SCALE_BYTES = SCALED_PANEL *
                  (2 * SCALED_STEP / SCALED_SMALL_BLOCK), /* of its scales: LEVELS has as many */
};
static_assert(SCALE_BYTES == SCALED_PANEL * 2 * sizeof(float), "of the halves of LEVELS");

/* A segment: n_steps steps from `step` of a row on; scale: which row of the panel's f32 scales is its. */
struct scaled_segment {
    int32_t step, n_steps, scale;
};

/* n_steps 0 beyond the last. */
template <int KIND>
DEVICE struct scaled_segment scaled_segment_at(const struct scaled_job &a, int32_t i)
{
    constexpr int step = mma_shape<KIND>::step;
    if (i >= a.k.seg[a.k.n_slices])
        return {0, 0, 0};
    int32_t slice = 0;
    while (i >= a.k.seg[slice + 1])
        slice++;
    const int32_t nth = i - a.k.seg[slice], at = a.k.at[slice] / step + nth * SEGMENT_STEPS;
    const int32_t left = a.k.at[slice + 1] / step - at;
    const int32_t block = (a.m.at.skip + a.k.col[slice]) / FP8_BLOCK + nth;
    return {at, left < SEGMENT_STEPS ? left : SEGMENT_STEPS, KIND == SCALED_E4M3 ? block : 2};
}

template <int KIND>
DEVICE float segment_scale(const unsigned char *panel, const struct scaled_segment &s, int row)
{
    if (KIND == SCALED_LEVELS)
        return 1.0f;
    return ((const float *)panel)[s.scale * SCALED_PANEL + row];
}

/* Two pairs of f16 of four codes, which are bytes: columns 0 and 2, columns 1 and 3. */
DEVICE void widen_e4m3(uint32_t (&pair)[2], uint32_t codes)
{
    pair[0] = (codes << 8 & 0x80008000U) | (codes << 7 & 0x3f803f80U);
    pair[1] = (codes & 0x80008000U) | (codes >> 1 & 0x3f803f80U);
}

/* The same of the low halves of the bytes (high false), or of the high ones. */
DEVICE void widen_small(uint32_t (&pair)[2], uint32_t codes, bool high, uint32_t scale)
{
    const uint32_t c = high ? codes >> 4 : codes;
    pair[0] = mul_f16x2((c << 12 & 0x80008000U) | (c << 9 & 0x0e000e00U), scale);
    pair[1] = mul_f16x2((c << 4 & 0x80008000U) | (c << 1 & 0x0e000e00U), scale);
}

/* 2^7 times an e4m3 scale, twice in a register. */
DEVICE uint32_t widen_scale(uint32_t e4m3)
{
    const uint32_t half = (e4m3 & 0x80U) << 8 | (e4m3 & 0x7fU) << 7;
    return mul_f16x2(half | half << 16, 0x78007800U); /* 2^15 */
}

/* The same of the four codes in the low 16 bits: their levels. */
DEVICE void widen_levels(uint32_t (&pair)[2], uint32_t codes, const uint32_t (&bytes)[8])
{
    const uint32_t index = codes & 0x7777U, pick = 0x3210U | (codes >> 1 & 0x4444U);
    const uint32_t low =
        byte_perm(byte_perm(bytes[0], bytes[1], index), byte_perm(bytes[2], bytes[3], index), pick);
    const uint32_t high =
        byte_perm(byte_perm(bytes[4], bytes[5], index), byte_perm(bytes[6], bytes[7], index), pick);
    pair[0] = byte_perm(low, high, 0x6240U);
    pair[1] = byte_perm(low, high, 0x7351U);
}

DEVICE uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* A lane's codes of a step of one row, and of SMALL the e4m3 scales of its two blocks, of LEVELS those of the halves. */
struct step_codes {
    uint4 codes;
    uint2 scales;
};

/* Of LEVELS: of a half. */
DEVICE float half_scale(const struct step_codes &c, int half)
{
    return f32_of_bits(half ? c.scales.y : c.scales.x);
}

/* scales: of the row in the step. */
template <int KIND> DEVICE uint2 load_scales_of(const unsigned char *scales, int t)
{
    if (KIND == SCALED_LEVELS)
        return *(const uint2 *)scales;
    return {*(const uint16_t *)(scales + t * 2), 0};
}

/* Where in a step of packed lane t's 16 columns of a half begin. */
template <int KIND> DEVICE int lane_column(int t, int half)
{
    return KIND == SCALED_LEVELS ? half * SCALED_HALF + t * 16
                                 : (t * mma_shape<KIND>::halves + half) * 16;
}

/* The fragments of half `half` of a step of 16 rows: lo of row g of the lane, hi of row g + 8. */
template <int KIND>
DEVICE void widen_half(uint32_t (&w)[QUADS][4], const struct scaled_matrix &m,
                       const struct step_codes &lo, const struct step_codes &hi, int half)
{
    uint32_t lo_scale = 0, hi_scale = 0;
    if (KIND == SCALED_SMALL) {
        lo_scale = widen_scale(lo.scales.x >> 8 * half & 255U);
        hi_scale = widen_scale(hi.scales.x >> 8 * half & 255U);
    }
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        uint32_t l[2], h[2];
        if (KIND == SCALED_E4M3) {
            widen_e4m3(l, word_of(lo.codes, q));
            widen_e4m3(h, word_of(hi.codes, q));
        } else if (KIND == SCALED_LEVELS) {
            widen_levels(l, word_of(lo.codes, q) >> 16 * half, m.level_bytes);
            widen_levels(h, word_of(hi.codes, q) >> 16 * half, m.level_bytes);
        } else {
            widen_small(l, word_of(lo.codes, q), half == 1, lo_scale);
            widen_small(h, word_of(hi.codes, q), half == 1, hi_scale);
        }
        w[q][0] = l[0], w[q][1] = h[0], w[q][2] = l[1], w[q][3] = h[1];
    }
}

/* c [16, 8] += half a step of 16 rows and 8 tokens: x of the lane's token and columns. */
DEVICE void mma_half(float (&c)[4], const uint32_t (&w)[QUADS][4], const uint4 (&x)[2])
{
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        const uint4 &v = x[q / 2];
        const uint32_t b[2] = {q % 2 ? v.z : v.x, q % 2 ? v.w : v.y};
        mma_m16n8k16_f16(c, w[q], b);
    }
}

/* The same of a segment's sum; lo, hi: of LEVELS the half's scales of the rows of w. */
template <int KIND>
DEVICE void add_half(float (&c)[4], const uint32_t (&w)[QUADS][4], float lo, float hi,
                     const uint4 (&x)[2])
{
    if (KIND != SCALED_LEVELS) {
        mma_half(c, w, x);
        return;
    }
    const float scale[2] = {lo, hi};
    float q[4] = {};
    mma_half(q, w, x);
    UNROLL
    for (int i = 0; i < 4; i++)
        c[i] = fmaf(q[i], scale[i / 2], c[i]);
}

/* A product's rows of w and x: of all, or of a tile of an expert. */
struct scaled_item {
    const unsigned char *w; /* of the matrix */
    struct expert_tile tile;
};

/* tiles_t: tiles of tile_rows tokens where there are no experts; those of the same rows of w follow each
 * other. */
template <bool EXPERTS>
DEVICE struct scaled_item scaled_item_at(const struct scaled_experts &e, int n_col_groups,
                                         int tiles_t, int tile_rows, int item)
{
    if (EXPERTS) {
        const struct expert_tile tile = expert_tile_at(e.groups, n_col_groups, item);
        return {e.job.m.w + (size_t)tile.expert * e.expert_bytes, tile};
    }
    const int32_t token0 = item % tiles_t * tile_rows, left = e.job.n_tokens - token0;
    return {e.job.m.w, {0, token0, left < tile_rows ? left : tile_rows, item / tiles_t}};
}

/* Column `row` of a slice's product of the tile's token. */
DEVICE void put_slice(const struct scaled_experts &e, int slice, const struct expert_tile &tile,
                      int32_t row, int32_t token, float v)
{
    const size_t at = (size_t)slice * (size_t)e.job.n_tokens + (size_t)(tile.row0 + token);
    if (row >= e.job.m.n || token >= tile.n_rows)
        return;
    if (e.up && row >= e.ffn)
        e.up[at * (size_t)e.ffn + (size_t)(row - e.ffn)] = v;
    else
        e.job.out[at * e.job.out_stride + (size_t)row] = v;
}

#endif
