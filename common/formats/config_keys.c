/* The keys of config.json: which architecture reads each, and which values change nothing.  A key
 * that is not in the table is refused, so that no setting is ignored silently.  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_json.h"

/* Read by the architectures for which `when` holds; for the others, and for READ_NEVER, only null
 * or the harmless value passes.  harmless NULL: none does.  IGNORED: says nothing about the result.
 */
enum key_use {
    READ_ALWAYS,
    READ_NAMED, /* by the architectures that have the key among their config_names */
    READ_HEADS, /* where n_kv and d_head are said */
    READ_ROPE,
    READ_BIAS,
    READ_MLP_BIAS,
    READ_WINDOW,
    READ_BY_LAYER,
    READ_EXPERTS,
    READ_QWEN_EXPERTS,
    READ_SIZED_EXPERTS,
    READ_PATTERN,
    READ_CAPS,
    READ_FINAL_CAP,
    READ_GLOBAL,
    READ_LOCAL_ROPE,
    READ_PARTIAL,
    READ_CODE,
    READ_DELTA,
    READ_MULTIPLIERS,
    READ_DEPTH_SCALES,
    READ_NOPE,
    READ_NORM_TOPK,
    READ_GROUPS,
    READ_LIMITED,
    READ_SHARED,
    READ_LOGIT_FACTOR,
    READ_USE_BIAS,
    READ_EXTRA_LAYERS,
    READ_LATENT,
    READ_METHOD,
    READ_O_BIAS,
    READ_LAYER_LIST,
    READ_ROTARY_PCT,
    READ_PARALLEL,
    READ_ROTARY_DIM, /* the class of MiniMax M2, which makes nothing of the others with this use */
    SAYS_TEXT_IS_CAUSAL,
    SAYS_OUTPUT_GATE,
    SAYS_STATE_TYPE,
    SAYS_ATTENTION,
    SAYS_ROUTE_BIAS,
    SAYS_SCORES,
    SAYS_QK_NORM, /* only what the architecture does anyway passes */
    SAYS_QK_NORM_TYPE,
    SAYS_QKV_BIAS,
    SAYS_PARALLEL,
    SAYS_LAYER_NORM,
    SAYS_GATED,
    SAYS_TIED,
    READ_NEVER,
    IGNORED
};

static const struct key_row {
    const char *key;
    enum key_use use;
    const char *harmless; /* JSON text */
} keys[] = {
    {"architectures", READ_ALWAYS, NULL},
    {"is_matryoshka", READ_ALWAYS, NULL},         /* sentence_modules.c */
    {"matryoshka_dimensions", READ_ALWAYS, NULL}, /* sentence_modules.c */
    {"model_type", READ_ALWAYS, NULL},
    {"hidden_size", READ_NAMED, NULL},
    {"n_embd", READ_NAMED, NULL},
    {"word_embed_proj_dim", READ_NAMED, NULL},
    {"intermediate_size", READ_NAMED, NULL},
    {"n_inner", READ_NAMED, NULL},
    {"ffn_dim", READ_NAMED, NULL},
    {"num_hidden_layers", READ_NAMED, NULL},
    {"n_layer", READ_NAMED, NULL},
    {"num_attention_heads", READ_NAMED, NULL},
    {"n_head", READ_NAMED, NULL},
    {"num_key_value_heads", READ_HEADS, NULL},
    {"head_dim", READ_HEADS, NULL},
    {"vocab_size", READ_ALWAYS, NULL},
    {"max_position_embeddings", READ_NAMED, NULL},
    {"n_positions", READ_NAMED, NULL},
    {"rms_norm_eps", READ_NAMED, NULL},
    {"layer_norm_eps", READ_NAMED, NULL},
    {"layer_norm_epsilon", READ_NAMED, NULL},
    {"norm_epsilon", READ_NAMED, NULL},
    {"hidden_act", READ_NAMED, NULL},
    {"activation_function", READ_NAMED, NULL},
    {"tie_word_embeddings", READ_ALWAYS, NULL},
    {"rope_theta", READ_ROPE, NULL},
    {"rope_scaling", READ_ROPE, NULL},
    {"rope_parameters", READ_ROPE, NULL},
    {"original_max_position_embeddings", READ_ROPE, NULL},
    {"layer_types", READ_ALWAYS, NULL},
    {"eos_token_id", READ_ALWAYS, NULL},
    {"bos_token_id", READ_ALWAYS, NULL},
    {"torch_dtype", READ_ALWAYS, NULL},
    {"dtype", READ_ALWAYS, NULL},
    {"attention_bias", READ_BIAS, "false"},
    {"mlp_bias", READ_MLP_BIAS, "false"},
    {"attention_out_bias", READ_O_BIAS, "false"},
    {"sliding_window", READ_WINDOW, NULL},
    {"use_sliding_window", READ_BY_LAYER, "false"},
    {"max_window_layers", IGNORED, NULL}, /* says nothing where no window is in use */
    {"num_experts", READ_EXPERTS, "0"},
    {"num_local_experts", READ_EXPERTS, "0"},
    {"num_experts_per_tok", READ_EXPERTS, "0"},
    {"moe_intermediate_size", READ_SIZED_EXPERTS, NULL},
    {"norm_topk_prob", READ_NORM_TOPK, NULL},
    {"kv_lora_rank", READ_LATENT, NULL},
    {"q_lora_rank", READ_LATENT, NULL},
    {"qk_nope_head_dim", READ_LATENT, NULL},
    {"qk_rope_head_dim", READ_LATENT, NULL},
    {"v_head_dim", READ_LATENT, NULL},
    {"qk_head_dim", READ_LATENT, NULL},
    {"rope_interleave", READ_LATENT, NULL},
    {"linear_conv_kernel_dim", READ_DELTA, NULL},
    {"linear_key_head_dim", READ_DELTA, NULL},
    {"linear_value_head_dim", READ_DELTA, NULL},
    {"linear_num_key_heads", READ_DELTA, NULL},
    {"linear_num_value_heads", READ_DELTA, NULL},
    {"full_attention_interval", READ_DELTA, NULL},
    {"attn_output_gate", SAYS_OUTPUT_GATE, NULL},
    {"mamba_ssm_dtype", SAYS_STATE_TYPE, NULL},
    {"mtp_num_hidden_layers", READ_DELTA, "0"}, /* tensors that are not read */
    {"mtp_use_dedicated_embeddings", READ_DELTA, "false"},
    {"topk_method", READ_METHOD, NULL},
    {"scoring_func", SAYS_SCORES, NULL},
    {"moe_layer_freq", READ_NEVER, "1"},
    {"mlp_layer_types", READ_LAYER_LIST, NULL},
    {"n_routed_experts", READ_GROUPS, "0"},
    {"first_k_dense_replace", READ_GROUPS, "0"},
    {"n_group", READ_GROUPS, "1"},
    {"topk_group", READ_GROUPS, "1"},
    {"routed_scaling_factor", READ_GROUPS, "1"},
    {"decoder_sparse_step", READ_QWEN_EXPERTS, NULL},
    {"mlp_only_layers", READ_QWEN_EXPERTS, "[]"},
    {"use_qk_norm", SAYS_QK_NORM, NULL},
    {"sliding_window_pattern", READ_PATTERN, NULL},
    {"_sliding_window_pattern", READ_PATTERN, NULL},
    {"hidden_activation", READ_FINAL_CAP, "\"gelu_pytorch_tanh\""}, /* Gemma reads hidden_act */
    {"query_pre_attn_scalar", READ_CAPS, NULL},
    {"attn_logit_softcapping", READ_CAPS, NULL},
    {"final_logit_softcapping", READ_FINAL_CAP, NULL},
    {"global_head_dim", READ_GLOBAL, NULL},
    {"num_global_key_value_heads", READ_GLOBAL, NULL},
    {"attention_k_eq_v", READ_GLOBAL, "false"},
    {"per_layer_config", READ_GLOBAL, NULL},
    {"hidden_size_per_layer_input", READ_GLOBAL, "0"},
    {"vocab_size_per_layer_input", READ_GLOBAL, NULL}, /* says nothing where the size is 0 */
    {"use_double_wide_mlp", READ_GLOBAL, "false"},     /* of layers that share keys and values */
    {"num_kv_shared_layers", READ_NEVER, "0"},
    {"enable_moe_block", READ_NEVER, "false"},
    {"rope_local_base_freq", READ_LOCAL_ROPE, NULL},
    {"partial_rotary_factor", READ_PARTIAL, "1"},
    {"rotary_dim", READ_ROTARY_DIM, NULL},
    {"mlp_intermediate_size", READ_ROTARY_DIM, NULL},
    {"shared_moe_mode", READ_ROTARY_DIM, NULL},
    {"use_mtp", READ_ROTARY_DIM, "false"},
    {"num_mtp_modules", READ_ROTARY_DIM, "0"},
    {"mtp_transformer_layers", READ_ROTARY_DIM, "0"},
    {"layernorm_full_attention_beta", READ_NEVER, "1"},
    {"layernorm_linear_attention_beta", READ_NEVER, "1"},
    {"layernorm_mlp_beta", READ_NEVER, "1"},
    {"attn_type_list", SAYS_ATTENTION, NULL},
    {"use_routing_bias", SAYS_ROUTE_BIAS, "false"},
    {"qk_norm_type", SAYS_QK_NORM_TYPE, NULL},
    {"shared_intermediate_size", READ_NEVER, "0"},
    {"auto_map", READ_CODE, "{}"},

    {"use_bidirectional_attention", SAYS_TEXT_IS_CAUSAL, "false"},
    {"rotary_pct", READ_ROTARY_PCT, "1"},
    {"rotary_emb_base", READ_ROTARY_PCT, NULL},
    {"rope_interleaved", READ_NEVER, "false"},
    {"use_mrope", READ_NEVER, "false"},
    {"is_encoder_decoder", READ_NEVER, "false"},
    {"add_cross_attention", READ_NEVER, "false"},
    {"is_causal", READ_NEVER, "true"},
    {"qkv_bias", SAYS_QKV_BIAS, NULL},
    {"shared_expert_intermediate_size", READ_SHARED, "0"},
    {"n_shared_experts", READ_GROUPS, "0"},
    {"clip_qkv", READ_NEVER, NULL},
    {"swiglu_limit", READ_LIMITED, NULL},
    {"swiglu_alpha", READ_LIMITED, NULL},
    {"experts_per_token", READ_LIMITED, NULL},      /* num_experts_per_tok is read */
    {"initial_context_length", READ_LIMITED, NULL}, /* that of rope_scaling is read */
    {"num_shared_experts", READ_NEVER, "0"},
    {"qk_layernorm", READ_NEVER, "false"},
    {"tie_encoder_decoder", READ_NEVER, "false"},
    {"pruned_heads", READ_NEVER, "{}"},
    {"chunk_size_feed_forward", READ_NEVER, "0"},
    {"logit_scale", READ_LOGIT_FACTOR, "1"},
    {"logits_scaling", READ_MULTIPLIERS, "1"},
    {"embedding_multiplier", READ_MULTIPLIERS, "1"},
    {"residual_multiplier", READ_MULTIPLIERS, "1"},
    {"attention_multiplier", READ_MULTIPLIERS, NULL},
    {"no_rope_layers", READ_NOPE, NULL},
    {"no_rope_layer_interval", READ_NOPE, NULL},
    {"scale_emb", READ_DEPTH_SCALES, "1"},
    {"scale_depth", READ_DEPTH_SCALES, NULL},
    {"dim_model_base", READ_DEPTH_SCALES, NULL},
    {"num_nextn_predict_layers", READ_EXTRA_LAYERS, "0"},
    {"num_mtp_layers", READ_EXTRA_LAYERS, "0"},
    {"bias", READ_NEVER, "false"},
    {"use_bias", READ_USE_BIAS, "false"},
    {"use_parallel_block", SAYS_PARALLEL, NULL},
    {"use_gated_activation", SAYS_GATED, NULL},
    {"use_embedding_sharing", SAYS_TIED, NULL},
    {"position_embedding_type", READ_NEVER, "\"rope_gptj\""},
    {"order_of_interleaved_layers", READ_NEVER, "\"local_attn_first\""},
    {"layer_switch", READ_NEVER, "4"},
    {"mlp_type", READ_NEVER, "\"default\""},
    {"norm_type", SAYS_LAYER_NORM, NULL},
    {"parallel_attn", READ_NEVER, "false"},
    {"use_parallel_residual", READ_PARALLEL, "false"},
    {"scale_attn_weights", READ_NEVER, "true"},
    {"scale_attn_by_inverse_layer_idx", READ_NEVER, "false"},
    {"do_layer_norm_before", READ_NEVER, "true"},
    {"enable_bias", READ_NEVER, "true"},
    {"layer_norm_elementwise_affine", READ_NEVER, "true"},
    {"_remove_final_layer_norm", READ_NEVER, "false"},
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
    {"max_sequence_length", IGNORED, NULL},     /* of training; max_position_embeddings rules */
    {"n_ctx", IGNORED, NULL},                   /* n_positions rules */
    {"reorder_and_upcast_attn", IGNORED, NULL}, /* the same scores, computed in f32 */
    {"model_max_length", IGNORED, NULL},
    {"type_vocab_size", IGNORED, NULL}, /* of encoders */
    {"use_cache", IGNORED, NULL},
    {"cache_implementation", IGNORED, NULL},
    {"initializer_range", IGNORED, NULL},
    {"attention_dropout", IGNORED, NULL},
    {"hidden_dropout", IGNORED, NULL},
    {"embedding_dropout", IGNORED, NULL},
    {"residual_dropout", IGNORED, NULL},
    {"use_parallel_embedding", IGNORED, NULL}, /* cuts the same table in another way */
    {"embd_pdrop", IGNORED, NULL},
    {"resid_pdrop", IGNORED, NULL},
    {"attn_pdrop", IGNORED, NULL},
    {"dropout", IGNORED, NULL},
    {"activation_dropout", IGNORED, NULL},
    {"classifier_dropout", IGNORED, NULL},
    {"layerdrop", IGNORED, NULL},
    {"init_std", IGNORED, NULL},
    {"summary_type", IGNORED, NULL}, /* of another head */
    {"summary_use_proj", IGNORED, NULL},
    {"summary_activation", IGNORED, NULL},
    {"summary_proj_to_labels", IGNORED, NULL},
    {"summary_first_dropout", IGNORED, NULL},
    {"predict_special_tokens", IGNORED, NULL},
    {"output_past", IGNORED, NULL},
    {"neftune_noise_alpha", IGNORED, NULL},
    {"gradient_checkpointing", IGNORED, NULL},
    {"output_router_logits", IGNORED, NULL},
    {"router_aux_loss_coef", IGNORED, NULL}, /* of training, as is the noise */
    {"router_jitter_noise", IGNORED, NULL},
    {"aux_loss_alpha", IGNORED, NULL},
    {"seq_aux", IGNORED, NULL},
    {"ep_size", IGNORED, NULL},        /* cuts the experts over processes */
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

static bool is_read(const struct key_row *row, const struct arch *arch)
{
    switch (row->use) {
    case READ_ALWAYS:
        return true;
    case READ_NAMED:
        return config_is_named(row->key, arch);
    case READ_HEADS:
        return !arch->names;
    case READ_ROPE:
        return !arch->tensor[TN_POSITIONS].name;
    case READ_ROTARY_PCT:
        return arch->rotary_pct;
    case READ_PARALLEL:
        return arch->parallel_option;
    case READ_BIAS:
        return arch->bias_option;
    case READ_MLP_BIAS:
        return arch->mlp_bias_option;
    case READ_WINDOW:
        return arch->window != WINDOW_NONE;
    case READ_BY_LAYER:
        return arch->window == WINDOW_BY_LAYER || arch->window == WINDOW_USE ||
               arch->window == WINDOW_EVEN;
    case READ_EXPERTS:
        return arch->experts != EXPERTS_NONE;
    case READ_QWEN_EXPERTS:
        return arch->experts == EXPERTS_QWEN;
    case READ_SIZED_EXPERTS:
        return arch->experts == EXPERTS_QWEN || arch->experts == EXPERTS_SHARED ||
               arch->experts == EXPERTS_GROUPS || arch->experts == EXPERTS_METHOD;
    case READ_NORM_TOPK:
        return arch->experts != EXPERTS_NONE && arch->experts != EXPERTS_MIXTRAL &&
               arch->experts != EXPERTS_METHOD && arch->experts != EXPERTS_SHARED;
    case READ_GROUPS:
        return arch->experts == EXPERTS_GROUPS || arch->experts == EXPERTS_METHOD;
    case READ_METHOD:
        return arch->experts == EXPERTS_METHOD;
    case READ_LATENT:
        return arch->latent;
    case READ_LIMITED:
        return arch->expert_bias;
    case READ_SHARED:
        return arch->shared_option;
    case READ_LOGIT_FACTOR:
        return arch->logit_factor;
    case READ_USE_BIAS:
        return arch->use_bias_option;
    case READ_EXTRA_LAYERS:
        return arch->extra_layers;
    case READ_PATTERN:
        return arch->window == WINDOW_PATTERN && arch->default_pattern > 0 && !arch->global_heads;
    case READ_CAPS:
        return arch->soft_caps;
    case READ_FINAL_CAP:
        return arch->soft_caps || arch->final_cap;
    case READ_GLOBAL:
        return arch->global_heads;
    case READ_LOCAL_ROPE:
        return arch->local_rope && !arch->needs_rope;
    case READ_PARTIAL:
        return arch->partial_rotary;
    case READ_DELTA:
        return arch->delta;
    case READ_MULTIPLIERS:
        return arch->multipliers;
    case READ_DEPTH_SCALES:
        return arch->depth_scales;
    case READ_NOPE:
        return arch->nope == NOPE_LISTED;
    case READ_CODE:
        return arch->own_code;
    case READ_O_BIAS:
        return arch->o_bias_option;
    case READ_LAYER_LIST:
        return arch->layer_list;
    case READ_ROTARY_DIM:
        return arch->rotary_dim;
    case SAYS_QK_NORM:
        return arch->qk_norm_option;
    case SAYS_TEXT_IS_CAUSAL:
    case SAYS_OUTPUT_GATE:
    case SAYS_STATE_TYPE:
    case SAYS_SCORES:
    case SAYS_ATTENTION:
    case SAYS_ROUTE_BIAS:
    case SAYS_QK_NORM_TYPE:
    case SAYS_QKV_BIAS:
    case SAYS_PARALLEL:
    case SAYS_LAYER_NORM:
    case SAYS_GATED:
    case SAYS_TIED:
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

static enum status refuse_quantization(const cJSON *config, const struct arch *arch)
{
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(config, "quant_method");
    if (arch && arch->expert_bias && cJSON_IsString(method) &&
        strcmp(method->valuestring, "mxfp4") == 0)
        return ST_OK;
    if (arch && config_quant_known(config))
        return ST_OK;
    FAIL(ST_UNSUPPORTED,
         "quantization_config: weights of the method \"%.60s\" are not supported (fp8, gptq, awq "
         "and compressed-tensors are, weights in f32, f16 and bf16, and quantised ones in GGUF "
         "files)",
         cJSON_IsString(method) ? method->valuestring : "?");
}

/* The value that changes nothing; NULL: none. */
static const char *said_by(const struct key_row *row, const struct arch *arch)
{
    switch (row->use) {
    case SAYS_QK_NORM:
        return arch->qk_norm ? "true" : "false";
    case SAYS_SCORES:
        return arch->experts == EXPERTS_NONE ? NULL
               : arch->route_bias            ? "\"sigmoid\""
                                             : "\"softmax\"";
    case SAYS_TEXT_IS_CAUSAL: /* "vision": between the tokens of an image alone */
        return arch->global_heads ? "\"vision\"" : row->harmless;
    case SAYS_OUTPUT_GATE:
        return arch->delta ? "true" : "false";
    case SAYS_STATE_TYPE:
        return arch->delta ? "\"float32\"" : NULL;
    case SAYS_ROUTE_BIAS:
        return arch->route_bias ? "true" : row->harmless;
    case SAYS_QK_NORM_TYPE:
        return arch->wide_qk_norm ? "\"per_layer\"" : NULL;
    case READ_METHOD:
        return arch->route_bias ? "\"noaux_tc\"" : NULL;
    case READ_NORM_TOPK: /* the class of DeepSeek-V2 does not renormalise */
        return arch->experts == EXPERTS_METHOD ? "false" : NULL;
    case SAYS_QKV_BIAS:
        return arch->qkv_bias ? "true" : "false";
    case SAYS_PARALLEL:
        return arch->parallel ? "true" : "false";
    case SAYS_LAYER_NORM:
        return arch->layer_norm ? "\"layer_norm\"" : NULL;
    case SAYS_GATED:
        return arch->tensor[TN_GATE].name ? "true" : "false";
    case SAYS_TIED:
        return arch->tied ? "true" : "false";
    default:
        return row->harmless;
    }
}

/* The value as JSON text, "..." if it is longer than any harmless one. */
static void print_value(const cJSON *item, char value[80])
{
    if (cJSON_IsNumber(item) && isinf(item->valuedouble)) /* cJSON prints null */
        snprintf(value, 80, "%sInfinity", item->valuedouble < 0 ? "-" : "");
    else if (!cJSON_PrintPreallocated((cJSON *)item, value, 80, false))
        memcpy(value, "...", 4);
}

/* MiniMax's list of the layers' kinds of attention: 1 is softmax attention, 0 linear. */
static bool all_ones(const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item,
                       list) if (!cJSON_IsNumber(item) || item->valuedouble != 1) return false;
    return cJSON_IsArray(list);
}

/* What a value says that is not the harmless one; NULL: not known. */
static const char *meaning(const char *key)
{
    static const struct {
        const char *key, *says;
    } rows[] = {
        {"do_layer_norm_before", "norms behind the sums, as OPT-350m has them"},
        {"enable_bias", "no biases, as in Galactica"},
        {"layer_norm_elementwise_affine", "norms without weights, as in Galactica"},
        {"_remove_final_layer_norm", "no norm before the head"},
        {"num_kv_shared_layers", "layers that share keys and values, as in Gemma 4 E2B and E4B"},
        {"enable_moe_block", "experts beside the feed-forward, as in Gemma 4 26B-A4B"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].key, key) == 0)
            return rows[i].says;
    return NULL;
}

static enum status check_key(const cJSON *item, const struct arch *arch)
{
    char value[80];
    const struct key_row *row = find(item->string);
    if (cJSON_IsNull(item) || (row && is_read(row, arch)))
        return ST_OK;
    if (row && row->use == SAYS_ATTENTION && all_ones(item))
        return ST_OK;
    if (strcmp(item->string, "quantization_config") == 0)
        return refuse_quantization(item, arch);
    print_value(item, value);
    const char *harmless = row ? said_by(row, arch) : NULL;
    if (harmless && strcmp(harmless, value) == 0)
        return ST_OK;
    const char *why = row ? meaning(row->key) : NULL;
    if (why)
        FAIL(ST_UNSUPPORTED, "%.100s = %s is not supported for %s: %s", item->string, value,
             arch->name, why);
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

/* Those of images and sound say nothing about text. */
static bool of_wrapper(const char *key)
{
    static const char *const known[] = {
        "architectures",
        "model_type",
        "text_config",
        "vision_config",
        "audio_config",
        "dtype",
        "torch_dtype",
        "eos_token_id",
        "bos_token_id",
        "tie_word_embeddings",
        "image_token_id",
        "image_token_index",
        "boi_token_id",
        "boi_token_index",
        "eoi_token_id",
        "eoi_token_index",
        "mm_tokens_per_image",
        "projector_hidden_act",
        "spatial_merge_size",
        "vision_feature_layer",
        "vision_feature_select_strategy",
        "multimodal_projector_bias",
        "image_seq_length",
        "video_token_id",
        "audio_token_id",
        "boa_token_id",
        "eoa_token_id",
        "eoa_token_index",
        "vision_soft_tokens_per_image",
        "vision_start_token_id",
        "vision_end_token_id",
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i], key) == 0)
            return true;
    const struct key_row *row = find(key);
    return row && row->use == IGNORED;
}

enum status config_wrapper_check(const cJSON *root, const char *arch)
{
    const cJSON *item;
    char value[80];
    cJSON_ArrayForEach(item, root)
    {
        const struct key_row *row = find(item->string);
        print_value(item, value);
        if (cJSON_IsNull(item) || of_wrapper(item->string) ||
            (row && row->use == READ_NEVER && row->harmless && strcmp(row->harmless, value) == 0))
            continue;
        if (strcmp(item->string, "quantization_config") == 0)
            return refuse_quantization(item, NULL);
        FAIL(ST_UNSUPPORTED, "%.100s is not understood for %s, and it may change the result",
             item->string, arch);
    }
    return ST_OK;
}
