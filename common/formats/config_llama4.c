/* Llama 4's keys of config.json: attention in chunks, the factor on q, and which layers have experts. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* Which layers see their chunk alone; the others see everything. */
static enum status read_types(struct model_config *mc, const cJSON *root)
{
    const cJSON *types = json_member(root, "layer_types"), *t;
    int32_t i = 0;
    for (i = 0; i < mc->n_layers; i++)
        mc->windowed[i] = !mc->nope[i];
    if (!types)
        return ST_OK;
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != mc->n_layers)
        FAIL(ST_FORMAT, "layer_types must be a list of num_hidden_layers (%d) names", mc->n_layers);
    i = 0;
    cJSON_ArrayForEach(t, types)
    {
        const char *name = cJSON_IsString(t) ? t->valuestring : "?";
        bool chunk = strcmp(name, "chunked_attention") == 0;
        if (!chunk && strcmp(name, "full_attention") != 0)
            FAIL(ST_UNSUPPORTED,
                 "layer_types[%d] is \"%.60s\": only full_attention and chunked_attention are "
                 "supported",
                 i, name);
        mc->windowed[i++] = chunk;
    }
    return ST_OK;
}

/* The first files have a number, of which transformers asks whether it is 0. */
static enum status read_tuning(bool *on, const cJSON *root)
{
    const cJSON *item = json_member(root, "attn_temperature_tuning");
    if (!cJSON_IsNumber(item))
        return json_bool(root, "attn_temperature_tuning", on);
    *on = item->valuedouble != 0;
    return ST_OK;
}

enum status config_chunks_read(struct model_config *mc, const cJSON *root)
{
    int32_t chunk = 8192, floor = 8192;
    double scale = 0.1;
    bool tuning = true;
    TRY(read_types(mc, root));
    TRY(json_i32(root, "attention_chunk_size", 1, 1 << 30, &chunk));
    bool none = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "attention_chunk_size"));
    for (int32_t i = 0; i < mc->n_layers; i++) {
        if (mc->windowed[i] && none)
            FAIL(ST_FORMAT, "attention_chunk_size is null, but layer %d has chunked_attention", i);
        if (mc->windowed[i])
            mc->window = chunk;
    }
    TRY(read_tuning(&tuning, root));
    TRY(json_i32(root, "floor_scale", 1, 1 << 30, &floor));
    TRY(json_double(root, "attn_scale", 0, 1e3, &scale));
    mc->rope.q_beta = tuning ? scale : 0;
    mc->rope.q_floor = floor;
    mc->rope.q_first = 1;
    return ST_OK;
}

/* moe_layers goes before the step, which is then not read. */
static enum status read_sparse(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "moe_layers"), *item;
    int32_t step = 1;
    if (!list) {
        TRY(json_i32(root, "interleave_moe_layer_step", 1, 1 << 20, &step));
        for (int32_t i = 0; i < mc->n_layers; i++)
            mc->sparse[i] = (i + 1) % step == 0;
        return ST_OK;
    }
    if (!cJSON_IsArray(list))
        FAIL(ST_FORMAT, "moe_layers is no list");
    cJSON_ArrayForEach(item, list)
    {
        uint64_t layer;
        if (!json_is_u53(item, &layer) || layer >= (uint64_t)mc->n_layers)
            FAIL(ST_RANGE, "moe_layers has an entry that is no layer (0 .. %d)", mc->n_layers - 1);
        mc->sparse[layer] = true;
    }
    return ST_OK;
}

enum status config_step_read(struct model_config *mc, const cJSON *root)
{
    TRY(read_sparse(mc, root));
    int32_t n = model_n_sparse(mc), width = mc->ffn;
    if (n < mc->n_layers)
        TRY(json_need(root, "intermediate_size_mlp"));
    TRY(json_i32(root, "intermediate_size_mlp", 1, 1 << 24, &mc->ffn));
    if (n == 0)
        return ST_OK;
    mc->expert_ffn = mc->shared_ffn = width;
    mc->sigmoid_scores = true;
    return ST_OK;
}
