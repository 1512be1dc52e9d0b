/* The keys of config.json: which architecture reads each, and which values change nothing.  A key
 * that is not in the table is refused, so that no setting is ignored silently.  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"

/* Read by the architectures for which `when` holds; for the others, and for READ_NEVER, only null
 * or the harmless value passes.  harmless NULL: none does.  IGNORED: says nothing about the result.
 */
enum key_use {
    READ_ALWAYS,
    READ_BIAS,
    READ_MLP_BIAS,
    READ_WINDOW,
    READ_BY_LAYER,
    READ_EXPERTS,
    READ_QWEN_EXPERTS,
    SAYS_QK_NORM, /* only what the architecture does anyway passes */
    READ_NEVER,
    IGNORED
};

static const struct key_row {
    const char *key;
    enum key_use use;
    const char *harmless; /* JSON text */
} keys[] = {
    {"architectures", READ_ALWAYS, NULL},
    {"model_type", READ_ALWAYS, NULL},
    {"hidden_size", READ_ALWAYS, NULL},
    {"intermediate_size", READ_ALWAYS, NULL},
    {"num_hidden_layers", READ_ALWAYS, NULL},
    {"num_attention_heads", READ_ALWAYS, NULL},
    {"num_key_value_heads", READ_ALWAYS, NULL},
    {"head_dim", READ_ALWAYS, NULL},
    {"vocab_size", READ_ALWAYS, NULL},
    {"max_position_embeddings", READ_ALWAYS, NULL},
    {"rms_norm_eps", READ_ALWAYS, NULL},
    {"hidden_act", READ_ALWAYS, NULL},
    {"tie_word_embeddings", READ_ALWAYS, NULL},
    {"rope_theta", READ_ALWAYS, NULL},
    {"rope_scaling", READ_ALWAYS, NULL},
    {"rope_parameters", READ_ALWAYS, NULL},
    {"original_max_position_embeddings", READ_ALWAYS, NULL},
    {"layer_types", READ_ALWAYS, NULL},
    {"eos_token_id", READ_ALWAYS, NULL},
    {"bos_token_id", READ_ALWAYS, NULL},
    {"torch_dtype", READ_ALWAYS, NULL},
    {"dtype", READ_ALWAYS, NULL},
    {"attention_bias", READ_BIAS, "false"},
    {"mlp_bias", READ_MLP_BIAS, "false"},
    {"sliding_window", READ_WINDOW, NULL},
    {"use_sliding_window", READ_BY_LAYER, "false"},
    {"max_window_layers", READ_BY_LAYER, NULL},
    {"num_experts", READ_EXPERTS, "0"},
    {"num_local_experts", READ_EXPERTS, "0"},
    {"num_experts_per_tok", READ_EXPERTS, "0"},
    {"moe_intermediate_size", READ_QWEN_EXPERTS, NULL},
    {"norm_topk_prob", READ_QWEN_EXPERTS, NULL},
    {"decoder_sparse_step", READ_QWEN_EXPERTS, NULL},
    {"mlp_only_layers", READ_QWEN_EXPERTS, "[]"},
    {"use_qk_norm", SAYS_QK_NORM, NULL},

    {"partial_rotary_factor", READ_NEVER, "1"},
    {"rotary_pct", READ_NEVER, "1"},
    {"rope_interleaved", READ_NEVER, "false"},
    {"use_mrope", READ_NEVER, "false"},
    {"is_encoder_decoder", READ_NEVER, "false"},
    {"add_cross_attention", READ_NEVER, "false"},
    {"is_causal", READ_NEVER, "true"},
    {"qkv_bias", READ_NEVER, "false"},
    {"shared_expert_intermediate_size", READ_NEVER, "0"},
    {"n_shared_experts", READ_NEVER, "0"},
    {"num_shared_experts", READ_NEVER, "0"},
    {"qk_layernorm", READ_NEVER, "false"},
    {"tie_encoder_decoder", READ_NEVER, "false"},
    {"pruned_heads", READ_NEVER, "{}"},
    {"chunk_size_feed_forward", READ_NEVER, "0"},
    {"logit_scale", READ_NEVER, "1"},
    {"logits_scaling", READ_NEVER, "1"},
    {"embedding_multiplier", READ_NEVER, "1"},
    {"residual_multiplier", READ_NEVER, "1"},
    {"scale_emb", READ_NEVER, "1"},
    {"num_nextn_predict_layers", READ_NEVER, "0"},
    {"auto_map", READ_NEVER, "{}"},
    {"bias", READ_NEVER, "false"},
    {"use_bias", READ_NEVER, "false"},
    {"parallel_attn", READ_NEVER, "false"},
    {"activation", READ_NEVER, "\"swiglu\""},

    {"_name_or_path", IGNORED, NULL},
    {"name_or_path", IGNORED, NULL},
    {"transformers_version", IGNORED, NULL},
    {"unsloth_version", IGNORED, NULL},
    {"unsloth_fixed", IGNORED, NULL},
    {"_attn_implementation", IGNORED, NULL},
    {"_attn_implementation_autoset", IGNORED, NULL},
    {"attn_implementation", IGNORED, NULL},
    {"_commit_hash", IGNORED, NULL},
    {"_attn_implementation_internal", IGNORED, NULL},
    {"_flash_attn_2_enabled", IGNORED, NULL},
    {"use_flash_attn", IGNORED, NULL},
    {"is_llama_config", IGNORED, NULL},
    {"transformers.js_config", IGNORED, NULL},
    {"max_sequence_length", IGNORED, NULL}, /* of training; max_position_embeddings rules */
    {"model_max_length", IGNORED, NULL},
    {"type_vocab_size", IGNORED, NULL}, /* of encoders */
    {"use_cache", IGNORED, NULL},
    {"initializer_range", IGNORED, NULL},
    {"attention_dropout", IGNORED, NULL},
    {"hidden_dropout", IGNORED, NULL},
    {"embd_pdrop", IGNORED, NULL},
    {"resid_pdrop", IGNORED, NULL},
    {"neftune_noise_alpha", IGNORED, NULL},
    {"gradient_checkpointing", IGNORED, NULL},
    {"output_router_logits", IGNORED, NULL},
    {"router_aux_loss_coef", IGNORED, NULL}, /* of training, as is the noise */
    {"router_jitter_noise", IGNORED, NULL},
    {"pretraining_tp", IGNORED, NULL}, /* cuts the same products in another way */
    {"pad_token_id", IGNORED, NULL},
    {"unk_token_id", IGNORED, NULL},
    {"sep_token_id", IGNORED, NULL},
    {"cls_token_id", IGNORED, NULL},
    {"decoder_start_token_id", IGNORED, NULL},
    {"forced_bos_token_id", IGNORED, NULL},
    {"forced_eos_token_id", IGNORED, NULL},
    {"tokenizer_class", IGNORED, NULL},
    {"prefix", IGNORED, NULL},
    {"task_specific_params", IGNORED, NULL},
    {"problem_type", IGNORED, NULL},
    {"finetuning_task", IGNORED, NULL},
    {"id2label", IGNORED, NULL},
    {"label2id", IGNORED, NULL},
    {"is_decoder", IGNORED, NULL},
    {"torchscript", IGNORED, NULL},
    {"use_bfloat16", IGNORED, NULL},
    {"tf_legacy_loss", IGNORED, NULL},
    {"output_attentions", IGNORED, NULL},
    {"output_hidden_states", IGNORED, NULL},
    {"output_scores", IGNORED, NULL},
    {"return_dict", IGNORED, NULL},
    {"return_dict_in_generate", IGNORED, NULL},
    {"remove_invalid_values", IGNORED, NULL},
    /* defaults of text generation, which every request states itself */
    {"do_sample", IGNORED, NULL},
    {"temperature", IGNORED, NULL},
    {"top_k", IGNORED, NULL},
    {"top_p", IGNORED, NULL},
    {"typical_p", IGNORED, NULL},
    {"repetition_penalty", IGNORED, NULL},
    {"length_penalty", IGNORED, NULL},
    {"diversity_penalty", IGNORED, NULL},
    {"encoder_no_repeat_ngram_size", IGNORED, NULL},
    {"no_repeat_ngram_size", IGNORED, NULL},
    {"exponential_decay_length_penalty", IGNORED, NULL},
    {"bad_words_ids", IGNORED, NULL},
    {"suppress_tokens", IGNORED, NULL},
    {"begin_suppress_tokens", IGNORED, NULL},
    {"early_stopping", IGNORED, NULL},
    {"max_length", IGNORED, NULL},
    {"min_length", IGNORED, NULL},
    {"num_beams", IGNORED, NULL},
    {"num_beam_groups", IGNORED, NULL},
    {"num_return_sequences", IGNORED, NULL},
};

static bool is_read(enum key_use use, const struct arch *arch)
{
    switch (use) {
    case READ_ALWAYS:
        return true;
    case READ_BIAS:
        return arch->bias_option;
    case READ_MLP_BIAS:
        return arch->mlp_bias_option;
    case READ_WINDOW:
        return arch->window != WINDOW_NONE;
    case READ_BY_LAYER:
        return arch->window == WINDOW_BY_LAYER || arch->window == WINDOW_USE;
    case READ_EXPERTS:
        return arch->experts != EXPERTS_NONE;
    case READ_QWEN_EXPERTS:
        return arch->experts == EXPERTS_QWEN;
    case SAYS_QK_NORM:
    case READ_NEVER:
        return false;
    case IGNORED:
        return true;
    }
    return false;
}

static const struct key_row *find(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i].key, key) == 0)
            return &keys[i];
    return NULL;
}

static enum status refuse_quantization(const cJSON *config)
{
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(config, "quant_method");
    FAIL(
        ST_UNSUPPORTED,
        "quantization_config: weights of the method \"%.60s\" are not supported (f32, f16 and bf16 "
        "are, and quantised ones in GGUF files)",
        cJSON_IsString(method) ? method->valuestring : "?");
}

static enum status check_key(const cJSON *item, const struct arch *arch)
{
    char value[80] = "...";
    const struct key_row *row = find(item->string);
    if (cJSON_IsNull(item) || (row && is_read(row->use, arch)))
        return ST_OK;
    if (strcmp(item->string, "quantization_config") == 0)
        return refuse_quantization(item);
    /* too long for value: cJSON says no, and no harmless value is that long */
    if (!cJSON_PrintPreallocated((cJSON *)item, value, (int)sizeof value, false))
        memcpy(value, "...", 4);
    const char *harmless = row ? row->harmless : NULL;
    if (row && row->use == SAYS_QK_NORM)
        harmless = arch->qk_norm ? "true" : "false";
    if (harmless && strcmp(harmless, value) == 0)
        return ST_OK;
    FAIL(ST_UNSUPPORTED,
         "%.100s = %s is not understood for %s, and it may change the "
         "result",
         item->string, value, arch->name);
}

enum status config_keys_check(const cJSON *root, const struct arch *arch)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, root) TRY(check_key(item, arch));
    return ST_OK;
}
