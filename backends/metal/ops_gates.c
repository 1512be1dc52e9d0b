/* Enqueueing of the kernels of backends/gpu/gates.h. */
#include "backends/metal/metal_backend.h"

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

static struct mtl_size columns(int32_t rows, int32_t cols)
{
    return (struct mtl_size){(unsigned long)rows, groups_for(cols, GATES_THREADS), 1};
}

static struct mtl_size heads(int32_t rows, int32_t n)
{
    return (struct mtl_size){(unsigned long)rows, groups_for(n, GATES_HEADS), 1};
}

#define DISPATCH_GATES(kernel, args, bound, groups)                                                \
    METAL_DISPATCH(be, kernel, args, bound, groups, GATES_THREADS, 0)

enum status metal_sigmoid_mul(struct backend *be, struct view x, struct view gate)
{
    assert(x.rows == gate.rows && (gate.cols == 1 || gate.cols == x.cols));
    if (nothing(x))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(gate), bound_f32(x)};
    const struct sigmoid_mul_args args = {
        .n = x.cols, .x_stride = x.stride, .gate_stride = gate.stride, .wide = gate.cols == x.cols};
    return DISPATCH_GATES(KERNEL_sigmoid_mul, args, bound, columns(x.rows, x.cols));
}

enum status metal_add_bias(struct backend *be, struct view x, const struct weight *b)
{
    assert(b->k == x.cols);
    if (nothing(x))
        return ST_OK;
    struct metal_bound to = bound_f32(x);
    const struct metal_bound bound[] = {bound_vector(b, to), to};
    const struct add_bias_args args = {.n = x.cols, .x_stride = x.stride};
    return DISPATCH_GATES(KERNEL_add_bias, args, bound, columns(x.rows, x.cols));
}

enum status metal_head_squares(struct backend *be, struct view x, struct view out)
{
    assert(out.rows == x.rows && (out.cols == 0 || x.cols % out.cols == 0));
    if (nothing(out))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x), bound_f32(out)};
    const struct heads_args args = {
        .n = out.cols, .d = x.cols / out.cols, .x_stride = x.stride, .other_stride = out.stride};
    return DISPATCH_GATES(KERNEL_head_squares, args, bound, heads(x.rows, args.n));
}

enum status metal_wide_norm(struct backend *be, struct view x, struct view squares, int32_t d,
                            int32_t group, int32_t first, const struct weight *w, float eps)
{
    assert(squares.rows == x.rows && w->k == x.cols && x.cols % d == 0);
    assert(group > 0 && squares.cols % group == 0 && first >= 0 &&
           first + x.cols / d <= squares.cols);
    if (nothing(x))
        return ST_OK;
    struct metal_bound to = bound_f32(x);
    const struct metal_bound bound[] = {bound_f32(squares), bound_vector(w, to), to};
    const struct heads_args args = {.n = x.cols / d,
                                    .d = d,
                                    .x_stride = x.stride,
                                    .other_stride = squares.stride,
                                    .group = group,
                                    .first = first,
                                    .eps = eps};
    return DISPATCH_GATES(KERNEL_wide_norm, args, bound, heads(x.rows, args.n));
}

enum status metal_gated_norm(struct backend *be, struct view x, const struct weight *w, float eps,
                             struct view gate)
{
    assert(x.cols % w->k == 0 && gate.rows == x.rows && gate.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    struct metal_bound to = bound_f32(x);
    const struct metal_bound bound[] = {bound_vector(w, to), bound_f32(gate), to};
    const struct heads_args args = {.n = x.cols / w->k,
                                    .d = w->k,
                                    .x_stride = x.stride,
                                    .other_stride = gate.stride,
                                    .eps = eps};
    return DISPATCH_GATES(KERNEL_gated_norm, args, bound, heads(x.rows, args.n));
}

enum status metal_predict_streams(struct backend *be, struct view x, struct view coef)
{
    int32_t n = 1;
    while (n < STREAMS_MAX && n * n < coef.cols)
        n++;
    assert(n * n == coef.cols && coef.rows == x.rows && x.cols % n == 0);
    if (nothing(x))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(coef), bound_f32(x)};
    const struct streams_args args = {
        .n = n, .d = x.cols / n, .x_stride = x.stride, .coef_stride = coef.stride};
    return DISPATCH_GATES(KERNEL_predict_streams, args, bound, columns(x.rows, args.d));
}

enum status metal_correct_streams(struct backend *be, struct view x, struct view coef, int32_t i,
                                  const struct weight *w, struct view active)
{
    assert(coef.rows == x.rows && active.rows == x.rows && coef.cols * active.cols == x.cols);
    assert(i >= 0 && i < coef.cols && coef.cols <= STREAMS_MAX && (!w || w->k == active.cols));
    if (nothing(active))
        return ST_OK;
    struct metal_bound to = bound_f32(x);
    const struct metal_bound bound[] = {bound_f32(coef), bound_vector(w, to), to,
                                        bound_f32(active)};
    const struct streams_args args = {.n = coef.cols,
                                      .d = active.cols,
                                      .i = i,
                                      .x_stride = x.stride,
                                      .coef_stride = coef.stride,
                                      .active_stride = active.stride,
                                      .has_weight = w != NULL};
    return DISPATCH_GATES(KERNEL_correct_streams, args, bound, columns(x.rows, args.d));
}

enum status metal_match_rms(struct backend *be, struct view x, struct view like)
{
    assert(like.rows == x.rows && like.cols == x.cols);
    if (nothing(x))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(like), bound_f32(x)};
    const struct match_args args = {.d = x.cols, .x_stride = x.stride, .like_stride = like.stride};
    return DISPATCH_GATES(KERNEL_match_rms, args, bound,
                          ((struct mtl_size){(unsigned long)x.rows, 1, 1}));
}

enum status metal_known_ids(struct backend *be, struct view ids, int32_t n, struct view out)
{
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == 1);
    if (nothing(out))
        return ST_OK;
    const struct metal_bound bound[] = {bound_i32(ids), bound_i32(out)};
    const struct known_args args = {
        .n_tokens = ids.rows, .n = n, .id_stride = ids.stride, .out_stride = out.stride};
    return DISPATCH_GATES(KERNEL_known_ids, args, bound,
                          ((struct mtl_size){groups_for(ids.rows, GATES_THREADS), 1, 1}));
}

enum status metal_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                              const int32_t *slice_end, struct view out)
{
    assert(out.rows == x.rows && n_slices > 0 && n_slices <= N_SLICES && out.cols == 3 * n_slices &&
           slice_end[n_slices - 1] == x.cols);
    if (out.rows == 0)
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x), bound_f32(out)};
    struct stats_args args = {.x_stride = x.stride, .out_stride = out.stride};
    for (int32_t s = 0; s < n_slices; s++)
        args.slice_end[s] = slice_end[s];
    return DISPATCH_GATES(KERNEL_slice_stats, args, bound,
                          ((struct mtl_size){(unsigned long)x.rows, (unsigned long)n_slices, 1}));
}

enum status metal_cut_gates(struct backend *be, struct view x, struct view stats, float factor)
{
    assert(stats.rows == x.rows && stats.cols > 0 && stats.cols % 3 == 0);
    if (nothing(x))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(stats), bound_f32(x)};
    const struct cut_args args = {.n = x.cols,
                                  .n_slices = stats.cols / 3,
                                  .x_stride = x.stride,
                                  .stats_stride = stats.stride,
                                  .factor = factor};
    return DISPATCH_GATES(KERNEL_cut_gates, args, bound, columns(x.rows, x.cols));
}
