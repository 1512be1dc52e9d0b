/* Every op of the CPU backend: the plain path against double precision, and every instruction set,
 * thread count and batch against the plain path bit for bit. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_cases.h"

static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};

static struct backend *open_cpu(const char *isa, int threads)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.threads = threads, .isa = isa};
    enum status st = backend_open(&be, "cpu", &cfg);
    if (st == ST_UNSUPPORTED)
        return NULL;
    cr_assert_eq(st, ST_OK, "%s", status_detail());
    return be;
}

static void close_cpu(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

static size_t n_results(const struct op_case *c)
{
    return (size_t)c->rows * (size_t)c->op->cols(c);
}

static float *results(struct backend *be, const struct op_case *c)
{
    float *out = calloc(n_results(c) + 1, sizeof *out);
    cr_assert_eq(c->op->run(be, c, 0, c->rows, out), ST_OK, "%s: %s", op_case_name(c),
                 status_detail());
    return out;
}

static void check_same(const struct op_case *c, const float *a, const float *b, const char *what)
{
    for (size_t i = 0; i < n_results(c); i++)
        if (bits_of_f32(a[i]) != bits_of_f32(b[i]))
            cr_assert_fail("%s: %s: row %zu column %zu: %a, expected %a", op_case_name(c), what,
                           i / (size_t)c->op->cols(c), i % (size_t)c->op->cols(c), a[i], b[i]);
}

static void check_reference(const struct op_case *c, const float *got)
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

Test(ops, plain_agrees_with_double_precision)
{
    struct backend *be = open_cpu("plain", 1);
    for (size_t i = 0; i < n_op_cases; i++) {
        float *out = results(be, &op_cases[i]);
        check_reference(&op_cases[i], out);
        free(out);
    }
    close_cpu(be);
}

/* Instruction sets x threads against plain with one thread. */
Test(ops, same_bits_on_every_instruction_set_and_thread_count)
{
    struct backend *plain = open_cpu("plain", 1), *others[ARRAY_LEN(isas) * 3];
    char names[ARRAY_LEN(isas) * 3][32];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(isas); i++)
        for (int threads = 1; threads <= 3; threads++) {
            others[n] = open_cpu(isas[i], threads);
            if (!others[n] || (i == 0 && threads != 3)) {
                if (others[n])
                    close_cpu(others[n]);
                continue;
            }
            snprintf(names[n++], sizeof names[0], "%s, %d threads", isas[i], threads);
        }
    for (size_t i = 0; i < n_op_cases; i++) {
        float *want = results(plain, &op_cases[i]);
        for (size_t j = 0; j < n; j++) {
            float *got = results(others[j], &op_cases[i]);
            check_same(&op_cases[i], got, want, names[j]);
            free(got);
        }
        free(want);
    }
    cr_log_info("compared: %zu settings, %zu cases", n, n_op_cases);
    for (size_t j = 0; j < n; j++)
        close_cpu(others[j]);
    close_cpu(plain);
}

/* The same rows in calls of `chunk` rows. */
static void check_chunks(struct backend *be, const struct op_case *c, int32_t chunk,
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

Test(ops, rows_do_not_depend_on_their_neighbours)
{
    for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
        struct backend *be = open_cpu(isas[i], 2);
        for (size_t j = 0; be && j < n_op_cases; j++) {
            const struct op_case *c = &op_cases[j];
            if (c->rows > 50 ||
                (i == 0 && c->rows > 20)) /* what one row cannot show in a short time */
                continue;
            float *want = results(be, c);
            check_chunks(be, c, 1, want);
            check_chunks(be, c, 5, want);
            free(want);
        }
        if (be)
            close_cpu(be);
    }
}

Test(ops, large_cases_in_chunks)
{
    struct backend *be = open_cpu("auto", 2);
    for (size_t j = 0; j < n_op_cases; j++) {
        if (op_cases[j].rows <= 50)
            continue;
        float *want = results(be, &op_cases[j]);
        check_chunks(be, &op_cases[j], 61, want);
        free(want);
    }
    close_cpu(be);
}
