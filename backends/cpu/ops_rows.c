/* Ops over rows of f32: norms, activations, add, gather. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"

void rows_run(struct backend *be, pool_fn *fn, void *ctx, int32_t rows, int32_t cols)
{
    if (rows == 1 || (int64_t)rows * cols < ROWS_GRAIN)
        fn(ctx, 0, 1);
    else
        pool_run(be->pool, fn, ctx);
}

struct rows_job {
    const struct kernels *kernels;
    struct view a, b, out;
    const float *w, *bias;
    float number; /* eps, scale or cap */
    enum act act;
};

static void add_rms_norm_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->add_rms_norm(view_f32(j->a, t), j->b.buf ? view_f32(j->b, t) : NULL, j->bias,
                                 j->w, j->number, view_f32(j->out, t), j->a.cols);
}

enum status cpu_add_rms_norm(struct backend *be, struct view resid, struct view x,
                             const struct weight *x_bias, const struct weight *w, float eps,
                             struct view out)
{
    assert(out.rows == resid.rows && out.cols == resid.cols && w->k == resid.cols);
    assert(!x.buf || (x.rows == resid.rows && x.cols == resid.cols));
    assert(!x_bias || x_bias->k == resid.cols);
    struct rows_job j = {.kernels = be->kernels,
                         .a = resid,
                         .b = x,
                         .out = out,
                         .w = vector_of(w),
                         .bias = vector_of(x_bias),
                         .number = eps};
    rows_run(be, add_rms_norm_part, &j, resid.rows, resid.cols);
    return ST_OK;
}

static void layer_norm_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->layer_norm(view_f32(j->a, t), j->w, j->bias, j->number, view_f32(j->out, t),
                               j->a.cols);
}

enum status cpu_layer_norm(struct backend *be, struct view x, const struct weight *w,
                           const struct weight *b, float eps, struct view out)
{
    assert(out.rows == x.rows && out.cols == x.cols && w->k == x.cols && (!b || b->k == x.cols));
    struct rows_job j = {.kernels = be->kernels,
                         .a = x,
                         .out = out,
                         .w = vector_of(w),
                         .bias = vector_of(b),
                         .number = eps};
    rows_run(be, layer_norm_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void act_mul_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        const float *g = view_f32(j->a, t);
        j->kernels->act_mul(j->act, g, g + j->out.cols, view_f32(j->out, t), j->out.cols);
    }
}

enum status cpu_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out)
{
    assert(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
    struct rows_job j = {.kernels = be->kernels, .a = gate_up, .out = out, .act = act};
    rows_run(be, act_mul_part, &j, out.rows, out.cols);
    return ST_OK;
}

static void activate_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->activate(j->act, view_f32(j->a, t), view_f32(j->out, t), j->out.cols);
}

enum status cpu_activate(struct backend *be, enum act act, struct view x, struct view out)
{
    assert(x.rows == out.rows && x.cols == out.cols);
    struct rows_job j = {.kernels = be->kernels, .a = x, .out = out, .act = act};
    rows_run(be, activate_part, &j, out.rows, out.cols);
    return ST_OK;
}

static void scale_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->scale(view_f32(j->a, t), j->number, j->a.cols);
}

enum status cpu_scale(struct backend *be, struct view x, float factor)
{
    struct rows_job j = {.kernels = be->kernels, .a = x, .number = factor};
    rows_run(be, scale_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void soft_cap_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->a.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->soft_cap(view_f32(j->a, t), j->number, j->a.cols);
}

enum status cpu_soft_cap(struct backend *be, struct view x, float cap)
{
    struct rows_job j = {.kernels = be->kernels, .a = x, .number = cap};
    rows_run(be, soft_cap_part, &j, x.rows, x.cols);
    return ST_OK;
}

static void add_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->out.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        j->kernels->add(view_f32(j->out, t), view_f32(j->a, t), j->number, j->out.cols);
}

enum status cpu_add(struct backend *be, struct view dst, struct view src, float scale)
{
    assert(dst.rows == src.rows && dst.cols == src.cols);
    struct rows_job j = {.kernels = be->kernels, .a = src, .out = dst, .number = scale};
    rows_run(be, add_part, &j, dst.rows, dst.cols);
    return ST_OK;
}

static void gather_part(void *ctx, int part, int n_parts)
{
    const struct rows_job *j = ctx;
    long from, to;
    pool_share(j->out.rows, part, n_parts, &from, &to);
    for (int32_t r = (int32_t)from; r < to; r++) {
        int32_t t = col_i32(j->b, r);
        assert(t >= 0 && t < j->a.rows);
        memcpy(view_f32(j->out, r), view_f32(j->a, t), (size_t)j->out.cols * sizeof(float));
    }
}

enum status cpu_gather(struct backend *be, struct view x, struct view row, struct view out)
{
    assert(row.rows == out.rows && x.cols == out.cols);
    struct rows_job j = {.a = x, .b = row, .out = out};
    rows_run(be, gather_part, &j, out.rows, out.cols);
    return ST_OK;
}
