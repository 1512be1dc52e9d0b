/* The keys of config.json that tell of Mamba-2 layers (Dao and Gu 2024, arXiv 2405.21060).  Called by model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* layer_types; both the names of published files and those that transformers 5 saves. */
static enum status read_layers(struct model_config *mc, const cJSON *root)
{
    const cJSON *types = json_member(root, "layer_types"), *t;
    int32_t i = 0;
    memset(mc->delta, true, (size_t)mc->n_layers * sizeof *mc->delta);
    if (!types)
        return ST_OK;
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != mc->n_layers)
        FAIL(ST_FORMAT, "layer_types must be a list of num_hidden_layers (%d) names", mc->n_layers);
    cJSON_ArrayForEach(t, types)
    {
        const char *name = cJSON_IsString(t) ? t->valuestring : "?";
        bool attends = strcmp(name, "attention") == 0 || strcmp(name, "full_attention") == 0;
        if (!attends && strcmp(name, "mamba") != 0 && strcmp(name, "linear_attention") != 0)
            FAIL(ST_UNSUPPORTED, "layer_types[%d] is \"%.60s\": %s has mamba and attention", i,
                 name, mc->arch->name);
        mc->delta[i++] = !attends;
    }
    return ST_OK;
}

/* [least, greatest] of a step.  transformers saves infinity as {"__float__": "Infinity"}. */
static enum status read_limit(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "time_step_limit"), *item;
    double *to[] = {&mc->dt_min, &mc->dt_max};
    int i = 0;
    mc->dt_min = 0;
    mc->dt_max = INFINITY;
    if (!list)
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 2)
        FAIL(ST_FORMAT, "time_step_limit must be a list of two numbers");
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *named = cJSON_GetObjectItemCaseSensitive(item, "__float__");
        bool infinite = cJSON_IsString(named) && strcmp(named->valuestring, "Infinity") == 0;
        if (!infinite && (!cJSON_IsNumber(item) || !(item->valuedouble >= 0)))
            FAIL(ST_RANGE, "time_step_limit[%d] is no number of 0 or more", i);
        *to[i++] = infinite ? (double)INFINITY : item->valuedouble;
    }
    if (mc->dt_min > mc->dt_max || isinf(mc->dt_min))
        FAIL(ST_RANGE, "time_step_limit: %g is greater than %g, or infinite", mc->dt_min,
             mc->dt_max);
    return ST_OK;
}

/* Defaults are those of the transformers class; mamba_d_head "auto" follows from the others. */
static enum status read_heads(struct model_config *mc, const cJSON *root)
{
    const cJSON *head = json_member(root, "mamba_d_head");
    int32_t expand = 2;
    int64_t inner;
    mc->n_delta_v = 128;
    mc->n_delta_k = 1;
    mc->d_delta_k = 256;
    mc->delta_taps = 4;
    mc->conv_bias = true;
    TRY(json_i32(root, "mamba_n_heads", 1, DELTA_HEADS, &mc->n_delta_v));
    TRY(json_i32(root, "mamba_n_groups", 1, DELTA_HEADS, &mc->n_delta_k));
    TRY(json_i32(root, "mamba_d_state", 1, DELTA_HEAD, &mc->d_delta_k));
    TRY(json_i32(root, "mamba_d_conv", 2, DELTA_TAPS, &mc->delta_taps));
    TRY(json_i32(root, "mamba_expand", 1, 1 << 10, &expand));
    TRY(json_bool(root, "mamba_conv_bias", &mc->conv_bias));
    inner = (int64_t)expand * mc->hidden;
    if (inner % mc->n_delta_v || inner / mc->n_delta_v > DELTA_HEAD)
        FAIL(ST_RANGE, "%lld channels (mamba_expand * hidden_size) are no %d heads of up to %d",
             (long long)inner, mc->n_delta_v, DELTA_HEAD);
    mc->d_delta_v = (int32_t)(inner / mc->n_delta_v);
    int32_t said = mc->d_delta_v;
    if (!cJSON_IsString(head) || strcmp(head->valuestring, "auto") != 0)
        TRY(json_i32(root, "mamba_d_head", 1, DELTA_HEAD, &said));
    if (said != mc->d_delta_v)
        FAIL(ST_RANGE, "mamba_d_head is %d: %d heads of it are not mamba_expand * hidden_size %lld",
             said, mc->n_delta_v, (long long)inner);
    if (mc->n_delta_v % mc->n_delta_k)
        FAIL(ST_RANGE, "mamba_n_heads %d cannot share mamba_n_groups %d groups evenly",
             mc->n_delta_v, mc->n_delta_k);
    return read_limit(mc, root);
}

/* Granite's attention has RoPE only where the file says "rope". */
static enum status read_positions(struct model_config *mc, const cJSON *root)
{
    const char *type = "nope";
    TRY(json_string(root, "position_embedding_type", &type));
    if (strcmp(type, "rope") != 0 && strcmp(type, "nope") != 0)
        FAIL(ST_UNSUPPORTED,
             "position_embedding_type \"%.40s\" is not supported (rope and nope are)", type);
    memset(mc->nope, strcmp(type, "nope") == 0, (size_t)mc->n_layers * sizeof *mc->nope);
    return ST_OK;
}

enum status config_mamba_read(struct model_config *mc, const cJSON *root)
{
    if (mc->act != MODEL_SILU)
        FAIL(ST_UNSUPPORTED, "hidden_act: %s is supported with silu alone", mc->arch->name);
    TRY(read_layers(mc, root));
    if (model_n_delta(mc))
        TRY(read_heads(mc, root));
    if (mc->arch->position_type)
        TRY(read_positions(mc, root));
    return config_delta_check(mc);
}
