/* Ops over rows of f32 that some families have between the usual parts: gates, biases, norms over
 * all heads. */
#include <math.h>

#include "backends/cpu/cpu_backend.h"

struct gates_job {
    const struct kernels *kernels;
    struct view x, other;
    const float *w;
    float eps;
    int32_t d, group, first; /* heads */
};

static void sigmoid_mul_part(void *ctx, int part, int n_parts)
{
    const struct gates_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->sigmoid_mul(view_f32(j->x, t), view_f32(j->other, t), j->other.cols == 1,
                                j->x.cols);
}

enum status cpu_sigmoid_mul(struct backend *be, struct view x, struct view gate)
{
    assert(gate.rows == x.rows && (gate.cols == 1 || gate.cols == x.cols));
    struct gates_job j = {.kernels = be->kernels, .x = x, .other = gate};
    rows_run(be, sigmoid_mul_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void add_bias_part(void *ctx, int part, int n_parts)
{
    const struct gates_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->add_bias(view_f32(j->x, t), j->w, j->x.cols);
}

enum status cpu_add_bias(struct backend *be, struct view x, const struct weight *b)
{
    assert(b->k == x.cols);
    struct gates_job j = {.kernels = be->kernels, .x = x, .w = vector_of(b)};
    rows_run(be, add_bias_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void squares_part(void *ctx, int part, int n_parts)
{
    const struct gates_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        for (int32_t h = 0; h < j->other.cols; h++)
            view_f32(j->other, t)[h] = j->kernels->squares(view_f32(j->x, t) + h * j->d, j->d);
}

enum status cpu_head_squares(struct backend *be, struct view x, struct view out)
{
    assert(out.rows == x.rows && (out.cols == 0 || x.cols % out.cols == 0));
    struct gates_job j = {.kernels = be->kernels, .x = x, .other = out};
    j.d = out.cols ? x.cols / out.cols : 0;
    rows_run(be, squares_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void wide_norm_part(void *ctx, int part, int n_parts)
{
    const struct gates_job *j = ctx;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    int32_t n = j->x.cols / j->d;
    float width = (float)j->group * (float)j->d;
    for (int32_t t = (int32_t)from; t < to; t++)
        for (int32_t h = 0, end; h < n; h = end) { /* the heads of a group, from h on */
            int32_t before = (j->first + h) / j->group * j->group;
            const float *squares = view_f32(j->other, t) + before;
            float sum = 0.0f;
            for (int32_t i = 0; i < j->group; i++)
                sum += squares[i];
            end = before + j->group - j->first < n ? before + j->group - j->first : n;
            j->kernels->mul(view_f32(j->x, t) + h * j->d, 1.0f / sqrtf(sum / width + j->eps),
                            j->w + h * j->d, (end - h) * j->d);
        }
}

enum status cpu_wide_norm(struct backend *be, struct view x, struct view squares, int32_t d,
                          int32_t group, int32_t first, const struct weight *w, float eps)
{
    assert(squares.rows == x.rows && w->k == x.cols && x.cols % d == 0);
    assert(group > 0 && squares.cols % group == 0 && first >= 0 &&
           first + x.cols / d <= squares.cols);
    struct gates_job j = {.kernels = be->kernels,
                          .x = x,
                          .other = squares,
                          .w = vector_of(w),
                          .eps = eps,
                          .d = d,
                          .group = group,
                          .first = first};
    rows_run(be, wide_norm_part, &j, x.rows, x.cols);
    return ST_OK;
}
