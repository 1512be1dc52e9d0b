/* f32 weights: no tensor cores, plain chains of fmaf.  For small models and comparisons. */
#include "backends/cuda/linear_mma.h"

enum {
    THREADS = 256,
    TILE = 32,                       /* rows of w, tokens and columns */
    OUTPUTS = TILE * TILE / THREADS, /* of a thread: one row of w, OUTPUTS tokens */
};

/* One tile of columns [col, col + n) of rows first, first + 1, ... of src, transposed; zeros
 * beyond. */
DEVICE void load_tile(float (&dst)[TILE][TILE + 1], const float *src, size_t stride, int32_t first,
                      int32_t n_rows, int32_t n)
{
    const int c = (int)threadIdx.x % TILE;
    for (int r = (int)threadIdx.x / TILE; r < TILE; r += THREADS / TILE)
        dst[c][r] =
            first + r < n_rows && c < n ? src[(size_t)(first + r) * stride + (size_t)c] : 0.0f;
}

/* acc[i] = fmaf chain over the columns of one segment, for tokens i THREADS / TILE + threadIdx.x /
 * TILE. */
DEVICE void segment_chain(float (&acc)[OUTPUTS], const struct linear_job &a,
                          const struct segment &s, int32_t row0, int32_t token0)
{
    SHARED(float, w, [TILE][TILE + 1]);
    SHARED(float, x, [TILE][TILE + 1]);
    const int r = (int)threadIdx.x % TILE, t = (int)threadIdx.x / TILE;
    for (int32_t c = 0; c < s.n_cols; c += TILE) {
        const int32_t n = s.n_cols - c < TILE ? s.n_cols - c : TILE;
        SYNC_THREADS(); /* the tiles before have been read */
        load_tile(w, (const float *)a.w + s.at + c, (size_t)a.k.at[a.k.n_slices], row0, a.n, n);
        load_tile(x, a.x + s.col + c, a.x_stride, token0, a.n_tokens, n);
        SYNC_THREADS(); /* the tiles are written */
        for (int32_t i = 0; i < n; i++)
            for (int o = 0; o < OUTPUTS; o++)
                acc[o] = fmaf(x[i][t + o * (THREADS / TILE)], w[i][r], acc[o]);
    }
}

/* Grid: [N / TILE, T / TILE], rounded up.  Bytes: N K 4 from memory; w and x once for each tile of
 * the other.  Bound by latency at small T, by shared memory at large T. */
KERNEL(THREADS) f32_kernel(struct linear_job a)
{
    pdl_wait();
    const struct k_layout &k = a.k;
    const int32_t row0 = (int32_t)blockIdx.x * TILE, token0 = (int32_t)blockIdx.y * TILE;
    float stack[OUTPUTS][STACK_LEVELS], total[OUTPUTS] = {};
    for (int i = 0; i < k.n_slices; i++) {
        float sum[OUTPUTS] = {};
        for (int32_t seg = k.seg[i]; seg < k.seg[i + 1]; seg++) {
            float acc[OUTPUTS] = {};
            segment_chain(acc, a, segment_at(k, seg), row0, token0);
            UNROLL
            for (int o = 0; o < OUTPUTS; o++)
                sum[o] += acc[o];
        }
        UNROLL
        for (int o = 0; o < OUTPUTS; o++)
            total[o] = tree_push(stack[o], i, sum[o]);
    }
    const int32_t row = row0 + (int32_t)threadIdx.x % TILE;
    UNROLL
    for (int o = 0; o < OUTPUTS; o++) {
        const int32_t token = token0 + (int32_t)threadIdx.x / TILE + o * (THREADS / TILE);
        if (row < a.n && token < a.n_tokens)
            a.out[(size_t)token * a.out_stride + (size_t)row] =
                a.bias ? total[o] + a.bias[row] : total[o];
    }
}

enum status linear_f32(struct backend *be, const struct linear_job *job)
{
    dim3 grid((unsigned)(job->n + TILE - 1) / TILE, (unsigned)(job->n_tokens + TILE - 1) / TILE);
    return LAUNCH_DEPENDENT(be, f32_kernel, grid, THREADS, 0, *job);
}
