/* Architectures with Mamba-2 layers. */
#include "common/formats/arch_table.h"

#define MAMBA L "mamba."

/* z, x, B, C and dt are one matrix. */
#define MAMBA_LAYER(A)                                                                             \
    [TN_DELTA_Z] = {A "in_proj.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_MAMBA},            \
    [TN_DELTA_V] = {A "in_proj.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_MAMBA},            \
    [TN_DELTA_K] = {A "in_proj.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_MAMBA},              \
    [TN_DELTA_Q] = {A "in_proj.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_MAMBA},              \
    [TN_DELTA_A] = {A "in_proj.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_MAMBA},             \
    [TN_DELTA_CONV] = {A "conv1d.weight", A "conv1d.bias", AX_DELTA_VALUES, AX_DELTA_TAPS,         \
                       FUSED_DELTA_QKV},                                                           \
    [TN_DELTA_LOG] = {A "A_log", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                          \
    [TN_DELTA_DT] = {A "dt_bias", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                         \
    [TN_DELTA_SKIP] = {A "D", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                             \
    [TN_DELTA_NORM] = {A "norm.weight", NULL, AX_ONE, AX_DELTA_VALUES, FUSED_NO},                  \
    [TN_DELTA_OUT] = {A "out_proj.weight", NULL, AX_HIDDEN, AX_DELTA_VALUES, FUSED_NO}

#define SPARSE L "block_sparse_moe."
#define SHARED L "shared_mlp."

/* The shared expert, of a model without experts the feed-forward. */
static const struct tensor_rule granitehybrid_tensors[TN_N] = {
    COMMON_TENSORS,
    SPLIT_QKV,
    MAMBA_LAYER(MAMBA),
    FFN_NORM,
    [TN_GATE] = {SHARED "input_linear.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_UP] = {SHARED "input_linear.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_DOWN] = {SHARED "output_linear.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_ROUTER] = {SPARSE "router.layer.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {SPARSE "input_linear.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN,
                        FUSED_GATE_UP},
    [TN_EXPERT_UP] = {SPARSE "input_linear.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_DOWN] = {SPARSE "output_linear.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
    [TN_SHARED_GATE] = {SHARED "input_linear.weight", NULL, AX_SHARED_FFN, AX_HIDDEN,
                        FUSED_GATE_UP},
    [TN_SHARED_UP] = {SHARED "input_linear.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_SHARED_DOWN] = {SHARED "output_linear.weight", NULL, AX_HIDDEN, AX_SHARED_FFN, FUSED_NO},
};

#define FFN L "feed_forward."

static const struct tensor_rule falconh1_tensors[TN_N] = {
    SPLIT_QKV,
    MAMBA_LAYER(MAMBA),
    [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_O] = {L "self_attn.o_proj.weight", NULL, AX_HIDDEN, AX_Q, FUSED_NO},
    [TN_FFN_NORM] = {L "pre_ff_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {FFN "gate_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {FFN "up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {FFN "down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_FINAL_NORM] = {"model.final_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule bamba_tensors[TN_N] = {
    SPLIT_QKV,
    MAMBA_LAYER(MAMBA),
    [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN, AX_Q, FUSED_NO},
    [TN_FFN_NORM] = {L "pre_ff_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_GATE] = {FFN "gate_proj.weight", FFN "gate_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {FFN "up_proj.weight", FFN "up_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {FFN "down_proj.weight", FFN "down_proj.bias", AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_FINAL_NORM] = {"model.final_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

#define B "backbone.layers.#."
#define MIXER B "mixer."

/* Every layer has one norm and one mixer. */
static const struct tensor_rule nemotronh_tensors[TN_N] = {
    MAMBA_LAYER(MIXER),
    [TN_EMBED] = {"backbone.embeddings.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
    [TN_ATTN_NORM] = {B "norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_Q] = {MIXER "q_proj.weight", NULL, AX_Q, AX_HIDDEN, FUSED_NO},
    [TN_K] = {MIXER "k_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_V] = {MIXER "v_proj.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_O] = {MIXER "o_proj.weight", NULL, AX_HIDDEN, AX_Q, FUSED_NO},
    [TN_UP] = {MIXER "up_proj.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {MIXER "down_proj.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
    [TN_ROUTER] = {MIXER "gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER_BIAS] = {MIXER "gate.e_score_correction_bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    [TN_EXPERT_UP] = {MIXER "experts.@.up_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {MIXER "experts.@.down_proj.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN,
                        FUSED_NO},
    [TN_SHARED_UP] = {MIXER "shared_experts.up_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN,
                      FUSED_NO},
    [TN_SHARED_DOWN] = {MIXER "shared_experts.down_proj.weight", NULL, AX_HIDDEN, AX_SHARED_FFN,
                        FUSED_NO},
    [TN_FINAL_NORM] = {"backbone.norm_f.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},
};

static const struct config_names nemotronh_names = {.hidden = "hidden_size",
                                                    .ffn = "intermediate_size",
                                                    .layers = "num_hidden_layers",
                                                    .heads = "num_attention_heads",
                                                    .positions = "max_position_embeddings",
                                                    .act = "mlp_hidden_act",
                                                    .eps = "layer_norm_epsilon",
                                                    .act_default = "relu2",
                                                    .kv_heads = true};

const struct arch archs_of_mamba[] = {
    {.name = "GraniteMoeHybridForCausalLM",
     .model_type = "granitemoehybrid",
     .tensor = granitehybrid_tensors,
     .delta = true,
     .mamba = true,
     .multipliers = true,
     .position_type = true,
     .experts = EXPERTS_OPTION},
    {.name = "FalconH1ForCausalLM",
     .model_type = "falcon_h1",
     .tensor = falconh1_tensors,
     .delta = true,
     .mamba = true,
     .beside = true,
     .default_eps = 1e-5},
    {.name = "BambaForCausalLM",
     .model_type = "bamba",
     .tensor = bamba_tensors,
     .delta = true,
     .mamba = true,
     .partial_layers = true,
     .partial_rotary = true,
     .default_partial = 0.5,
     .bias_option = true,
     .mlp_bias_option = true,
     .default_eps = 1e-5},
    {.name = "NemotronHForCausalLM",
     .model_type = "nemotron_h",
     .tensor = nemotronh_tensors,
     .names = &nemotronh_names,
     .delta = true,
     .mamba = true,
     .one_part = true,
     .experts = EXPERTS_BLOCKS,
     .route_bias = true,
     .mtp_tensors = true,
     .own_code = true,
     .default_eps = 1e-5,
     .default_d_head = 128},
};
const size_t n_archs_of_mamba = ARRAY_LEN(archs_of_mamba);
