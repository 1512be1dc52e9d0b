/* latent_to_cache and heads_linear */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */
#define NORM_EPS 1e-6f

enum { MAX_POS = 64, X_GAP = 2, OUT_GAP = 3 };

/* ---- latent_to_cache: k elements of a head of q before the rotated ones; d of a cache row; variant: how the latent is
 * rounded, 1 int8 with one scale, 2 e4m3 with one for 16 elements ---- */

static struct input_rule latent_rule(const struct op_case *c)
{
    return (struct input_rule){.grid = c->variant == 1   ? GRID_INT8
                                       : c->variant == 2 ? GRID_E4M3
                                                         : GRID_NONE,
                               .group = c->variant == 2 ? 16 : 0,
                               .all = c->d - c->rot};
}

static int32_t head_of(const struct op_case *c)
{
    return c->k + c->rot;
}

static int32_t slot_of(const struct op_case *c, int32_t t)
{
    return (c->rows + 3) - 1 - t;
}

static int32_t pos_of(int32_t t)
{
    return (t * 13 + 5) % MAX_POS;
}

/* The rotated parts of q, the cache row, its scale. */
static int32_t latent_cols(const struct op_case *c)
{
    return c->n_q * c->rot + c->d + 1;
}

static void latent_result(const struct op_case *c, int32_t first, int32_t n, const float *q,
                          const char *cache, const float *scale, float *out)
{
    int32_t r = c->d - c->rot, nq = c->n_q * c->rot;
    for (int32_t t = 0; t < n; t++) {
        float *o = out + op_at(t, latent_cols(c), 0);
        int32_t slot = slot_of(c, first + t);
        float s = op_kv_scaled(c->dtype) ? scale[slot] : 1.0f;
        for (int32_t i = 0; i < nq; i++)
            o[i] = q[op_at(t, c->n_q * c->d, i / c->rot * c->d + r + i % c->rot)];
        for (int32_t i = 0; i < c->d; i++)
            o[nq + i] = (float)op_kv_element(cache, c->dtype, op_at(slot, c->d, i)) * s;
        o[nq + c->d] = s;
    }
}

/* Elements of q before the rotated ones, which must stay. */
static bool q_stays(const struct op_case *c, int32_t n, const float *q)
{
    for (int32_t i = 0; i < n * c->n_q; i++)
        for (int32_t k = 0; k < c->d - c->rot; k++)
            if (q[op_at(i, c->d, k)] != 0.0f)
                return false;
    return true;
}

static enum status run_latent(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                              float *out)
{
    struct op_env e = env_open(be);
    int32_t nq = c->n_q * c->d, slots = c->rows + 3, r = c->d - c->rot;
    float *x = in_rows(81, first, n, c->d), *heads = in_rows(82, first, n, c->n_q * head_of(c));
    float *norm = in_rows(83, 0, 1, r), *cs = in_rows(84, 0, 2 * MAX_POS, c->rot / 2);
    float *q = in_rows(0, 0, n, nq), *scale = calloc((size_t)slots, sizeof *scale);
    int32_t *idx = malloc((2 * (size_t)n + 1) * sizeof *idx);
    char *cache = malloc(op_at(slots, c->d, 1) * 4);
    for (int32_t t = 0; t < n; t++) {
        idx[t] = pos_of(first + t);
        idx[n + t] = slot_of(c, first + t);
    }
    struct attn_layer al = {.n_q = c->n_q,
                            .n_kv = 1,
                            .d_head = c->d,
                            .d_value = r,
                            .rot_dim = c->rot,
                            .q_per_kv = c->n_q,
                            .eps = NORM_EPS,
                            .k_norm = env_vector(&e, norm, r),
                            .round_latent = latent_rule(c),
                            .rope_interleaved = c->interleaved};
    al.cos = env_packed(&e, MAX_POS, c->rot / 2, DT_F32, cs);
    al.sin = env_packed(&e, MAX_POS, c->rot / 2, DT_F32, cs + MAX_POS * (c->rot / 2));
    struct kv_layer kv = {.k = env_packed(&e, slots, c->d, c->dtype, NULL)};
    if (op_kv_scaled(c->dtype))
        kv.k_scale = kv.v_scale = env_packed(&e, slots, 1, DT_F32, NULL);
    kv.v = kv.k;
    kv.v.cols = r;
    struct step_dev st = {.n_tokens = n,
                          .pos = env_packed(&e, n, 1, DT_I32, idx),
                          .slot = env_packed(&e, n, 1, DT_I32, idx + n)};
    struct view vx = env_view(&e, n, c->d, DT_F32, x),
                vh = env_view(&e, n, c->n_q * head_of(c), DT_F32, heads),
                vq = env_view(&e, n, nq, DT_F32, NULL);
    ENV_RUN(&e, e.ops->latent_to_cache(be, &al, &st, vx, vh, kv, vq));
    env_read(&e, q, vq);
    env_read(&e, cache, kv.k);
    if (op_kv_scaled(c->dtype))
        env_read(&e, scale, kv.k_scale);
    if (e.st == ST_OK && !q_stays(c, n, q))
        e.st = status_fail(ST_BUG, __FILE__, __LINE__, "q is written before the rotated elements");
    if (e.st == ST_OK)
        latent_result(c, first, n, q, cache, scale, out);
    free(x);
    free(heads);
    free(norm);
    free(cs);
    free(q);
    free(scale);
    free(idx);
    free(cache);
    return env_close(&e);
}

static void ref_rotate(const struct op_case *c, int32_t t, double *x)
{
    for (int32_t i = 0; i < c->rot / 2; i++) {
        int32_t ia = c->interleaved ? 2 * i : i, ib = c->interleaved ? 2 * i + 1 : i + c->rot / 2;
        double a = x[ia], b = x[ib], co = in_f32(84, pos_of(t), i),
               si = in_f32(84, MAX_POS + pos_of(t), i);
        x[ia] = a * co - b * si;
        x[ib] = a * si + b * co;
    }
}

/* Bound of an element x of a row whose greatest is `most`, each of them off by err. */
static double stored_bound(enum dtype t, double x, double most, double err)
{
    switch (t) {
    case DT_I8:
        return 2 * err + most / 127 * 0.501;
    case DT_E4M3:
        return 2 * err + fabs(x) * 0x1.01p-4 + most / 448 * 0x1.01p-10;
    case DT_F16:
        return err + fabs(x) * 0x1.01p-11 + 0x1p-24;
    case DT_BF16:
        return err + fabs(x) * 0x1.01p-8 + 0x1p-24;
    default:
        return err;
    }
}

/* x [n], each off by err, becomes the nearest of the rule's grid; b: what that may be off.  One near the middle of two may
 * become either. */
static void ref_round(const struct input_rule *r, double *x, int32_t n, double err, double *b)
{
    int32_t group = r->group ? r->group : n;
    for (int32_t from = 0; from < n; from += group) {
        int32_t end = from + group < n ? from + group : n;
        double peak = 0, step;
        for (int32_t i = from; i < end; i++)
            peak = fmax(peak, fabs(x[i]));
        double scale = peak / (r->grid == GRID_INT8 ? 127.5 : 448);
        for (int32_t i = from; i < end; i++) {
            double y = x[i] / scale, to = op_on_grid(r->grid, y, &step);
            double off = 3 * err / scale, middle = fabs(fabs(y - to) - step / 2);
            b[i] = 3 * err + (middle <= off ? step * scale : 0);
            x[i] = to * scale;
        }
    }
}

static void ref_row(const struct op_case *c, int32_t t, double *o, double *b)
{
    double sq = 0, most = 0;
    int32_t r = c->d - c->rot;
    for (int32_t i = 0; i < c->d; i++)
        o[i] = in_f32(81, t, i);
    for (int32_t i = 0; i < r; i++)
        sq += o[i] * o[i];
    for (int32_t i = 0; i < r; i++)
        o[i] *= in_f32(83, 0, i) / sqrt(sq / r + (double)NORM_EPS);
    ref_rotate(c, t, o + r);
    for (int32_t i = 0; i < c->d; i++)
        most = fmax(most, fabs(o[i]));
    double err = (r / 16 + 40) * EPS * 2 * (most + 1e-30);
    struct input_rule rule = latent_rule(c);
    for (int32_t i = 0; i < c->d; i++)
        b[i] = err;
    if (rule.grid != GRID_NONE)
        ref_round(&rule, o, r, err, b);
    for (int32_t i = 0; i < c->d; i++)
        b[i] = stored_bound(c->dtype, o[i], most, b[i]);
    double top = c->dtype == DT_I8 ? 127 : 448;
    o[c->d] = op_kv_scaled(c->dtype) ? most / top : 1;
    b[c->d] = op_kv_scaled(c->dtype) ? (err + 4 * EPS * most) / top : 0;
}

static void ref_latent(const struct op_case *c, double *out, double *bound)
{
    int32_t nq = c->n_q * c->rot;
    for (int32_t t = 0; t < c->rows; t++) {
        double *o = out + op_at(t, latent_cols(c), 0), *b = bound + op_at(t, latent_cols(c), 0);
        for (int32_t h = 0; h < c->n_q; h++) {
            for (int32_t i = 0; i < c->rot; i++)
                o[h * c->rot + i] = in_f32(82, t, h * head_of(c) + c->k + i);
            ref_rotate(c, t, o + h * c->rot);
        }
        for (int32_t i = 0; i < nq; i++)
            b[i] = 12 * EPS;
        ref_row(c, t, o + nq, b + nq);
    }
}

const struct op op_latent_to_cache = {"latent_to_cache", latent_cols, run_latent, ref_latent};

/* ---- heads_linear: n_q matrices [n, k], gaps between the heads of x and of out ---- */

static int32_t heads_cols(const struct op_case *c)
{
    return c->n_q * (c->n + OUT_GAP);
}

static float weight_at(const struct op_case *c, int32_t h, int32_t n, int32_t k)
{
    return stored_f32(c->dtype, in_f32(85 + (uint32_t)h, n, k));
}

static struct weight *load_heads(struct op_env *e, const struct op_case *c)
{
    size_t each = (size_t)c->n * (size_t)c->k * dtype_size(c->dtype);
    struct weight_src *src = calloc((size_t)c->n_q, sizeof *src);
    char *data = malloc(each * (size_t)c->n_q + 1);
    struct weight *w = NULL;
    for (int32_t h = 0; h < c->n_q; h++) {
        char *to = data + (size_t)h * each;
        for (int32_t n = 0; n < c->n; n++)
            for (int32_t k = 0; k < c->k; k++)
                store_at(to, c->dtype, op_at(n, c->k, k), in_f32(85 + (uint32_t)h, n, k));
        src[h] = (struct weight_src){
            .name = "heads", .cols = c->k, .n_parts = 1, .n_slices = 1, .slice_end = {c->k}};
        src[h].part[0] = (struct weight_part){.data = to,
                                              .row_bytes = (size_t)c->k * dtype_size(c->dtype),
                                              .dtype = c->dtype,
                                              .rows = c->n};
    }
    ENV_RUN(e, e->ops->load_stack(e->be, src, c->n_q, &w));
    if (w)
        e->weights[e->n_weights++] = w;
    free(src);
    free(data);
    return w;
}

static enum status run_heads(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    int32_t cols = c->n_q * (c->k + X_GAP);
    float *x = in_rows(80, first, n, cols);
    struct weight *w = load_heads(&e, c);
    struct view vx = env_view(&e, n, cols, DT_F32, x),
                vo = env_view(&e, n, heads_cols(c), DT_F32, NULL);
    ENV_RUN(&e, e.ops->heads_linear(be, w, vx, vo));
    env_read(&e, out, vo);
    free(x);
    return env_close(&e);
}

/* Columns of the gaps stay zero. */
static void ref_heads(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t h = 0; h < c->n_q; h++)
            for (int32_t n = 0; n < c->n + OUT_GAP; n++) {
                double sum = 0, mag = 0;
                for (int32_t k = 0; n < c->n && k < c->k; k++) {
                    double v = (double)in_f32(80, t, h * (c->k + X_GAP) + k) *
                               (double)weight_at(c, h, n, k);
                    sum += v;
                    mag += fabs(v);
                }
                size_t at = op_at(t, heads_cols(c), h * (c->n + OUT_GAP) + n);
                out[at] = sum;
                bound[at] = mag * ((c->k + 4) * EPS + c->x_eps);
            }
}

const struct op op_heads_linear = {"heads_linear", heads_cols, run_heads, ref_heads};
