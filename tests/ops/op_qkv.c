/* qkv_to_cache */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */
#define NORM_EPS 1e-6f

enum { MAX_POS = 64 };

/* Row t of the case goes to cache row slot_of(t). */

static int32_t qkv_cols(const struct op_case *c)
{
    return c->n_q * c->d + 2 * c->n_kv * c->d + 2 * c->n_kv;
}

static int32_t slot_of(const struct op_case *c, int32_t t)
{
    return (c->rows + 3) - 1 - t;
}

static int32_t pos_of(int32_t t)
{
    return (t * 13 + 5) % MAX_POS;
}

/* Norms without weights behind RoPE. */
static bool is_unit(const struct op_case *c)
{
    return c->op == &op_qkv_unit;
}

/* Row t of out: q, then the cache rows' values, then their scales. */
static void qkv_result(const struct op_case *c, int32_t first, int32_t n, const float *q,
                       char *const cache[2], float *const scale[2], float *out)
{
    int32_t nq = c->n_q * c->d, nkv = c->n_kv * c->d;
    for (int32_t t = 0; t < n; t++) {
        float *o = out + op_at(t, qkv_cols(c), 0);
        int32_t slot = slot_of(c, first + t);
        memcpy(o, q + op_at(t, nq, 0), (size_t)nq * sizeof *o);
        for (int j = 0; j < 2; j++)
            for (int32_t i = 0; i < nkv; i++) {
                float s = op_kv_scaled(c->dtype) ? scale[j][op_at(slot, c->n_kv, i / c->d)] : 1.0f;
                o[nq + j * nkv + i] =
                    (float)op_kv_element(cache[j], c->dtype, op_at(slot, nkv, i)) * s;
                o[nq + 2 * nkv + j * c->n_kv + i / c->d] = s;
            }
    }
}

static enum status run_qkv(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                           float *out)
{
    struct op_env e = env_open(be);
    int32_t nq = c->n_q * c->d, nkv = c->n_kv * c->d, slots = c->rows + 3;
    float *x = in_rows(41, first, n, nq + 2 * nkv), *norm = in_rows(42, 0, 2, c->d);
    float *cs = in_rows(43, 0, 2 * MAX_POS, c->rot / 2), *q = in_rows(0, 0, n, nq);
    int32_t *idx = malloc((2 * (size_t)n + 1) * sizeof *idx);
    char *cache[2];
    float *scale[2];
    for (int32_t t = 0; t < n; t++) {
        idx[t] = pos_of(first + t);
        idx[n + t] = slot_of(c, first + t);
    }
    struct attn_layer al = {.n_q = c->n_q,
                            .n_kv = c->n_kv,
                            .d_head = c->d,
                            .rot_dim = c->rot,
                            .q_per_kv = 1,
                            .eps = NORM_EPS,
                            .rope_interleaved = c->interleaved};
    al.qk_unit = is_unit(c);
    if (c->qk_norm) {
        al.q_norm = env_vector(&e, norm, c->d);
        al.k_norm = env_vector(&e, norm + c->d, c->d);
    }
    al.cos = env_packed(&e, MAX_POS, c->rot / 2, DT_F32, cs);
    al.sin = env_packed(&e, MAX_POS, c->rot / 2, DT_F32, cs + MAX_POS * (c->rot / 2));
    struct kv_layer kv = {.k = env_packed(&e, slots, nkv, c->dtype, NULL),
                          .v = env_packed(&e, slots, nkv, c->dtype, NULL)};
    if (op_kv_scaled(c->dtype)) {
        kv.k_scale = env_packed(&e, slots, c->n_kv, DT_F32, NULL);
        kv.v_scale = env_packed(&e, slots, c->n_kv, DT_F32, NULL);
    }
    struct step_dev st = {.n_tokens = n,
                          .pos = env_packed(&e, n, 1, DT_I32, idx),
                          .slot = env_packed(&e, n, 1, DT_I32, idx + n)};
    struct view vx = env_view(&e, n, nq + 2 * nkv, DT_F32, x),
                vq = env_view(&e, n, nq, DT_F32, NULL);
    ENV_RUN(&e, e.ops->qkv_to_cache(be, &al, &st, vx, kv, vq));
    env_read(&e, q, vq);
    for (int j = 0; j < 2; j++) {
        cache[j] = malloc(op_at(slots, nkv, 1) * 4);
        scale[j] = malloc(op_at(slots, c->n_kv, 1) * 4);
        env_read(&e, cache[j], j ? kv.v : kv.k);
        if (op_kv_scaled(c->dtype))
            env_read(&e, scale[j], j ? kv.v_scale : kv.k_scale);
    }
    if (e.st == ST_OK)
        qkv_result(c, first, n, q, cache, scale, out);
    for (int j = 0; j < 2; j++) {
        free(cache[j]);
        free(scale[j]);
    }
    free(x);
    free(norm);
    free(cs);
    free(q);
    free(idx);
    return env_close(&e);
}

/* The norm without weights of a head whose elements are off by *err. */
static void ref_unit(const struct op_case *c, double *x, double *err)
{
    double sq = 0, most = 0;
    for (int32_t i = 0; i < c->d; i++)
        sq += x[i] * x[i];
    double r = 1 / sqrt(sq / c->d + (double)NORM_EPS);
    for (int32_t i = 0; i < c->d; i++) {
        x[i] *= r;
        most = fmax(most, fabs(x[i]));
    }
    /* the root mean square is off by *err at most, and moves every element in proportion */
    *err = *err * r * (1 + most) + (c->d / 16 + 40) * EPS * 2 * (most + 1e-30);
}

/* Norm (row `which` of the norm weights) and rotation of one head; err: bound of every element. */
static void ref_rotate(const struct op_case *c, int32_t t, int which, double *x, double *err)
{
    double sq = 0, most = 0;
    for (int32_t i = 0; i < c->d; i++)
        sq += x[i] * x[i];
    double r = c->qk_norm ? 1 / sqrt(sq / c->d + (double)NORM_EPS) : 1;
    for (int32_t i = 0; i < c->d; i++) {
        x[i] *= c->qk_norm ? r * in_f32(42, which, i) : 1;
        most = fmax(most, fabs(x[i]));
    }
    for (int32_t i = 0; i < c->rot / 2; i++) {
        int32_t ia = c->interleaved ? 2 * i : i, ib = c->interleaved ? 2 * i + 1 : i + c->rot / 2;
        double a = x[ia], b = x[ib], co = in_f32(43, pos_of(t), i),
               si = in_f32(43, MAX_POS + pos_of(t), i);
        x[ia] = a * co - b * si;
        x[ib] = a * si + b * co;
    }
    *err = (c->qk_norm ? c->d / 16 + 40 : 6) * EPS * 2 * (most + 1e-30);
    if (is_unit(c))
        ref_unit(c, x, err);
}

static void ref_qkv(const struct op_case *c, double *out, double *bound)
{
    double x[512], err;
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t h = 0; h < c->n_q + 2 * c->n_kv; h++) {
            bool is_k = h >= c->n_q && h < c->n_q + c->n_kv, is_v = h >= c->n_q + c->n_kv;
            double *o = out + op_at(t, qkv_cols(c), h * c->d),
                   *b = bound + op_at(t, qkv_cols(c), h * c->d);
            double most = 0, top = c->dtype == DT_I8 ? 127 : 448;
            err = 0;
            for (int32_t i = 0; i < c->d; i++)
                x[i] = in_f32(41, t, h * c->d + i);
            if (!is_v)
                ref_rotate(c, t, is_k, x, &err);
            for (int32_t i = 0; i < c->d; i++)
                most = fmax(most, fabs(x[i]));
            for (int32_t i = 0; i < c->d; i++) {
                o[i] = x[i];
                b[i] = err;
                if (h < c->n_q || c->dtype == DT_F32)
                    continue;
                if (c->dtype == DT_I8)
                    b[i] = 2 * err + most / top * 0.501;
                else if (c->dtype == DT_E4M3)
                    b[i] = 2 * err + fabs(x[i]) * 0x1.01p-4 + most / top * 0x1.01p-10;
                else
                    b[i] += fabs(x[i]) * (c->dtype == DT_F16 ? 0x1.01p-11 : 0x1.01p-8) + 0x1p-24;
            }
            if (h >= c->n_q) {
                size_t s = op_at(t, qkv_cols(c), (c->n_q + 2 * c->n_kv) * c->d + h - c->n_q);
                out[s] = op_kv_scaled(c->dtype) ? most / top : 1;
                bound[s] = op_kv_scaled(c->dtype) ? (err + 4 * EPS * most) / top : 0;
            }
        }
}

const struct op op_qkv = {"qkv_to_cache", qkv_cols, run_qkv, ref_qkv};
const struct op op_qkv_unit = {"qkv_to_cache unit", qkv_cols, run_qkv, ref_qkv};
