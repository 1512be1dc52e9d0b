/* GGUF weights: the golden models of every family written as GGUF give the logits of transformers,
 * the stories260K files their own ids, and files that are not what they say one clear line. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "make_gguf.h"
#include "quant_blocks.h"
#include "rig.h"
#include "worker/load/derive.h"

/* GGUF has no key for MiniCPM's factors, for weights of a token's experts that are not divided by their sum, for
 * query_pre_attn_scalar, for windows in other layers than the pattern's and for SmolLM3's layers
 * without RoPE. */
static bool can_be_gguf(const char *name)
{
    struct model_config mc;
    must(model_config_load(&mc, golden_dir(name)), name);
    int32_t pattern = mc.arch->nope == NOPE_UNWINDOWED ? 4 : mc.arch->local_rope ? 3 : 2;
    bool listed = mc.arch->wide_qk_norm; /* the pattern is a list */
    if (mc.arch->wide_qk_norm && mc.arch->local_rope && mc.rope.theta != mc.local_rope.theta)
        return false;
    if (mc.arch->window == WINDOW_EVEN && mc.window)
        return false;
    if (mc.fp8 || mc.fp4 != FP4_NONE || mc.ints != INTS_NONE)
        return false;
    if (mc.arch->delta || mc.arch->names || mc.arch->global_heads || mc.arch->unit_qk_norm)
        return false;          /* make_gguf.c does not write them; test_foreign_gguf.c has files */
    if (mc.arch->depth_scales) /* MiniCPM3-4B's are not in the file */
        return mc.embed_scale == 12 && mc.residual_scale != 1 && mc.logit_scale * mc.hidden == 256;
    if (mc.kv_rank > 0)
        return mc.rope.interleaved && mc.rope.attention_factor == 1;
    if (mc.mxfp4 || (mc.glu_limit > 0 && mc.glu_limit != 7))
        return false;
    if (strcmp(mc.arch->name, "MinistralForCausalLM") == 0)
        return false; /* its public converters write the architecture llama, all layers alike */
    for (int32_t i = 0;
         mc.arch->window == WINDOW_PATTERN && !listed && mc.window && i < mc.n_layers; i++)
        if (mc.windowed[i] != ((i + 1) % pattern != 0))
            return false;
    for (int32_t i = 0; mc.arch->nope == NOPE_LISTED && i < mc.n_layers; i++)
        if (mc.nope[i] != ((i + 1) % 4 == 0))
            return false;
    bool divided = !mc.arch->shared_option && mc.arch->experts != EXPERTS_OLMO;
    return (mc.n_experts == 0 || mc.arch->experts == EXPERTS_GROUPS || mc.renormalise == divided) &&
           (!mc.arch->soft_caps || mc.attn_scale == 1 / sqrt(mc.d_head));
}

/* Also with what the golden file does not say: two ids that end a text. */
static void golden_as_gguf(const char *name)
{
    struct golden g;
    struct rig r;
    const char *path = gguf_make(golden_dir(name), &(struct gguf_recipe){0});
    golden_open(&g, golden_dir(name));
    rig_open(&r, path, (struct rig_config){0});
    cr_assert_eq(r.mc->n_eos, 2);
    float *logits = malloc((size_t)g.n * (size_t)g.vocab * sizeof *logits);
    must(engine_prepare(r.e, 1, g.n), "prepare");
    must(engine_forward_verify(r.e, 1, g.ids, g.n, logits), "forward");
    for (int32_t t = 0; t < g.n; t++) {
        const float *got = logits + (size_t)t * (size_t)g.vocab, *want = g.logits + (got - logits);
        double diff = 0, top = 0;
        for (int32_t v = 0; v < g.vocab; v++) {
            cr_assert_not(isnan(got[v]));
            diff = fmax(diff, fabs((double)got[v] - (double)want[v]));
            top = fmax(top, fabs((double)want[v]));
        }
        cr_assert(diff <= 1e-4 * top, "%s: position %d: relative difference %g", name, t,
                  diff / top);
    }
    free(logits);
    rig_close(&r);
    golden_close(&g);
    unlink(path);
}

Test(gguf_model, golden_models)
{
    int n = 0;
    for (size_t i = 0; i < n_golden; i++)
        if (can_be_gguf(golden_names[i])) {
            golden_as_gguf(golden_names[i]);
            n++;
        }
    cr_assert_geq(n, 57);
}

/* ---- stories260K ---- */

struct story {
    int32_t prompt[64], ids[256], n_prompt, n_ids;
    double first[512];
    double tolerance; /* of the first logits */
    double gap;       /* by which the expected token may miss the greatest logit */
};

static int32_t ids_of(const cJSON *list, int32_t *out, int32_t cap)
{
    const cJSON *c;
    int32_t n = 0;
    cJSON_ArrayForEach(c, list)
    {
        cr_assert_lt(n, cap);
        out[n++] = c->valueint;
    }
    return n;
}

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* Greedy ids on every rank; the expected ones are fed, so a near tie has no consequences. */
static enum status tell(void *ctx, struct engine *e, int rank)
{
    const struct story *s = ctx;
    float logits[512];
    TRY(engine_prefill(e, 1, s->prompt, s->n_prompt, logits));
    for (int32_t i = 0; i < 512; i++)
        if (fabs((double)logits[i] - s->first[i]) > s->tolerance)
            FAIL(ST_BUG, "first logit %d: %g, not %g", i, (double)logits[i], s->first[i]);
    for (int32_t i = 0; i < s->n_ids; i++) {
        int32_t id = argmax(logits, 512), want = s->ids[i];
        if (id != want && (double)logits[id] - (double)logits[want] > s->gap)
            FAIL(ST_BUG, "rank %d: token %d is %d, not %d", rank, i, id, want);
        TRY(engine_decode(e, 1, want, s->n_prompt + i, logits));
    }
    engine_release(e, 1);
    return ST_OK;
}

static void check_story(const char *path, const cJSON *c, double tolerance, double gap)
{
    struct story s = {.tolerance = tolerance, .gap = gap};
    const cJSON *item;
    int32_t i = 0;
    s.n_prompt = ids_of(cJSON_GetObjectItem(c, "prompt_ids"), s.prompt, 64);
    s.n_ids = ids_of(cJSON_GetObjectItem(c, "ids"), s.ids, 256);
    cr_assert_geq(s.n_ids, 100);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(c, "first_logits")) s.first[i++] =
        item->valuedouble;
    cr_assert_eq(i, 512);
    for (int world = 1; world <= 4; world *= 2)
        rig_group(path, (struct rig_config){.max_ctx = 512, .n_blocks = 64}, world, tell, &s);
}

static void check_stories(const char *file, double tolerance, double gap)
{
    size_t size;
    int n = 0;
    const char *expected = shared_data("models/stories260K/gguf_expected.json");
    if (!expected)
        cr_skip_test("no shared data: models/stories260K/gguf_expected.json");
    char *text = read_file(expected, &size), path[1024], name[128];
    cJSON *root = cJSON_Parse(text);
    const cJSON *f, *c;
    snprintf(name, sizeof name, "models/stories260K/%.60s", file);
    const char *model = shared_data(name);
    cr_assert_not_null(model);
    snprintf(path, sizeof path, "%s", model);
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(root, "files"))
    {
        if (strcmp(cJSON_GetObjectItem(f, "file")->valuestring, file) != 0)
            continue;
        cJSON_ArrayForEach(c, cJSON_GetObjectItem(f, "cases"))
        {
            check_story(path, c, tolerance, gap);
            n++;
        }
    }
    cr_assert_eq(n, 3);
    cJSON_Delete(root);
    free(text);
}

Test(gguf_model, stories_f32)
{
    check_stories("model.gguf", 1e-4, 0);
}

Test(gguf_model, stories_f16)
{
    check_stories("model-f16.gguf", 1e-4, 0);
}

Test(gguf_model, stories_bf16)
{
    check_stories("model-bf16.gguf", 1e-4, 0);
}

/* The expected figures have activations in float, the backend has them in 8 bits. */
Test(gguf_model, stories_q8_0)
{
    check_stories("model-q8_0.gguf", 0.2, 0.1);
}

Test(gguf_model, stories_q4_0)
{
    check_stories("model-q4_0.gguf", 0.2, 0.1);
}

/* ---- files that are not what they say ---- */

static void refused(const char *path, enum status want, const char *says)
{
    struct backend_config bc = {.threads = 1};
    struct decoder_memory memory;
    struct backend *be;
    struct loader *ld;
    must(backend_open(&be, "cpu", &bc), "backend");
    enum status st = loader_open(&ld, path);
    if (st == ST_OK) {
        struct decoder_config cfg =
            rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
        st = decoder_plan_memory(&memory, loader_config(ld), ld, be, &cfg);
    }
    loader_close(ld);
    backend_ops_of(be)->close(be);
    cr_expect_eq(st, want, "%s, not %s: %s", status_name(want), status_name(st), status_text());
    cr_expect_not_null(strstr(status_text(), says), "\"%s\" says nothing of \"%s\"", status_text(),
                       says);
    cr_expect_null(strchr(status_text(), '\n'));
}

static void refused_model(const char *name, struct gguf_recipe r, enum status want,
                          const char *says)
{
    const char *path = gguf_make(golden_dir(name), &r);
    refused(path, want, says);
    unlink(path);
}

static void refused_recipe(struct gguf_recipe r, enum status want, const char *says)
{
    refused_model("llama-gqa", r, want, says);
}

Test(gguf_model, keys_that_are_wrong)
{
    static const struct {
        const char *key;
        uint32_t value;
        enum status st;
        const char *says;
    } rows[] = {
        {"llama.embedding_length", 0, ST_RANGE, "llama.embedding_length is 0"},
        {"llama.embedding_length", 48, ST_FORMAT, "expected [104,48] got [104,64]"},
        {"llama.block_count", 100000, ST_RANGE, "llama.block_count"},
        {"llama.block_count", 3, ST_NOT_FOUND, "blk.2.attn_norm.weight"},
        {"llama.block_count", 1, ST_UNSUPPORTED, "blk.1."},
        {"llama.attention.head_count", 0, ST_RANGE, "llama.attention.head_count"},
        {"llama.attention.head_count_kv", 3, ST_RANGE, "3 key/value heads"},
        {"llama.attention.value_length", 2, ST_UNSUPPORTED, "values of 2"},
        {"llama.rope.dimension_count", 7, ST_RANGE, "7 rotated elements"},
        {"llama.rope.scaling.type", 1, ST_FORMAT, "llama.rope.scaling.type"},
        {"llama.vocab_size", 103, ST_FORMAT, "llama.vocab_size says 103"},
        {"llama.expert_count", 8, ST_FORMAT, "llama.expert_used_count is missing"},
        {"llama.logit_scale", 2, ST_UNSUPPORTED, "llama.logit_scale is not understood"},
        {"split.count", 2, ST_FORMAT, "no split.no"},
        {"general.architecture", 1, ST_FORMAT, "general.architecture"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        refused_recipe((struct gguf_recipe){.key = rows[i].key, .value = rows[i].value}, rows[i].st,
                       rows[i].says);
}

/* No token has them: they are never sampled. */
Test(gguf_model, ids_beyond_the_vocabulary)
{
    struct model_config mc;
    const char *path =
        gguf_make(golden_dir("llama-gqa"),
                  &(struct gguf_recipe){.key = "tokenizer.ggml.eos_token_id", .value = UINT32_MAX});
    must(model_config_load(&mc, path), path);
    cr_assert(mc.n_eos == 1 && mc.eos_id[0] != -1);
    unlink(path);
}

Test(gguf_model, things_that_are_missing_or_too_many)
{
    static const struct {
        const char *name;
        enum status st;
    } rows[] = {
        {"general.architecture", ST_NOT_FOUND},
        {"llama.context_length", ST_FORMAT},
        {"llama.attention.layer_norm_rms_epsilon", ST_FORMAT},
        {"token_embd.weight", ST_NOT_FOUND},
        {"blk.1.ffn_down.weight", ST_NOT_FOUND},
        {"output_norm.weight", ST_NOT_FOUND},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        refused_recipe((struct gguf_recipe){.without = rows[i].name}, rows[i].st, rows[i].name);
    refused_recipe((struct gguf_recipe){.tensor = "blk.0.attn_q_norm.weight"}, ST_UNSUPPORTED,
                   "blk.0.attn_q_norm.weight");
    refused_recipe((struct gguf_recipe){.tensor = "rope_freqs.weight"}, ST_FORMAT,
                   "rope_freqs.weight");
    refused_recipe((struct gguf_recipe){.tensor = "rope_factors_long.weight"}, ST_UNSUPPORTED,
                   "rope_factors_long.weight");
}

Test(gguf_model, experts_that_are_wrong)
{
    static const struct {
        const char *key;
        uint32_t value;
        enum status st;
        const char *says;
    } rows[] = {
        {"qwen3moe.expert_count", 0, ST_FORMAT, "qwen3moe.expert_count is missing or 0"},
        {"qwen3moe.expert_count", 7, ST_FORMAT, "expected [7,32] got [8,32]"},
        {"qwen3moe.expert_used_count", 9, ST_RANGE, "qwen3moe.expert_used_count is 9"},
        {"qwen3moe.expert_used_count", 0, ST_RANGE, "qwen3moe.expert_used_count is 0"},
        {"qwen3moe.expert_feed_forward_length", 21, ST_FORMAT, "expected [8,21,32] got [8,20,32]"},
        {"qwen3moe.expert_shared_count", 1, ST_UNSUPPORTED, "expert_shared_count is not"},
        {"qwen3moe.expert_gating_func", 2, ST_UNSUPPORTED, "expert_gating_func is not"},
    };
    static const struct {
        const char *name;
        enum status st;
    } missing[] = {
        {"qwen3moe.expert_used_count", ST_FORMAT},
        {"qwen3moe.expert_feed_forward_length", ST_FORMAT},
        {"blk.0.ffn_up_exps.weight", ST_NOT_FOUND},
        {"blk.1.ffn_down_exps.weight", ST_NOT_FOUND},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        refused_model("qwen3moe", (struct gguf_recipe){.key = rows[i].key, .value = rows[i].value},
                      rows[i].st, rows[i].says);
    for (size_t i = 0; i < ARRAY_LEN(missing); i++)
        refused_model("qwen3moe", (struct gguf_recipe){.without = missing[i].name}, missing[i].st,
                      missing[i].name);
    /* a layer without a router is a dense one, which this file does not have */
    refused_model("qwen3moe", (struct gguf_recipe){.without = "blk.1.ffn_gate_inp.weight"},
                  ST_NOT_FOUND, "blk.1.ffn_gate.weight");
    refused_recipe((struct gguf_recipe){.tensor = "blk.0.ffn_gate_inp.weight"}, ST_UNSUPPORTED,
                   "blk.0.ffn_gate_inp.weight");
}

Test(gguf_model, latent_attention_that_is_not_what_it_says)
{
    static const struct {
        const char *key;
        uint32_t value;
        enum status st;
        const char *says;
    } rows[] = {
        {"deepseek2.attention.kv_lora_rank", 0, ST_RANGE, "deepseek2.attention.kv_lora_rank is 0"},
        {"deepseek2.attention.kv_lora_rank", 25, ST_RANGE, "must be even"},
        {"deepseek2.attention.kv_lora_rank", 26, ST_FORMAT, "attn_kv_a_mqa.weight: expected"},
        {"deepseek2.attention.q_lora_rank", 22, ST_FORMAT, "attn_q_a.weight: expected"},
        {"deepseek2.attention.key_length", 8, ST_RANGE, "deepseek2.attention.key_length is 8"},
        {"deepseek2.attention.value_length", 12, ST_FORMAT, "expected"},
        {"deepseek2.attention.head_count_kv", 1, ST_FORMAT, "head_count_kv is 1, not 6"},
        {"deepseek2.expert_gating_func", 1, ST_UNSUPPORTED, "only the sigmoid (2) is supported"},
        {"deepseek2.attention.scale", 1, ST_UNSUPPORTED, "attention.scale is not understood"},
    };
    static const struct {
        const char *name;
        enum status st;
    } missing[] = {
        {"deepseek2.attention.kv_lora_rank", ST_FORMAT},
        {"deepseek2.rope.dimension_count", ST_FORMAT},
        {"deepseek2.attention.key_length", ST_FORMAT},
        {"blk.1.attn_kv_b.weight", ST_NOT_FOUND},
        {"blk.0.attn_q_a_norm.weight", ST_NOT_FOUND},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        refused_model("deepseek3", (struct gguf_recipe){.key = rows[i].key, .value = rows[i].value},
                      rows[i].st, rows[i].says);
    for (size_t i = 0; i < ARRAY_LEN(missing); i++)
        refused_model("deepseek3", (struct gguf_recipe){.without = missing[i].name}, missing[i].st,
                      missing[i].name);
    refused_model("minicpm3", (struct gguf_recipe){.key = "minicpm3.embedding_scale", .value = 12},
                  ST_UNSUPPORTED, "minicpm3.embedding_scale is not understood");
    refused_model("minicpm3",
                  (struct gguf_recipe){.key = "minicpm3.attention.value_length", .value = 12},
                  ST_FORMAT, "expected");
    refused_model("minicpm3", (struct gguf_recipe){.without = "rope_factors_long.weight"},
                  ST_FORMAT, "the tensor rope_factors_long.weight is missing");
    refused_model("deepseek2",
                  (struct gguf_recipe){.key = "deepseek2.expert_gating_func", .value = 2},
                  ST_UNSUPPORTED, "there is no tensor exp_probs_b.bias");
}

/* The part of a quantised attn_kv_b that is transposed: the values of its blocks. */
Test(gguf_model, transposed_blocks)
{
    enum { RANK = 64, ROWS = 12, FIRST = 3, N = 5 };
    static const enum dtype types[] = {DT_Q8_0, DT_Q4_0, DT_Q5_1, DT_IQ4_NL};
    const struct share_cut cut = {.first = 0, .step = 1, .rows = RANK, .col = FIRST, .cols = N};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct copies copies = {0};
        struct weight_part p = {.dtype = types[i]};
        float values[ROWS * RANK];
        unsigned char *blocks = quant_random_blocks(types[i], ROWS * RANK, 0.01f, 5);
        quant_expand(types[i], blocks, ROWS * RANK, values);
        must(derive_dequantised(&copies, blocks, RANK, &cut, &p), "dequantised");
        cr_assert(p.dtype == DT_F32 && p.row_bytes == N * sizeof(float));
        for (size_t r = 0; r < RANK; r++)
            for (size_t k = 0; k < N; k++)
                cr_assert_eq(((const float *)p.data)[r * N + k], values[(FIRST + k) * RANK + r]);
        copies_free(&copies);
        free(blocks);
    }
}

Test(gguf_model, types_that_cannot_be)
{
    refused_recipe((struct gguf_recipe){.as = "blk.0.attn_q.weight", .as_type = GGML_I16},
                   ST_UNSUPPORTED, "blk.0.attn_q.weight: the type i16 is not supported");
    refused_recipe((struct gguf_recipe){.as = "output_norm.weight", .as_type = GGML_Q8_0},
                   ST_UNSUPPORTED, "output_norm.weight: a vector of type q8_0");
    refused_recipe((struct gguf_recipe){.as = "blk.1.ffn_up.weight", .as_type = GGML_Q4_K},
                   ST_FORMAT, "blk.1.ffn_up.weight\": rows of 64 are no multiple of the 256");
}

/* A file with one tensor. */
struct one_tensor {
    struct tensor_source base;
    struct stored_tensor tensor;
};

static void close_one(struct tensor_source *s)
{
    free(s);
}

static size_t count_one(const struct tensor_source *s)
{
    (void)s;
    return 1;
}

static void get_one(const struct tensor_source *s, size_t i, struct stored_tensor *out)
{
    (void)i;
    *out = ((const struct one_tensor *)(const void *)s)->tensor;
}

/* The types of dynamic quantisations that are not served: the tensor and its type are named. */
Test(gguf_model, types_that_are_not_served)
{
    static const struct tensor_source_ops one_ops = {"gguf", close_one, count_one, get_one};
    static const struct {
        enum ggml_type type;
        const char *name;
        uint64_t bits; /* of 256 weights */
    } rows[] = {{GGML_IQ2_XXS, "iq2_xxs", 528}, {GGML_IQ2_XS, "iq2_xs", 592},
                {GGML_IQ2_S, "iq2_s", 656},     {GGML_IQ3_XXS, "iq3_xxs", 784},
                {GGML_IQ3_S, "iq3_s", 880},     {GGML_IQ1_S, "iq1_s", 400},
                {GGML_IQ1_M, "iq1_m", 448},     {GGML_TQ1_0, "tq1_0", 432},
                {GGML_TQ2_0, "tq2_0", 528},     {GGML_NVFP4, "nvfp4", 1152}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct ggml_type_info *info = ggml_type_info(rows[i].type);
        static struct model_config mc;
        struct one_tensor *one = calloc(1, sizeof *one);
        struct tensor_source *src = &one->base;
        struct stored_tensor t;
        struct loader *ld;
        char says[100];
        cr_assert(info && strcmp(info->name, rows[i].name) == 0 &&
                      (uint64_t)info->bytes * 8 * 256 / (uint64_t)info->block == rows[i].bits,
                  "%s", rows[i].name);
        one->base.ops = &one_ops;
        one->tensor = (struct stored_tensor){.name = "blk.0.ffn_down.weight",
                                             .type_name = info->name,
                                             .dtype = gguf_dtype(rows[i].type),
                                             .n_dims = 2,
                                             .shape = {4, 256}};
        must(loader_open_source(&ld, &mc, &src), "open");
        cr_assert_eq(loader_tensor(ld, "blk.#.ffn_down.weight", 0, 0, 2, one->tensor.shape, &t),
                     ST_UNSUPPORTED);
        snprintf(says, sizeof says, "blk.0.ffn_down.weight: the type %s is not supported",
                 rows[i].name);
        cr_assert(strstr(status_text(), says), "%s", status_text());
        loader_close(ld);
    }
}

Test(gguf_model, a_file_cut_anywhere)
{
    size_t size;
    const char *path = gguf_make(golden_dir("llama-gqa"), &(struct gguf_recipe){0});
    char *bytes = read_file(path, &size);
    static const size_t cuts[] = {0, 3, 7, 20, 200, 900, 2000};
    for (size_t i = 0; i <= ARRAY_LEN(cuts); i++) {
        FILE *f = fopen(path, "wb");
        size_t n = i < ARRAY_LEN(cuts) ? cuts[i] : size - 1;
        cr_assert_eq(fwrite(bytes, 1, n, f), n);
        cr_assert_eq(fclose(f), 0);
        refused(path, ST_FORMAT, "gguf");
    }
    free(bytes);
    unlink(path);
    refused(path, ST_NOT_FOUND, "there is no model");
}
