/* quantization_config of config.json: its method, and weights in e4m3 as transformers'
 * FineGrainedFP8Config and DeepSeek's checkpoints write them (quant_method "fp8").  Which matrices are stored so is seen from
 * their types; the list of those that are not is only checked for its form. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "common/formats/model_config.h"

typedef enum status read_fn(struct model_config *mc, const cJSON *config);
static read_fn read_fp8;

static const struct method {
    const char *name;
    read_fn *read;
} methods[] = {{"fp8", read_fp8},
               {"gptq", config_gptq_read},
               {"awq", config_awq_read},
               {"compressed-tensors", config_compressed_read},
               {"bitsandbytes", config_bnb_read},
               {"modelopt", config_modelopt_read},
               {"fbgemm_fp8", read_fp8}};

static const struct method *method_of(const cJSON *config)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(config, "quant_method");
    for (size_t i = 0; cJSON_IsString(name) && i < ARRAY_LEN(methods); i++)
        if (strcmp(name->valuestring, methods[i].name) == 0)
            return &methods[i];
    return NULL;
}

bool config_quant_known(const cJSON *config)
{
    return method_of(config) != NULL;
}

static enum status check_word(const cJSON *config, const char *key, const char *a, const char *b)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key);
    if (!item || cJSON_IsNull(item))
        return ST_OK;
    if (!cJSON_IsString(item) ||
        (strcmp(item->valuestring, a) != 0 && strcmp(item->valuestring, b) != 0))
        FAIL(ST_UNSUPPORTED, "quantization_config: %s = \"%.60s\" is not supported", key,
             cJSON_IsString(item) ? item->valuestring : "?");
    return ST_OK;
}

static enum status read_fp8(struct model_config *mc, const cJSON *config)
{
    mc->fp8 = true;
    TRY(check_word(config, "fmt", "e4m3", "float8_e4m3fn"));
    TRY(check_word(config, "scale_fmt", "float", "float"));
    TRY(check_word(config, "activation_scheme", "dynamic", "static"));
    TRY(config_quant_names(config, "modules_to_not_convert"));
    TRY(config_quant_names(config, "ignored_layers"));
    return config_fp8_block(mc, config, "weight_block_size");
}

enum status config_quant_read(struct model_config *mc, const cJSON *outer, const cJSON *text)
{
    const cJSON *own = json_member(text, "quantization_config"),
                *config = own ? own : json_member(outer, "quantization_config");
    const struct method *method = config ? method_of(config) : NULL;
    if (!method)
        return ST_OK;
    bool transposed = mc->n_experts && mc->arch->tensor[TN_EXPERT_DOWN].fused == TRANSPOSED;
    bool compressed = strcmp(method->name, "compressed-tensors") == 0;
    if (transposed && compressed && arch_split_experts(mc->arch))
        mc->arch = arch_split_experts(mc->arch);
    else if (transposed && strcmp(method->name, "fbgemm_fp8") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: experts of %s with weights of the method \"%s\" are not "
             "supported",
             mc->arch->name, method->name);
    return method->read(mc, config);
}
