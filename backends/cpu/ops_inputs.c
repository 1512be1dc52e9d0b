/* The rounding of matrices' inputs (struct input_rule).  Written once for all instruction sets: a comparison, a division
 * and a product a value, which round alike everywhere. */
#include <math.h>

#include "backends/cpu/cpu_backend.h"

static float peak_of(const float *x, int32_t n)
{
    float peak = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        peak = a > peak ? a : peak;
    }
    return peak;
}

/* Ties to even, |y| at most 2^22: the sum has no bits below 1. */
static float nearest_integer(float y)
{
    return (y + 0x1.8p23f) - 0x1.8p23f;
}

static void round_int8(const float *x, float scale, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float y = x[i] / scale;
        y = y < -128.0f ? -128.0f : y > 127.0f ? 127.0f : y;
        out[i] = nearest_integer(y) * scale;
    }
}

static void round_e4m3(const float *x, float scale, float *out, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = f32_of_e4m3(e4m3_of_f32(x[i] / scale)) * scale;
}

/* n values of one group. */
static void round_group(enum input_grid grid, const float *x, float scale, float *out, int32_t n)
{
    if (scale == 0.0f) /* zeros, or so near to them that the scale is */
        for (int32_t i = 0; i < n; i++)
            out[i] = isnan(x[i]) ? x[i] : 0.0f;
    else if (grid == GRID_INT8)
        round_int8(x, scale, out, n);
    else
        round_e4m3(x, scale, out, n);
}

/* The columns of a group among this rank's n: *from to *to, empty where there are none. */
static void group_span(const struct input_rule *r, int32_t g, int32_t n, int32_t *from, int32_t *to)
{
    int64_t first = (int64_t)g * r->group - r->first, end = first + r->group;
    bool one = r->group == 0;
    *from = one || first < 0 ? 0 : first > n ? n : (int32_t)first;
    *to = one || end > n ? n : end < 0 ? 0 : (int32_t)end;
}

void round_row(const struct input_rule *r, const float *x, const float *peaks, float *out,
               int32_t n)
{
    assert(peaks || !r->shared);
    float most = r->grid == GRID_INT8 ? 127.5f : 448.0f;
    int32_t groups = input_groups(r);
    if (r->scale > 0.0f) {
        round_group(r->grid, x, r->scale, out, n);
        return;
    }
    for (int32_t g = r->group ? r->first / r->group : 0; g < groups; g++) {
        int32_t from, to;
        group_span(r, g, n, &from, &to);
        if (from >= to)
            return;
        float peak = peaks ? peaks[g] : peak_of(x + from, to - from);
        round_group(r->grid, x + from, peak / most, out + from, to - from);
    }
}

void row_peaks(const struct input_rule *r, const float *x, int32_t n, float *peaks)
{
    int32_t groups = input_groups(r);
    for (int32_t g = 0; g < groups; g++) {
        int32_t from, to;
        group_span(r, g, n, &from, &to);
        peaks[g] = from < to ? peak_of(x + from, to - from) : 0.0f;
    }
}

struct inputs_job {
    const struct input_rule *rule;
    struct view x, peaks, out;
};

static void peaks_part(void *ctx, int part, int n_parts)
{
    const struct inputs_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        row_peaks(j->rule, view_f32(j->x, t), j->x.cols, view_f32(j->out, t));
}

enum status cpu_input_peaks(struct backend *be, const struct input_rule *r, struct view x,
                            struct view out)
{
    assert(out.rows == x.rows && out.cols == input_groups(r) && r->first + x.cols <= r->all);
    struct inputs_job j = {.rule = r, .x = x, .out = out};
    rows_run(be, peaks_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void round_part(void *ctx, int part, int n_parts)
{
    const struct inputs_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        round_row(j->rule, view_f32(j->x, t), j->peaks.buf ? view_f32(j->peaks, t) : NULL,
                  view_f32(j->out, t), j->x.cols);
}

enum status cpu_round_input(struct backend *be, const struct input_rule *r, struct view x,
                            struct view peaks, struct view out)
{
    assert(r->grid != GRID_NONE && out.rows == x.rows && out.cols == x.cols);
    assert(r->first + x.cols <= r->all && (!r->shared || peaks.buf));
    assert(!peaks.buf || (peaks.rows == x.rows && peaks.cols == input_groups(r)));
    struct inputs_job j = {.rule = r, .x = x, .peaks = peaks, .out = out};
    rows_run(be, round_part, &j, x.rows, x.cols);
    return ST_OK;
}
