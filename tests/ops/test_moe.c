/* Experts of every weight type on every instruction set of the CPU: see moe_layers.h. */
#include "isas.h"
#include "ops/moe_layers.h"

/* Every instruction set against the composition on the plain one. */
static void check_isas(const struct layer *l)
{
    struct backend *plain = open_isa("plain", 1);
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++) {
        struct backend *be = open_isa(all_isas[i], 2);
        if (!be)
            continue;
        check_order(be, plain, l, all_isas[i]);
        close_isa(be);
    }
    close_isa(plain);
}

static void check(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct layer l = make_layer(t, E, k, D, F, T);
    struct backend *be = open_isa("auto", 2);
    check_isas(&l);
    check_worlds(be, &l);
    close_isa(be);
    free_layer(&l);
}

Test(moe, float_experts)
{
    check(DT_F32, 4, 2, 40, 56, 9);
    check(DT_F16, 8, 8, 33, 21, 5);
    check(DT_BF16, 64, 8, 64, 48, 21);
    check(DT_F32, 5, 1, 36, 5, 40); /* empty slices */
}

Test(moe, quantised_experts)
{
    check(DT_Q8_0, 4, 2, 64, 320, 21);
    check(DT_Q4_0, 8, 3, 96, 256, 7);
    check(DT_Q4_1, 4, 4, 64, 160, 5);
    check(DT_Q5_0, 4, 2, 64, 256, 1);
    check(DT_Q5_1, 4, 1, 64, 288, 17);
    check(DT_Q4_K, 4, 2, 256, 2048, 6);
    check(DT_Q5_K, 3, 2, 256, 1280, 3);
    check(DT_Q6_K, 4, 3, 256, 512, 5); /* empty slices */
    check(DT_Q2_K, 4, 2, 256, 1280, 3);
    check(DT_Q3_K, 4, 2, 256, 768, 4);
    check(DT_IQ4_NL, 4, 2, 64, 256, 19);
    check(DT_IQ4_XS, 3, 1, 256, 1024, 3);
    check(DT_MXFP4, 4, 2, 64, 320, 21);
}

Test(moe, experts_of_sorted_columns)
{
    check(DT_INT4_SORTED, 4, 2, 64, 256, 21);
    check(DT_INT4_SORTED, 8, 3, 320, 64, 5);
    check(DT_INT8_SORTED, 3, 1, 70, 256, 9);
}

Test(moe, experts_with_scales_in_f32)
{
    check(DT_E4M3, 4, 2, 140, 320, 21);
    check(DT_INT4_INDEX, 4, 2, 64, 256, 5);
    check(DT_INT8_INDEX, 3, 1, 70, 256, 9);
    check(DT_NF4, 4, 3, 96, 200, 7);
    check(DT_FP4, 3, 2, 33, 64, 3);
    check(DT_NVFP4, 4, 2, 64, 320, 21);
}

Test(moe, router_with_ties_and_strange_numbers)
{
    struct backend *be = open_isa("auto", 1);
    check_strange_routers(be);
    close_isa(be);
}

/* The weights of the chosen experts, with softmax, are multiplied by the experts' factors. */
Test(moe, factors_of_experts)
{
    enum { E = 5, K = 3, T = 4 };
    static const float factor[E] = {0.5f, -1.25f, 3, 1, 0.0625f};
    const struct weight_src src = {.name = "factors",
                                   .vector = true,
                                   .cols = E,
                                   .n_parts = 1,
                                   .part = {{.data = factor, .dtype = DT_F32, .rows = 1}},
                                   .n_slices = 1,
                                   .slice_end = {E}};
    float logits[T * E], w[2][T * K];
    int32_t ids[2][T * K];
    for (int i = 0; i < T * E; i++)
        logits[i] = (float)((i * 7919) % 23) / 4 - 3;
    for (size_t n = 0; n < ARRAY_LEN(all_isas); n++) {
        struct backend *be = open_isa(all_isas[n], 2);
        if (!be)
            continue;
        struct weight *scale;
        struct moe_layer ml = {.n_experts = E, .top_k = K, .scale = 1, .renormalise = true};
        cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &scale), ST_OK);
        for (int i = 0; i < 2; i++) {
            ml.expert_scale = i ? scale : NULL;
            route(be, &ml, logits, T, ids[i], w[i]);
        }
        for (int i = 0; i < T * K; i++) {
            cr_assert_eq(ids[1][i], ids[0][i]);
            cr_assert_eq(w[1][i], w[0][i] * factor[ids[0][i]], "%s: weight %d", all_isas[n], i);
        }
        backend_ops_of(be)->free_weight(be, scale);
        close_isa(be);
    }
}

Test(moe, stacks_that_cannot_be)
{
    struct backend *be = open_isa("auto", 1);
    check_stacks_that_cannot_be(be);
    close_isa(be);
}
