/* The keys of config.json that tell of a mixture of experts. */
#include <cjson/cJSON.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* Repositories say num_experts or num_local_experts; both mean the same. */
static enum status read_count(struct model_config *mc, const cJSON *root)
{
    int32_t local = 0;
    TRY(json_i32(root, "num_experts", 1, 1 << 16, &mc->n_experts));
    TRY(json_i32(root, "num_local_experts", 1, 1 << 16, &local));
    if (mc->n_experts && local && mc->n_experts != local)
        FAIL(ST_FORMAT, "num_experts is %d, num_local_experts %d", mc->n_experts, local);
    mc->n_experts = mc->n_experts ? mc->n_experts : local;
    if (!mc->n_experts)
        FAIL(ST_FORMAT, "%s is missing",
             mc->arch->experts == EXPERTS_MIXTRAL ? "num_local_experts" : "num_experts");
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

enum status config_experts_read(struct model_config *mc, const cJSON *root)
{
    if (mc->arch->experts == EXPERTS_NONE)
        return ST_OK;
    TRY(read_count(mc, root));
    mc->renormalise = mc->arch->experts == EXPERTS_MIXTRAL;
    mc->expert_ffn = mc->ffn;
    if (mc->arch->experts == EXPERTS_MIXTRAL) {
        for (int32_t i = 0; i < mc->n_layers; i++)
            mc->sparse[i] = true;
        return ST_OK;
    }
    TRY(json_need(root, "moe_intermediate_size"));
    TRY(json_i32(root, "moe_intermediate_size", 1, 1 << 24, &mc->expert_ffn));
    TRY(json_bool(root, "norm_topk_prob", &mc->renormalise));
    return read_layers(mc, root);
}
