/* Columns of groups in any order, sorted: they meet activations in 8 bits.  The distance from transformers' logits is at most 1.7
 * times that of transformers with inputs rounded so (limit_sorted of tests/golden/make_integers.py), and more than that of
 * inputs in f32; the bits are the same on 1, 2 and 4 ranks, in chunks and on the plain path. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "rig.h"

static const char *const names[] = {"llama-gptq-order", "llama-gptq-order-zeros",
                                    "llama-int4-order", "qwen3moe-gptq-order"};

static float *run_on(const char *name, const struct golden *g, int world, int32_t chunk,
                     struct rig_config cfg)
{
    return rig_logits(golden_dir(name), cfg, world, g->ids, g->n, g->vocab, chunk);
}

Test(sorted, as_near_as_8_bits_are_and_the_same_on_any_number_of_ranks)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct golden g;
        golden_open(&g, golden_dir(names[i]));
        size_t bytes = (size_t)g.n * (size_t)g.vocab * sizeof(float);
        float *one = run_on(names[i], &g, 1, g.n, (struct rig_config){.sorted = true});
        double off = rig_distance(one, g.logits, g.n, g.vocab), limit = g.limit_sorted;
        cr_log_info("%s: relative difference %g of %g", names[i], off, limit);
        cr_expect(off <= limit, "%s: relative difference %g of %g", names[i], off, limit);
        cr_expect(off > 1e-3, "%s: off by only %g: not in 8 bits", names[i], off);
        for (int world = 1; world <= 4; world *= 2) {
            float *parts = run_on(names[i], &g, world, 3, (struct rig_config){.sorted = true});
            cr_expect_arr_eq(parts, one, bytes, "%s: other bits on %d ranks in chunks", names[i],
                             world);
            free(parts);
        }
        float *plain =
            run_on(names[i], &g, 1, g.n, (struct rig_config){.sorted = true, .isa = "plain"});
        cr_expect_arr_eq(plain, one, bytes, "%s: other bits on the plain path", names[i]);
        free(plain);
        free(one);
        golden_close(&g);
    }
}

/* Groups of fewer than 32 columns stay as they are. */
Test(sorted, small_groups_meet_floats)
{
    const char *name = "qwen3next-gptq-order";
    struct golden g;
    golden_open(&g, golden_dir(name));
    size_t bytes = (size_t)g.n * (size_t)g.vocab * sizeof(float);
    float *a = run_on(name, &g, 1, g.n, (struct rig_config){.sorted = true});
    float *b = run_on(name, &g, 1, g.n, (struct rig_config){0});
    cr_expect_arr_eq(a, b, bytes);
    free(a);
    free(b);
    golden_close(&g);
}
