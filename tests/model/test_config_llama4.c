/* config.json of Llama 4. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "config_text.h"
#include "rig.h"
#include "worker/model/rope.h"

static int32_t without_rope(const struct model_config *mc) /* one bit a layer */
{
    int32_t bits = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        bits |= mc->nope[i] << i;
    return bits;
}

/* One bit a layer. */
static int32_t in_chunks(const struct model_config *mc)
{
    int32_t bits = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        bits |= (model_chunk(mc, i) > 0) << i;
    return bits;
}

Test(config_llama4, options)
{
    struct model_config mc = config_good(LLAMA4, "{}");
    cr_assert(without_rope(&mc) == 8 && in_chunks(&mc) == 7 && mc.window == 8192);
    cr_assert(model_window(&mc, 0) == 0, "a chunk is no window");
    cr_assert(mc.d_head == 128 && mc.rope.theta == 500000 && mc.eps == 1e-5 && !mc.tied &&
              mc.rope.interleaved);
    cr_assert(!mc.sparse[0] && mc.sparse[1] && !mc.sparse[2] && mc.sparse[3]);
    cr_assert(mc.n_experts == 8 && mc.top_k == 2 && mc.sigmoid_scores && !mc.renormalise);
    cr_assert(mc.ffn == 160 && mc.expert_ffn == 96 && mc.shared_ffn == 96);
    cr_assert(model_unit_qk(&mc, 0) && !model_unit_qk(&mc, 3) && !model_has(&mc, TN_Q_NORM));
    cr_assert(!model_scales_q(&mc, 0) && model_scales_q(&mc, 3));
    float q[8193];
    rope_q_scales(&mc.rope, 0, 8193, q);
    cr_assert(q[0] == 1 && q[8190] == 1);
    cr_assert_float_eq((double)q[8191], 1 + 0.1 * log(2), 1e-7); /* the position counts from 1 */
    int32_t first;
    cr_assert(model_fused_rows(&mc, TN_EXPERT_UP, 0, &first) == 192 && first == 96);

    mc = config_good(LLAMA4, "{\"attn_temperature_tuning\":4,\"attn_scale\":0.5,\"floor_scale\":2,"
                             "\"no_rope_layers\":[],\"no_rope_layer_interval\":2}");
    cr_assert(without_rope(&mc) == 10 && in_chunks(&mc) == 5);
    rope_q_scales(&mc.rope, 0, 4, q);
    cr_assert_float_eq((double)q[3], 1 + 0.5 * log(3), 1e-7);
    mc = config_good(LLAMA4, "{\"quantization_config\":{\"quant_method\":\"fbgemm_fp8\"}}");
    cr_expect(mc.fp8 && mc.fp8_rows == 0);
    cr_expect(strstr(mc.arch->tensor[TN_EXPERT_DOWN].name, "experts.down_proj"));
    mc =
        config_good(LLAMA4, "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                            "\"format\":\"float-quantized\",\"config_groups\":{\"g\":{\"weights\":{"
                            "\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\"}}}}}");
    cr_expect(mc.fp8 && strstr(mc.arch->tensor[TN_EXPERT_DOWN].name, "experts.@.down_proj.weight"));
    mc = config_good(LLAMA4, "{\"attn_temperature_tuning\":0}");
    cr_assert(!model_scales_q(&mc, 3));
    mc = config_good(LLAMA4, "{\"attn_temperature_tuning\":false,\"use_qk_norm\":false}");
    cr_assert(!model_scales_q(&mc, 3) && !model_unit_qk(&mc, 0));
    mc = config_good(LLAMA4, "{\"layer_types\":[\"full_attention\",\"chunked_attention\","
                             "\"full_attention\",\"chunked_attention\"],\"moe_layers\":[0],"
                             "\"interleave_moe_layer_step\":0,\"attention_chunk_size\":5}");
    cr_assert(without_rope(&mc) == 8 && in_chunks(&mc) == 10 && model_chunk(&mc, 1) == 5);
    cr_assert(mc.sparse[0] && model_n_sparse(&mc) == 1);
    mc = config_good(LLAMA4,
                     "{\"moe_layers\":[],\"num_local_experts\":0,\"no_rope_layers\":[1,1,1,1],"
                     "\"layer_types\":[\"full_attention\",\"full_attention\","
                     "\"full_attention\",\"full_attention\"],\"attention_chunk_size\":null}");
    cr_assert(mc.n_experts == 0 && mc.shared_ffn == 0 && mc.ffn == 160 && mc.window == 0);

    /* one factor: no frequency is between the two */
    mc = config_good(LLAMA4, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":16,"
                             "\"low_freq_factor\":1,\"high_freq_factor\":1,"
                             "\"original_max_position_embeddings\":8192}}");
    double f[64];
    rope_frequencies(&mc.rope, 128, f);
    for (int32_t i = 0; i < 64; i++) {
        double plain = pow(500000, -2.0 * i / 128), turns = 8192 * plain / (2 * 3.14159265358979);
        cr_assert_float_eq(f[i] / plain, turns < 1 ? 1.0 / 16 : 1, 1e-12);
    }
}

/* What is refused, and what the refusal says. */
static const struct {
    const char *arch, *more;
    enum status st;
    const char *text;
} bad[] = {
    {LLAMA4, "{\"layer_types\":[\"full_attention\"]}", ST_FORMAT,
     "layer_types must be a list of num_hidden_layers (4) names"},
    {LLAMA4,
     "{\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
     "\"sliding_attention\"]}",
     ST_UNSUPPORTED, "layer_types[3] is \"sliding_attention\""},
    {LLAMA4, "{\"attention_chunk_size\":null}", ST_FORMAT,
     "attention_chunk_size is null, but layer 0 has chunked_attention"},
    {LLAMA4, "{\"attention_chunk_size\":0}", ST_RANGE, "attention_chunk_size"},
    {LLAMA4, "{\"floor_scale\":0}", ST_RANGE, "floor_scale"},
    {LLAMA4, "{\"attn_temperature_tuning\":\"yes\"}", ST_FORMAT, "attn_temperature_tuning"},
    {LLAMA4, "{\"no_rope_layers\":[1,1]}", ST_FORMAT, "no_rope_layers must be a list"},
    {LLAMA4, "{\"moe_layers\":[4]}", ST_RANGE, "moe_layers has an entry that is no layer (0 .. 3)"},
    {LLAMA4, "{\"moe_layers\":1}", ST_FORMAT, "moe_layers is no list"},
    {LLAMA4, "{\"interleave_moe_layer_step\":0}", ST_RANGE, "interleave_moe_layer_step"},
    {LLAMA4, "{\"intermediate_size_mlp\":\"-\"}", ST_FORMAT, "intermediate_size_mlp is missing"},
    {LLAMA4, "{\"num_local_experts\":\"-\"}", ST_FORMAT, "num_local_experts is missing"},
    {LLAMA4, "{\"quantization_config\":{\"quant_method\":\"fp8\"}}", ST_UNSUPPORTED,
     "experts of Llama4ForCausalLM with weights of the method \"fp8\" are not supported"},
    {LLAMA4, "{\"norm_topk_prob\":true}", ST_UNSUPPORTED, "norm_topk_prob = true"},
    {LLAMA4, "{\"scoring_func\":\"softmax\"}", ST_UNSUPPORTED, "scoring_func = \"softmax\""},
    {LLAMA4, "{\"sliding_window\":512}", ST_UNSUPPORTED, "sliding_window = 512"},
    {LLAMA4, "{\"for_llm_compressor\":true}", ST_UNSUPPORTED, "for_llm_compressor = true"},
    {LLAMA, "{\"attention_chunk_size\":512}", ST_UNSUPPORTED, "attention_chunk_size = 512"},
    {LLAMA, "{\"attn_temperature_tuning\":true}", ST_UNSUPPORTED, "attn_temperature_tuning = true"},
    {LLAMA, "{\"moe_layers\":[0]}", ST_UNSUPPORTED, "moe_layers = [0]"},
};

Test(config_llama4, refused_by_name)
{
    struct model_config mc;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        enum status st = config_parse(bad[i].arch, bad[i].more, NULL, &mc);
        cr_assert_eq(st, bad[i].st, "%s: %s %s", bad[i].more, status_name(st), status_text());
        cr_assert_not_null(strstr(status_text(), bad[i].text), "%s: \"%s\"", bad[i].more,
                           status_text());
    }
}
