/* moe_route and moe_ffn */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */

/* ---- route ---- */

/* variant: 1 renormalised, 2 logits in steps, so that many are equal, and a factor */
static struct moe_layer route_layer(const struct op_case *c)
{
    return (struct moe_layer){.n_experts = c->n_experts,
                              .top_k = c->top_k,
                              .renormalise = c->variant & 1,
                              .scale = c->variant & 2 ? 2.5f : 1.0f};
}

static float logit_at(const struct op_case *c, int32_t t, int32_t e)
{
    float v = 8.0f * in_f32(60, t, e);
    return c->variant & 2 ? roundf(v) : v;
}

static int32_t route_cols(const struct op_case *c)
{
    return 2 * c->top_k;
}

/* Results of a row: ids as numbers, then weights. */
static enum status run_route(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    struct moe_layer ml = route_layer(c);
    size_t k = (size_t)c->top_k, all = (size_t)n * k;
    float *x = malloc(((size_t)n * (size_t)c->n_experts + 1) * sizeof *x);
    float *weights = calloc(all + 1, sizeof *weights);
    int32_t *ids = calloc(all + 1, sizeof *ids);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->n_experts; i++)
            x[(size_t)t * (size_t)c->n_experts + (size_t)i] = logit_at(c, first + t, i);
    struct view vx = env_view(&e, n, c->n_experts, DT_F32, x);
    struct view vi = env_view(&e, n, c->top_k, DT_I32, NULL);
    struct view vw = env_view(&e, n, c->top_k, DT_F32, NULL);
    ENV_RUN(&e, e.ops->moe_route(be, &ml, vx, vi, vw));
    env_read(&e, ids, vi);
    env_read(&e, weights, vw);
    for (size_t i = 0; i < all; i++) {
        size_t at = i / k * 2 * k + i % k;
        out[at] = (float)ids[i];
        out[at + k] = weights[i];
    }
    free(x);
    free(weights);
    free(ids);
    return env_close(&e);
}

/* Place of expert e in the order of row t. */
static int32_t rank_of(const struct op_case *c, int32_t t, int32_t e)
{
    int32_t n = 0;
    float l = logit_at(c, t, e);
    for (int32_t o = 0; o < c->n_experts; o++)
        n += logit_at(c, t, o) > l || (logit_at(c, t, o) == l && o < e);
    return n;
}

static void ref_route(const struct op_case *c, double *out, double *bound)
{
    struct moe_layer ml = route_layer(c);
    for (int32_t t = 0; t < c->rows; t++) {
        double *id = out + (size_t)t * 2 * (size_t)c->top_k, *w = id + c->top_k, sum = 0;
        double *id_bound = bound + (id - out), *w_bound = id_bound + c->top_k;
        for (int32_t e = 0; e < c->n_experts; e++) {
            int32_t i = rank_of(c, t, e);
            double p = exp((double)logit_at(c, t, e));
            sum += i < c->top_k || !ml.renormalise ? p : 0;
            if (i >= c->top_k)
                continue;
            id[i] = e;
            id_bound[i] = 0;
            w[i] = p;
        }
        for (int32_t i = 0; i < c->top_k; i++) {
            w[i] = w[i] / sum * (double)ml.scale;
            w_bound[i] = (8e-7 + (c->n_experts + 4) * EPS) * w[i];
        }
    }
}

const struct op op_moe_route = {"moe_route", route_cols, run_route, ref_route};

/* ---- experts ---- */

enum part { GATE, UP, DOWN };

static uint32_t stream_of(int32_t expert, enum part p)
{
    return 100 + 3 * (uint32_t)expert + (uint32_t)p;
}

static int32_t moe_cols(const struct op_case *c)
{
    return c->k;
}

/* Distinct, neither ascending nor even over the experts. */
static int32_t expert_at(const struct op_case *c, int32_t t, int32_t i)
{
    return (t * t * 5 + c->top_k - 1 - i) % c->n_experts;
}

static float share_at(int32_t t, int32_t i)
{
    return fabsf(in_f32(61, t, i));
}

static struct weight_part load_part(char *to, enum dtype t, uint32_t stream, int32_t rows,
                                    int32_t cols)
{
    struct weight_part p = {.data = to,
                            .row_bytes = (size_t)cols * dtype_size(t) + 1, /* unaligned */
                            .dtype = t,
                            .rows = rows};
    for (int32_t r = 0; r < rows; r++)
        for (int32_t c = 0; c < cols; c++)
            store_at(to + (size_t)r * p.row_bytes, t, (size_t)c, in_f32(stream, r, c));
    return p;
}

static bool up_alone(const struct op_case *c)
{
    return c->op == &op_moe_up;
}

/* The experts' weights are factors on their inputs. */
static bool weighs_input(const struct op_case *c)
{
    return c->op == &op_moe_input;
}

static struct weight *load_stack(struct op_env *e, const struct op_case *c, bool down)
{
    int32_t rows = down ? c->k : c->n, cols = down ? c->n : c->k;
    int32_t n_parts = down || up_alone(c) ? 1 : 2;
    int32_t n_slices = down && c->n_slices ? c->n_slices : 1;
    size_t part = (size_t)rows * ((size_t)cols * 4 + 1);
    struct weight_src *src = calloc((size_t)c->n_experts, sizeof *src);
    char *data = calloc((size_t)c->n_experts * (size_t)n_parts, part);
    struct weight *w = NULL;
    for (int32_t i = 0; i < c->n_experts; i++) {
        src[i] = (struct weight_src){
            .name = "experts", .cols = cols, .n_parts = n_parts, .n_slices = n_slices};
        for (int32_t s = 0; s < n_slices; s++)
            src[i].slice_end[s] = (int32_t)((int64_t)cols * (s + 1) / n_slices);
        for (int32_t p = 0; p < n_parts; p++)
            src[i].part[p] = load_part(data + (size_t)(i * n_parts + p) * part, c->dtype,
                                       stream_of(i, down     ? DOWN
                                                    : p == 0 ? GATE
                                                             : UP),
                                       rows, cols);
    }
    ENV_RUN(e, e->ops->load_stack(e->be, src, c->n_experts, &w));
    if (w)
        e->weights[e->n_weights++] = w;
    free(src);
    free(data);
    return w;
}

/* Limited gate and up, biases on all matrices. */
enum { LIMIT = 1 };
#define ALPHA 1.702f

static bool limited(const struct op_case *c)
{
    return c->op == &op_moe_limited;
}

/* Of gate (rows 0 .. F - 1) and up, and of down. */
static float bias_at(int32_t expert, int32_t i)
{
    return in_f32(63, expert, i);
}

static float down_bias_at(int32_t expert, int32_t i)
{
    return in_f32(64, expert, i);
}

static enum status run_moe(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                           float *out)
{
    struct op_env e = env_open(be);
    struct moe_layer ml = {.n_experts = c->n_experts,
                           .top_k = c->top_k,
                           .hidden = c->k,
                           .ffn = c->n,
                           .scale = 1,
                           .act = c->act,
                           .up_alone = up_alone(c),
                           .weigh_input = weighs_input(c)};
    float *x = in_rows(62, first, n, c->k);
    float *share = malloc(((size_t)(n * c->top_k) + 1) * sizeof *share);
    int32_t *ids = malloc(((size_t)(n * c->top_k) + 1) * sizeof *ids);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->top_k; i++) {
            ids[t * c->top_k + i] = expert_at(c, first + t, i);
            share[t * c->top_k + i] = share_at(first + t, i);
        }
    ml.gate_up = load_stack(&e, c, false);
    ml.down = load_stack(&e, c, true);
    float *biases = in_rows(63, 0, c->n_experts, 2 * c->n);
    float *down_biases = in_rows(64, 0, c->n_experts, c->k);
    if (limited(c)) {
        ml.glu_limit = LIMIT;
        ml.glu_alpha = ALPHA;
        ml.gate_up_bias = env_vector(&e, biases, c->n_experts * 2 * c->n);
        ml.down_bias = env_vector(&e, down_biases, c->n_experts * c->k);
    }
    free(biases);
    free(down_biases);
    int32_t floats = (int32_t)(e.ops->moe_scratch(be, &ml, n) / sizeof(float));
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vo = env_view(&e, n, c->k, DT_F32, NULL);
    struct view vi = env_view(&e, n, c->top_k, DT_I32, ids);
    struct view vs = env_view(&e, n, c->top_k, DT_F32, share);
    struct view scratch = env_packed(&e, 1, floats, DT_F32, NULL);
    ENV_RUN(&e, e.ops->moe_ffn(be, &ml, vx, vi, vs, scratch, vo));
    if (limited(c))
        ENV_RUN(&e, e.ops->moe_bias(be, &ml, vi, vs, vo));
    env_read(&e, out, vo);
    free(x);
    free(share);
    free(ids);
    return env_close(&e);
}

/* A product in double and what its f32 form may be off, x being off by x_err. */
static double dot(const struct op_case *c, uint32_t stream, int32_t row, const double *x,
                  const double *x_err, int32_t n, double *err)
{
    double sum = 0, mag = 0, carried = 0;
    for (int32_t i = 0; i < n; i++) {
        double w = stored_f32(c->dtype, in_f32(stream, row, i));
        sum += w * x[i];
        mag += fabs(w * x[i]);
        carried += fabs(w) * x_err[i];
    }
    *err = carried + (n + 5) * EPS * (mag + carried);
    return sum;
}

/* Adds one expert's share of token t to out and bound [D]; h, h_err [F] are room to work in. */
static void add_expert(const struct op_case *c, const double *x, const double *x_err,
                       int32_t expert, double share, double *h, double *h_err, double *out,
                       double *bound)
{
    for (int32_t f = 0; f < c->n; f++) {
        double g_err, u_err, a_err;
        double g = dot(c, stream_of(expert, GATE), f, x, x_err, c->k, &g_err);
        double u = dot(c, stream_of(expert, UP), f, x, x_err, c->k, &u_err);
        g += limited(c) ? bias_at(expert, f) : 0;
        u += limited(c) ? bias_at(expert, c->n + f) : 0;
        if (weighs_input(c)) {
            g_err = share * g_err + EPS * fabs(share * g);
            u_err = share * u_err + EPS * fabs(share * u);
            g *= share;
            u *= share;
        }
        double a = ref_act(c->act, g, &a_err);
        if (limited(c)) {
            g = fmin(g, LIMIT);
            u = 1 + fmax(fmin(u, LIMIT), -LIMIT);
            a = g / (1 + exp(-(double)ALPHA * g));
            a_err = 1e-6 * (1 + fabs(a));
            u_err += 4 * EPS;
        }
        if (up_alone(c)) {
            u = 1;
            u_err = 0;
            a_err += 2 * fabs(g) * g_err + g_err * g_err;
        } else {
            a_err += 1.2 * g_err; /* no activation is steeper */
        }
        h[f] = a * u;
        h_err[f] = a_err * fabs(u) + (fabs(a) + a_err) * u_err + 2 * EPS * fabs(h[f]);
        h_err[f] += c->x_eps * (fabs(h[f]) + h_err[f]);
    }
    if (weighs_input(c))
        share = 1;
    for (int32_t i = 0; i < c->k; i++) {
        double err, v = dot(c, stream_of(expert, DOWN), i, h, h_err, c->n, &err);
        v += limited(c) ? down_bias_at(expert, i) : 0;
        out[i] += share * v;
        bound[i] += share * err + (c->top_k + 5) * EPS * fabs(share * v);
    }
}

static void ref_moe(const struct op_case *c, double *out, double *bound)
{
    double *x = calloc((size_t)c->k + 1, sizeof *x), *x_err = calloc((size_t)c->k + 1, sizeof *x);
    double *h = calloc((size_t)c->n + 1, sizeof *h), *h_err = calloc((size_t)c->n + 1, sizeof *h);
    for (int32_t t = 0; t < c->rows; t++) {
        double *to = out + (size_t)t * (size_t)c->k, *b = bound + (size_t)t * (size_t)c->k;
        for (int32_t i = 0; i < c->k; i++) {
            x[i] = in_f32(62, t, i);
            x_err[i] = c->x_eps * fabs(x[i]);
            to[i] = b[i] = 0;
        }
        for (int32_t i = 0; i < c->top_k; i++)
            add_expert(c, x, x_err, expert_at(c, t, i), share_at(t, i), h, h_err, to, b);
    }
    free(x);
    free(x_err);
    free(h);
    free(h_err);
}

const struct op op_moe_ffn = {"moe_ffn", moe_cols, run_moe, ref_moe};
const struct op op_moe_input = {"moe_ffn input", moe_cols, run_moe, ref_moe};
const struct op op_moe_up = {"moe_ffn up", moe_cols, run_moe, ref_moe};
const struct op op_moe_limited = {"moe_ffn limited", moe_cols, run_moe, ref_moe};
