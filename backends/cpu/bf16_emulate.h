/* Both orders of bf16.h with the fused multiply-adds of one x86 instruction set, whose control
 * register treats denormals as the orders do (tiny is decided after rounding, as there).  The
 * including file has included simd_X.h and defines EMULATED_ROWS_PAIRS and EMULATED_ROWS_TILES, the
 * rows whose sums fit the registers. */
#ifndef BACKENDS_CPU_BF16_EMULATE_H
#define BACKENDS_CPU_BF16_EMULATE_H

#include "backends/cpu/bf16.h"
#include "backends/cpu/bf16_round.h"
#include "backends/cpu/read_ahead.h"
#include "backends/cpu/vectors.h"

/* A pair of x to all columns. */
ALWAYS_INLINE void splat_pair(const uint16_t *x, vf *even, vf *odd)
{
    float both;
    vf out[2];
    memcpy(&both, x, sizeof both);
    v_widen_bf16(v_splat(both), out);
    *even = out[0];
    *odd = out[1];
}

/* Columns [VL q, +VL) and [16 + VL q, +VL) of a pair's weights. */
ALWAYS_INLINE void load_pair_of_w(const uint16_t *w, int q, struct pair *even, struct pair *odd)
{
    v_load_bf16_pairs(w + 2 * VL * q, &even->a, &odd->a);
    v_load_bf16_pairs(w + PANEL + 2 * VL * q, &even->b, &odd->b);
}

ALWAYS_INLINE struct pair add_product(struct pair acc, vf x, struct pair w)
{
    return (struct pair){v_fma(x, w.a, acc.a), v_fma(x, w.b, acc.b)};
}

ALWAYS_INLINE struct pair load_sums(const float *row, int q)
{
    return (struct pair){v_load(row + VL * q), v_load(row + PANEL / 2 + VL * q)};
}

ALWAYS_INLINE void store_sums(float *row, int q, struct pair sum)
{
    v_store(row + VL * q, sum.a);
    v_store(row + PANEL / 2 + VL * q, sum.b);
}

ALWAYS_INLINE void emulate_pairs(const struct bf16_chain *c, int rows)
{
    for (int q = 0; q < PAIRS; q++) {
        struct pair acc[EMULATED_ROWS_PAIRS];
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = load_sums(c->acc[r], q);
        for (int p = 0; p < c->pairs; p++) {
            const uint16_t *x = c->x + p / 16 * (rows * BF16_GROUP) + p % 16 * 2;
            struct pair even, odd;
            load_pair_of_w(c->w + (size_t)p * PANEL * 2, q, &even, &odd);
            if (q == 0)
                read_ahead(c->read, c->ahead + p * c->ahead_step, c->ahead_step);
            UNROLL
            for (int r = 0; r < rows; r++) {
                vf x0, x1;
                splat_pair(x + r * BF16_GROUP, &x0, &x1);
                acc[r] = add_product(add_product(acc[r], x1, odd), x0, even);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            store_sums(c->acc[r], q, acc[r]);
    }
}

ALWAYS_INLINE void emulate_tiles(const struct bf16_chain *c, int rows)
{
    for (int q = 0; q < PAIRS; q++)
        for (int p0 = 0; p0 < c->pairs; p0 += 16) {
            const uint16_t *x = c->x + p0 / 16 * (rows * BF16_GROUP);
            struct pair even_sum[EMULATED_ROWS_TILES], odd_sum[EMULATED_ROWS_TILES];
            int end = c->pairs - p0 < 16 ? c->pairs : p0 + 16;
            UNROLL
            for (int r = 0; r < rows; r++)
                even_sum[r].a = even_sum[r].b = odd_sum[r].a = odd_sum[r].b = v_splat(0.0f);
            for (int p = p0; p < end; p++, x += 2) {
                struct pair even, odd;
                load_pair_of_w(c->w + (size_t)p * PANEL * 2, q, &even, &odd);
                if (q == 0)
                    read_ahead(c->read, c->ahead + p * c->ahead_step, c->ahead_step);
                UNROLL
                for (int r = 0; r < rows; r++) {
                    vf x0, x1;
                    splat_pair(x + r * BF16_GROUP, &x0, &x1);
                    even_sum[r] = add_product(even_sum[r], x0, even);
                    odd_sum[r] = add_product(odd_sum[r], x1, odd);
                }
            }
            UNROLL
            for (int r = 0; r < rows; r++) {
                struct pair acc = load_sums(c->acc[r], q);
                acc.a = v_add(acc.a, v_add(even_sum[r].a, odd_sum[r].a));
                acc.b = v_add(acc.b, v_add(even_sum[r].b, odd_sum[r].b));
                store_sums(c->acc[r], q, acc);
            }
        }
}

/* A function for each number of rows. */
typedef void chain_fn(const struct bf16_chain *c);
#define CHAIN_FNS(R)                                                                               \
    static void pairs_##R(const struct bf16_chain *c)                                              \
    {                                                                                              \
        emulate_pairs(c, R <= EMULATED_ROWS_PAIRS ? R : 1);                                        \
    }                                                                                              \
    static void tiles_##R(const struct bf16_chain *c)                                              \
    {                                                                                              \
        emulate_tiles(c, R <= EMULATED_ROWS_TILES ? R : 1);                                        \
    }
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
EACH_COUNT(CHAIN_FNS)
#define PAIRS_ROW(R) [R] = pairs_##R,
#define TILES_ROW(R) [R] = tiles_##R,
static chain_fn *const pairs_fns[] = {EACH_COUNT(PAIRS_ROW)};
static chain_fn *const tiles_fns[] = {EACH_COUNT(TILES_ROW)};

/* Denormals are zeros for the time of the call. */
static void flushed(chain_fn *fn, const struct bf16_chain *c)
{
    enum { FTZ = 0x8000, DAZ = 0x40 };
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | FTZ | DAZ);
    fn(c);
    _mm_setcsr(before);
}

static void pairs_chain(const struct bf16_chain *c)
{
    flushed(pairs_fns[c->rows], c);
}

static void tiles_chain(const struct bf16_chain *c)
{
    flushed(tiles_fns[c->rows], c);
}

#define EMULATED(NAME)                                                                             \
    {                                                                                              \
        {NAME, EMULATED_ROWS_PAIRS, 128, pairs_chain, bf16_round_row, climb_rows, NULL},           \
            {NAME, EMULATED_ROWS_TILES, 128, tiles_chain, bf16_round_row, climb_rows, NULL},       \
    }

#endif
