/* sample and take_tokens */
#include <math.h>
#include <stdlib.h>

#include "common/draw.h"
#include "ops/op_cases.h"

static size_t at_of(int32_t t, int32_t cols, int32_t i)
{
    return (size_t)t * (size_t)cols + (size_t)i;
}

/* ---- sample: n_parts ranks share a vocabulary of n, k candidates of each ---- */

struct entry {
    float v;
    int32_t id;
};

static int by_value_then_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->v != y->v)
        return x->v > y->v ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* variant 1: many ties */
static float logit(const struct op_case *c, int32_t r, int32_t id)
{
    float v = in_f32(31, r, id) * (r % 3 ? 4.0f : 20.0f);
    return c->variant == 1 ? floorf(v) : v;
}

/* Row r: greedy, top_k, top_k with top_p, with min_p, with all; not for the device; undecided;
 * broken. */
static struct draw_row row_of(int32_t r)
{
    static const struct draw_rule rules[] = {
        {0.0f, 1.0f, 0.0f, 0},   {0.8f, 1.0f, 0.0f, 40},   {1.3f, 0.9f, 0.0f, 64},
        {0.5f, 1.0f, 0.05f, 20}, {2.0f, 0.95f, 0.01f, 50}, {1.0f, 1.0f, 0.0f, 10},
        {1.0f, 1.0f, 0.0f, 100}, {0.7f, 0.99f, 0.0f, 1},
    };
    struct draw_row how = {.rule = rules[r % 8],
                           .seed_lo = 7U + (uint32_t)r,
                           .seed_hi = (uint32_t)r * 3U,
                           .position = 11U * (uint32_t)r,
                           .on_device = r % 8 != 5};
    return how;
}

static bool broken(int32_t r)
{
    return r % 16 == 9;
}

static int32_t slices_of(const struct op_case *c)
{
    return c->n_slices > 0 ? c->n_slices : 1;
}

static int32_t first_of(const struct op_case *c, int32_t rank)
{
    return (int32_t)((int64_t)c->n * rank / c->n_parts);
}

/* What rank w finds in row r: val and id [k], stat [3 n_slices]. */
static void fill_rank(const struct op_case *c, int32_t w, int32_t r, float *val, int32_t *id,
                      float *stat)
{
    int32_t from = first_of(c, w), n = first_of(c, w + 1) - from, n_slices = slices_of(c);
    float inv_t = draw_inv_temperature(row_of(r).rule.temperature);
    struct entry *e = malloc(((size_t)n + 1) * sizeof *e);
    for (int32_t i = 0; i < n; i++)
        e[i] = (struct entry){logit(c, r, from + i), from + i};
    for (int32_t s = 0; s < n_slices; s++) {
        float m = -INFINITY, cold = 0, warm = 0;
        int32_t a = (int32_t)((int64_t)n * s / n_slices),
                b = (int32_t)((int64_t)n * (s + 1) / n_slices);
        for (int32_t i = a; i < b; i++)
            m = fmaxf(m, e[i].v);
        for (int32_t i = a; i < b; i++) {
            cold += (float)draw_exp((double)(e[i].v - m));
            warm += (float)draw_exp((double)((e[i].v - m) * inv_t));
        }
        stat[3 * s] = broken(r) ? NAN : m;
        stat[3 * s + 1] = cold;
        stat[3 * s + 2] = warm;
    }
    qsort(e, (size_t)n, sizeof *e, by_value_then_id);
    for (int32_t i = 0; i < c->k; i++) {
        val[i] = i < n ? e[i].v : -INFINITY;
        id[i] = i < n ? e[i].id : -1;
    }
    free(e);
}

static int32_t one_col(const struct op_case *c)
{
    (void)c;
    return 1;
}

static enum status run_sample(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                              float *out)
{
    struct op_env e = env_open(be);
    struct draw_shape shape = {
        .n_ranks = c->n_parts, .n_rows = n, .k = c->k, .n_slices = slices_of(c), .vocab = c->n};
    size_t words = draw_words(&shape), R = (size_t)n;
    int32_t *top = malloc(((size_t)c->n_parts * words + 1) * sizeof *top);
    struct draw_row *rows = malloc((R + 1) * sizeof *rows);
    int32_t *id = malloc((R + 1) * sizeof *id);
    for (int32_t w = 0; w < c->n_parts; w++)
        for (int32_t r = 0; r < n; r++) {
            int32_t *part = top + (size_t)w * words;
            fill_rank(c, w, first + r, (float *)(void *)part + at_of(r, c->k, 0),
                      part + R * (size_t)c->k + at_of(r, c->k, 0),
                      (float *)(void *)part + 2 * R * (size_t)c->k +
                          at_of(r, 3 * shape.n_slices, 0));
        }
    for (int32_t r = 0; r < n; r++)
        rows[r] = row_of(first + r);
    struct view vt = env_packed(&e, c->n_parts, (int32_t)words, DT_I32, top),
                vr = env_packed(&e, n, DRAW_ROW_WORDS, DT_I32, rows),
                vi = env_packed(&e, n, 1, DT_I32, NULL);
    ENV_RUN(&e, e.ops->sample(be, &shape, vt, vr, vi));
    env_read(&e, id, vi);
    for (int32_t r = 0; e.st == ST_OK && r < n; r++)
        out[r] = (float)id[r];
    free(top);
    free(rows);
    free(id);
    return env_close(&e);
}

/* By definition, over the whole row and with libm's exp. */
static int32_t draw_reference(const struct op_case *c, int32_t r)
{
    struct draw_row how = row_of(r);
    struct entry *e = malloc(((size_t)c->n + 1) * sizeof *e);
    int32_t n = c->n, n_kept = 0, token;
    double all = 0, run = 0, t = how.rule.temperature;
    uint64_t seed = (uint64_t)how.seed_hi << 32 | how.seed_lo;
    for (int32_t i = 0; i < n; i++)
        e[i] = (struct entry){logit(c, r, i), i};
    qsort(e, (size_t)n, sizeof *e, by_value_then_id);
    token = e[0].id;
    if (t > 0) {
        if (how.rule.top_k > 0 && (int32_t)how.rule.top_k < n)
            n = (int32_t)how.rule.top_k;
        for (int32_t i = 0; i < n; i++)
            all += exp((e[i].v - e[0].v) / t);
        for (; n_kept < n && !(n_kept > 0 && run >= how.rule.top_p * all); n_kept++) {
            double w = exp((e[n_kept].v - e[0].v) / t);
            if (w < how.rule.min_p)
                break;
            run += w;
        }
        double target = rng_uniform(seed, how.position) * run, sum = 0;
        for (int32_t i = 0; i < n_kept; i++) {
            sum += exp((e[i].v - e[0].v) / t);
            if (sum > target) {
                token = e[i].id;
                break;
            }
        }
    }
    free(e);
    /* more than the ranks' candidates together, and not all of the vocabulary */
    bool undecided = t > 0 && (int32_t)how.rule.top_k > c->k && c->k < c->n;
    return !how.on_device || broken(r) || undecided ? -1 : token;
}

static void ref_sample(const struct op_case *c, double *out, double *bound)
{
    for (int32_t r = 0; r < c->rows; r++) {
        out[r] = draw_reference(c, r);
        bound[r] = 0;
    }
}

const struct op op_sample = {"sample", one_col, run_sample, ref_sample};

/* ---- take_tokens: row t of n last ids ---- */

static int32_t from_of(const struct op_case *c, int32_t t)
{
    return t % 3 == 1 ? -1 : (t * 7 + 2) % c->n;
}

static enum status run_take(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                            float *out)
{
    struct op_env e = env_open(be);
    int32_t *token = malloc((2 * (size_t)n + (size_t)c->n + 1) * sizeof *token), *from = token + n,
            *last = from + n;
    for (int32_t t = 0; t < n; t++) {
        token[t] = 1000 + first + t;
        from[t] = from_of(c, first + t);
    }
    for (int32_t i = 0; i < c->n; i++)
        last[i] = 5000 + i;
    struct view vt = env_packed(&e, n, 1, DT_I32, token), vf = env_packed(&e, n, 1, DT_I32, from),
                vl = env_packed(&e, c->n, 1, DT_I32, last);
    ENV_RUN(&e, e.ops->take_tokens(be, vt, vf, vl));
    env_read(&e, token, vt);
    for (int32_t t = 0; e.st == ST_OK && t < n; t++)
        out[t] = (float)token[t];
    free(token);
    return env_close(&e);
}

static void ref_take(const struct op_case *c, double *out, double *bound)
{
    for (int32_t t = 0; t < c->rows; t++) {
        int32_t from = from_of(c, t);
        out[t] = from < 0 ? 1000 + t : 5000 + from;
        bound[t] = 0;
    }
}

const struct op op_take_tokens = {"take_tokens", one_col, run_take, ref_take};
