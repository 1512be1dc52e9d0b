/* The op cases that the Metal backend does not have, and those that simdgroup matrices change. */
#ifndef TESTS_METAL_LACKS_H
#define TESTS_METAL_LACKS_H

#include "ops/op_cases.h"

/* Why the Metal backend does not run the case; NULL: it does. */
static inline const char *metal_lacks(const struct op_case *c)
{
    if ((c->op == &op_linear || c->op == &op_embed) && is_sorted(c->dtype))
        return "no weights with sorted columns";
    return NULL;
}

/* Do the case's kernels use neither exchanges in a simdgroup nor its matrices, so that GPUs before Apple6, as hosted
 * machines have, run them? */
static inline bool metal_simple(const struct op_case *c)
{
    const struct op *const all[] = {
        &op_embed,       &op_act_mul,     &op_activate,  &op_relu2,           &op_scale,
        &op_soft_cap,    &op_add,         &op_gather,    &op_sigmoid_mul,     &op_add_bias,
        &op_edit_logits, &op_mask_logits, &op_known_ids, &op_predict_streams, &op_correct_streams,
        &op_take_tokens};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (c->op == all[i])
            return true;
    return false;
}

/* Does INGOT_METAL_PRODUCTS=matrices change the case?  Experts: test_moe_metal, and some of test_ops_metal. */
static inline bool metal_by_matrices(const struct op_case *c)
{
    const struct op *const all[] = {
        &op_linear,         &op_heads_linear,       &op_attention,       &op_attention_sinks,
        &op_attention_full, &op_attention_rel_bias, &op_attention_chunk, &op_attention_latent};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (c->op == all[i])
            return true;
    return false;
}

#endif
