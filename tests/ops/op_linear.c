/* linear and embed: matrices */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"
#include "quant_blocks.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */

static int32_t out_cols(const struct op_case *c)
{
    return c->n;
}

static int parts_of(const struct op_case *c)
{
    return c->n_parts > 0 ? c->n_parts : 1;
}

/* Rows of part i: thirds of different sizes; the last takes the rest. */
static int32_t part_rows(const struct op_case *c, int i)
{
    int n = parts_of(c);
    int32_t each = c->n / (n + 1);
    return i < n - 1 ? each : c->n - each * (n - 1);
}

static int part_of(const struct op_case *c, int32_t row)
{
    int i = 0;
    for (; i < parts_of(c) - 1 && row >= part_rows(c, i); i++)
        row -= part_rows(c, i);
    return i;
}

/* variant 1: the second part has another type */
static enum dtype part_type(const struct op_case *c, int i)
{
    return c->variant == 1 && i == 1 ? DT_F16 : c->dtype;
}

/* Indexed types: an element, the group of a column, and the scale and the minimum of a group. */
enum { INDEX_GROUPS = 5 };
static int8_t element_at(enum dtype t, int32_t n, int32_t k)
{
    int32_t x = (int32_t)((uint32_t)(n * 131 + k) * 2654435761U >> 24);
    return (int8_t)(t == DT_INT8_INDEX || t == DT_INT8_SORTED ? x - 128 : x % 16);
}

static uint16_t group_of(int32_t part, int32_t k)
{
    return (uint16_t)((k * 7 + k / 11 + part) % INDEX_GROUPS);
}

static float group_scale(int32_t n, int32_t g)
{
    return 0.01f * in_f32(5, n, g);
}

static float group_min(int32_t n, int32_t g)
{
    return in_f32(6, n, g);
}

/* Sorted types. */
static int8_t group_zero(enum dtype t, int32_t n, int32_t g)
{
    return element_at(t, n + 7, 1000 + g);
}

/* Types with levels: the rows begin in the middle of a block; the scale of block b of a row, small ones in e4m3, and
 * what these are multiplied with and divided by in a part. */
enum { LEVEL_SKIP = 5 };
static int32_t level_block(enum dtype t)
{
    return t == DT_NF4 ? 64 : t == DT_FP4 ? 32 : 16;
}

static uint8_t small_scale(int32_t n, int32_t b)
{
    return e4m3_of_f32(40.0f * in_f32(4, n, b));
}

static float level_factor(int32_t part)
{
    return part == 1 ? 0.0123f : 1.0f;
}

static float level_divisor(int32_t part)
{
    return part == 1 ? 1.0f : 77.7f;
}

static float level_scale(enum dtype t, int32_t part, int32_t n, int32_t b)
{
    if (t != DT_NVFP4)
        return 0.3f + fabsf(in_f32(4, n, b));
    return f32_of_e4m3(small_scale(n, b)) * level_factor(part) / level_divisor(part);
}

/* Row n as stored, then its values. */
static void store_row(const struct op_case *c, int32_t n, char *p)
{
    enum dtype t = part_type(c, part_of(c, n));
    const struct quant_form *f = quant_form(t);
    if (is_indexed(t) || has_levels(t)) {
        for (int32_t k = 0; k < c->k; k++)
            p[k] = (char)element_at(t, n, k);
        return;
    }
    if (!f) {
        for (int32_t k = 0; k < c->k; k++)
            store_at(p, t, (size_t)k, in_f32(1, n, k));
        return;
    }
    unsigned char *blocks = quant_random_blocks(t, (size_t)c->k, 0.02f, 1000U + (uint32_t)n);
    memcpy(p, blocks, (size_t)(c->k / f->block) * (size_t)f->n_bytes);
    free(blocks);
}

/* E4M3: the scale of block b of a row; the rows begin in the middle of a block. */
enum { FP8_SKIP = 77 };
static float fp8_scale(int32_t n, int32_t b)
{
    return 0.3f + fabsf(in_f32(4, n, b));
}

static void load_row(const struct op_case *c, int32_t n, float *w)
{
    enum dtype t = part_type(c, part_of(c, n));
    char *p = malloc((size_t)c->k * 4 + 1);
    store_row(c, n, p);
    if (is_indexed(t))
        for (int32_t k = 0; k < c->k; k++) {
            int32_t g = group_of(part_of(c, n), k);
            if (is_sorted(t))
                w[k] = group_scale(n, g) * (float)(element_at(t, n, k) - group_zero(t, n, g));
            else
                w[k] = fmaf((float)element_at(t, n, k), group_scale(n, g), group_min(n, g));
        }
    else if (has_levels(t))
        for (int32_t k = 0; k < c->k; k++)
            w[k] = dtype_levels(t)[element_at(t, n, k)] *
                   level_scale(t, part_of(c, n), n, (LEVEL_SKIP + k) / level_block(t));
    else if (quant_form(t))
        quant_expand(t, p, (size_t)c->k, w);
    else
        for (int32_t k = 0; k < c->k; k++)
            w[k] = load_at(p, t, (size_t)k) *
                   (t == DT_E4M3 ? fp8_scale(n, (FP8_SKIP + k) / FP8_BLOCK) : 1.0f);
    free(p);
}

static float bias_at(const struct op_case *c, int32_t n)
{
    bool has = c->bias && (parts_of(c) == 1 || part_of(c, n) != 0);
    return has ? stored_f32(DT_BF16, in_f32(2, n, 0)) : 0.0f;
}

/* Uneven, and with an empty one where there are 8. */
static int32_t slice_end(const struct op_case *c, int i, int n)
{
    if (i == n - 1)
        return c->k;
    int32_t e = (int32_t)((int64_t)c->k * (i + 1) / n);
    return n == N_SLICES && i == 2 ? (int32_t)((int64_t)c->k * i / n) : e;
}

/* Of indexed types: [n, INDEX_GROUPS] of fn; the groups of the columns [parts, k].  Freed by the
 * caller. */
static float *group_table(const struct op_case *c, float (*fn)(int32_t n, int32_t g))
{
    float *out = malloc(((size_t)c->n * INDEX_GROUPS + 1) * sizeof *out);
    for (int32_t i = 0; i < c->n * INDEX_GROUPS; i++)
        out[i] = fn(i / INDEX_GROUPS, i % INDEX_GROUPS);
    return out;
}

/* Of sorted types [n, INDEX_GROUPS]. */
static int8_t *zero_table(const struct op_case *c)
{
    int8_t *out = malloc((size_t)c->n * INDEX_GROUPS + 1);
    for (int32_t i = 0; i < c->n * INDEX_GROUPS; i++)
        out[i] = group_zero(c->dtype, i / INDEX_GROUPS, i % INDEX_GROUPS);
    return out;
}

static uint16_t *group_index(const struct op_case *c)
{
    uint16_t *out = malloc(((size_t)parts_of(c) * (size_t)c->k + 1) * sizeof *out);
    for (int32_t i = 0; i < parts_of(c) * c->k; i++)
        out[i] = group_of(i / c->k, i % c->k);
    return out;
}

/* [n, fp8_blocks] of E4M3, freed by the caller. */
static float *fp8_scales(const struct op_case *c)
{
    int32_t each = fp8_blocks(FP8_SKIP, c->k);
    float *scale = malloc(((size_t)c->n * (size_t)each + 1) * sizeof *scale);
    for (int32_t i = 0; i < c->n * each; i++)
        scale[i] = fp8_scale(i / each, i % each);
    return scale;
}

/* Scales of blocks of levels [n, each]; small: e4m3.  Freed by the caller. */
static void *level_scales(const struct op_case *c, int32_t each, bool small)
{
    size_t n = (size_t)c->n * (size_t)each;
    float *scale = malloc((n + 1) * sizeof *scale);
    for (int32_t i = 0; i < c->n * each; i++)
        if (small)
            ((uint8_t *)scale)[i] = small_scale(i / each, i % each);
        else
            scale[i] = level_scale(c->dtype, 0, i / each, i % each);
    return scale;
}

/* File rows with a gap of one byte, so that nothing is aligned. */
static struct weight *load_matrix(struct op_env *e, const struct op_case *c, char **data,
                                  char **bias)
{
    struct weight_src src = {.name = "matrix",
                             .cols = c->k,
                             .n_parts = parts_of(c),
                             .n_slices = c->n_slices > 0 ? c->n_slices : 1};
    struct weight *w = NULL;
    size_t row = (size_t)c->k * 4 + 1;
    char *p = *data = calloc((size_t)c->n + 1, row);
    char *b = *bias = calloc((size_t)c->n + 1, 2);
    size_t n_scales = (size_t)fp8_blocks(FP8_SKIP, c->k);
    float *scale = fp8_scales(c), *group = group_table(c, group_scale),
          *min = group_table(c, group_min);
    uint16_t *index = group_index(c);
    int8_t *zero = zero_table(c);
    int32_t block = level_block(c->dtype);
    size_t n_level_scales = (size_t)scale_blocks(block, LEVEL_SKIP, c->k);
    void *levels = level_scales(c, (int32_t)n_level_scales, c->dtype == DT_NVFP4);
    int32_t n = 0;
    for (int i = 0; i < src.n_slices; i++)
        src.slice_end[i] = slice_end(c, i, src.n_slices);
    for (int i = 0; i < src.n_parts; i++) {
        enum dtype t = part_type(c, i);
        src.part[i] =
            (struct weight_part){.data = p,
                                 .row_bytes = row,
                                 .dtype = t,
                                 .rows = part_rows(c, i),
                                 .bias_dtype = DT_BF16,
                                 .bias = c->bias && (src.n_parts == 1 || i != 0) ? b : NULL};
        if (t == DT_E4M3) {
            src.part[i].scale = scale + (size_t)n * n_scales;
            src.part[i].scale_stride = n_scales;
            src.part[i].skip = FP8_SKIP;
        } else if (is_indexed(t)) {
            src.part[i].scale = group + (size_t)n * INDEX_GROUPS;
            src.part[i].min = is_sorted(t) ? NULL : min + (size_t)n * INDEX_GROUPS;
            src.part[i].zero = is_sorted(t) ? zero + (size_t)n * INDEX_GROUPS : NULL;
            src.part[i].scale_stride = INDEX_GROUPS;
            src.part[i].index = index + (size_t)i * (size_t)c->k;
        } else if (has_levels(t)) {
            size_t at = (size_t)n * n_level_scales;
            src.part[i].scale = t == DT_NVFP4 ? NULL : (float *)levels + at;
            src.part[i].small_scale = t == DT_NVFP4 ? (uint8_t *)levels + at : NULL;
            src.part[i].scale_stride = n_level_scales;
            src.part[i].block = block;
            src.part[i].skip = LEVEL_SKIP;
            src.part[i].factor = level_factor(i);
            src.part[i].divisor = level_divisor(i);
        }
        for (int32_t r = 0; r < part_rows(c, i); r++, n++, p += row, b += 2) {
            store_row(c, n, p);
            store_at(b, DT_BF16, 0, in_f32(2, n, 0));
        }
    }
    ENV_RUN(e, e->ops->load_weight(e->be, &src, &w));
    free(scale);
    free(group);
    free(min);
    free(index);
    free(zero);
    free(levels);
    if (w)
        e->weights[e->n_weights++] = w;
    return w;
}

static enum status run_linear(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                              float *out)
{
    struct op_env e = env_open(be);
    char *data, *bias;
    float *x = in_rows(3, first, n, c->k);
    struct weight *w = load_matrix(&e, c, &data, &bias);
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vo = env_view(&e, n, c->n, DT_F32, NULL);
    ENV_RUN(&e, e.ops->linear(be, w, vx, vo));
    env_read(&e, out, vo);
    free(x);
    free(data);
    free(bias);
    return env_close(&e);
}

/* Half a step of x in 8 bits for each weight of a run.
 * A run is the part of a group of 32 that is in one slice. */
static double rounding_of_x(const struct op_case *c, int32_t t, const float *w)
{
    double error = 0;
    for (int32_t k = 0, end, slice = 0; k < c->k; k = end) {
        int n_slices = c->n_slices > 0 ? c->n_slices : 1;
        double amax = 0, weights = 0;
        while (slice_end(c, slice, n_slices) <= k)
            slice++;
        end = (k / 32 + 1) * 32;
        end = end < slice_end(c, slice, n_slices) ? end : slice_end(c, slice, n_slices);
        for (int32_t i = k; i < end; i++) {
            amax = fmax(amax, fabs((double)in_f32(3, t, i)));
            weights += fabs((double)w[i]);
        }
        error += amax / 254 * weights;
    }
    return error;
}

/* The same of sorted columns: a run is at most 32 columns of one group of weights, ascending, that are in one slice. */
static double rounding_of_sorted(const struct op_case *c, int32_t t, int32_t part, const float *w)
{
    double error = 0;
    int n_slices = c->n_slices > 0 ? c->n_slices : 1;
    for (int s = 0; s < n_slices; s++)
        for (int32_t g = 0; g < INDEX_GROUPS; g++) {
            double amax = 0, weights = 0;
            int32_t n = 0;
            for (int32_t k = s ? slice_end(c, s - 1, n_slices) : 0; k < slice_end(c, s, n_slices);
                 k++) {
                if (group_of(part, k) != g)
                    continue;
                amax = fmax(amax, fabs((double)in_f32(3, t, k)));
                weights += fabs((double)w[k]);
                if (++n % 32 == 0) {
                    error += amax / 254 * weights;
                    amax = weights = 0;
                }
            }
            error += amax / 254 * weights;
        }
    return error;
}

static void ref_linear(const struct op_case *c, double *out, double *bound)
{
    float *w = malloc(((size_t)c->k + 1) * sizeof *w);
    for (int32_t n = 0; n < c->n; n++) {
        bool quant = quant_form(part_type(c, part_of(c, n))) != NULL;
        load_row(c, n, w);
        for (int32_t t = 0; t < c->rows; t++) {
            double sum = 0, mag = 0, rounding = quant ? rounding_of_x(c, t, w) : 0;
            if (is_sorted(part_type(c, part_of(c, n))))
                rounding = rounding_of_sorted(c, t, part_of(c, n), w);
            for (int32_t k = 0; k < c->k; k++) {
                double p = (double)w[k] * (double)in_f32(3, t, k);
                sum += p;
                mag += fabs(p);
            }
            size_t at = (size_t)t * (size_t)c->n + (size_t)n;
            out[at] = sum + bias_at(c, n);
            /* a minimum and the rest of a value may be greater than the value: 254 for that */
            bound[at] = ((c->k + 5) * (mag + 254 * rounding) + fabs(out[at])) * EPS;
            bound[at] += rounding * (1 + 1e-4) + c->x_eps * mag;
        }
    }
    free(w);
}

const struct op op_linear = {"linear", out_cols, run_linear, ref_linear};

/* ids: also before and beyond this rank's share, which begins at 5 */
static int32_t id_at(const struct op_case *c, int32_t t)
{
    return t % 7 == 6 ? (t % 2 ? 4 : c->n + 5)
                      : 5 + (int32_t)((int64_t)t * 31 % (c->n > 0 ? c->n : 1));
}

static int32_t embed_cols(const struct op_case *c)
{
    return c->k;
}

static enum status run_embed(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                             float *out)
{
    struct op_env e = env_open(be);
    char *data, *bias;
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    for (int32_t i = 0; i < n; i++)
        ids[i] = id_at(c, first + i);
    struct weight *w = load_matrix(&e, c, &data, &bias);
    struct view vi = env_packed(&e, n, 1, DT_I32, ids), vo = env_view(&e, n, c->k, DT_F32, NULL);
    ENV_RUN(&e, e.ops->embed(be, w, 5, vi, vo));
    env_read(&e, out, vo);
    free(ids);
    free(data);
    free(bias);
    return env_close(&e);
}

static void ref_embed(const struct op_case *c, double *out, double *bound)
{
    float *w = malloc(((size_t)c->k + 1) * sizeof *w);
    for (int32_t t = 0; t < c->rows; t++) {
        int32_t n = id_at(c, t) - 5;
        bool known = n >= 0 && n < c->n;
        if (known)
            load_row(c, n, w);
        for (int32_t k = 0; k < c->k; k++) {
            size_t at = (size_t)t * (size_t)c->k + (size_t)k;
            out[at] = known ? (double)w[k] : 0.0;
            bound[at] = 0;
        }
    }
    free(w);
}

const struct op op_embed = {"embed", embed_cols, run_embed, ref_embed};
