/* What kernels over rows share: accesses of four elements, a norm's sums.  A block has row blockIdx.x. */
#ifndef BACKENDS_CUDA_NORM_ROWS_H
#define BACKENDS_CUDA_NORM_ROWS_H

#include "backends/cuda/gpu.h"

enum { NORM_THREADS = 1024, NORM_STEP = 4 * NORM_THREADS };

/* Elements [i, i + n) of a row, n <= 4; the rest is zeros. */
DEVICE float4 load_4(const float *p, int n)
{
    if (n == 4 && ((uintptr_t)p & 15) == 0)
        return ld_f32x4(p);
    float4 v = {n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f};
    return v;
}

DEVICE void store_4(float *p, float4 v, int n)
{
    if (n == 4 && ((uintptr_t)p & 15) == 0) {
        st_f32x4(p, v);
        return;
    }
    if (n > 0)
        p[0] = v.x;
    if (n > 1)
        p[1] = v.y;
    if (n > 2)
        p[2] = v.z;
    if (n > 3)
        p[3] = v.w;
}

DEVICE int four_of(int i, int n)
{
    return n - i < 4 ? n - i : 4;
}

DEVICE float *row_of(float *p, int32_t stride)
{
    return p + (int64_t)blockIdx.x * stride;
}

DEVICE const float *row_of(const float *p, int32_t stride)
{
    return p + (int64_t)blockIdx.x * stride;
}

/* Sums of a row: thread j adds elements 4 j .. 4 j + 3, then those 4,096 further on, in one chain;
 * then block_sum. */

DEVICE float square_sum(float4 v, float minus, int n, float sum)
{
    v = {v.x - minus, v.y - minus, v.z - minus, v.w - minus};
    sum = n > 0 ? fmaf(v.x, v.x, sum) : sum;
    sum = n > 1 ? fmaf(v.y, v.y, sum) : sum;
    sum = n > 2 ? fmaf(v.z, v.z, sum) : sum;
    return n > 3 ? fmaf(v.w, v.w, sum) : sum;
}

DEVICE float4 add_4(float4 a, float4 b)
{
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/* resid += x (+ x_bias), x NULL: nothing; the block's row.  Returns the factor of its RMS norm. */
DEVICE float add_and_scale(float *r, const float *a, const float *x_bias, float eps, int32_t d)
{
    float sum = 0.0f;
    for (int i = 4 * (int)threadIdx.x; i < d; i += NORM_STEP) {
        int n = four_of(i, d);
        float4 v = load_4(r + i, n);
        if (a) {
            float4 add = load_4(a + i, n);
            v = add_4(v, x_bias ? add_4(add, load_4(x_bias + i, n)) : add);
            store_4(r + i, v, n);
        }
        sum = square_sum(v, 0.0f, n, sum);
    }
    return 1.0f / sqrtf(block_sum(sum) / (float)d + eps);
}

#endif
