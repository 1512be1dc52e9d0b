/* BF16 weights with activations rounded to BF16, in both orders of sums: the plain path within what
 * rounding allows of double precision; every instruction set, thread count and batch against the
 * plain path bit for bit; and the probe at start, which must know the other orders. */
#include <stdio.h>

#include "backends/cpu/bf16.h"
#include "effort.h"
#include "isas.h"
#include "ops/op_checks.h"

static const enum activations orders[] = {ACTIVATIONS_BF16, ACTIVATIONS_BF16_TILES};

/* The case with the error that rounding x makes; false: it has no BF16 weights. */
static bool rounded_case(size_t i, struct op_case *c)
{
    *c = op_cases[i];
    c->x_eps = 0x1p-9;
    return op_has_bf16_weights(c);
}

Test(bf16, plain_agrees_with_double_precision)
{
    struct op_case c;
    for (size_t o = 0; o < ARRAY_LEN(orders); o++) {
        struct backend *be = open_rounding("plain", 3, orders[o]);
        for (size_t i = 0; i < n_op_cases; i++) {
            if (!rounded_case(i, &c))
                continue;
            float *out = results(be, &c);
            check_reference(&c, out);
            free(out);
        }
        close_isa(be);
    }
}

static void check_isa(struct backend *be, const struct op_case *c, const float *want,
                      const char *isa)
{
    float *got = results(be, c);
    check_same(c, got, want, isa);
    if (c->rows < 200)
        check_chunks(be, c, 1, want);
    check_chunks(be, c, 61, want);
    free(got);
}

/* The plain path is slow: each of its results serves all instruction sets. */
Test(bf16, same_bits_on_every_instruction_set_and_in_any_batch)
{
    struct op_case c;
    for (size_t o = 0; o < ARRAY_LEN(orders); o++) {
        struct backend *be[ARRAY_LEN(all_isas)];
        for (size_t i = 0; i < ARRAY_LEN(all_isas); i++)
            be[i] = open_rounding(all_isas[i], i ? 2 : 3, orders[o]);
        for (size_t k = 0; k < n_op_cases; k++) {
            if (!rounded_case(k, &c))
                continue;
            float *want = results(be[0], &c);
            for (size_t i = 1; i < ARRAY_LEN(all_isas); i++)
                if (be[i])
                    check_isa(be[i], &c, want, all_isas[i]);
            free(want);
        }
        for (size_t i = 0; i < ARRAY_LEN(all_isas); i++)
            close_isa(be[i]);
    }
}

/* ---- the probe ---- */

/* Wrong in one way each. */
static float wrong(const struct bf16_chain *c, int way, int r, int col)
{
    float acc = c->acc[r][col];
    for (int p = 0; p < c->pairs; p++) {
        const uint16_t *x = c->x + (p / 16 * c->rows + r) * BF16_GROUP + p % 16 * 2,
                       *w = c->w + (p * PANEL + col) * 2;
        float a = f32_of_bf16(x[0]), b = f32_of_bf16(w[0]), a1 = f32_of_bf16(x[1]),
              b1 = f32_of_bf16(w[1]);
        if (way == 0) /* the first element first */
            acc = fmaf(a1, b1, fmaf(a, b, acc));
        else if (way == 1) /* denormals kept */
            acc = fmaf(a, b, fmaf(a1, b1, acc));
        else if (way == 2) { /* not fused */
            volatile float high = a1 * b1, low = a * b;
            acc = acc + high;
            acc = acc + low;
        } else { /* the products added first */
            volatile float both = fmaf(a, b, a1 * b1);
            acc = acc + both;
        }
    }
    return acc;
}

#define WRONG(WAY)                                                                                 \
    static void wrong_##WAY(const struct bf16_chain *c)                                            \
    {                                                                                              \
        for (int r = 0; r < c->rows; r++)                                                          \
            for (int col = 0; col < PANEL; col++)                                                  \
                c->acc[r][col] = wrong(c, WAY, r, col);                                            \
    }
WRONG(0)
WRONG(1)
WRONG(2)
WRONG(3)

/* Kernels may take few rows in another way than many. */
static void wrong_in_many_rows(const struct bf16_chain *c)
{
    if (c->rows > 4)
        wrong_0(c);
    else
        bf16_plain[BF16_TILES].chain(c);
}

Test(bf16, the_probe_reaches_the_kernel_of_many_rows)
{
    struct bf16_kernels k = {.chain = wrong_in_many_rows, .tile_rows = 32};
    cr_expect_not(bf16_agrees(&k, BF16_TILES));
}

Test(bf16, the_probe_refuses_other_orders_and_roundings)
{
    const struct bf16_kernels others[] = {{.chain = wrong_0, .tile_rows = 16},
                                          {.chain = wrong_1, .tile_rows = 16},
                                          {.chain = wrong_2, .tile_rows = 16},
                                          {.chain = wrong_3, .tile_rows = 16}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        cr_expect_not(bf16_agrees(&others[i], BF16_PAIRS), "%zu", i);
        cr_expect_not(bf16_agrees(&others[i], BF16_TILES), "%zu", i);
    }
    for (int o = 0; o < BF16_ORDERS; o++) {
        cr_expect(bf16_agrees(&bf16_plain[o], (enum bf16_order)o));
        cr_expect_not(bf16_agrees(&bf16_plain[o], (enum bf16_order) !o));
    }
}

#ifdef INGOT_CPU_X86
Test(bf16, emulating_kernels_pass_the_probe)
{
    for (int o = 0; o < BF16_ORDERS; o++) {
        if (has_isa("avx2"))
            cr_expect(bf16_agrees(&bf16_avx2[o], (enum bf16_order)o), "%d", o);
        if (has_isa("avx512"))
            cr_expect(bf16_agrees(&bf16_avx512[o], (enum bf16_order)o), "%d", o);
    }
}
#endif
