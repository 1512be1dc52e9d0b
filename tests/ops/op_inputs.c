/* input_peaks and round_input */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op_cases.h"

/* n columns of a group (0: all); variant: 1 e4m3, else int8; 2 a scale that is given; n_parts ranks that
 * share the columns, 0: one. */
enum { E4M3 = 1, GIVEN = 2 };

static struct input_rule rule_of(const struct op_case *c)
{
    return (struct input_rule){.grid = c->variant & E4M3 ? GRID_E4M3 : GRID_INT8,
                               .scale = c->variant & GIVEN ? 0.004f : 0.0f,
                               .group = c->n,
                               .all = c->k,
                               .shared = c->n_parts > 1};
}

/* Some rows are zeros, of some many values are below e4m3's normal range. */
static float x_at(int32_t t, int32_t i)
{
    float v = in_f32(120, t, i);
    return t % 5 == 3 ? 0.0f : t % 5 == 4 ? v * v * v * v * v * 1e-3f : 3.0f * v;
}

/* A row: its rounded values, then the peaks of its groups. */
static int32_t input_cols(const struct op_case *c)
{
    struct input_rule r = rule_of(c);
    return c->k + input_groups(&r);
}

/* Columns [first, end) of each row. */
static struct view share_of(struct view v, int32_t first, int32_t end)
{
    v.off += (size_t)first * sizeof(float);
    v.cols = end - first;
    return v;
}

static int32_t first_of(const struct op_case *c, int32_t rank)
{
    int32_t ranks = c->n_parts ? c->n_parts : 1;
    return (int32_t)((int64_t)c->k * rank / ranks);
}

/* The greatest peaks of all ranks, of rows [0, n); peaks [n, groups] zeros. */
static void merge_peaks(struct op_env *e, const struct op_case *c, struct view vx, float *peaks)
{
    struct input_rule r = rule_of(c);
    size_t all = (size_t)vx.rows * (size_t)input_groups(&r);
    float *own = calloc(all + 1, sizeof *own);
    for (int32_t rank = 0; rank < (c->n_parts ? c->n_parts : 1); rank++) {
        int32_t end = first_of(c, rank + 1);
        struct view vp = env_view(e, vx.rows, input_groups(&r), DT_F32, NULL);
        r.first = first_of(c, rank);
        ENV_RUN(e, e->ops->input_peaks(e->be, &r, share_of(vx, r.first, end), vp));
        env_read(e, own, vp);
        for (size_t i = 0; i < all; i++)
            peaks[i] = own[i] > peaks[i] ? own[i] : peaks[i];
    }
    free(own);
}

static enum status run_inputs(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                              float *out)
{
    struct op_env e = env_open(be);
    struct input_rule r = rule_of(c);
    int32_t groups = input_groups(&r), cols = input_cols(c);
    float *x = calloc((size_t)n * (size_t)c->k + 1, sizeof *x);
    float *peaks = calloc((size_t)n * (size_t)groups + 1, sizeof *peaks);
    for (int32_t t = 0; t < n; t++)
        for (int32_t i = 0; i < c->k; i++)
            x[op_at(t, c->k, i)] = x_at(first + t, i);
    struct view vx = env_view(&e, n, c->k, DT_F32, x), vp = {0};
    merge_peaks(&e, c, vx, peaks);
    if (r.shared)
        vp = env_view(&e, n, groups, DT_F32, peaks);
    struct view vo = r.shared ? env_view(&e, n, c->k, DT_F32, NULL) : vx; /* out may be x */
    for (int32_t rank = 0; rank < (c->n_parts ? c->n_parts : 1); rank++) {
        int32_t end = first_of(c, rank + 1);
        r.first = first_of(c, rank);
        ENV_RUN(&e, e.ops->round_input(be, &r, share_of(vx, r.first, end), vp,
                                       share_of(vo, r.first, end)));
    }
    env_read(&e, x, vo);
    for (int32_t t = 0; t < n; t++) {
        memcpy(out + op_at(t, cols, 0), x + op_at(t, c->k, 0), (size_t)c->k * sizeof *out);
        memcpy(out + op_at(t, cols, c->k), peaks + op_at(t, groups, 0),
               (size_t)groups * sizeof *out);
    }
    free(x);
    free(peaks);
    return env_close(&e);
}

double op_on_grid(enum input_grid grid, double y, double *step)
{
    bool e4m3 = grid == GRID_E4M3;
    double low = e4m3 ? -448 : -128, top = e4m3 ? 448 : 127;
    y = fmin(fmax(y, low), top);
    *step = !e4m3 ? 1 : fabs(y) < 0x1p-6 ? 0x1p-9 : exp2(floor(log2(fabs(y))) - 3);
    return nearbyint(y / *step) * *step;
}

/* Exact: the scale and the division are in f32 as the op's. */
static void ref_inputs(const struct op_case *c, double *out, double *bound)
{
    struct input_rule r = rule_of(c);
    int32_t groups = input_groups(&r), cols = input_cols(c), width = c->n ? c->n : c->k;
    for (int32_t t = 0; t < c->rows; t++)
        for (int32_t g = 0; g < groups; g++) {
            int32_t end = (g + 1) * width < c->k ? (g + 1) * width : c->k;
            float peak = 0;
            for (int32_t i = g * width; i < end; i++)
                peak = fmaxf(peak, fabsf(x_at(t, i)));
            float scale = r.scale > 0 ? r.scale : peak / (c->variant & E4M3 ? 448.0f : 127.5f);
            out[op_at(t, cols, c->k + g)] = (double)peak;
            bound[op_at(t, cols, c->k + g)] = 0;
            for (int32_t i = g * width; i < end; i++) {
                double step, y = scale > 0 ? (double)(x_at(t, i) / scale) : 0;
                out[op_at(t, cols, i)] = (double)((float)op_on_grid(r.grid, y, &step) * scale);
                bound[op_at(t, cols, i)] = 0;
            }
        }
}

const struct op op_round_input = {"round_input", input_cols, run_inputs, ref_inputs};
