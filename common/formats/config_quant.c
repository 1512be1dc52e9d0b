/* quantization_config of config.json: weights in e4m3 as transformers' FineGrainedFP8Config and
 * DeepSeek's checkpoints write them (quant_method "fp8").  Which matrices are stored so is seen from
 * their types; the list of those that are not is only checked for its form. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/dtype.h"
#include "common/formats/json_get.h"
#include "common/formats/model_config.h"

enum { MAX_BLOCK = 1 << 20 };

bool config_quant_known(const cJSON *config)
{
    const cJSON *method = cJSON_GetObjectItemCaseSensitive(config, "quant_method");
    return cJSON_IsString(method) && strcmp(method->valuestring, "fp8") == 0;
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

static enum status read_block(struct model_config *mc, const cJSON *config)
{
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(config, "weight_block_size");
    if (!size || cJSON_IsNull(size))
        return ST_OK;
    const cJSON *rows = cJSON_GetArrayItem(size, 0), *cols = cJSON_GetArrayItem(size, 1);
    if (!cJSON_IsArray(size) || cJSON_GetArraySize(size) != 2 || !cJSON_IsNumber(rows) ||
        !cJSON_IsNumber(cols))
        FAIL(ST_FORMAT, "quantization_config: weight_block_size is not a list of two numbers");
    if (!(rows->valuedouble >= 1 && rows->valuedouble <= (double)MAX_BLOCK) ||
        !(cols->valuedouble >= 1 && cols->valuedouble <= (double)MAX_BLOCK) ||
        rows->valuedouble != rows->valueint || cols->valuedouble != cols->valueint)
        FAIL(ST_RANGE, "quantization_config: weight_block_size [%g, %g]", rows->valuedouble,
             cols->valuedouble);
    if (cols->valueint % FP8_BLOCK)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: weight_block_size [%d, %d]: the columns of a block must be a "
             "multiple of %d",
             rows->valueint, cols->valueint, FP8_BLOCK);
    mc->fp8_rows = rows->valueint;
    mc->fp8_cols = cols->valueint;
    return ST_OK;
}

static enum status check_list(const cJSON *config, const char *key)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(config, key), *item;
    if (!list || cJSON_IsNull(list))
        return ST_OK;
    if (!cJSON_IsArray(list))
        FAIL(ST_FORMAT, "quantization_config: %s is not a list", key);
    cJSON_ArrayForEach(item, list) if (!cJSON_IsString(item))
        FAIL(ST_FORMAT, "quantization_config: %s has an entry that is no name", key);
    return ST_OK;
}

enum status config_quant_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *config = json_member(root, "quantization_config");
    if (!config || !config_quant_known(config))
        return ST_OK;
    mc->fp8 = true;
    TRY(check_word(config, "fmt", "e4m3", "float8_e4m3fn"));
    TRY(check_word(config, "scale_fmt", "float", "float"));
    TRY(check_word(config, "activation_scheme", "dynamic", "static"));
    TRY(check_list(config, "modules_to_not_convert"));
    TRY(check_list(config, "ignored_layers"));
    return read_block(mc, config);
}
