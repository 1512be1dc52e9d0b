/* The products of few tokens, for the kernels of linear_rows.cu and moe_rows.cu: rows of w in
 * registers, the sums of segments in shared memory.
 *
 * J is struct linear_job or what has its k, w, n_tokens, and packed and unscale or, as x is read itself, x,
 * x_stride and x_aligned; R names rows of w: its
 * w_row(rows, r) is the row that is row r of a group. */
#ifndef BACKENDS_CUDA_LINEAR_ROWS_H
#define BACKENDS_CUDA_LINEAR_ROWS_H

#include "backends/cuda/linear_mma.h"

enum {
    WARPS = 8,
    SEG_STEPS = K_SEGMENT / K_STEP,
    CHUNKS = K_STEP / K_CHUNK, /* of a step */
    FRAG = 16 * 8,             /* outputs of an mma */
};

/* A block has 16 MT rows of w and 8 NT tokens. */
template <int MT, int NT> struct rows_shape {
    static const int n_out = MT * NT * FRAG;
    static const int per_thread = (n_out + WARPS * 32 - 1) / (WARPS * 32); /* outputs */
    /* Steps of w under way, and blocks at once: as registers allow. */
    static const int depth = MT == 1 || NT > 2 ? SEG_STEPS : SEG_STEPS / 2;
    static const int per_sm = NT > 2 ? 1 : 2;
};

/* Rows row0, row0 + 1, ...; beyond the last it is the last one again. */
struct plain_rows {
    int32_t row0, last;
};

DEVICE int32_t w_row(const struct plain_rows &rows, int r)
{
    const int32_t row = rows.row0 + r;
    return row < rows.last ? row : rows.last;
}

/* One step of 16 MT rows of w, as a lane holds it: row 8 r + g in v[..][r]. */
template <int MT> struct w_step {
    uint4 v[CHUNKS][2 * MT];
};

template <int MT, class J, class R>
DEVICE void load_w(struct w_step<MT> &w, const J &a, const R &rows, const struct segment &s,
                   int step)
{
    if (step * CHUNKS >= s.n_chunks)
        return;
    const int g = lane_id() >> 2, t = lane_id() & 3;
    const size_t row_elems = (size_t)a.k.at[a.k.n_slices];
    const uint16_t *p = (const uint16_t *)a.w + s.at + step * K_STEP + t * 8;
    UNROLL
    for (int r = 0; r < 2 * MT; r++) {
        const uint16_t *q = p + (size_t)w_row(rows, r * 8 + g) * row_elems;
        UNROLL
        for (int c = 0; c < CHUNKS; c++)
            if (step * CHUNKS + c < s.n_chunks)
                w.v[c][r] = ld_stream_128(q + c * K_CHUNK);
    }
}

/* The token of lane group g in tile j of 8.  Beyond the last token it is the last one again; no kernel
 * looks at what becomes of it. */
template <class J> DEVICE int32_t token_of(const J &a, int j, int g)
{
    const int32_t token = j * 8 + g;
    return token < a.n_tokens ? token : a.n_tokens - 1;
}

/* acc += one step, from packed. */
template <class E, int MT, int NT, class J>
DEVICE void step_packed(float (&acc)[MT][NT][4], const struct w_step<MT> &w, const J &a,
                        const struct segment &s, int step)
{
    const uint32_t row_elems = (uint32_t)a.k.at[a.k.n_slices];
    const uint16_t *p = a.packed + s.at + step * K_STEP + (lane_id() & 3) * 8;
    UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        if (step * CHUNKS + c >= s.n_chunks)
            break;
        UNROLL
        for (int j = 0; j < NT; j++) {
            const int32_t token = token_of(a, j, lane_id() >> 2);
            const uint4 b = ld_128(p + (uint32_t)token * row_elems + c * K_CHUNK);
            UNROLL
            for (int m = 0; m < MT; m++)
                mma_chunk<E>(acc[m][j], w.v[c][2 * m], w.v[c][2 * m + 1], b);
        }
    }
}

/* The lane's columns of a step of x, of token lane / 4: all loads before the first use. */
template <class J>
DEVICE void load_x32(float (&v)[CHUNKS][8], const J &a, const struct segment &s, int step)
{
    const int t = lane_id() & 3, left = s.n_cols - step * K_STEP;
    const float *p =
        a.x + (size_t)token_of(a, 0, lane_id() >> 2) * a.x_stride + s.col + step * K_STEP + t * 8;
    if (a.x_aligned && left >= K_STEP) {
        UNROLL
        for (int c = 0; c < CHUNKS; c++)
            load_x8(v[c], p + c * K_CHUNK);
        return;
    }
    UNROLL
    for (int c = 0; c < CHUNKS; c++)
        load_x8_part(v[c], p + c * K_CHUNK, left - c * K_CHUNK - t * 8);
}

/* f16 from x itself: the scale of the lane's token in the segment. */
template <class J> DEVICE float segment_scale(const J &a, const struct segment &s)
{
    float m = 0.0f, v[CHUNKS][8];
    for (int step = 0; step * CHUNKS < s.n_chunks; step++) {
        load_x32(v, a, s, step);
        UNROLL
        for (int c = 0; c < CHUNKS; c++)
            m = max_finite(v[c], m);
    }
    for (int apart = 1; apart < 4; apart *= 2) {
        const float o = shfl_xor(m, apart);
        m = o > m ? o : m;
    }
    return f16_scale(m);
}

/* acc += one step, from x itself: tokens 0 .. 7. */
template <class E, int MT, class J>
DEVICE void step_x32(float (&acc)[MT][1][4], const struct w_step<MT> &w, const J &a,
                     const struct segment &s, int step, float scale)
{
    float v[CHUNKS][8];
    load_x32(v, a, s, step);
    UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        if (step * CHUNKS + c >= s.n_chunks)
            break;
        const uint4 b = pack_x8<E>(v[c], scale);
        UNROLL
        for (int m = 0; m < MT; m++)
            mma_chunk<E>(acc[m][0], w.v[c][2 * m], w.v[c][2 * m + 1], b);
    }
}

/* acc [16 MT, 8 NT] to its warp's place in shared memory, [MT * NT][lane][4], f16 unscaled. */
template <class E, int MT, int NT, bool X32, class J>
DEVICE void store_sums(float *part, const float (&acc)[MT][NT][4], const J &a, int32_t seg,
                       float scale)
{
    const int t = lane_id() & 3;
    UNROLL
    for (int j = 0; j < NT; j++) {
        float f[2] = {1.0f, 1.0f}; /* of tokens 2t and 2t + 1 */
        UNROLL
        for (int i = 0; E::scaled && i < 2; i++)
            f[i] = X32 ? inverse_pow2(shfl(scale, (2 * t + i) * 4))
                       : a.unscale[(uint32_t)token_of(a, j, 2 * t + i) *
                                       (uint32_t)a.k.seg[a.k.n_slices] +
                                   (uint32_t)seg];
        UNROLL
        for (int m = 0; m < MT; m++) {
            const float(&c)[4] = acc[m][j];
            st_f32x4(part + ((m * NT + j) * 32 + lane_id()) * 4,
                     {c[0] * f[0], c[1] * f[1], c[2] * f[0], c[3] * f[1]});
        }
    }
}

/* The outputs threadIdx.x + i WARPS 32 of [MT * NT][lane][4], which a thread adds up. */
template <int N> struct running_sums {
    int slice;
    float sum[N]; /* of the slice so far */
};

/* end(): takes the sums of a slice that is complete. */
template <int N, class F> DEVICE void end_slice(struct running_sums<N> &r, const F &end)
{
    end();
    UNROLL
    for (int i = 0; i < N; i++)
        r.sum[i] = 0.0f;
    r.slice++;
}

/* Adds the segments seg, seg + 1, ... that the warps left in part [WARPS][n_out]. */
template <int N, class F>
DEVICE void add_segments(struct running_sums<N> &r, const float *part, int n_out,
                         const struct k_layout &k, int32_t seg, const F &end)
{
    for (int w = 0; w < WARPS && seg + w < k.seg[k.n_slices]; w++) {
        while (seg + w >= k.seg[r.slice + 1])
            end_slice(r, end);
        UNROLL
        for (int i = 0; i < N; i++) {
            const int e = (int)threadIdx.x + i * WARPS * 32;
            if (e < n_out)
                r.sum[i] += part[w * n_out + e];
        }
    }
}

/* Row of the group and token of output e of [MT * NT][lane][4]. */
struct output_at {
    int32_t row, token;
};

template <int NT> DEVICE struct output_at output_of(int e)
{
    const int tile = e / FRAG, lane = e / 4 % 32;
    return {tile / NT * 16 + (lane >> 2) + (e & 2) * 4, tile % NT * 8 + (lane & 3) * 2 + (e & 1)};
}

#endif
