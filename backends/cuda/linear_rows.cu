/* Few tokens: the rows of w stream from memory into registers once; bandwidth is all that counts.
 */
#include "backends/cuda/linear_mma.h"

enum {
    WARPS = 8,
    SEG_STEPS = K_SEGMENT / K_STEP,
    CHUNKS = K_STEP / K_CHUNK, /* of a step */
    FRAG = 16 * 8,             /* outputs of an mma */
};

/* One step of 16 MT rows of w, as a lane holds it: row 8 r + g in v[..][r]. */
template <int MT> struct w_step {
    uint4 v[CHUNKS][2 * MT];
};

template <int MT>
DEVICE void load_w(struct w_step<MT> &w, const struct linear_job &a, int32_t row0,
                   const struct segment &s, int step)
{
    if (step >= s.n_steps)
        return;
    const int g = lane_id() >> 2, t = lane_id() & 3;
    const size_t row_elems = (size_t)a.k.at[a.k.n_slices];
    const uint16_t *p = (const uint16_t *)a.w + s.at + step * K_STEP + t * 8;
    UNROLL
    for (int r = 0; r < 2 * MT; r++) {
        const int32_t row = row0 + r * 8 + g, last = a.n - 1;
        const uint16_t *q = p + (size_t)(row < last ? row : last) * row_elems;
        UNROLL
        for (int c = 0; c < CHUNKS; c++)
            w.v[c][r] = ld_stream_128(q + c * K_CHUNK);
    }
}

/* The token of lane group g in tile j of 8.  Beyond the last token it is the last one again; nobody
 * looks at what becomes of it. */
DEVICE int32_t token_of(const struct linear_job &a, int j, int g)
{
    const int32_t token = j * 8 + g;
    return token < a.n_tokens ? token : a.n_tokens - 1;
}

/* The lane's columns of a step of x, of token lane / 4: all loads before the first use. */
DEVICE void load_x32(float (&v)[CHUNKS][8], const struct linear_job &a, const struct segment &s,
                     int step)
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
DEVICE float segment_scale(const struct linear_job &a, const struct segment &s)
{
    float m = 0.0f, v[CHUNKS][8];
    for (int step = 0; step < s.n_steps; step++) {
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
template <class E, int MT>
DEVICE void step_x32(float (&acc)[MT][1][4], const struct w_step<MT> &w, const struct linear_job &a,
                     const struct segment &s, int step, float scale)
{
    float v[CHUNKS][8];
    load_x32(v, a, s, step);
    UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        const uint4 b = pack_x8<E>(v[c], scale);
        UNROLL
        for (int m = 0; m < MT; m++)
            mma_chunk<E>(acc[m][0], w.v[c][2 * m], w.v[c][2 * m + 1], b);
    }
}

/* acc += one step, from packed. */
template <class E, int MT, int NT>
DEVICE void step_packed(float (&acc)[MT][NT][4], const struct w_step<MT> &w,
                        const struct linear_job &a, const struct segment &s, int step)
{
    const size_t row_elems = (size_t)a.k.at[a.k.n_slices];
    const uint16_t *p = a.packed + s.at + step * K_STEP + (lane_id() & 3) * 8;
    UNROLL
    for (int c = 0; c < CHUNKS; c++) {
        UNROLL
        for (int j = 0; j < NT; j++) {
            const int32_t token = token_of(a, j, lane_id() >> 2);
            const uint4 b = ld_128(p + (size_t)token * row_elems + c * K_CHUNK);
            UNROLL
            for (int m = 0; m < MT; m++)
                mma_chunk<E>(acc[m][j], w.v[c][2 * m], w.v[c][2 * m + 1], b);
        }
    }
}

/* acc [16 MT, 8 NT] to its warp's place in shared memory, [MT * NT][lane][4], f16 unscaled. */
template <class E, int MT, int NT, bool X32>
DEVICE void store_sums(float *part, const float (&acc)[MT][NT][4], const struct linear_job &a,
                       int32_t seg, float scale)
{
    const int t = lane_id() & 3;
    UNROLL
    for (int j = 0; j < NT; j++) {
        float f[2] = {1.0f, 1.0f}; /* of tokens 2t and 2t + 1 */
        UNROLL
        for (int i = 0; E::scaled && i < 2; i++)
            f[i] =
                X32 ? inverse_pow2(shfl(scale, (2 * t + i) * 4))
                    : a.unscale[(size_t)token_of(a, j, 2 * t + i) * (size_t)a.k.seg[a.k.n_slices] +
                                (size_t)seg];
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
    float sum[N], stack[N][STACK_LEVELS], total[N];
};

template <int N> DEVICE void end_slice(struct running_sums<N> &r)
{
    UNROLL
    for (int i = 0; i < N; i++) {
        r.total[i] = tree_push(r.stack[i], r.slice, r.sum[i]);
        r.sum[i] = 0.0f;
    }
    r.slice++;
}

/* Adds the segments seg, seg + 1, ... that the warps left in part [WARPS][n_out]. */
template <int N>
DEVICE void add_segments(struct running_sums<N> &r, const float *part, int n_out,
                         const struct k_layout &k, int32_t seg)
{
    for (int w = 0; w < WARPS && seg + w < k.seg[k.n_slices]; w++) {
        while (seg + w >= k.seg[r.slice + 1])
            end_slice(r);
        UNROLL
        for (int i = 0; i < N; i++) {
            const int e = (int)threadIdx.x + i * WARPS * 32;
            if (e < n_out)
                r.sum[i] += part[w * n_out + e];
        }
    }
}

template <int MT, int NT, int N>
DEVICE void write_out(struct running_sums<N> &r, const struct linear_job &a, int32_t row0)
{
    while (r.slice < a.k.n_slices)
        end_slice(r);
    UNROLL
    for (int i = 0; i < N; i++) {
        const int e = (int)threadIdx.x + i * WARPS * 32, tile = e / FRAG, lane = e / 4 % 32;
        const int32_t row = row0 + tile / NT * 16 + (lane >> 2) + (e & 2) * 4;
        const int32_t token = tile % NT * 8 + (lane & 3) * 2 + (e & 1);
        if (e < MT * NT * FRAG && row < a.n && token < a.n_tokens)
            a.out[(size_t)token * a.out_stride + (size_t)row] =
                a.bias ? r.total[i] + a.bias[row] : r.total[i];
    }
}

/* As registers allow; enough loads are under way with either. */
static constexpr int blocks_per_sm(int nt)
{
    return nt > 2 ? 1 : 2;
}

/* Grid: what runs at once at most; a block takes every gridDim.x-th group of 16 MT rows
 * of w and all tokens (8 NT at most), its warp i the segments i, i + WARPS, ...  While a segment is
 * used, the next one is on its way, also over the border of two groups.  Each round of WARPS
 * segments ends with one barrier, then all threads add the sums in order.
 * Shared memory: [2][WARPS][16 MT * 8 NT] f32.  Bytes: 2 N K (w) once from memory; x [T, K] for
 * each group of rows from L1 or L2.  Bound by memory bandwidth. */
template <class E, int MT, int NT, bool X32>
KERNEL(WARPS * 32, blocks_per_sm(NT))
rows_kernel(struct linear_job a)
{
    DYN_SMEM(float, smem);
    constexpr int n_out = MT * NT * FRAG;
    constexpr int depth = MT == 1 || NT > 2 ? SEG_STEPS : SEG_STEPS / 2; /* steps under way */
    constexpr int per_thread = (n_out + WARPS * 32 - 1) / (WARPS * 32);
    const int warp = warp_id(), n_groups = (a.n + 16 * MT - 1) / (16 * MT);
    const int rounds = (a.k.seg[a.k.n_slices] + WARPS - 1) / WARPS;
    struct w_step<MT> w[depth];
    struct segment s = segment_at(a.k, warp);
    float *part = smem;
    UNROLL
    for (int step = 0; step < depth; step++)
        load_w(w[step], a, (int32_t)blockIdx.x * 16 * MT, s, step);
    pdl_wait(); /* w is never written in a step, x is */
    for (int group = (int)blockIdx.x; group < n_groups; group += (int)gridDim.x) {
        running_sums<per_thread> sums = {};
        for (int round = 0; round < rounds; round++) {
            const bool last = round == rounds - 1;
            const int next_group = last ? group + (int)gridDim.x : group;
            struct segment next = segment_at(a.k, last ? warp : (round + 1) * WARPS + warp);
            if (next_group >= n_groups)
                next.n_steps = 0;
            const float scale = E::scaled && X32 ? segment_scale(a, s) : 1.0f;
            float acc[MT][NT][4] = {};
            UNROLL
            for (int step = 0; step < SEG_STEPS; step++) {
                if (step < s.n_steps) {
                    if constexpr (X32)
                        step_x32<E, MT>(acc, w[step % depth], a, s, step, scale);
                    else
                        step_packed<E, MT, NT>(acc, w[step % depth], a, s, step);
                }
                if (step + depth < SEG_STEPS)
                    load_w(w[step % depth], a, group * 16 * MT, s, step + depth);
                else
                    load_w(w[step % depth], a, next_group * 16 * MT, next,
                           step + depth - SEG_STEPS);
            }
            if (s.n_steps > 0)
                store_sums<E, MT, NT, X32>(part + warp * n_out, acc, a, round * WARPS + warp,
                                           scale);
            SYNC_THREADS(); /* the round's sums are written, and the last but one's are read */
            add_segments(sums, part, n_out, a.k, round * WARPS);
            part = part == smem ? smem + WARPS * n_out : smem;
            s = next;
        }
        write_out<MT, NT>(sums, a, group * 16 * MT);
    }
}

#define ROWS_LAUNCH(E, MT, NT, X32)                                                                \
    LAUNCH_DEPENDENT(be, (rows_kernel<E, MT, NT, X32>), rows_grid(be, job, MT, NT), WARPS * 32,    \
                     2 * WARPS * MT * NT * FRAG * sizeof(float), *job)

static unsigned rows_grid(const struct backend *be, const struct linear_job *job, int mt, int nt)
{
    int groups = (job->n + 16 * mt - 1) / (16 * mt);
    int at_once = be->n_sm * blocks_per_sm(nt);
    return (unsigned)(groups < at_once ? groups : at_once);
}

enum status linear_rows_x32(struct backend *be, const struct linear_job *job)
{
    if (job->dtype == DT_BF16)
        return ROWS_LAUNCH(elem_bf16, 1, 1, true);
    return ROWS_LAUNCH(elem_f16, 1, 1, true);
}

enum status linear_rows(struct backend *be, const struct linear_job *job)
{
    bool bf16 = job->dtype == DT_BF16;
    if (job->n_tokens <= ROWS_MAX / 2)
        return bf16 ? ROWS_LAUNCH(elem_bf16, 2, 2, false) : ROWS_LAUNCH(elem_f16, 2, 2, false);
    return bf16 ? ROWS_LAUNCH(elem_bf16, 2, 4, false) : ROWS_LAUNCH(elem_f16, 2, 4, false);
}
