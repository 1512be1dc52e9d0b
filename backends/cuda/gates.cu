/* Ops over rows that some families have between the usual parts: gates, biases, norms of heads,
 * residual streams, gates cut by their row's statistics.  All are bound by memory, or by the launch:
 * the comments give a row's bytes, read + written.  Rows are on grid.x. */
#include "backends/cuda/gpu.h"

enum { THREADS = 256, WARPS = THREADS / 32 };

static dim3 columns(int32_t rows, int32_t cols)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(cols, THREADS));
}

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

DEVICE int32_t column()
{
    return (int32_t)(blockIdx.y * THREADS + threadIdx.x);
}

DEVICE int64_t at_row(int32_t stride)
{
    return (int64_t)blockIdx.x * stride;
}

/* grid (T, n / THREADS); 8 n + 4 n, 4 n of the gates where they are not one */
KERNEL(THREADS)
sigmoid_mul_kernel(float *x, int32_t x_stride, const float *z, int32_t z_stride, bool one,
                   int32_t n)
{
    pdl_wait();
    const int32_t c = column();
    if (c < n)
        x[at_row(x_stride) + c] =
            gate(x[at_row(x_stride) + c], z[at_row(z_stride) + (one ? 0 : c)]);
}

extern "C" enum status cuda_sigmoid_mul(struct backend *be, struct view x, struct view gate)
{
    assert(gate.rows == x.rows && (gate.cols == 1 || gate.cols == x.cols));
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, sigmoid_mul_kernel, columns(x.rows, x.cols), THREADS, 0,
                            view_f32(x), x.stride, view_f32(gate), gate.stride, gate.cols == 1,
                            x.cols);
}

/* grid (T, n / THREADS); 4 n (+ 4 n of b, from L2) + 4 n */
KERNEL(THREADS) add_bias_kernel(float *x, int32_t x_stride, const float *b, int32_t n)
{
    pdl_wait();
    const int32_t c = column();
    if (c < n)
        x[at_row(x_stride) + c] += b[c];
}

extern "C" enum status cuda_add_bias(struct backend *be, struct view x, const struct weight *b)
{
    assert(b->k == x.cols);
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, add_bias_kernel, columns(x.rows, x.cols), THREADS, 0, view_f32(x),
                            x.stride, vector_of(b), x.cols);
}

/* ---- heads: a warp each ---- */

/* Of n elements: lane j has j, j + 32, ... in one chain, then warp_sum. */
DEVICE float warp_squares(const float *x, int32_t n)
{
    float sum = 0.0f;
    for (int32_t i = lane_id(); i < n; i += 32)
        sum = fmaf(x[i], x[i], sum);
    return warp_sum(sum);
}

static dim3 head_warps(int32_t rows, int32_t heads)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(heads, WARPS));
}

DEVICE int32_t head_of_warp()
{
    return (int32_t)blockIdx.y * WARPS + warp_id();
}

/* grid (T, heads / WARPS); 4 n d + 4 n */
KERNEL(THREADS)
head_squares_kernel(const float *x, int32_t x_stride, float *out, int32_t out_stride, int32_t n,
                    int32_t d)
{
    pdl_wait();
    const int32_t h = head_of_warp();
    if (h >= n)
        return;
    const float sum = warp_squares(x + at_row(x_stride) + (int64_t)h * d, d);
    if (lane_id() == 0)
        out[at_row(out_stride) + h] = sum;
}

extern "C" enum status cuda_head_squares(struct backend *be, struct view x, struct view out)
{
    assert(out.rows == x.rows && (out.cols == 0 || x.cols % out.cols == 0));
    if (nothing(out))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, head_squares_kernel, head_warps(x.rows, out.cols), THREADS, 0,
                            view_f32(x), x.stride, view_f32(out), out.stride, out.cols,
                            x.cols / out.cols);
}

struct wide_norm_args {
    float *x;
    const float *squares, *w;
    int32_t x_stride, squares_stride, n, d, group, first;
    float eps;
};

/* grid (T, heads / WARPS); 8 n d + 4 n d, and the group's squares for each head, from L1 */
KERNEL(THREADS) wide_norm_kernel(struct wide_norm_args a)
{
    pdl_wait();
    const int32_t h = head_of_warp();
    if (h >= a.n)
        return;
    const float *squares = a.squares + at_row(a.squares_stride) + (a.first + h) / a.group * a.group;
    float sum = 0.0f, *x = a.x + at_row(a.x_stride) + (int64_t)h * a.d;
    for (int32_t i = 0; i < a.group; i++)
        sum += squares[i];
    const float factor = 1.0f / sqrtf(sum / ((float)a.group * (float)a.d) + a.eps);
    for (int32_t i = lane_id(); i < a.d; i += 32)
        x[i] = x[i] * factor * a.w[h * a.d + i];
}

extern "C" enum status cuda_wide_norm(struct backend *be, struct view x, struct view squares,
                                      int32_t d, int32_t group, int32_t first,
                                      const struct weight *w, float eps)
{
    assert(squares.rows == x.rows && w->k == x.cols && x.cols % d == 0);
    assert(group > 0 && squares.cols % group == 0 && first >= 0 &&
           first + x.cols / d <= squares.cols);
    if (nothing(x))
        return ST_OK;
    const struct wide_norm_args a = {view_f32(x),
                                     view_f32(squares),
                                     vector_of(w),
                                     x.stride,
                                     squares.stride,
                                     x.cols / d,
                                     d,
                                     group,
                                     first,
                                     eps};
    return LAUNCH_DEPENDENT(be, wide_norm_kernel, head_warps(x.rows, a.n), THREADS, 0, a);
}

/* grid (T, heads / WARPS); 8 n + 4 n */
KERNEL(THREADS)
gated_norm_kernel(float *x, int32_t x_stride, const float *w, float eps, const float *z,
                  int32_t z_stride, int32_t n, int32_t d)
{
    pdl_wait();
    const int32_t h = head_of_warp();
    if (h >= n)
        return;
    x += at_row(x_stride) + (int64_t)h * d;
    z += at_row(z_stride) + (int64_t)h * d;
    const float factor = 1.0f / sqrtf(warp_squares(x, d) / (float)d + eps);
    for (int32_t i = lane_id(); i < d; i += 32)
        x[i] = x[i] * factor * w[i] * exact_silu(z[i]);
}

extern "C" enum status cuda_gated_norm(struct backend *be, struct view x, const struct weight *w,
                                       float eps, struct view gate)
{
    assert(x.cols % w->k == 0 && gate.rows == x.rows && gate.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, gated_norm_kernel, head_warps(x.rows, x.cols / w->k), THREADS, 0,
                            view_f32(x), x.stride, vector_of(w), eps, view_f32(gate), gate.stride,
                            x.cols / w->k, w->k);
}

/* ---- residual streams ---- */

/* grid (T, D / THREADS); 4 n D + 4 n D */
KERNEL(THREADS)
predict_streams_kernel(float *x, int32_t x_stride, const float *coef, int32_t coef_stride,
                       int32_t n, int32_t d)
{
    pdl_wait();
    const int32_t c = column();
    float in[STREAMS_MAX];
    if (c >= d)
        return;
    x += at_row(x_stride) + c;
    coef += at_row(coef_stride);
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

extern "C" enum status cuda_predict_streams(struct backend *be, struct view x, struct view coef)
{
    int32_t n = 1;
    while (n < STREAMS_MAX && n * n < coef.cols)
        n++;
    assert(n * n == coef.cols && coef.rows == x.rows && x.cols % n == 0);
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, predict_streams_kernel, columns(x.rows, x.cols / n), THREADS, 0,
                            view_f32(x), x.stride, view_f32(coef), coef.stride, n, x.cols / n);
}

struct correct_args {
    float *x, *active;
    const float *coef, *w;
    int32_t x_stride, active_stride, coef_stride, i, n, d;
};

/* grid (T, D / THREADS); 4 (n + 1) D + 4 (n + 1) D */
KERNEL(THREADS) correct_streams_kernel(struct correct_args a)
{
    pdl_wait();
    const int32_t c = column();
    if (c >= a.d)
        return;
    float *x = a.x + at_row(a.x_stride) + c, *active = a.active + at_row(a.active_stride) + c;
    const float *coef = a.coef + at_row(a.coef_stride);
    const float more = *active - x[(int64_t)a.i * a.d];
    float own = 0.0f;
    for (int32_t j = 0; j < a.n; j++) {
        const float v = fmaf(more, coef[j] + 1.0f, x[(int64_t)j * a.d]);
        x[(int64_t)j * a.d] = v;
        own = j == a.i ? v : own;
    }
    *active = a.w ? own * a.w[c] : own;
}

extern "C" enum status cuda_correct_streams(struct backend *be, struct view x, struct view coef,
                                            int32_t i, const struct weight *w, struct view active)
{
    assert(coef.rows == x.rows && active.rows == x.rows && coef.cols * active.cols == x.cols);
    assert(i >= 0 && i < coef.cols && coef.cols <= STREAMS_MAX && (!w || w->k == active.cols));
    if (nothing(active))
        return ST_OK;
    const struct correct_args a = {view_f32(x), view_f32(active), view_f32(coef), vector_of(w),
                                   x.stride,    active.stride,    coef.stride,    i,
                                   coef.cols,   active.cols};
    return LAUNCH_DEPENDENT(be, correct_streams_kernel, columns(x.rows, active.cols), THREADS, 0,
                            a);
}

/* A row's sum of f(element): thread j has j, j + THREADS, ... in one chain, then block_sum. */
template <class Fn> DEVICE float row_sum(const float *x, int32_t n, Fn fn)
{
    float sum = 0.0f;
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS)
        sum = fn(x[i], sum);
    return block_sum(sum);
}

/* grid T; 12 D + 4 D */
KERNEL(THREADS)
match_rms_kernel(float *x, int32_t x_stride, const float *like, int32_t like_stride, int32_t d)
{
    pdl_wait();
    const auto square = [](float v, float sum) { return fmaf(v, v, sum); };
    x += at_row(x_stride);
    float own = row_sum(x, d, square) / (float)d;
    const float other = row_sum(like + at_row(like_stride), d, square) / (float)d;
    own = own < 1e-5f ? 1e-5f : own;
    const float factor = sqrtf(other) / sqrtf(own);
    for (int32_t i = (int32_t)threadIdx.x; i < d; i += THREADS)
        x[i] = factor * x[i];
}

extern "C" enum status cuda_match_rms(struct backend *be, struct view x, struct view like)
{
    assert(like.rows == x.rows && like.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, match_rms_kernel, (unsigned)x.rows, THREADS, 0, view_f32(x),
                            x.stride, view_f32(like), like.stride, x.cols);
}

/* grid T / THREADS; 4 + 4 */
KERNEL(THREADS)
known_ids_kernel(const int32_t *ids, int32_t id_stride, int32_t n, int32_t *out, int32_t out_stride,
                 int32_t n_tokens)
{
    pdl_wait();
    const int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= n_tokens)
        return;
    const int32_t id = ids[t * id_stride];
    out[t * out_stride] = id >= 0 && id < n ? id : 0;
}

extern "C" enum status cuda_known_ids(struct backend *be, struct view ids, int32_t n,
                                      struct view out)
{
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == 1);
    if (nothing(out))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, known_ids_kernel, (unsigned)blocks_for(ids.rows, THREADS), THREADS,
                            0, view_i32(ids), ids.stride, n, view_i32(out), out.stride, ids.rows);
}

/* ---- gates that are cut ---- */

struct slice_ends {
    int32_t end[N_SLICES];
};

/* grid (T, slices); 8 n, the second time from L1, + 12 */
KERNEL(THREADS)
slice_stats_kernel(const float *x, int32_t x_stride, struct slice_ends slices, float *out,
                   int32_t out_stride)
{
    pdl_wait();
    const int s = (int)blockIdx.y;
    const int32_t first = s > 0 ? slices.end[s - 1] : 0, n = slices.end[s] - first;
    const float *from = x + at_row(x_stride) + first;
    const float sum = row_sum(from, n, [](float v, float so_far) { return so_far + v; });
    const float mean = n > 0 ? sum / (float)n : 0.0f;
    const float squares =
        row_sum(from, n, [=](float v, float so_far) { return fmaf(v - mean, v - mean, so_far); });
    if (threadIdx.x == 0) {
        float *to = out + at_row(out_stride) + 3 * s;
        to[0] = (float)n;
        to[1] = mean;
        to[2] = squares;
    }
}

extern "C" enum status cuda_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                                        const int32_t *slice_end, struct view out)
{
    assert(out.rows == x.rows && n_slices > 0 && n_slices <= N_SLICES && out.cols == 3 * n_slices &&
           slice_end[n_slices - 1] == x.cols);
    struct slice_ends slices = {};
    for (int32_t s = 0; s < n_slices; s++)
        slices.end[s] = slice_end[s];
    if (out.rows == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, slice_stats_kernel, dim3((unsigned)x.rows, (unsigned)n_slices),
                            THREADS, 0, view_f32(x), x.stride, slices, view_f32(out), out.stride);
}

/* grid (T, n / THREADS); 4 n + 4 n, and 12 a slice for each element, from L1 */
KERNEL(THREADS)
cut_gates_kernel(float *x, int32_t x_stride, const float *stats, int32_t stats_stride,
                 int32_t n_slices, float factor, int32_t cols)
{
    pdl_wait();
    const int32_t c = column();
    const float *st = stats + at_row(stats_stride);
    float n = 0.0f, sum = 0.0f, squares = 0.0f;
    if (c >= cols)
        return;
    for (int32_t s = 0; s < n_slices; s++) {
        n += st[3 * s];
        sum = fmaf(st[3 * s], st[3 * s + 1], sum);
    }
    const float mean = sum / n;
    for (int32_t s = 0; s < n_slices; s++) {
        const float d = st[3 * s + 1] - mean;
        squares = (squares + st[3 * s + 2]) + st[3 * s] * (d * d);
    }
    const float above = x[at_row(x_stride) + c] - (mean + factor * sqrtf(squares / n));
    x[at_row(x_stride) + c] = above < 0.0f ? 0.0f : above;
}

extern "C" enum status cuda_cut_gates(struct backend *be, struct view x, struct view stats,
                                      float factor)
{
    assert(stats.rows == x.rows && stats.cols > 0 && stats.cols % 3 == 0);
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, cut_gates_kernel, columns(x.rows, x.cols), THREADS, 0, view_f32(x),
                            x.stride, view_f32(stats), stats.stride, stats.cols / 3, factor,
                            x.cols);
}
