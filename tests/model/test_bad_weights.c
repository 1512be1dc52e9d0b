/* Packed weights of HuggingFace folders that are not what their configuration says: each fixture is
 * copied, one thing in it is changed, and loading it names the tensor.  And one that says the same in
 * other words. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "temp_dir.h"

#define LAYER "model.layers.0."
#define EXPERTS "model.layers.1.feed_forward.experts."

/* Without a tensor: `from` becomes `to` in config.json, or, where both have one length and config.json
 * has no `from`, in the header of the weights.  With one: its bytes from `at` on become `to`. */
static const struct bad {
    const char *fixture, *tensor;
    size_t at;
    const char *from, *to;
    size_t n; /* bytes of to */
    enum status st;
    const char *text;
} bad[] = {
    /* e4m3 */
    {"llama-fp8-block", LAYER "mlp.up_proj.weight_scale_inv", 0, NULL, "\0\0\xc0\x7f", 4, ST_FORMAT,
     "mlp.up_proj.weight_scale_inv: scale 0 is not finite"},
    {"llama-fp8-block", LAYER "mlp.up_proj.weight_scale_inv", 8, NULL, "\0\0\x80\xff", 4, ST_FORMAT,
     "mlp.up_proj.weight_scale_inv: scale 2 is not finite"},
    {"llama-fp8-channel", LAYER "self_attn.o_proj.weight_scale", 4 * 7, NULL, "\0\0\x80\x7f", 4,
     ST_FORMAT, "self_attn.o_proj.weight_scale: scale 7 is not finite"},
    {"llama-fp8-block", NULL, 0, "0.self_attn.q_proj.weight_scale_inv",
     "0.self_attn.q_proj.weight_scale_inw", 0, ST_NOT_FOUND,
     "the e4m3 tensor model.layers.0.self_attn.q_proj.weight has neither"},
    {"llama-fp8-block", NULL, 0, "0.mlp.up_proj.weight_scale_inv\":{\"dtype\":\"F32\"",
     "0.mlp.up_proj.weight_scale_inv\":{\"dtype\":\"I32\"", 0, ST_UNSUPPORTED,
     "mlp.up_proj.weight_scale_inv: scales of type I32"},
    {"llama-fp8-block", NULL, 0, "\"weight_block_size\": [\n      128",
     "\"weight_block_size\": [\n 256", 0, ST_FORMAT, "are not the scales of"},
    {"llama4-fp8", EXPERTS "gate_up_proj_scale", 4 * 50, NULL, "\0\0\xc0\x7f", 4, ST_FORMAT,
     "experts.gate_up_proj_scale: scale 50 is not finite"},
    {"llama4-fp8", EXPERTS "down_proj_scale", 4 * 679, NULL, "\0\0\x80\x7f", 4, ST_FORMAT,
     "experts.down_proj_scale: scale 679 is not finite"},
    {"llama4-fp8", NULL, 0, "experts.down_proj_scale", "experts.down_proj_scalf", 0, ST_NOT_FOUND,
     "the e4m3 tensor " EXPERTS "down_proj has no " EXPERTS "down_proj_scale beside it"},
    {"llama4-fp8", NULL, 0, "experts.down_proj_scale\":{\"dtype\":\"F32\"",
     "experts.down_proj_scale\":{\"dtype\":\"I32\"", 0, ST_UNSUPPORTED,
     "experts.down_proj_scale: scales of type I32"},
    {"llama4-fp8", NULL, 0, "\"shape\":[5,136,1]", "\"shape\":[5,68,2 ]", 0, ST_FORMAT,
     "are not the scales of the columns of [5,24,136]"},
    /* GPTQ */
    {"llama-gptq", LAYER "mlp.down_proj.scales", 2 * 3, NULL, "\0\x7c", 2, ST_FORMAT,
     "mlp.down_proj.scales: the scale of row 3, group 0 is not finite"},
    {"llama-gptq-order", LAYER "mlp.down_proj.scales", 2 * 64, NULL, "\1\x7e", 2, ST_FORMAT,
     "mlp.down_proj.scales: the scale of row 0, group 1 is not finite"},
    {"llama-gptq", LAYER "mlp.down_proj.qzeros", 4, NULL, "\x76", 1, ST_FORMAT,
     "mlp.down_proj.qzeros: the zero point of row 8, group 0 is 7, but the configuration says that "
     "all "
     "are 8"},
    {"llama-gptq-order", LAYER "mlp.down_proj.qzeros", 4, NULL, "\x76", 1, ST_FORMAT,
     "mlp.down_proj.qzeros: the zero point of row 8, group 0 is 7"},
    {"llama-gptq", LAYER "mlp.down_proj.g_idx", 4 * 33, NULL, "\0", 1, ST_FORMAT,
     "mlp.down_proj.g_idx: column 33 is in group 0, but the configuration says that columns are in "
     "order (desc_act"},
    {"llama-gptq-order", LAYER "mlp.down_proj.g_idx", 4 * 33, NULL, "\x06", 1, ST_FORMAT,
     "mlp.down_proj.g_idx: column 33 is in group 6 of 6"},
    {"llama-gptq-order", LAYER "mlp.down_proj.g_idx", 4 * 33, NULL, "\xff\xff\xff\xff", 4,
     ST_FORMAT, "column 33 is in group 4294967295 of 6"},
    {"llama-gptq", NULL, 0, "0.mlp.down_proj.qzeros", "0.mlp.down_proj.qzerox", 0, ST_NOT_FOUND,
     "the model has no tensor model.layers.0.mlp.down_proj.qzeros"},
    {"llama-gptq", NULL, 0, "0.mlp.down_proj.scales\":{\"dtype\":\"F16\"",
     "0.mlp.down_proj.scales\":{\"dtype\":\"I16\"", 0, ST_UNSUPPORTED,
     "mlp.down_proj.scales: the type I16 is not supported (f32, f16 or bf16 is)"},
    {"llama-gptq", NULL, 0, "0.mlp.down_proj.qweight\":{\"dtype\":\"I32\"",
     "0.mlp.down_proj.qweight\":{\"dtype\":\"U32\"", 0, ST_UNSUPPORTED,
     "mlp.down_proj.qweight: the type U32 is not supported (I32 is)"},
    {"llama-gptq", NULL, 0, "\"bits\": 4", "\"bits\": 8", 0, ST_FORMAT, "qweight: expected"},
    {"llama-gptq", NULL, 0, "\"group_size\": 32", "\"group_size\": 64", 0, ST_FORMAT,
     "scales: expected"},
    {"llama-gptq-order", NULL, 0, "\"desc_act\": true", "\"desc_act\": false", 0, ST_FORMAT,
     "but the configuration says that columns are in order"},
    {"llama-gptq-zeros", NULL, 0, "\"sym\": false", "\"sym\": true", 0, ST_FORMAT,
     "but the configuration says that all are 8"},
    {"llama-gptq-order", NULL, 0, "0.mlp.down_proj.g_idx", "0.mlp.down_proj.g_idy", 0, ST_NOT_FOUND,
     "no tensor model.layers.0.mlp.down_proj.g_idx"},
    {"llama-gptq", LAYER "mlp.down_proj.bias", 5, NULL, "\x3c", 1, ST_UNSUPPORTED,
     "has the tensor model.layers.0.mlp.down_proj.bias"},
    {"llama-gptq", NULL, 0, "\"hidden_size\": 64", "\"hidden_size\": 66", 0, ST_FORMAT, "expected"},
    /* AWQ */
    {"llama-awq", LAYER "mlp.up_proj.scales", 0, NULL, "\0\xfc", 2, ST_FORMAT,
     "mlp.up_proj.scales: the scale of row 0, group 0 is not finite"},
    {"llama-awq", NULL, 0, "0.mlp.up_proj.qzeros", "0.mlp.up_proj.qzerox", 0, ST_NOT_FOUND,
     "no tensor model.layers.0.mlp.up_proj.qzeros"},
    {"llama-awq", NULL, 0, "0.mlp.up_proj.qweight", "0.mlp.up_proj.qweighs", 0, ST_NOT_FOUND,
     "no tensor model.layers.0.mlp.up_proj.weight"},
    {"llama-awq", NULL, 0, "\"group_size\": 64", "\"group_size\": 32", 0, ST_FORMAT,
     "scales: expected"},
    {"llama-awq", NULL, 0, "\"quant_method\": \"awq\"", "\"quant_method\": \"gptq\"", 0, ST_FORMAT,
     "qweight: expected"},
    /* compressed-tensors */
    {"llama-int4", LAYER "mlp.up_proj.weight_scale", 2, NULL, "\xc0\x7f", 2, ST_FORMAT,
     "mlp.up_proj.weight_scale: the scale of row 1, group 0 is not finite"},
    {"llama-int4", LAYER "mlp.up_proj.weight_shape", 0, NULL, "\x05", 1, ST_FORMAT,
     "mlp.up_proj.weight_shape: expected [192,64] got [5,64]"},
    {"llama-int4", NULL, 0, "\"symmetric\": true,\n          \"dynamic\": false",
     "\"symmetric\": false,\n \"dynamic\": false", 0, ST_NOT_FOUND, "weight_zero_point"},
    {"llama-int4-zeros", NULL, 0, "\"symmetric\": false", "\"symmetric\": true", 0, ST_UNSUPPORTED,
     "weight_zero_point, which LlamaForCausalLM with this configuration does not use"},
    {"llama-int4-order", LAYER "self_attn.q_proj.weight_g_idx", 0, NULL, "\x02", 1, ST_FORMAT,
     "self_attn.q_proj.weight_g_idx: column 0 is in group 2 of 2"},
    {"llama-int8", NULL, 0, "0.mlp.up_proj.weight_scale", "0.mlp.up_proj.weight_scalx", 0,
     ST_NOT_FOUND, "no tensor model.layers.0.mlp.up_proj.weight_scale"},
    {"llama-int8", NULL, 0, "0.mlp.up_proj.weight\":{\"dtype\":\"I8\"",
     "0.mlp.up_proj.weight\":{\"dtype\":\"U8\"", 0, ST_UNSUPPORTED,
     "mlp.up_proj.weight: the type U8 is not supported"},
    {"llama-int8-f32", LAYER "mlp.up_proj.weight_scale", 4, NULL, "\0\0\x80\x7f", 4, ST_FORMAT,
     "mlp.up_proj.weight_scale: the scale of row 1, group 0 is not finite"},
    /* bitsandbytes */
    {"llama-nf4", LAYER "mlp.up_proj.weight.absmax", 8, NULL, "\0\0\xc0\x7f", 4, ST_FORMAT,
     "mlp.up_proj.weight.absmax: the scale of row 2, block 0 is not finite"},
    {"llama-nf4", LAYER "mlp.up_proj.weight.quant_map", 4, NULL, "\0\0\0\xbf", 4, ST_UNSUPPORTED,
     "mlp.up_proj.weight.quant_map: level 1 is -0.5, that of nf4 is -0.696193"},
    {"llama-nf4", NULL, 0, "0.mlp.up_proj.weight.absmax", "0.mlp.up_proj.weight.absmay", 0,
     ST_NOT_FOUND, "no tensor model.layers.0.mlp.up_proj.weight.absmax"},
    {"llama-nf4", NULL, 0, "0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4",
     "0.mlp.up_proj.weight.quant_state.bitsandbytes__nf5", 0, ST_NOT_FOUND,
     "it has no quant_state"},
    {"llama-nf4", NULL, 0, "\"blocksize\": 64", "\"blocksize\": 80", 0, ST_UNSUPPORTED,
     "blocks of 80 weights cut rows of"},
    {"llama-nf4", NULL, 0, "\"blocksize\": 64", "\"blocksize\": 32", 0, ST_FORMAT,
     "weight.absmax: expected"},
    {"llama-nf4", NULL, 0, "\"blocksize\": 64", "\"blocksize\": -4", 0, ST_RANGE,
     "blocksize is -4"},
    {"llama-nf4", NULL, 0, "\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\"", 0, ST_UNSUPPORTED,
     "quant_type \"fp4\""},
    {"llama-nf4", NULL, 0, "\"shape\": [64, 192]", "\"shape\": [192, 64]", 0, ST_FORMAT,
     "its shape is not [64,192]"},
    {"llama-nf4", NULL, 0, "{\"quant_type\"", "[\"quant_type\"", 0, ST_FORMAT, "quant_state"},
    {"llama-nf4-double", LAYER "mlp.up_proj.weight.nested_absmax", 0, NULL, "\0\0\x80\x7f", 4,
     ST_FORMAT, "mlp.up_proj.weight.absmax: the scale of row 0, block 0 is not finite"},
    {"llama-nf4-double", NULL, 0, "\"nested_blocksize\": 256", "\"nested_blocksize\": 128", 0,
     ST_FORMAT, "nested_absmax: expected"},
    {"llama-bnb8", LAYER "mlp.up_proj.SCB", 4, NULL, "\0\0\x80\x7f", 4, ST_FORMAT,
     "mlp.up_proj.SCB: the scale of row 1, group 0 is not finite"},
    {"llama-bnb8", LAYER "mlp.up_proj.weight_format", 0, NULL, "\2", 1, ST_UNSUPPORTED,
     "mlp.up_proj.weight_format is 2"},
    /* NVFP4, MXFP4 */
    {"llama-nvfp4", LAYER "mlp.up_proj.weight_scale", 5, NULL, "\x7f", 1, ST_FORMAT,
     "mlp.up_proj.weight_scale: the scale of row 1, block 1 is not finite"},
    {"llama-nvfp4", LAYER "mlp.up_proj.weight_global_scale", 0, NULL, "\0\0\0\0", 4, ST_FORMAT,
     "mlp.up_proj.weight_global_scale: 0 is no scale"},
    {"llama-nvfp4", LAYER "mlp.up_proj.weight_global_scale", 0, NULL, "\1\0\0\0", 4, ST_FORMAT,
     "mlp.up_proj.weight_scale: the scale of row 0, block 0 is not finite"},
    {"llama-nvfp4", NULL, 0, "0.mlp.up_proj.weight_scale\":{\"dtype\":\"F8_E4M3\"",
     "0.mlp.up_proj.weight_scale\":{\"dtype\":\"U8\"     ", 0, ST_UNSUPPORTED,
     "mlp.up_proj.weight_scale: the type U8 is not supported"},
    {"llama-nvfp4-modelopt", LAYER "mlp.up_proj.weight_scale_2", 0, NULL, "\0\0\xc0\x7f", 4,
     ST_FORMAT, "mlp.up_proj.weight_scale_2: nan is no scale"},
    {"llama-nvfp4-modelopt", NULL, 0, "0.mlp.up_proj.weight_scale_2",
     "0.mlp.up_proj.weight_scale_3", 0, ST_NOT_FOUND,
     "no tensor model.layers.0.mlp.up_proj.weight_scale_2"},
    {"llama-ct-mxfp4", NULL, 0, "0.mlp.up_proj.weight_scale", "0.mlp.up_proj.weight_scalx", 0,
     ST_NOT_FOUND, "no tensor model.layers.0.mlp.up_proj.weight_scale"},
};

/* With --activations checkpoint. */
#define STATIC "../inputs/int8-static"
static const struct bad bad_inputs[] = {
    {STATIC, NULL, 0, "0.mlp.up_proj.input_scale", "0.mlp.up_proj.input_scalx", 0, ST_NOT_FOUND,
     "no tensor model.layers.0.mlp.up_proj.input_scale"},
    {STATIC, LAYER "mlp.down_proj.input_scale", 0, NULL, "\0\0\0\0", 4, ST_FORMAT,
     "layers.0.mlp.down_proj.input_scale is 0: a scale is above 0"},
    {STATIC, LAYER "mlp.down_proj.input_scale", 0, NULL, "\0\0\xc0\x7f", 4, ST_FORMAT,
     "layers.0.mlp.down_proj.input_scale is nan: a scale is above 0"},
    {STATIC, NULL, 0, "\"dynamic\": false\n    },\n    \"output",
     "\"dynamic\": true\n    },\n    \"output", 0, ST_UNSUPPORTED,
     "input_activations.strategy = \"tensor\" with dynamic = true"},
    {"../inputs/ct-fp8-static-experts", LAYER "mlp.experts.2.up_proj.input_scale", 0, NULL, "\1", 1,
     ST_UNSUPPORTED, "expert 2 of layer 0 has scales"},
};

/* The first place of text in n bytes, or NULL. */
static char *place(char *in, size_t n, const char *text)
{
    size_t m = strlen(text);
    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(in + i, text, m) == 0)
            return in + i;
    return NULL;
}

static void edit_tensor(const struct bad *b, char *file, size_t size)
{
    struct safetensors st;
    must(safetensors_parse(&st, (unsigned char *)file, size, b->fixture), b->fixture);
    const struct st_tensor *t = safetensors_find(&st, b->tensor);
    cr_assert(t && b->at + b->n <= t->n_bytes, "%s: %s", b->fixture, b->tensor);
    cr_assert_neq(memcmp(file + t->offset + b->at, b->to, b->n), 0, "nothing changes");
    memcpy(file + t->offset + b->at, b->to, b->n);
    safetensors_fini(&st);
}

static void put_file(const char *path, const char *a, size_t n, const char *b, size_t m,
                     const char *c, size_t l)
{
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert(fwrite(a, 1, n, f) == n && fwrite(b, 1, m, f) == m && fwrite(c, 1, l, f) == l);
    cr_assert_eq(fclose(f), 0);
}

static void write_edited(const struct bad *b, const char *dir)
{
    char path[1200];
    size_t n_config, n_file;
    snprintf(path, sizeof path, "%s/config.json", golden_dir(b->fixture));
    char *config = read_file(path, &n_config), *at = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", golden_dir(b->fixture));
    char *file = read_file(path, &n_file);
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (b->tensor) {
        edit_tensor(b, file, n_file);
    } else if (!(at = place(config, n_config, b->from))) {
        char *name = place(file, n_file, b->from);
        cr_assert(name && strlen(b->from) == strlen(b->to), "%s has no %s", b->fixture, b->from);
        memcpy(name, b->to, strlen(b->to));
    }
    size_t before = at ? (size_t)(at - config) : n_config;
    size_t behind = at ? before + strlen(b->from) : n_config;
    put_file(path, config, before, b->to, at ? strlen(b->to) : 0, config + behind,
             n_config - behind);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    put_file(path, file, n_file, "", 0, "", 0);
    free(config);
    free(file);
}

static enum status load(const char *dir, bool checkpoint)
{
    struct backend_config bc = {.threads = 1, .isa = rig_isa()};
    struct backend *be;
    struct loader *ld;
    struct engine *e = NULL;
    must(backend_open(&be, "cpu", &bc), "backend");
    enum status st = loader_open(&ld, dir);
    if (st == ST_OK && checkpoint)
        st = loader_round_inputs(ld);
    if (st == ST_OK) {
        struct decoder_config cfg =
            rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
        st = engine_create(&e, ld, be, NULL, &cfg);
    }
    engine_destroy(e);
    loader_close(ld);
    backend_ops_of(be)->close(be);
    return st;
}

static void refused(const struct bad *rows, size_t n, bool checkpoint)
{
    for (size_t i = 0; i < n; i++) {
        char dir[64];
        temp_dir_make(dir);
        write_edited(&rows[i], dir);
        enum status st = load(dir, checkpoint);
        cr_assert_eq(st, rows[i].st, "row %zu, %s: %s, not %s: %s", i, rows[i].text,
                     status_name(st), status_name(rows[i].st), st == ST_OK ? "" : status_detail());
        cr_assert_not_null(strstr(status_detail(), rows[i].text),
                           "row %zu: \"%s\" says nothing of \"%s\"", i, status_detail(),
                           rows[i].text);
        temp_dir_remove(dir);
    }
}

Test(bad_weights, are_refused_by_name)
{
    refused(bad, ARRAY_LEN(bad), false);
}

Test(bad_weights, scales_of_inputs_are_refused_by_name)
{
    refused(bad_inputs, ARRAY_LEN(bad_inputs), true);
}

/* The logits of the fixture's tokens with the model in dir; freed by the caller. */
static float *logits_of(const char *dir, const struct golden *g)
{
    struct rig r;
    float *logits = malloc((size_t)g->n * (size_t)g->vocab * sizeof *logits);
    rig_open(&r, dir, (struct rig_config){0});
    must(engine_prepare(r.e, 1, g->n), "prepare");
    must(engine_forward_verify(r.e, 1, g->ids, g->n, logits), dir);
    rig_close(&r);
    return logits;
}

/* compressed-tensors' "float-quantized" has the tensors of the method fp8. */
Test(bad_weights, e4m3_of_compressed_tensors)
{
    static const struct bad same[] = {
        {"llama-fp8-channel", NULL, 0, "\"quant_method\": \"fp8\"",
         "\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\",\"config_groups\":"
         "{"
         "\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8,\"type\":\"float\","
         "\"strategy\":\"channel\"}}}",
         0, ST_OK, ""},
        {"llama-fp8-block", NULL, 0, "\"quant_method\": \"fp8\"",
         "\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"format\":"
         "\"float-quantized\",\"weights\":{\"num_bits\":8,\"type\":\"float\",\"strategy\":"
         "\"block\",\"block_structure\":[128,128]}}}",
         0, ST_OK, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        char dir[64];
        struct golden g;
        golden_open(&g, golden_dir(same[i].fixture));
        temp_dir_make(dir);
        write_edited(&same[i], dir);
        float *want = logits_of(golden_dir(same[i].fixture), &g), *got = logits_of(dir, &g);
        cr_assert_eq(memcmp(want, got, (size_t)g.n * (size_t)g.vocab * sizeof *got), 0, "%s",
                     same[i].fixture);
        free(want);
        free(got);
        golden_close(&g);
        temp_dir_remove(dir);
    }
}
