/* sigmoid_mul, add_bias, head_squares with wide_norm, and moe_route with sigmoid scores */
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

/* ---- sigmoid_mul; variant 1: one gate for a row ---- */

static int32_t gate_cols(const struct op_case *c)
{
    return c->variant ? 1 : c->k;
}

static float gate_at(int32_t t, int32_t i)
{
    return 30.0f * in_f32(71, t, i);
}

static enum status run_sigmoid_mul(struct backend *be, const struct op_case *c, int32_t first,
                                   int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t cols = gate_cols(c);
    float *x = in_rows(70, first, n, c->k);
    float *g = malloc(((size_t)n * (size_t)cols + 1) * sizeof *g);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < cols; i++)
            g[at_of(t, cols, i)] = gate_at(first + t, i);
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vg = env_view(&e, n, cols, DT_F32, g);
    ENV_RUN(&e, e.ops->sigmoid_mul(be, vx, vg));
    env_read(&e, out, vx);
    free(x);
    free(g);
    return env_close(&e);
}

static void ref_sigmoid_mul(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            double z = gate_at(t, c->variant ? 0 : i), v = in_f32(70, t, i) / (1 + exp(-z));
            out[at_of(t, c->k, i)] = v;
            bound[at_of(t, c->k, i)] = 4e-7 * fabs(v);
        }
}

const struct op op_sigmoid_mul = {"sigmoid_mul", cols_k, run_sigmoid_mul, ref_sigmoid_mul};

/* ---- add_bias ---- */

static enum status run_add_bias(struct backend *be, const struct op_case *c, int32_t first,
                                int32_t n, float *out)
{
    struct op_env e = env_open(be);
    float *x = in_rows(72, first, n, c->k), *b = in_rows(73, 0, 1, c->k);
    struct view vx = env_view(&e, n, c->k, DT_F32, x);
    struct weight *wb = env_vector(&e, b, c->k);
    ENV_RUN(&e, e.ops->add_bias(be, vx, wb));
    env_read(&e, out, vx);
    free(x);
    free(b);
    return env_close(&e);
}

static void ref_add_bias(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            out[at_of(t, c->k, i)] = (double)in_f32(72, t, i) + (double)in_f32(73, 0, i);
            bound[at_of(t, c->k, i)] = 2 * EPS;
        }
}

const struct op op_add_bias = {"add_bias", cols_k, run_add_bias, ref_add_bias};

/* ---- n_q heads of d, of which this rank has those from q_offset on; n_parts groups, 0: one ---- */

static int32_t group_of(const struct op_case *c)
{
    return c->n_parts ? c->n_q / c->n_parts : c->n_q;
}

static int32_t own_cols(const struct op_case *c)
{
    return (c->n_q - c->q_offset) * c->d;
}

static enum status run_wide_norm(struct backend *be, const struct op_case *c, int32_t first,
                                 int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t all = c->n_q * c->d, own = own_cols(c);
    float *x = in_rows(74, first, n, all), *w = in_rows(75, 0, 1, own);
    struct view vx = env_view(&e, n, all, DT_F32, x), sums = env_view(&e, n, c->n_q, DT_F32, NULL),
                mine = vx;
    mine.off += (size_t)(c->q_offset * c->d) * sizeof(float);
    mine.cols = own;
    struct weight *ww = env_vector(&e, w, own);
    ENV_RUN(&e, e.ops->head_squares(be, vx, sums));
    ENV_RUN(&e, e.ops->wide_norm(be, mine, sums, c->d, group_of(c), c->q_offset, ww, NORM_EPS));
    env_read(&e, out, mine);
    free(x);
    free(w);
    return env_close(&e);
}

static void ref_wide_norm(const struct op_case *c, double *out, double *bound)
{
    int32_t all = c->n_q * c->d, own = own_cols(c);
    for (int32_t t = 0; t < c->rows; t++) {
        for (int32_t i = 0; i < own; i++) {
            int32_t width = group_of(c) * c->d, from = (all - own + i) / width * width;
            double sq = 0;
            for (int32_t k = from; k < from + width; k++)
                sq += pow(in_f32(74, t, k), 2);
            double r = 1 / sqrt(sq / width + (double)NORM_EPS);
            double v = in_f32(74, t, all - own + i) * r * in_f32(75, 0, i);
            out[at_of(t, own, i)] = v;
            bound[at_of(t, own, i)] = (c->d / 16 + c->n_q + 30) * EPS * fabs(v);
        }
    }
}

const struct op op_wide_norm = {"wide_norm", own_cols, run_wide_norm, ref_wide_norm};

/* ---- moe_route; variant: 1 renormalised, 2 a factor, 4 no bias, 8 logits whose scores are near 1;
 * n_parts groups, of which n_slices are chosen from ---- */

static struct moe_layer route_layer(const struct op_case *c)
{
    return (struct moe_layer){.n_experts = c->n_experts,
                              .top_k = c->top_k,
                              .sigmoid = true,
                              .n_groups = c->n_parts,
                              .top_groups = c->n_slices,
                              .renormalise = c->variant & 1,
                              .scale = c->variant & 2 ? 2.5f : 1.0f};
}

static float logit_at(const struct op_case *c, int32_t t, int32_t e)
{
    return 5.0f * in_f32(76, t, e) + (c->variant & 8 ? 20.0f : 0.0f);
}

static double choice_at(const struct op_case *c, int32_t t, int32_t e)
{
    double bias = c->variant & 4 ? 0 : in_f32(77, 0, e);
    return 1 / (1 + exp(-(double)logit_at(c, t, e))) + bias;
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
    float *weights = calloc(all + 1, sizeof *weights), *bias = in_rows(77, 0, 1, c->n_experts);
    int32_t *ids = calloc(all + 1, sizeof *ids);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->n_experts; i++)
            x[at_of(t, c->n_experts, i)] = logit_at(c, first + t, i);
    ml.route_bias = c->variant & 4 ? NULL : env_vector(&e, bias, c->n_experts);
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
    free(bias);
    free(weights);
    free(ids);
    return env_close(&e);
}

/* The greatest choice of group g, and without bias that alone, else with the second one. */
static double group_score(const struct op_case *c, const double *choice, int32_t g)
{
    int32_t size = c->n_experts / c->n_parts;
    double best = -INFINITY, second = -INFINITY;
    for (int32_t e = g * size; e < (g + 1) * size; e++) {
        double v = choice[e];
        second = v > best ? best : v > second ? v : second;
        best = v > best ? v : best;
    }
    return c->variant & 4 || size == 1 ? best : best + second;
}

/* Choices of experts of groups that are not chosen from become -inf. */
static void close_groups(const struct op_case *c, double *choice)
{
    double score[MOE_MAX_EXPERTS];
    for (int32_t g = 0; g < c->n_parts; g++)
        score[g] = group_score(c, choice, g);
    for (int32_t e = 0; c->n_parts > 1 && e < c->n_experts; e++) {
        int32_t before = 0;
        for (int32_t o = 0; o < c->n_parts; o++)
            before += score[o] > score[e / (c->n_experts / c->n_parts)];
        choice[e] = before < c->n_slices ? choice[e] : -INFINITY;
    }
}

static void ref_route(const struct op_case *c, double *out, double *bound)
{
    double scale = c->variant & 2 ? 2.5 : 1, choice[MOE_MAX_EXPERTS];
    for (int32_t t = 0; t < c->rows; t++) {
        double *id = out + at_of(t, route_cols(c), 0), *w = id + c->top_k, sum = 0;
        for (int32_t e = 0; e < c->n_experts; e++)
            choice[e] = choice_at(c, t, e);
        close_groups(c, choice);
        for (int32_t e = 0; e < c->n_experts; e++) {
            int32_t i = 0;
            for (int32_t o = 0; o < c->n_experts; o++)
                i += choice[o] > choice[e];
            if (isinf(choice[e]) || i >= c->top_k)
                continue;
            id[i] = e;
            w[i] = 1 / (1 + exp(-(double)logit_at(c, t, e)));
            sum += w[i];
        }
        for (int32_t i = 0; i < c->top_k; i++) {
            w[i] = w[i] / (c->variant & 1 ? sum : 1) * scale;
            bound[at_of(t, route_cols(c), i)] = 0;
            bound[at_of(t, route_cols(c), c->top_k + i)] = (8e-7 + (c->top_k + 4) * EPS) * w[i];
        }
    }
}

const struct op op_route_sigmoid = {"moe_route sigmoid", route_cols, run_route, ref_route};
