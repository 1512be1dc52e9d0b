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

static enum status check_keys(const cJSON *obj, const char *where)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, obj)
    {
        size_t i = 0;
        while (i < ARRAY_LEN(scaling_keys) && strcmp(scaling_keys[i], item->string) != 0)
            i++;
        if (i == ARRAY_LEN(scaling_keys) && !cJSON_IsNull(item))
            FAIL(ST_UNSUPPORTED, "%s.%.100s is not understood", where, item->string);
    }
    double partial = 1;
    TRY(json_double(obj, "partial_rotary_factor", 0, 1, &partial));
    if (partial != 1)
        FAIL(ST_UNSUPPORTED, "%s.partial_rotary_factor = %g is not supported", where, partial);
    return ST_OK;
}

static enum status read_type(enum rope_type *out, const cJSON *obj, const char *where)
{
    const char *type = NULL, *old = NULL;
    TRY(json_string(obj, "rope_type", &type));
    TRY(json_string(obj, "type", &old));
    if (type && old && strcmp(type, old) != 0)
        FAIL(ST_FORMAT, "%s has the type \"%.40s\" and the rope_type \"%.40s\"", where, old, type);
    if (!type)
        type = old ? old : "default";
    for (int t = ROPE_PLAIN; t <= ROPE_YARN; t++) {
        if (strcmp(type, rope_type_name((enum rope_type)t)) == 0) {
            *out = (enum rope_type)t;
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED,
         "%s: the type \"%.40s\" is not supported (default, linear, "
         "llama3 and yarn are)",
         where, type);
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

static enum status read_scaling(struct rope_config *rope, const cJSON *root, const cJSON *obj,
                                const char *where, int32_t max_ctx)
{
    if (!cJSON_IsObject(obj))
        FAIL(ST_FORMAT, "%s must be an object", where);
    TRY(read_type(&rope->type, obj, where)); /* first: another type has other keys */
    TRY(check_keys(obj, where));
    if (rope->type == ROPE_PLAIN)
        return ST_OK;
    if (rope->type != ROPE_YARN)
        TRY(json_need(obj, "factor"));
    TRY(json_double(obj, "factor", 1e-3, 1e6, &rope->factor));
    if (rope->type == ROPE_LINEAR)
        return ST_OK;
    /* the length at the top level goes before the one inside, and max_position_embeddings stands in
     * for both, as in transformers */
    rope->original_ctx = max_ctx;
    TRY(json_double(obj, "original_max_position_embeddings", 1, 1e9, &rope->original_ctx));
    TRY(json_double(root, "original_max_position_embeddings", 1, 1e9, &rope->original_ctx));
    if (rope->type == ROPE_YARN)
        return read_yarn(rope, obj, max_ctx);
    TRY(json_need(obj, "low_freq_factor"));
    TRY(json_need(obj, "high_freq_factor"));
    TRY(json_double(obj, "low_freq_factor", 1e-3, 1e6, &rope->low_freq_factor));
    TRY(json_double(obj, "high_freq_factor", 1e-3, 1e6, &rope->high_freq_factor));
    if (rope->high_freq_factor <= rope->low_freq_factor)
        FAIL(ST_RANGE, "%s: high_freq_factor %g must be greater than low_freq_factor %g", where,
             rope->high_freq_factor, rope->low_freq_factor);
    return ST_OK;
}

enum status config_rope_read(struct rope_config *rope, const cJSON *root, int32_t max_ctx)
{
    const cJSON *scaling = json_member(root, "rope_scaling");
    const cJSON *params = json_member(root, "rope_parameters");
    const cJSON *obj = params ? params : scaling;
    const char *where = params ? "rope_parameters" : "rope_scaling";
    if (scaling && params)
        FAIL(ST_FORMAT, "there are rope_scaling and rope_parameters: which holds?");
    TRY(json_double(root, "rope_theta", 1.01, 1e12, &rope->theta));
    if (!obj)
        return ST_OK;
    double inner = rope->theta;
    TRY(json_double(obj, "rope_theta", 1.01, 1e12, &inner));
    if (json_member(root, "rope_theta") && inner != rope->theta)
        FAIL(ST_FORMAT, "rope_theta is %g and %s.rope_theta is %g: which holds?", rope->theta,
             where, inner);
    rope->theta = inner;
    return read_scaling(rope, root, obj, where, max_ctx);
}
