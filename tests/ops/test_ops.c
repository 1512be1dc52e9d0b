/* Every op of the CPU backend: the plain path against double precision, and every instruction set,
 * thread count and batch against the plain path bit for bit. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_checks.h"

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
