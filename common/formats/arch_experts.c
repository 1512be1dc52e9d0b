/* Mixtures of experts. */
#include "common/formats/arch_table.h"

static const struct tensor_rule qwen2moe_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    FFN_NORM,
    GATE_UP_DOWN,
    SPLIT_EXPERTS,
    SHARED_EXPERT("shared_expert"),
    [TN_SHARED_SCALE] = {L "mlp.shared_expert_gate.weight", NULL, AX_ROW, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule glm4moe_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    FFN_NORM,
    GATE_UP_DOWN,
    SPLIT_EXPERTS,
    [TN_ROUTER_BIAS] = {L "mlp.gate.e_score_correction_bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    SHARED_EXPERT("shared_experts"),
};

#define SPARSE L "block_sparse_moe."

static const struct tensor_rule minimax_tensors[TN_N] = {
    OUTER_TENSORS,
    WIDE_NORMS,
    SPLIT_QKV,
    FFN_NORM,
    [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER] = {SPARSE "gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER_BIAS] = {SPARSE "e_score_correction_bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    [TN_EXPERT_GATE] = {SPARSE "experts.@.w1.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_UP] = {SPARSE "experts.@.w3.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {SPARSE "experts.@.w2.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
};

#define DEEPSEEK LATENT_MODEL, SPLIT_EXPERTS, SHARED_EXPERT("shared_experts")

static const struct tensor_rule deepseek2_tensors[TN_N] = {DEEPSEEK};

static const struct tensor_rule deepseek3_tensors[TN_N] = {
    DEEPSEEK,
    [TN_ROUTER_BIAS] = {L "mlp.gate.e_score_correction_bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
};

static const struct tensor_rule olmoe_tensors[TN_N] = {
    OUTER_TENSORS, WIDE_NORMS,
    SPLIT_QKV,     FFN_NORM,
    SPLIT_EXPERTS, [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gptoss_tensors[TN_N] = {
    OUTER_TENSORS,
    SPLIT_QKV,
    FFN_NORM,
    [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_SINKS] = {L "self_attn.sinks", NULL, AX_ONE, AX_HEADS, FUSED_NO},
    [TN_ROUTER] = {L "mlp.router.weight", L "mlp.router.bias", AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {L "mlp.experts.gate_up_proj", L "mlp.experts.gate_up_proj_bias",
                        AX_EXPERT_FFN, AX_HIDDEN, TRANSPOSED_PAIRS},
    [TN_EXPERT_UP] = {L "mlp.experts.gate_up_proj", L "mlp.experts.gate_up_proj_bias",
                      AX_EXPERT_FFN, AX_HIDDEN, TRANSPOSED_PAIRS},
    [TN_EXPERT_DOWN] = {L "mlp.experts.down_proj", L "mlp.experts.down_proj_bias", AX_HIDDEN,
                        AX_EXPERT_FFN, TRANSPOSED},
};

#define FEED L "feed_forward."

#define LLAMA4_TENSORS                                                                             \
    OUTER_TENSORS, SPLIT_QKV, FFN_NORM,                                                            \
        [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},          \
        [TN_GATE] = {FEED "gate_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},                  \
        [TN_UP] = {FEED "up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},                      \
        [TN_DOWN] = {FEED "down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},                  \
        [TN_ROUTER] = {FEED "router.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},               \
        [TN_SHARED_GATE] = {FEED "shared_expert.gate_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, \
                            FUSED_NO},                                                             \
        [TN_SHARED_UP] = {FEED "shared_expert.up_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN,     \
                          FUSED_NO},                                                               \
        [TN_SHARED_DOWN] = {FEED "shared_expert.down_proj.weight", NULL, AX_HIDDEN, AX_SHARED_FFN, \
                            FUSED_NO}

static const struct tensor_rule llama4_tensors[TN_N] = {
    LLAMA4_TENSORS,
    [TN_EXPERT_GATE] = {FEED "experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                        TRANSPOSED_GATE_UP},
    [TN_EXPERT_UP] = {FEED "experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                      TRANSPOSED_GATE_UP},
    [TN_EXPERT_DOWN] = {FEED "experts.down_proj", NULL, AX_HIDDEN, AX_EXPERT_FFN, TRANSPOSED},
};

/* As compressed-tensors' folders have them. */
static const struct tensor_rule llama4_split_tensors[TN_N] = {
    LLAMA4_TENSORS,
    [TN_EXPERT_GATE] = {FEED "experts.@.gate_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                        FUSED_NO},
    [TN_EXPERT_UP] = {FEED "experts.@.up_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {FEED "experts.@.down_proj.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN,
                        FUSED_NO},
};

#define LLAMA4(TENSORS)                                                                            \
    .name = "Llama4ForCausalLM", .model_type = "llama4_text", .other_type = "llama4",              \
    .tensor = TENSORS, .qk_norm = true, .qk_norm_option = true, .unit_qk_norm = true,              \
    .bias_option = true, .interleaved = true, .nope = NOPE_LISTED, .window = WINDOW_CHUNK,         \
    .experts = EXPERTS_STEP, .default_theta = 500000, .default_eps = 1e-5, .default_d_head = 128

static const struct arch llama4_split = {LLAMA4(llama4_split_tensors)};

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
    {.name = "Glm4MoeLiteForCausalLM",
     .model_type = "glm4_moe_lite",
     .tensor = deepseek3_tensors,
     .latent = true,
     .interleaved = true,
     .bias_option = true,
     .extra_layers = true,
     .experts = EXPERTS_GROUPS,
     .route_bias = true,
     .layer_list = true,
     .default_eps = 1e-5},
    {.name = "Dots1ForCausalLM",
     .model_type = "dots1",
     .tensor = glm4moe_tensors,
     .qk_norm = true,
     .bias_option = true,
     .own_code = true,
     .experts = EXPERTS_GROUPS,
     .route_bias = true,
     .says_groups = true},
    {.name = "MiniMaxM2ForCausalLM",
     .model_type = "minimax_m2",
     .other_type = "minimax",
     .tensor = minimax_tensors,
     .qk_norm = true,
     .wide_qk_norm = true,
     .partial_rotary = true,
     .rotary_dim = true,
     .own_code = true,
     .experts = EXPERTS_MIXTRAL,
     .route_bias = true,
     .default_theta = 5e6},
    {.name = "DeepseekV2ForCausalLM",
     .model_type = "deepseek_v2",
     .tensor = deepseek2_tensors,
     .latent = true,
     .interleaved = true,
     .bias_option = true,
     .own_code = true,
     .experts = EXPERTS_METHOD,
     .says_groups = true},
    {.name = "DeepseekV3ForCausalLM",
     .model_type = "deepseek_v3",
     .other_type = "kimi_k2",
     .tensor = deepseek3_tensors,
     .latent = true,
     .interleaved = true,
     .bias_option = true,
     .own_code = true,
     .extra_layers = true,
     .experts = EXPERTS_GROUPS,
     .route_bias = true,
     .says_groups = true},
    {.name = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .tensor = olmoe_tensors,
     .qk_norm = true,
     .wide_qk_norm = true,
     .bias_option = true,
     .experts = EXPERTS_OLMO,
     .default_eps = 1e-5},
    {LLAMA4(llama4_tensors)},
    {.name = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .tensor = gptoss_tensors,
     .bias_option = true,
     .attention_bias = true,
     .sinks = true,
     .expert_bias = true,
     .needs_rope = true,
     .window = WINDOW_PATTERN,
     .default_window = 128,
     .default_pattern = 2,
     .experts = EXPERTS_MIXTRAL,
     .default_theta = 150000,
     .default_eps = 1e-5,
     .default_d_head = 64},
};
const size_t n_archs_of_experts = ARRAY_LEN(archs_of_experts);

const struct arch *arch_split_experts(const struct arch *a)
{
    return a->tensor == llama4_tensors ? &llama4_split : NULL;
}
