/* input_peaks and round_input: against a reference that searches the grid, in the same bits on every instruction set and
 * for any number of ranks. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "isas.h"
#include "ops/op_cases.h"

enum { T = 5, K = 300 };

static struct view rows_of(struct buf *b, int32_t n)
{
    return (struct view){.buf = b, .rows = T, .cols = n, .stride = n, .dtype = DT_F32};
}

/* The number of the grid that is nearest to y, of two the one with an even last bit; y is in range. */
static double nearest(enum input_grid grid, double y)
{
    double step = 1, a = fabs(y);
    if (grid == GRID_E4M3)
        step = a < 0x1p-6 ? 0x1p-9 : exp2(floor(log2(a)) - 3);
    return copysign(nearbyint(a / step) * step, y);
}

static float reference(const struct input_rule *r, float x, float peak)
{
    double top = r->grid == GRID_E4M3 ? 448 : 127, low = r->grid == GRID_E4M3 ? -448 : -128;
    float scale = r->scale > 0 ? r->scale : peak / (r->grid == GRID_E4M3 ? 448.0f : 127.5f);
    float y = scale > 0 ? x / scale : 0.0f;
    return (float)nearest(r->grid, fmin(fmax((double)y, low), top)) * scale;
}

static float in(int32_t t, int32_t k)
{
    static const float special[] = {0.0f, -0.0f, 1e-30f, -1e-38f, 3.0f, -3.0f};
    float f = in_f32(77, t, k);
    if (t == 1)
        return 0.0f; /* a row of zeros */
    if (t == 2 && k < (int32_t)ARRAY_LEN(special))
        return special[k];
    return t == 3 ? f * f * f * f * f * 1e-3f : f * 3.0f; /* many below e4m3's normal range */
}

/* All rows, by `ranks` shares, each with the greatest peaks of all; out [T, K] */
static void run(const char *isa, int threads, const struct input_rule *rule, int ranks, float *out)
{
    struct backend *be = open_isa(isa, threads);
    const struct backend_ops *op = backend_ops_of(be);
    int32_t groups = input_groups(rule);
    float *peaks = calloc((size_t)T * (size_t)groups, sizeof *peaks),
          *x = malloc(sizeof(float[T * K]));
    float *own = malloc((size_t)T * (size_t)groups * sizeof *own);
    struct buf *bx, *bp;
    cr_assert_eq(op->alloc(be, sizeof(float[T * K]), MEM_DEVICE, &bx), ST_OK);
    cr_assert_eq(op->alloc(be, (size_t)T * (size_t)groups * sizeof *own, MEM_DEVICE, &bp), ST_OK);
    struct view vp = rows_of(bp, groups);
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < ranks; r++) {
            struct input_rule share = *rule;
            share.first = K * r / ranks;
            share.shared = ranks > 1;
            int32_t n = K * (r + 1) / ranks - share.first;
            struct view vx = rows_of(bx, n), none = {0};
            for (int32_t t = 0; t < T; t++)
                for (int32_t k = 0; k < n; k++)
                    x[t * n + k] = in(t, share.first + k);
            cr_assert_eq(op->write(be, vx, x), ST_OK);
            if (pass == 0) {
                cr_assert_eq(op->input_peaks(be, &share, vx, vp), ST_OK);
                cr_assert_eq(op->read(be, own, vp), ST_OK);
                for (int32_t i = 0; i < T * groups; i++)
                    peaks[i] = fmaxf(peaks[i], own[i]);
                continue;
            }
            cr_assert_eq(op->write(be, vp, peaks), ST_OK);
            cr_assert_eq(op->round_input(be, &share, vx, ranks > 1 ? vp : none, vx), ST_OK);
            cr_assert_eq(op->read(be, x, vx), ST_OK);
            for (int32_t t = 0; t < T; t++)
                memcpy(out + t * K + share.first, x + t * n, (size_t)n * sizeof *x);
        }
    op->free(be, bx);
    op->free(be, bp);
    op->close(be);
    free(peaks);
    free(own);
    free(x);
}

static const struct input_rule rules[] = {
    {.grid = GRID_INT8, .all = K},
    {.grid = GRID_E4M3, .all = K},
    {.grid = GRID_E4M3, .all = K, .group = 128},
    {.grid = GRID_INT8, .all = K, .group = 1},
    {.grid = GRID_E4M3, .all = K, .group = 7},
    {.grid = GRID_E4M3, .all = K, .scale = 0.003f}, /* saturates */
    {.grid = GRID_INT8, .all = K, .scale = 0.017f},
};

Test(inputs, each_value_becomes_the_nearest_of_its_grid)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct input_rule *r = &rules[i];
        int32_t group = r->group ? r->group : K;
        float got[T * K];
        run("plain", 1, r, 1, got);
        for (int32_t t = 0; t < T; t++)
            for (int32_t k = 0; k < K; k++) {
                float peak = 0;
                for (int32_t j = k / group * group; j < K && j < (k / group + 1) * group; j++)
                    peak = fmaxf(peak, fabsf(in(t, j)));
                float want = reference(r, in(t, k), peak);
                cr_assert(got[t * K + k] == want,
                          "rule %zu, row %d, column %d: %g becomes %.9g, not %.9g", i, t, k,
                          (double)in(t, k), (double)got[t * K + k], (double)want);
            }
    }
}

Test(inputs, ranks_threads_and_instruction_sets_change_no_bit)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        float want[T * K], got[T * K];
        run("plain", 1, &rules[i], 1, want);
        for (int ranks = 1; ranks <= 8; ranks++) {
            run("plain", 3, &rules[i], ranks, got);
            cr_expect_arr_eq(got, want, sizeof want, "rule %zu: other bits on %d ranks", i, ranks);
        }
        run("auto", 2, &rules[i], 3, got);
        cr_expect_arr_eq(got, want, sizeof want, "rule %zu: other bits", i);
    }
}

Test(inputs, numbers_that_are_none_stay_so)
{
    struct backend *be = open_isa("plain", 1);
    const struct backend_ops *op = backend_ops_of(be);
    struct buf *b;
    cr_assert_eq(op->alloc(be, sizeof(float[T * 4]), MEM_DEVICE, &b), ST_OK);
    for (int grid = GRID_INT8; grid <= GRID_E4M3; grid++)
        for (int zeros = 0; zeros < 2; zeros++) {
            struct input_rule r = {.grid = (enum input_grid)grid, .all = 4};
            float x[T * 4] = {0};
            for (int t = 0; t < T; t++)
                x[4 * t + 1] = NAN, x[4 * t + 2] = zeros ? 0.0f : 2.0f;
            cr_assert_eq(op->write(be, rows_of(b, 4), x), ST_OK);
            cr_assert_eq(op->round_input(be, &r, rows_of(b, 4), (struct view){0}, rows_of(b, 4)),
                         ST_OK);
            cr_assert_eq(op->read(be, x, rows_of(b, 4)), ST_OK);
            cr_expect(isnan(x[1]) && x[0] == 0.0f, "grid %d: %g %g", grid, (double)x[1],
                      (double)x[0]);
            cr_expect(zeros ? x[2] == 0.0f : fabsf(x[2] - 2.0f) < 0.02f, "%g", (double)x[2]);
        }
    op->free(be, b);
    op->close(be);
}
