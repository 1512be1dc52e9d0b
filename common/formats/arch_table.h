/* Rows of the architectures table; private to this folder.  model_config.h has what others read. */
#ifndef COMMON_FORMATS_ARCH_TABLE_H
#define COMMON_FORMATS_ARCH_TABLE_H

#include "common/formats/model_config.h"

/* Those with gated delta-net layers are in arch_delta.c, the mixtures of experts of HuggingFace repositories; model_arch.c has the other
 * rows. */
extern const struct arch archs_of_experts[];
extern const size_t n_archs_of_experts;
/* Those whose config.json has names of its own. */
extern const struct arch archs_of_classic[];
extern const size_t n_archs_of_classic;
/* The encoders. */
extern const struct arch archs_of_encoders[];
extern const size_t n_archs_of_encoders;
/* Gemma 3n and Gemma 4. */
extern const struct arch archs_of_gemma[];
extern const size_t n_archs_of_gemma;
extern const struct arch archs_of_delta[];
extern const size_t n_archs_of_delta;
/* Those with Mamba-2 layers. */
extern const struct arch archs_of_mamba[];
extern const size_t n_archs_of_mamba;

#define L "model.layers.#."

/* Names and axes as HuggingFace repositories store the Llama family.  A matrix [rows, cols] maps
 * cols to rows. */
#define SPLIT_QKV                                                                                  \
    [TN_Q] = {L "self_attn.q_proj.weight", L "self_attn.q_proj.bias", AX_Q, AX_HIDDEN, FUSED_NO},  \
    [TN_K] = {L "self_attn.k_proj.weight", L "self_attn.k_proj.bias", AX_KV, AX_HIDDEN, FUSED_NO}, \
    [TN_V] = {L "self_attn.v_proj.weight", L "self_attn.v_proj.bias", AX_KV, AX_HIDDEN, FUSED_NO}

#define HEAD_NORMS                                                                                 \
    [TN_Q_NORM] = {L "self_attn.q_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO},                 \
    [TN_K_NORM] = {L "self_attn.k_norm.weight", NULL, AX_ONE, AX_DHEAD, FUSED_NO}

#define OUTER_TENSORS                                                                              \
    [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},               \
    [TN_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN, AX_Q, FUSED_NO},  \
    [TN_FINAL_NORM] = {"model.norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                    \
    [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}

#define COMMON_TENSORS                                                                             \
    OUTER_TENSORS, HEAD_NORMS,                                                                     \
        [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}

#define GATE_UP_DOWN                                                                               \
    [TN_GATE] = {L "mlp.gate_proj.weight", L "mlp.gate_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},   \
    [TN_UP] = {L "mlp.up_proj.weight", L "mlp.up_proj.bias", AX_FFN, AX_HIDDEN, FUSED_NO},         \
    [TN_DOWN] = {L "mlp.down_proj.weight", L "mlp.down_proj.bias", AX_HIDDEN, AX_FFN, FUSED_NO}

/* A router and one tensor for each matrix of each expert. */
#define SPLIT_EXPERTS                                                                              \
    [TN_ROUTER] = {L "mlp.gate.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},                    \
    [TN_EXPERT_GATE] = {L "mlp.experts.@.gate_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN,        \
                        FUSED_NO},                                                                 \
    [TN_EXPERT_UP] = {L "mlp.experts.@.up_proj.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO}, \
    [TN_EXPERT_DOWN] = {L "mlp.experts.@.down_proj.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN,        \
                        FUSED_NO}

/* Latent attention. */
#define LATENT_ATTENTION                                                                           \
    [TN_Q] = {L "self_attn.q_proj.weight", NULL, AX_QUERY, AX_HIDDEN, FUSED_NO},                   \
    [TN_Q_A] = {L "self_attn.q_a_proj.weight", L "self_attn.q_a_proj.bias", AX_Q_RANK, AX_HIDDEN,  \
                FUSED_NO},                                                                         \
    [TN_Q_A_NORM] = {L "self_attn.q_a_layernorm.weight", NULL, AX_ONE, AX_Q_RANK, FUSED_NO},       \
    [TN_Q_B] = {L "self_attn.q_b_proj.weight", NULL, AX_QUERY, AX_Q_RANK, FUSED_NO},               \
    [TN_KV_A] = {L "self_attn.kv_a_proj_with_mqa.weight", L "self_attn.kv_a_proj_with_mqa.bias",   \
                 AX_LATENT, AX_HIDDEN, FUSED_NO},                                                  \
    [TN_KV_A_NORM] = {L "self_attn.kv_a_layernorm.weight", NULL, AX_ONE, AX_KV_RANK, FUSED_NO},    \
    [TN_K_B] = {L "self_attn.kv_b_proj.weight", NULL, AX_KV_RANK, AX_NOPE, FUSED_KV_B},            \
    [TN_V_B] = {L "self_attn.kv_b_proj.weight", NULL, AX_VALUE, AX_KV_RANK, FUSED_KV_B},           \
    [TN_O] = {L "self_attn.o_proj.weight", L "self_attn.o_proj.bias", AX_HIDDEN, AX_VALUES,        \
              FUSED_NO}

/* The expert that every token takes. */
#define SHARED_EXPERT(name)                                                                        \
    [TN_SHARED_GATE] = {L "mlp." name ".gate_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN,         \
                        FUSED_NO},                                                                 \
    [TN_SHARED_UP] = {L "mlp." name ".up_proj.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},  \
    [TN_SHARED_DOWN] = {L "mlp." name ".down_proj.weight", NULL, AX_HIDDEN, AX_SHARED_FFN,         \
                        FUSED_NO}

/* A dense model of latent attention. */
#define LATENT_MODEL                                                                               \
    LATENT_ATTENTION, FFN_NORM, GATE_UP_DOWN,                                                      \
        [TN_EMBED] = {"model.embed_tokens.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},           \
        [TN_ATTN_NORM] = {L "input_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},          \
        [TN_FINAL_NORM] = {"model.norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                \
        [TN_HEAD] = {"lm_head.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}

#define FFN_NORM                                                                                   \
    [TN_FFN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO}

#define POST_NORMS                                                                                 \
    [TN_POST_ATTN_NORM] = {L "post_attention_layernorm.weight", NULL, AX_ONE, AX_HIDDEN,           \
                           FUSED_NO},                                                              \
    [TN_POST_FFN_NORM] = {L "post_feedforward_layernorm.weight", NULL, AX_ONE, AX_HIDDEN,          \
                          FUSED_NO}

/* Norms of q and k over all heads at once. */
#define WIDE_NORMS                                                                                 \
    [TN_Q_NORM] = {L "self_attn.q_norm.weight", NULL, AX_ONE, AX_Q, FUSED_NO},                     \
    [TN_K_NORM] = {L "self_attn.k_norm.weight", NULL, AX_ONE, AX_KV, FUSED_NO}

#endif
