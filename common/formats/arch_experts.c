/* The mixtures of experts whose experts come as one tensor for each matrix. */
#include "common/formats/arch_table.h"

#define SHARED(name)                                                                               \
    [TN_SHARED_GATE] = {L "mlp." name ".gate_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN,         \
                        FUSED_NO},                                                                 \
    [TN_SHARED_UP] = {L "mlp." name ".up_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},  \
    [TN_SHARED_DOWN] = {L "mlp." name ".down_proj.weight", NULL, AX_HIDDEN, AX_SHARED_FFN,         \
                        FUSED_NO}

static const struct tensor_rule qwen2moe_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    FFN_NORM,
    GATE_UP_DOWN,
    SPLIT_EXPERTS,
    SHARED("shared_expert"),
    [TN_SHARED_SCALE] = {L "mlp.shared_expert_gate.weight", NULL, AX_ROW, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule glm4moe_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    FFN_NORM,
    GATE_UP_DOWN,
    SPLIT_EXPERTS,
    [TN_ROUTER_BIAS] = {L "mlp.gate.e_score_correction_bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    SHARED("shared_experts"),
};

static const struct tensor_rule olmoe_tensors[TN_N] = {
    OUTER_TENSORS, WIDE_NORMS,
    SPLIT_QKV,     FFN_NORM,
    SPLIT_EXPERTS, [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

const struct arch archs_of_experts[] = {
    {.name = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .tensor = qwen2moe_tensors,
     .qkv_bias = true,
     .window = WINDOW_EVEN,
     .default_window = 4096,
     .experts = EXPERTS_QWEN,
     .shared_option = true},
    {.name = "Glm4MoeForCausalLM",
     .model_type = "glm4_moe",
     .tensor = glm4moe_tensors,
     .bias_option = true,
     .o_without_bias = true,
     .qk_norm_option = true,
     .partial_rotary = true,
     .default_partial = 0.5,
     .extra_layers = true,
     .experts = EXPERTS_GROUPS,
     .route_bias = true,
     .default_eps = 1e-5},
    {.name = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .tensor = olmoe_tensors,
     .qk_norm = true,
     .wide_qk_norm = true,
     .bias_option = true,
     .experts = EXPERTS_OLMO,
     .default_eps = 1e-5},
};
const size_t n_archs_of_experts = ARRAY_LEN(archs_of_experts);
