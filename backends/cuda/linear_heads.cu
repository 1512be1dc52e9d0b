/* The products of a stack of matrices, one for each head, in one launch: those of linear_rows.cu and
 * linear_tiles.cu, in their order, of matrices with few columns. */
#include "backends/cuda/linear_rows.h"
#include "backends/cuda/linear_tiles.h"

/* Grid: (groups of WARPS x 16 rows of a matrix, heads); a warp has 16 rows and all tokens, and goes through the
 * segments, of which the next one's rows are on their way.
 * Bytes: 2 N K of each matrix once from memory; x [T, K] for each 16 rows from L1 or L2.  Bound by memory
 * bandwidth, or the launch where heads are few. */
template <class E> KERNEL(WARPS * 32, 2) heads_rows_kernel(struct linear_job job)
{
    const struct head_job a = head_job_of(job, blockIdx.y);
    const int g = lane_id() >> 2, t = lane_id() & 3, n_seg = a.k.seg[1];
    const plain_rows rows = {((int32_t)blockIdx.x * WARPS + warp_id()) * 16, a.n - 1};
    struct segment s = segment_at(a.k, 0);
    struct w_step<1> w[SEG_STEPS];
    UNROLL
    for (int step = 0; step < SEG_STEPS; step++)
        load_w(w[step], a, rows, s, step);
    pdl_wait(); /* w is never written in a step, x is */
    float sum[4] = {};
    NO_UNROLL
    for (int seg = 0; seg < n_seg; seg++) {
        const struct segment next = segment_at(a.k, seg + 1);
        const float scale = E::scaled ? segment_scale(a, s) : 1.0f;
        float acc[1][1][4] = {};
        UNROLL
        for (int step = 0; step < SEG_STEPS; step++) {
            if (step * CHUNKS < s.n_chunks)
                step_x32<E, 1>(acc, w[step], a, s, step, scale);
            load_w(w[step], a, rows, next, step);
        }
        UNROLL
        for (int i = 0; i < 4; i++) { /* i % 2: the token */
            const float f = E::scaled ? inverse_pow2(shfl(scale, (2 * t + i % 2) * 4)) : 1.0f;
            sum[i] += E::scaled ? acc[0][0][i] * f : acc[0][0][i];
        }
        s = next;
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int32_t row = rows.row0 + g + i / 2 * 8, token = 2 * t + i % 2;
        if (row < a.n && token < a.n_tokens)
            a.out[(size_t)token * a.out_stride + (size_t)row] = sum[i];
    }
}

enum { MT = 2, NT = 2 };
using shape = tile_shape<MT, NT>;

/* Grid: (tiles of rows, tiles of tokens, heads).  Shared memory: STAGES steps of w and x.  Bytes: w and x once for
 * each tile of the other, from L2.  Bound by latency: a matrix has few steps. */
template <class E> KERNEL(THREADS, shape::per_sm) heads_tiles_kernel(struct linear_job job)
{
    DYN_SMEM(unsigned char, smem);
    pdl_wait();
    const struct head_job a = head_job_of(job, blockIdx.z);
    const int32_t row0 = (int32_t)blockIdx.x * shape::bn, token0 = (int32_t)blockIdx.y * shape::bt;
    const plain_source from = plain_source_of(a, row0, token0);
    const int32_t end = a.k.at[1] / K_STEP;
    struct tile_cursor cursor = {0, -1};
    for (int i = 0; i < STAGES - 1; i++)
        load_stage<MT, NT>(smem, from, i, end);
    float sum[MT][NT][4], acc[MT][NT][4] = {};
    slice_sums<E, MT, NT, false>(sum, acc, smem, a, from, token0, 0, cursor, end);
    const int32_t row = row0 + warp_id() % WARPS_N * 8 * NT + (lane_id() & 3) * 2;
    const int32_t token = token0 + warp_id() / WARPS_N * 16 * MT + (lane_id() >> 2);
    UNROLL
    for (int i = 0; i < MT * NT * 4; i++) {
        const int m = i / 4 / NT, j = i / 4 % NT, c = i % 4;
        const int32_t r = row + 8 * j + c % 2, to = token + 16 * m + c / 2 * 8;
        if (r < a.n && to < a.n_tokens)
            a.out[(size_t)to * a.out_stride + (size_t)r] = sum[m][j][c];
    }
}

enum status linear_heads_rows(struct backend *be, const struct linear_job *job)
{
    const dim3 grid((unsigned)blocks_for(job->n, WARPS * 16), (unsigned)job->n_heads);
    assert(job->k.n_slices == 1 && job->n_tokens <= ROWS_MAX_X32);
    if (job->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, heads_rows_kernel<elem_bf16>, grid, WARPS * 32, 0, *job);
    return LAUNCH_DEPENDENT(be, heads_rows_kernel<elem_f16>, grid, WARPS * 32, 0, *job);
}

enum status linear_heads_tiles(struct backend *be, const struct linear_job *job)
{
    const dim3 grid((unsigned)blocks_for(job->n, shape::bn),
                    (unsigned)blocks_for(job->n_tokens, shape::bt), (unsigned)job->n_heads);
    const size_t smem = STAGES * shape::stage_bytes;
    assert(job->k.n_slices == 1);
    if (job->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, heads_tiles_kernel<elem_bf16>, grid, THREADS, smem, *job);
    return LAUNCH_DEPENDENT(be, heads_tiles_kernel<elem_f16>, grid, THREADS, smem, *job);
}
