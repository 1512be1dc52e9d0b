/* config.json of ModernBERT (Warner et al. 2024, arXiv 2412.13663): layers with a window on both sides between global
 * ones, RoPE with a base for each kind.  A key that is neither read nor known to change nothing is refused.  Called by
 * config_encoder.c. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

static enum status read_sizes(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"hidden_size",       "intermediate_size",
                                         "num_hidden_layers", "num_attention_heads",
                                         "vocab_size",        "max_position_embeddings"};
    const int32_t big = 1 << 24;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    TRY(json_i32(root, "hidden_size", 1, big, &mc->hidden));
    TRY(json_i32(root, "intermediate_size", 1, big, &mc->ffn));
    TRY(json_i32(root, "num_hidden_layers", 1, MAX_LAYERS, &mc->n_layers));
    TRY(json_i32(root, "vocab_size", 1, big, &mc->vocab));
    TRY(json_i32(root, "num_attention_heads", 1, 1 << 16, &mc->n_q));
    TRY(json_i32(root, "max_position_embeddings", 1, 1 << 20, &mc->max_ctx));
    if (mc->hidden % mc->n_q)
        FAIL(ST_RANGE, "hidden_size %d is no multiple of num_attention_heads %d", mc->hidden,
             mc->n_q);
    mc->n_kv = mc->n_q;
    mc->d_head = mc->hidden / mc->n_q;
    return ST_OK;
}

/* Which layers have the window; half of it is on either side. */
static enum status read_layers(struct model_config *mc, const cJSON *root)
{
    const cJSON *types = json_member(root, "layer_types"), *t;
    int32_t every = 3, window = 128, i = 0;
    TRY(json_i32(root, "global_attn_every_n_layers", 1, MAX_LAYERS, &every));
    TRY(json_i32(root, "local_attention", 2, 1 << 20, &window));
    mc->window = window / 2 + 1;
    for (int32_t k = 0; k < mc->n_layers; k++)
        mc->windowed[k] = k % every != 0;
    if (!types)
        return ST_OK;
    if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != mc->n_layers)
        FAIL(ST_FORMAT, "layer_types must be a list of num_hidden_layers (%d) names", mc->n_layers);
    cJSON_ArrayForEach(t, types)
    {
        const char *name = cJSON_IsString(t) ? t->valuestring : "?";
        mc->windowed[i] = strcmp(name, "sliding_attention") == 0;
        if (!mc->windowed[i++] && strcmp(name, "full_attention") != 0)
            FAIL(ST_UNSUPPORTED,
                 "layer_types[%d] is \"%.60s\": only full_attention and sliding_attention are "
                 "supported",
                 i - 1, name);
    }
    return ST_OK;
}

static enum status read_head(struct model_config *mc, const cJSON *root)
{
    const char *pooling = "cls", *act = "gelu";
    TRY(json_string(root, "classifier_pooling", &pooling));
    TRY(json_string(root, "classifier_activation", &act));
    TRY(json_bool(root, "classifier_bias", &mc->head_bias));
    mc->head_mean = strcmp(pooling, "mean") == 0;
    if (mc->classifier && !mc->head_mean && strcmp(pooling, "cls") != 0)
        FAIL(ST_UNSUPPORTED, "classifier_pooling \"%.40s\" is not supported (cls and mean are)",
             pooling);
    if (mc->classifier && strcmp(act, "gelu") != 0)
        FAIL(ST_UNSUPPORTED, "classifier_activation \"%.40s\" is not supported (gelu is)", act);
    return config_labels_read(mc, root);
}

enum status config_modernbert_read(struct model_config *mc, const cJSON *root)
{
    TRY(read_sizes(mc, root));
    TRY(read_layers(mc, root));
    TRY(json_double(root, "norm_eps", 0, 1, &mc->eps));
    TRY(json_bool(root, "attention_bias", &mc->qkv_bias));
    TRY(json_bool(root, "mlp_bias", &mc->mlp_bias));
    mc->o_bias = mc->qkv_bias;
    TRY(json_double(root, "global_rope_theta", 1.01, 1e12, &mc->rope.theta));
    TRY(json_double(root, "local_rope_theta", 1.01, 1e12, &mc->local_rope.theta));
    TRY(config_rope_read(mc, root));
    mc->max_ctx++; /* see max_ctx */
    return read_head(mc, root);
}
