/* The keys of config.json that tell of a mixture of experts. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* Repositories say num_experts or num_local_experts; both mean the same. */
static enum status read_count(struct model_config *mc, const cJSON *root)
{
    int32_t local = 0;
    TRY(json_i32(root, "num_experts", 1, 1 << 16, &mc->n_experts));
    TRY(json_i32(root, "num_local_experts", 1, 1 << 16, &local));
    bool routed = mc->arch->experts == EXPERTS_GROUPS || mc->arch->experts == EXPERTS_METHOD ||
                  mc->arch->experts == EXPERTS_BLOCKS;
    if (routed)
        TRY(json_i32(root, "n_routed_experts", 1, 1 << 16, &mc->n_experts));
    if (mc->n_experts && local && mc->n_experts != local)
        FAIL(ST_FORMAT, "num_experts is %d, num_local_experts %d", mc->n_experts, local);
    mc->n_experts = mc->n_experts ? mc->n_experts : local;
    if (!mc->n_experts)
        FAIL(ST_FORMAT, "%s is missing",
             mc->arch->experts == EXPERTS_MIXTRAL || mc->arch->experts == EXPERTS_STEP
                 ? "num_local_experts"
             : routed ? "n_routed_experts"
                      : "num_experts");
    TRY(json_need(root, "num_experts_per_tok"));
    return json_i32(root, "num_experts_per_tok", 1, mc->n_experts, &mc->top_k);
}

/* Every sparse_step-th layer has experts, but for those of mlp_only_layers. */
static enum status read_layers(struct model_config *mc, const cJSON *root)
{
    const cJSON *dense = json_member(root, "mlp_only_layers"), *item;
    int32_t step = 1;
    TRY(json_i32(root, "decoder_sparse_step", 1, 1 << 20, &step));
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->sparse[i] = (i + 1) % step == 0;
    if (!dense)
        return ST_OK;
    if (!cJSON_IsArray(dense))
        FAIL(ST_FORMAT, "mlp_only_layers is no list");
    cJSON_ArrayForEach(item, dense)
    {
        uint64_t layer;
        if (!json_is_u53(item, &layer) || layer >= (uint64_t)mc->n_layers)
            FAIL(ST_RANGE, "mlp_only_layers has an entry that is no layer (0 .. %d)",
                 mc->n_layers - 1);
        mc->sparse[layer] = false;
    }
    return ST_OK;
}

/* The expert that every token takes. */
static enum status read_shared(struct model_config *mc, const cJSON *root)
{
    int32_t n = 1;
    if (mc->arch->shared_option) {
        TRY(json_need(root, "shared_expert_intermediate_size"));
        return json_i32(root, "shared_expert_intermediate_size", 1, 1 << 24, &mc->shared_ffn);
    }
    if (mc->arch->experts != EXPERTS_GROUPS && mc->arch->experts != EXPERTS_METHOD)
        return ST_OK;
    if (mc->arch->says_groups)
        TRY(json_need(root, "n_shared_experts"));
    TRY(json_i32(root, "n_shared_experts", 0, 1 << 10, &n));
    if ((int64_t)n * mc->expert_ffn > 1 << 24)
        FAIL(ST_RANGE, "n_shared_experts %d of %d columns are too many", n, mc->expert_ffn);
    mc->shared_ffn = n * mc->expert_ffn;
    return ST_OK;
}

/* The defaults are those of GLM's class; the files of others must say the values. */
static enum status need_groups(const struct model_config *mc, const cJSON *root)
{
    TRY(json_need(root, "first_k_dense_replace"));
    TRY(json_need(root, "routed_scaling_factor"));
    if (mc->arch->experts == EXPERTS_METHOD)
        return ST_OK;
    if (!mc->arch->latent) /* DeepSeek-V3's class and GLM's agree on it */
        TRY(json_need(root, "norm_topk_prob"));
    TRY(json_need(root, "n_group"));
    return json_need(root, "topk_group");
}

/* DeepSeek-V2: whether experts are chosen in groups; their weights are never renormalised. */
static enum status read_method(struct model_config *mc, const cJSON *root)
{
    const char *method = "greedy";
    mc->renormalise = false;
    TRY(json_string(root, "topk_method", &method));
    if (strcmp(method, "group_limited_greedy") == 0) {
        TRY(json_need(root, "n_group"));
        return json_need(root, "topk_group");
    }
    if (strcmp(method, "greedy") != 0)
        FAIL(ST_UNSUPPORTED,
             "topk_method \"%.40s\" is not supported for %s (greedy and group_limited_greedy are)",
             method, mc->arch->name);
    mc->n_groups = mc->top_groups = 1;
    return ST_OK;
}

/* The layers with experts by name; first_k_dense_replace, where both are there, must agree. */
static enum status read_layer_list(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "mlp_layer_types"), *item;
    int32_t dense = -1, i = 0;
    TRY(json_i32(root, "first_k_dense_replace", 0, MAX_LAYERS, &dense));
    if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != mc->n_layers))
        FAIL(ST_FORMAT, "mlp_layer_types must be a list of num_hidden_layers (%d) names",
             mc->n_layers);
    for (i = 0; i < mc->n_layers; i++)
        mc->sparse[i] = i > 0;
    i = 0;
    if (list)
        cJSON_ArrayForEach(item, list)
        {
            const char *name = cJSON_IsString(item) ? item->valuestring : "?";
            if (strcmp(name, "dense") != 0 && strcmp(name, "sparse") != 0)
                FAIL(ST_UNSUPPORTED,
                     "mlp_layer_types[%d] is \"%.60s\": only dense and sparse are supported", i,
                     name);
            mc->sparse[i++] = strcmp(name, "sparse") == 0;
        }
    for (i = 0; dense >= 0 && i < mc->n_layers; i++)
        if (mc->sparse[i] != (i >= dense))
            FAIL(ST_UNSUPPORTED,
                 "first_k_dense_replace %d does not agree with the layers of %s, where layer %d is "
                 "%s",
                 dense, list ? "mlp_layer_types" : mc->arch->name, i,
                 mc->sparse[i] ? "sparse" : "dense");
    return ST_OK;
}

/* The layers behind the first dense ones have experts, which are chosen in groups. */
static enum status read_groups(struct model_config *mc, const cJSON *root)
{
    int32_t dense = 1;
    if (mc->arch->says_groups)
        TRY(need_groups(mc, root));
    if (mc->arch->layer_list)
        TRY(json_need(root, "routed_scaling_factor"));
    mc->renormalise = true;
    mc->sigmoid_scores = mc->arch->route_bias;
    TRY(json_bool(root, "norm_topk_prob", &mc->renormalise));
    TRY(json_i32(root, "n_group", 1, 1 << 10, &mc->n_groups));
    TRY(json_i32(root, "topk_group", 1, 1 << 10, &mc->top_groups));
    TRY(json_double(root, "routed_scaling_factor", 1e-6, 1e6, &mc->route_scale));
    TRY(json_i32(root, "first_k_dense_replace", 0, MAX_LAYERS, &dense));
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->sparse[i] = i >= dense;
    if (mc->arch->layer_list)
        return read_layer_list(mc, root);
    return mc->arch->experts == EXPERTS_METHOD ? read_method(mc, root) : ST_OK;
}

/* Experts with biases, whose gate and up are limited; MXFP4: blocks of 32 weights. */
static enum status read_limited(struct model_config *mc, const cJSON *root)
{
    enum { BLOCK = 32 };
    mc->glu_limit = 7;
    mc->glu_alpha = 1.702;
    TRY(json_double(root, "swiglu_limit", 1e-3, 1e6, &mc->glu_limit));
    TRY(json_double(root, "swiglu_alpha", 1e-3, 1e3, &mc->glu_alpha));
    const cJSON *quant = json_member(root, "quantization_config");
    mc->mxfp4 = quant && !config_quant_known(quant);
    if (!mc->mxfp4)
        return ST_OK;
    if (mc->hidden % BLOCK || mc->expert_ffn % BLOCK)
        FAIL(ST_RANGE, "mxfp4: hidden_size %d and intermediate_size %d must be multiples of %d",
             mc->hidden, mc->expert_ffn, BLOCK);
    mc->expert_unit = BLOCK;
    return ST_OK;
}

/* Gemma 4: in every layer, or in none. */
static enum status read_beside(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"num_experts", "top_k_experts", "moe_intermediate_size"};
    bool enabled = false;
    TRY(json_bool(root, "enable_moe_block", &enabled));
    if (!enabled)
        return ST_OK;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    TRY(json_i32(root, "num_experts", 1, 1 << 16, &mc->n_experts));
    TRY(json_i32(root, "top_k_experts", 1, mc->n_experts, &mc->top_k));
    TRY(json_i32(root, "moe_intermediate_size", 1, 1 << 24, &mc->expert_ffn));
    mc->renormalise = true;
    memset(mc->sparse, true, (size_t)mc->n_layers * sizeof *mc->sparse);
    return ST_OK;
}

/* num_local_experts 0: the shared expert is the feed-forward. */
static enum status read_option(struct model_config *mc, const cJSON *root)
{
    int32_t n = 0, width = 0;
    TRY(json_need(root, "num_local_experts"));
    TRY(json_need(root, "shared_intermediate_size"));
    TRY(json_i32(root, "num_local_experts", 0, 1 << 16, &n));
    TRY(json_i32(root, "shared_intermediate_size", 1, 1 << 24, &width));
    if (n == 0) {
        mc->ffn = width;
        return ST_OK;
    }
    TRY(json_need(root, "intermediate_size"));
    mc->shared_ffn = width;
    mc->expert_ffn = mc->ffn;
    mc->renormalise = true;
    memset(mc->sparse, true, (size_t)mc->n_layers * sizeof *mc->sparse);
    return read_count(mc, root);
}

enum status config_experts_read(struct model_config *mc, const cJSON *root)
{
    if (mc->arch->experts == EXPERTS_NONE)
        return ST_OK;
    if (mc->arch->experts == EXPERTS_BESIDE)
        return read_beside(mc, root);
    if (mc->arch->experts == EXPERTS_OPTION)
        return read_option(mc, root);
    if (mc->arch->experts == EXPERTS_STEP)
        TRY(config_step_read(mc, root));
    bool some = mc->arch->experts == EXPERTS_BLOCKS || mc->arch->experts == EXPERTS_STEP;
    if (some && !model_n_sparse(mc))
        return ST_OK;
    TRY(read_count(mc, root));
    if (mc->arch->experts == EXPERTS_STEP)
        return ST_OK;
    if (mc->arch->experts == EXPERTS_BLOCKS)
        return config_blocks_experts(mc, root);
    mc->renormalise = mc->arch->experts == EXPERTS_MIXTRAL || mc->arch->experts == EXPERTS_SHARED ||
                      mc->arch->delta;
    mc->expert_ffn = mc->ffn;
    if (mc->arch->experts == EXPERTS_MIXTRAL || mc->arch->experts == EXPERTS_OLMO) {
        for (int32_t i = 0; i < mc->n_layers; i++)
            mc->sparse[i] = true;
        mc->sigmoid_scores = mc->arch->route_bias;
        if (mc->arch->expert_bias)
            return read_limited(mc, root);
        return json_bool(root, "norm_topk_prob", &mc->renormalise);
    }
    TRY(json_need(root, "moe_intermediate_size"));
    TRY(json_i32(root, "moe_intermediate_size", 1, 1 << 24, &mc->expert_ffn));
    TRY(read_shared(mc, root));
    if (mc->arch->experts == EXPERTS_GROUPS || mc->arch->experts == EXPERTS_METHOD)
        return read_groups(mc, root);
    if (mc->arch->experts == EXPERTS_SHARED) {
        memset(mc->sparse, true, (size_t)mc->n_layers * sizeof *mc->sparse);
        return ST_OK;
    }
    TRY(json_bool(root, "norm_topk_prob", &mc->renormalise));
    return read_layers(mc, root);
}
