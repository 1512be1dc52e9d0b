/* The keys of config.json that tell of global layers, those without a window, whose heads differ from the
 * others' (Gemma 4).  Called by model_config.c. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* What transformers 5 saves in place of global_head_dim and num_global_key_value_heads: the differences of each
 * layer, by its number.  Global layers must all have the same ones, other layers none. */
static enum status read_layer(struct model_config *mc, const cJSON *layer, int32_t i, bool first)
{
    int32_t d_head = mc->d_head, n_kv = mc->n_kv;
    const cJSON *item;
    if (!cJSON_IsObject(layer))
        FAIL(ST_FORMAT, "per_layer_config.%d must be an object", i);
    cJSON_ArrayForEach(item, layer) if (strcmp(item->string, "head_dim") != 0 &&
                                        strcmp(item->string, "num_key_value_heads") != 0)
        FAIL(ST_UNSUPPORTED, "per_layer_config.%d.%.60s is not understood", i, item->string);
    TRY(json_i32(layer, "head_dim", 1, 1 << 16, &d_head));
    TRY(json_i32(layer, "num_key_value_heads", 1, 1 << 16, &n_kv));
    if (mc->windowed[i])
        FAIL(ST_UNSUPPORTED,
             "per_layer_config.%d: only layers of full_attention may have heads of their own", i);
    if (!first && (d_head != mc->global_d_head || n_kv != mc->global_n_kv))
        FAIL(ST_UNSUPPORTED,
             "per_layer_config.%d: %d key/value heads of %d, another layer of "
             "full_attention has %d of %d",
             i, n_kv, d_head, mc->global_n_kv, mc->global_d_head);
    mc->global_d_head = d_head;
    mc->global_n_kv = n_kv;
    return ST_OK;
}

static enum status read_layers(struct model_config *mc, const cJSON *layers)
{
    int32_t n = 0, n_global = 0;
    bool seen[MAX_LAYERS] = {false};
    const cJSON *layer;
    if (!cJSON_IsObject(layers))
        FAIL(ST_FORMAT, "per_layer_config must be an object");
    cJSON_ArrayForEach(layer, layers)
    {
        char *end; /* numbers may have zeros in front of them */
        long i = strtol(layer->string, &end, 10);
        bool digits = layer->string[strspn(layer->string, "0123456789")] == 0;
        if (!digits || end == layer->string || i >= mc->n_layers || seen[i])
            FAIL(ST_FORMAT, "per_layer_config.%.60s: not one of the %d layers, or there twice",
                 layer->string, mc->n_layers);
        seen[i] = true;
        TRY(read_layer(mc, layer, (int32_t)i, n++ == 0));
    }
    for (int32_t i = 0; i < mc->n_layers; i++)
        n_global += !mc->windowed[i];
    if (n && n != n_global)
        FAIL(ST_UNSUPPORTED, "per_layer_config has %d of the %d layers of full_attention", n,
             n_global);
    return ST_OK;
}

/* transformers takes them where nothing is said. */
enum status config_inputs_read(struct model_config *mc, const cJSON *root)
{
    int32_t vocab = 262144;
    mc->d_input = 256;
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "hidden_size_per_layer_input")))
        mc->d_input = 0;
    TRY(json_i32(root, "hidden_size_per_layer_input", 0, 1 << 16, &mc->d_input));
    TRY(json_i32(root, "vocab_size_per_layer_input", 1, 1 << 24, &vocab));
    mc->input_vocab = mc->d_input ? vocab : 0;
    if (mc->d_input && (vocab > mc->vocab || (mc->arch->global_heads && vocab != mc->vocab)))
        FAIL(ST_UNSUPPORTED,
             "vocab_size_per_layer_input = %d is not supported beside vocab_size = %d", vocab,
             mc->vocab);
    return ST_OK;
}

/* The last layers read the keys and values of the last one of their kind before them. */
enum status config_kv_shared_read(struct model_config *mc, const cJSON *root, int32_t n_shared)
{
    mc->n_kv_shared = n_shared;
    TRY(json_i32(root, "num_kv_shared_layers", 0, mc->n_layers - 1, &mc->n_kv_shared));
    if (mc->n_kv_shared >= mc->n_layers)
        FAIL(ST_RANGE,
             "num_kv_shared_layers is not said: %d layers cannot share those of others, of which "
             "%d are",
             n_shared, mc->n_layers);
    return config_kv_shared_check(mc, "num_kv_shared_layers");
}

/* Twice as wide in the layers that share keys and values. */
static enum status read_wide(struct model_config *mc, const cJSON *root)
{
    bool wide = false;
    int32_t width[MAX_LAYERS];
    TRY(json_bool(root, "use_double_wide_mlp", &wide));
    for (int32_t i = 0; i < mc->n_layers; i++)
        width[i] = wide && i >= mc->n_layers - mc->n_kv_shared ? 2 * mc->ffn : mc->ffn;
    model_set_widths(mc, width);
    return ST_OK;
}

enum status config_kv_shared_check(const struct model_config *mc, const char *key)
{
    for (int32_t i = mc->n_layers - mc->n_kv_shared; i < mc->n_layers; i++)
        if (mc->windowed[model_kv_layer(mc, i)] != mc->windowed[i])
            FAIL(ST_UNSUPPORTED,
                 "%s = %d: layer %d shares keys and values, and no layer of its kind is before "
                 "those that share",
                 key, mc->n_kv_shared, i);
    return ST_OK;
}

enum status config_global_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *layers = json_member(root, "per_layer_config");
    mc->windowed[mc->n_layers - 1] = false; /* whatever layer_types says, as in transformers */
    TRY(config_inputs_read(mc, root));
    TRY(config_kv_shared_read(mc, root, 0));
    TRY(read_wide(mc, root));
    mc->global_d_head = 512;
    mc->global_n_kv = mc->n_kv;
    TRY(json_bool(root, "attention_k_eq_v", &mc->k_eq_v));
    if (layers) {
        mc->global_d_head = mc->d_head;
        return read_layers(mc, layers);
    }
    TRY(json_i32(root, "global_head_dim", 1, 1 << 16, &mc->global_d_head));
    /* transformers reads it with this option alone */
    return mc->k_eq_v ? json_i32(root, "num_global_key_value_heads", 1, 1 << 16, &mc->global_n_kv)
                      : ST_OK;
}
