/* Ops of several residual streams, and gates cut by the statistics of their row. */
#include <math.h>

#include "backends/cpu/cpu_backend.h"

struct streams_job {
    const struct kernels *kernels;
    struct view x, other, out;
    const float *w;
    float factor;
    int32_t n; /* streams, ids, or slices */
    int32_t i; /* stream */
    const int32_t *slice_end;
};

static void predict_part(void *ctx, int part, int n_parts)
{
    const struct streams_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->predict_streams(view_f32(j->x, t), view_f32(j->other, t), j->n,
                                    j->x.cols / j->n);
}

/* The n of n n coefficients. */
static int32_t streams_of(struct view coef)
{
    int32_t n = 1;
    while (n < STREAMS_MAX && n * n < coef.cols)
        n++;
    assert(n * n == coef.cols);
    return n;
}

enum status cpu_predict_streams(struct backend *be, struct view x, struct view coef)
{
    int32_t n = streams_of(coef);
    assert(coef.rows == x.rows && x.cols % n == 0);
    struct streams_job j = {.kernels = be->kernels, .x = x, .other = coef, .n = n};
    rows_run(be, predict_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void correct_part(void *ctx, int part, int n_parts)
{
    const struct streams_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->correct_streams(view_f32(j->x, t), view_f32(j->other, t), j->i, j->w,
                                    view_f32(j->out, t), j->n, j->out.cols);
}

enum status cpu_correct_streams(struct backend *be, struct view x, struct view coef, int32_t i,
                                const struct weight *w, struct view active)
{
    assert(coef.rows == x.rows && active.rows == x.rows && coef.cols * active.cols == x.cols);
    assert(i >= 0 && i < coef.cols && coef.cols <= STREAMS_MAX && (!w || w->k == active.cols));
    struct streams_job j = {.kernels = be->kernels,
                            .x = x,
                            .other = coef,
                            .out = active,
                            .w = vector_of(w),
                            .n = coef.cols,
                            .i = i};
    rows_run(be, correct_part, &j, x.rows, x.cols);
    return ST_OK;
}

static float mean_square(const struct kernels *k, const float *x, int32_t n)
{
    return k->squares(x, n) / (float)n;
}

static void match_part(void *ctx, int part, int n_parts)
{
    const struct streams_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        float *x = view_f32(j->x, t), own = mean_square(j->kernels, x, j->x.cols);
        float like = mean_square(j->kernels, view_f32(j->other, t), j->x.cols);
        own = own < 1e-5f ? 1e-5f : own;
        j->kernels->scale(x, sqrtf(like) / sqrtf(own), j->x.cols);
    }
}

enum status cpu_match_rms(struct backend *be, struct view x, struct view like)
{
    assert(like.rows == x.rows && like.cols == x.cols);
    struct streams_job j = {.kernels = be->kernels, .x = x, .other = like};
    rows_run(be, match_part, &j, x.rows, x.cols);
    return ST_OK;
}

enum status cpu_known_ids(struct backend *be, struct view ids, int32_t n, struct view out)
{
    (void)be;
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == 1);
    for (int32_t t = 0; t < ids.rows; t++) {
        int32_t id = col_i32(ids, t);
        *(int32_t *)view_at(out, t, DT_I32) = id >= 0 && id < n ? id : 0;
    }
    return ST_OK;
}

static void stats_part(void *ctx, int part, int n_parts)
{
    const struct streams_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        for (int32_t s = 0, first = 0; s < j->n; first = j->slice_end[s++]) {
            float *out = view_f32(j->out, t) + 3 * s;
            int32_t n = j->slice_end[s] - first;
            out[0] = out[1] = out[2] = 0.0f;
            if (n > 0)
                j->kernels->slice_stats(view_f32(j->x, t) + first, n, out);
        }
}

enum status cpu_slice_stats(struct backend *be, struct view x, int32_t n_slices,
                            const int32_t *slice_end, struct view out)
{
    assert(out.rows == x.rows && n_slices > 0 && out.cols == 3 * n_slices &&
           slice_end[n_slices - 1] == x.cols);
    struct streams_job j = {
        .kernels = be->kernels, .x = x, .out = out, .n = n_slices, .slice_end = slice_end};
    rows_run(be, stats_part, &j, x.rows, x.cols);
    return ST_OK;
}

/* mean + factor * deviation of all slices */
static float cut_of(const float *stats, int32_t n_slices, float factor)
{
    float n = 0.0f, sum = 0.0f, squares = 0.0f;
    for (int32_t s = 0; s < n_slices; s++)
        n += stats[3 * s];
    for (int32_t s = 0; s < n_slices; s++)
        sum = fmaf(stats[3 * s], stats[3 * s + 1], sum);
    float mean = sum / n;
    for (int32_t s = 0; s < n_slices; s++) {
        float d = stats[3 * s + 1] - mean;
        squares = (squares + stats[3 * s + 2]) + stats[3 * s] * (d * d);
    }
    return mean + factor * sqrtf(squares / n);
}

static void cut_part(void *ctx, int part, int n_parts)
{
    const struct streams_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->cut_gates(view_f32(j->x, t), cut_of(view_f32(j->other, t), j->n, j->factor),
                              j->x.cols);
}

enum status cpu_cut_gates(struct backend *be, struct view x, struct view stats, float factor)
{
    assert(stats.rows == x.rows && stats.cols > 0 && stats.cols % 3 == 0);
    struct streams_job j = {
        .kernels = be->kernels, .x = x, .other = stats, .factor = factor, .n = stats.cols / 3};
    rows_run(be, cut_part, &j, x.rows, x.cols);
    return ST_OK;
}
