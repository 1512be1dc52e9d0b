/* Enqueueing of the rounding of matrices' inputs: shaders/inputs.metal. */
#include "backends/metal/metal_backend.h"

enum {
    EVEN_GROUP = 1024
}; /* columns of a simdgroup where all have one scale, which no peak decides */

struct rounding metal_rounding_of(const struct input_rule *r)
{
    return (struct rounding){.grid = (int32_t)r->grid,
                             .scale = r->scale,
                             .group = r->scale > 0.0f ? EVEN_GROUP : r->group,
                             .first = r->scale > 0.0f ? 0 : r->first};
}

static struct mtl_size groups_of(const struct metal_inputs_args *a, int32_t rows)
{
    return (struct mtl_size){(unsigned long)rows,
                             groups_for(a->end_group - a->first_group, METAL_INPUT_SIMDS), 1};
}

enum status metal_input_peaks(struct backend *be, const struct input_rule *r, struct view x,
                              struct view out)
{
    assert(out.rows == x.rows && out.cols == input_groups(r) && r->first + x.cols <= r->all);
    if (x.rows == 0)
        return ST_OK;
    const struct metal_bound bound[] = {bound_f32(x), bound_f32(out)};
    const struct metal_inputs_args args = {
        .rule = {.grid = (int32_t)r->grid, .group = r->group, .first = r->first},
        .n = x.cols,
        .x_stride = x.stride,
        .peaks_stride = out.stride,
        .end_group = out.cols};
    return METAL_DISPATCH(be, KERNEL_input_peaks, args, bound, groups_of(&args, x.rows),
                          32 * METAL_INPUT_SIMDS, 0);
}

enum status metal_round_rows(struct backend *be, const struct input_rule *r, int32_t rows,
                             struct metal_inputs_args args, struct metal_bound x,
                             struct metal_bound peaks, struct metal_bound out)
{
    if (rows == 0 || args.n == 0)
        return ST_OK;
    args.rule = metal_rounding_of(r);
    args.first_group = args.rule.group > 0 ? args.rule.first / args.rule.group : 0;
    args.end_group = args.rule.group > 0 ? (args.rule.first + args.n - 1) / args.rule.group + 1 : 1;
    const struct metal_bound bound[] = {x, peaks, out};
    return METAL_DISPATCH(be, KERNEL_round_input, args, bound, groups_of(&args, rows),
                          32 * METAL_INPUT_SIMDS, 0);
}

enum status metal_round_input(struct backend *be, const struct input_rule *r, struct view x,
                              struct view peaks, struct view out)
{
    assert(r->grid != GRID_NONE && out.rows == x.rows && out.cols == x.cols);
    assert(r->first + x.cols <= r->all && (!r->shared || peaks.buf));
    assert(!peaks.buf || (peaks.rows == x.rows && peaks.cols == input_groups(r)));
    const struct metal_inputs_args args = {.n = x.cols,
                                           .x_stride = x.stride,
                                           .out_stride = out.stride,
                                           .peaks_stride = peaks.stride,
                                           .has_peaks = peaks.buf != NULL};
    struct metal_bound in = bound_f32(x);
    return metal_round_rows(be, r, x.rows, args, in, peaks.buf ? bound_f32(peaks) : in,
                            bound_f32(out));
}
