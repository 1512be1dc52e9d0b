#include <criterion/criterion.h>
#include <string.h>

#include "worker/numerics.h"

static const char *id(struct numerics_facts n)
{
    static char text[2][NUMERICS_ID_SIZE];
    static int turn;
    turn = !turn;
    numerics_id(&n, text[turn]);
    return text[turn];
}

static const struct numerics_facts base = {
    .backend = "cpu", .kv = DT_F16, .world = 1, .matrix = ""};

Test(numerics, is_as_documented)
{
    struct numerics_facts gpu = {
        .backend = "cuda", .kv = DT_E4M3, .world = 3, .matrix = "sm90-mma", .fast = true};
    cr_expect_str_eq(id(base), "2/cpu/strict/a8/kv-f16/tp1.2.4.8");
    struct numerics_facts rounded = base;
    rounded.activations = ACTIVATIONS_BF16;
    cr_expect_str_eq(id(rounded), "2/cpu/strict/a8-bf16/kv-f16/tp1.2.4.8");
    rounded.activations = ACTIVATIONS_BF16_TILES;
    cr_expect_str_eq(id(rounded), "2/cpu/strict/a8-bf16-tiles/kv-f16/tp1.2.4.8");
    rounded = base, rounded.checkpoint = true;
    cr_expect_str_eq(id(rounded), "2/cpu/strict/ac/kv-f16/tp1.2.4.8");
    rounded = base, rounded.kv = DT_I8; /* the CPU's products with int8 entries are its own */
    cr_expect_str_eq(id(rounded), "2/cpu/strict/a8/kv-i8-a16/tp1.2.4.8");
    rounded.backend = "cuda";
    cr_expect_str_eq(id(rounded), "2/cuda/strict/aw/kv-i8/tp1.2.4.8");
    cr_expect_str_eq(id(gpu), "2/cuda/fast/aw/kv-e4m3/tp3/sm90-mma");
    gpu.scaled_f32 = true;
    cr_expect_str_eq(id(gpu), "2/cuda/fast/aw-f32/kv-e4m3/tp3/sm90-mma");
    gpu.checkpoint = true;
    cr_expect_str_eq(id(gpu), "2/cuda/fast/ac/kv-e4m3/tp3/sm90-mma");
}

Test(numerics, rank_counts_that_give_the_same_bits_are_one_class)
{
    static const int same[] = {2, 4, 8}, other[] = {3, 5, 6, 7, 9, 16, 1024};
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        struct numerics_facts n = base;
        n.world = same[i];
        cr_expect_str_eq(id(n), id(base), "%d", same[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(other); i++) {
        struct numerics_facts n = base, next = base;
        n.world = other[i];
        next.world = other[i] + 100;
        cr_expect_str_neq(id(n), id(base), "%d", other[i]);
        cr_expect_str_neq(id(n), id(next), "%d", other[i]);
    }
}

Test(numerics, each_fact_counts)
{
    struct numerics_facts n = base;
    n.backend = "cuda";
    cr_expect_str_neq(id(n), id(base));
    n = base, n.fast = true;
    cr_expect_str_neq(id(n), id(base));
    n = base, n.kv = DT_F32;
    cr_expect_str_neq(id(n), id(base));
    n = base, n.matrix = "sm80-mma";
    cr_expect_str_neq(id(n), id(base));
}

Test(numerics, the_longest_fits)
{
    struct numerics_facts n = {.backend = "sixteen-letters-and-more",
                               .kv = DT_E4M3,
                               .world = 1024,
                               .fast = true,
                               .matrix = "sixteen-letters-and-more"};
    cr_expect(strlen(id(n)) < NUMERICS_ID_SIZE - 1, "%s", id(n));
    n.backend = "sixteen-letters-";
    n.matrix = "sixteen-letters-";
    cr_expect(strlen(id(n)) < NUMERICS_ID_SIZE - 1);
}
