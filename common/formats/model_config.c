#include "common/formats/model_config.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

void model_config_init(struct model_config *mc)
{
    memset(mc, 0, sizeof *mc);
    mc->eps = 1e-6;
    mc->ffn_unit = mc->expert_unit = mc->shared_unit = 1;
    mc->n_groups = mc->top_groups = 1;
    mc->route_scale = 1;
    mc->dtype = DT_N;
    mc->bos_id = mc->pad_id = -1;
    for (int32_t i = 0; i < MAX_LAYERS; i++)
        mc->gate_cut[i] = -INFINITY;
    mc->embed_scale = mc->residual_scale = mc->logit_scale = 1;
    mc->factors = (struct layer_factors){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    mc->rope = mc->local_rope = (struct rope_config){.theta = 10000,
                                                     .factor = 1,
                                                     .attention_factor = 1,
                                                     .beta_fast = 32,
                                                     .beta_slow = 1,
                                                     .truncate = true};
}

/* Without "architectures" the model_type says it. */
static enum status find_arch(struct model_config *mc, const cJSON *root, const char *type)
{
    const cJSON *list = json_member(root, "architectures");
    char names[ARCH_NAMES_SIZE];
    if (!list && type)
        mc->arch = arch_of_type(type);
    if (!list && mc->arch)
        return ST_OK;
    if (!list && type)
        FAIL(ST_UNSUPPORTED, "the model_type \"%.60s\" is not supported (%s are)", type,
             arch_names(names));
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 1 || !cJSON_IsString(list->child))
        FAIL(ST_FORMAT, "architectures must be a list of one name");
    mc->arch = arch_find(list->child->valuestring);
    const char *why = arch_refusal(list->child->valuestring);
    if (why)
        FAIL(ST_UNSUPPORTED, "the architecture %.100s is not supported: %s",
             list->child->valuestring, why);
    if (!mc->arch)
        FAIL(ST_UNSUPPORTED, "the architecture %.100s is not supported (%s are)",
             list->child->valuestring, arch_names(names));
    mc->classifier = arch_is_classifier(list->child->valuestring);
    return ST_OK;
}

static void use_defaults(struct model_config *mc)
{
    if (mc->arch->default_theta > 0)
        mc->rope.theta = mc->arch->default_theta;
    if (mc->arch->default_eps > 0)
        mc->eps = mc->arch->default_eps;
    if (mc->arch->default_local_theta > 0)
        mc->local_rope.theta = mc->arch->default_local_theta;
    mc->qk_norm = mc->arch->qk_norm;
    mc->parallel = mc->arch->parallel;
}

static enum status read_arch(struct model_config *mc, const cJSON *root)
{
    const char *type = NULL;
    TRY(json_string(root, "model_type", &type));
    TRY(find_arch(mc, root, type));
    bool other = type && mc->arch->other_type && strcmp(type, mc->arch->other_type) == 0;
    if (type && !other && strcmp(type, mc->arch->model_type) != 0)
        FAIL(ST_UNSUPPORTED, "model_type \"%.60s\" does not belong to %s (\"%s\" does)", type,
             mc->arch->name, mc->arch->model_type);
    use_defaults(mc);
    return ST_OK;
}

/* Of all norms. */
static enum status read_eps(struct model_config *mc, const cJSON *root)
{
    const char *name = config_eps_name(mc->arch);
    return name ? json_double(root, name, 0, 1, &mc->eps) : ST_OK;
}

/* The layers behind the last one, by either of their names. */
static enum status read_extra_layers(struct model_config *mc, const cJSON *root)
{
    TRY(json_i32(root, "num_mtp_layers", 0, MAX_LAYERS, &mc->n_mtp));
    return json_i32(root, "num_nextn_predict_layers", 0, MAX_LAYERS, &mc->n_mtp);
}

/* The width of the feed-forward block. */
static enum status read_ffn(struct model_config *mc, const cJSON *root)
{
    const struct config_names *names = config_names_of(mc->arch);
    const int32_t big = 1 << 24;
    if (names->ffn_default && mc->hidden <= big / names->ffn_default)
        mc->ffn = names->ffn_default * mc->hidden;
    else if (mc->arch->experts != EXPERTS_SHARED && mc->arch->experts != EXPERTS_OPTION)
        TRY(json_need(root, names->ffn));
    return mc->arch->streams ? ST_OK /* see config_streams_read */
                             : json_i32(root, names->ffn, 1, big, &mc->ffn);
}

/* A learned vector for each position, where the class has them. */
static enum status read_positions(struct model_config *mc, const cJSON *root)
{
    const struct config_names *names = config_names_of(mc->arch);
    bool learned = mc->arch->tensor[TN_POSITIONS].name != NULL;
    TRY(json_i32(root, names->positions, 1, learned ? 1 << 20 : 1 << 30, &mc->max_ctx));
    if (!learned)
        return ST_OK;
    mc->first_position = mc->arch->first_position;
    mc->n_positions = mc->max_ctx + mc->first_position;
    return ST_OK;
}

/* The size of the embedding's rows, where a class can have another one than hidden. */
static enum status check_embed_size(const struct model_config *mc, const cJSON *root)
{
    const struct config_names *names = config_names_of(mc->arch);
    int32_t embed = mc->hidden;
    if (names->embed)
        TRY(json_i32(root, names->embed, 1, 1 << 24, &embed));
    if (embed != mc->hidden)
        FAIL(ST_UNSUPPORTED, "%s %d beside %s %d is not supported", names->embed, embed,
             names->hidden, mc->hidden);
    return ST_OK;
}

/* Nemotron-H's list of layers says their number. */
static enum status read_n_layers(struct model_config *mc, const cJSON *root)
{
    const char *name = config_names_of(mc->arch)->layers;
    if (mc->arch->one_part)
        return config_blocks_read(mc, root);
    TRY(json_need(root, name));
    return json_i32(root, name, 1, MAX_LAYERS, &mc->n_layers);
}

static enum status read_sizes(struct model_config *mc, const cJSON *root)
{
    const struct config_names *names = config_names_of(mc->arch);
    const char *const needed[] = {names->hidden, names->heads, "vocab_size", names->positions};
    const int32_t big = 1 << 24;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    TRY(json_i32(root, names->hidden, 1, big, &mc->hidden));
    TRY(read_ffn(mc, root));
    TRY(read_n_layers(mc, root));
    TRY(json_i32(root, "vocab_size", 1, big, &mc->vocab));
    TRY(read_positions(mc, root));
    TRY(json_i32(root, names->heads, 1, 1 << 16, &mc->n_q));
    mc->n_kv = mc->n_q;
    TRY(json_i32(root, "num_key_value_heads", 1, 1 << 16, &mc->n_kv));
    TRY(check_embed_size(mc, root));
    mc->d_head = mc->arch->default_d_head ? mc->arch->default_d_head : mc->hidden / mc->n_q;
    if (mc->arch->extra_layers)
        TRY(read_extra_layers(mc, root));
    if (mc->arch->latent)
        return config_latent_read(mc, root);
    if (!json_member(root, "head_dim") && !mc->arch->default_d_head && mc->hidden % mc->n_q)
        FAIL(ST_RANGE, "%s %d is no multiple of %s %d%s", names->hidden, mc->hidden, names->heads,
             mc->n_q, mc->arch->names ? "" : ", and there is no head_dim");
    TRY(json_i32(root, "head_dim", 1, 1 << 16, &mc->d_head));
    if (mc->arch->qk_norm_option)
        TRY(json_bool(root, "use_qk_norm", &mc->qk_norm));
    return ST_OK;
}

/* Granite's. */
static enum status read_multipliers(struct model_config *mc, const cJSON *root)
{
    double divisor = 1;
    mc->attn_scale = 1;
    TRY(json_double(root, "embedding_multiplier", 1e-6, 1e6, &mc->embed_scale));
    TRY(json_double(root, "attention_multiplier", 1e-6, 1e6, &mc->attn_scale));
    TRY(json_double(root, "residual_multiplier", 1e-6, 1e6, &mc->residual_scale));
    TRY(json_double(root, "logits_scaling", 1e-6, 1e6, &divisor));
    mc->logit_scale = 1 / divisor;
    return ST_OK;
}

/* MiniCPM's.  Null is a factor of 1 for what the layers add, and for the logits. */
static enum status read_depth_scales(struct model_config *mc, const cJSON *root)
{
    static const char *const needed[] = {"scale_depth", "dim_model_base"};
    double depth = sqrt(mc->n_layers), base = mc->hidden;
    TRY(json_need(root, "scale_emb"));
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!cJSON_GetObjectItemCaseSensitive(root, needed[i]))
            FAIL(ST_FORMAT, "%s is missing", needed[i]);
    TRY(json_double(root, "scale_emb", 1e-6, 1e6, &mc->embed_scale));
    TRY(json_double(root, "scale_depth", 1e-6, 1e6, &depth));
    TRY(json_double(root, "dim_model_base", 1e-6, 1e9, &base));
    mc->residual_scale = depth / sqrt(mc->n_layers);
    mc->logit_scale = base / mc->hidden;
    return ST_OK;
}

/* Layers without RoPE.  A 1 in no_rope_layers says that the layer has it. */
static enum status read_nope(struct model_config *mc, const cJSON *root)
{
    const cJSON *list = json_member(root, "no_rope_layers"), *item;
    int32_t interval = 4, i = 0;
    bool none = cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "sliding_window"));
    for (i = 0; mc->arch->nope == NOPE_FULL && !none && i < mc->n_layers; i++)
        mc->nope[i] = !mc->windowed[i];
    for (i = 0; mc->arch->nope == NOPE_UNWINDOWED && i < mc->n_layers; i++)
        mc->nope[i] = !mc->windowed[i];
    i = 0;
    if (mc->arch->nope != NOPE_LISTED)
        return ST_OK;
    TRY(json_i32(root, "no_rope_layer_interval", 1, 1 << 20, &interval));
    for (int32_t k = 0; k < mc->n_layers; k++)
        mc->nope[k] = (k + 1) % interval == 0;
    bool empty = mc->arch->window == WINDOW_CHUNK && cJSON_IsArray(list) && !list->child;
    if (!list || empty) /* Llama 4's class takes an empty list for none */
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != mc->n_layers)
        FAIL(ST_FORMAT, "no_rope_layers must be a list of num_hidden_layers (%d) numbers",
             mc->n_layers);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item) || (item->valuedouble != 0 && item->valuedouble != 1))
            FAIL(ST_RANGE, "no_rope_layers[%d] is neither 0 nor 1", i);
        mc->nope[i++] = item->valuedouble == 0;
    }
    return ST_OK;
}

/* What the Gemmas, Granite and MiniCPM have between the usual parts. */
static enum status read_scales(struct model_config *mc, const cJSON *root)
{
    const struct arch *a = mc->arch;
    double scalar = 256; /* transformers' query_pre_attn_scalar */
    if (a->multipliers)
        return read_multipliers(mc, root);
    if (a->depth_scales)
        return read_depth_scales(mc, root);
    if (a->logit_factor) {
        mc->logit_scale = a->default_logit_scale;
        return json_double(root, "logit_scale", 1e-6, 1e6, &mc->logit_scale);
    }
    if (a->scale_embed)
        mc->embed_scale = sqrt(mc->hidden);
    if (a->unit_scores)
        mc->attn_scale = 1;
    if (!cJSON_HasObjectItem(root, "final_logit_softcapping"))
        mc->logit_cap = a->default_logit_cap;
    if (a->final_cap)
        return json_double(root, "final_logit_softcapping", 1e-3, 1e6, &mc->logit_cap);
    if (!a->soft_caps)
        return ST_OK;
    TRY(json_double(root, "query_pre_attn_scalar", 1e-3, 1e9, &scalar));
    mc->attn_scale = 1 / sqrt(scalar);
    if (!cJSON_HasObjectItem(root, "attn_logit_softcapping"))
        mc->attn_cap = a->default_attn_cap;
    if (a->default_attn_cap > 0) /* elsewhere transformers reads it without effect */
        TRY(json_double(root, "attn_logit_softcapping", 1e-3, 1e6, &mc->attn_cap));
    if (mc->wrapped) /* nor does the multi-modal class cap its logits */
        return ST_OK;
    return json_double(root, "final_logit_softcapping", 1e-3, 1e6, &mc->logit_cap);
}

static enum status read_act(struct model_config *mc, const cJSON *root)
{
    static const struct {
        const char *name;
        enum model_act act;
    } acts[] = {
        {"silu", MODEL_SILU},          {"swish", MODEL_SILU},
        {"gelu", MODEL_GELU},          {"gelu_pytorch_tanh", MODEL_GELU_TANH},
        {"gelu_new", MODEL_GELU_TANH}, {"gelu_fast", MODEL_GELU_TANH},
        {"relu", MODEL_RELU},          {"relu2", MODEL_RELU2},
    };
    const struct config_names *names = config_names_of(mc->arch);
    const char *name =
        mc->arch->scale_embed || mc->arch->tanh_gelu ? "gelu_pytorch_tanh" : names->act_default;
    bool gemma = mc->arch->soft_caps || mc->arch->final_cap;
    const char *key = gemma ? "hidden_activation" : names->act;
    TRY(json_string(root, key, &name));
    for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
        if (strcmp(acts[i].name, name) == 0) {
            mc->act = acts[i].act;
            if (mc->arch->scale_embed && mc->arch->tanh_gelu && mc->act == MODEL_GELU)
                mc->act = MODEL_GELU_TANH;
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED,
         "%s \"%.40s\" is not supported (silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, "
         "relu and relu2 are)",
         key, name);
}

static enum status read_biases(struct model_config *mc, const cJSON *root)
{
    bool attention = mc->arch->attention_bias;
    if (mc->arch->use_bias_option) {
        TRY(json_bool(root, "use_bias", &attention));
        mc->mlp_bias = attention;
    }
    if (mc->arch->bias_option)
        TRY(json_bool(root, "attention_bias", &attention));
    if (mc->arch->mlp_bias_option)
        TRY(json_bool(root, "mlp_bias", &mc->mlp_bias));
    mc->mlp_bias |= mc->arch->mlp_bias;
    mc->qkv_bias = attention || mc->arch->qkv_bias;
    mc->o_bias = attention && !mc->arch->o_without_bias;
    if (mc->arch->o_bias_option)
        TRY(json_bool(root, "attention_out_bias", &mc->o_bias));
    return ST_OK;
}

/* Which layers have the window, by the architecture's rule. */
static enum status read_window(struct model_config *mc, const cJSON *root)
{
    bool use = mc->arch->window == WINDOW_ALL || mc->arch->window == WINDOW_PATTERN;
    int32_t first = use ? 0 : 28; /* transformers' max_window_layers */
    int32_t window = mc->arch->default_window, pattern = 0;
    if (mc->arch->window == WINDOW_BY_LAYER || mc->arch->window == WINDOW_USE ||
        mc->arch->window == WINDOW_EVEN) {
        TRY(json_bool(root, "use_sliding_window", &use));
        TRY(json_i32(root, "max_window_layers", 0, 1 << 20, &first));
    }
    if (mc->arch->window == WINDOW_USE)
        first = 0;
    if (mc->arch->window != WINDOW_NONE)
        TRY(json_i32(root, "sliding_window", use, 1 << 30, &window)); /* 0 where it is not in use */
    if (window == 0 || cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "sliding_window")))
        use = false;
    if (mc->arch->window == WINDOW_PATTERN) {
        pattern = mc->arch->default_pattern;
        bool said = pattern && !mc->arch->global_heads && !mc->arch->streams;
        if (said)
            TRY(json_i32(root, "_sliding_window_pattern", use, 1 << 20, &pattern));
        /* a text such as "LLLG" stands beside layer_types, which are the same */
        if (said && (!cJSON_IsString(json_member(root, "sliding_window_pattern")) ||
                     !json_member(root, "layer_types")))
            TRY(json_i32(root, "sliding_window_pattern", use, 1 << 20, &pattern));
    }
    for (int32_t i = 0; use && i < mc->n_layers; i++)
        mc->windowed[i] = mc->arch->window == WINDOW_EVEN
                              ? i % 2 == 0 && i < first
                              : i >= first && (!pattern || (i + 1) % pattern != 0);

    const cJSON *types = json_member(root, "layer_types"), *t;
    if (types && (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != mc->n_layers))
        FAIL(ST_FORMAT, "layer_types must be a list of num_hidden_layers (%d) names", mc->n_layers);
    int32_t i = 0;
    if (types)
        cJSON_ArrayForEach(t, types)
        {
            const char *name = cJSON_IsString(t) ? t->valuestring : "?";
            bool slides = strcmp(name, "sliding_attention") == 0;
            if (!slides && strcmp(name, "full_attention") != 0)
                FAIL(ST_UNSUPPORTED,
                     "layer_types[%d] is \"%.60s\": only "
                     "full_attention and sliding_attention are supported",
                     i, name);
            if (slides && !use)
                FAIL(ST_FORMAT,
                     "layer_types[%d] is sliding_attention, but no sliding "
                     "window is in use",
                     i);
            if (mc->arch->window != WINDOW_BY_LAYER && mc->arch->window != WINDOW_PATTERN &&
                mc->arch->window != WINDOW_EVEN && slides != mc->windowed[i])
                FAIL(ST_UNSUPPORTED,
                     "layer_types[%d] is \"%s\", but all layers of %s "
                     "are alike",
                     i, name, mc->arch->name);
            mc->windowed[i++] = slides;
        }
    for (i = 0; i < mc->n_layers; i++)
        if (mc->windowed[i])
            mc->window = window;
    return ST_OK;
}

void config_stretch_context(struct model_config *mc)
{
    double reach = mc->rope.original_ctx * mc->rope.factor;
    if (mc->rope.type == ROPE_YARN && reach > mc->max_ctx)
        mc->max_ctx = reach < 1 << 30 ? (int32_t)reach : 1 << 30;
}

static enum status read_dtype(struct model_config *mc, const cJSON *root, const char *key)
{
    const char *name = NULL;
    TRY(json_string(root, key, &name));
    if (!name)
        return ST_OK;
    if (strncmp(name, "torch.", 6) == 0)
        name += 6;
    if (strcmp(name, "float32") == 0)
        mc->dtype = DT_F32;
    else if (strcmp(name, "float16") == 0)
        mc->dtype = DT_F16;
    else if (strcmp(name, "bfloat16") == 0)
        mc->dtype = DT_BF16;
    else
        FAIL(ST_UNSUPPORTED,
             "%s \"%.40s\" is not supported (float32, float16 and "
             "bfloat16 are)",
             key, name);
    return ST_OK;
}

/* An id that the vocabulary does not have is never sampled: it ends nothing. */
static enum status add_eos(struct model_config *mc, const cJSON *item)
{
    uint64_t id = UINT64_MAX;
    bool none = cJSON_IsNumber(item) && item->valuedouble == -1;
    if (!none && !json_is_u53(item, &id))
        FAIL(ST_RANGE, "an eos_token_id is no id of a token");
    if (id >= (uint64_t)mc->vocab)
        return ST_OK;
    if (mc->n_eos == MAX_STOP_IDS)
        FAIL(ST_RANGE, "more than %d eos_token_ids", MAX_STOP_IDS);
    mc->eos_id[mc->n_eos++] = (int32_t)id;
    return ST_OK;
}

/* An id or a list of ids; nothing when there is none. */
static enum status read_eos(struct model_config *mc, const cJSON *root)
{
    const cJSON *eos = json_member(root, "eos_token_id"), *item;
    if (!eos)
        return ST_OK;
    mc->n_eos = 0;
    if (!cJSON_IsArray(eos))
        return add_eos(mc, eos);
    cJSON_ArrayForEach(item, eos) TRY(add_eos(mc, item));
    return ST_OK;
}

static enum status check_heads(const struct model_config *mc, int32_t n_kv, int32_t d_head,
                               const struct rope_config *rope)
{
    if (mc->n_q % n_kv)
        FAIL(ST_RANGE, "%d attention heads cannot share %d key/value heads evenly", mc->n_q, n_kv);
    if (d_head % 2 || rope->rot_dim % 2 || rope->rot_dim > d_head)
        FAIL(ST_RANGE,
             "a head of %d with %d rotated elements: both must be even, the second not "
             "greater",
             d_head, rope->rot_dim);
    return ST_OK;
}

enum status model_config_check(const struct model_config *mc)
{
    bool global = mc->global_d_head > 0;
    TRY(check_heads(mc, mc->n_kv, mc->d_head, global ? &mc->local_rope : &mc->rope));
    if (global)
        TRY(check_heads(mc, mc->global_n_kv, mc->global_d_head, &mc->rope));
    const int32_t heads[] = {mc->d_head, mc->d_nope + mc->d_rope, mc->d_nope + mc->d_value,
                             mc->global_d_head};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if ((int64_t)mc->n_q * heads[i] > 1 << 24)
            FAIL(ST_RANGE, "%d heads of %d are too many", mc->n_q, heads[i]);
    if (mc->top_k > mc->n_experts)
        FAIL(ST_RANGE, "%d experts a token of %d", mc->top_k, mc->n_experts);
    if (mc->n_experts && (mc->n_experts % mc->n_groups || mc->top_groups > mc->n_groups))
        FAIL(ST_RANGE, "%d experts in %d groups, of which a token takes %d", mc->n_experts,
             mc->n_groups, mc->top_groups);
    if (mc->n_groups > 1 && mc->n_experts / mc->n_groups * mc->top_groups < mc->top_k)
        FAIL(ST_RANGE, "%d experts a token of %d groups of %d", mc->top_k, mc->top_groups,
             mc->n_experts / mc->n_groups);
    return ST_OK;
}

static enum status read_bos(struct model_config *mc, const cJSON *root)
{
    TRY(json_i32(root, "bos_token_id", -1, INT32_MAX, &mc->bos_id));
    if (mc->bos_id >= mc->vocab)
        mc->bos_id = -1;
    return ST_OK;
}

/* The text part of a multi-modal model's configuration, or root itself. */
static enum status read_wrapper(struct model_config *mc, const cJSON *root, const cJSON **text)
{
    const cJSON *list = json_member(root, "architectures");
    const char *type = NULL;
    *text = root;
    if (!cJSON_IsArray(list) || !cJSON_IsString(list->child) ||
        !arch_is_wrapper(list->child->valuestring))
        return read_arch(mc, root);
    mc->wrapped = true;
    TRY(json_need(root, "text_config"));
    *text = json_member(root, "text_config");
    if (!cJSON_IsObject(*text))
        FAIL(ST_FORMAT, "text_config must be an object");
    TRY(config_wrapper_check(root, list->child->valuestring));
    TRY(json_need(*text, "model_type"));
    TRY(json_string(*text, "model_type", &type));
    mc->arch = arch_of_type(type);
    if (!mc->arch)
        FAIL(ST_UNSUPPORTED, "text_config.model_type \"%.60s\" is not supported", type);
    use_defaults(mc);
    TRY(read_dtype(mc, root, "torch_dtype"));
    TRY(read_dtype(mc, root, "dtype"));
    return ST_OK;
}

/* root: of a multi-modal model; text: of its text part. */
static enum status read_ids(struct model_config *mc, const cJSON *root, const cJSON *text)
{
    TRY(read_eos(mc, root));
    TRY(read_bos(mc, root));
    if (root == text)
        return ST_OK;
    TRY(read_eos(mc, text));
    return read_bos(mc, text);
}

static enum status read_encoder(struct model_config *mc, const cJSON *root)
{
    TRY(config_encoder_read(mc, root));
    TRY(read_dtype(mc, root, "torch_dtype"));
    TRY(read_dtype(mc, root, "dtype"));
    return model_config_check(mc);
}

/* A decoder with a head for classification, which has no other one. */
static enum status read_classifier(struct model_config *mc, const cJSON *root)
{
    if (!mc->classifier)
        return ST_OK;
    mc->headless = true;
    mc->pad_id = mc->arch->pads_with_zero && !cJSON_HasObjectItem(root, "pad_token_id") ? 0 : -1;
    TRY(json_i32(root, "pad_token_id", -1, INT32_MAX, &mc->pad_id));
    return config_labels_read(mc, root);
}

static enum status read_config(struct model_config *mc, const cJSON *outer)
{
    const cJSON *root;
    if (!cJSON_IsObject(outer))
        FAIL(ST_FORMAT, "not an object");
    TRY(read_wrapper(mc, outer, &root));
    if (mc->arch->encoder)
        return read_encoder(mc, root);
    TRY(config_keys_check(root, mc->arch));
    TRY(read_sizes(mc, root));
    TRY(read_eps(mc, root));
    TRY(read_act(mc, root));
    TRY(config_experts_read(mc, root));
    TRY(config_quant_read(mc, outer, root));
    TRY(read_biases(mc, root));
    TRY(read_scales(mc, root));
    mc->tied = mc->arch->tied;
    TRY(json_bool(root, "tie_word_embeddings", &mc->tied));
    if (mc->arch->parallel_option)
        TRY(json_bool(root, "use_parallel_residual", &mc->parallel));
    if (mc->arch->window != WINDOW_CHUNK)
        TRY(mc->arch->mamba   ? config_mamba_read(mc, root)
            : mc->arch->delta ? config_delta_read(mc, root)
                              : read_window(mc, root));
    if (mc->arch->global_heads)
        TRY(config_global_read(mc, root));
    if (mc->arch->streams)
        TRY(config_streams_read(mc, root));
    if (!mc->n_positions && !mc->arch->one_part)
        TRY(config_rope_read(mc, root));
    if (mc->arch->latent)
        TRY(config_latent_scale(mc, root));
    config_stretch_context(mc);
    TRY(read_nope(mc, root));
    if (mc->arch->window == WINDOW_CHUNK)
        TRY(config_chunks_read(mc, root));
    TRY(read_dtype(mc, root, "torch_dtype"));
    TRY(read_dtype(mc, root, "dtype"));
    TRY(read_ids(mc, outer, root));
    TRY(read_classifier(mc, root));
    return model_config_check(mc);
}

static enum status read_generation(struct model_config *mc, const cJSON *root)
{
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    return read_eos(mc, root);
}

/* Runs a reader over one file's text and names the file in its errors. */
static enum status read_file(struct model_config *mc, const void *text, size_t len,
                             const char *what,
                             enum status (*reader)(struct model_config *, const cJSON *))
{
    cJSON *root;
    TRY(json_parse_python(&root, text, len, MAX_CONFIG, what));
    enum status st = reader(mc, root);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

enum status model_config_parse(struct model_config *out, const void *config, size_t len,
                               const void *generation, size_t generation_len)
{
    model_config_init(out);
    TRY(read_file(out, config, len, "config.json", read_config));
    if (generation)
        TRY(read_file(out, generation, generation_len, "generation_config.json", read_generation));
    return ST_OK;
}
