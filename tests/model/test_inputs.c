/* --activations checkpoint: inputs of quantised matrices are rounded as the checkpoint's scheme says.  Logits and greedy
 * ids are those of tests/golden/make_inputs.py, whose sequences have no value near the middle of a step; they have the
 * same bits on 1, 2 and 4 ranks, in chunks and on every instruction set, and others without the rounding. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static const struct input_case {
    const char *name;
    int max_world; /* of 1, 2 and 4 */
} cases[] = {{"fp8-block", 4},        {"fp8-block-experts", 4},    {"fp8-static", 4},
             {"int8-token", 4},       {"int8-token-f32", 4},       {"int8-token-zeros", 4},
             {"int8-static", 4},      {"ct-fp8-token", 4},         {"ct-fp8-static", 4},
             {"ct-fp8-group", 4},     {"ct-fp8-token-experts", 4}, {"ct-fp8-static-experts", 4},
             {"fp8-block-latent", 1}, {"fp8-block-delta", 1}};

struct expected {
    char dir[1024];
    int32_t n, n_prompt, vocab;
    int32_t ids[64];
    float *logits; /* [n, vocab] */
};

static void expected_open(struct expected *x, const char *name)
{
    char path[1100];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/golden/inputs/%s/expected.json", INGOT_SOURCE_DIR, name);
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text), *id;
    cr_assert_not_null(root, "%s", path);
    const char *model = cJSON_GetObjectItem(root, "model")->valuestring;
    if (*model)
        snprintf(x->dir, sizeof x->dir, "%s", golden_dir(model));
    else
        snprintf(x->dir, sizeof x->dir, "%s/tests/golden/inputs/%s", INGOT_SOURCE_DIR, name);
    x->vocab = cJSON_GetObjectItem(root, "vocab_size")->valueint;
    x->n_prompt = cJSON_GetObjectItem(root, "n_prompt")->valueint;
    x->n = 0;
    cJSON_ArrayForEach(id, cJSON_GetObjectItem(root, "input_ids")) x->ids[x->n++] = id->valueint;
    cJSON_Delete(root);
    free(text);
    snprintf(path, sizeof path, "%s/tests/golden/inputs/%s/logits.f32", INGOT_SOURCE_DIR, name);
    x->logits = (float *)(void *)read_file(path, &size);
    cr_assert_eq(size, (size_t)x->n * (size_t)x->vocab * sizeof(float), "%s", path);
}

static float *run_on(const struct expected *x, int world, int32_t chunk, struct rig_config cfg)
{
    return rig_logits(x->dir, cfg, world, x->ids, x->n, x->vocab, chunk);
}

static double distance(const struct expected *x, const float *got)
{
    return rig_distance(got, x->logits, x->n, x->vocab);
}

static int32_t greedy(const struct expected *x, const float *logits, int32_t t)
{
    const float *row = logits + (size_t)t * (size_t)x->vocab;
    int32_t best = 0;
    for (int32_t v = 1; v < x->vocab; v++)
        best = row[v] > row[best] ? v : best;
    return best;
}

Test(inputs, give_the_references_logits_on_any_number_of_ranks)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct expected x;
        expected_open(&x, cases[i].name);
        size_t bytes = (size_t)x.n * (size_t)x.vocab * sizeof(float);
        float *one = run_on(&x, 1, x.n, (struct rig_config){.checkpoint = true});
        double off = distance(&x, one);
        cr_expect(off <= 1e-4, "%s: relative difference %g", cases[i].name, off);
        for (int32_t t = x.n_prompt - 1; t + 1 < x.n; t++)
            cr_expect_eq(greedy(&x, one, t), x.ids[t + 1], "%s: id %d", cases[i].name, t + 1);
        for (int world = 1; world <= cases[i].max_world; world *= 2) {
            float *parts = run_on(&x, world, 3, (struct rig_config){.checkpoint = true});
            cr_expect_arr_eq(parts, one, bytes, "%s: other bits on %d ranks in chunks",
                             cases[i].name, world);
            free(parts);
        }
        float *plain = run_on(&x, 1, x.n, (struct rig_config){.checkpoint = true, .isa = "plain"});
        cr_expect_arr_eq(plain, one, bytes, "%s: other bits on the plain path", cases[i].name);
        float *as_float = run_on(&x, 1, x.n, (struct rig_config){0});
        off = distance(&x, as_float);
        cr_expect(off > 1e-2, "%s: without rounding off by only %g", cases[i].name, off);
        free(plain);
        free(as_float);
        free(one);
        free(x.logits);
    }
}

/* ---- what is refused ---- */

/* Opens the model of that name as rank 0 of world. */
static void refused(const char *name, int world, const char *says)
{
    struct loader *ld;
    struct backend *be;
    struct decoder_memory memory;
    struct backend_config bc = {.threads = 1};
    must(backend_open(&be, "cpu", &bc), "backend");
    must(loader_open(&ld, golden_dir(name)), name);
    enum status st = loader_round_inputs(ld);
    struct decoder_config cfg =
        rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, world);
    if (st == ST_OK)
        st = decoder_plan_memory(&memory, loader_config(ld), ld, be, &cfg);
    cr_expect_eq(st, ST_UNSUPPORTED, "%s: %s", name, status_name(st));
    cr_expect(strstr(status_text(), "--activations checkpoint: ") && strstr(status_text(), says),
              "'%s' lacks '%s'", status_text(), says);
    loader_close(ld);
    backend_ops_of(be)->close(be);
}

Test(inputs, what_is_not_supported_is_named)
{
    refused("llama-nvfp4", 1, "input_activations.num_bits = 4");
    refused("llama-nvfp4-modelopt", 1, "quantization_config.quant_algo = \"NVFP4\"");
    refused("llama-bnb8", 1, "quantization_config.load_in_8bit = true");
    refused("gpt-oss-mxfp4", 1, "quantization_config.quant_method = \"mxfp4\"");
    refused("llama-ct-mxfp4", 1, "quantization_config.format = \"mxfp4-pack-quantized\"");
}

/* Weights alone are quantised: inputs are in f32, where they otherwise are in blocks of 8 bits. */
Test(inputs, weights_alone_meet_floats)
{
    static const char *const names[] = {"llama-gptq",        "llama-awq",     "llama-int4",
                                        "llama-int8-packed", "qwen3moe-gptq", "llama-mha"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct golden g;
        golden_open(&g, golden_dir(names[i]));
        struct expected x = {.n = 48, .vocab = g.vocab, .logits = g.logits};
        snprintf(x.dir, sizeof x.dir, "%s", golden_dir(names[i]));
        memcpy(x.ids, g.ids, 48 * sizeof *g.ids);
        float *got = run_on(&x, 2, 5, (struct rig_config){.checkpoint = true});
        double off = distance(&x, got);
        cr_expect(off <= 1e-4, "%s: relative difference %g", names[i], off);
        free(got);
        golden_close(&g);
    }
}
