/* The op cases that the Metal backend does not have. */
#ifndef TESTS_METAL_LACKS_H
#define TESTS_METAL_LACKS_H

#include "ops/op_cases.h"

/* Why the Metal backend does not run the case; NULL: it does. */
static inline const char *metal_lacks(const struct op_case *c)
{
    const struct op *const none[] = {&op_wide_norm,        &op_route_sigmoid,
                                     &op_moe_limited,      &op_attention_sinks,
                                     &op_attention_full,   &op_attention_rel_bias,
                                     &op_attention_latent, &op_latent_to_cache,
                                     &op_heads_linear,     &op_delta,
                                     &op_gated_norm,       &op_moe_up,
                                     &op_predict_streams,  &op_correct_streams,
                                     &op_match_rms,        &op_known_ids,
                                     &op_cut_gates,        &op_moe_input,
                                     &op_attention_chunk,  &op_qkv_unit,
                                     &op_round_input};
    bool of_gguf = c->dtype >= DT_Q4_0 && c->dtype <= DT_MXFP4;
    bool of_floats = c->dtype == DT_F32 || c->dtype == DT_F16 || c->dtype == DT_BF16;
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        if (none[i] == c->op)
            return "no such op";
    if ((c->op == &op_linear || c->op == &op_embed) && !of_floats && !of_gguf)
        return "no weights of this type";
    return NULL;
}

#endif
