/* Architectures with gated delta-net layers. */
#include "common/formats/arch_table.h"

#define A L "linear_attn."

/* Attention whose queries' matrix has the gates too. */
#define GATED_ATTENTION                                                                            \
    [TN_Q] = {L "self_attn.q_proj.weight", NULL, AX_Q, AX_HIDDEN, FUSED_Q_GATE},                   \
    [TN_Q_GATE] = {L "self_attn.q_proj.weight", NULL, AX_Q, AX_HIDDEN, FUSED_Q_GATE},              \
    [TN_K] = {L "self_attn.k_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},                      \
    [TN_V] = {L "self_attn.v_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO}

#define DELTA_NET                                                                                  \
    [TN_DELTA_CONV] = {A "conv1d.weight", NULL, AX_DELTA_VALUES, AX_DELTA_TAPS, FUSED_DELTA_QKV},  \
    [TN_DELTA_LOG] = {A "A_log", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                          \
    [TN_DELTA_DT] = {A "dt_bias", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                         \
    [TN_DELTA_NORM] = {A "norm.weight", NULL, AX_ONE, AX_DELTA_VALUE, FUSED_NO},                   \
    [TN_DELTA_OUT] = {A "out_proj.weight", NULL, AX_HIDDEN, AX_DELTA_VALUES, FUSED_NO}

/* One tensor for each of q with k and v, z, b and a. */
#define SPLIT_DELTA                                                                                \
    [TN_DELTA_Q] = {A "in_proj_qkv.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKV},      \
    [TN_DELTA_K] = {A "in_proj_qkv.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKV},      \
    [TN_DELTA_V] = {A "in_proj_qkv.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_DELTA_QKV},    \
    [TN_DELTA_Z] = {A "in_proj_z.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_NO},             \
    [TN_DELTA_B] = {A "in_proj_b.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_NO},              \
    [TN_DELTA_A] = {A "in_proj_a.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_NO}

#define SHARED_SCALE                                                                               \
    SHARED_EXPERT("shared_expert"), [TN_SHARED_SCALE] = {L "mlp.shared_expert_gate.weight", NULL,  \
                                                         AX_ROW, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule qwen3next_tensors[TN_N] = {
    COMMON_TENSORS,
    GATED_ATTENTION,
    DELTA_NET,
    [TN_DELTA_Q] = {A "in_proj_qkvz.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKVZ},
    [TN_DELTA_K] = {A "in_proj_qkvz.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKVZ},
    [TN_DELTA_V] = {A "in_proj_qkvz.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_DELTA_QKVZ},
    [TN_DELTA_Z] = {A "in_proj_qkvz.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_DELTA_QKVZ},
    [TN_DELTA_B] = {A "in_proj_ba.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_DELTA_BA},
    [TN_DELTA_A] = {A "in_proj_ba.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_DELTA_BA},
    FFN_NORM,
    GATE_UP_DOWN,
    SPLIT_EXPERTS,
    SHARED_SCALE,
};

static const struct tensor_rule qwen35_tensors[TN_N] = {
    COMMON_TENSORS, GATED_ATTENTION, DELTA_NET, SPLIT_DELTA, FFN_NORM, GATE_UP_DOWN,
};

/* Gate and up of all experts are one tensor. */
static const struct tensor_rule qwen35moe_tensors[TN_N] = {
    COMMON_TENSORS,
    GATED_ATTENTION,
    DELTA_NET,
    SPLIT_DELTA,
    FFN_NORM,
    [TN_ROUTER] = {L "mlp.gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {L "mlp.experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                        FUSED_GATE_UP},
    [TN_EXPERT_UP] = {L "mlp.experts.gate_up_proj", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_DOWN] = {L "mlp.experts.down_proj", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
    SHARED_SCALE,
};

/* As quantised folders are published. */
static const struct tensor_rule qwen35moe_single_tensors[TN_N] = {
    COMMON_TENSORS, GATED_ATTENTION, DELTA_NET, SPLIT_DELTA, FFN_NORM, SPLIT_EXPERTS, SHARED_SCALE,
};

#define QWEN35MOE(tensors)                                                                         \
    .name = "Qwen3_5MoeForCausalLM", .model_type = "qwen3_5_moe_text", .tensor = tensors,          \
    .qk_norm = true, .norm_plus_one = true, .delta = true, .mtp_tensors = true,                    \
    .mrope_text = true, .partial_rotary = true, .default_partial = 0.25,                           \
    .experts = EXPERTS_SHARED, .shared_option = true, .default_d_head = 256

static const struct arch qwen35moe_single = {QWEN35MOE(qwen35moe_single_tensors)};

const struct arch archs_of_delta[] = {
    {.name = "Qwen3NextForCausalLM",
     .model_type = "qwen3_next",
     .tensor = qwen3next_tensors,
     .qk_norm = true,
     .norm_plus_one = true,
     .delta = true,
     .mtp_tensors = true,
     .partial_rotary = true,
     .default_partial = 0.25,
     .experts = EXPERTS_QWEN,
     .shared_option = true,
     .default_d_head = 256},
    {.name = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .tensor = qwen35_tensors,
     .qk_norm = true,
     .norm_plus_one = true,
     .delta = true,
     .mtp_tensors = true,
     .mrope_text = true,
     .partial_rotary = true,
     .default_partial = 0.25,
     .default_d_head = 256},
    {QWEN35MOE(qwen35moe_tensors), .single = &qwen35moe_single},
};
const size_t n_archs_of_delta = ARRAY_LEN(archs_of_delta);
