/* Ops over rows: norms, activations, add, gather */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */
#define NORM_EPS 1e-5f

static size_t at_of(int32_t t, int32_t cols, int32_t i)
{
    return (size_t)t * (size_t)cols + (size_t)i;
}

static int32_t cols_k(const struct op_case *c)
{
    return c->k;
}

/* Results: the new residual, then the normalised row.  variant 1: no x. */
static int32_t rms_cols(const struct op_case *c)
{
    return 2 * c->k;
}

static enum status run_rms(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                           float *out)
{
    struct op_env e = env_open(be);
    float *r = in_rows(11, first, n, c->k), *x = in_rows(12, first, n, c->k),
          *w = in_rows(13, 0, 2, c->k);
    struct view vr = env_view(&e, n, c->k, DT_F32, r), vo = env_view(&e, n, c->k, DT_F32, NULL),
                vx = {0};
    struct weight *ww = env_vector(&e, w, c->k),
                  *wb = c->bias ? env_vector(&e, w + c->k, c->k) : NULL;
    if (c->variant == 0)
        vx = env_view(&e, n, c->k, DT_F32, x);
    ENV_RUN(&e, e.ops->add_rms_norm(be, vr, vx, wb, ww, NORM_EPS, vo));
    env_read(&e, r, vr);
    env_read(&e, x, vo);
    for (int32_t t = 0; t < n; t++) {
        memcpy(out + at_of(t, 2 * c->k, 0), r + at_of(t, c->k, 0), (size_t)c->k * sizeof *out);
        memcpy(out + at_of(t, 2 * c->k, c->k), x + at_of(t, c->k, 0), (size_t)c->k * sizeof *out);
    }
    free(r);
    free(x);
    free(w);
    return env_close(&e);
}

static void ref_rms(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        double sq = 0;
        for (int32_t i = 0; i < c->k; i++) {
            double add = c->variant ? 0 : in_f32(12, t, i),
                   b = c->bias && !c->variant ? in_f32(13, 1, i) : 0;
            double v = in_f32(11, t, i) + (add + b);
            out[at_of(t, 2 * c->k, i)] = v;
            bound[at_of(t, 2 * c->k, i)] = 4 * EPS * (1 + fabs(add) + fabs(b));
            sq += v * v;
        }
        for (int32_t i = 0; i < c->k; i++) {
            double r = 1 / sqrt(sq / c->k + (double)NORM_EPS), w = in_f32(13, 0, i);
            double v = out[at_of(t, 2 * c->k, i)];
            out[at_of(t, 2 * c->k, c->k + i)] = v * r * w;
            bound[at_of(t, 2 * c->k, c->k + i)] =
                (c->k / 16 + 30) * EPS * fabs(w) * (r + fabs(v * r));
        }
    }
}

const struct op op_add_rms_norm = {"add_rms_norm", rms_cols, run_rms, ref_rms};

static enum status run_layer_norm(struct backend *be, const struct op_case *c, int32_t first,
                                  int32_t n, float *out)
{
    struct op_env e = env_open(be);
    float *x = in_rows(11, first, n, c->k), *w = in_rows(13, 0, 2, c->k);
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vo = env_view(&e, n, c->k, DT_F32, NULL);
    struct weight *ww = env_vector(&e, w, c->k),
                  *wb = c->bias ? env_vector(&e, w + c->k, c->k) : NULL;
    ENV_RUN(&e, e.ops->layer_norm(be, vx, ww, wb, NORM_EPS, vo));
    env_read(&e, out, vo);
    free(x);
    free(w);
    return env_close(&e);
}

static void ref_layer_norm(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        double sum = 0, sq = 0;
        for (int32_t i = 0; i < c->k; i++)
            sum += in_f32(11, t, i);
        double mean = sum / c->k;
        for (int32_t i = 0; i < c->k; i++)
            sq += pow(in_f32(11, t, i) - mean, 2);
        double r = 1 / sqrt(sq / c->k + (double)NORM_EPS);
        for (int32_t i = 0; i < c->k; i++) {
            double w = in_f32(13, 0, i), b = c->bias ? in_f32(13, 1, i) : 0;
            out[at_of(t, c->k, i)] = (in_f32(11, t, i) - mean) * r * w + b;
            bound[at_of(t, c->k, i)] = (c->k / 16 + 40) * EPS * (fabs(w) * r * 2 + fabs(b));
        }
    }
}

const struct op op_layer_norm = {"layer_norm", cols_k, run_layer_norm, ref_layer_norm};

/* Wide range, with the places where exp leaves its own. */
static float act_in(int32_t t, int32_t i)
{
    static const float special[] = {0.0f,    -0.0f, 88.5f,  -88.5f, 104.5f,
                                    -104.5f, 1e30f, -1e30f, 1e-40f, 20.0f};
    if (i < 10)
        return special[i];
    return in_f32(14, t, i) * (i % 3 == 0 ? 0.1f : i % 3 == 1 ? 5.0f : 40.0f);
}

double ref_act(enum act act, double x, double *err)
{
    double z = 2 * sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x), v;
    *err = 4e-7;
    switch (act) {
    case ACT_SILU:
        v = x / (1 + exp(-x));
        break;
    case ACT_GELU:
        v = 0.5 * x * erfc(-x / sqrt(2));
        *err += x < 0 ? x * x * 2e-7 : 0;
        break;
    case ACT_RELU:
        *err = 0;
        return x > 0 ? x : 0;
    case ACT_RELU2:
        v = x > 0 ? x * x : 0;
        *err = v > FLT_MAX ? 0 : EPS * v + 0x1p-149; /* one step of a subnormal result */
        return v > FLT_MAX ? (double)INFINITY : v;
    default:
        v = x / (1 + exp(-z));
        *err += x < 0 ? fabs(z) * 5e-7 : 0;
    }
    *err = fmin(*err, 1) * fabs(v) + 1e-37;
    return v;
}

static float *act_rows(int32_t first, int32_t n, int32_t cols)
{
    float *x = malloc(((size_t)n * (size_t)cols + 1) * sizeof *x);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < cols; i++)
            x[at_of(t, cols, i)] = act_in(first + t, i);
    return x;
}

/* variant 1: in place */
static enum status run_activate(struct backend *be, const struct op_case *c, int32_t first,
                                int32_t n, float *out)
{
    struct op_env e = env_open(be);
    float *x = act_rows(first, n, c->k);
    struct view vx = env_view(&e, n, c->k, DT_F32, x);
    struct view vo = c->variant ? vx : env_view(&e, n, c->k, DT_F32, NULL);
    ENV_RUN(&e, e.ops->activate(be, c->act, vx, vo));
    env_read(&e, out, vo);
    free(x);
    return env_close(&e);
}

static void ref_activate(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++)
            out[at_of(t, c->k, i)] = ref_act(c->act, act_in(t, i), &bound[at_of(t, c->k, i)]);
}

static enum status run_scale(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    float *x = act_rows(first, n, c->k);
    struct view vx = env_view(&e, n, c->k, DT_F32, x);
    ENV_RUN(&e, e.ops->scale(be, vx, c->cap));
    env_read(&e, out, vx);
    free(x);
    return env_close(&e);
}

static void ref_scale(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            out[at_of(t, c->k, i)] = (double)c->cap * act_in(t, i);
            /* one step of a subnormal result */
            bound[at_of(t, c->k, i)] = fabs(out[at_of(t, c->k, i)]) * EPS + 0x1p-149;
        }
}

const struct op op_scale = {"scale", cols_k, run_scale, ref_scale};

static enum status run_soft_cap(struct backend *be, const struct op_case *c, int32_t first,
                                int32_t n, float *out)
{
    struct op_env e = env_open(be);
    float *x = act_rows(first, n, c->k);
    struct view vx = env_view(&e, n, c->k, DT_F32, x);
    ENV_RUN(&e, e.ops->soft_cap(be, vx, c->cap));
    env_read(&e, out, vx);
    free(x);
    return env_close(&e);
}

static void ref_soft_cap(const struct op_case *c, double *out, double *bound)
{
    double cap = (double)c->cap;
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            out[at_of(t, c->k, i)] = cap * tanh(act_in(t, i) / cap);
            bound[at_of(t, c->k, i)] = 4e-7 * cap;
        }
}

const struct op op_soft_cap = {"soft_cap", cols_k, run_soft_cap, ref_soft_cap};

const struct op op_activate = {"activate", cols_k, run_activate, ref_activate};
const struct op op_relu2 = {"activate relu2", cols_k, run_activate, ref_activate};

static enum status run_act_mul(struct backend *be, const struct op_case *c, int32_t first,
                               int32_t n, float *out)
{
    struct op_env e = env_open(be);
    float *g = act_rows(first, n, c->k), *u = in_rows(15, first, n, c->k);
    float *gu = malloc(((size_t)n * 2 * (size_t)c->k + 1) * sizeof *gu);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->k; i++) {
            gu[at_of(t, 2 * c->k, i)] = g[at_of(t, c->k, i)];
            gu[at_of(t, 2 * c->k, c->k + i)] = u[at_of(t, c->k, i)];
        }
    struct view vx = env_view(&e, n, 2 * c->k, DT_F32, gu),
                vo = env_view(&e, n, c->k, DT_F32, NULL);
    ENV_RUN(&e, e.ops->act_mul(be, c->act, vx, vo));
    env_read(&e, out, vo);
    free(g);
    free(u);
    free(gu);
    return env_close(&e);
}

static void ref_act_mul(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            double err, v = ref_act(c->act, act_in(t, i), &err), u = in_f32(15, t, i);
            out[at_of(t, c->k, i)] = v * u;
            bound[at_of(t, c->k, i)] = err * fabs(u) + 2 * EPS * fabs(v * u) + 1e-37;
        }
}

const struct op op_act_mul = {"act_mul", cols_k, run_act_mul, ref_act_mul};

#define ADD_SCALE 0.37f

static enum status run_add(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                           float *out)
{
    struct op_env e = env_open(be);
    float *a = in_rows(16, first, n, c->k), *b = in_rows(17, first, n, c->k);
    struct view va = env_view(&e, n, c->k, DT_F32, a), vb = env_view(&e, n, c->k, DT_F32, b);
    ENV_RUN(&e, e.ops->add(be, va, vb, ADD_SCALE));
    env_read(&e, out, va);
    free(a);
    free(b);
    return env_close(&e);
}

static void ref_add(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            out[at_of(t, c->k, i)] = in_f32(16, t, i) + (double)ADD_SCALE * in_f32(17, t, i);
            bound[at_of(t, c->k, i)] = 3 * EPS;
        }
}

const struct op op_add = {"add", cols_k, run_add, ref_add};

enum { GATHER_FROM = 23 };

static int32_t gather_row(int32_t r)
{
    return r * 7 % GATHER_FROM;
}

static enum status run_gather(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                              float *out)
{
    struct op_env e = env_open(be);
    float *x = in_rows(18, 0, GATHER_FROM, c->k);
    int32_t *row = malloc(((size_t)n + 1) * sizeof *row);
    for (int32_t r = 0; r < n; r++)
        row[r] = gather_row(first + r);
    struct view vx = env_view(&e, GATHER_FROM, c->k, DT_F32, x),
                vr = env_packed(&e, n, 1, DT_I32, row), vo = env_view(&e, n, c->k, DT_F32, NULL);
    ENV_RUN(&e, e.ops->gather(be, vx, vr, vo));
    env_read(&e, out, vo);
    free(x);
    free(row);
    return env_close(&e);
}

static void ref_gather(const struct op_case *c, double *out, double *bound)
{
    for (int32_t r = 0; r < c->rows; r++)
        for (int32_t i = 0; i < c->k; i++) {
            out[at_of(r, c->k, i)] = in_f32(18, gather_row(r), i);
            bound[at_of(r, c->k, i)] = 0;
        }
}

const struct op op_gather = {"gather", cols_k, run_gather, ref_gather};
