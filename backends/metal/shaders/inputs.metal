/* The rounding of matrices' inputs (gpu/inputs.h).  Groups: [rows, groups of columns], a threadgroup for a row that
 * is one group, else a simdgroup for each. */

/* This simdgroup's group of columns; of a row that is one group the threadgroup's. */
static inline int input_group(constant struct metal_inputs_args &a, uint3 group, uint simd)
{
    return a.rule.group == 0 ? 0 : a.first_group + (int)group.y * METAL_INPUT_SIMDS + (int)simd;
}

/* The greatest magnitude of the group, to every thread of it.  By whole threadgroups. */
static inline float input_peak(constant struct metal_inputs_args &a, const device float *x,
                               struct input_span s, threadgroup float *part, uint index, uint lane,
                               uint simd)
{
    bool whole = a.rule.group == 0;
    float peak = peak_from(x, s.from + (int)(whole ? index : lane), s.to,
                           whole ? 32 * METAL_INPUT_SIMDS : 32);
    return whole ? block_max(peak, part, lane, simd, METAL_INPUT_SIMDS) : warp_max(peak);
}

/* peaks [rows, groups] */
KERNEL input_peaks(constant struct metal_inputs_args &a BUF(0), const device float *x BUF(1),
                   device float *peaks BUF(2), GRID)
{
    SHARED(float, part, [32]);
    int g = input_group(a, group, simd);
    struct input_span s = group_span(a.rule, g, a.n);
    if (g >= a.end_group)
        s.from = s.to = 0;
    float peak = input_peak(a, x + (int64_t)group.x * a.x_stride, s, part, index, lane, simd);
    if (g < a.end_group && (a.rule.group == 0 ? index : lane) == 0)
        peaks[(int64_t)group.x * a.peaks_stride + g] = peak;
}

/* out may be x: a group is read whole before it is written. */
KERNEL round_input(constant struct metal_inputs_args &a BUF(0), const device float *x BUF(1),
                   const device float *peaks BUF(2), device float *out BUF(3), GRID)
{
    SHARED(float, part, [32]);
    int g = input_group(a, group, simd);
    struct input_span s = group_span(a.rule, g, a.n);
    const device float *from = x + (int64_t)group.x * a.x_stride;
    device float *to = out + (int64_t)group.x * a.out_stride;
    enum input_grid grid = (enum input_grid)a.rule.grid;
    float scale = a.rule.scale;
    if (g >= a.end_group)
        s.from = s.to = 0;
    if (!(scale > 0.0f)) { /* the same for all threads */
        float peak = a.has_peaks == 0 ? input_peak(a, from, s, part, index, lane, simd)
                     : g < a.end_group ? peaks[(int64_t)group.x * a.peaks_stride + g]
                                       : 0.0f;
        scale = scale_of_peak(grid, peak);
    }
    bool whole = a.rule.group == 0;
    for (int i = s.from + (int)(whole ? index : lane); i < s.to;
         i += whole ? 32 * METAL_INPUT_SIMDS : 32)
        to[i] = on_grid(grid, from[i], scale);
}
