/* edit_logits, mask_logits and topk */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */

enum { FIRST_ID = 1000 };

static size_t at_of(int32_t t, int32_t cols, int32_t i)
{
    return (size_t)t * (size_t)cols + (size_t)i;
}

/* variant 0: spread; 1: many ties; 2: mostly -inf; 3: ascending */
static float logit(const struct op_case *c, int32_t r, int32_t i)
{
    float v = in_f32(21, r, i) * 12.0f;
    if (c->variant == 1)
        return floorf(v);
    if (c->variant == 2)
        return i % 5 == 0 ? v : -INFINITY;
    return c->variant == 3 ? (float)i * 0.01f : v;
}

static float *logit_rows(const struct op_case *c, int32_t first, int32_t n)
{
    float *l = malloc(((size_t)n * (size_t)c->n + 1) * sizeof *l);
    for (int32_t r = 0; r < n; r++)
        for (int32_t i = 0; i < c->n; i++)
            l[at_of(r, c->n, i)] = logit(c, first + r, i);
    return l;
}

static struct vocab_part vocab_of(const struct op_case *c)
{
    struct vocab_part p = {
        .first_id = FIRST_ID, .n_cols = c->n, .n_slices = c->n_slices > 0 ? c->n_slices : 1};
    for (int i = 0; i < p.n_slices; i++)
        p.slice_end[i] = (int32_t)((int64_t)c->n * (i + 1) / p.n_slices);
    if (p.n_slices == N_SLICES)
        p.slice_end[3] = p.slice_end[2]; /* an empty slice */
    return p;
}

/* variant 4: every third row has no sequence */
static float inv_temp(const struct op_case *c, int32_t r)
{
    if (c->variant == 4 && r % 3 == 1)
        return -1.0f;
    return 0.5f + 0.25f * (float)(r % 8);
}

enum { WAS = 7 }; /* what outputs are before */

static int32_t topk_cols(const struct op_case *c)
{
    return 2 * c->k + 3 * (c->n_slices > 0 ? c->n_slices : 1);
}

/* k values, k ids, stat */
static enum status run_topk(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                            float *out)
{
    struct op_env e = env_open(be);
    struct vocab_part part = vocab_of(c);
    float *l = logit_rows(c, first, n), *t = malloc(((size_t)n + 1) * sizeof *t);
    size_t rows = (size_t)n + 1, stats = 3 * (size_t)part.n_slices;
    float *val = malloc(rows * ((size_t)c->k + stats) * sizeof *val),
          *stat = val + rows * (size_t)c->k;
    int32_t *id = malloc(rows * (size_t)c->k * sizeof *id + 1);
    for (int32_t r = 0; r < n; r++)
        t[r] = inv_temp(c, first + r);
    for (size_t i = 0; i < rows * ((size_t)c->k + stats); i++)
        val[i] = (float)WAS;
    for (size_t i = 0; i < rows * (size_t)c->k; i++)
        id[i] = WAS;
    struct view vl = env_view(&e, n, c->n, DT_F32, l), vt = env_packed(&e, n, 1, DT_F32, t),
                vv = env_view(&e, n, c->k, DT_F32, val), vi = env_view(&e, n, c->k, DT_I32, id),
                vs = env_view(&e, n, (int32_t)stats, DT_F32, stat);
    ENV_RUN(&e, e.ops->topk(be, &part, vl, vt, vv, vi, vs));
    env_read(&e, val, vv);
    env_read(&e, id, vi);
    env_read(&e, stat, vs);
    for (int32_t r = 0; e.st == ST_OK && r < n; r++) {
        float *o = out + at_of(r, topk_cols(c), 0);
        for (int32_t i = 0; i < c->k; i++) {
            o[i] = val[at_of(r, c->k, i)];
            o[c->k + i] = (float)id[at_of(r, c->k, i)];
        }
        memcpy(o + 2 * c->k, stat + (size_t)r * stats, stats * sizeof *o);
    }
    free(l);
    free(t);
    free(val);
    free(id);
    return env_close(&e);
}

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

static void ref_stat(const struct op_case *c, int32_t r, int32_t from, int32_t to, double *out,
                     double *bound)
{
    double m = -INFINITY, cold = 0, warm = 0, t = inv_temp(c, r);
    for (int32_t i = from; i < to; i++)
        m = fmax(m, logit(c, r, i));
    for (int32_t i = from; i < to && m > -INFINITY; i++) {
        cold += exp(logit(c, r, i) - m);
        warm += exp((logit(c, r, i) - m) * t);
    }
    out[0] = m;
    out[1] = cold;
    out[2] = warm;
    bound[0] = 0;
    bound[1] = cold * (1e-6 + (to - from) * EPS);
    bound[2] = warm * (4e-6 + (to - from) * EPS);
}

static void ref_topk(const struct op_case *c, double *out, double *bound)
{
    struct vocab_part part = vocab_of(c);
    struct entry *s = malloc(((size_t)c->n + 1) * sizeof *s);
    for (int32_t r = 0; r < c->rows; r++) {
        double *o = out + at_of(r, topk_cols(c), 0), *b = bound + at_of(r, topk_cols(c), 0);
        for (int32_t i = 0; inv_temp(c, r) < 0 && i < topk_cols(c); i++) {
            o[i] = WAS;
            b[i] = 0;
        }
        if (inv_temp(c, r) < 0)
            continue;
        for (int32_t i = 0; i < c->n; i++)
            s[i] = (struct entry){logit(c, r, i), FIRST_ID + i};
        qsort(s, (size_t)c->n, sizeof *s, by_value_then_id);
        for (int32_t i = 0; i < c->k; i++) {
            o[i] = i < c->n ? s[i].v : -INFINITY;
            o[c->k + i] = i < c->n ? s[i].id : -1;
            b[i] = b[c->k + i] = 0;
        }
        for (int32_t i = 0, from = 0; i < part.n_slices; from = part.slice_end[i++])
            ref_stat(c, r, from, part.slice_end[i], o + 2 * c->k + 3 * i, b + 2 * c->k + 3 * i);
    }
    free(s);
}

const struct op op_topk = {"topk", topk_cols, run_topk, ref_topk};

static int32_t logit_cols(const struct op_case *c)
{
    return c->n;
}

/* Row r: ids r % 3, then every seventh; two of them belong to other ranks.  variant 1: only rows 2,
 * 3 and 5 of each six have any. */
enum { EDITS = 9 };

static int32_t n_edits(const struct op_case *c, int32_t r)
{
    return c->variant == 0 || r % 6 == 2 || r % 6 == 3 || r % 6 == 5 ? EDITS : 0;
}

static int32_t edit_id(int32_t r, int32_t i)
{
    return i == 7 ? FIRST_ID - 1 : i == 8 ? FIRST_ID + 100000 : FIRST_ID + r % 3 + 7 * i;
}

static enum status run_edit(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                            float *out)
{
    enum { BEFORE = 5 }; /* words that are not edits */
    struct op_env e = env_open(be);
    struct vocab_part part = vocab_of(c);
    int32_t n_words = BEFORE + n * EDITS * EDIT_WORDS;
    float *l = logit_rows(c, first, n);
    int32_t *start = malloc(((size_t)n + 1 + (size_t)n_words) * sizeof *start),
            *words = start + n + 1;
    memset(words, 0xff, (size_t)n_words * sizeof *words);
    start[0] = BEFORE;
    for (int32_t r = 0; r < n; r++) {
        start[r + 1] = start[r];
        for (int32_t i = 0; i < n_edits(c, first + r); i++, start[r + 1] += EDIT_WORDS) {
            struct logit_edit edit = {edit_id(first + r, i), in_f32(24, first + r, i),
                                      1.5f + in_f32(22, first + r, i), in_f32(23, first + r, i)};
            memcpy(words + start[r + 1], &edit, sizeof edit);
        }
    }
    struct view vl = env_view(&e, n, c->n, DT_F32, l), vs = env_packed(&e, n + 1, 1, DT_I32, start),
                vw = env_packed(&e, 1, n_words, DT_I32, words);
    ENV_RUN(&e, e.ops->edit_logits(be, &part, vl, vs, vw));
    env_read(&e, out, vl);
    free(l);
    free(start);
    return env_close(&e);
}

static void ref_edit(const struct op_case *c, double *out, double *bound)
{
    for (int32_t r = 0; r < c->rows; r++) {
        for (int32_t i = 0; i < c->n; i++) {
            out[at_of(r, c->n, i)] = logit(c, r, i);
            bound[at_of(r, c->n, i)] = 0;
        }
        for (int32_t i = 0; i < n_edits(c, r); i++) {
            int32_t col = edit_id(r, i) - FIRST_ID;
            if (col < 0 || col >= c->n)
                continue;
            double *l = &out[at_of(r, c->n, col)], m = 1.5f + in_f32(22, r, i);
            *l += in_f32(24, r, i);
            *l = (*l > 0 ? *l / m : *l * m) + in_f32(23, r, i);
            bound[at_of(r, c->n, col)] = 160 * EPS;
        }
    }
}

const struct op op_edit_logits = {"edit_logits", logit_cols, run_edit, ref_edit};

/* Row r may have the ids that are r modulo 3, with variant 1 in runs of 96; the others become -inf, which the test reads as
 * the greatest number below 0. */
static bool mask_has(const struct op_case *c, int32_t row, int32_t id)
{
    return (c->variant ? id / 96 : id) % 3 == row % 3;
}

static enum status run_mask(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                            float *out)
{
    struct op_env e = env_open(be);
    struct vocab_part part = vocab_of(c);
    int32_t n_words = (FIRST_ID + c->n + 31) / 32;
    float *l = logit_rows(c, first, n);
    uint32_t *mask = calloc((size_t)n * (size_t)n_words + 1, sizeof *mask);
    for (int32_t r = 0; r < n; r++)
        for (int32_t id = 0; id < FIRST_ID + c->n; id++)
            mask[(size_t)r * (size_t)n_words + (size_t)id / 32] |=
                (uint32_t)mask_has(c, first + r, id) << (id % 32);
    struct view vl = env_view(&e, n, c->n, DT_F32, l),
                vm = env_packed(&e, n, n_words, DT_I32, mask);
    ENV_RUN(&e, e.ops->mask_logits(be, &part, vl, vm));
    env_read(&e, out, vl);
    for (int64_t i = 0; i < (int64_t)n * c->n; i++)
        out[i] = out[i] == -INFINITY ? -FLT_MAX : out[i];
    free(l);
    free(mask);
    return env_close(&e);
}

static void ref_mask(const struct op_case *c, double *out, double *bound)
{
    for (int32_t r = 0; r < c->rows; r++)
        for (int32_t i = 0; i < c->n; i++) {
            bool allowed = mask_has(c, r, FIRST_ID + i);
            out[at_of(r, c->n, i)] = allowed ? logit(c, r, i) : -(double)FLT_MAX;
            bound[at_of(r, c->n, i)] = 0;
        }
}

const struct op op_mask_logits = {"mask_logits", logit_cols, run_mask, ref_mask};
