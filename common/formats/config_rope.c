/* RoPE settings of config.json: rope_theta with rope_scaling, or rope_parameters; checks each key
 * that the scaling type uses.  Called by model_config.c. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* Those that a type does not use are passed over, as transformers does; it reads no attn_factor in
 * any type, which other programs write. */
static const char *const scaling_keys[] = {
    "attn_factor",
    "long_factor",
    "short_factor",
    "llama_4_scaling_beta",
    "max_position_embeddings",
    "type",
    "rope_type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
};

/* The positions of images, of which a text has none: all three of a token are alike. */
static bool of_images(const struct arch *arch, const char *key)
{
    return arch->mrope_text &&
           (strcmp(key, "mrope_section") == 0 || strcmp(key, "mrope_interleaved") == 0);
}

static enum status check_keys(const struct arch *arch, const cJSON *obj, const char *where)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, obj)
    {
        if (of_images(arch, item->string))
            continue;
        size_t i = 0;
        while (i < ARRAY_LEN(scaling_keys) && strcmp(scaling_keys[i], item->string) != 0)
            i++;
        if (i == ARRAY_LEN(scaling_keys) && !cJSON_IsNull(item))
            FAIL(ST_UNSUPPORTED, "%s.%.100s is not understood", where, item->string);
    }
    return ST_OK;
}

/* Two names of one number: where both are there they say the same. */
static enum status same_value(const cJSON *root, const char *old, const char *name)
{
    const cJSON *a = json_member(root, old), *b = json_member(root, name);
    if (a && b && !cJSON_Compare(a, b, true))
        FAIL(ST_FORMAT, "%s and %s differ: which holds?", old, name);
    return ST_OK;
}

/* A share of a head's pairs is rotated, with the frequencies that they have where all are. */
static bool is_proportional(const struct arch *arch, const cJSON *obj)
{
    const cJSON *type = json_member(obj, "rope_type");
    return arch->global_heads && cJSON_IsString(type) &&
           strcmp(type->valuestring, "proportional") == 0;
}

static enum status read_proportional(struct rope_config *rope, const cJSON *obj, const char *where)
{
    double partial = 1;
    rope->type = ROPE_DIVISORS;
    TRY(json_double(obj, "factor", 1e-3, 1e6, &rope->factor));
    TRY(json_double(obj, "partial_rotary_factor", 0, 1, &partial));
    int32_t n = (int32_t)floor(partial * rope->rot_dim / 2);
    if (rope->rot_dim / 2 > MAX_ROPE_PAIRS)
        FAIL(ST_RANGE, "%s: proportional RoPE of a head of %d elements: at most %d are supported",
             where, rope->rot_dim, 2 * MAX_ROPE_PAIRS);
    if (n < 1)
        FAIL(ST_RANGE, "%s.partial_rotary_factor %g rotates nothing of a head of %d", where,
             partial, rope->rot_dim);
    for (int32_t i = 0; i < rope->rot_dim / 2; i++)
        rope->divisor[i] = i < n ? (float)rope->factor : ROPE_NEVER;
    return ST_OK;
}

/* The rotated elements of a head. */
static enum status read_partial(struct rope_config *rope, const struct model_config *mc,
                                const cJSON *root, const cJSON *obj, const char *where)
{
    int32_t d = mc->kv_rank                                  ? mc->d_rope
                : mc->global_d_head > 0 && rope == &mc->rope ? mc->global_d_head
                                                             : mc->d_head;
    if (is_proportional(mc->arch, obj)) {
        rope->rot_dim = d;
        return ST_OK;
    }
    double partial = mc->arch->default_partial > 0 ? mc->arch->default_partial : 1, inner;
    int32_t rotated = 0;
    if (mc->arch->rotary_dim)
        TRY(json_i32(root, "rotary_dim", 2, mc->d_head, &rotated));
    if (rotated)
        partial = (double)rotated / mc->d_head;
    if (mc->arch->rotary_pct)
        TRY(json_double(root, "rotary_pct", 0, 1, &partial));
    TRY(same_value(root, "rotary_pct", "partial_rotary_factor"));
    TRY(json_double(root, "partial_rotary_factor", 0, 1, &partial));
    inner = partial;
    if (obj)
        TRY(json_double(obj, "partial_rotary_factor", 0, 1, &inner));
    if (inner != 1 && !mc->arch->partial_rotary)
        FAIL(ST_UNSUPPORTED, "%s.partial_rotary_factor = %g is not supported for %s", where, inner,
             mc->arch->name);
    rope->rot_dim = (int32_t)(d * inner);
    rope->interleaved = mc->arch->interleaved;
    if (rope->rot_dim < 2 && d > 1)
        FAIL(ST_RANGE, "partial_rotary_factor %g rotates nothing of a head of %d", inner, d);
    return ST_OK;
}

static enum status read_type(enum rope_type *out, const struct arch *arch, const cJSON *obj,
                             const char *where)
{
    const char *type = NULL, *old = NULL;
    TRY(json_string(obj, "rope_type", &type));
    TRY(json_string(obj, "type", &old));
    if (type && old && strcmp(type, old) != 0)
        FAIL(ST_FORMAT, "%s has the type \"%.40s\" and the rope_type \"%.40s\"", where, old, type);
    if (!type)
        type = old ? old : "default";
    /* names of the first Phi-3 files */
    if (arch->own_code && !arch->latent && (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0))
        type = "longrope";
    for (int t = ROPE_PLAIN; t <= ROPE_LONGROPE; t++) {
        if (strcmp(type, rope_type_name((enum rope_type)t)) == 0) {
            *out = (enum rope_type)t;
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED,
         "%s: the type \"%.40s\" is not supported (default, linear, "
         "llama3, yarn and longrope are)",
         where, type);
}

double rope_longrope_mscale(double factor, double original_ctx)
{
    return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original_ctx));
}

double rope_yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static enum status read_yarn(struct rope_config *rope, const cJSON *obj, int32_t max_ctx)
{
    double mscale = 0, mscale_all = 0, attention = 0;
    if (!json_member(obj, "factor"))
        rope->factor = max_ctx / rope->original_ctx;
    TRY(json_double(obj, "beta_fast", 1e-3, 1e6, &rope->beta_fast));
    TRY(json_double(obj, "beta_slow", 1e-3, 1e6, &rope->beta_slow));
    if (rope->beta_fast < rope->beta_slow)
        FAIL(ST_RANGE, "yarn: beta_fast %g is less than beta_slow %g", rope->beta_fast,
             rope->beta_slow);
    TRY(json_bool(obj, "truncate", &rope->truncate));
    TRY(json_double(obj, "mscale", 0, 1e3, &mscale));
    TRY(json_double(obj, "mscale_all_dim", 0, 1e3, &mscale_all));
    TRY(json_double(obj, "attention_factor", 1e-3, 1e3, &attention));
    if (attention > 0)
        rope->attention_factor = attention;
    else if (mscale > 0 && mscale_all > 0)
        rope->attention_factor =
            rope_yarn_mscale(rope->factor, mscale) / rope_yarn_mscale(rope->factor, mscale_all);
    else
        rope->attention_factor = rope_yarn_mscale(rope->factor, 1);
    return ST_OK;
}

static enum status read_divisors(float *out, const struct rope_config *rope, const cJSON *obj,
                                 const char *key)
{
    const cJSON *list = json_member(obj, key), *item;
    int32_t n = rope->rot_dim / 2, i = 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n || n > MAX_ROPE_PAIRS)
        FAIL(ST_FORMAT, "%s must be a list of %d numbers (at most %d)", key, n, MAX_ROPE_PAIRS);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1e-3 && item->valuedouble <= 1e6))
            FAIL(ST_RANGE, "%s[%d] is no number of 0.001 to 1000000", key, i);
        out[i++] = (float)item->valuedouble;
    }
    return ST_OK;
}

static enum status read_longrope(struct rope_config *rope, const cJSON *obj, int32_t max_ctx)
{
    double attention = 0;
    if (!json_member(obj, "factor"))
        rope->factor = max_ctx / rope->original_ctx;
    TRY(read_divisors(rope->divisor, rope, obj, "short_factor"));
    TRY(read_divisors(rope->long_divisor, rope, obj, "long_factor"));
    TRY(json_double(obj, "attention_factor", 1e-3, 1e3, &attention));
    if (rope->original_ctx < 2 && attention == 0)
        FAIL(ST_RANGE, "longrope: original_max_position_embeddings is %g", rope->original_ctx);
    rope->attention_factor =
        attention > 0 ? attention : rope_longrope_mscale(rope->factor, rope->original_ctx);
    return ST_OK;
}

static enum status read_scaling(struct rope_config *rope, const struct arch *arch,
                                const cJSON *root, const cJSON *obj, const char *where,
                                int32_t max_ctx)
{
    if (is_proportional(arch, obj)) {
        TRY(check_keys(arch, obj, where));
        return read_proportional(rope, obj, where);
    }
    TRY(read_type(&rope->type, arch, obj, where)); /* first: another type has other keys */
    TRY(check_keys(arch, obj, where));
    if (rope->type == ROPE_PLAIN)
        return ST_OK;
    if (rope->type != ROPE_YARN && rope->type != ROPE_LONGROPE)
        TRY(json_need(obj, "factor"));
    TRY(json_double(obj, "factor", 1e-3, 1e6, &rope->factor));
    if (rope->type == ROPE_LINEAR)
        return ST_OK;
    /* the length at the top level goes before the one inside, and max_position_embeddings stands in
     * for both, as in transformers */
    rope->original_ctx = max_ctx;
    TRY(json_double(obj, "original_max_position_embeddings", 1, 1e9, &rope->original_ctx));
    TRY(json_double(root, "original_max_position_embeddings", 1, 1e9, &rope->original_ctx));
    TRY(json_double(obj, "llama_4_scaling_beta", 0, 1e3, &rope->q_beta));
    rope->q_floor = rope->original_ctx;
    if (rope->type == ROPE_YARN)
        return read_yarn(rope, obj, max_ctx);
    if (rope->type == ROPE_LONGROPE)
        return read_longrope(rope, obj, max_ctx);
    TRY(json_need(obj, "low_freq_factor"));
    TRY(json_need(obj, "high_freq_factor"));
    TRY(json_double(obj, "low_freq_factor", 1e-3, 1e6, &rope->low_freq_factor));
    TRY(json_double(obj, "high_freq_factor", 1e-3, 1e6, &rope->high_freq_factor));
    if (rope->high_freq_factor < rope->low_freq_factor)
        FAIL(ST_RANGE, "%s: high_freq_factor %g must not be less than low_freq_factor %g", where,
             rope->high_freq_factor, rope->low_freq_factor);
    return ST_OK;
}

/* One RoPE; obj NULL: a plain one. */
static enum status read_one(struct rope_config *rope, const struct model_config *mc,
                            const cJSON *root, const cJSON *obj, const char *where)
{
    if (obj && !cJSON_IsObject(obj))
        FAIL(ST_FORMAT, "%s must be an object", where);
    TRY(read_partial(rope, mc, root, obj, where));
    if (!obj && mc->arch->needs_rope)
        FAIL(ST_FORMAT, "rope_parameters is missing");
    if (!obj)
        return ST_OK;
    double inner = rope->theta;
    if (mc->arch->global_heads)
        TRY(json_need(obj, "rope_theta"));
    TRY(json_double(obj, "rope_theta", 1.01, 1e12, &inner));
    if (json_member(root, "rope_theta") && rope == &mc->rope && inner != rope->theta)
        FAIL(ST_FORMAT, "rope_theta is %g and %s.rope_theta is %g: which holds?", rope->theta,
             where, inner);
    rope->theta = inner;
    return read_scaling(rope, mc->arch, root, obj, where, mc->max_ctx);
}

/* rope_parameters with one object for each kind of layer, or the older keys. */
static enum status read_both(struct model_config *mc, const cJSON *root, const cJSON *params,
                             const cJSON *scaling)
{
    const cJSON *full = json_member(params, "full_attention"),
                *local = json_member(params, "sliding_attention"), *item;
    TRY(json_double(root, "rope_local_base_freq", 1.01, 1e12, &mc->local_rope.theta));
    if (params)
        cJSON_ArrayForEach(item, params) if (item != full && item != local && !cJSON_IsNull(item))
            FAIL(ST_UNSUPPORTED, "rope_parameters.%.100s is not understood", item->string);
    TRY(read_one(&mc->local_rope, mc, root, local, "rope_parameters.sliding_attention"));
    return params ? read_one(&mc->rope, mc, root, full, "rope_parameters.full_attention")
                  : read_one(&mc->rope, mc, root, scaling, "rope_scaling");
}

/* How the pairs are divided among the three positions of an image: a text does not need it. */
static enum status read_sections(struct model_config *mc, const cJSON *obj)
{
    const cJSON *list = json_member(obj, "mrope_section"), *item;
    int n = 0;
    if (!mc->arch->mrope_text || !list)
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != ARRAY_LEN(mc->mrope_section))
        FAIL(ST_FORMAT, "mrope_section must be a list of 3 numbers");
    cJSON_ArrayForEach(item, list)
    {
        uint64_t pairs;
        if (!json_is_u53(item, &pairs) || pairs > MAX_ROPE_PAIRS)
            FAIL(ST_RANGE, "mrope_section[%d] is no number of up to %d pairs", n, MAX_ROPE_PAIRS);
        mc->mrope_section[n++] = (int32_t)pairs;
    }
    return ST_OK;
}

enum status config_rope_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *scaling = json_member(root, "rope_scaling");
    const cJSON *params = json_member(root, "rope_parameters");
    if (scaling && params)
        FAIL(ST_FORMAT, "there are rope_scaling and rope_parameters: which holds?");
    if (mc->arch->rotary_pct)
        TRY(json_double(root, "rotary_emb_base", 1.01, 1e12, &mc->rope.theta));
    TRY(same_value(root, "rotary_emb_base", "rope_theta"));
    TRY(json_double(root, "rope_theta", 1.01, 1e12, &mc->rope.theta));
    if (params && !cJSON_IsObject(params))
        FAIL(ST_FORMAT, "rope_parameters must be an object");
    TRY(read_sections(mc, params ? params : scaling));
    if (mc->arch->local_rope)
        return read_both(mc, root, params, scaling);
    return read_one(&mc->rope, mc, root, params ? params : scaling,
                    params ? "rope_parameters" : "rope_scaling");
}
