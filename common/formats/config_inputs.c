#include "common/formats/config_inputs.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/json_get.h"
#include "common/mapped_file.h"

enum { MAX_GROUP = 1 << 20, MAX_TEXT = 64 << 20 };

#define QUANT "quantization_config"

/* The first reason stays. */
__attribute__((format(printf, 2, 3))) static void refuse(struct input_scheme *s, const char *form,
                                                         ...)
{
    va_list list;
    if (s->refused[0])
        return;
    va_start(list, form);
    vsnprintf(s->refused, sizeof s->refused, form, list);
    va_end(list);
}

static void e4m3(struct input_scheme *s, int32_t group, bool from_file)
{
    s->rounding = INPUTS_E4M3;
    s->group = group;
    s->from_file = from_file;
}

/* Methods with weights in e4m3: FineGrainedFP8Config of transformers and DeepSeek's (a scale for each token and the
 * columns of a block, or without blocks for each token), AutoFP8's static scales. */
static enum status read_fp8(struct input_scheme *s, const cJSON *config)
{
    const char *scheme = "dynamic";
    struct model_config blocks = {0};
    TRY(json_string(config, "activation_scheme", &scheme));
    TRY(config_fp8_block(&blocks, config, "weight_block_size"));
    bool from_file = strcmp(scheme, "static") == 0;
    e4m3(s, from_file ? 0 : blocks.fp8_cols, from_file);
    return ST_OK;
}

/* Scales of calibration, which are in the file. */
static enum status read_modelopt(struct input_scheme *s, const cJSON *config)
{
    const char *algorithm = "?";
    TRY(json_string(config, "quant_algo", &algorithm));
    if (strcmp(algorithm, "FP8") == 0)
        e4m3(s, 0, true);
    else
        refuse(s, QUANT ".quant_algo = \"%.40s\": inputs in floats of 4 bits", algorithm);
    return ST_OK;
}

static enum status read_bnb(struct input_scheme *s, const cJSON *config)
{
    bool eight = false, older = false;
    TRY(json_bool(config, "load_in_8bit", &eight));
    TRY(json_bool(config, "_load_in_8bit", &older));
    if (eight || older)
        refuse(s, QUANT ".load_in_8bit = true: inputs in int8 but for outliers");
    return ST_OK;
}

/* Of compressed-tensors: "dynamic" is true, false or "local". */
static bool is_dynamic(struct input_scheme *s, const char *at, const cJSON *inputs)
{
    const cJSON *dynamic = json_member(inputs, "dynamic");
    if (dynamic && !cJSON_IsBool(dynamic))
        refuse(s, "%s.dynamic = \"%.40s\"", at,
               cJSON_IsString(dynamic) ? dynamic->valuestring : "?");
    return cJSON_IsTrue(dynamic);
}

static enum status read_strategy(struct input_scheme *s, const char *at, const cJSON *inputs)
{
    const char *strategy = "tensor";
    bool dynamic = is_dynamic(s, at, inputs);
    int32_t group = 0;
    TRY(json_string(inputs, "strategy", &strategy));
    TRY(json_i32(inputs, "group_size", -1, MAX_GROUP, &group));
    if (dynamic && strcmp(strategy, "group") == 0 && group > 0)
        s->group = group;
    else if (!dynamic && strcmp(strategy, "tensor") == 0)
        s->from_file = true;
    else if (!dynamic || strcmp(strategy, "token") != 0)
        refuse(s, "%s.strategy = \"%.40s\" with dynamic = %s%s", at, strategy,
               dynamic ? "true" : "false",
               dynamic && strcmp(strategy, "tensor") == 0 ? ": a scale over all tokens of a step"
                                                          : "");
    return ST_OK;
}

static enum status read_inputs(struct input_scheme *s, const char *at, const cJSON *inputs)
{
    const char *type = "int";
    int32_t bits = 8;
    bool symmetric = true;
    TRY(json_string(inputs, "type", &type));
    TRY(json_i32(inputs, "num_bits", 1, 64, &bits));
    TRY(json_bool(inputs, "symmetric", &symmetric));
    if (bits != 8)
        refuse(s, "%s.num_bits = %d", at, bits);
    bool floats = strcmp(type, "float") == 0;
    if (!floats && strcmp(type, "int") != 0)
        refuse(s, "%s.type = \"%.40s\"", at, type);
    if (!floats && !symmetric)
        refuse(s, "%s.symmetric = false", at);
    if (json_member(inputs, "scale_dtype"))
        refuse(s, "%s.scale_dtype", at);
    s->rounding = floats ? INPUTS_E4M3 : INPUTS_INT8;
    return read_strategy(s, at, inputs);
}

static enum status read_compressed(struct input_scheme *s, const cJSON *config)
{
    const cJSON *groups = json_member(config, "config_groups"),
                *group = groups ? groups->child : NULL;
    const cJSON *inputs = json_member(group, "input_activations");
    const char *format = "?";
    char at[100];
    TRY(json_string(config, "format", &format));
    TRY(json_string(group, "format", &format));
    snprintf(at, sizeof at, QUANT ".config_groups.%.30s.input_activations",
             group ? group->string : "");
    if (json_member(group, "output_activations"))
        refuse(s, QUANT ".config_groups.%.30s.output_activations", group->string);
    if (strcmp(format, "mxfp4-pack-quantized") == 0)
        refuse(s, QUANT ".format = \"%.40s\": these weights meet inputs in 8 bits", format);
    return inputs ? read_inputs(s, at, inputs) : ST_OK;
}

static enum status read_method(struct input_scheme *s, const cJSON *config, const char *method)
{
    if (strcmp(method, "fp8") == 0)
        return read_fp8(s, config);
    if (strcmp(method, "compressed-tensors") == 0)
        return read_compressed(s, config);
    if (strcmp(method, "modelopt") == 0)
        return read_modelopt(s, config);
    if (strcmp(method, "bitsandbytes") == 0)
        return read_bnb(s, config);
    if (strcmp(method, "gptq") != 0 && strcmp(method, "awq") != 0)
        refuse(s, QUANT ".quant_method = \"%.40s\"", method);
    return ST_OK;
}

static void say(struct input_scheme *s)
{
    const char *grid = s->rounding == INPUTS_INT8 ? "int8" : "e4m3";
    if (s->refused[0])
        return;
    if (s->rounding == INPUTS_FLOAT)
        snprintf(s->asked, sizeof s->asked, "f32");
    else if (s->from_file)
        snprintf(s->asked, sizeof s->asked, "%s, a scale for each matrix", grid);
    else if (s->group)
        snprintf(s->asked, sizeof s->asked, "%s, a scale for each token and %d columns", grid,
                 s->group);
    else
        snprintf(s->asked, sizeof s->asked, "%s, a scale for each token", grid);
}

static enum status read_root(struct input_scheme *out, const cJSON *root)
{
    const cJSON *text = json_member(root, "text_config");
    const cJSON *own = text ? json_member(text, QUANT) : NULL,
                *config = own ? own : json_member(root, QUANT);
    const char *method = "";
    if (config)
        TRY(json_string(config, "quant_method", &method));
    if (method[0])
        TRY(read_method(out, config, method));
    say(out);
    return ST_OK;
}

enum status input_scheme_parse(struct input_scheme *out, const void *config, size_t len)
{
    cJSON *root;
    memset(out, 0, sizeof *out);
    TRY(json_parse_python(&root, config, len, MAX_TEXT, "config.json"));
    enum status st = read_root(out, root);
    cJSON_Delete(root);
    return st;
}

enum status input_scheme_load(struct input_scheme *out, const char *path)
{
    struct stat info;
    struct mapped_file f;
    char config[4096];
    memset(out, 0, sizeof *out);
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        refuse(out, "a GGUF file says nothing of inputs");
        return ST_OK;
    }
    if ((size_t)snprintf(config, sizeof config, "%s/config.json", path) >= sizeof config)
        FAIL(ST_RANGE, "the model's path is too long");
    TRY(mapped_file_open(&f, config));
    enum status st = input_scheme_parse(out, f.data, f.size);
    mapped_file_close(&f);
    return st;
}
