/* GGUF's architectures with latent attention.  deepseek2: DeepSeek V2 and V3, Kimi K2, Moonlight.  llama.cpp's converter splits
 * the matrix from latents to keys and values by heads, into attn_k_b and attn_v_b; files of before
 * April 2025 have it whole, as attn_kv_b.  A bias of the router tells V3 from V2.
 * minicpm3: attn_kv_b is whole, and there are no keys for the values' size and MiniCPM's factors. */
#include <math.h>
#include <string.h>

#include "common/formats/config_gguf_meta.h"
#include "common/formats/config_json.h"

#define L "blk.#."
#define LATENT_TENSORS                                                                             \
    [TN_EMBED] = {"token_embd.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO},                       \
    [TN_ATTN_NORM] = {L "attn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                    \
    [TN_Q] = {L "attn_q.weight", NULL, AX_QUERY, AX_HIDDEN, FUSED_NO},                             \
    [TN_Q_A] = {L "attn_q_a.weight", L "attn_q_a.bias", AX_Q_RANK, AX_HIDDEN, FUSED_NO},           \
    [TN_Q_A_NORM] = {L "attn_q_a_norm.weight", NULL, AX_ONE, AX_Q_RANK, FUSED_NO},                 \
    [TN_Q_B] = {L "attn_q_b.weight", NULL, AX_QUERY, AX_Q_RANK, FUSED_NO},                         \
    [TN_KV_A] = {L "attn_kv_a_mqa.weight", L "attn_kv_a_mqa.bias", AX_LATENT, AX_HIDDEN,           \
                 FUSED_NO},                                                                        \
    [TN_KV_A_NORM] = {L "attn_kv_a_norm.weight", NULL, AX_ONE, AX_KV_RANK, FUSED_NO},              \
    [TN_O] = {L "attn_output.weight", L "attn_output.bias", AX_HIDDEN, AX_VALUES, FUSED_NO},       \
    [TN_FFN_NORM] = {L "ffn_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                      \
    [TN_GATE] = {L "ffn_gate.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},                          \
    [TN_UP] = {L "ffn_up.weight", NULL, AX_FFN, AX_HIDDEN, FUSED_NO},                              \
    [TN_DOWN] = {L "ffn_down.weight", NULL, AX_HIDDEN, AX_FFN, FUSED_NO},                          \
    [TN_ROUTER] = {L "ffn_gate_inp.weight", NULL, AX_EXPERTS, AX_HIDDEN, FUSED_NO},                \
    [TN_EXPERT_GATE] = {L "ffn_gate_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},       \
    [TN_EXPERT_UP] = {L "ffn_up_exps.weight", NULL, AX_EXPERT_FFN, AX_HIDDEN, FUSED_NO},           \
    [TN_EXPERT_DOWN] = {L "ffn_down_exps.weight", NULL, AX_HIDDEN, AX_EXPERT_FFN, FUSED_NO},       \
    [TN_SHARED_GATE] = {L "ffn_gate_shexp.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},      \
    [TN_SHARED_UP] = {L "ffn_up_shexp.weight", NULL, AX_SHARED_FFN, AX_HIDDEN, FUSED_NO},          \
    [TN_SHARED_DOWN] = {L "ffn_down_shexp.weight", NULL, AX_HIDDEN, AX_SHARED_FFN, FUSED_NO},      \
    [TN_FINAL_NORM] = {"output_norm.weight", NULL, AX_ONE, AX_HIDDEN, FUSED_NO},                   \
    [TN_HEAD] = {"output.weight", NULL, AX_VOCAB, AX_HIDDEN, FUSED_NO}
#define SPLIT_KV_B                                                                                 \
    [TN_K_B] = {L "attn_k_b.weight", NULL, AX_KV_RANK, AX_NOPE, EACH_HEAD}, [TN_V_B] = {           \
                                                                                L                  \
                                                                                "attn_v_b.weight", \
                                                                                NULL, AX_VALUE,    \
                                                                                AX_KV_RANK,        \
                                                                                EACH_HEAD}
#define WHOLE_KV_B                                                                                 \
    [TN_K_B] = {L "attn_kv_b.weight", NULL, AX_KV_RANK, AX_NOPE, FUSED_KV_B},                      \
    [TN_V_B] = {L "attn_kv_b.weight", NULL, AX_VALUE, AX_KV_RANK, FUSED_KV_B}
#define BIAS_OF_ROUTER [TN_ROUTER_BIAS] = {L "exp_probs_b.bias", NULL, AX_ONE, AX_EXPERTS, FUSED_NO}

/* [whole attn_kv_b][bias of the router] */
static const struct tensor_rule tensors[2][2][TN_N] = {
    {{LATENT_TENSORS, SPLIT_KV_B}, {LATENT_TENSORS, SPLIT_KV_B, BIAS_OF_ROUTER}},
    {{LATENT_TENSORS, WHOLE_KV_B}, {LATENT_TENSORS, WHOLE_KV_B, BIAS_OF_ROUTER}},
};

#define ROW(whole, bias)                                                                           \
    {                                                                                              \
        .arch = {.name = "deepseek2",                                                              \
                 .model_type = "deepseek2",                                                        \
                 .tensor = tensors[whole][bias],                                                   \
                 .latent = true,                                                                   \
                 .extra_layers = true,                                                             \
                 .experts = EXPERTS_GROUPS,                                                        \
                 .route_bias = bias},                                                              \
        .interleaved = true                                                                        \
    }

static const struct tensor_rule minicpm3_tensors[TN_N] = {LATENT_TENSORS, WHOLE_KV_B};

static const struct gguf_arch minicpm3 = {.arch = {.name = "minicpm3",
                                                   .model_type = "minicpm3",
                                                   .tensor = minicpm3_tensors,
                                                   .latent = true,
                                                   .derived_value = true,
                                                   .depth_scales = true,
                                                   .rope_factors = true},
                                          .interleaved = false};

static const struct gguf_arch rows[2][2] = {{ROW(0, 0), ROW(0, 1)}, {ROW(1, 0), ROW(1, 1)}};

static bool has_tensor(const struct gguf *g, const char *kind)
{
    char name[64] = "blk.";
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_str s = gguf_tensor_at(g, i)->name;
        size_t n = strlen(kind);
        if (s.len > n && memcmp(s.data + s.len - n, kind, n) == 0 &&
            memcmp(s.data, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

const struct gguf_arch *config_gguf_latent_row(const char *name, const struct gguf *g)
{
    if (strcmp(name, "minicpm3") == 0)
        return &minicpm3;
    if (strcmp(name, "deepseek2") != 0)
        return NULL;
    bool whole = has_tensor(g, ".attn_kv_b.weight");
    bool bias = has_tensor(g, ".exp_probs_b.bias");
    return &rows[whole][bias];
}

const struct gguf_arch *config_gguf_latent_for(const struct model_config *mc)
{
    if (!mc->arch->latent)
        return NULL;
    return mc->arch->depth_scales ? &minicpm3 : &rows[0][mc->arch->route_bias];
}

/* The size that a key of older files has under another name. */
static enum status expect(const struct meta *m, const char *key, int32_t want)
{
    int32_t said = want;
    TRY(meta_i32(m, key, 1, 1 << 24, &said));
    if (said != want)
        FAIL(ST_FORMAT, "gguf: %s is %d, not %d as the other sizes say", meta_key(m, key).text,
             said, want);
    return ST_OK;
}

enum status config_gguf_latent(struct model_config *mc, const struct meta *m)
{
    bool whole = m->row != &rows[0][0] && m->row != &rows[0][1];
    const char *key = whole ? "attention.key_length" : "attention.key_length_mla";
    const char *value = whole ? "attention.value_length" : "attention.value_length_mla";
    int32_t d_head = 0;
    const char *const needed[] = {"attention.kv_lora_rank", "rope.dimension_count", key, value};
    size_t n_needed = ARRAY_LEN(needed) - mc->arch->derived_value;
    for (size_t i = 0; i < n_needed; i++)
        TRY(meta_need(m, needed[i]));
    TRY(meta_i32(m, "attention.kv_lora_rank", 1, 1 << 16, &mc->kv_rank));
    TRY(meta_i32(m, "attention.q_lora_rank", 1, 1 << 16, &mc->q_rank));
    TRY(meta_i32(m, "rope.dimension_count", 2, 1 << 14, &mc->d_rope));
    TRY(meta_i32(m, key, mc->d_rope + 1, 1 << 15, &d_head));
    if (!gguf_has(m->g, meta_key(m, value).text) && mc->hidden % mc->n_q)
        FAIL(ST_RANGE, "gguf: an embedding of %d is no multiple of %d heads, and there is no %s",
             mc->hidden, mc->n_q, meta_key(m, value).text);
    mc->d_value = mc->hidden / mc->n_q;
    TRY(meta_i32(m, value, 1, 1 << 14, &mc->d_value));
    mc->d_nope = d_head - mc->d_rope;
    TRY(expect(m, "attention.head_count_kv", whole ? mc->n_q : 1));
    config_latent_sizes(mc);
    if (whole)
        return ST_OK;
    TRY(expect(m, "attention.key_length", mc->d_head));
    return expect(m, "attention.value_length", mc->kv_rank);
}

void gguf_arch_depth_scales(struct model_config *mc)
{
    mc->embed_scale = 12;
    mc->residual_scale = 1.4 / sqrt(mc->n_layers);
    mc->logit_scale = 256.0 / mc->hidden;
}

/* The files take mscale to be mscale_all_dim, of which they have a tenth. */
enum status config_gguf_latent_scale(struct model_config *mc, const struct meta *m)
{
    double tenth = 0;
    TRY(meta_double(m, "rope.scaling.yarn_log_multiplier", 0, 1e2, &tenth));
    if (tenth > 0)
        mc->rope.attention_factor = 1;
    config_latent_attn_scale(mc, 10 * tenth);
    return ST_OK;
}
