/* How quantization_config asks for the inputs of quantised matrices to be rounded, and what of it is refused, by its
 * place in the JSON. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/formats/config_inputs.h"

#define QUANT(METHOD, MORE) "{\"quantization_config\":{\"quant_method\":\"" METHOD "\"" MORE "}}"
#define GROUP(FORMAT, MORE)                                                                        \
    QUANT("compressed-tensors", ",\"format\":\"" FORMAT "\",\"config_groups\":{\"group_0\":{"      \
                                "\"targets\":[\"Linear\"],\"weights\":{}" MORE "}}")
#define INPUTS(MORE) GROUP("int-quantized", ",\"input_activations\":{" MORE "}")
#define AT "quantization_config.config_groups.group_0.input_activations."

static struct input_scheme parsed(const char *json)
{
    struct input_scheme s;
    cr_assert_eq(input_scheme_parse(&s, json, strlen(json)), ST_OK, "%s: %s", json, status_text());
    return s;
}

static void served(const char *json, enum input_rounding rounding, int32_t group, bool from_file,
                   const char *asked)
{
    struct input_scheme s = parsed(json);
    cr_expect_str_eq(s.refused, "", "%s", json);
    cr_expect_eq(s.rounding, rounding, "%s: %d", json, (int)s.rounding);
    cr_expect_eq(s.group, group, "%s: %d", json, s.group);
    cr_expect_eq(s.from_file, from_file, "%s", json);
    cr_expect_str_eq(s.asked, asked, "%s", json);
}

Test(config_inputs, schemes)
{
    served("{}", INPUTS_FLOAT, 0, false, "f32");
    served(QUANT("gptq", ",\"bits\":4"), INPUTS_FLOAT, 0, false, "f32");
    served(QUANT("awq", ""), INPUTS_FLOAT, 0, false, "f32");
    served(QUANT("bitsandbytes", ",\"load_in_4bit\":true"), INPUTS_FLOAT, 0, false, "f32");
    served(QUANT("fp8", ",\"activation_scheme\":\"dynamic\",\"weight_block_size\":[64,128]"),
           INPUTS_E4M3, 128, false, "e4m3, a scale for each token and 128 columns");
    served(QUANT("fp8", ""), INPUTS_E4M3, 0, false, "e4m3, a scale for each token");
    served(QUANT("fp8", ",\"activation_scheme\":\"static\",\"weight_block_size\":null"),
           INPUTS_E4M3, 0, true, "e4m3, a scale for each matrix");
    served(QUANT("modelopt", ",\"quant_algo\":\"FP8\""), INPUTS_E4M3, 0, true,
           "e4m3, a scale for each matrix");
    served(GROUP("pack-quantized", ",\"input_activations\":null"), INPUTS_FLOAT, 0, false, "f32");
    served(INPUTS("\"num_bits\":8,\"type\":\"int\",\"strategy\":\"token\",\"dynamic\":true"),
           INPUTS_INT8, 0, false, "int8, a scale for each token");
    served(INPUTS("\"num_bits\":8,\"type\":\"int\",\"strategy\":\"tensor\",\"dynamic\":false"),
           INPUTS_INT8, 0, true, "int8, a scale for each matrix");
    served(INPUTS("\"type\":\"float\",\"strategy\":\"token\",\"dynamic\":true"), INPUTS_E4M3, 0,
           false, "e4m3, a scale for each token");
    served(INPUTS("\"type\":\"float\",\"strategy\":\"group\",\"group_size\":64,\"dynamic\":true"),
           INPUTS_E4M3, 64, false, "e4m3, a scale for each token and 64 columns");
    served("{\"text_config\":" QUANT("fp8", "") "}", INPUTS_E4M3, 0, false,
           "e4m3, a scale for each token");
}

Test(config_inputs, refusals_have_a_place)
{
    static const struct {
        const char *json, *says;
    } rows[] = {
        {INPUTS("\"num_bits\":4,\"strategy\":\"token\",\"dynamic\":true"), AT "num_bits = 4"},
        {INPUTS("\"type\":\"bool\",\"strategy\":\"token\",\"dynamic\":true"), AT "type = \"bool\""},
        {INPUTS("\"symmetric\":false,\"strategy\":\"token\",\"dynamic\":true"),
         AT "symmetric = false"},
        {INPUTS("\"scale_dtype\":\"torch.uint8\",\"strategy\":\"token\",\"dynamic\":true"),
         AT "scale_dtype"},
        {INPUTS("\"strategy\":\"tensor\",\"dynamic\":true"),
         AT "strategy = \"tensor\" with dynamic = true: a scale over all tokens of a step"},
        {INPUTS("\"strategy\":\"token\",\"dynamic\":false"),
         AT "strategy = \"token\" with dynamic = false"},
        {INPUTS("\"strategy\":\"group\",\"dynamic\":true"),
         AT "strategy = \"group\" with dynamic = true"},
        {INPUTS("\"strategy\":\"tensor_group\",\"dynamic\":\"local\""), AT "dynamic = \"local\""},
        {GROUP("float-quantized", ",\"output_activations\":{\"num_bits\":8}"),
         "quantization_config.config_groups.group_0.output_activations"},
        {GROUP("mxfp4-pack-quantized", ""),
         "quantization_config.format = \"mxfp4-pack-quantized\": these weights meet inputs in 8 "
         "bits"},
        {QUANT("modelopt", ",\"quant_algo\":\"NVFP4\""),
         "quantization_config.quant_algo = \"NVFP4\": inputs in floats of 4 bits"},
        {QUANT("bitsandbytes", ",\"_load_in_8bit\":true"),
         "quantization_config.load_in_8bit = true: inputs in int8 but for outliers"},
        {QUANT("fbgemm_fp8", ""), "quantization_config.quant_method = \"fbgemm_fp8\""},
        {QUANT("mxfp4", ""), "quantization_config.quant_method = \"mxfp4\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct input_scheme s = parsed(rows[i].json);
        cr_expect_str_eq(s.refused, rows[i].says, "%s: '%s'", rows[i].json, s.refused);
        cr_expect_str_eq(s.asked, "", "%s", rows[i].json);
    }
}

Test(config_inputs, wrong_types_are_errors)
{
    static const char *const rows[] = {INPUTS("\"num_bits\":\"8\""), INPUTS("\"strategy\":7"),
                                       QUANT("fp8", ",\"activation_scheme\":1"),
                                       QUANT("fp8", ",\"weight_block_size\":128"), "{"};
    struct input_scheme s;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(input_scheme_parse(&s, rows[i], strlen(rows[i])), ST_FORMAT, "%s", rows[i]);
}

Test(config_inputs, a_gguf_file_says_nothing)
{
    struct input_scheme s;
    cr_assert_eq(input_scheme_load(&s, "no-such.gguf"), ST_OK);
    cr_expect_str_eq(s.refused, "a GGUF file says nothing of inputs");
}
