/* What the CUDA backend's arithmetic changes in the op cases, for its tests on a GPU and on the
 * emulator. */
#ifndef TESTS_OPS_OP_CUDA_H
#define TESTS_OPS_OP_CUDA_H

#include "common/quant.h"
#include "ops/op_cases.h"

/* Activations meet 16-bit weights in the weights' type, of 8 or 11 significant bits: rounding to
 * nearest changes them by 2^-8 or 2^-11 at most. */
static inline struct op_case with_rounded_x(const struct op_case *c)
{
    struct op_case rounded = *c;
    bool widened = c->variant == 1 && c->n_parts > 1; /* floats of two types: f32 in memory */
    bool floats = c->dtype == DT_F32 || c->dtype == DT_F16 || c->dtype == DT_BF16;
    if (c->op == &op_linear && !floats && widened)
        rounded.x_eps = 0x1p-11; /* of the rows of f16 beside the others */
    bool product = c->op == &op_moe_ffn || c->op == &op_moe_limited || c->op == &op_moe_up ||
                   c->op == &op_moe_input || c->op == &op_heads_linear;
    bool attends = c->op == &op_attention || c->op == &op_attention_sinks ||
                   c->op == &op_attention_chunk ||
                   c->op == &op_attention_latent; /* the others' sums are in f32 */
    if ((c->op == &op_linear && !widened) || product)
        rounded.x_eps = c->dtype == DT_BF16 ? 0x1p-8 : c->dtype == DT_F16 ? 0x1p-11 : 0;
    if (attends && c->dtype != DT_F32) /* 8-bit caches are widened to bf16 */
        rounded.x_eps = c->dtype == DT_F16 ? 0x1p-11 : 0x1p-8;
    return rounded;
}

/* Products of e4m3, NVFP4 and nf4 weights (fp4 of the cases has blocks of 32): without ACTIVATIONS_F32 on matrix units
 * too, x in f16. */
static inline bool op_has_scaled_mma(const struct op_case *c)
{
    return (c->dtype == DT_E4M3 || c->dtype == DT_NVFP4 || c->dtype == DT_NF4) &&
           c->op == &op_linear;
}

static inline struct op_case with_halved_x(const struct op_case *c)
{
    struct op_case rounded = with_rounded_x(c);
    if (op_has_scaled_mma(c)) /* levels are rounded, too */
        rounded.x_eps = c->dtype == DT_NF4 ? 0x1p-10 : 0x1p-11;
    return rounded;
}

/* Quantised types whose codes, minima and scales are those of others: on emulated devices with INGOT_ALL
 * alone (tests/ops/test_quant.c has the products of every type). */
static inline bool cuda_repeats(enum dtype t)
{
    static const enum dtype types[] = {
        DT_Q4_1,      DT_Q5_0,          DT_Q5_K,      DT_IQ4_NL,        DT_MXFP4,
        DT_INT4_BF16, DT_INT4_ZERO_F16, DT_INT8_BF16, DT_INT8_ZERO_F16, DT_INT8_ZERO_BF16};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i] == t)
            return true;
    return false;
}

/* For kernels that the cases of tests/ops do not reach. */
static const struct op_case cuda_cases[] = {
    /* latents: heads in several tiles, of two sequences one a decode; 8-bit rows of no multiple of 16;
     * several groups of splits, two rows at once */
    {.op = &op_attention_latent,
     .rows = 3,
     .n_seqs = 2,
     .past = 200,
     .n_q = 40,
     .n_kv = 1,
     .q_per_kv = 40,
     .d = 80,
     .n = 64,
     .block_len = 16,
     .dtype = DT_BF16},
    {.op = &op_attention_latent,
     .rows = 1,
     .n_seqs = 1,
     .past = 130,
     .n_q = 33,
     .n_kv = 1,
     .q_per_kv = 33,
     .d = 40,
     .n = 24,
     .block_len = 16,
     .dtype = DT_I8},
    {.op = &op_attention_latent,
     .rows = 2,
     .n_seqs = 1,
     .past = 1500,
     .n_q = 3,
     .n_kv = 1,
     .q_per_kv = 3,
     .d = 48,
     .n = 32,
     .block_len = 16,
     .dtype = DT_F16},
    {.op = &op_attention_latent,
     .rows = 2,
     .n_seqs = 1,
     .past = 1500,
     .n_q = 17,
     .n_kv = 1,
     .q_per_kv = 17,
     .d = 32,
     .n = 16,
     .block_len = 16,
     .dtype = DT_E4M3},
    /* states of more than 128 rows */
    {.op = &op_delta,
     .rows = 19,
     .n_seqs = 2,
     .n_kv = 1,
     .n_q = 2,
     .q_per_kv = 2,
     .d = 200,
     .n = 40,
     .rot = 4},
    {.op = &op_delta,
     .rows = 19,
     .n_seqs = 2,
     .n_kv = 1,
     .n_q = 2,
     .q_per_kv = 2,
     .d = 256,
     .n = 40,
     .rot = 4,
     .variant = 1},
};

#endif
