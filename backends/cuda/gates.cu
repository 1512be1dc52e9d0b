/* Launches of the kernels of backends/gpu/gates.h. */
#include "backends/cuda/gpu.h"
#include "backends/gpu/gates.h"

static dim3 columns(int32_t rows, int32_t cols)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(cols, GATES_THREADS));
}

static dim3 heads(int32_t rows, int32_t n)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(n, GATES_HEADS));
}

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

#define LAUNCH_GATES(kernel, grid, ...)                                                            \
    LAUNCH_DEPENDENT(be, kernel, grid, GATES_THREADS, 0, __VA_ARGS__)

extern "C" enum status cuda_sigmoid_mul(struct backend *be, struct view x, struct view gate)
{
    assert(gate.rows == x.rows && (gate.cols == 1 || gate.cols == x.cols));
    if (nothing(x))
        return ST_OK;
    const struct sigmoid_mul_args a = {x.cols, x.stride, gate.stride, gate.cols == x.cols};
    return LAUNCH_GATES(sigmoid_mul_kernel, columns(x.rows, x.cols), a, view_f32(gate),
                        view_f32(x));
}

extern "C" enum status cuda_add_bias(struct backend *be, struct view x, const struct weight *b)
{
    assert(b->k == x.cols);
    if (nothing(x))
        return ST_OK;
    const struct add_bias_args a = {x.cols, x.stride};
    return LAUNCH_GATES(add_bias_kernel, columns(x.rows, x.cols), a, vector_of(b), view_f32(x));
}

extern "C" enum status cuda_head_squares(struct backend *be, struct view x, struct view out)
{
    assert(out.rows == x.rows && (out.cols == 0 || x.cols % out.cols == 0));
    if (nothing(out))
        return ST_OK;
    const struct heads_args a = {out.cols, x.cols / out.cols, x.stride, out.stride, 0, 0, 0.0f};
    return LAUNCH_GATES(head_squares_kernel, heads(x.rows, a.n), a, view_f32(x), view_f32(out));
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
    const struct heads_args a = {x.cols / d, d, x.stride, squares.stride, group, first, eps};
    return LAUNCH_GATES(wide_norm_kernel, heads(x.rows, a.n), a, view_f32(squares), vector_of(w),
                        view_f32(x));
}

extern "C" enum status cuda_gated_norm(struct backend *be, struct view x, const struct weight *w,
                                       float eps, struct view gate)
{
    assert(x.cols % w->k == 0 && gate.rows == x.rows && gate.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    const struct heads_args a = {x.cols / w->k, w->k, x.stride, gate.stride, 0, 0, eps};
    return LAUNCH_GATES(gated_norm_kernel, heads(x.rows, a.n), a, vector_of(w), view_f32(gate),
                        view_f32(x));
}

extern "C" enum status cuda_predict_streams(struct backend *be, struct view x, struct view coef)
{
    int32_t n = 1;
    while (n < STREAMS_MAX && n * n < coef.cols)
        n++;
    assert(n * n == coef.cols && coef.rows == x.rows && x.cols % n == 0);
    if (nothing(x))
        return ST_OK;
    const struct streams_args a = {n, x.cols / n, 0, x.stride, coef.stride, 0, 0};
    return LAUNCH_GATES(predict_streams_kernel, columns(x.rows, a.d), a, view_f32(coef),
                        view_f32(x));
}

extern "C" enum status cuda_correct_streams(struct backend *be, struct view x, struct view coef,
                                            int32_t i, const struct weight *w, struct view active)
{
    assert(coef.rows == x.rows && active.rows == x.rows && coef.cols * active.cols == x.cols);
    assert(i >= 0 && i < coef.cols && coef.cols <= STREAMS_MAX && (!w || w->k == active.cols));
    if (nothing(active))
        return ST_OK;
    const struct streams_args a = {coef.cols,   active.cols,   i,           x.stride,
                                   coef.stride, active.stride, w != nullptr};
    return LAUNCH_GATES(correct_streams_kernel, columns(x.rows, a.d), a, view_f32(coef),
                        vector_of(w), view_f32(x), view_f32(active));
}

extern "C" enum status cuda_match_rms(struct backend *be, struct view x, struct view like)
{
    assert(like.rows == x.rows && like.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    const struct match_args a = {x.cols, x.stride, like.stride};
    return LAUNCH_GATES(match_rms_kernel, (unsigned)x.rows, a, view_f32(like), view_f32(x));
}

extern "C" enum status cuda_known_ids(struct backend *be, struct view ids, int32_t n,
                                      struct view out)
{
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == 1);
    if (nothing(out))
        return ST_OK;
    const struct known_args a = {ids.rows, n, ids.stride, out.stride};
    return LAUNCH_GATES(known_ids_kernel, (unsigned)blocks_for(ids.rows, GATES_THREADS), a,
                        view_i32(ids), view_i32(out));
}

extern "C" enum status cuda_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                                        const int32_t *slice_end, struct view out)
{
    assert(out.rows == x.rows && n_slices > 0 && n_slices <= N_SLICES && out.cols == 3 * n_slices &&
           slice_end[n_slices - 1] == x.cols);
    struct stats_args a = {x.stride, out.stride, {}};
    for (int32_t s = 0; s < n_slices; s++)
        a.slice_end[s] = slice_end[s];
    if (out.rows == 0)
        return ST_OK;
    return LAUNCH_GATES(slice_stats_kernel, dim3((unsigned)x.rows, (unsigned)n_slices), a,
                        view_f32(x), view_f32(out));
}

extern "C" enum status cuda_cut_gates(struct backend *be, struct view x, struct view stats,
                                      float factor)
{
    assert(stats.rows == x.rows && stats.cols > 0 && stats.cols % 3 == 0);
    if (nothing(x))
        return ST_OK;
    const struct cut_args a = {x.cols, stats.cols / 3, x.stride, stats.stride, factor};
    return LAUNCH_GATES(cut_gates_kernel, columns(x.rows, x.cols), a, view_f32(stats), view_f32(x));
}
