/* What the tests of all backends ask of a case: agreement with the reference, bits that do not
 * depend on the other rows. */
#ifndef TESTS_OPS_OP_CHECKS_H
#define TESTS_OPS_OP_CHECKS_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

static inline size_t n_results(const struct op_case *c)
{
    return (size_t)c->rows * (size_t)c->op->cols(c);
}

static inline float *results(struct backend *be, const struct op_case *c)
{
    float *out = calloc(n_results(c) + 1, sizeof *out);
    cr_assert_eq(c->op->run(be, c, 0, c->rows, out), ST_OK, "%s: %s", op_case_name(c),
                 status_detail());
    return out;
}

static inline void check_same(const struct op_case *c, const float *a, const float *b,
                              const char *what)
{
    for (size_t i = 0; i < n_results(c); i++)
        if (bits_of_f32(a[i]) != bits_of_f32(b[i]))
            cr_assert_fail("%s: %s: row %zu column %zu: %a, expected %a", op_case_name(c), what,
                           i / (size_t)c->op->cols(c), i % (size_t)c->op->cols(c), a[i], b[i]);
}

static inline void check_reference(const struct op_case *c, const float *got)
{
    size_t n = n_results(c);
    double *want = calloc(n + 1, sizeof *want), *bound = calloc(n + 1, sizeof *bound);
    c->op->reference(c, want, bound);
    for (size_t i = 0; i < n; i++) {
        double v = got[i];
        bool fine = isinf(want[i]) ? v == want[i] : fabs(v - want[i]) <= bound[i];
        if (!fine)
            cr_assert_fail("%s: row %zu column %zu: %.9g, expected %.9g within %.3g",
                           op_case_name(c), i / (size_t)c->op->cols(c), i % (size_t)c->op->cols(c),
                           v, want[i], bound[i]);
    }
    free(want);
    free(bound);
}

/* The same rows in calls of `chunk` rows. */
static inline void check_chunks(struct backend *be, const struct op_case *c, int32_t chunk,
                                const float *want)
{
    size_t cols = (size_t)c->op->cols(c);
    float *got = calloc(n_results(c) + 1, sizeof *got);
    for (int32_t r = 0; r < c->rows; r += chunk) {
        int32_t n = c->rows - r < chunk ? c->rows - r : chunk;
        cr_assert_eq(c->op->run(be, c, r, n, got + (size_t)r * cols), ST_OK, "%s", status_detail());
    }
    check_same(c, got, want, chunk == 1 ? "alone" : "in chunks");
    free(got);
}

/* part[0], after the others [size] are added to it pairwise, as ranks are, and freed. */
static inline float *sum_of_ranks(float *part[N_SLICES], int world, size_t size)
{
    for (int apart = 1; apart < world; apart *= 2)
        for (int r = 0; r < world; r += 2 * apart)
            for (size_t i = 0; i < size; i++)
                part[r][i] += part[r + apart][i];
    for (int r = 1; r < world; r++)
        free(part[r]);
    return part[0];
}

#endif
