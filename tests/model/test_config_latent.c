/* Configurations of latent attention (DeepSeek V2, V3, Kimi K2, Moonlight, MiniCPM 3): what is read, and each
 * value that is refused by name. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/model_config.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,\"vocab_size\":100,"      \
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_embeddings\":128,"         \
    "\"kv_lora_rank\":32,\"q_lora_rank\":24,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,"       \
    "\"v_head_dim\":12,\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"n_shared_experts\":2,"   \
    "\"moe_intermediate_size\":24,\"first_k_dense_replace\":1,\"routed_scaling_factor\":2.5,"      \
    "\"n_group\":4,\"topk_group\":2,\"moe_layer_freq\":1,\"attention_bias\":false,"                \
    "\"rope_scaling\":null,\"head_dim\":8,\"qk_head_dim\":24,\"auto_map\":{\"AutoModel\":\"x.Y\"}"

static const char v2[] =
    "{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"model_type\":\"deepseek_v2\","
    "\"topk_method\":\"greedy\",\"scoring_func\":\"softmax\",\"norm_topk_prob\":false," SIZES "}";
static const char v3[] =
    "{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"deepseek_v3\","
    "\"topk_method\":\"noaux_tc\",\"scoring_func\":\"sigmoid\",\"norm_topk_prob\":true,"
    "\"num_nextn_predict_layers\":1," SIZES "}";

static const char minicpm3[] =
    "{\"architectures\":[\"MiniCPM3ForCausalLM\"],\"model_type\":\"minicpm3\","
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,\"vocab_size\":100,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_embeddings\":128,"
    "\"kv_lora_rank\":32,\"q_lora_rank\":24,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,"
    "\"scale_emb\":12,\"scale_depth\":1.4,\"dim_model_base\":256,\"attention_bias\":false,"
    "\"auto_map\":{\"AutoModel\":\"x.Y\"}}";

/* base with the only place of `from` replaced by `to`; from NULL: as it is. */
static enum status parse(const char *base, const char *from, const char *to,
                         struct model_config *mc)
{
    static char text[4096];
    const char *at = from ? strstr(base, from) : base;
    cr_assert_not_null(at, "%s", from);
    int head = (int)(at - base);
    snprintf(text, sizeof text, "%.*s%s%s", head, base, from ? to : "",
             at + (from ? strlen(from) : 0));
    return model_config_parse(mc, text, strlen(text), NULL, 0);
}

static struct model_config good(const char *base, const char *from, const char *to)
{
    struct model_config mc;
    enum status st = parse(base, from, to, &mc);
    cr_assert_eq(st, ST_OK, "%s: %s", to, status_text());
    return mc;
}

Test(config_latent, factors_of_minicpm)
{
    struct model_config mc = good(minicpm3, NULL, NULL);
    cr_assert(mc.kv_rank == 32 && mc.q_rank == 24 && mc.d_value == 16 && mc.d_head == 40);
    cr_assert(mc.embed_scale == 12 && mc.residual_scale == 0.7 && mc.logit_scale == 4);
    cr_assert(mc.tied && mc.eps == 1e-5 && !mc.rope.interleaved && mc.n_experts == 0);
    cr_assert(!mc.qkv_bias && !mc.o_bias && fabs(mc.attn_scale - 1 / sqrt(24)) < 1e-12);
    mc = good(minicpm3, "\"scale_depth\":1.4", "\"scale_depth\":null,\"v_head_dim\":12");
    cr_assert(mc.residual_scale == 1 && mc.d_value == 12);
    mc = good(minicpm3, "\"dim_model_base\":256", "\"dim_model_base\":null,\"mlp_bias\":true");
    cr_assert(mc.logit_scale == 1 && mc.mlp_bias && !mc.qkv_bias);
    mc = good(minicpm3, "\"attention_bias\":false", "\"attention_bias\":true");
    cr_assert(mc.qkv_bias && mc.o_bias && !mc.mlp_bias);
}

Test(config_latent, minicpm_that_is_refused)
{
    static const struct {
        const char *from, *to;
        enum status st;
        const char *says;
    } rows[] = {
        {"\"scale_emb\":12,", "", ST_FORMAT, "scale_emb is missing"},
        {"\"scale_emb\":12", "\"scale_emb\":null", ST_FORMAT, "scale_emb is missing"},
        {"\"scale_emb\":12", "\"scale_emb\":0", ST_RANGE, "scale_emb"},
        {"\"scale_depth\":1.4,", "", ST_FORMAT, "scale_depth is missing"},
        {"\"scale_depth\":1.4", "\"scale_depth\":-1", ST_RANGE, "scale_depth"},
        {"\"dim_model_base\":256,", "", ST_FORMAT, "dim_model_base is missing"},
        {"\"dim_model_base\":256", "\"dim_model_base\":\"x\"", ST_FORMAT, "dim_model_base"},
        {"\"hidden_size\":64", "\"hidden_size\":66", ST_RANGE, "there is no v_head_dim"},
        {"\"attention_bias\"", "\"rope_interleave\":true,\"attention_bias\"", ST_UNSUPPORTED,
         "rope_interleave true is not supported for MiniCPM3ForCausalLM"},
        {"\"scale_emb\":12", "\"scale_emb\":12,\"n_routed_experts\":8", ST_UNSUPPORTED,
         "n_routed_experts = 8"},
        {"\"num_key_value_heads\":4", "\"num_key_value_heads\":2", ST_UNSUPPORTED,
         "num_key_value_heads 2"},
    };
    struct model_config mc;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(parse(minicpm3, rows[i].from, rows[i].to, &mc), rows[i].st, "%s: %s",
                     rows[i].to, status_text());
        cr_assert_not_null(strstr(status_text(), rows[i].says), "%s", status_text());
    }
    cr_assert_eq(parse(v2, "\"n_group\":4", "\"n_group\":4,\"scale_depth\":1", &mc),
                 ST_UNSUPPORTED);
    cr_assert_not_null(strstr(status_text(), "scale_depth = 1 is not understood"), "%s",
                       status_text());
}

Test(config_latent, sizes_and_routing)
{
    struct model_config mc = good(v2, NULL, NULL);
    cr_assert(mc.kv_rank == 32 && mc.q_rank == 24 && mc.d_nope == 16 && mc.d_rope == 8);
    cr_assert(mc.d_value == 12 && mc.n_kv == 1 && mc.n_q == 4 && mc.d_head == 40);
    cr_assert(mc.rope.rot_dim == 8 && mc.rope.interleaved && mc.shared_ffn == 48);
    cr_assert(mc.n_groups == 1 && !mc.sigmoid_scores && !mc.renormalise && mc.route_scale == 2.5);
    cr_assert(!mc.sparse[0] && mc.sparse[1] && fabs(mc.attn_scale - 1 / sqrt(24)) < 1e-12);
    mc = good(v2, "\"greedy\"", "\"group_limited_greedy\"");
    cr_assert(mc.n_groups == 4 && mc.top_groups == 2 && !mc.sigmoid_scores);
    mc = good(v2, "\"q_lora_rank\":24", "\"q_lora_rank\":null");
    cr_assert(mc.q_rank == 0 && model_has(&mc, TN_Q) && !model_has(&mc, TN_Q_B));
    mc = good(v3, NULL, NULL);
    cr_assert(mc.n_groups == 4 && mc.sigmoid_scores && mc.renormalise && mc.n_mtp == 1);
    cr_assert(model_has(&mc, TN_Q_A) && !model_has(&mc, TN_Q) && model_has(&mc, TN_ROUTER_BIAS));
    mc = good(v3, "\"deepseek_v3\"", "\"kimi_k2\"");
    cr_assert_eq(mc.kv_rank, 32);
    mc = good(v3, "\"head_dim\":8", "\"rope_interleave\":false");
    cr_assert(!mc.rope.interleaved);
}

Test(config_latent, yarn_scales_the_scores)
{
    const char *scaling = "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":1.0,"
                          "\"original_max_position_embeddings\":32,\"mscale_all_dim\":0.5}";
    struct model_config mc = good(v3, "\"rope_scaling\":null", scaling);
    double all = 0.1 * 0.5 * log(40) + 1, m = 0.1 * log(40) + 1;
    cr_assert(mc.rope.type == ROPE_YARN);
    cr_assert(fabs(mc.attn_scale - all * all / sqrt(24)) < 1e-12);
    cr_assert(fabs(mc.rope.attention_factor - m / all) < 1e-12);
}

static const struct bad {
    const char *base, *from, *to;
    enum status st;
    const char *says;
} bad[] = {
    {v2, "\"kv_lora_rank\":32,", "", ST_FORMAT, "kv_lora_rank is missing"},
    {v2, "\"q_lora_rank\":24,", "", ST_FORMAT, "q_lora_rank is missing"},
    {v2, "\"v_head_dim\":12", "\"v_head_dim\":0", ST_RANGE, "v_head_dim is 0"},
    {v2, "\"kv_lora_rank\":32", "\"kv_lora_rank\":70000", ST_RANGE, "kv_lora_rank is 70000"},
    {v2, "\"qk_rope_head_dim\":8", "\"qk_rope_head_dim\":7", ST_RANGE, "must be even"},
    {v2, "\"num_key_value_heads\":4", "\"num_key_value_heads\":2", ST_UNSUPPORTED,
     "num_key_value_heads 2 is not num_attention_heads 4"},
    {v2, "\"greedy\"", "\"noaux_tc\"", ST_UNSUPPORTED, "topk_method \"noaux_tc\""},
    {v2, "\"softmax\"", "\"sigmoid\"", ST_UNSUPPORTED, "scoring_func = \"sigmoid\""},
    {v2, "\"norm_topk_prob\":false", "\"norm_topk_prob\":true", ST_UNSUPPORTED,
     "norm_topk_prob = true"},
    {v2, "\"moe_layer_freq\":1", "\"moe_layer_freq\":2", ST_UNSUPPORTED, "moe_layer_freq = 2"},
    {v2, "\"head_dim\":8", "\"rope_interleave\":false", ST_UNSUPPORTED, "rope_interleave false"},
    {v2, "\"head_dim\":8", "\"mlp_bias\":true", ST_UNSUPPORTED, "mlp_bias = true"},
    {v2, "\"head_dim\":8", "\"partial_rotary_factor\":0.5", ST_UNSUPPORTED,
     "partial_rotary_factor = 0.5"},
    {v2, "\"first_k_dense_replace\":1,", "", ST_FORMAT, "first_k_dense_replace is missing"},
    {v2, "\"n_shared_experts\":2,", "", ST_FORMAT, "n_shared_experts is missing"},
    {v2,
     "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"max_position_embeddings\":128,"
     "\"kv_lora_rank\":32",
     "\"num_attention_heads\":65536,\"num_key_value_heads\":65536,"
     "\"max_position_embeddings\":128,\"kv_lora_rank\":300",
     ST_RANGE, "65536 heads of 308 are too many"},
    {v3, "\"n_group\":4,", "", ST_FORMAT, "n_group is missing"},
    {v3, "\"topk_group\":2,", "", ST_FORMAT, "topk_group is missing"},
    {v3, "\"routed_scaling_factor\":2.5,", "", ST_FORMAT, "routed_scaling_factor is missing"},
    {v3, "\"noaux_tc\"", "\"greedy\"", ST_UNSUPPORTED, "topk_method = \"greedy\""},
    {v3, "\"sigmoid\"", "\"softmax\"", ST_UNSUPPORTED, "scoring_func = \"softmax\""},
    {v3, "\"deepseek_v3\"", "\"kimi_k3\"", ST_UNSUPPORTED, "model_type \"kimi_k3\""},
    {v3, "\"n_group\":4", "\"n_group\":3", ST_RANGE, "8 experts in 3 groups"},
};

Test(config_latent, refusals_name_the_field)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct model_config mc;
        enum status st = parse(bad[i].base, bad[i].from, bad[i].to, &mc);
        cr_expect_eq(st, bad[i].st, "%s: %s", bad[i].from, status_name(st));
        cr_expect(st != ST_OK && strstr(status_text(), bad[i].says), "\"%s\" does not say \"%s\"",
                  st == ST_OK ? "" : status_text(), bad[i].says);
    }
}
