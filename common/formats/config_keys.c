/* The keys of config.json: which architecture reads each, and which values change nothing.  A key
 * that is not in the table is refused, so that no setting is ignored silently.  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/config_key_table.h"

static bool is_read(const struct key_row *row, const struct arch *arch)
{
    switch (row->use) {
    case READ_ALWAYS:
        return true;
    case READ_NAMED:
        return config_is_named(row->key, arch) ||
               (arch->one_part && strcmp(row->key, "rms_norm_eps") == 0);
    case READ_HEADS:
        return !arch->names || arch->names->kv_heads;
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
        return arch->window != WINDOW_NONE && arch->window != WINDOW_CHUNK;
    case READ_BY_LAYER:
        return arch->window == WINDOW_BY_LAYER || arch->window == WINDOW_USE ||
               arch->window == WINDOW_EVEN;
    case READ_EXPERTS:
        return arch->experts != EXPERTS_NONE;
    case READ_QWEN_EXPERTS:
        return arch->experts == EXPERTS_QWEN;
    case READ_SIZED_EXPERTS:
        return arch->experts == EXPERTS_QWEN || arch->experts == EXPERTS_SHARED ||
               arch->experts == EXPERTS_GROUPS || arch->experts == EXPERTS_METHOD ||
               arch->experts == EXPERTS_BESIDE || arch->experts == EXPERTS_BLOCKS;
    case READ_EXPERTS_BESIDE:
        return arch->experts == EXPERTS_BESIDE;
    case READ_NORM_TOPK:
        return arch->experts != EXPERTS_NONE && arch->experts != EXPERTS_MIXTRAL &&
               arch->experts != EXPERTS_METHOD && arch->experts != EXPERTS_SHARED &&
               arch->experts != EXPERTS_BESIDE && arch->experts != EXPERTS_OPTION &&
               arch->experts != EXPERTS_STEP;
    case READ_FIRST_DENSE:
        return arch->experts == EXPERTS_GROUPS || arch->experts == EXPERTS_METHOD;
    case READ_GROUPS:
        return arch->experts == EXPERTS_GROUPS || arch->experts == EXPERTS_METHOD ||
               arch->experts == EXPERTS_BLOCKS;
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
        return arch->extra_layers || arch->one_part;
    case READ_PATTERN:
        return arch->window == WINDOW_PATTERN && arch->default_pattern > 0 && !arch->global_heads &&
               !arch->streams;
    case READ_CAPS:
        return arch->soft_caps;
    case READ_FINAL_CAP:
        return arch->soft_caps || arch->final_cap;
    case READ_GLOBAL:
        return arch->global_heads;
    case READ_INPUTS:
        return arch->global_heads || arch->streams;
    case READ_STREAMS:
        return arch->streams;
    case READ_SCALAR:
        return arch->soft_caps || arch->streams;
    case READ_LOCAL_ROPE:
        return arch->local_rope && !arch->needs_rope;
    case READ_PARTIAL:
        return arch->partial_rotary;
    case READ_DELTA:
        return arch->delta && !arch->mamba;
    case READ_MAMBA:
        return arch->mamba;
    case READ_BESIDE:
        return arch->beside;
    case READ_MAMBA_SIZES:
        return arch->mamba && !arch->one_part;
    case READ_ONE_PART:
        return arch->one_part;
    case READ_ATTENTION_LIST:
        return arch->partial_layers;
    case READ_EMBED_FACTOR:
        return arch->multipliers || arch->beside;
    case READ_EXPERTS_OPTION:
        return arch->experts == EXPERTS_OPTION;
    case READ_POSITION_TYPE:
        return arch->position_type;
    case READ_MULTIPLIERS:
        return arch->multipliers;
    case READ_DEPTH_SCALES:
        return arch->depth_scales;
    case READ_NOPE:
        return arch->nope == NOPE_LISTED;
    case READ_CHUNKS:
        return arch->window == WINDOW_CHUNK;
    case READ_EXPERTS_STEP:
        return arch->experts == EXPERTS_STEP;
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
    for (size_t i = 0; i < n_config_keys; i++)
        if (strcmp(config_keys[i].key, key) == 0)
            return &config_keys[i];
    return NULL;
}

static enum status refuse_quantization(const cJSON *config, const struct arch *arch)
{
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(config, "quant_method");
    if (arch && arch->expert_bias && cJSON_IsString(method) &&
        strcmp(method->valuestring, "mxfp4") == 0)
        return ST_OK;
    if (config_quant_known(config))
        return ST_OK;
    FAIL(ST_UNSUPPORTED,
         "quantization_config: weights of the method \"%.60s\" are not supported (fp8, "
         "fbgemm_fp8, gptq, awq, compressed-tensors, bitsandbytes and modelopt are, weights in "
         "f32, f16 "
         "and bf16, and quantised ones in GGUF files)",
         cJSON_IsString(method) ? method->valuestring : "?");
}

/* The value that changes nothing; NULL: none. */
static const char *said_by(const struct key_row *row, const struct arch *arch)
{
    switch (row->use) {
    case SAYS_QK_NORM:
        return arch->qk_norm ? "true" : "false";
    case SAYS_SCORES:
        return arch->experts == EXPERTS_NONE                       ? NULL
               : arch->route_bias || arch->experts == EXPERTS_STEP ? "\"sigmoid\""
                                                                   : "\"softmax\"";
    case SAYS_TEXT_IS_CAUSAL: /* "vision": between the tokens of an image alone */
        return arch->global_heads ? "\"vision\"" : row->harmless;
    case SAYS_OUTPUT_GATE:
        return arch->delta && !arch->mamba ? "true" : "false";
    case SAYS_STATE_TYPE:
        return arch->delta ? "\"float32\"" : NULL;
    case SAYS_ROUTE_BIAS:
        return arch->route_bias ? "true" : row->harmless;
    case SAYS_QK_NORM_TYPE:
        return arch->wide_qk_norm ? "\"per_layer\"" : NULL;
    case READ_METHOD:
        return arch->route_bias ? "\"noaux_tc\"" : NULL;
    case READ_NORM_TOPK: /* the classes of DeepSeek-V2 and Llama 4 do not renormalise */
        return arch->experts == EXPERTS_METHOD || arch->experts == EXPERTS_STEP ? "false" : NULL;
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
        "audio_soft_tokens_per_image",
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
        if (strcmp(item->string, "quantization_config") == 0) {
            TRY(refuse_quantization(item, NULL));
            continue;
        }
        FAIL(ST_UNSUPPORTED, "%.100s is not understood for %s, and it may change the result",
             item->string, arch);
    }
    return ST_OK;
}
