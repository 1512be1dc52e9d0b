/* The rounding of matrices' inputs (struct input_rule): a block for each row that is one group, else a
 * warp for each group of a row.  Bound by memory, or by the launch: bytes of a row of n columns are
 * given, read + written.  Rows are on grid.x. */
#include "backends/cuda/inputs.h"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    EVEN_GROUP = 1024, /* columns of a warp where all have one scale, which no peak decides */
};

struct inputs_args {
    struct rounding rule;
    const float *x;
    float *out;         /* rounded rows, or peaks */
    const float *peaks; /* of all groups, or NULL: the row's own */
    int32_t x_stride, out_stride, peaks_stride;
    int32_t n, first_group, end_group; /* columns; groups of this launch */
};

/* This warp's group; WHOLE: the block's. */
template <bool WHOLE> DEVICE int32_t group_of(const struct inputs_args &a)
{
    return WHOLE ? 0 : a.first_group + (int32_t)blockIdx.y * WARPS + warp_id();
}

template <bool WHOLE> DEVICE int32_t place()
{
    return WHOLE ? (int32_t)threadIdx.x : lane_id();
}

/* By all threads of the group: every one gets it.  The order of a maximum changes no bit. */
template <bool WHOLE> DEVICE float peak_of(const float *x, struct input_span s)
{
    const float peak = peak_from(x, s.from + place<WHOLE>(), s.to, WHOLE ? THREADS : 32);
    return WHOLE ? block_max(peak) : warp_max(peak);
}

/* grid T, or (T, groups / WARPS); 4 n + 4 a group */
template <bool WHOLE> KERNEL(THREADS) input_peaks_kernel(struct inputs_args a)
{
    pdl_wait();
    const int32_t g = group_of<WHOLE>(a);
    if (g >= a.end_group)
        return; /* the whole warp; a block of WHOLE has a group */
    const float *x = a.x + (int64_t)blockIdx.x * a.x_stride;
    const float peak = peak_of<WHOLE>(x, group_span(a.rule, g, a.n));
    if (place<WHOLE>() == 0)
        a.out[(int64_t)blockIdx.x * a.out_stride + g] = peak;
}

/* grid T, or (T, groups / WARPS); 4 n, again out of L1 where the peak is the row's own, + 4 n; out may
 * be x: a group is read whole before it is written */
template <bool WHOLE> KERNEL(THREADS) round_input_kernel(struct inputs_args a)
{
    pdl_wait();
    const int32_t g = group_of<WHOLE>(a);
    if (g >= a.end_group)
        return; /* as above */
    const float *x = a.x + (int64_t)blockIdx.x * a.x_stride;
    float *out = a.out + (int64_t)blockIdx.x * a.out_stride, scale = a.rule.scale;
    const enum input_grid grid = (enum input_grid)a.rule.grid;
    const struct input_span s = group_span(a.rule, g, a.n);
    if (!(scale > 0.0f))
        scale = scale_of_peak(grid, a.peaks ? a.peaks[(int64_t)blockIdx.x * a.peaks_stride + g]
                                            : peak_of<WHOLE>(x, s));
    for (int32_t i = s.from + place<WHOLE>(); i < s.to; i += WHOLE ? THREADS : 32)
        out[i] = on_grid(grid, x[i], scale);
}

static dim3 grid_of(const struct inputs_args *a, int32_t rows)
{
    if (a->rule.group == 0)
        return dim3((unsigned)rows);
    return dim3((unsigned)rows, (unsigned)blocks_for(a->end_group - a->first_group, WARPS));
}

extern "C" enum status cuda_input_peaks(struct backend *be, const struct input_rule *r,
                                        struct view x, struct view out)
{
    assert(out.rows == x.rows && out.cols == input_groups(r) && r->first + x.cols <= r->all);
    struct inputs_args a = {};
    a.rule = rounding_of(r);
    a.x = view_f32(x);
    a.out = view_f32(out);
    a.x_stride = x.stride;
    a.out_stride = out.stride;
    a.n = x.cols;
    a.end_group = out.cols;
    if (out.rows == 0)
        return ST_OK;
    return a.rule.group == 0
               ? LAUNCH_DEPENDENT(be, input_peaks_kernel<true>, grid_of(&a, x.rows), THREADS, 0, a)
               : LAUNCH_DEPENDENT(be, input_peaks_kernel<false>, grid_of(&a, x.rows), THREADS, 0,
                                  a);
}

static enum status run_round(struct backend *be, struct inputs_args *a, int32_t rows)
{
    if (a->rule.scale > 0.0f) { /* which columns are neighbours decides nothing */
        a->rule.group = EVEN_GROUP;
        a->rule.first = 0;
    }
    const int32_t group = a->rule.group;
    a->first_group = group > 0 ? a->rule.first / group : 0;
    a->end_group = group > 0 ? (a->rule.first + a->n - 1) / group + 1 : 1;
    return group == 0
               ? LAUNCH_DEPENDENT(be, round_input_kernel<true>, grid_of(a, rows), THREADS, 0, *a)
               : LAUNCH_DEPENDENT(be, round_input_kernel<false>, grid_of(a, rows), THREADS, 0, *a);
}

extern "C" enum status cuda_round_input(struct backend *be, const struct input_rule *r,
                                        struct view x, struct view peaks, struct view out)
{
    assert(r->grid != GRID_NONE && out.rows == x.rows && out.cols == x.cols);
    assert(r->first + x.cols <= r->all && (!r->shared || peaks.buf));
    assert(!peaks.buf || (peaks.rows == x.rows && peaks.cols == input_groups(r)));
    struct inputs_args a = {};
    a.rule = rounding_of(r);
    a.x = view_f32(x);
    a.out = view_f32(out);
    a.peaks = peaks.buf ? view_f32(peaks) : nullptr;
    a.x_stride = x.stride;
    a.out_stride = out.stride;
    a.peaks_stride = peaks.stride;
    a.n = x.cols;
    if (x.rows == 0 || x.cols == 0)
        return ST_OK;
    return run_round(be, &a, x.rows);
}
