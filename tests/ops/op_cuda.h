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
    if (c->op == &op_linear && quant_form(c->dtype) && widened)
        rounded.x_eps = 0x1p-11; /* of the rows of f16 beside the quantised ones */
    if ((c->op == &op_linear && !widened) || c->op == &op_moe_ffn)
        rounded.x_eps = c->dtype == DT_BF16 ? 0x1p-8 : c->dtype == DT_F16 ? 0x1p-11 : 0;
    if (c->op == &op_attention && c->dtype != DT_F32) /* 8-bit caches are widened to bf16 */
        rounded.x_eps = c->dtype == DT_F16 ? 0x1p-11 : 0x1p-8;
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

/* Why this backend does not run the case; NULL: it does. */
static inline const char *cuda_lacks(const struct backend *be, const struct op_case *c)
{
    const struct backend_ops *o = backend_ops_of(be);
    const struct op_present {
        const struct op *op;
        bool present;
    } all[] = {
        {&op_linear, o->linear},
        {&op_embed, o->embed},
        {&op_add_rms_norm, o->add_rms_norm},
        {&op_layer_norm, o->layer_norm},
        {&op_act_mul, o->act_mul},
        {&op_activate, o->activate},
        {&op_scale, o->scale},
        {&op_soft_cap, o->soft_cap},
        {&op_add, o->add},
        {&op_gather, o->gather},
        {&op_edit_logits, o->edit_logits},
        {&op_mask_logits, o->mask_logits},
        {&op_topk, o->topk},
        {&op_sample, o->sample},
        {&op_take_tokens, o->take_tokens},
        {&op_qkv, o->qkv_to_cache},
        {&op_attention, o->attention},
        {&op_moe_route, o->moe_route},
        {&op_moe_ffn, o->moe_ffn},
    };
    if ((c->dtype == DT_E4M3 || is_indexed(c->dtype) || has_levels(c->dtype)) &&
        (c->op == &op_linear || c->op == &op_embed))
        return "no e4m3 or indexed weights, or weights with levels";
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].op == c->op)
            return all[i].present ? NULL : "no such op";
    return "no such op";
}

#endif
