/* Ops over rows that some families have between the usual parts: gates, biases, norms of heads,
 * residual streams, gates cut by their row's statistics.  All are bound by memory, or by the launch:
 * the comments give a row's bytes, read + written.  Rows are on group.x.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_GATES_H
#define BACKENDS_GPU_GATES_H

#include "backends/gpu/args.h"

/* grid (T, n / GATES_THREADS); 8 n + 4 n, 4 n of the gates where they are not one */
GPU_KERNEL(GATES_THREADS, sigmoid_mul, sigmoid_mul_args, const GLOBAL float *gates BUF(1),
           GLOBAL float *x BUF(2))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * GATES_THREADS + index);
    if (c >= a.n)
        return;
    x += (int64_t)group.x * a.x_stride + c;
    *x = gate(*x, gates[(int64_t)group.x * a.gate_stride + (a.wide != 0 ? c : 0)]);
}

/* grid (T, n / GATES_THREADS); 4 n (+ 4 n of b, from L2) + 4 n */
GPU_KERNEL(GATES_THREADS, add_bias, add_bias_args, const GLOBAL float *b BUF(1),
           GLOBAL float *x BUF(2))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * GATES_THREADS + index);
    if (c < a.n)
        x[(int64_t)group.x * a.x_stride + c] += b[c];
}

/* ---- heads: a warp each ---- */

/* Of n elements: lane j has j, j + 32, ... in one chain, then warp_sum. */
DEVICE float warp_squares(const GLOBAL float *x, int32_t n, uint32_t lane)
{
    float sum = 0.0f;
    for (int32_t i = (int32_t)lane; i < n; i += 32)
        sum = fmaf(x[i], x[i], sum);
    return warp_sum(sum);
}

/* grid (T, heads / GATES_HEADS); 4 n d + 4 n */
GPU_KERNEL(GATES_THREADS, head_squares, heads_args, const GLOBAL float *x BUF(1),
           GLOBAL float *out BUF(2))
{
    INDICES;
    pdl_wait();
    const int32_t h = (int32_t)(group.y * GATES_HEADS + warp);
    if (h >= a.n)
        return; /* the whole warp */
    const float sum = warp_squares(x + (int64_t)group.x * a.x_stride + (int64_t)h * a.d, a.d, lane);
    if (lane == 0)
        out[(int64_t)group.x * a.other_stride + h] = sum;
}

/* grid (T, heads / GATES_HEADS); 8 n d + 4 n d, and the group's squares for each head, from L1 */
GPU_KERNEL(GATES_THREADS, wide_norm, heads_args, const GLOBAL float *squares BUF(1),
           const GLOBAL float *w BUF(2), GLOBAL float *x BUF(3))
{
    INDICES;
    pdl_wait();
    const int32_t h = (int32_t)(group.y * GATES_HEADS + warp);
    if (h >= a.n)
        return;
    squares += (int64_t)group.x * a.other_stride + (a.first + h) / a.group * a.group;
    x += (int64_t)group.x * a.x_stride + (int64_t)h * a.d;
    float sum = 0.0f;
    for (int32_t i = 0; i < a.group; i++)
        sum += squares[i];
    const float factor = 1.0f / sqrtf(sum / ((float)a.group * (float)a.d) + a.eps);
    for (int32_t i = (int32_t)lane; i < a.d; i += 32)
        x[i] = x[i] * factor * w[h * a.d + i];
}

/* grid (T, heads / GATES_HEADS); 8 n d + 4 n d */
GPU_KERNEL(GATES_THREADS, gated_norm, heads_args, const GLOBAL float *w BUF(1),
           const GLOBAL float *gates BUF(2), GLOBAL float *x BUF(3))
{
    INDICES;
    pdl_wait();
    const int32_t h = (int32_t)(group.y * GATES_HEADS + warp);
    if (h >= a.n)
        return;
    gates += (int64_t)group.x * a.other_stride + (int64_t)h * a.d;
    x += (int64_t)group.x * a.x_stride + (int64_t)h * a.d;
    const float factor = 1.0f / sqrtf(warp_squares(x, a.d, lane) / (float)a.d + a.eps);
    for (int32_t i = (int32_t)lane; i < a.d; i += 32)
        x[i] = x[i] * factor * w[i] * exact_silu(gates[i]);
}

/* ---- residual streams ---- */

/* grid (T, D / GATES_THREADS); 4 n D + 4 n D */
GPU_KERNEL(GATES_THREADS, predict_streams, streams_args, const GLOBAL float *coef BUF(1),
           GLOBAL float *x BUF(2))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * GATES_THREADS + index), n = a.n, d = a.d;
    float in[STREAMS_MAX];
    if (c >= d)
        return;
    x += (int64_t)group.x * a.x_stride + c;
    coef += (int64_t)group.x * a.coef_stride;
    UNROLL
    for (int32_t p = 0; p < STREAMS_MAX; p++)
        in[p] = p < n ? x[(int64_t)p * d] : 0.0f;
    UNROLL
    for (int32_t j = 0; j < STREAMS_MAX; j++) {
        float acc = 0.0f;
        if (j >= n)
            break;
        UNROLL
        for (int32_t p = 0; p < STREAMS_MAX; p++)
            acc = p < n ? fmaf(coef[j * n + p], in[p], acc) : acc;
        x[(int64_t)j * d] = acc + in[j];
    }
}

/* grid (T, D / GATES_THREADS); 4 (n + 1) D + 4 (n + 1) D */
GPU_KERNEL(GATES_THREADS, correct_streams, streams_args, const GLOBAL float *coef BUF(1),
           const GLOBAL float *w BUF(2), GLOBAL float *x BUF(3), GLOBAL float *active BUF(4))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * GATES_THREADS + index);
    if (c >= a.d)
        return;
    x += (int64_t)group.x * a.x_stride + c;
    active += (int64_t)group.x * a.active_stride + c;
    const int32_t n = a.n, d = a.d;
    coef += (int64_t)group.x * a.coef_stride;
    const float more = *active - x[(int64_t)a.i * a.d];
    float own = 0.0f;
    for (int32_t j = 0; j < n; j++) {
        const float v = fmaf(more, coef[j] + 1.0f, x[(int64_t)j * d]);
        x[(int64_t)j * d] = v;
        own = j == a.i ? v : own;
    }
    *active = a.has_weight != 0 ? own * w[c] : own;
}

/* Of a row's squares: thread j has elements j, j + GATES_THREADS, ... in one chain, then block_sum. */
DEVICE float mean_square(const GLOBAL float *x, int32_t d, SHARED_MEM float *part, uint32_t index)
{
    float sum = 0.0f;
    for (int32_t i = (int32_t)index; i < d; i += GATES_THREADS)
        sum = fmaf(x[i], x[i], sum);
    return block_sum(sum, part, index % 32, index / 32, GATES_THREADS / 32) / (float)d;
}

/* grid T; 12 D + 4 D */
GPU_KERNEL(GATES_THREADS, match_rms, match_args, const GLOBAL float *like BUF(1),
           GLOBAL float *x BUF(2))
{
    SHARED(float, part, [32]);
    INDICES;
    pdl_wait();
    x += (int64_t)group.x * a.x_stride;
    float own = mean_square(x, a.d, part, index);
    const float other = mean_square(like + (int64_t)group.x * a.like_stride, a.d, part, index);
    own = own < 1e-5f ? 1e-5f : own;
    const float factor = sqrtf(other) / sqrtf(own);
    for (int32_t i = (int32_t)index; i < a.d; i += GATES_THREADS)
        x[i] = factor * x[i];
}

/* grid T / GATES_THREADS; 4 + 4 */
GPU_KERNEL(GATES_THREADS, known_ids, known_args, const GLOBAL int32_t *ids BUF(1),
           GLOBAL int32_t *out BUF(2))
{
    INDICES;
    pdl_wait();
    const int64_t t = (int64_t)group.x * GATES_THREADS + index;
    if (t >= a.n_tokens)
        return;
    const int32_t id = ids[t * a.id_stride];
    out[t * a.out_stride] = id >= 0 && id < a.n ? id : 0;
}

/* ---- gates that are cut ---- */

/* grid (T, slices); 8 n, the second time from L1, + 12.  Sums as in mean_square. */
GPU_KERNEL(GATES_THREADS, slice_stats, stats_args, const GLOBAL float *x BUF(1),
           GLOBAL float *out BUF(2))
{
    SHARED(float, part, [32]);
    INDICES;
    pdl_wait();
    const int s = (int)group.y;
    const int32_t first = s > 0 ? a.slice_end[s - 1] : 0, n = a.slice_end[s] - first;
    float sum = 0.0f, squares = 0.0f;
    x += (int64_t)group.x * a.x_stride + first;
    for (int32_t i = (int32_t)index; i < n; i += GATES_THREADS)
        sum += x[i];
    sum = block_sum(sum, part, lane, warp, GATES_THREADS / 32);
    const float mean = n > 0 ? sum / (float)n : 0.0f;
    for (int32_t i = (int32_t)index; i < n; i += GATES_THREADS)
        squares = fmaf(x[i] - mean, x[i] - mean, squares);
    squares = block_sum(squares, part, lane, warp, GATES_THREADS / 32);
    if (index == 0) {
        out += (int64_t)group.x * a.out_stride + 3 * s;
        out[0] = (float)n;
        out[1] = mean;
        out[2] = squares;
    }
}

/* grid (T, n / GATES_THREADS); 4 n + 4 n, and 12 a slice for each element, from L1 */
GPU_KERNEL(GATES_THREADS, cut_gates, cut_args, const GLOBAL float *stats BUF(1),
           GLOBAL float *x BUF(2))
{
    INDICES;
    pdl_wait();
    const int32_t c = (int32_t)(group.y * GATES_THREADS + index);
    stats += (int64_t)group.x * a.stats_stride;
    float n = 0.0f, sum = 0.0f, squares = 0.0f;
    if (c >= a.n)
        return;
    for (int32_t s = 0; s < a.n_slices; s++) {
        n += stats[3 * s];
        sum = fmaf(stats[3 * s], stats[3 * s + 1], sum);
    }
    const float mean = sum / n;
    for (int32_t s = 0; s < a.n_slices; s++) {
        const float d = stats[3 * s + 1] - mean;
        squares = (squares + stats[3 * s + 2]) + stats[3 * s] * (d * d);
    }
    x += (int64_t)group.x * a.x_stride + c;
    const float above = *x - (mean + a.factor * sqrtf(squares / n));
    *x = above < 0.0f ? 0.0f : above;
}

#endif
