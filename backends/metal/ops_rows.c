/* Enqueueing of ops over rows: shaders/rows.metal. */
#include "backends/metal/metal_backend.h"

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

static struct mtl_size rows_alone(struct view v)
{
    return (struct mtl_size){(unsigned long)v.rows, 1, 1};
}

static struct mtl_size strips(struct view v)
{
    return (struct mtl_size){(unsigned long)v.rows, groups_for(v.cols, METAL_STRIP), 1};
}

enum status metal_add_rms_norm(struct backend *be, struct view resid, struct view x,
                               const struct weight *x_bias, const struct weight *w, float eps,
                               struct view out)
{
    assert(out.rows == resid.rows && out.cols == resid.cols && w->k == resid.cols);
    assert(!x.buf || (x.rows == resid.rows && x.cols == resid.cols));
    assert(!x_bias || x_bias->k == resid.cols);
    if (nothing(out))
        return ST_OK;
    struct metal_bound r = bound_f32(resid);
    const struct metal_bound bound[] = {r, x.buf ? bound_f32(x) : r, bound_vector(x_bias, r),
                                        bound_vector(w, r), bound_f32(out)};
    const struct metal_norm_args args = {.d = out.cols,
                                         .resid_stride = resid.stride,
                                         .x_stride = x.stride,
                                         .out_stride = out.stride,
                                         .has_x = x.buf != NULL,
                                         .has_bias = x_bias != NULL,
                                         .eps = eps};
    return METAL_DISPATCH(be, KERNEL_add_rms_norm, args, bound, rows_alone(out), METAL_NORM_THREADS,
                          0);
}

enum status metal_layer_norm(struct backend *be, struct view x, const struct weight *w,
                             const struct weight *b, float eps, struct view out)
{
    assert(out.rows == x.rows && out.cols == x.cols && w->k == x.cols && (!b || b->k == x.cols));
    if (nothing(out))
        return ST_OK;
    struct metal_bound in = bound_f32(x);
    const struct metal_bound bound[] = {in, bound_vector(w, in), bound_vector(b, in),
                                        bound_f32(out)};
    const struct metal_norm_args args = {.d = out.cols,
                                         .x_stride = x.stride,
                                         .out_stride = out.stride,
                                         .has_bias = b != NULL,
                                         .eps = eps};
    return METAL_DISPATCH(be, KERNEL_layer_norm, args, bound, rows_alone(out), METAL_NORM_THREADS,
                          0);
}

enum status metal_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out)
{
    assert(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
    if (nothing(out))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(gate_up), bound_f32(out)};
    const struct metal_rows_args args = {
        .n = out.cols, .out_stride = out.stride, .in_stride = gate_up.stride, .act = (int32_t)act};
    return METAL_DISPATCH(be, KERNEL_act_mul, args, bound, strips(out), METAL_STRIP, 0);
}

enum status metal_activate(struct backend *be, enum act act, struct view x, struct view out)
{
    assert(x.rows == out.rows && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x), bound_f32(out)};
    const struct metal_rows_args args = {
        .n = out.cols, .out_stride = out.stride, .in_stride = x.stride, .act = (int32_t)act};
    return METAL_DISPATCH(be, KERNEL_activate, args, bound, strips(out), METAL_STRIP, 0);
}

/* x = fn(x, factor) */
static enum status in_place(struct backend *be, enum metal_kernel kernel, struct view x,
                            float factor)
{
    if (nothing(x))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x)};
    const struct metal_rows_args args = {.n = x.cols, .out_stride = x.stride, .factor = factor};
    return METAL_DISPATCH(be, kernel, args, bound, strips(x), METAL_STRIP, 0);
}

enum status metal_scale(struct backend *be, struct view x, float factor)
{
    return in_place(be, KERNEL_scale, x, factor);
}

enum status metal_soft_cap(struct backend *be, struct view x, float cap)
{
    return in_place(be, KERNEL_soft_cap, x, cap);
}

enum status metal_add(struct backend *be, struct view dst, struct view src, float scale)
{
    assert(dst.rows == src.rows && dst.cols == src.cols);
    if (nothing(dst))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(src), bound_f32(dst)};
    const struct metal_rows_args args = {
        .n = dst.cols, .out_stride = dst.stride, .in_stride = src.stride, .factor = scale};
    return METAL_DISPATCH(be, KERNEL_add, args, bound, strips(dst), METAL_STRIP, 0);
}

enum status metal_gather(struct backend *be, struct view x, struct view row, struct view out)
{
    assert(row.rows == out.rows && row.cols == 1 && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x), bound_i32(row), bound_f32(out)};
    const struct metal_rows_args args = {
        .n = out.cols, .out_stride = out.stride, .in_stride = x.stride, .index_stride = row.stride};
    return METAL_DISPATCH(be, KERNEL_gather, args, bound, strips(out), METAL_STRIP, 0);
}
