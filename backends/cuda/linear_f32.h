/* f32 weights, for linear_f32.cu and moe_f32.cu: no tensor cores, plain chains of fmaf.  For small
 * models and comparisons.  J is struct linear_job or what has its k, w, n, x, x_stride, rows and
 * n_tokens. */
#ifndef BACKENDS_CUDA_LINEAR_F32_H
#define BACKENDS_CUDA_LINEAR_F32_H

#include "backends/cuda/linear_mma.h"

enum {
    THREADS = 256,
    TILE = 32,                       /* rows of w, tokens and columns */
    OUTPUTS = TILE * TILE / THREADS, /* of a thread: one row of w, OUTPUTS tokens */
};

/* One tile of columns [col, col + n) of rows first, first + 1, ... of src, transposed; zeros
 * beyond.  rows: row i of the tile's matrix is row rows[i] of src; NULL: row i. */
DEVICE void load_tile(float (&dst)[TILE][TILE + 1], const float *src, size_t stride,
                      const int32_t *rows, int32_t first, int32_t n_rows, int32_t n)
{
    const int c = (int)threadIdx.x % TILE;
    for (int r = (int)threadIdx.x / TILE; r < TILE; r += THREADS / TILE) {
        const int32_t row = first + r;
        dst[c][r] = row < n_rows && c < n
                        ? src[(size_t)(rows ? rows[row] : row) * stride + (size_t)c]
                        : 0.0f;
    }
}

/* acc[i] = fmaf chain over the columns of one segment, for tokens i THREADS / TILE + threadIdx.x /
 * TILE. */
template <class J>
DEVICE void segment_chain(float (&acc)[OUTPUTS], const J &a, const struct segment &s, int32_t row0,
                          int32_t token0)
{
    SHARED(float, w, [TILE][TILE + 1]);
    SHARED(float, x, [TILE][TILE + 1]);
    const int r = (int)threadIdx.x % TILE, t = (int)threadIdx.x / TILE;
    for (int32_t c = 0; c < s.n_cols; c += TILE) {
        const int32_t n = s.n_cols - c < TILE ? s.n_cols - c : TILE;
        SYNC_THREADS(); /* the tiles before have been read */
        load_tile(w, (const float *)a.w + s.at + c, (size_t)a.k.at[a.k.n_slices], nullptr, row0,
                  a.n, n);
        load_tile(x, a.x + s.col + c, a.x_stride, a.rows, token0, a.n_tokens, n);
        SYNC_THREADS(); /* the tiles are written */
        for (int32_t i = 0; i < n; i++)
            for (int o = 0; o < OUTPUTS; o++)
                acc[o] = fmaf(x[i][t + o * (THREADS / TILE)], w[i][r], acc[o]);
    }
}

/* sum, which is zeros, += slice `slice`. */
template <class J>
DEVICE void slice_chain(float (&sum)[OUTPUTS], const J &a, int slice, int32_t row0, int32_t token0)
{
    for (int32_t seg = a.k.seg[slice]; seg < a.k.seg[slice + 1]; seg++) {
        float acc[OUTPUTS] = {};
        segment_chain(acc, a, segment_at(a.k, seg), row0, token0);
        UNROLL
        for (int o = 0; o < OUTPUTS; o++)
            sum[o] += acc[o];
    }
}

#endif
