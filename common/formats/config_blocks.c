/* The keys of config.json that tell what each layer of Nemotron-H is.  Called by model_config.c and config_mamba.c. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

enum block { BLOCK_MAMBA, BLOCK_ATTENTION, BLOCK_FFN, BLOCK_EXPERTS, BLOCK_N };

static void set_block(struct model_config *mc, int32_t layer, enum block b)
{
    mc->delta[layer] = b == BLOCK_MAMBA;
    mc->sparse[layer] = b == BLOCK_EXPERTS;
    mc->feeds[layer] = b == BLOCK_FFN || b == BLOCK_EXPERTS;
    mc->nope[layer] = true;
}

/* "M-M*E": a letter for each layer. */
static enum status read_pattern(struct model_config *mc, const char *pattern)
{
    static const char letters[] = "M*-E"; /* in the order of enum block */
    size_t n = strlen(pattern);
    if (n == 0 || n > MAX_LAYERS)
        FAIL(ST_RANGE, "hybrid_override_pattern has %zu letters, not 1 to %d", n, MAX_LAYERS);
    for (size_t i = 0; i < n; i++) {
        const char *at = strchr(letters, pattern[i]);
        if (!at)
            FAIL(ST_UNSUPPORTED, "hybrid_override_pattern: letter %zu is none of \"%s\"", i,
                 letters);
        set_block(mc, (int32_t)i, (enum block)(at - letters));
    }
    mc->n_layers = (int32_t)n;
    return ST_OK;
}

/* A name for each layer, of transformers 5 or of the files before. */
static enum status read_names(struct model_config *mc, const cJSON *list, const char *key)
{
    static const char *const names[BLOCK_N][2] = {
        [BLOCK_MAMBA] = {"linear_attention", "mamba"},
        [BLOCK_ATTENTION] = {"full_attention", "attention"},
        [BLOCK_FFN] = {"mlp", "mlp"},
        [BLOCK_EXPERTS] = {"moe", "moe"}};
    const cJSON *item;
    int32_t i = 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1 ||
        cJSON_GetArraySize(list) > MAX_LAYERS)
        FAIL(ST_FORMAT, "%s must be a list of 1 to %d names", key, MAX_LAYERS);
    cJSON_ArrayForEach(item, list)
    {
        const char *name = cJSON_IsString(item) ? item->valuestring : "?";
        int b = 0;
        while (b < BLOCK_N && strcmp(name, names[b][0]) != 0 && strcmp(name, names[b][1]) != 0)
            b++;
        if (b == BLOCK_N)
            FAIL(ST_UNSUPPORTED,
                 "%s[%d] is \"%.60s\": linear_attention, full_attention, mlp and moe are supported",
                 key, i, name);
        set_block(mc, i++, (enum block)b);
    }
    mc->n_layers = i;
    return ST_OK;
}

/* Where several keys are there, the list rules, as in transformers; num_hidden_layers must agree. */
enum status config_blocks_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "layers_block_type");
    const char *pattern = NULL, *key = "layers_block_type";
    if (!list) {
        list = json_member(root, "layer_types");
        key = "layer_types";
    }
    TRY(json_string(root, "hybrid_override_pattern", &pattern));
    if (!list && !pattern)
        FAIL(ST_FORMAT, "layers_block_type or hybrid_override_pattern is missing");
    TRY(list ? read_names(mc, list, key) : read_pattern(mc, pattern));
    int32_t said = mc->n_layers;
    TRY(json_i32(root, "num_hidden_layers", 1, MAX_LAYERS, &said));
    if (said != mc->n_layers)
        FAIL(ST_FORMAT, "num_hidden_layers is %d, but %s has %d layers", said,
             list ? key : "hybrid_override_pattern", mc->n_layers);
    return ST_OK;
}

enum status config_blocks_experts(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"moe_intermediate_size",
                                         "moe_shared_expert_intermediate_size"};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    mc->sigmoid_scores = true;
    mc->renormalise = true;
    TRY(json_i32(root, needed[0], 1, 1 << 24, &mc->expert_ffn));
    TRY(json_i32(root, needed[1], 1, 1 << 24, &mc->shared_ffn));
    TRY(json_bool(root, "norm_topk_prob", &mc->renormalise));
    TRY(json_i32(root, "n_group", 1, 1 << 10, &mc->n_groups));
    TRY(json_i32(root, "topk_group", 1, 1 << 10, &mc->top_groups));
    return json_double(root, "routed_scaling_factor", 1e-6, 1e6, &mc->route_scale);
}

/* transformers reads the first of these pairs alone, other programs either. */
enum status config_blocks_check(const struct model_config *mc, const cJSON *root)
{
    static const char *const others[] = {"rms_norm_eps", "norm_eps"};
    int32_t head = mc->d_head;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        double eps = mc->eps;
        TRY(json_double(root, others[i], 0, 1, &eps));
        if (eps != mc->eps)
            FAIL(ST_FORMAT, "layer_norm_epsilon is %g, %s is %g", mc->eps, others[i], eps);
    }
    TRY(json_i32(root, "attention_head_dim", 1, 1 << 16, &head));
    if (head != mc->d_head)
        FAIL(ST_FORMAT, "head_dim is %d, attention_head_dim is %d", mc->d_head, head);
    return ST_OK;
}
