#include "common/formats/config_gguf_arch.h"

#include <math.h>
#include <string.h>

#define L "blk.#."

#define GGUF_OUTER                                                                                 \
    [TN_EMBED] = {"token_embd.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},                       \
    [TN_Q_NORM] = {L "attn_q_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},                      \
    [TN_K_NORM] = {L "attn_k_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},                      \
    [TN_O] = {L "attn_output.weight", L "attn_output.bias", AX_HIDDEN, AX_Q, FUSED_NO},            \
    [TN_DOWN] = {L "ffn_down.weight", L "ffn_down.bias", AX_HIDDEN, AX_FFN, FUSED_NO},             \
    [TN_ROUTER] = {L "ffn_gate_inp.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},                \
    [TN_EXPERT_GATE] = {L "ffn_gate_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},       \
    [TN_EXPERT_UP] = {L "ffn_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},           \
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},       \
    [TN_FINAL_NORM] = {"output_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                   \
    [TN_HEAD] = {"output.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}

#define GGUF_NORMS                                                                                 \
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                    \
    [TN_FFN_NORM] = {L "ffn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}

#define GGUF_QKV                                                                                   \
    [TN_Q] = {L "attn_q.weight", L "attn_q.bias", AX_Q, AX_HIDDEN, FUSED_NO},                      \
    [TN_K] = {L "attn_k.weight", L "attn_k.bias", AX_KV, AX_HIDDEN, FUSED_NO},                     \
    [TN_V] = {L "attn_v.weight", L "attn_v.bias", AX_KV, AX_HIDDEN, FUSED_NO}

#define GGUF_GATE_AND_UP                                                                           \
    [TN_GATE] = {L "ffn_gate.weight", L "ffn_gate.bias", AX_FFN, AX_HIDDEN, FUSED_NO},             \
    [TN_UP] = {L "ffn_up.weight", L "ffn_up.bias", AX_FFN, AX_HIDDEN, FUSED_NO}

#define GGUF_COMMON GGUF_OUTER, GGUF_NORMS
#define GGUF_SPLIT GGUF_QKV, GGUF_GATE_AND_UP

static const struct tensor_rule gguf_tensors[TN_N] = {GGUF_COMMON, GGUF_SPLIT};

/* Rows that the Gemmas have besides those above, or in their place. */
#define GGUF_SANDWICH                                                                              \
    [TN_POST_ATTN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},     \
    [TN_POST_FFN_NORM] = {L "post_ffw_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule gguf_gemma_tensors[TN_N] = {GGUF_COMMON, GGUF_SPLIT, GGUF_SANDWICH};

#define GGUF_GATE_UP                                                                               \
    [TN_GATE] = {L "ffn_up.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_GATE_UP}, [TN_UP] = {           \
                                                                                 L                 \
                                                                                 "ffn_up.weight",  \
                                                                                 NULL, AX_FFN,     \
                                                                                 AX_HIDDEN,        \
                                                                                 FUSED_GATE_UP}

/* Gate and up are one tensor by the name of up. */
static const struct tensor_rule gguf_phi3_tensors[TN_N] = {
    GGUF_COMMON,
    [TN_Q] = {L "attn_qkv.weight", NULL, AX_Q, AX_HIDDEN, FUSED_QKV},
    [TN_K] = {L "attn_qkv.weight", NULL, AX_KV, AX_HIDDEN, FUSED_QKV},
    [TN_V] = {L "attn_qkv.weight", NULL, AX_KV, AX_HIDDEN, FUSED_QKV},
    GGUF_GATE_UP,
};

static const struct tensor_rule gguf_glm4_tensors[TN_N] = {GGUF_COMMON, GGUF_QKV, GGUF_SANDWICH,
                                                           GGUF_GATE_UP};

static const struct tensor_rule gguf_exaone4_tensors[TN_N] = {GGUF_OUTER, GGUF_SPLIT,
                                                              GGUF_SANDWICH};

#define GGUF_SHARED                                                                                \
    [TN_SHARED_GATE] = {L "ffn_gate_shexp.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},      \
    [TN_SHARED_UP] = {L "ffn_up_shexp.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},          \
    [TN_SHARED_DOWN] = {L "ffn_down_shexp.weight", NULL, AX_HIDDEN, AX_SHARED_FFN, FUSED_NO}

#define GGUF_EXPERTS                                                                               \
    [TN_ROUTER] = {L "ffn_gate_inp.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},                \
    [TN_EXPERT_GATE] = {L "ffn_gate_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},       \
    [TN_EXPERT_UP] = {L "ffn_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},           \
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO}

#define GGUF_WIDE_NORMS                                                                            \
    [TN_Q_NORM] = {L "attn_q_norm.weight", NULL, AX_ONE, AX_Q, FUSED_NO},                          \
    [TN_K_NORM] = {L "attn_k_norm.weight", NULL, AX_ONE, AX_KV, FUSED_NO}

/* What every model has. */
#define GGUF_FRAME                                                                                 \
    [TN_EMBED] = {"token_embd.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},                       \
    [TN_O] = {L "attn_output.weight", L "attn_output.bias", AX_HIDDEN, AX_Q, FUSED_NO},            \
    [TN_DOWN] = {L "ffn_down.weight", L "ffn_down.bias", AX_HIDDEN, AX_FFN, FUSED_NO},             \
    [TN_FINAL_NORM] = {"output_norm.weight", "output_norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},     \
    [TN_HEAD] = {"output.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}

/* Both kinds of layers of Gemma 4 have the same names. */
static const struct tensor_rule gguf_gemma4_tensors[TN_N] = {
    GGUF_FRAME,
    GGUF_NORMS,
    GGUF_SANDWICH,
    [TN_Q_NORM] = {L "attn_q_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},
    [TN_K_NORM] = {L "attn_k_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},
    [TN_Q] = {L "attn_q.weight", NULL, AX_Q, AX_HIDDEN, FUSED_NO},
    [TN_K] = {L "attn_k.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_V] = {L "attn_v.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},
    [TN_GLOBAL_Q] = {L "attn_q.weight", NULL, AX_GLOBAL_Q, AX_HIDDEN, FUSED_NO},
    [TN_GLOBAL_K] = {L "attn_k.weight", NULL, AX_GLOBAL_KV, AX_HIDDEN, FUSED_NO},
    [TN_GLOBAL_V] = {L "attn_v.weight", NULL, AX_GLOBAL_KV, AX_HIDDEN, FUSED_NO},
    [TN_GLOBAL_Q_NORM] = {L "attn_q_norm.weight", NULL, AX_ONE, AX_GLOBAL_DHEAD, FUSED_NO},
    [TN_GLOBAL_K_NORM] = {L "attn_k_norm.weight", NULL, AX_ONE, AX_GLOBAL_DHEAD, FUSED_NO},
    [TN_GLOBAL_O] = {L "attn_output.weight", NULL, AX_HIDDEN, AX_GLOBAL_Q, FUSED_NO},
    [TN_GATE] = {L "ffn_gate.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "ffn_up.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER] = {L "ffn_gate_inp.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
    [TN_ROUTER_NORM] = {L "ffn_gate_inp.scale", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_SCALE] = {L "ffn_down_exps.scale", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    [TN_EXPERT_GATE] = {L "ffn_gate_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_UP] = {L "ffn_gate_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_GATE_UP},
    [TN_EXPERT_IN_NORM] = {L "pre_ffw_norm_2.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_DENSE_OUT_NORM] = {L "post_ffw_norm_1.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_OUT_NORM] = {L "post_ffw_norm_2.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_EMBED] = {"per_layer_token_embd.weight", NULL, AX_INPUT_VOCAB, AX_INPUTS, FUSED_NO},
    [TN_INPUT_PROJ] = {"per_layer_model_proj.weight", NULL, AX_INPUTS, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_PROJ_NORM] = {"per_layer_proj_norm.weight", NULL, AX_ONE, AX_INPUT, FUSED_NO},
    [TN_INPUT_GATE] = {L "inp_gate.weight", NULL, AX_INPUT, AX_HIDDEN, FUSED_NO},
    [TN_INPUT_OUT] = {L "proj.weight", NULL, AX_HIDDEN, AX_INPUT, FUSED_NO},
    [TN_INPUT_NORM] = {L "post_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_LAYER_SCALE] = {L "layer_output_scale.weight", NULL, AX_ONE, AX_ONE, FUSED_NO},
};

static const struct tensor_rule gguf_qwen2moe_tensors[TN_N] = {
    GGUF_COMMON,
    GGUF_SPLIT,
    GGUF_SHARED,
    [TN_SHARED_SCALE] = {L "ffn_gate_inp_shexp.weight", NULL, AX_FLAT_ROW, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gguf_glm4moe_tensors[TN_N] = {
    GGUF_OUTER,
    GGUF_SPLIT,
    GGUF_SHARED,
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER_BIAS] = {L "exp_probs_b.bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
};

static const struct tensor_rule gguf_dots1_tensors[TN_N] = {
    GGUF_COMMON,
    GGUF_SPLIT,
    GGUF_SHARED,
    [TN_ROUTER_BIAS] = {L "exp_probs_b.bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
};

static const struct tensor_rule gguf_minimax_tensors[TN_N] = {
    GGUF_FRAME,   GGUF_WIDE_NORMS,
    GGUF_NORMS,   GGUF_QKV,
    GGUF_EXPERTS, [TN_ROUTER_BIAS] = {L "exp_probs_b.bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
};

static const struct tensor_rule gguf_seed_tensors[TN_N] = {
    GGUF_OUTER,
    GGUF_SPLIT,
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gguf_olmo2_tensors[TN_N] = {GGUF_FRAME, GGUF_WIDE_NORMS, GGUF_SPLIT,
                                                            GGUF_SANDWICH};

static const struct tensor_rule gguf_olmoe_tensors[TN_N] = {GGUF_FRAME, GGUF_WIDE_NORMS, GGUF_NORMS,
                                                            GGUF_QKV, GGUF_EXPERTS};

static const struct tensor_rule gguf_cohere_tensors[TN_N] = {
    GGUF_FRAME,
    GGUF_SPLIT,
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gguf_starcoder2_tensors[TN_N] = {
    GGUF_FRAME,
    GGUF_QKV,
    [TN_ATTN_NORM] = {L "attn_norm.weight", L "attn_norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "ffn_norm.weight", L "ffn_norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_UP] = {L "ffn_up.weight", L "ffn_up.bias", AX_FFN, AX_HIDDEN, FUSED_NO},
};

/* Blocks of layer norms and biases, q, k and v in one tensor. */
#define GGUF_CLASSIC                                                                               \
    [TN_ATTN_NORM] = {L "attn_norm.weight", L "attn_norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},      \
    [TN_FFN_NORM] = {L "ffn_norm.weight", L "ffn_norm.bias", AX_ONE, AX_HIDDEN, FUSED_NO},         \
    [TN_Q] = {L "attn_qkv.weight", L "attn_qkv.bias", AX_Q, AX_HIDDEN, FUSED_QKV},                 \
    [TN_K] = {L "attn_qkv.weight", L "attn_qkv.bias", AX_KV, AX_HIDDEN, FUSED_QKV},                \
    [TN_V] = {L "attn_qkv.weight", L "attn_qkv.bias", AX_KV, AX_HIDDEN, FUSED_QKV},                \
    [TN_UP] = {L "ffn_up.weight", L "ffn_up.bias", AX_FFN, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule gguf_gptneox_tensors[TN_N] = {GGUF_FRAME, GGUF_CLASSIC};

static const struct tensor_rule gguf_gpt2_tensors[TN_N] = {
    GGUF_FRAME,
    GGUF_CLASSIC,
    [TN_POSITIONS] = {"position_embd.weight", NULL, AX_POSITIONS, AX_HIDDEN, FUSED_NO},
};

static const struct tensor_rule gguf_gptoss_tensors[TN_N] = {
    GGUF_FRAME,
    GGUF_QKV,
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_SINKS] = {L "attn_sinks.weight", NULL, AX_ONE, AX_HEADS, FUSED_NO},
    [TN_ROUTER] = {L "ffn_gate_inp.weight", L "ffn_gate_inp.bias", AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_GATE] = {L "ffn_gate_exps.weight", L "ffn_gate_exps.bias", AX_EXPERT_FFN, AX_HIDDEN,
                        FUSED_NO},
    [TN_EXPERT_UP] = {L "ffn_up_exps.weight", L "ffn_up_exps.bias", AX_EXPERT_FFN, AX_HIDDEN,
                      FUSED_NO},
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", L "ffn_down_exps.bias", AX_HIDDEN, AX_EXPERT_FFN,
                        FUSED_NO},
};

/* Gated delta nets (Qwen3-Next, Qwen3.5): names of llama.cpp's converter.  Value heads of the latter are tiled. */
#define GGUF_DELTA                                                                                 \
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                    \
    [TN_FFN_NORM] = {L "post_attention_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},           \
    [TN_Q] = {L "attn_q.weight", NULL, AX_Q, AX_HIDDEN, FUSED_Q_GATE},                             \
    [TN_Q_GATE] = {L "attn_q.weight", NULL, AX_Q, AX_HIDDEN, FUSED_Q_GATE},                        \
    [TN_K] = {L "attn_k.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},                                \
    [TN_V] = {L "attn_v.weight", NULL, AX_KV, AX_HIDDEN, FUSED_NO},                                \
    [TN_DELTA_Q] = {L "attn_qkv.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKV},         \
    [TN_DELTA_K] = {L "attn_qkv.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_DELTA_QKV},         \
    [TN_DELTA_V] = {L "attn_qkv.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_DELTA_QKV},       \
    [TN_DELTA_Z] = {L "attn_gate.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_NO},             \
    [TN_DELTA_CONV] = {L "ssm_conv1d.weight", NULL, AX_DELTA_VALUES, AX_DELTA_TAPS,                \
                       FUSED_DELTA_QKV},                                                           \
    [TN_DELTA_LOG] = {L "ssm_a", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                          \
    [TN_DELTA_DT] = {L "ssm_dt.bias", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                     \
    [TN_DELTA_NORM] = {L "ssm_norm.weight", NULL, AX_ONE, AX_DELTA_VALUE, FUSED_NO},               \
    [TN_DELTA_OUT] = {L "ssm_out.weight", NULL, AX_HIDDEN, AX_DELTA_VALUES, FUSED_NO}

#define GGUF_SPLIT_BA                                                                              \
    [TN_DELTA_B] = {L "ssm_beta.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_NO},               \
    [TN_DELTA_A] = {L "ssm_alpha.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_NO}

#define GGUF_SHARED_SCALE                                                                          \
    [TN_SHARED_SCALE] = {L "ffn_gate_inp_shexp.weight", NULL, AX_FLAT_ROW, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule gguf_qwen3next_tensors[TN_N] = {
    GGUF_OUTER,
    GGUF_DELTA,
    [TN_DELTA_B] = {L "ssm_ba.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_DELTA_BA},
    [TN_DELTA_A] = {L "ssm_ba.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_DELTA_BA},
    GGUF_GATE_AND_UP,
    GGUF_SHARED,
    GGUF_SHARED_SCALE,
};

static const struct tensor_rule gguf_qwen35_tensors[TN_N] = {GGUF_OUTER, GGUF_DELTA, GGUF_SPLIT_BA,
                                                             GGUF_GATE_AND_UP};

static const struct tensor_rule gguf_qwen35moe_tensors[TN_N] = {
    GGUF_OUTER, GGUF_DELTA, GGUF_SPLIT_BA, GGUF_SHARED, GGUF_SHARED_SCALE,
};

/* Mamba-2 layers: z, x, B, C and dt are one matrix. */
#define GGUF_MAMBA                                                                                 \
    [TN_DELTA_Z] = {L "ssm_in.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_MAMBA},             \
    [TN_DELTA_V] = {L "ssm_in.weight", NULL, AX_DELTA_VALUES, AX_HIDDEN, FUSED_MAMBA},             \
    [TN_DELTA_K] = {L "ssm_in.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_MAMBA},               \
    [TN_DELTA_Q] = {L "ssm_in.weight", NULL, AX_DELTA_KEYS, AX_HIDDEN, FUSED_MAMBA},               \
    [TN_DELTA_A] = {L "ssm_in.weight", NULL, AX_DELTA_HEADS, AX_HIDDEN, FUSED_MAMBA},              \
    [TN_DELTA_CONV] = {L "ssm_conv1d.weight", L "ssm_conv1d.bias", AX_DELTA_VALUES, AX_DELTA_TAPS, \
                       FUSED_DELTA_QKV},                                                           \
    [TN_DELTA_LOG] = {L "ssm_a", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                          \
    [TN_DELTA_DT] = {L "ssm_dt.bias", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                     \
    [TN_DELTA_SKIP] = {L "ssm_d", NULL, AX_ONE, AX_DELTA_HEADS, FUSED_NO},                         \
    [TN_DELTA_NORM] = {L "ssm_norm.weight", NULL, AX_ONE, AX_DELTA_VALUES, FUSED_NO},              \
    [TN_DELTA_OUT] = {L "ssm_out.weight", NULL, AX_HIDDEN, AX_DELTA_VALUES, FUSED_NO}

static const struct tensor_rule gguf_granitehybrid_tensors[TN_N] = {GGUF_COMMON, GGUF_SPLIT,
                                                                    GGUF_MAMBA, GGUF_SHARED};

/* Falcon-H1: the factors are in the weights. */
static const struct tensor_rule gguf_falconh1_tensors[TN_N] = {
    GGUF_OUTER,
    GGUF_SPLIT,
    GGUF_MAMBA,
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},
    [TN_FFN_NORM] = {L "ffn_norm", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}, /* so in llama.cpp too */
};

/* Nemotron-H: every layer has one norm. */
#define GGUF_ONE_PART                                                                              \
    GGUF_QKV,                                                                                      \
        GGUF_MAMBA, [TN_EMBED] = {"token_embd.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},       \
                    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},    \
                    [TN_O] = {L "attn_output.weight", NULL, AX_HIDDEN, AX_Q, FUSED_NO},            \
                    [TN_FINAL_NORM] = {"output_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},   \
                    [TN_HEAD] = {"output.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}

static const struct tensor_rule gguf_nemotronh_tensors[TN_N] = {
    GGUF_ONE_PART,
    [TN_UP] = {L "ffn_up.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},
    [TN_DOWN] = {L "ffn_down.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},
};

static const struct tensor_rule gguf_nemotronh_moe_tensors[TN_N] = {
    GGUF_ONE_PART,
    [TN_ROUTER] = {L "ffn_gate_inp.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},
    [TN_ROUTER_BIAS] = {L "exp_probs_b.bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO},
    [TN_EXPERT_UP] = {L "ffn_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},
    [TN_SHARED_UP] = {L "ffn_up_shexp.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},
    [TN_SHARED_DOWN] = {L "ffn_down_shexp.weight", NULL, AX_HIDDEN, AX_SHARED_FFN, FUSED_NO},
};

static const struct tensor_rule gguf_llama4_tensors[TN_N] = {GGUF_FRAME, GGUF_NORMS, GGUF_SPLIT,
                                                             GGUF_EXPERTS, GGUF_SHARED};

/* name: general.architecture.  Mixtral's files are of the architecture "llama", with experts. */
static const struct gguf_arch archs[] = {
    {{.name = "llama",
      .model_type = "llama",
      .tensor = gguf_tensors,
      .window = WINDOW_ALL,
      .experts = EXPERTS_MIXTRAL},
     true},
    {{.name = "qwen2", .model_type = "qwen2", .tensor = gguf_tensors, .qkv_bias = true}, false},
    {{.name = "qwen3", .model_type = "qwen3", .tensor = gguf_tensors, .qk_norm = true}, false},
    {{.name = "qwen3moe",
      .model_type = "qwen3_moe",
      .tensor = gguf_tensors,
      .qk_norm = true,
      .experts = EXPERTS_QWEN},
     false},
    /* the norms' weights have the 1 already */
    {{.name = "gemma", .model_type = "gemma", .tensor = gguf_tensors, .scale_embed = true}, false},
    {{.name = "gemma2",
      .model_type = "gemma2",
      .tensor = gguf_gemma_tensors,
      .scale_embed = true,
      .soft_caps = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 2,
      .default_attn_cap = 50,
      .default_logit_cap = 30},
     false},
    {{.name = "gemma3",
      .model_type = "gemma3_text",
      .tensor = gguf_gemma_tensors,
      .qk_norm = true,
      .scale_embed = true,
      .soft_caps = true,
      .local_rope = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 6,
      .default_theta = 1e6},
     false},
    {{.name = "gemma3n",
      .model_type = "gemma3n_text",
      .tensor = gguf_gemma3n_tensors,
      .qk_norm = true,
      .scale_embed = true,
      .final_cap = true,
      .unit_scores = true,
      .value_norm = true,
      .streams = true,
      .local_rope = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 5,
      .default_theta = 1e6,
      .default_logit_cap = 30},
     false},
    {{.name = "gemma4",
      .model_type = "gemma4_text",
      .tensor = gguf_gemma4_tensors,
      .qk_norm = true,
      .scale_embed = true,
      .final_cap = true,
      .unit_scores = true,
      .global_heads = true,
      .value_norm = true,
      .layer_scale = true,
      .local_rope = true,
      .experts = EXPERTS_BESIDE,
      .window = WINDOW_PATTERN,
      .default_pattern = 6,
      .default_theta = 1e6},
     false},
    {{.name = "mistral3",
      .model_type = "ministral3",
      .tensor = gguf_tensors,
      .needs_rope = true,
      .window = WINDOW_ALL},
     true},
    {{.name = "phi3",
      .model_type = "phi3",
      .tensor = gguf_phi3_tensors,
      .rope_factors = true,
      .window = WINDOW_ALL},
     false},
    {{.name = "smollm3", .model_type = "smollm3", .tensor = gguf_tensors, .nope = NOPE_LISTED},
     true},
    {{.name = "granite", .model_type = "granite", .tensor = gguf_tensors, .multipliers = true},
     true},
    {{.name = "granitemoe",
      .model_type = "granitemoe",
      .tensor = gguf_tensors,
      .multipliers = true,
      .experts = EXPERTS_MIXTRAL},
     true},
    {{.name = "glm4", .model_type = "glm4", .tensor = gguf_glm4_tensors}, true},
    {{.name = "exaone4",
      .model_type = "exaone4",
      .tensor = gguf_exaone4_tensors,
      .qk_norm = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 4,
      .nope = NOPE_FULL},
     false},
    {{.name = "qwen2moe",
      .model_type = "qwen2_moe",
      .tensor = gguf_qwen2moe_tensors,
      .qkv_bias = true,
      .experts = EXPERTS_QWEN,
      .shared_option = true},
     false},
    {{.name = "glm4moe",
      .model_type = "glm4_moe",
      .tensor = gguf_glm4moe_tensors,
      .qk_norm_option = true,
      .extra_layers = true,
      .experts = EXPERTS_GROUPS,
      .route_bias = true},
     false},
    /* OLMo 3 too, whose layers with a window have a plain RoPE */
    {{.name = "olmo2",
      .model_type = "olmo2",
      .tensor = gguf_olmo2_tensors,
      .qk_norm = true,
      .wide_qk_norm = true,
      .local_rope = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 4},
     false},
    {{.name = "olmoe",
      .model_type = "olmoe",
      .tensor = gguf_olmoe_tensors,
      .qk_norm = true,
      .wide_qk_norm = true,
      .experts = EXPERTS_OLMO},
     false},
    {{.name = "command-r",
      .model_type = "cohere",
      .tensor = gguf_cohere_tensors,
      .layer_norm = true,
      .parallel = true,
      .logit_factor = true,
      .default_logit_scale = 1},
     true},
    {{.name = "cohere2",
      .model_type = "cohere2",
      .tensor = gguf_cohere_tensors,
      .layer_norm = true,
      .parallel = true,
      .logit_factor = true,
      .default_logit_scale = 1,
      .window = WINDOW_PATTERN,
      .default_pattern = 4,
      .nope = NOPE_UNWINDOWED},
     true},
    {{.name = "gpt-oss",
      .model_type = "gpt_oss",
      .tensor = gguf_gptoss_tensors,
      .sinks = true,
      .expert_bias = true,
      .window = WINDOW_PATTERN,
      .default_pattern = 2,
      .experts = EXPERTS_MIXTRAL,
      .default_theta = 150000},
     false},
    {{.name = "qwen3next",
      .model_type = "qwen3_next",
      .tensor = gguf_qwen3next_tensors,
      .qk_norm = true,
      .delta = true,
      .decay_value = true,
      .extra_layers = true,
      .experts = EXPERTS_QWEN,
      .shared_option = true},
     false},
    {{.name = "qwen35",
      .model_type = "qwen3_5_text",
      .tensor = gguf_qwen35_tensors,
      .qk_norm = true,
      .delta = true,
      .tiled_heads = true,
      .decay_value = true,
      .extra_layers = true,
      .mrope_text = true},
     false},
    {{.name = "qwen35moe",
      .model_type = "qwen3_5_moe_text",
      .tensor = gguf_qwen35moe_tensors,
      .qk_norm = true,
      .delta = true,
      .tiled_heads = true,
      .decay_value = true,
      .extra_layers = true,
      .mrope_text = true,
      .experts = EXPERTS_QWEN,
      .shared_option = true},
     false},
    {{.name = "granitehybrid",
      .model_type = "granitemoehybrid",
      .tensor = gguf_granitehybrid_tensors,
      .delta = true,
      .mamba = true,
      .decay_value = true,
      .multipliers = true,
      .whole_pairs = true,
      .experts = EXPERTS_OPTION},
     true},
    {{.name = "falcon-h1",
      .model_type = "falcon_h1",
      .tensor = gguf_falconh1_tensors,
      .delta = true,
      .mamba = true,
      .beside = true,
      .decay_value = true},
     false},
    /* the order of q and k changes nothing: there is no RoPE */
    {{.name = "nemotron_h",
      .model_type = "nemotron_h",
      .tensor = gguf_nemotronh_tensors,
      .delta = true,
      .mamba = true,
      .one_part = true,
      .decay_value = true},
     true},
    {{.name = "nemotron_h_moe",
      .model_type = "nemotron_h",
      .tensor = gguf_nemotronh_moe_tensors,
      .delta = true,
      .mamba = true,
      .one_part = true,
      .decay_value = true,
      .extra_layers = true,
      .experts = EXPERTS_BLOCKS,
      .route_bias = true},
     true},
    {{.name = "dots1",
      .model_type = "dots1",
      .tensor = gguf_dots1_tensors,
      .qk_norm = true,
      .experts = EXPERTS_GROUPS,
      .route_bias = true},
     false},
    {{.name = "minimax-m2",
      .model_type = "minimax_m2",
      .tensor = gguf_minimax_tensors,
      .qk_norm = true,
      .wide_qk_norm = true,
      .experts = EXPERTS_MIXTRAL,
      .route_bias = true},
     false},
    {{.name = "seed_oss", .model_type = "seed_oss", .tensor = gguf_seed_tensors}, false},
    {{.name = "ernie4_5", .model_type = "ernie4_5", .tensor = gguf_tensors}, true},
    {{.name = "starcoder2",
      .model_type = "starcoder2",
      .tensor = gguf_starcoder2_tensors,
      .layer_norm = true,
      .norm_bias = true,
      .tanh_gelu = true,
      .window = WINDOW_ALL},
     false},
    {{.name = "gptneox",
      .model_type = "gpt_neox",
      .tensor = gguf_gptneox_tensors,
      .layer_norm = true,
      .norm_bias = true,
      .parallel_option = true},
     false},
    {{.name = "llama4",
      .model_type = "llama4_text",
      .tensor = gguf_llama4_tensors,
      .qk_norm = true,
      .unit_qk_norm = true,
      .nope = NOPE_LISTED,
      .window = WINDOW_CHUNK,
      .experts = EXPERTS_STEP},
     true},
    {{.name = "gpt2",
      .model_type = "gpt2",
      .tensor = gguf_gpt2_tensors,
      .layer_norm = true,
      .norm_bias = true,
      .tanh_gelu = true},
     false},
};

const struct gguf_arch *gguf_arch_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(archs); i++)
        if (strcmp(archs[i].arch.name, name) == 0)
            return &archs[i];
    return NULL;
}

const char *gguf_arch_names(void)
{
    return "llama, mistral3, qwen2, qwen3, qwen3moe, gemma, gemma2, gemma3, gemma3n, gemma4, phi3, "
           "smollm3, "
           "granite, "
           "granitemoe, "
           "glm4, exaone4, qwen2moe, glm4moe, deepseek2, minicpm3, olmo2, olmoe, command-r, "
           "cohere2, "
           "starcoder2, dots1, minimax-m2, seed_oss, ernie4_5, qwen3next, qwen35, qwen35moe, "
           "granitehybrid, falcon-h1, nemotron_h, nemotron_h_moe, llama4, "
           "gptneox, gpt2 and gpt-oss";
}

const struct gguf_arch *gguf_arch_of_type(const char *model_type, bool experts)
{
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        const struct arch *a = &archs[i].arch;
        bool fits = !a->one_part || (a->experts != EXPERTS_NONE) == experts;
        if (strcmp(model_type, a->model_type) == 0 && fits)
            return &archs[i];
    }
    return NULL;
}

bool gguf_arch_interleaved(const struct arch *a)
{
    return ((const struct gguf_arch *)a)->interleaved; /* a is the member of one */
}

/* The weights of a token's experts are divided by their sum, but for qwen2moe, olmoe and llama4. */
bool gguf_arch_renormalises(const struct arch *a)
{
    return (!a->shared_option || a->delta) && a->experts != EXPERTS_OLMO &&
           a->experts != EXPERTS_STEP;
}

/* query_pre_attn_scalar is the head's size, but for the models of 27 billion weights, where it is D / Hq. */
double gguf_arch_attn_scale(const struct arch *a, const struct model_config *mc)
{
    if (a->unit_scores)
        return 1;
    int32_t large = a->local_rope ? 62 : 46; /* layers of the largest Gemma 3, Gemma 2 */
    return a->soft_caps && mc->n_layers == large ? 1 / sqrt((double)mc->hidden / mc->n_q) : 0;
}

bool gguf_arch_nope(const struct arch *a, const struct model_config *mc, int32_t layer)
{
    if (a->one_part)
        return true;
    if (a->nope == NOPE_LISTED) /* SmolLM3, Llama 4 */
        return (layer + 1) % 4 == 0;
    if (a->nope == NOPE_UNWINDOWED)
        return !mc->windowed[layer];
    return a->nope == NOPE_FULL && mc->window && !mc->windowed[layer];
}

/* GPT-NeoX's files do not say it: its repositories have the erf form, but GPT-NeoX-20B the tanh form. */
enum model_act gguf_arch_act(const struct arch *a, const struct model_config *mc)
{
    if (a->one_part)
        return MODEL_RELU2;
    if (a->parallel_option)
        return mc->n_layers == 44 ? MODEL_GELU_TANH : MODEL_GELU;
    return a->scale_embed || a->tanh_gelu ? MODEL_GELU_TANH : MODEL_SILU;
}
