/* The rounding of matrices' inputs (struct input_rule), to the bits of backends/cpu/ops_inputs.c: a comparison,
 * a division and a product a value.  Groups: [rows, groups of columns], a threadgroup for a row that is one
 * group, else a simdgroup for each. */

/* Columns of a group, from <= to. */
struct input_span {
    int from, to;
};

/* Those of group g among this rank's n; empty where there are none. */
static inline struct input_span input_span_of(int group, int first_column, int g, int n)
{
    int64_t first = (int64_t)g * group - first_column, end = first + group;
    struct input_span s;
    s.from = group == 0 || first < 0 ? 0 : first > n ? n : (int)first;
    s.to = group == 0 || end > n ? n : end < 0 ? 0 : (int)end;
    return s;
}

/* x as a number of the grid, times scale. */
static inline float on_grid(int grid, float x, float scale)
{
    const float magic = 0x1.8p23f; /* ties to even: the sum has no bits below 1 */
    if (scale == 0.0f) /* zeros, or so near to them that the scale is */
        return x != x ? x : 0.0f;
    float y = x / scale;
    if (grid == METAL_GRID_E4M3)
        return f32_of_e4m3(e4m3_of_f32(y)) * scale;
    y = y < -128.0f ? -128.0f : y > 127.0f ? 127.0f : y;
    return ((y + magic) - magic) * scale;
}

static inline float scale_of_peak(int grid, float peak)
{
    return peak / (grid == METAL_GRID_INT8 ? 127.5f : 448.0f);
}

/* No NaN is one. */
static inline float greater_magnitude(float peak, float x)
{
    float a = x < 0.0f ? -x : x;
    return a > peak ? a : peak;
}

/* x [n] by a simdgroup: all of them written before and after. */
static inline void round_by_simd(constant struct metal_rule &r, threadgroup float *x, int n, uint lane)
{
    for (int g = r.group > 0 ? r.first / r.group : 0, to = 0; to < n; g++) {
        struct input_span s = input_span_of(r.group, r.first, g, n);
        float peak = 0.0f;
        for (int i = s.from + (int)lane; i < s.to; i += 32)
            peak = greater_magnitude(peak, x[i]);
        float scale = r.scale > 0.0f ? r.scale : scale_of_peak(r.grid, warp_max(peak));
        for (int i = s.from + (int)lane; i < s.to; i += 32)
            x[i] = on_grid(r.grid, x[i], scale);
        to = s.to;
    }
    SIMD_BARRIER(); /* elements are of other lanes */
}

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
    int step = whole ? 32 * METAL_INPUT_SIMDS : 32;
    float peak = 0.0f;
    for (int i = s.from + (int)(whole ? index : lane); i < s.to; i += step)
        peak = greater_magnitude(peak, x[i]);
    return whole ? block_max(peak, part, lane, simd, METAL_INPUT_SIMDS) : warp_max(peak);
}

/* peaks [rows, groups] */
KERNEL input_peaks(constant struct metal_inputs_args &a BUF(0), const device float *x BUF(1),
                   device float *peaks BUF(2), GRID)
{
    SHARED(float, part, [32]);
    int g = input_group(a, group, simd);
    struct input_span s = input_span_of(a.rule.group, a.rule.first, g, a.n);
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
    struct input_span s = input_span_of(a.rule.group, a.rule.first, g, a.n);
    const device float *from = x + (int64_t)group.x * a.x_stride;
    device float *to = out + (int64_t)group.x * a.out_stride;
    float scale = a.rule.scale;
    if (g >= a.end_group)
        s.from = s.to = 0;
    if (!(scale > 0.0f)) { /* the same for all threads */
        float peak = a.has_peaks == 0 ? input_peak(a, from, s, part, index, lane, simd)
                     : g < a.end_group ? peaks[(int64_t)group.x * a.peaks_stride + g]
                                       : 0.0f;
        scale = scale_of_peak(a.rule.grid, peak);
    }
    bool whole = a.rule.group == 0;
    for (int i = s.from + (int)(whole ? index : lane); i < s.to;
         i += whole ? 32 * METAL_INPUT_SIMDS : 32)
        to[i] = on_grid(a.rule.grid, from[i], scale);
}
