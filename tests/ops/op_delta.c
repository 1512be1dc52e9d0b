/* delta_conv with delta_rule, over n_seqs sequences that share the rows evenly, and gated_norm */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */
#define NORM_EPS 1e-6f

/* n_q value heads of n elements and n_kv key heads of d; rot taps; bias: the convolution's; variant: 1 Mamba-2, 2 with
 * bounds of its steps. */
static int32_t channels(const struct op_case *c)
{
    return 2 * c->n_kv * c->d + c->n_q * c->n;
}

/* The row of qkv that the convolution leaves, then the rule's. */
static int32_t delta_cols(const struct op_case *c)
{
    return channels(c) + c->n_q * c->n;
}

static int32_t first_of(const struct op_case *c, int32_t s)
{
    return (int32_t)((int64_t)c->rows * s / c->n_seqs);
}

static int32_t seq_of(const struct op_case *c, int32_t t)
{
    int32_t s = 0;
    while (first_of(c, s + 1) <= t)
        s++;
    return s;
}

/* Some heads forget at once, some hardly at all. */
static float decay_at(int32_t h)
{
    return -1.5f - 1.49f * in_f32(92, 0, h);
}

static float gate_at(int32_t t, int32_t i)
{
    return 4.0f * in_f32(94, t, i);
}

/* ---- as calls ---- */

static const float step_min = 0.1f, step_max = 1.5f;

struct delta_run {
    struct op_env e;
    struct delta_layer dl;
    struct delta_state state;
};

/* Slots hold rubbish, as those that another sequence had. */
static void begin_run(struct delta_run *r, struct backend *be, const struct op_case *c)
{
    int32_t C = channels(c), slots = c->n_seqs + 2, past = (c->rot - 1) * C;
    int32_t rule = c->n_q * c->d * c->n;
    float *w = in_rows(91, 0, c->rot, C), *dt = in_rows(93, 0, 1, c->n_q);
    float *decay = malloc((size_t)c->n_q * sizeof *decay),
          *old = in_rows(95, 0, slots, past + rule);
    float *bias = in_rows(99, 0, 1, C), *skip = in_rows(89, 0, 1, c->n_q);
    for (int32_t h = 0; h < c->n_q; h++)
        decay[h] = decay_at(h);
    r->e = env_open(be);
    r->dl = (struct delta_layer){.n_k = c->n_kv,
                                 .n_v = c->n_q,
                                 .d_k = c->d,
                                 .d_v = c->n,
                                 .v_per_k = c->q_per_kv,
                                 .v_offset = c->q_offset,
                                 .taps = c->rot,
                                 .conv = env_vector(&r->e, w, c->rot * C),
                                 .decay = env_vector(&r->e, decay, c->n_q),
                                 .dt = env_vector(&r->e, dt, c->n_q),
                                 .bias = c->bias ? env_vector(&r->e, bias, C) : NULL,
                                 .skip = c->variant ? env_vector(&r->e, skip, c->n_q) : NULL,
                                 .dt_min = c->variant == 2 ? step_min : 0.0f,
                                 .dt_max = c->variant == 2 ? step_max : INFINITY};
    r->state = (struct delta_state){.conv = env_view(&r->e, slots, past, DT_F32, old),
                                    .rule = env_view(&r->e, slots, rule, DT_F32, old)};
    free(w);
    free(dt);
    free(decay);
    free(old);
    free(bias);
    free(skip);
}

/* Rows [first, first + n) as one step; out NULL: they only move the states. */
static void run_rows(struct delta_run *r, const struct op_case *c, int32_t first, int32_t n,
                     float *out)
{
    struct op_env e = env_open(r->e.be); /* of this step */
    int32_t C = channels(c), O = c->n_q * c->n, n_seqs = 0;
    int32_t *pos = calloc((size_t)n + 1, sizeof *pos), *slot = calloc((size_t)n + 1, sizeof *slot);
    int32_t *start = calloc((size_t)n + 1, sizeof *start);
    float *x = in_rows(90, first, n, C), *ba = calloc((size_t)(n * 2 * c->n_q) + 1, sizeof *ba);
    float *conv = calloc((size_t)(n * C) + 1, sizeof *conv);
    float *rule = calloc((size_t)(n * O) + 1, sizeof *rule);
    for (int32_t t = 0; t < n; t++) {
        int32_t s = seq_of(c, first + t);
        if (t == 0 || s != seq_of(c, first + t - 1)) {
            slot[n_seqs] = c->n_seqs - s; /* another order than the sequences' */
            start[n_seqs++] = t;
        }
        pos[t] = first + t - first_of(c, s);
        for (int32_t i = 0; i < 2 * c->n_q; i++)
            ba[op_at(t, 2 * c->n_q, i)] = gate_at(first + t, i);
    }
    start[n_seqs] = n;
    struct step_dev st = {.n_tokens = n,
                          .n_seqs = n_seqs,
                          .pos = env_packed(&e, n, 1, DT_I32, pos),
                          .q_start = env_packed(&e, n_seqs + 1, 1, DT_I32, start),
                          .state = env_packed(&e, n_seqs, 1, DT_I32, slot)};
    struct view vx = c->d % 16 == 0
                         ? env_packed(&e, n, C, DT_F32, x) /* aligned, as a model has it */
                         : env_view(&e, n, C, DT_F32, x);
    struct view vba = env_view(&e, n, 2 * c->n_q, DT_F32, ba),
                vo = env_view(&e, n, O, DT_F32, NULL);
    ENV_RUN(&e, e.ops->delta_conv(e.be, &r->dl, &st, vx, r->state));
    env_read(&e, conv, vx);
    ENV_RUN(&e, e.ops->delta_rule(e.be, &r->dl, &st, vx, vba, r->state, vo));
    env_read(&e, rule, vo);
    for (int32_t t = 0; out && t < n; t++) {
        memcpy(out + op_at(t, C + O, 0), conv + op_at(t, C, 0), (size_t)C * sizeof *out);
        memcpy(out + op_at(t, C + O, C), rule + op_at(t, O, 0), (size_t)O * sizeof *out);
    }
    free(pos);
    free(slot);
    free(start);
    free(x);
    free(ba);
    free(conv);
    free(rule);
    enum status st_end = env_close(&e);
    if (r->e.st == ST_OK)
        r->e.st = st_end;
}

/* The rows before move the states first. */
static enum status run_delta(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct delta_run r;
    begin_run(&r, be, c);
    if (first > 0)
        run_rows(&r, c, 0, first, NULL);
    run_rows(&r, c, first, n, out);
    return env_close(&r.e);
}

/* ---- in double ---- */

/* Channel i of token t after the convolution, and what f32 may be off. */
static double ref_conv(const struct op_case *c, int32_t t, int32_t i, double *bound)
{
    int32_t begin = first_of(c, seq_of(c, t));
    double sum = c->bias ? (double)in_f32(99, 0, i) : 0, size = fabs(sum), err;
    for (int32_t k = 0; k < c->rot; k++) {
        int32_t at = t - (c->rot - 1) + k;
        double v = at < begin ? 0 : (double)in_f32(90, at, i) * (double)in_f32(91, k, i);
        sum += v;
        size += fabs(v);
    }
    double out = ref_act(ACT_SILU, sum, &err);
    *bound = 1.1 * (c->rot + 1) * EPS * size + err;
    return out;
}

/* The row of qkv; heads of q and k have the length 1, those of q divided by sqrt(d). */
static void ref_qkv(const struct op_case *c, int32_t t, double *out, double *bound)
{
    for (int32_t i = 0; i < channels(c); i++)
        out[i] = ref_conv(c, t, i, &bound[i]);
    for (int32_t h = 0; !c->variant && h < 2 * c->n_kv; h++) {
        double *x = out + h * c->d, *b = bound + h * c->d, sq = 1e-6, most = 0;
        for (int32_t i = 0; i < c->d; i++) {
            sq += x[i] * x[i];
            most = fmax(most, b[i]);
        }
        double by = 1 / sqrt(sq) / (h < c->n_kv ? sqrt(c->d) : 1);
        double relative = most * sqrt(c->d) / sqrt(sq) + (c->d / 16 + 30) * EPS;
        for (int32_t i = 0; i < c->d; i++) {
            b[i] = b[i] * by + fabs(x[i] * by) * relative;
            x[i] *= by;
        }
    }
}

/* One token of a value head; s [d, n]. */
static void ref_rule(const struct op_case *c, int32_t t, int32_t h, const double *qkv, double *s,
                     double *out)
{
    int32_t keys = c->n_kv * c->d, head = (h + c->q_offset) / c->q_per_kv % c->n_kv;
    const double *q = qkv + head * c->d, *k = qkv + keys + head * c->d;
    const double *v = qkv + 2 * keys + h * c->n;
    double a = (double)gate_at(t, c->n_q + h) + (double)in_f32(93, 0, h);
    double g = exp((double)decay_at(h) * log1p(exp(a))),
           beta = 1 / (1 + exp(-(double)gate_at(t, h)));
    for (int32_t j = 0; j < c->n; j++) {
        double m = 0;
        out[j] = 0;
        for (int32_t i = 0; i < c->d; i++)
            m += g * s[i * c->n + j] * k[i];
        for (int32_t i = 0; i < c->d; i++) {
            s[i * c->n + j] = g * s[i * c->n + j] + k[i] * (v[j] - m) * beta;
            out[j] += s[i * c->n + j] * q[i];
        }
    }
}

/* ---- Mamba-2 ---- */

/* S of a head, and twice what its elements are at most: of exact inputs, and of those that are off by their bounds. */
struct mamba_state {
    double *s, *size, *most;
};

static void ref_mamba_head(const struct op_case *c, int32_t t, int32_t h, const double *qkv,
                           const double *off, struct mamba_state *st, double *out, double *bound)
{
    int32_t keys = c->n_kv * c->d, head = (h + c->q_offset) / c->q_per_kv % c->n_kv;
    int32_t q = head * c->d, k = keys + head * c->d, v = 2 * keys + h * c->n;
    int32_t age = t - first_of(c, seq_of(c, t));
    double a = (double)gate_at(t, c->n_q + h) + (double)in_f32(93, 0, h), step = log1p(exp(a));
    if (c->variant == 2)
        step = fmin(fmax(step, (double)step_min), (double)step_max);
    double g = exp((double)decay_at(h) * step), skip = in_f32(89, 0, h);
    for (int32_t j = 0; j < c->n; j++) {
        double exact = 0, most = 0;
        out[j] = skip * qkv[v + j];
        for (int32_t i = 0; i < c->d; i++) {
            int32_t at = i * c->n + j;
            st->s[at] = g * st->s[at] + qkv[k + i] * step * qkv[v + j];
            st->size[at] = g * st->size[at] + fabs(qkv[k + i] * step * qkv[v + j]);
            st->most[at] = g * st->most[at] +
                           (fabs(qkv[k + i]) + off[k + i]) * step * (fabs(qkv[v + j]) + off[v + j]);
            out[j] += st->s[at] * qkv[q + i];
            exact += st->size[at] * fabs(qkv[q + i]);
            most += st->most[at] * (fabs(qkv[q + i]) + off[q + i]);
        }
        bound[j] = most - exact + most * (c->d + 100.0 * (age + 1)) * EPS +
                   fabs(skip) * (2 * EPS * fabs(qkv[v + j]) + off[v + j]);
    }
}

static void ref_mamba(const struct op_case *c, double *out, double *bound)
{
    int32_t C = channels(c), cols = delta_cols(c);
    size_t of_head = (size_t)(c->d * c->n), n = 3 * (size_t)c->n_q * of_head;
    double *state = calloc(n + 1, sizeof *state);
    for (int32_t t = 0; t < c->rows; t++) {
        double *o = out + op_at(t, cols, 0), *b = bound + op_at(t, cols, 0);
        if (t == first_of(c, seq_of(c, t)))
            memset(state, 0, n * sizeof *state);
        ref_qkv(c, t, o, b);
        for (int32_t h = 0; h < c->n_q; h++) {
            double *s = state + 3 * (size_t)h * of_head;
            struct mamba_state st = {s, s + of_head, s + 2 * of_head};
            ref_mamba_head(c, t, h, o, b, &st, o + C + h * c->n, b + C + h * c->n);
        }
    }
    free(state);
}

/* A token's update neither lengthens a column of the state's error nor shortens it by more than it adds: its own
 * roundings, those of k (twice) and v.  |v| <= taps, and q has the length 1 / sqrt(d). */
static void ref_delta(const struct op_case *c, double *out, double *bound)
{
    int32_t C = channels(c), cols = delta_cols(c);
    if (c->variant) {
        ref_mamba(c, out, bound);
        return;
    }
    double *state = calloc((size_t)(c->n_q * c->d * c->n) + 1, sizeof *state);
    for (int32_t t = 0; t < c->rows; t++) {
        double *o = out + op_at(t, cols, 0), *b = bound + op_at(t, cols, 0), input = 0;
        int32_t age = t - first_of(c, seq_of(c, t));
        if (age == 0)
            memset(state, 0, (size_t)(c->n_q * c->d * c->n) * sizeof *state);
        ref_qkv(c, t, o, b);
        for (int32_t i = 0; i < C; i++)
            input = fmax(input, b[i]);
        for (int32_t h = 0; h < c->n_q; h++)
            ref_rule(c, t, h, o, state + h * c->d * c->n, o + C + h * c->n);
        for (int32_t i = C; i < cols; i++)
            b[i] = (age + 1) * c->rot * ((c->d + 40) * EPS + 4 * sqrt(c->d) * input) / sqrt(c->d);
    }
    free(state);
}

const struct op op_delta = {"delta", delta_cols, run_delta, ref_delta};

/* ---- gated_norm: n_q heads of d ---- */

static int32_t norm_cols(const struct op_case *c)
{
    return c->n_q * c->d;
}

static enum status run_gated_norm(struct backend *be, const struct op_case *c, int32_t first,
                                  int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t cols = norm_cols(c);
    float *x = in_rows(96, first, n, cols), *z = in_rows(97, first, n, cols);
    float *w = in_rows(98, 0, 1, c->d);
    struct view vx = env_view(&e, n, cols, DT_F32, x), vz = env_view(&e, n, cols, DT_F32, z);
    struct weight *ww = env_vector(&e, w, c->d);
    ENV_RUN(&e, e.ops->gated_norm(be, vx, ww, NORM_EPS, vz));
    env_read(&e, out, vx);
    free(x);
    free(z);
    free(w);
    return env_close(&e);
}

static void ref_gated_norm(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t h = 0; h < c->n_q; h++) {
            double sq = 0, err;
            for (int32_t i = h * c->d; i < (h + 1) * c->d; i++)
                sq += pow(in_f32(96, t, i), 2);
            double r = 1 / sqrt(sq / c->d + (double)NORM_EPS);
            for (int32_t i = h * c->d; i < (h + 1) * c->d; i++) {
                double z = ref_act(ACT_SILU, in_f32(97, t, i), &err);
                double v = in_f32(96, t, i) * r * in_f32(98, 0, i - h * c->d);
                size_t at = op_at(t, norm_cols(c), i);
                out[at] = v * z;
                bound[at] = (c->d / 16 + 30) * EPS * fabs(v * z) + fabs(v) * err;
            }
        }
}

const struct op op_gated_norm = {"gated_norm", norm_cols, run_gated_norm, ref_gated_norm};
