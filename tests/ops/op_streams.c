/* predict_streams, correct_streams, match_rms, known_ids, and slice_stats with cut_gates */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */

static int32_t cols_k(const struct op_case *c)
{
    return c->k;
}

/* ---- n_parts streams of k ---- */

static int32_t all_streams(const struct op_case *c)
{
    return c->n_parts * c->k;
}

static enum status run_predict(struct backend *be, const struct op_case *c, int32_t first,
                               int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t pairs = c->n_parts * c->n_parts;
    float *x = in_rows(110, first, n, all_streams(c)), *coef = in_rows(111, first, n, pairs);
    struct view vx = env_view(&e, n, all_streams(c), DT_F32, x),
                vc = env_view(&e, n, pairs, DT_F32, coef);
    ENV_RUN(&e, e.ops->predict_streams(be, vx, vc));
    env_read(&e, out, vx);
    free(x);
    free(coef);
    return env_close(&e);
}

static void ref_predict(const struct op_case *c, double *out, double *bound)
{
    int32_t n = c->n_parts;
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t j = 0; j < n; j++)
            for (int32_t i = 0; i < c->k; i++) {
                double own = in_f32(110, t, j * c->k + i), sum = own, size = fabs(own);
                for (int32_t p = 0; p < n; p++) {
                    double term =
                        (double)in_f32(111, t, j * n + p) * (double)in_f32(110, t, p * c->k + i);
                    sum += term;
                    size += fabs(term);
                }
                out[op_at(t, all_streams(c), j * c->k + i)] = sum;
                bound[op_at(t, all_streams(c), j * c->k + i)] = (n + 2) * EPS * size;
            }
}

const struct op op_predict_streams = {"predict_streams", all_streams, run_predict, ref_predict};

/* Results: the streams, then the active one, which is number `variant`; bias: with factors. */
static int32_t corrected_cols(const struct op_case *c)
{
    return all_streams(c) + c->k;
}

static enum status run_correct(struct backend *be, const struct op_case *c, int32_t first,
                               int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t all = all_streams(c);
    float *x = in_rows(110, first, n, all), *coef = in_rows(111, first, n, c->n_parts);
    float *active = in_rows(112, first, n, c->k), *w = in_rows(113, 0, 1, c->k);
    struct view vx = env_view(&e, n, all, DT_F32, x),
                vc = env_view(&e, n, c->n_parts, DT_F32, coef),
                va = env_view(&e, n, c->k, DT_F32, active);
    struct weight *ww = c->bias ? env_vector(&e, w, c->k) : NULL;
    ENV_RUN(&e, e.ops->correct_streams(be, vx, vc, c->variant, ww, va));
    env_read(&e, x, vx);
    env_read(&e, active, va);
    for (int32_t t = 0; t < n; t++) {
        float *to = out + op_at(t, corrected_cols(c), 0);
        memcpy(to, x + op_at(t, all, 0), (size_t)all * sizeof *out);
        memcpy(to + all, active + op_at(t, c->k, 0), (size_t)c->k * sizeof *out);
    }
    free(x);
    free(coef);
    free(active);
    free(w);
    return env_close(&e);
}

static void ref_correct(const struct op_case *c, double *out, double *bound)
{
    int32_t cols = corrected_cols(c), i_active = c->variant;
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t i = 0; i < c->k; i++) {
            double d = (double)in_f32(112, t, i) - (double)in_f32(110, t, i_active * c->k + i);
            for (int32_t j = 0; j < c->n_parts; j++) {
                double x = in_f32(110, t, j * c->k + i), factor = (double)in_f32(111, t, j) + 1;
                size_t at = op_at(t, cols, j * c->k + i);
                out[at] = x + d * factor;
                bound[at] = 4 * EPS * (fabs(x) + fabs(d * factor));
            }
            size_t own = op_at(t, cols, i_active * c->k + i),
                   at = op_at(t, cols, all_streams(c) + i);
            double w = c->bias ? in_f32(113, 0, i) : 1;
            out[at] = out[own] * w;
            bound[at] = bound[own] * fabs(w) + EPS * fabs(out[at]);
        }
}

const struct op op_correct_streams = {"correct_streams", corrected_cols, run_correct, ref_correct};

/* ---- match_rms; variant 1: rows below the least mean square ---- */

static float match_in(const struct op_case *c, int32_t t, int32_t i)
{
    return in_f32(114, t, i) * (c->variant ? 1e-3f : 1.0f);
}

static enum status run_match(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    float *x = in_rows(114, first, n, c->k), *like = in_rows(115, first, n, c->k);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->k; i++)
            x[op_at(t, c->k, i)] = match_in(c, first + t, i);
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vl = env_view(&e, n, c->k, DT_F32, like);
    ENV_RUN(&e, e.ops->match_rms(be, vx, vl));
    env_read(&e, out, vx);
    free(x);
    free(like);
    return env_close(&e);
}

static void ref_match(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        double own = 0, like = 0;
        for (int32_t i = 0; i < c->k; i++) {
            own += pow(match_in(c, t, i), 2);
            like += pow(in_f32(115, t, i), 2);
        }
        double factor = sqrt(like / c->k) / sqrt(fmax(own / c->k, 1e-5));
        for (int32_t i = 0; i < c->k; i++) {
            double v = match_in(c, t, i) * factor;
            out[op_at(t, c->k, i)] = v;
            bound[op_at(t, c->k, i)] = (c->k / 16 + 30) * EPS * fabs(v);
        }
    }
}

const struct op op_match_rms = {"match_rms", cols_k, run_match, ref_match};

/* ---- known_ids: n ids are known ---- */

/* The first ones are at the borders. */
static int32_t id_at(const struct op_case *c, int32_t t)
{
    const int32_t border[] = {c->n, c->n - 1, -1, 0};
    return t < (int32_t)ARRAY_LEN(border) ? border[t]
                                          : (int32_t)(in_f32(116, t, 0) * 2.0f * (float)c->n);
}

static int32_t one_col(const struct op_case *c)
{
    (void)c;
    return 1;
}

static enum status run_known(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    for (int32_t t = 0; t < n; t++)
        ids[t] = id_at(c, first + t);
    struct view vi = env_packed(&e, n, 1, DT_I32, ids), vo = env_packed(&e, n, 1, DT_I32, NULL);
    ENV_RUN(&e, e.ops->known_ids(be, vi, c->n, vo));
    env_read(&e, ids, vo);
    for (int32_t t = 0; t < n; t++)
        out[t] = (float)ids[t];
    free(ids);
    return env_close(&e);
}

static void ref_known(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        int32_t id = id_at(c, t);
        out[t] = id >= 0 && id < c->n ? id : 0;
        bound[t] = 0;
    }
}

const struct op op_known_ids = {"known_ids", one_col, run_known, ref_known};

/* ---- slice_stats and cut_gates of n_slices slices; variant 1: the statistics of two ranks.  Results: the gates, then the
 * statistics ---- */

static int32_t gate_cols(const struct op_case *c)
{
    return c->k + 3 * c->n_slices;
}

static int32_t border(const struct op_case *c, int32_t i)
{
    return (int32_t)((int64_t)i * c->k / c->n_slices);
}

static struct view window(struct view v, int32_t first, int32_t n)
{
    v.off += (size_t)first * sizeof(float);
    v.cols = n;
    return v;
}

static enum status run_cut(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                           float *out)
{
    struct op_env e = env_open(be);
    float *x = in_rows(117, first, n, c->k);
    float *stats = malloc(((size_t)n * 3 * (size_t)c->n_slices + 1) * sizeof *stats);
    struct view vx = env_view(&e, n, c->k, DT_F32, x),
                vs = env_view(&e, n, 3 * c->n_slices, DT_F32, NULL);
    int32_t ranks = c->variant ? 2 : 1, each = c->n_slices / ranks, end[N_SLICES];
    for (int32_t r = 0; r < ranks; r++) {
        int32_t from = border(c, r * each);
        for (int32_t i = 0; i < each; i++)
            end[i] = border(c, r * each + i + 1) - from;
        ENV_RUN(&e, e.ops->slice_stats(be, window(vx, from, end[each - 1]), each, end,
                                       window(vs, 3 * r * each, 3 * each)));
    }
    ENV_RUN(&e, e.ops->cut_gates(be, vx, vs, c->cap));
    env_read(&e, x, vx);
    env_read(&e, stats, vs);
    for (int32_t t = 0; t < n; t++) {
        float *to = out + op_at(t, gate_cols(c), 0);
        memcpy(to, x + op_at(t, c->k, 0), (size_t)c->k * sizeof *out);
        memcpy(to + c->k, stats + op_at(t, 3 * c->n_slices, 0),
               3 * (size_t)c->n_slices * sizeof *out);
    }
    free(x);
    free(stats);
    return env_close(&e);
}

/* Of columns [from, to): their mean and the sum of squares around it. */
static void moments(int32_t t, int32_t from, int32_t to, double *mean, double *squares)
{
    double sum = 0, sq = 0;
    for (int32_t i = from; i < to; i++)
        sum += in_f32(117, t, i);
    sum = to > from ? sum / (to - from) : 0;
    for (int32_t i = from; i < to; i++)
        sq += pow(in_f32(117, t, i) - sum, 2);
    *mean = sum;
    *squares = sq;
}

static void ref_cut(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        double mean, squares, err = (c->k / 16 + 60) * EPS;
        size_t at = op_at(t, gate_cols(c), c->k);
        for (int32_t s = 0; s < c->n_slices; s++, at += 3) {
            moments(t, border(c, s), border(c, s + 1), &mean, &squares);
            out[at] = border(c, s + 1) - border(c, s);
            out[at + 1] = mean;
            out[at + 2] = squares;
            bound[at] = 0;
            bound[at + 1] = err;
            bound[at + 2] = err * (squares + EPS);
        }
        moments(t, 0, c->k, &mean, &squares);
        double cut = mean + (double)c->cap * sqrt(squares / c->k);
        for (int32_t i = 0; i < c->k; i++) {
            out[op_at(t, gate_cols(c), i)] = fmax(in_f32(117, t, i) - cut, 0);
            bound[op_at(t, gate_cols(c), i)] = err * (1 + fabs((double)c->cap));
        }
    }
}

const struct op op_cut_gates = {"cut_gates", gate_cols, run_cut, ref_cut};
