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

/* Bamba's attn_layer_indices. */
static enum status read_attention_list(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "attn_layer_indices"), *item;
    int32_t i = 0, rotated = mc->d_head / 2;
    memset(mc->delta, true, (size_t)mc->n_layers * sizeof *mc->delta);
    if (list && !cJSON_IsArray(list))
        FAIL(ST_FORMAT, "attn_layer_indices is no list");
    cJSON_ArrayForEach(item, list)
    {
        uint64_t layer;
        if (!json_is_u53(item, &layer) || layer >= (uint64_t)mc->n_layers)
            FAIL(ST_RANGE, "attn_layer_indices[%d] is no layer (0 .. %d)", i, mc->n_layers - 1);
        mc->delta[layer] = false;
        i++;
    }
    TRY(json_i32(root, "attn_rotary_emb", 1, 1 << 16, &rotated));
    if (rotated != mc->d_head / 2)
        FAIL(ST_UNSUPPORTED, "attn_rotary_emb %d: %s rotates half of a head of %d", rotated,
             mc->arch->name, mc->d_head);
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

/* The names of the sizes. */
static const struct mamba_names {
    const char *heads, *head, *groups, *state, *taps, *bias;
} usual = {"mamba_n_heads", "mamba_d_head", "mamba_n_groups",
           "mamba_d_state", "mamba_d_conv", "mamba_conv_bias"},
  nemotron = {"mamba_num_heads", "mamba_head_dim", "n_groups",
              "ssm_state_size",  "conv_kernel",    "use_conv_bias"};

/* The sizes that are said alike. */
static enum status read_sizes(struct model_config *mc, const cJSON *root,
                              const struct mamba_names *n)
{
    mc->n_delta_v = 128;
    mc->delta_taps = 4;
    mc->conv_bias = true;
    TRY(json_i32(root, n->heads, 1, DELTA_HEADS, &mc->n_delta_v));
    TRY(json_i32(root, n->groups, 1, DELTA_HEADS, &mc->n_delta_k));
    TRY(json_i32(root, n->state, 1, DELTA_HEAD, &mc->d_delta_k));
    TRY(json_i32(root, n->taps, 2, DELTA_TAPS, &mc->delta_taps));
    TRY(json_bool(root, n->bias, &mc->conv_bias));
    if (mc->n_delta_v % mc->n_delta_k)
        FAIL(ST_RANGE, "%s %d cannot share %s %d groups evenly", n->heads, mc->n_delta_v, n->groups,
             mc->n_delta_k);
    return ST_OK;
}

/* Nemotron-H's.  Its class takes the least step from time_step_min, which stands for time_step_limit's first number. */
static enum status read_nemotron(struct model_config *mc, const cJSON *root)
{
    const char *act = "silu";
    mc->n_delta_k = 8;
    mc->d_delta_k = 128;
    mc->d_delta_v = 64;
    mc->state_norm = true;
    TRY(read_sizes(mc, root, &nemotron));
    TRY(json_i32(root, nemotron.head, 1, DELTA_HEAD, &mc->d_delta_v));
    TRY(json_string(root, "mamba_hidden_act", &act));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        FAIL(ST_UNSUPPORTED, "mamba_hidden_act \"%.40s\" is not supported (silu is)", act);
    TRY(read_limit(mc, root));
    if (mc->dt_min != 0 || !isinf(mc->dt_max))
        FAIL(ST_UNSUPPORTED,
             "time_step_limit [%g, %g]: in %s only [0, Infinity] is supported, its least step is "
             "time_step_min",
             mc->dt_min, mc->dt_max, mc->arch->name);
    mc->dt_min = 0.001;
    return json_double(root, "time_step_min", 0, 1e6, &mc->dt_min);
}

/* Falcon-H1 says the channels; null: they follow as Granite's. */
static enum status read_inner(struct model_config *mc, const cJSON *root, int64_t *inner)
{
    int32_t n = 1024;
    mc->state_norm = true;
    if (!mc->arch->beside)
        return ST_OK;
    mc->state_norm = false;
    mc->norm_first = true;
    TRY(json_bool(root, "mamba_rms_norm", &mc->state_norm));
    TRY(json_bool(root, "mamba_norm_before_gate", &mc->norm_first));
    TRY(json_i32(root, "mamba_d_ssm", 1, DELTA_HEADS * DELTA_HEAD, &n));
    if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "mamba_d_ssm")))
        *inner = n;
    return ST_OK;
}

/* Defaults are those of the transformers classes; mamba_d_head "auto" follows from the others. */
static enum status read_heads(struct model_config *mc, const cJSON *root)
{
    const cJSON *head = json_member(root, usual.head);
    int32_t expand = 2;
    int64_t inner;
    mc->n_delta_k = 1;
    mc->d_delta_k = 256;
    TRY(read_sizes(mc, root, &usual));
    TRY(json_i32(root, "mamba_expand", 1, 1 << 10, &expand));
    inner = (int64_t)expand * mc->hidden;
    TRY(read_inner(mc, root, &inner));
    if (inner % mc->n_delta_v || inner / mc->n_delta_v > DELTA_HEAD)
        FAIL(ST_RANGE, "%lld channels (%s) are no %d heads of up to %d", (long long)inner,
             mc->arch->beside ? "mamba_d_ssm" : "mamba_expand * hidden_size", mc->n_delta_v,
             DELTA_HEAD);
    mc->d_delta_v = (int32_t)(inner / mc->n_delta_v);
    int32_t said = mc->d_delta_v;
    if (!cJSON_IsString(head) || strcmp(head->valuestring, "auto") != 0)
        TRY(json_i32(root, usual.head, 1, DELTA_HEAD, &said));
    if (said != mc->d_delta_v)
        FAIL(ST_RANGE, "mamba_d_head is %d: %d heads of it are not the %lld channels", said,
             mc->n_delta_v, (long long)inner);
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

/* n factors; absent or null: 1. */
static enum status read_list(const cJSON *root, const char *key, int n, double *const *to)
{
    const cJSON *list = json_member(root, key), *item;
    int i = 0;
    if (!list)
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        FAIL(ST_FORMAT, "%s must be a list of %d numbers", key, n);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) <= 1e6))
            FAIL(ST_RANGE, "%s[%d] is no number of up to 1e6", key, i);
        *to[i++] = item->valuedouble;
    }
    return ST_OK;
}

/* Falcon-H1's.  Factors on a matrix's input go to what it gives. */
static enum status read_factors(struct model_config *mc, const cJSON *root)
{
    struct layer_factors *f = &mc->factors;
    double *const mlp[] = {&f->gate, &f->down}, *const ssm[] = {&f->z, &f->x, &f->b, &f->c, &f->dt};
    double in = 1;
    TRY(json_need(root, "num_key_value_heads"));
    TRY(json_double(root, "embedding_multiplier", 1e-6, 1e6, &mc->embed_scale));
    TRY(json_double(root, "lm_head_multiplier", 1e-6, 1e6, &mc->logit_scale));
    TRY(json_double(root, "attention_in_multiplier", 1e-6, 1e6, &f->qv));
    TRY(json_double(root, "key_multiplier", 1e-6, 1e6, &f->k));
    TRY(json_double(root, "attention_out_multiplier", 1e-6, 1e6, &f->o));
    TRY(json_double(root, "ssm_in_multiplier", 1e-6, 1e6, &in));
    TRY(json_double(root, "ssm_out_multiplier", 1e-6, 1e6, &f->ssm));
    TRY(read_list(root, "mlp_multipliers", ARRAY_LEN(mlp), mlp));
    TRY(read_list(root, "ssm_multipliers", ARRAY_LEN(ssm), ssm));
    f->k *= f->qv;
    for (size_t i = 0; i < ARRAY_LEN(ssm); i++)
        *ssm[i] *= in;
    return ST_OK;
}

enum status config_mamba_read(struct model_config *mc, const cJSON *root)
{
    if (mc->act != MODEL_SILU && !mc->arch->one_part)
        FAIL(ST_UNSUPPORTED, "hidden_act: %s is supported with silu alone", mc->arch->name);
    if (mc->arch->beside) {
        memset(mc->delta, true, (size_t)mc->n_layers * sizeof *mc->delta);
        TRY(read_factors(mc, root));
    } else if (mc->arch->partial_layers) {
        TRY(read_attention_list(mc, root));
    } else if (mc->arch->one_part) { /* config_blocks_read has read them */
        TRY(config_blocks_check(mc, root));
    } else {
        TRY(read_layers(mc, root));
    }
    if (model_n_delta(mc))
        TRY(mc->arch->one_part ? read_nemotron(mc, root) : read_heads(mc, root));
    if (mc->arch->position_type)
        TRY(read_positions(mc, root));
    return config_delta_check(mc);
}
