/* Every op of the CPU backend: the plain path against double precision, and every instruction set,
 * thread count and batch against the plain path bit for bit. */
#include <stdio.h>

#include "common/quant.h"
#include "effort.h"
#include "isas.h"
#include "ops/op_checks.h"

/* Does the instruction set have kernels of its own for this case? */
static bool has_kernels(const char *isa, const struct op_case *c)
{
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++)
        if (strcmp(float_isas[i], isa) == 0)
            return true;
    return quant_form(c->dtype) != NULL;
}

Test(ops, plain_agrees_with_double_precision)
{
    if (reduced())
        cr_skip_test("the other cases run the same under a sanitizer; with tests/run.sh --all");
    struct backend *be = open_isa("plain", 1);
    for (size_t i = 0; i < n_op_cases; i++) {
        struct op_case c = op_cases[i];
        c.words = c.dtype == DT_I8;
        float *out = results(be, &c);
        check_reference(&c, out);
        free(out);
    }
    close_isa(be);
}

struct setting {
    const char *isa;
    int threads;
    struct backend *be;
};

/* Instruction sets x threads against plain with one thread. */
Test(ops, same_bits_on_every_instruction_set_and_thread_count)
{
    enum { MAX_THREADS = 3 };
    struct backend *plain = open_isa("plain", 1);
    struct setting others[ARRAY_LEN(all_isas) * MAX_THREADS];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++)
        for (int threads = i == 0 || reduced() ? MAX_THREADS : 1; threads <= MAX_THREADS;
             threads++) {
            others[n] = (struct setting){all_isas[i], threads, open_isa(all_isas[i], threads)};
            n += others[n].be != NULL;
        }
    for (size_t i = 0; i < n_op_cases; i++) {
        float *want = results(plain, &op_cases[i]);
        for (size_t j = 0; j < n; j++) {
            char name[32];
            if (!has_kernels(others[j].isa, &op_cases[i]))
                continue;
            snprintf(name, sizeof name, "%s, %d threads", others[j].isa, others[j].threads);
            float *got = results(others[j].be, &op_cases[i]);
            check_same(&op_cases[i], got, want, name);
            free(got);
        }
        free(want);
    }
    cr_log_info("compared: %zu settings, %zu cases", n, n_op_cases);
    for (size_t j = 0; j < n; j++)
        close_isa(others[j].be);
    close_isa(plain);
}

/* Cases of [least, most] rows in calls of `chunk` rows, on every instruction set; plain_most: most
 * rows on plain, whose time is bounded. */
static void check_all_chunks(int32_t least, int32_t most, int32_t plain_most, int32_t chunk)
{
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++) {
        struct backend *be = open_isa(all_isas[i], 2);
        for (size_t j = 0; be && j < n_op_cases; j++) {
            const struct op_case *c = &op_cases[j];
            if (c->rows < least || c->rows > (i == 0 ? plain_most : most) ||
                !has_kernels(all_isas[i], c))
                continue;
            float *want = results(be, c);
            check_chunks(be, c, chunk, want);
            free(want);
        }
        close_isa(be);
    }
}

Test(ops, rows_do_not_depend_on_their_neighbours)
{
    if (!reduced())
        check_all_chunks(0, 50, 20, 1);
    check_all_chunks(0, 50, 20, 5);
    check_all_chunks(0, 50, 20, 16);
}

Test(ops, large_cases_in_chunks)
{
    check_all_chunks(51, INT32_MAX, 0, 61);
}
