/* The keys of config.json that tell of gated delta-net layers (Yang et al. 2024, arXiv 2412.06464).  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

enum status config_delta_check(const struct model_config *mc)
{
    if (model_n_attention(mc) == 0)
        FAIL(ST_UNSUPPORTED, "no layer of %s is full_attention", mc->arch->name);
    if ((int64_t)mc->n_delta_v * mc->d_delta_k * mc->d_delta_v > DELTA_STATE)
        FAIL(ST_RANGE, "the state of %d value heads of %d x %d is too large", mc->n_delta_v,
             mc->d_delta_k, mc->d_delta_v);
    return ST_OK;
}

/* Defaults are those of the transformers classes. */
static enum status read_heads(struct model_config *mc, const cJSON *root)
{
    mc->n_delta_k = 16;
    mc->n_delta_v = 32;
    mc->d_delta_k = mc->d_delta_v = 128;
    mc->delta_taps = 4;
    TRY(json_i32(root, "linear_num_key_heads", 1, DELTA_HEADS, &mc->n_delta_k));
    TRY(json_i32(root, "linear_num_value_heads", 1, DELTA_HEADS, &mc->n_delta_v));
    TRY(json_i32(root, "linear_key_head_dim", 1, DELTA_HEAD, &mc->d_delta_k));
    TRY(json_i32(root, "linear_value_head_dim", 1, DELTA_HEAD, &mc->d_delta_v));
    TRY(json_i32(root, "linear_conv_kernel_dim", 2, DELTA_TAPS, &mc->delta_taps));
    if (mc->n_delta_v % mc->n_delta_k)
        FAIL(ST_RANGE,
             "linear_num_value_heads %d cannot share linear_num_key_heads %d key heads evenly",
             mc->n_delta_v, mc->n_delta_k);
    return ST_OK;
}

/* layer_types, or attention in each full_attention_interval-th layer. */
static enum status read_layers(struct model_config *mc, const cJSON *root)
{
    const cJSON *types = json_member(root, "layer_types"), *t;
    int32_t interval = 4, i = 0;
    TRY(json_i32(root, "full_attention_interval", 1, 1 << 20, &interval));
    for (i = 0; i < mc->n_layers; i++)
        mc->delta[i] = (i + 1) % interval != 0;
    if (!types)
        return ST_OK;
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != mc->n_layers)
        FAIL(ST_FORMAT, "layer_types must be a list of num_hidden_layers (%d) names", mc->n_layers);
    i = 0;
    cJSON_ArrayForEach(t, types)
    {
        const char *name = cJSON_IsString(t) ? t->valuestring : "?";
        mc->delta[i] = strcmp(name, "linear_attention") == 0;
        if (!mc->delta[i] && strcmp(name, "full_attention") != 0)
            FAIL(ST_UNSUPPORTED,
                 "layer_types[%d] is \"%.60s\": %s has linear_attention and full_attention", i,
                 name, mc->arch->name);
        i++;
    }
    return ST_OK;
}

enum status config_delta_read(struct model_config *mc, const cJSON *root)
{
    if (mc->act != MODEL_SILU)
        FAIL(ST_UNSUPPORTED, "hidden_act: %s is supported with silu alone", mc->arch->name);
    TRY(read_layers(mc, root));
    if (model_n_delta(mc))
        TRY(read_heads(mc, root));
    return config_delta_check(mc);
}
