/* Model directories that are not what they say: one clear line, nothing left behind. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "make_model.h"
#include "rig.h"

static const struct toy plain = {
    .n_layers = 2, .hidden = 16, .ffn = 24, .vocab = 19, .n_q = 4, .n_kv = 2, .d_head = 4};

/* Opens and plans the model for one rank: what a worker does before it loads. */
static enum status plan(const char *dir)
{
    struct backend_config bc = {.threads = 1};
    struct decoder_memory memory;
    struct backend *be;
    struct loader *ld;
    must(backend_open(&be, "cpu", &bc), "backend");
    enum status st = loader_open(&ld, dir);
    if (st == ST_OK) {
        struct decoder_config cfg =
            rig_decoder_config(loader_config(ld), (struct rig_config){0}, 0, 1);
        st = decoder_plan_memory(&memory, loader_config(ld), ld, be, &cfg);
    }
    loader_close(ld);
    backend_ops_of(be)->close(be);
    return st;
}

static void refused(const char *dir, enum status want, const char *text)
{
    enum status st = plan(dir);
    cr_assert_eq(st, want, "%s, not %s: %s", status_name(want), status_name(st), status_text());
    cr_assert_not_null(strstr(status_text(), text), "\"%s\" says nothing of \"%s\"", status_text(),
                       text);
    cr_assert_null(strchr(status_text(), '\n'));
}

/* A toy whose files say one thing and whose config another. */
static void mismatch(struct toy files, struct toy config, enum status want, const char *text)
{
    char dir[64], from[128], to[128];
    snprintf(dir, sizeof dir, "%s", toy_make(&files));
    const char *other = toy_make(&config);
    snprintf(from, sizeof from, "%s/config.json", other);
    snprintf(to, sizeof to, "%s/config.json", dir);
    cr_assert_eq(rename(from, to), 0);
    refused(dir, want, text);
    toy_remove(other);
    toy_remove(dir);
}

Test(load, a_good_one)
{
    const char *dir = toy_make(&plain);
    must(plan(dir), "plain");
    toy_remove(dir);
}

Test(load, tensors_that_do_not_fit_the_config)
{
    struct toy t = plain;
    t.ffn = 25;
    mismatch(plain, t, ST_FORMAT,
             "tensor model.layers.0.mlp.gate_proj.weight: expected [25,16] got [24,16]");
    t = plain;
    t.vocab = 20;
    mismatch(plain, t, ST_FORMAT, "tensor model.embed_tokens.weight: expected [20,16] got [19,16]");
    t = plain;
    t.n_layers = 3;
    mismatch(plain, t, ST_NOT_FOUND, "no tensor model.layers.2.input_layernorm.weight");
    mismatch(t, plain, ST_UNSUPPORTED, "has the tensor model.layers.2.");
    t = plain;
    t.attention_bias = true;
    mismatch(plain, t, ST_NOT_FOUND, "no tensor model.layers.0.self_attn.q_proj.bias");
    mismatch(t, plain, ST_UNSUPPORTED, "has the tensor model.layers.0.self_attn.k_proj.bias");
    t = plain;
    t.mlp_bias = true;
    mismatch(t, plain, ST_UNSUPPORTED, "mlp.down_proj.bias");
    t = plain;
    t.qk_norm = true;
    mismatch(t, plain, ST_UNSUPPORTED, "k_norm.weight");
    t = plain;
    t.tied = true;
    mismatch(t, plain, ST_NOT_FOUND, "no tensor lm_head.weight");
    t.arch = "Qwen3ForCausalLM";
    t.model_type = "qwen3";
    mismatch(plain, t, ST_NOT_FOUND, "no tensor model.layers.0.self_attn.q_norm.weight");
}

/* lm_head.weight of the model's file becomes the embedding. */
static void copy_embedding(const char *dir)
{
    char path[128];
    size_t size;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    char *file = read_file(path, &size);
    struct safetensors st;
    must(safetensors_parse(&st, (unsigned char *)file, size, path), path);
    const struct st_tensor *from = safetensors_find(&st, "model.embed_tokens.weight");
    const struct st_tensor *to = safetensors_find(&st, "lm_head.weight");
    cr_assert(from && to && from->n_bytes == to->n_bytes);
    memcpy(file + to->offset, file + from->offset, from->n_bytes);
    safetensors_fini(&st);
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(file, 1, size, f) == size && fclose(f) == 0);
    free(file);
}

Test(load, a_tied_head_that_is_stored_all_the_same)
{
    struct toy t = plain;
    char dir[64], path[128];
    snprintf(dir, sizeof dir, "%s", toy_make(&plain));
    t.tied = true;
    const char *other = toy_make(&t);
    char from[128];
    snprintf(from, sizeof from, "%s/config.json", other);
    snprintf(path, sizeof path, "%s/config.json", dir);
    cr_assert_eq(rename(from, path), 0);
    refused(dir, ST_UNSUPPORTED, "lm_head.weight is not model.embed_tokens.weight");
    copy_embedding(dir);
    must(plan(dir), "tied");
    toy_remove(other);
    toy_remove(dir);
}

static void set_size(const char *dir, const char *name, long change)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fclose(f);
    cr_assert_eq(truncate(path, size + change), 0);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

Test(load, truncated_and_oversized_files)
{
    const char *dir = toy_make(&plain);
    set_size(dir, "model.safetensors", 1);
    refused(dir, ST_FORMAT, "model.safetensors: 1 bytes after the last tensor");
    set_size(dir, "model.safetensors", -2);
    refused(dir, ST_FORMAT, "truncated?");
    put_file(dir, "model.safetensors", "");
    refused(dir, ST_FORMAT, "model.safetensors: 0 bytes");
    put_file(dir, "config.json", "{\"architectures\":[\"LlamaForCausalLM\"]");
    refused(dir, ST_FORMAT, "config.json is not JSON");
    toy_remove(dir);
}

Test(load, missing_files)
{
    char path[128];
    refused("/nonexistent/model", ST_NOT_FOUND, "no model at /nonexistent/model");
    const char *dir = toy_make(&plain);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    refused(path, ST_UNSUPPORTED, "neither a model directory");
    unlink(path);
    refused(dir, ST_NOT_FOUND, "neither model.safetensors nor model.safetensors.index.json");
    snprintf(path, sizeof path, "%s/x.gguf", dir);
    put_file(dir, "x.gguf", "GGUF");
    refused(path, ST_FORMAT, "x.gguf: gguf: the file ends inside the header");
    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    refused(dir, ST_NOT_FOUND, "config.json");
    toy_remove(dir);
}

Test(load, indices_that_lie)
{
    char from[128], to[128];
    const char *dir = toy_make(&plain);
    snprintf(from, sizeof from, "%s/model.safetensors", dir);
    snprintf(to, sizeof to, "%s/part.safetensors", dir);
    cr_assert_eq(rename(from, to), 0);
    const char *index = "model.safetensors.index.json";
    put_file(dir, index, "{\"weight_map\":{\"model.norm.weight\":\"part.safetensors\"}}");
    refused(dir, ST_FORMAT, "the index 1");
    put_file(dir, index, "{\"weight_map\":{\"nothing\":\"part.safetensors\"}}");
    refused(dir, ST_FORMAT, "part.safetensors has no tensor nothing");
    put_file(dir, index, "{\"weight_map\":{\"model.norm.weight\":\"gone.safetensors\"}}");
    refused(dir, ST_NOT_FOUND, "gone.safetensors");
    put_file(dir, index, "{\"weight_map\":{\"model.norm.weight\":\"../part.safetensors\"}}");
    refused(dir, ST_FORMAT, "without a directory");
    snprintf(from, sizeof from, "%s/copy.safetensors", dir);
    cr_assert_eq(link(to, from), 0);
    put_file(dir, index,
             "{\"weight_map\":{\"model.norm.weight\":\"part.safetensors\","
             "\"lm_head.weight\":\"copy.safetensors\"}}");
    refused(dir, ST_FORMAT, "is in copy.safetensors and in part.safetensors");
    toy_remove(dir);
}

/* A type that is well-formed but not computed with. */
Test(load, types)
{
    const char *dir = toy_make(&plain);
    char path[128];
    size_t size;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    char *data = read_file(path, &size);
    char *type = strstr(data + 8, "\"F32\",\"shape\":[16]");
    cr_assert_not_null(type);
    memcpy(type, "\"I32\"", 5);
    FILE *f = fopen(path, "wb");
    fwrite(data, 1, size, f);
    fclose(f);
    refused(dir, ST_UNSUPPORTED, "input_layernorm.weight: the type I32 is not supported");
    free(data);
    toy_remove(dir);
}

Test(load, digests_tell_models_apart)
{
    struct loader *ld;
    uint64_t digest[3];
    static const char *const names[] = {"llama-mha", "llama-rope-linear", "llama-mha"};
    for (int i = 0; i < 3; i++) {
        must(loader_open(&ld, golden_dir(names[i])), names[i]);
        digest[i] = loader_digest(ld);
        loader_close(ld);
    }
    cr_assert_eq(digest[0], digest[2]);
    cr_assert_neq(digest[0], digest[1]);
}

/* A field of the configuration that no tensor shows. */
Test(load, digest_covers_the_configuration)
{
    struct loader *ld;
    uint64_t digest[2];
    struct toy other = plain;
    other.more = ",\"rope_theta\":12345.0";
    for (int i = 0; i < 2; i++) {
        const char *dir = toy_make(i ? &other : &plain);
        must(loader_open(&ld, dir), dir);
        digest[i] = loader_digest(ld);
        loader_close(ld);
        toy_remove(dir);
    }
    cr_assert_neq(digest[0], digest[1]);
}
