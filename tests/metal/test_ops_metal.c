/* Every op that the Metal backend has, on the tests' double of Metal: against double precision, rows
 * alone, and with threads in other orders, which shows a missing barrier. */
#include "double.h"

#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "effort.h"
#include "lacks.h"
#include "no_cache.h"
#include "ops/op_checks.h"
#include "ops/op_unheld.h"

static const uint64_t seeds[] = {0, 20241};

static struct backend *open_metal(void)
{
    struct backend *be = NULL;
    cr_assert_eq(backend_open(&be, "metal", &(struct backend_config){0}), ST_OK, "%s",
                 status_detail());
    metal_double_check_writes(true);
    return be;
}

/* Products by simdgroup matrices. */
static struct backend *open_matrices(void)
{
    cr_assert_eq(setenv("INGOT_METAL_PRODUCTS", "matrices", 1), 0);
    return open_metal();
}

static void close_metal(struct backend *be)
{
    check_no_cache(be);
    backend_ops_of(be)->close(be);
    cr_assert_eq(metal_double_live(), 0);
}

/* Of the environment's INGOT_OPS, "linear,embed", if it is set: the ops that are run. */
static bool wanted(const char *name)
{
    const char *all = getenv("INGOT_OPS"), *at = all;
    size_t n = strlen(name);
    while (at && (at = strstr(at, name)) &&
           ((at > all && at[-1] != ',') || (at[n] && at[n] != ',')))
        at += n;
    return !all || at;
}

/* Large cases whose kernels differ in the reading of an element: of f32 alone, unless INGOT_ALL asks for
 * everything. */
static bool repeats(const struct op_case *c)
{
    bool large = (c->op == &op_attention_latent && c->rows * c->n_q * c->d > 1 << 15) ||
                 (c->op == &op_heads_linear && c->k * c->n >= 1 << 16);
    return large && c->dtype != DT_F32;
}

/* Is the case for an op and a type of this backend, and within the work that an emulator can do? */
static bool runs(const struct op_case *c)
{
    if (metal_lacks(c) || !wanted(c->op->name) || (repeats(c) && !everything()))
        return false;
    /* Cheap ones, and a window on both sides, which few rows do not show. */
    bool many = c->op == &op_known_ids || c->op == &op_take_tokens ||
                (c->op == &op_attention_full && c->window > 0);
    return c->rows <= (many ? 300 : everything() ? 200 : 50);
}

Test(ops_metal, agrees_with_double_precision)
{
    struct backend *be = open_metal();
    size_t n = 0;
    for (size_t s = everything() ? 0 : 1; s < ARRAY_LEN(seeds); s++) {
        metal_double_seed(seeds[s]);
        for (size_t i = 0; i < n_op_cases; i++) {
            if (!runs(&op_cases[i]))
                continue;
            float *out = results(be, &op_cases[i]);
            check_reference(&op_cases[i], out);
            free(out);
            n++;
        }
    }
    cr_log_info("%zu cases", n);
    cr_assert_gt(n, getenv("INGOT_OPS") ? 0 : 150);
    close_metal(be);
}

/* Is each row of the case run alone, too?  Else in chunks of several. */
static bool each_alone(const struct op_case *c)
{
    return everything() || (!SANITIZED && c->rows <= 9);
}

Test(ops_metal, rows_do_not_depend_on_their_neighbours)
{
    struct backend *be = open_metal();
    for (size_t i = 0; i < n_op_cases; i++) {
        const struct op_case *c = &op_cases[i];
        if (!runs(c) || c->rows > (everything() ? 50 : 20))
            continue;
        metal_double_seed(0);
        float *want = results(be, c);
        metal_double_seed(seeds[1]);
        if (each_alone(c))
            check_chunks(be, c, 1, want);
        check_chunks(be, c, 5, want);
        free(want);
    }
    close_metal(be);
}

/* Devices whose matrices have other places of elements and other orders of sums. */
static const uint64_t devices[] = {0, 1, 5, 62};

/* Of case i: each on one of the devices in turn, so that every kernel meets all of them; with INGOT_ALL on each.  Experts, whose
 * cases are large, on one device. */
static bool by_matrices(size_t i, size_t device)
{
    const struct op_case *c = &op_cases[i];
    return (metal_by_matrices(c) && (everything() || i % ARRAY_LEN(devices) == device)) ||
           (c->op == &op_moe_ffn && devices[device] == 5);
}

/* Chunks of 9 and 5 rows meet both kernels; without INGOT_ALL a case has one of them. */
Test(ops_metal, matrix_products_have_the_bits_of_rows_alone)
{
    size_t n = 0, of = 0;
    for (size_t d = 0; d < ARRAY_LEN(devices); d++) {
        metal_double_matrices(devices[d]);
        struct backend *be = open_matrices();
        for (size_t i = 0; i < n_op_cases; i++) {
            const struct op_case *c = &op_cases[i];
            of += metal_by_matrices(c) && runs(c);
            if (!by_matrices(i, d) || !runs(c))
                continue;
            metal_double_seed(0);
            float *out = results(be, c);
            check_reference(c, out);
            metal_double_seed(seeds[1]);
            if (each_alone(c))
                check_chunks(be, c, 1, out);
            bool larger = i / ARRAY_LEN(devices) % 2;
            if (everything() || !larger)
                check_chunks(be, c, 5, out);
            if (everything() || larger)
                check_chunks(be, c, 9, out);
            free(out);
            n++;
        }
        close_metal(be);
    }
    cr_log_info("%zu cases of %zu that INGOT_ALL runs", n, of);
}

/* Dispatches and command buffers of one token or tile each have the bits of one dispatch. */
Test(ops_metal, attention_that_is_cut_has_the_same_bits)
{
    int n = 0;
    for (int matrices = 0; matrices < 2; matrices++) {
        struct backend *be = matrices ? open_matrices() : open_metal();
        for (size_t i = 0; i < n_op_cases; i++) {
            const struct op_case *c = &op_cases[i];
            if (!metal_by_matrices(c) || c->n_kv == 0 || c->rows < 5 || c->rows > 20 || !runs(c) ||
                (c->op == &op_attention_latent && c->dtype != DT_F32))
                continue;
            uint64_t before[] = {metal_double_dispatches(), 0, 0};
            be->max_work = METAL_MAX_WORK;
            float *want = results(be, c);
            before[1] = metal_double_dispatches();
            be->max_work = 1;
            float *got = results(be, c);
            before[2] = metal_double_dispatches();
            int32_t tiles = c->rows * c->q_per_kv / 8 + c->n_seqs;
            int32_t most = matrices && tiles < c->rows ? tiles : c->rows;
            cr_assert_geq(before[2] - before[1], before[1] - before[0] + (uint64_t)most - 1, "%s",
                          op_case_name(c));
            cr_assert_arr_eq(got, want, (size_t)c->rows * (size_t)c->op->cols(c) * sizeof *got,
                             "%s", op_case_name(c));
            free(want);
            free(got);
            n++;
        }
        close_metal(be);
    }
    cr_assert(getenv("INGOT_OPS") || n > 8);
}

Test(ops_metal, what_a_cache_cannot_hold_is_seen_by_later_tokens_alone)
{
    struct backend *be = open_metal();
    check_unheld_entries(be);
    close_metal(be);
    metal_double_matrices(5);
    be = open_matrices();
    check_unheld_entries(be);
    close_metal(be);
}
