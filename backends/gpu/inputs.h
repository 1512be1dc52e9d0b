/* The rounding of matrices' inputs (struct input_rule), to the bits of backends/cpu/ops_inputs.c: a comparison, a
 * division and a product a value.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_INPUTS_H
#define BACKENDS_GPU_INPUTS_H

#include "backends/gpu/args.h"
#include "backends/gpu/reduce.h"

/* x as a number of the grid, times scale. */
DEVICE float on_grid(enum input_grid grid, float x, float scale)
{
    const float magic = 0x1.8p23f; /* ties to even: the sum has no bits below 1 */
    if (scale == 0.0f)             /* zeros, or so near to them that the scale is */
        return x != x ? x : 0.0f;
    float y = x / scale;
    if (grid == GRID_E4M3)
        return f32_of_e4m3(e4m3_of_f32(y)) * scale;
    y = y < -128.0f ? -128.0f : y > 127.0f ? 127.0f : y;
    return ((y + magic) - magic) * scale;
}

/* The scale of a group with that peak. */
DEVICE float scale_of_peak(enum input_grid grid, float peak)
{
    return peak / (grid == GRID_INT8 ? 127.5f : 448.0f);
}

/* Columns of a rank, from <= to. */
struct input_span {
    int32_t from, to;
};

/* Those of group g among a rank's n; empty where there are none. */
DEVICE struct input_span group_span(CONSTANT struct rounding &r, int32_t g, int32_t n)
{
    const int64_t first = (int64_t)g * r.group - r.first, end = first + r.group;
    struct input_span s = {0, n};
    if (r.group == 0)
        return s;
    s.from = first < 0 ? 0 : first > n ? n : (int32_t)first;
    s.to = end > n ? n : end < 0 ? 0 : (int32_t)end;
    return s;
}

/* The greatest magnitude that this thread sees: elements at, at + step, ... below to; no NaN is one.  P: a pointer
 * to floats. */
template <typename P> DEVICE float peak_from(P x, int32_t at, int32_t to, int32_t step)
{
    float peak = 0.0f;
    for (int32_t i = at; i < to; i += step) {
        const float a = fabsf(x[i]);
        peak = a > peak ? a : peak;
    }
    return peak;
}

/* x [n] in shared memory, by a warp: all of them written before and after. */
DEVICE void round_by_warp(CONSTANT struct rounding &r, SHARED_MEM float *x, int32_t n,
                          uint32_t lane)
{
    sync_warp(); /* elements are of other lanes */
    for (int32_t g = r.group > 0 ? r.first / r.group : 0;; g++) {
        const struct input_span s = group_span(r, g, n);
        if (s.from >= s.to)
            break;
        float scale = r.scale;
        if (!(scale > 0.0f))
            scale = scale_of_peak((enum input_grid)r.grid,
                                  warp_max(peak_from(x, s.from + (int32_t)lane, s.to, 32)));
        for (int32_t i = s.from + (int32_t)lane; i < s.to; i += 32)
            x[i] = on_grid((enum input_grid)r.grid, x[i], scale);
        if (s.to == n)
            break;
    }
    sync_warp(); /* as above */
}

#endif
