/* Gemma 3n and Gemma 4.  Gemma 4 has layers with a window and global layers, whose heads differ in size and number.  Its
 * small models (E2B, E4B) and Gemma 3n have an input for each layer and layers that share keys and values, the mixture
 * (26B-A4B) experts beside a dense feed-forward.  Gemma 3n has several residual streams. */
#include "common/formats/arch_table.h"

/* Both kinds of layers have the same names. */
#define TWO_KINDS                                                                                  \
    SPLIT_QKV, HEAD_NORMS,                                                                         \
        [TN_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN, AX_Q,         \
                  FUSED_NO},                                                                       \
        [TN_GLOBAL_Q] = {L "self_attn.q_proj.weight", L "self_attn.q_proj.bias", AX_GLOBAL_Q,      \
                         AX_HIDDEN, FUSED_NO},                                                     \
        [TN_GLOBAL_K] = {L "self_attn.k_proj.weight", L "self_attn.k_proj.bias", AX_GLOBAL_KV,     \
                         AX_HIDDEN, FUSED_NO},                                                     \
        [TN_GLOBAL_V] = {L "self_attn.v_proj.weight", L "self_attn.v_proj.bias", AX_GLOBAL_KV,     \
                         AX_HIDDEN, FUSED_NO},                                                     \
        [TN_GLOBAL_Q_NORM] = {L "self_attn.q_norm.weight", NULL, AX_ONE, AX_GLOBAL_DHEAD,          \
                              FUSED_NO},                                                           \
        [TN_GLOBAL_K_NORM] = {L "self_attn.k_norm.weight", NULL, AX_ONE, AX_GLOBAL_DHEAD,          \
                              FUSED_NO},                                                           \
        [TN_GLOBAL_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN,        \
                         AX_GLOBAL_Q, FUSED_NO}

#define SANDWICH                                                                                   \
    [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},              \
    [TN_POST_ATTN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN,           \
                           FUSED_NO},                                                              \
    [TN_FFN_NORM] = {L "pre_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},     \
    [TN_POST_FFN_NORM] = {L "post_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN,          \
                          FUSED_NO}

/* The inputs of the layers. */
#define LAYER_INPUTS                                                                               \
    [TN_INPUT_EMBED] = {"model.embed_tokens_per_layer.weight", NULL, AX_INPUT_VOCAB, AX_INPUTS,    \
                        FUSED_NO},                                                                 \
    [TN_INPUT_PROJ] = {"model.per_layer_model_projection.weight", NULL, AX_INPUTS, AX_HIDDEN,      \
                       FUSED_NO},                                                                  \
    [TN_INPUT_PROJ_NORM] = {"model.per_layer_projection_norm.weight", NULL, AX_ONE, AX_INPUT,      \
                            FUSED_NO},                                                             \
    [TN_INPUT_GATE] = {L "per_layer_input_gate.weight", NULL, AX_INPUT, AX_HIDDEN, FUSED_NO},      \
    [TN_INPUT_OUT] = {L "per_layer_projection.weight", NULL, AX_HIDDEN, AX_INPUT, FUSED_NO},       \
    [TN_INPUT_NORM] = {L "post_per_layer_input_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule gemma3n_tensors[TN_N] = {
    OUTER_TENSORS,
    HEAD_NORMS,
    SPLIT_QKV,
    SANDWICH,
    GATE_UP_DOWN,
    LAYER_INPUTS,
    [TN_STREAM_IN] = {"model.altup_projections.@.weight", NULL, AX_HIDDEN, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_OUT] = {"model.altup_unembed_projections.@.weight", NULL, AX_HIDDEN, AX_HIDDEN,
                       FUSED_NO},
    [TN_STREAM_NORM] = {L "altup.router_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_ROUTER] = {L "altup.modality_router.weight", NULL, AX_STREAMS, AX_HIDDEN, FUSED_NO},
    [TN_STREAM_PREDICT] = {L "altup.prediction_coefs.weight", NULL, AX_STREAM_PAIRS, AX_STREAMS,
                           FUSED_NO},
    [TN_STREAM_CORRECT] = {L "altup.correction_coefs.weight", NULL, AX_STREAMS, AX_STREAMS,
                           FUSED_NO},
    [TN_STREAM_SCALE] = {L "altup.correct_output_scale", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_LAUREL_LEFT] = {L "laurel.linear_left.weight", NULL, AX_LAUREL, AX_HIDDEN, FUSED_NO},
    [TN_LAUREL_RIGHT] = {L "laurel.linear_right.weight", NULL, AX_HIDDEN, AX_LAUREL, FUSED_NO},
    [TN_LAUREL_NORM] = {L "laurel.post_laurel_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gemma4_tensors[TN_N] = {
    TWO_KINDS,
    SANDWICH,
    [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {L "mlp.gate_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "mlp.up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "mlp.down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_ROUTER] = {L "router.proj.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER_NORM] = {L "router.scale", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_SCALE] = {L "router.per_expert_scale", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    [TN_EXPERT_GATE] = {L "experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_UP] = {L "experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_DOWN] = {L "experts.down_proj", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
    [TN_EXPERT_IN_NORM] = {L "pre_feedforward_layernorm_2.weight", NULL, AX_ONE, AX_HIDDEN,
                           FUSED_NO},
    [TN_DENSE_OUT_NORM] = {L "post_feedforward_layernorm_1.weight", NULL, AX_ONE, AX_HIDDEN,
                           FUSED_NO},
    [TN_EXPERT_OUT_NORM] = {L "post_feedforward_layernorm_2.weight", NULL, AX_ONE, AX_HIDDEN,
                            FUSED_NO},
    LAYER_INPUTS,
    [TN_LAYER_SCALE] = {L "layer_scalar", NULL, AX_ONE, AX_ONE, FUSED_NO},
    [TN_FINAL_NORM] = {"model.norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

const struct arch archs_of_gemma[] = {
    {.name = "Gemma3nForCausalLM",
     .model_type = "gemma3n_text",
     .tensor = gemma3n_tensors,
     .qk_norm = true,
     .scale_embed = true,
     .final_cap = true,
     .unit_scores = true,
     .value_norm = true,
     .streams = true,
     .local_rope = true,
     .bias_option = true,
     .tied = true,
     .window = WINDOW_PATTERN,
     .default_window = 512,
     .default_pattern = 5,
     .default_theta = 1e6,
     .default_logit_cap = 30,
     .default_d_head = 256},
    {.name = "Gemma4ForCausalLM",
     .model_type = "gemma4_text",
     .tensor = gemma4_tensors,
     .qk_norm = true,
     .scale_embed = true,
     .final_cap = true,
     .unit_scores = true,
     .global_heads = true,
     .value_norm = true,
     .layer_scale = true,
     .local_rope = true,
     .needs_rope = true,
     .bias_option = true,
     .tied = true,
     .window = WINDOW_PATTERN,
     .experts = EXPERTS_BESIDE,
     .default_window = 512,
     .default_pattern = 6,
     .default_theta = 1e6,
     .default_d_head = 256},
};
const size_t n_archs_of_gemma = ARRAY_LEN(archs_of_gemma);
