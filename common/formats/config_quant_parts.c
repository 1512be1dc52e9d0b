/* What the methods of quantization_config have in common. */
#include <cjson/cJSON.h>

#include "common/dtype.h"
#include "common/formats/model_config.h"

enum { MAX_BLOCK = 1 << 20 };

enum status config_fp8_block(struct model_config *mc, const cJSON *config, const char *key)
{
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(config, key);
    if (!size || cJSON_IsNull(size))
        return ST_OK;
    const cJSON *rows = cJSON_GetArrayItem(size, 0), *cols = cJSON_GetArrayItem(size, 1);
    if (!cJSON_IsArray(size) || cJSON_GetArraySize(size) != 2 || !cJSON_IsNumber(rows) ||
        !cJSON_IsNumber(cols))
        FAIL(ST_FORMAT, "quantization_config: %s is not a list of two numbers", key);
    if (!(rows->valuedouble >= 1 && rows->valuedouble <= (double)MAX_BLOCK) ||
        !(cols->valuedouble >= 1 && cols->valuedouble <= (double)MAX_BLOCK) ||
        rows->valuedouble != rows->valueint || cols->valuedouble != cols->valueint)
        FAIL(ST_RANGE, "quantization_config: %s [%g, %g]", key, rows->valuedouble,
             cols->valuedouble);
    if (cols->valueint % FP8_BLOCK)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: %s [%d, %d]: the columns of a block must be a multiple of %d",
             key, rows->valueint, cols->valueint, FP8_BLOCK);
    mc->fp8_rows = rows->valueint;
    mc->fp8_cols = cols->valueint;
    return ST_OK;
}

enum status config_quant_names(const cJSON *config, const char *key)
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
