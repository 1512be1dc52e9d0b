/* Configurations: each form of config.json that is read. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config_text.h"
#include "rig.h"
#include "worker/model/rope.h"

Test(config, sizes_and_defaults)
{
    struct model_config mc = config_good(LLAMA, "{}");
    cr_assert_str_eq(mc.arch->name, LLAMA);
    cr_assert_eq(mc.hidden, 64);
    cr_assert_eq(mc.ffn, 96);
    cr_assert_eq(mc.n_layers, 4);
    cr_assert_eq(mc.n_q, 4);
    cr_assert_eq(mc.n_kv, 2);
    cr_assert_eq(mc.d_head, 16);
    cr_assert_eq(mc.vocab, 100);
    cr_assert_eq(mc.max_ctx, 128);
    cr_assert_eq(mc.rope.rot_dim, 16);
    cr_assert_eq(mc.rope.theta, 10000);
    cr_assert_not(mc.tied || mc.qkv_bias || mc.o_bias || mc.mlp_bias);
    cr_assert_eq(mc.dtype, DT_N);
    cr_assert_eq(mc.bos_id, -1);
    cr_assert_eq(mc.n_eos, 0);
    cr_assert_eq(config_good(LLAMA, "{\"num_key_value_heads\":\"-\"}").n_kv, 4);
    cr_assert_eq(config_good(LLAMA, "{\"head_dim\":24}").d_head, 24);
    cr_assert_eq(config_good(LLAMA, "{\"head_dim\":null}").d_head, 16);
    cr_assert_eq(config_good(QWEN3, "{}").d_head, 128);
    cr_assert_eq(config_good(LLAMA, "{\"torch_dtype\":\"bfloat16\"}").dtype, DT_BF16);
    cr_assert_eq(config_good(LLAMA, "{\"dtype\":\"torch.float16\"}").dtype, DT_F16);
    cr_assert(config_good(LLAMA, "{\"tie_word_embeddings\":true}").tied);
    cr_assert_eq(config_good(LLAMA, "{\"hidden_act\":\"gelu\"}").act, MODEL_GELU);
    cr_assert_eq(config_good(LLAMA, "{\"hidden_act\":\"gelu_pytorch_tanh\"}").act, MODEL_GELU_TANH);
}

Test(config, biases)
{
    struct model_config mc = config_good(LLAMA, "{\"attention_bias\":true,\"mlp_bias\":true}");
    cr_assert(mc.qkv_bias && mc.o_bias && mc.mlp_bias);
    cr_assert(model_has_bias(&mc, TN_Q) && model_has_bias(&mc, TN_O) &&
              model_has_bias(&mc, TN_DOWN));
    cr_assert_not(model_has_bias(&mc, TN_EMBED) || model_has_bias(&mc, TN_ATTN_NORM));
    mc = config_good(QWEN2, "{}");
    cr_assert(mc.qkv_bias && !mc.o_bias && !mc.mlp_bias);
    mc = config_good(QWEN3, "{\"attention_bias\":true}");
    cr_assert(mc.qkv_bias && mc.o_bias && model_has(&mc, TN_Q_NORM));
    mc = config_good(MISTRAL, "{\"attention_bias\":false}");
    cr_assert_not(mc.qkv_bias || model_has(&mc, TN_Q_NORM));
}

static int32_t windows(const struct model_config *mc) /* one bit a layer */
{
    int32_t bits = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        bits |= (model_window(mc, i) > 0) << i;
    return bits;
}

Test(config, windows)
{
    struct model_config mc = config_good(MISTRAL, "{\"sliding_window\":32}");
    cr_assert_eq(windows(&mc), 15);
    cr_assert_eq(model_window(&mc, 3), 32);
    mc = config_good(MISTRAL, "{\"sliding_window\":null}");
    cr_assert_eq(windows(&mc), 0);
    mc = config_good(MISTRAL, "{}"); /* transformers' default */
    cr_assert_eq(model_window(&mc, 0), 4096);
    mc = config_good(QWEN2, "{\"sliding_window\":32,\"use_sliding_window\":false,"
                            "\"max_window_layers\":2}");
    cr_assert_eq(windows(&mc), 0);
    mc = config_good(QWEN2,
                     "{\"sliding_window\":32,\"use_sliding_window\":true,\"max_window_layers\":3}");
    cr_assert_eq(windows(&mc), 8);
    cr_assert_eq(model_window(&mc, 3), 32);
    cr_assert_eq(model_window(&mc, 2), 0);
    mc = config_good(QWEN3, "{\"sliding_window\":null,\"use_sliding_window\":true,"
                            "\"max_window_layers\":3}");
    cr_assert_eq(windows(&mc), 0);
    mc = config_good(QWEN3, "{\"sliding_window\":9,\"use_sliding_window\":true,\"layer_types\":"
                            "[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
                            "\"full_attention\"]}");
    cr_assert_eq(windows(&mc), 5);
    mc = config_good(LLAMA, "{\"sliding_window\":null,\"layer_types\":[\"full_attention\","
                            "\"full_attention\",\"full_attention\",\"full_attention\"]}");
    cr_assert_eq(windows(&mc), 0);
}

static int32_t bits_of_layers(const struct model_config *mc)
{
    int32_t bits = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        bits |= mc->sparse[i] << i;
    return bits;
}

Test(config, experts)
{
    struct model_config mc = config_good(QWEN3MOE, "{}");
    cr_assert(mc.n_experts == 8 && mc.top_k == 2 && mc.expert_ffn == 24 && !mc.renormalise);
    cr_assert(bits_of_layers(&mc) == 15 && model_n_sparse(&mc) == 4 && mc.d_head == 16);
    cr_assert(!model_has(&mc, TN_GATE) && model_has(&mc, TN_ROUTER) && model_has(&mc, TN_Q_NORM));
    mc = config_good(QWEN3MOE,
                     "{\"norm_topk_prob\":true,\"decoder_sparse_step\":2,\"head_dim\":32}");
    cr_assert(mc.renormalise && bits_of_layers(&mc) == 10 && mc.d_head == 32);
    cr_assert(model_layer_has(&mc, TN_GATE, 0) && !model_layer_has(&mc, TN_GATE, 1));
    cr_assert(!model_layer_has(&mc, TN_EXPERT_UP, 0) && model_layer_has(&mc, TN_EXPERT_UP, 1));
    cr_assert(model_layer_has(&mc, TN_Q, 0) && model_layer_has(&mc, TN_Q, 1));
    mc = config_good(QWEN3MOE, "{\"mlp_only_layers\":[0,2,2]}");
    cr_assert(bits_of_layers(&mc) == 10 && model_has(&mc, TN_GATE) && model_has(&mc, TN_ROUTER));
    mc = config_good(QWEN3MOE,
                     "{\"num_experts\":\"-\",\"num_local_experts\":6,\"mlp_only_layers\":null}");
    cr_assert(mc.n_experts == 6 && bits_of_layers(&mc) == 15);
    mc = config_good(QWEN3MOE, "{\"use_sliding_window\":true,\"sliding_window\":16,"
                               "\"max_window_layers\":3}");
    cr_assert(model_window(&mc, 0) == 16 && model_window(&mc, 3) == 16);
    mc = config_good(MIXTRAL, "{}");
    cr_assert(mc.n_experts == 4 && mc.top_k == 2 && mc.expert_ffn == 96 && mc.renormalise);
    cr_assert(bits_of_layers(&mc) == 15 && mc.rope.theta == 1e6);
    mc = config_good(MIXTRAL, "{\"rope_theta\":5000.0,\"sliding_window\":null}");
    cr_assert(mc.rope.theta == 5000 && model_window(&mc, 0) == 0);
    mc = config_good(LLAMA, "{\"num_experts\":0}");
    cr_assert(mc.n_experts == 0 && model_n_sparse(&mc) == 0 && model_has(&mc, TN_GATE));
}

Test(config, eos_ids)
{
    struct model_config mc = config_good(LLAMA, "{\"eos_token_id\":7,\"bos_token_id\":3}");
    cr_assert(mc.n_eos == 1 && mc.eos_id[0] == 7 && mc.bos_id == 3);
    mc = config_good(LLAMA, "{\"eos_token_id\":[7,9,11]}");
    cr_assert(mc.n_eos == 3 && mc.eos_id[2] == 11);
    must(config_parse(LLAMA, "{\"eos_token_id\":7}", "{\"eos_token_id\":[5,6],\"top_k\":20}", &mc),
         "both");
    cr_assert(mc.n_eos == 2 && mc.eos_id[0] == 5 && mc.eos_id[1] == 6);
    must(config_parse(LLAMA, "{\"eos_token_id\":7}", "{\"temperature\":0.6}", &mc), "none there");
    cr_assert(mc.n_eos == 1 && mc.eos_id[0] == 7);
    cr_assert_eq(config_parse(LLAMA, "{}", "{\"eos_token_id\":1.5}", &mc), ST_RANGE);
    cr_assert_not_null(strstr(status_text(), "generation_config.json: an eos_token_id"));
    /* ids that no token has end nothing */
    mc = config_good(LLAMA, "{\"eos_token_id\":[-1,7,100,128009],\"bos_token_id\":128000}");
    cr_assert(mc.n_eos == 1 && mc.eos_id[0] == 7 && mc.bos_id == -1);
    cr_assert_eq(config_good(LLAMA, "{\"eos_token_id\":-1}").n_eos, 0);
    cr_assert_eq(config_parse(LLAMA, "{}", "[]", &mc), ST_FORMAT);
}

Test(config, gemmas)
{
    struct model_config mc = config_good(GEMMA2, "{}");
    cr_assert(mc.tied && mc.d_head == 256 && mc.act == MODEL_GELU_TANH && mc.eps == 1e-5);
    cr_assert(mc.attn_cap == 50 && mc.logit_cap == 30 && mc.attn_scale == 1.0 / 16);
    cr_assert(mc.embed_scale == 8 && windows(&mc) == 5 && model_window(&mc, 0) == 4096);
    mc = config_good(GEMMA2, "{\"attn_logit_softcapping\":null,\"final_logit_softcapping\":7,"
                             "\"query_pre_attn_scalar\":64,\"sliding_window\":16,"
                             "\"layer_types\":[\"full_attention\",\"full_attention\","
                             "\"full_attention\",\"sliding_attention\"]}");
    cr_assert(mc.attn_cap == 0 && mc.logit_cap == 7 && mc.attn_scale == 0.125 &&
              windows(&mc) == 8 && model_window(&mc, 3) == 16);
    mc = config_good(GEMMA2, "{\"sliding_window\":null,\"tie_word_embeddings\":false}");
    cr_assert(windows(&mc) == 0 && !mc.tied);
    mc = config_good(GEMMA3, "{\"attn_logit_softcapping\":5}");
    cr_assert(mc.attn_cap == 0 && mc.logit_cap == 0 && windows(&mc) == 15);
    cr_assert(mc.rope.theta == 1e6 && model_rope(&mc, 0)->theta == 10000);
    mc = config_good(GEMMA3, "{\"sliding_window_pattern\":2,\"rope_local_base_freq\":50.0,"
                             "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}}");
    cr_assert(windows(&mc) == 5 && model_rope(&mc, 0)->theta == 50 &&
              model_rope(&mc, 0)->type == ROPE_PLAIN && model_rope(&mc, 1)->type == ROPE_LINEAR);
    mc = config_good(GEMMA3, "{\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":70.0}}}");
    cr_assert(mc.rope.theta == 1e6 && mc.local_rope.theta == 70);
}

Test(config, gemma4)
{
    struct model_config mc = config_good(GEMMA4, "{}");
    cr_assert(mc.tied && mc.act == MODEL_GELU_TANH && mc.attn_scale == 1 && mc.logit_cap == 0);
    cr_assert(mc.d_head == 16 && mc.global_d_head == 512 && mc.global_n_kv == 2 && !mc.k_eq_v);
    cr_assert(windows(&mc) == 7 && model_window(&mc, 0) == 512); /* the last one sees everything */
    cr_assert(model_is_global(&mc, 3) && !model_is_global(&mc, 2));
    cr_assert(mc.local_rope.type == ROPE_PLAIN && mc.local_rope.rot_dim == 16);
    cr_assert(mc.rope.type == ROPE_DIVISORS && mc.rope.rot_dim == 512);
    cr_assert(mc.rope.divisor[63] == 1 && mc.rope.divisor[64] == ROPE_NEVER);
    cr_assert(model_layer_has(&mc, TN_Q, 0) && !model_layer_has(&mc, TN_GLOBAL_Q, 0));
    cr_assert(!model_layer_has(&mc, TN_Q, 3) && model_layer_has(&mc, TN_GLOBAL_V, 3));
    /* the number of global key/value heads is read with attention_k_eq_v alone, as in transformers */
    mc = config_good(GEMMA4, "{\"num_global_key_value_heads\":1,\"global_head_dim\":32}");
    cr_assert(mc.global_n_kv == 2 && mc.global_d_head == 32);
    mc = config_good(GEMMA4, "{\"num_global_key_value_heads\":1,\"attention_k_eq_v\":true,"
                             "\"use_bidirectional_attention\":\"vision\","
                             "\"final_logit_softcapping\":30}");
    cr_assert(mc.global_n_kv == 1 && mc.k_eq_v && mc.logit_cap == 30);
    cr_assert(!model_layer_has(&mc, TN_GLOBAL_V, 3) && model_layer_has(&mc, TN_V, 0));
    mc = config_good(GEMMA4, "{\"per_layer_config\":{\"03\":{\"head_dim\":24,"
                             "\"num_key_value_heads\":4}}}");
    cr_assert(mc.global_d_head == 24 && mc.global_n_kv == 4);
    mc = config_good(GEMMA4, "{\"per_layer_config\":{}}");
    cr_assert(mc.global_d_head == 16 && mc.global_n_kv == 2);
}

Test(config, gemma3n)
{
    struct model_config mc = config_good(GEMMA3N, "{}");
    cr_assert(mc.tied && mc.act == MODEL_GELU_TANH && mc.attn_scale == 1 && mc.logit_cap == 30);
    cr_assert(mc.n_streams == 4 && mc.active_stream == 0 && mc.scale_active &&
              mc.laurel_rank == 64);
    cr_assert(mc.ffn == 96 && mc.d_input == 256 && mc.input_vocab == 90 && mc.n_kv_shared == 0);
    cr_assert(windows(&mc) == 15 && model_window(&mc, 0) == 512 && mc.rope.theta == 1e6);
    cr_assert(mc.local_rope.theta == 1e4 && model_n_cut(&mc) == 0 && mc.global_d_head == 0);
    mc = config_good(GEMMA3N, "{\"altup_num_inputs\":2,\"altup_active_idx\":1,"
                              "\"altup_correct_scale\":false,\"laurel_rank\":8,"
                              "\"altup_coef_clip\":1.5,\"query_pre_attn_scalar\":256,"
                              "\"intermediate_size\":[96,96,96,96],\"sliding_window\":8,"
                              "\"final_logit_softcapping\":5,\"rope_local_base_freq\":50.0,"
                              "\"activation_sparsity_pattern\":[0.95,0.5,0.0,0.25]}");
    cr_assert(mc.n_streams == 2 && mc.active_stream == 1 && !mc.scale_active &&
              mc.laurel_rank == 8);
    cr_assert(mc.ffn == 96 && mc.logit_cap == 5 && mc.local_rope.theta == 50 && mc.window == 8);
    cr_assert(model_n_cut(&mc) == 3 && isinf(mc.gate_cut[2]) && mc.gate_cut[2] < 0);
    cr_assert_float_eq(mc.gate_cut[0], 1.6448536f, 1e-6f); /* of the normal distribution */
    cr_assert_float_eq(mc.gate_cut[1], 0.0f, 1e-7f);
    cr_assert_float_eq(mc.gate_cut[3], -0.6744898f, 1e-6f);
    mc = config_good(GEMMA3N, "{\"intermediate_size\":[80,96,64,96]}");
    cr_assert(mc.ffn == 96 && model_axis(&mc, AX_FFN) == 96);
    cr_assert(model_layer_axis(&mc, AX_FFN, 0) == 80 && model_layer_axis(&mc, AX_FFN, 1) == 96 &&
              model_layer_axis(&mc, AX_FFN, 2) == 64 && model_layer_axis(&mc, AX_FFN, 3) == 96);
    /* without the list the first ten layers of a model of more have the cut */
    mc = config_good(GEMMA3N, "{\"num_hidden_layers\":12}");
    cr_assert_float_eq(mc.gate_cut[9], 1.6448536f, 1e-6f);
    cr_assert(isinf(mc.gate_cut[10]) && windows(&mc) == 0xdef);
    mc = config_good(GEMMA3N, "{\"num_hidden_layers\":20,\"num_kv_shared_layers\":\"-\"}");
    cr_assert(mc.n_kv_shared == 15 && model_kv_layer(&mc, 19) == 4 && model_kv_layer(&mc, 18) == 3);
    mc = config_good(GEMMA3N, "{\"altup_num_inputs\":1,\"final_logit_softcapping\":null}");
    cr_assert(mc.logit_cap == 0 && !model_has(&mc, TN_STREAM_IN) && model_has(&mc, TN_STREAM_NORM));
}

Test(config, phi3_and_ministral3)
{
    static const char *const longrope =
        "{\"original_max_position_embeddings\":32,\"partial_rotary_factor\":0.25,"
        "\"auto_map\":{\"AutoConfig\":\"x.Y\"},\"rope_scaling\":{\"type\":\"%s\","
        "\"short_factor\":[1,2],\"long_factor\":[3,4]}}";
    char text[400];
    struct model_config mc;
    for (int i = 0; i < 2; i++) { /* the type's first name */
        snprintf(text, sizeof text, longrope, i ? "su" : "longrope");
        mc = config_good(PHI3, text);
        cr_assert(mc.rope.type == ROPE_LONGROPE && mc.rope.rot_dim == 4 && mc.d_head == 16);
        cr_assert(mc.rope.divisor[1] == 2 && mc.rope.long_divisor[0] == 3);
        cr_assert_float_eq(mc.rope.attention_factor, sqrt(1 + log(4) / log(32)), 1e-12);
    }
    double near[2], far[2];
    rope_frequencies(&mc.rope, 32, near);
    rope_frequencies(&mc.rope, 33, far);
    cr_assert_float_eq(near[1], 0.01 / 2, 1e-15);
    cr_assert_float_eq(far[1], 0.01 / 4, 1e-15);
    cr_assert(windows(&mc) == 0, "no sliding_window: none");
    mc =
        config_good(MINISTRAL3, "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":16,"
                                "\"rope_theta\":1e6,\"original_max_position_embeddings\":8,"
                                "\"mscale\":1,\"mscale_all_dim\":1,\"llama_4_scaling_beta\":0.1}}");
    cr_assert(mc.rope.q_beta == 0.1 && mc.rope.attention_factor == 1 && mc.d_head == 128);
    float q[17];
    rope_q_scales(&mc.rope, 0, 17, q);
    cr_assert(q[0] == 1 && q[7] == 1);
    cr_assert_float_eq((double)q[16], 1 + 0.1 * log(3), 1e-7);
}

static int32_t without_rope(const struct model_config *mc) /* one bit a layer */
{
    int32_t bits = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        bits |= mc->nope[i] << i;
    return bits;
}

Test(config, smollm3_granite_glm4_exaone4)
{
    struct model_config mc = config_good("SmolLM3ForCausalLM", "{\"max_window_layers\":28}");
    cr_assert(mc.tied && without_rope(&mc) == 8);
    mc = config_good("SmolLM3ForCausalLM", "{\"no_rope_layer_interval\":3}");
    cr_assert_eq(without_rope(&mc), 4);
    mc = config_good("SmolLM3ForCausalLM", "{\"no_rope_layers\":[1,0,0,1]}");
    cr_assert_eq(without_rope(&mc), 6);
    mc = config_good("GraniteForCausalLM", "{}");
    cr_assert(mc.attn_scale == 1 && mc.logit_scale == 1 && mc.residual_scale == 1);
    mc = config_good("GraniteForCausalLM",
                     "{\"attention_multiplier\":0.5,\"embedding_multiplier\":12,"
                     "\"residual_multiplier\":0.25,\"logits_scaling\":8}");
    cr_assert(mc.attn_scale == 0.5 && mc.embed_scale == 12 && mc.residual_scale == 0.25 &&
              mc.logit_scale == 0.125);
    mc =
        config_good("GraniteMoeForCausalLM", "{\"num_local_experts\":4,\"num_experts_per_tok\":3}");
    cr_assert(mc.n_experts == 4 && mc.top_k == 3 && mc.renormalise && mc.expert_ffn == 96);
    int32_t first;
    cr_assert_eq(model_fused_rows(&mc, TN_EXPERT_UP, 0, &first), 192);
    cr_assert_eq(first, 96);
    mc = config_good("Glm4ForCausalLM", "{}");
    cr_assert(mc.rope.interleaved && mc.rope.rot_dim == 64 && mc.d_head == 128);
    cr_assert(mc.qkv_bias && !mc.o_bias && model_has(&mc, TN_POST_FFN_NORM));
    mc =
        config_good("Glm4ForCausalLM", "{\"attention_bias\":false,\"partial_rotary_factor\":0.25}");
    cr_assert(!mc.qkv_bias && mc.rope.rot_dim == 32);
    mc = config_good("Exaone4ForCausalLM", "{\"sliding_window\":16}");
    cr_assert(windows(&mc) == 7 && without_rope(&mc) == 8 && !model_has(&mc, TN_ATTN_NORM));
    mc = config_good("Exaone4ForCausalLM", "{\"sliding_window_pattern\":\"LG\",\"layer_types\":["
                                           "\"sliding_attention\",\"full_attention\","
                                           "\"sliding_attention\",\"full_attention\"]}");
    cr_assert(windows(&mc) == 5 && without_rope(&mc) == 10);
    mc =
        config_good("Exaone4ForCausalLM", "{\"layer_types\":[\"full_attention\",\"full_attention\","
                                          "\"full_attention\",\"full_attention\"]}");
    cr_assert(windows(&mc) == 0 && without_rope(&mc) == 15, "a window is said, no layer has it");
    mc = config_good("Exaone4ForCausalLM", "{\"sliding_window\":null}");
    cr_assert(windows(&mc) == 0 && without_rope(&mc) == 0);
}

static enum status parse_text(struct model_config *mc, const char *text)
{
    return model_config_parse(mc, text, strlen(text), NULL, 0);
}

#define WRAPPED(more, text)                                                                        \
    "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"model_type\":\"gemma3\","           \
    "\"eos_token_id\":[1,7],\"torch_dtype\":\"bfloat16\",\"vision_config\":{\"x\":1}" more         \
    ",\"text_config\":{\"model_type\":\"gemma3_text\",\"hidden_size\":64,"                         \
    "\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                  \
    "\"num_key_value_heads\":2,\"vocab_size\":100,\"max_position_embeddings\":128" text "}}"

Test(config, text_part_of_a_multi_modal_model)
{
    struct model_config mc;
    must(parse_text(&mc, WRAPPED("", "")), "wrapped");
    cr_assert(mc.wrapped && mc.hidden == 64 && mc.n_eos == 2 && mc.dtype == DT_BF16 && mc.tied);
    cr_assert_str_eq(mc.arch->name, GEMMA3);
    must(parse_text(&mc, WRAPPED("", ",\"final_logit_softcapping\":2")), "a cap without effect");
    cr_assert_eq(mc.logit_cap, 0);
    must(parse_text(&mc, WRAPPED(",\"quantization_config\":{\"quant_method\":\"fp8\"}", "")),
         "quantised beside text_config");
    cr_assert(mc.fp8);
    static const struct {
        const char *text;
        enum status st;
        const char *says;
    } rows[] = {
        {WRAPPED(",\"new_key\":1", ""), ST_UNSUPPORTED, "new_key is not understood"},
        {WRAPPED("", ",\"new_key\":1"), ST_UNSUPPORTED, "new_key = 1 is not understood"},
        {WRAPPED(",\"quantization_config\":{\"quant_method\":\"hqq\"}", ""), ST_UNSUPPORTED,
         "method \"hqq\""},
        {WRAPPED(",\"quantization_config\":{\"quant_method\":\"awq\"}", ""), ST_FORMAT,
         "bits is missing"},
        {"{\"architectures\":[\"Gemma3ForConditionalGeneration\"]}", ST_FORMAT,
         "text_config is missing"},
        {"{\"architectures\":[\"Mistral3ForConditionalGeneration\"],"
         "\"text_config\":{\"model_type\":\"mamba\"}}",
         ST_UNSUPPORTED, "text_config.model_type \"mamba\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(parse_text(&mc, rows[i].text), rows[i].st, "%s", status_text());
        cr_assert_not_null(strstr(status_text(), rows[i].says), "%s", status_text());
    }
}

Test(config, rope_forms)
{
    struct rope_config r =
        config_good(LLAMA, "{\"rope_theta\":500000.0,\"rope_scaling\":null}").rope;
    cr_assert(r.type == ROPE_PLAIN && r.theta == 500000);
    r = config_good(LLAMA, "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5}}")
            .rope;
    cr_assert(r.type == ROPE_PLAIN && r.theta == 500000);
    r = config_good(LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}").rope;
    cr_assert(r.type == ROPE_LINEAR && r.factor == 4 && r.theta == 10000);
    const char *llama3 = "{\"rope_theta\":5e5,\"rope_scaling\":{\"factor\":8,"
                         "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                         "\"original_max_position_embeddings\":32,\"rope_type\":\"llama3\"}}";
    r = config_good(LLAMA, llama3).rope;
    cr_assert(r.type == ROPE_LLAMA3 && r.factor == 8 && r.low_freq_factor == 1 &&
              r.high_freq_factor == 4 && r.original_ctx == 32);
    r = config_good(QWEN2, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
                           "\"original_max_position_embeddings\":32}}")
            .rope;
    cr_assert(r.type == ROPE_YARN && r.beta_fast == 32 && r.beta_slow == 1 && r.truncate);
    cr_assert_float_eq(r.attention_factor, 0.1 * log(4) + 1, 1e-12);
    r = config_good(
            QWEN2, "{\"rope_scaling\":{\"type\":\"yarn\",\"original_max_position_embeddings\":16}}")
            .rope;
    cr_assert_eq(r.factor, 8, "max_position_embeddings / original");
    r = config_good(QWEN2,
                    "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"truncate\":false,"
                    "\"beta_fast\":16,\"beta_slow\":2,\"mscale\":0.7,\"mscale_all_dim\":1.0}}")
            .rope;
    cr_assert(!r.truncate && r.beta_fast == 16 && r.beta_slow == 2 && r.original_ctx == 128);
    cr_assert_float_eq(r.attention_factor, (0.07 * log(4) + 1) / (0.1 * log(4) + 1), 1e-12);
    r = config_good(QWEN2, "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                           "\"attention_factor\":1.5,\"mscale\":0.7,\"mscale_all_dim\":1.0}}")
            .rope;
    cr_assert_eq(r.attention_factor, 1.5);
    r = config_good(LLAMA,
                    "{\"original_max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"yarn\","
                    "\"factor\":2,\"original_max_position_embeddings\":32}}")
            .rope;
    cr_assert_eq(r.original_ctx, 64, "the top level goes first");
}

Test(config, yarn_stretches_the_context)
{
    cr_assert_eq(config_good(QWEN2, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                                    "\"original_max_position_embeddings\":128}}")
                     .max_ctx,
                 512);
    cr_assert_eq(config_good(QWEN2, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,"
                                    "\"original_max_position_embeddings\":16}}")
                     .max_ctx,
                 128);
    cr_assert_eq(
        config_good(LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}}").max_ctx, 128);
    cr_assert_eq(config_good(QWEN2, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1e6,"
                                    "\"original_max_position_embeddings\":1e9}}")
                     .max_ctx,
                 1 << 30);
}

/* Frequencies from the definitions, at points worked out by hand. */
Test(config, rope_frequencies)
{
    double f[8];
    struct rope_config r = config_good(LLAMA, "{}").rope;
    rope_frequencies(&r, 128, f);
    cr_assert_eq(f[0], 1);
    cr_assert_float_eq(f[4], 0.01, 1e-15); /* 10000^(-8/16) */
    r = config_good(LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}}").rope;
    rope_frequencies(&r, 128, f);
    cr_assert_float_eq(f[4], 0.0025, 1e-15);
    /* original 64: turns of pair i are 64 f / 2 pi: 10.2, 3.2, 1.02, 0.32;
     * kept above 4, /8 below 1 */
    r = config_good(
            LLAMA, "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                   "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}")
            .rope;
    rope_frequencies(&r, 128, f);
    cr_assert_eq(f[0], 1);
    double plain = pow(10000, -0.125), turns = 64 * plain / (2 * acos(-1));
    cr_assert_float_eq(f[1], plain * ((turns - 1) / 3 + (1 - (turns - 1) / 3) / 8), 1e-12);
    cr_assert_float_eq(f[4], 0.01 / 8, 1e-15);
    /* yarn with original 128: pairs before the border of 32 turns stay,
     * those behind 1 turn are divided by 4 */
    r = config_good(LLAMA, "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}").rope;
    rope_frequencies(&r, 128, f);
    cr_assert_eq(f[0], 1);
    cr_assert_float_eq(f[7], pow(10000, -0.875) / 4, 1e-15);
    float c[16], s[16];
    rope_rows(&r, f, 5, 2, c, s);
    cr_assert_float_eq((double)c[0], cos(5) * r.attention_factor, 1e-7);
    cr_assert_float_eq((double)s[8 + 1], sin(6 * f[1]) * r.attention_factor, 1e-7);
}

Test(config, shared_experts_and_groups)
{
    struct model_config mc = config_good("Qwen2MoeForCausalLM", "{\"norm_topk_prob\":true}");
    cr_assert(mc.shared_ffn == 40 && mc.expert_ffn == 24 && mc.renormalise && !mc.sigmoid_scores);
    mc =
        config_good("Qwen2MoeForCausalLM", "{\"use_sliding_window\":true,\"max_window_layers\":3}");
    cr_assert(mc.windowed[0] && !mc.windowed[1] && mc.windowed[2] && !mc.windowed[3]);
    mc = config_good("Glm4MoeForCausalLM",
                     "{\"n_shared_experts\":2,\"n_group\":4,\"topk_group\":2,"
                     "\"first_k_dense_replace\":3,\"routed_scaling_factor\":2.5,"
                     "\"num_nextn_predict_layers\":1,\"use_qk_norm\":true}");
    cr_assert(mc.shared_ffn == 48 && mc.n_groups == 4 && mc.top_groups == 2 && mc.sigmoid_scores);
    cr_assert(!mc.sparse[2] && mc.sparse[3] && mc.route_scale == 2.5 && mc.qk_norm);
    cr_assert(mc.n_mtp == 1 && mc.n_layers == 4 && mc.rope.rot_dim == mc.d_head / 2);
    mc = config_good("OlmoeForCausalLM", "{\"clip_qkv\":null}");
    cr_assert(mc.sparse[0] && mc.sparse[3] && !mc.renormalise && mc.expert_ffn == 96);
}

Test(config, layers_with_experts_by_name)
{
    const char *arch = "Glm4MoeLiteForCausalLM";
    struct model_config mc = config_good(arch, "{}");
    cr_assert(!mc.sparse[0] && mc.sparse[1] && mc.sparse[3] && mc.route_scale == 1.8);
    cr_assert(mc.shared_ffn == 24 && mc.renormalise && mc.sigmoid_scores && mc.eps == 1e-5);
    mc = config_good(arch, "{\"mlp_layer_types\":[\"sparse\",\"dense\",\"dense\",\"sparse\"],"
                           "\"first_k_dense_replace\":null,\"num_nextn_predict_layers\":1}");
    cr_assert(mc.sparse[0] && !mc.sparse[1] && !mc.sparse[2] && mc.sparse[3] && mc.n_mtp == 1);
    mc = config_good(arch, "{\"mlp_layer_types\":[\"dense\",\"dense\",\"sparse\",\"sparse\"],"
                           "\"first_k_dense_replace\":2}");
    cr_assert(!mc.sparse[1] && mc.sparse[2]);
}

Test(config, experts_of_minimax_and_dots)
{
    struct model_config mc = config_good(
        "MiniMaxM2ForCausalLM",
        "{\"rotary_dim\":8,\"scoring_func\":\"sigmoid\",\"use_routing_bias\":true,\"use_qk_norm\":"
        "true,"
        "\"qk_norm_type\":\"per_layer\",\"attn_type_list\":[1,1,1,1],\"mlp_intermediate_size\":300,"
        "\"use_mtp\":true,\"num_mtp_modules\":3,\"layernorm_mlp_beta\":1.0}");
    cr_assert(mc.rope.rot_dim == 8 && mc.d_head == 16 && mc.sparse[0] && mc.sparse[3]);
    cr_assert(mc.sigmoid_scores && mc.renormalise && mc.expert_ffn == 96 && mc.shared_ffn == 0);
    cr_assert(mc.qk_norm && mc.rope.theta == 5e6 && mc.route_scale == 1);
    mc = config_good("Dots1ForCausalLM", "{\"sliding_window\":null,\"scoring_func\":\"sigmoid\"}");
    cr_assert(!mc.sparse[0] && mc.sparse[1] && mc.route_scale == 2 && mc.shared_ffn == 24);
    cr_assert(mc.qk_norm && mc.window == 0 && mc.renormalise && !mc.qkv_bias);
}

Test(config, biases_of_seed_and_ernie)
{
    struct model_config mc = config_good("SeedOssForCausalLM", "{}");
    cr_assert(mc.qkv_bias && !mc.o_bias && !mc.mlp_bias && mc.d_head == 128);
    mc = config_good("SeedOssForCausalLM", "{\"attention_bias\":false,\"attention_out_bias\":true,"
                                           "\"mlp_bias\":true,\"head_dim\":16}");
    cr_assert(!mc.qkv_bias && mc.o_bias && mc.mlp_bias && mc.d_head == 16);
    mc = config_good("Ernie4_5ForCausalLM", "{}");
    cr_assert(!mc.qkv_bias && !mc.o_bias && !mc.mlp_bias && mc.tied && mc.rope.interleaved);
    cr_assert(mc.rope.theta == 5e5 && mc.eps == 1e-5 && mc.d_head == 128);
    mc = config_good("Ernie4_5ForCausalLM", "{\"use_bias\":true}");
    cr_assert(mc.qkv_bias && mc.o_bias && mc.mlp_bias);
}

Test(config, limited_experts_with_biases)
{
    struct model_config mc = config_good("GptOssForCausalLM", "{}");
    cr_assert(mc.glu_limit == 7 && mc.glu_alpha == 1.702 && !mc.mxfp4 && mc.o_bias && mc.qkv_bias);
    cr_assert(mc.windowed[0] && !mc.windowed[1] && mc.window == 128 && mc.d_head == 64);
    mc = config_good("GptOssForCausalLM", "{\"quantization_config\":{\"quant_method\":\"mxfp4\"},"
                                          "\"swiglu_limit\":3.5,\"experts_per_token\":2}");
    cr_assert(mc.mxfp4 && mc.expert_unit == 32 && mc.glu_limit == 3.5);
}

#define QUANT(METHOD, MORE) "{\"quantization_config\":{\"quant_method\":\"" METHOD "\"," MORE "}}"
#define GROUPS(FORMAT, WEIGHTS)                                                                    \
    QUANT("compressed-tensors", "\"format\":\"" FORMAT "\",\"config_groups\":{\"group_0\":{"       \
                                "\"weights\":{" WEIGHTS "}}}")

static void integers(const char *more, enum int_storage storage, int32_t bits, int32_t group,
                     bool zeros, bool less_one, bool order)
{
    struct model_config mc = config_good(LLAMA, more);
    cr_assert(mc.ints == storage && mc.int_bits == bits && mc.int_group == group && !mc.fp8, "%s",
              more);
    cr_assert(mc.int_zeros == zeros && mc.int_zeros_less_one == less_one && mc.int_order == order,
              "%s", more);
}

Test(config, packed_integers)
{
    integers("{}", INTS_NONE, 0, 0, false, false, false);
    integers(QUANT("gptq", "\"bits\":4,\"group_size\":128,\"dynamic\":{\"-:.*mlp\":{}}"), INTS_GPTQ,
             4, 128, false, true, false);
    integers(QUANT("gptq", "\"bits\":8,\"group_size\":-1,\"desc_act\":true,\"sym\":false"),
             INTS_GPTQ, 8, 0, true, true, false); /* one group has no order */
    integers(QUANT("gptq", "\"bits\":4,\"group_size\":32,\"desc_act\":true,"
                           "\"checkpoint_format\":\"gptq_v2\""),
             INTS_GPTQ, 4, 32, false, false, true);
    integers(QUANT("gptq", "\"bits\":4,\"group_size\":32,\"format\":\"GPTQ_V2\""), INTS_GPTQ, 4, 32,
             false, false, false);
    integers(QUANT("awq", "\"bits\":4,\"group_size\":64,\"version\":\"GEMM\",\"zero_point\":true"),
             INTS_AWQ, 4, 64, true, false, false);
    integers(GROUPS("pack-quantized", "\"num_bits\":4,\"strategy\":\"group\",\"group_size\":128,"
                                      "\"actorder\":\"weight\",\"symmetric\":true"),
             INTS_PACKED, 4, 128, false, false, false);
    integers(GROUPS("pack-quantized", "\"num_bits\":8,\"strategy\":\"group\",\"group_size\":32,"
                                      "\"actorder\":\"group\",\"symmetric\":false"),
             INTS_PACKED, 8, 32, true, false, true);
    integers(GROUPS("int-quantized", "\"num_bits\":8,\"strategy\":\"channel\""), INTS_BYTES, 8, 0,
             false, false, false);
    struct model_config mc = config_good(
        LLAMA, GROUPS("float-quantized", "\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\","
                                         "\"block_structure\":[64,128]"));
    cr_assert(mc.fp8 && mc.fp8_rows == 64 && mc.fp8_cols == 128 && mc.ints == INTS_NONE);
    mc = config_good(LLAMA, GROUPS("float-quantized", "\"num_bits\":8,\"type\":\"float\","
                                                      "\"strategy\":\"channel\""));
    cr_assert(mc.fp8 && mc.fp8_rows == 0);
}

Test(config, norms_and_factors)
{
    struct model_config mc = config_good("Cohere2ForCausalLM", "{\"layer_norm_eps\":1e-4}");
    cr_assert(mc.eps == 1e-4 && mc.logit_scale == 0.0625 && mc.tied && mc.window == 4096);
    cr_assert(!mc.nope[0] && mc.nope[3] && mc.windowed[2] && !mc.windowed[3]);
    mc = config_good("Starcoder2ForCausalLM", "{\"hidden_act\":\"gelu\"}");
    cr_assert(mc.qkv_bias && mc.o_bias && mc.mlp_bias && mc.act == MODEL_GELU && !mc.window);
    mc = config_good("Starcoder2ForCausalLM", "{\"use_bias\":false,\"norm_epsilon\":1e-3}");
    cr_assert(!mc.qkv_bias && !mc.o_bias && !mc.mlp_bias && mc.eps == 1e-3);
    mc = config_good("Olmo3ForCausalLM", "{\"rope_theta\":1000}");
    cr_assert(mc.rope.theta == 1000 &&
              mc.local_rope.theta == 500000); /* as transformers reads it */
}
