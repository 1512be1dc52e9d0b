/* quantization_config of compressed-tensors (llm-compressor, quant_method "compressed-tensors"): one
 * scheme for all matrices but the ignored ones.  Formats "pack-quantized" and "int-quantized" are
 * integers, "float-quantized" and "naive-quantized" e4m3, "nvfp4-pack-quantized" and
 * "mxfp4-pack-quantized" floats of 4 bits.  Activations have a scheme of their own in some; they meet
 * integers and MXFP4 in 8 bits, by groups, other floats in f32, unless --activations checkpoint asks for theirs
 * (config_inputs.h).  A scheme for the KV cache says nothing
 * about weights; --kv-dtype chooses the cache's type. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "common/formats/model_config.h"

enum { MAX_GROUP = 1 << 20 };

#define SCHEME "quantization_config: config_groups"

/* Members that would change what the weights stand for. */
static enum status check_rest(const cJSON *config)
{
    const cJSON *turned = json_member(config, "transform_config");
    if (turned && cJSON_GetArraySize(turned) > 0)
        FAIL(ST_UNSUPPORTED, "quantization_config: transform_config is not supported");
    const cJSON *sparsity = json_member(config, "sparsity_config");
    const char *format = "dense";
    if (sparsity && cJSON_IsObject(sparsity))
        TRY(json_string(sparsity, "format", &format));
    if (strcmp(format, "dense") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: sparsity_config: format = \"%.60s\" is not supported", format);
    return config_quant_names(config, "ignore");
}

/* The weights of the only group. */
static enum status find_weights(const cJSON *config, const cJSON **out, const char **format)
{
    const cJSON *groups = json_member(config, "config_groups");
    const cJSON *group = groups ? groups->child : NULL;
    if (!cJSON_IsObject(groups) || !cJSON_IsObject(group))
        FAIL(ST_FORMAT, SCHEME " is not an object of schemes");
    if (group->next)
        FAIL(ST_UNSUPPORTED, SCHEME " has %d schemes, one is supported",
             cJSON_GetArraySize(groups));
    *out = json_member(group, "weights");
    if (!cJSON_IsObject(*out))
        FAIL(ST_UNSUPPORTED, SCHEME ": a scheme without weights is not supported");
    TRY(json_string(config, "format", format));
    return json_string(group, "format", format);
}

static enum status read_group(struct model_config *mc, const cJSON *weights, const char *strategy)
{
    if (strcmp(strategy, "channel") == 0 || strcmp(strategy, "tensor") == 0)
        return ST_OK;
    if (strcmp(strategy, "group") != 0)
        FAIL(ST_UNSUPPORTED, SCHEME ": strategy = \"%.60s\" is not supported for integers",
             strategy);
    TRY(json_need(weights, "group_size"));
    return json_i32(weights, "group_size", 1, MAX_GROUP, &mc->int_group);
}

/* The order of quantisation alone ("static", "weight") leaves no trace in the file. */
static enum status read_order(struct model_config *mc, const cJSON *weights)
{
    const cJSON *item = json_member(weights, "actorder");
    if (!item || cJSON_IsFalse(item))
        return ST_OK;
    mc->int_order =
        cJSON_IsTrue(item) || (cJSON_IsString(item) && strcmp(item->valuestring, "group") == 0);
    if (!mc->int_order && (!cJSON_IsString(item) || (strcmp(item->valuestring, "static") != 0 &&
                                                     strcmp(item->valuestring, "weight") != 0)))
        FAIL(ST_UNSUPPORTED, SCHEME ": actorder is none of \"group\", \"static\" and \"weight\"");
    return ST_OK;
}

static enum status read_integers(struct model_config *mc, const cJSON *weights, const char *format,
                                 const char *strategy, int32_t bits)
{
    bool symmetric = true;
    bool packed = strcmp(format, "pack-quantized") == 0;
    if (!packed && strcmp(format, "int-quantized") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: format = \"%.60s\" is not supported for integers", format);
    if (bits != 8 && (bits != 4 || !packed))
        FAIL(ST_UNSUPPORTED, SCHEME ": num_bits = %d is not supported in the format \"%.60s\"",
             bits, format);
    mc->ints = packed ? INTS_PACKED : INTS_BYTES;
    mc->int_bits = bits;
    TRY(json_bool(weights, "symmetric", &symmetric));
    mc->int_zeros = !symmetric;
    TRY(read_order(mc, weights));
    TRY(read_group(mc, weights, strategy));
    if (mc->int_group == 0)
        mc->int_order = false;
    return ST_OK;
}

/* Floats of 4 bits: what of the scheme is fixed by the format. */
static enum status read_fp4(struct model_config *mc, const cJSON *weights, const char *format,
                            const char *strategy)
{
    bool nv = strcmp(format, "nvfp4-pack-quantized") == 0, symmetric = true;
    int32_t group = nv ? 16 : 32;
    TRY(json_bool(weights, "symmetric", &symmetric));
    TRY(json_i32(weights, "group_size", 1, MAX_GROUP, &group));
    if (!nv && strcmp(format, "mxfp4-pack-quantized") != 0)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: floats of 4 bits in the format \"%.60s\" are not supported",
             format);
    if (strcmp(strategy, nv ? "tensor_group" : "group") != 0 || group != (nv ? 16 : 32) ||
        !symmetric)
        FAIL(ST_UNSUPPORTED,
             SCHEME
             ": strategy = \"%.60s\" with group_size %d%s is not supported for the format \"%s\"",
             strategy, group, symmetric ? "" : " and zero points", format);
    mc->fp4 = nv ? FP4_NV : FP4_MX;
    return ST_OK;
}

static enum status read_floats(struct model_config *mc, const cJSON *weights, const char *format,
                               const char *strategy, int32_t bits)
{
    if (bits == 4)
        return read_fp4(mc, weights, format, strategy);
    if ((strcmp(format, "float-quantized") != 0 && strcmp(format, "naive-quantized") != 0) ||
        bits != 8)
        FAIL(ST_UNSUPPORTED,
             "quantization_config: floats of %d bits in the format \"%.60s\" are not supported",
             bits, format);
    mc->fp8 = true;
    if (strcmp(strategy, "channel") == 0 || strcmp(strategy, "tensor") == 0)
        return ST_OK;
    if (strcmp(strategy, "block") != 0)
        FAIL(ST_UNSUPPORTED, SCHEME ": strategy = \"%.60s\" is not supported for e4m3", strategy);
    TRY(json_need(weights, "block_structure"));
    return config_fp8_block(mc, weights, "block_structure");
}

enum status config_compressed_read(struct model_config *mc, const cJSON *config)
{
    const cJSON *weights = NULL;
    const char *format = "?", *type = "int", *strategy = "tensor";
    int32_t bits = 8;
    TRY(check_rest(config));
    TRY(find_weights(config, &weights, &format));
    TRY(json_string(weights, "type", &type));
    TRY(json_string(weights, "strategy", &strategy));
    TRY(json_i32(weights, "num_bits", 1, 64, &bits));
    if (strcmp(type, "int") == 0)
        return read_integers(mc, weights, format, strategy, bits);
    if (strcmp(type, "float") == 0)
        return read_floats(mc, weights, format, strategy, bits);
    FAIL(ST_UNSUPPORTED, SCHEME ": type = \"%.60s\" is not supported", type);
}
