/* quantization_config of bitsandbytes (quant_method "bitsandbytes", as transformers writes it) and of
 * NVIDIA's ModelOpt ("modelopt").  Which matrices are stored so is seen from the tensors. */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "common/formats/model_config.h"

/* The older of two keys has an underscore before it. */
static enum status read_load(const cJSON *config, const char *key, bool *out)
{
    TRY(json_bool(config, key, out)); /* "_load_in_4bit" */
    return json_bool(config, key + 1, out);
}

static enum status read_four_bits(struct model_config *mc, const cJSON *config)
{
    const char *type = "fp4", *storage = "uint8";
    TRY(json_string(config, "bnb_4bit_quant_type", &type));
    TRY(json_string(config, "bnb_4bit_quant_storage", &storage));
    if (strcmp(type, "nf4") != 0 && strcmp(type, "fp4") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: bnb_4bit_quant_type = \"%.60s\" is not supported", type);
    if (strcmp(storage, "uint8") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: bnb_4bit_quant_storage = \"%.60s\" is not supported (\"uint8\" "
             "is)",
             storage);
    mc->fp4 = FP4_BNB;
    return ST_OK;
}

enum status config_bnb_read(struct model_config *mc, const cJSON *config)
{
    bool four = false, eight = false;
    TRY(read_load(config, "_load_in_4bit", &four));
    TRY(read_load(config, "_load_in_8bit", &eight));
    TRY(config_quant_names(config, "llm_int8_skip_modules"));
    if (four == eight)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: of load_in_4bit and load_in_8bit one must be true");
    if (four)
        return read_four_bits(mc, config);
    mc->ints = INTS_SCB;
    mc->int_bits = 8;
    return ST_OK;
}

enum status config_modelopt_read(struct model_config *mc, const cJSON *config)
{
    const char *algorithm = "?";
    TRY(json_string(config, "quant_algo", &algorithm));
    TRY(config_quant_names(config, "ignore"));
    TRY(config_quant_names(config, "exclude_modules"));
    if (strcmp(algorithm, "NVFP4") == 0)
        mc->fp4 = FP4_MODELOPT;
    else if (strcmp(algorithm, "FP8") == 0)
        mc->fp8 = true;
    else
        FAIL(ST_UNSUPPORTED,
             "quantization_config: quant_algo = \"%.60s\" is not supported (\"NVFP4\" and \"FP8\" "
             "are)",
             algorithm);
    return ST_OK;
}
