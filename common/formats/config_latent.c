/* The keys of config.json that tell of latent attention (DeepSeek-V2, arXiv 2405.04434).  Called by
 * model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

enum { MAX_RANK = 1 << 16, MAX_HEAD = 1 << 14 };

/* transformers overwrites head_dim and qk_head_dim, so that they say nothing. */
enum status config_latent_read(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                                         "v_head_dim"};
    size_t n_needed = ARRAY_LEN(needed) - mc->arch->derived_value;
    if (mc->n_kv != mc->n_q)
        FAIL(ST_UNSUPPORTED,
             "num_key_value_heads %d is not num_attention_heads %d: latent attention has one "
             "latent for all heads",
             mc->n_kv, mc->n_q);
    for (size_t i = 0; i < n_needed; i++)
        TRY(json_need(root, needed[i]));
    /* null says that there is none; a file without the key means transformers' default */
    if (!cJSON_HasObjectItem(root, "q_lora_rank"))
        FAIL(ST_FORMAT, "q_lora_rank is missing");
    TRY(json_i32(root, "kv_lora_rank", 1, MAX_RANK, &mc->kv_rank));
    TRY(json_i32(root, "q_lora_rank", 1, MAX_RANK, &mc->q_rank));
    TRY(json_i32(root, "qk_nope_head_dim", 1, MAX_HEAD, &mc->d_nope));
    TRY(json_i32(root, "qk_rope_head_dim", 2, MAX_HEAD, &mc->d_rope));
    if (!json_member(root, "v_head_dim") && mc->hidden % mc->n_q)
        FAIL(ST_RANGE,
             "hidden_size %d is no multiple of num_attention_heads %d, and there is no v_head_dim",
             mc->hidden, mc->n_q);
    mc->d_value = mc->hidden / mc->n_q;
    TRY(json_i32(root, "v_head_dim", 1, MAX_HEAD, &mc->d_value));
    config_latent_sizes(mc);
    return ST_OK;
}

void config_latent_sizes(struct model_config *mc)
{
    mc->n_kv = 1;
    mc->d_head = mc->kv_rank + mc->d_rope;
}

void config_latent_attn_scale(struct model_config *mc, double mscale_all)
{
    double m = mc->rope.type != ROPE_PLAIN && mscale_all > 0
                   ? rope_yarn_mscale(mc->rope.factor, mscale_all)
                   : 1;
    mc->attn_scale = m * m / sqrt(mc->d_nope + mc->d_rope);
}

enum status config_latent_scale(struct model_config *mc, const cJSON *root)
{
    const cJSON *obj = json_member(root, "rope_scaling");
    double mscale_all = 0;
    obj = obj ? obj : json_member(root, "rope_parameters");
    if (obj)
        TRY(json_double(obj, "mscale_all_dim", 0, 1e3, &mscale_all));
    config_latent_attn_scale(mc, mscale_all);
    if (mc->arch->route_bias)
        return json_bool(root, "rope_interleave", &mc->rope.interleaved);
    bool pairs = mc->arch->interleaved; /* these classes have one form */
    TRY(json_bool(root, "rope_interleave", &pairs));
    if (pairs != mc->arch->interleaved)
        FAIL(ST_UNSUPPORTED, "rope_interleave %s is not supported for %s", pairs ? "true" : "false",
             mc->arch->name);
    return ST_OK;
}
