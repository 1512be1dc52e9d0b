/* quantization_config of GPTQ (quant_method "gptq", as AutoGPTQ, optimum and GPTQModel write it) and of
 * AWQ ("awq", as AutoAWQ and transformers write it).  Which matrices are stored so is seen from the
 * tensors. */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "common/formats/model_config.h"

enum { MAX_GROUP = 1 << 20 };

/* Fails unless the key is absent or says one of the words, in letters of any case. */
static enum status check_words(const cJSON *config, const char *key, const char *const *words,
                               int n)
{
    char said[64];
    const char *text = NULL;
    TRY(json_string(config, key, &text));
    if (!text)
        return ST_OK;
    snprintf(said, sizeof said, "%s", text);
    for (char *c = said; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (int i = 0; i < n; i++)
        if (strcmp(said, words[i]) == 0)
            return ST_OK;
    FAIL(ST_UNSUPPORTED, "quantization_config: %s = \"%.60s\" is not supported (\"%s\" is)", key,
         text, words[0]);
}

/* The key must be absent, null, false or empty. */
static enum status check_absent(const cJSON *config, const char *key)
{
    const cJSON *item = json_member(config, key);
    bool empty = (cJSON_IsObject(item) || cJSON_IsArray(item)) && cJSON_GetArraySize(item) == 0;
    if (!item || cJSON_IsFalse(item) || empty)
        return ST_OK;
    FAIL(ST_UNSUPPORTED, "quantization_config: %s is not supported", key);
}

/* Rules for single modules: "-:PATTERN" leaves them as they are, any other changes their form. */
static enum status check_dynamic(const cJSON *config)
{
    const cJSON *rules = json_member(config, "dynamic"), *rule;
    if (!rules || cJSON_IsFalse(rules))
        return ST_OK;
    if (!cJSON_IsObject(rules))
        FAIL(ST_FORMAT, "quantization_config: dynamic is not an object");
    cJSON_ArrayForEach(rule, rules) if (strncmp(rule->string, "-:", 2) != 0)
        FAIL(ST_UNSUPPORTED, "quantization_config: dynamic has a rule of its own for %.100s",
             rule->string);
    return ST_OK;
}

static enum status read_group(struct model_config *mc, const cJSON *config)
{
    int32_t group = -1;
    TRY(json_i32(config, "group_size", -1, MAX_GROUP, &group));
    if (group == 0)
        FAIL(ST_RANGE, "quantization_config: group_size is 0");
    mc->int_group = group < 0 ? 0 : group;
    return ST_OK;
}

static enum status read_bits(struct model_config *mc, const cJSON *config)
{
    TRY(json_need(config, "bits"));
    TRY(json_i32(config, "bits", 1, 64, &mc->int_bits));
    if (mc->int_bits != 4 && (mc->int_bits != 8 || mc->ints == INTS_AWQ))
        FAIL(ST_UNSUPPORTED, "quantization_config: bits = %d is not supported (%s)", mc->int_bits,
             mc->ints == INTS_AWQ ? "4 is" : "4 and 8 are");
    return ST_OK;
}

enum status config_gptq_read(struct model_config *mc, const cJSON *config)
{
    static const char *const formats[] = {"gptq", "gptq_v2"}, *const int32[] = {"int32"};
    bool sym = true;
    const char *format = NULL;
    mc->ints = INTS_GPTQ;
    TRY(read_bits(mc, config));
    TRY(read_group(mc, config));
    TRY(json_bool(config, "sym", &sym));
    TRY(json_bool(config, "desc_act", &mc->int_order));
    TRY(check_words(config, "checkpoint_format", formats, 2));
    TRY(check_words(config, "format", formats, 2));
    TRY(check_words(config, "pack_dtype", int32, 1));
    TRY(check_absent(config, "is_marlin_format"));
    TRY(check_absent(config, "adapter"));
    TRY(check_absent(config, "rotation"));
    TRY(check_dynamic(config));
    TRY(json_string(config,
                    json_member(config, "checkpoint_format") ? "checkpoint_format" : "format",
                    &format));
    mc->int_zeros = !sym;
    mc->int_zeros_less_one = !format || !strchr(format, '2');
    if (mc->int_group == 0) /* one group: the order of columns says nothing */
        mc->int_order = false;
    return ST_OK;
}

enum status config_awq_read(struct model_config *mc, const cJSON *config)
{
    static const char *const gemm[] = {"gemm"}, *const autoawq[] = {"autoawq"};
    bool zeros = true;
    mc->ints = INTS_AWQ;
    TRY(read_bits(mc, config));
    TRY(read_group(mc, config));
    TRY(check_words(config, "version", gemm, 1));
    TRY(check_words(config, "backend", autoawq, 1));
    TRY(json_bool(config, "zero_point", &zeros));
    if (!zeros)
        FAIL(ST_UNSUPPORTED, "quantization_config: zero_point = false is not supported");
    mc->int_zeros = true;
    return config_quant_names(config, "modules_to_not_convert");
}
