/* The weights digest of whole models. */
#define _GNU_SOURCE /* utimensat, nanosleep */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/digest/weights_digest.h"
#include "temp_dir.h"

#include "model/make_model.h"

static char dir[64];

static void setup(void)
{
    temp_dir_make(dir);
}

static void teardown(void)
{
    temp_dir_remove(dir);
}

TestSuite(weights_digest, .init = setup, .fini = teardown);

static struct weights_digest *open_model(const char *model, const char *cache_home)
{
    struct digest_cache cache;
    struct weights_digest *w;
    digest_cache_init(&cache, cache_home, NULL);
    struct weights_digest_config cfg = {.model = model, .cache = &cache};
    cr_assert_eq(weights_digest_open(&w, &cfg), ST_OK, "%s", status_text());
    return w;
}

static void digest_of(const char *model, uint8_t out[SHA256_BYTES])
{
    struct weights_digest *w = open_model(model, NULL);
    cr_assert_eq(weights_digest_get(w, out), DIGEST_KNOWN);
    weights_digest_close(w);
}

static void run(const char *format, const char *a, const char *b)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b);
    cr_assert_eq(system(command), 0, "%s", command);
}

/* A golden model's copy, to be changed. */
static const char *copy(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    run("cp -r " INGOT_SOURCE_DIR "/tests/golden/models/%s %s", name, path);
    return path;
}

static void change_byte(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+b");
    cr_assert_not_null(f);
    fseek(f, -from_end, SEEK_END);
    int c = fgetc(f);
    fseek(f, -from_end, SEEK_END);
    fputc(c ^ 1, f);
    fclose(f);
}

Test(weights_digest, covers_configuration_and_every_file_and_nothing_else)
{
    uint8_t first[SHA256_BYTES], got[SHA256_BYTES];
    char path[256];
    const char *model = copy("llama-sharded-bf16");
    digest_of(model, first);
    /* text, and the layout of config.json, do not count */
    run("sed -i 's/^  *//; s/,$/ ,/' %s/config.json; echo '{\"eos_token_id\":1}' > "
        "%s/generation_config.json",
        model, model);
    digest_of(model, got);
    cr_expect_arr_eq(got, first, sizeof got);
    for (int shard = 1; shard <= 3; shard++) {
        snprintf(path, sizeof path, "%s/model-0000%d-of-00003.safetensors", model, shard);
        change_byte(path, 1);
        digest_of(model, got);
        cr_expect_arr_neq(got, first, sizeof got, "shard %d", shard);
        change_byte(path, 1);
    }
    digest_of(model, got);
    cr_expect_arr_eq(got, first, sizeof got);
    run("sed -i 's/\"rms_norm_eps\": *[0-9.e-]*/\"rms_norm_eps\": 0.00123/' %s/config.json; grep "
        "-q "
        "0.00123 %s/config.json",
        model, model);
    digest_of(model, got);
    cr_expect_arr_neq(got, first, sizeof got, "configuration");
}

Test(weights_digest, a_model_that_cannot_be_read_is_named)
{
    struct digest_cache cache;
    struct weights_digest *w;
    char path[256];
    const char *model = copy("llama-sharded-bf16");
    struct weights_digest_config cfg = {.model = model, .cache = &cache};
    digest_cache_init(&cache, NULL, NULL);
    snprintf(path, sizeof path, "%s/model-00002-of-00003.safetensors", model);
    unlink(path);
    cr_expect_eq(weights_digest_open(&w, &cfg), ST_NOT_FOUND);
    cr_expect_not_null(strstr(status_text(), "model-00002"), "%s", status_text());
    cr_expect_eq(weights_digest_get(NULL, NULL), DIGEST_NONE);
    weights_digest_close(NULL);
    weights_digest_begin(NULL);
}

/* ---- large models: a thread ---- */

static const struct toy large = {.n_layers = 1,
                                 .hidden = 128,
                                 .ffn = 64,
                                 .vocab = 40000,
                                 .n_q = 4,
                                 .n_kv = 2,
                                 .d_head = 32,
                                 .tied = true};

static void await(const struct weights_digest *w, enum digest_state state, uint8_t out[])
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; weights_digest_get(w, out) == DIGEST_PENDING; i++) {
        cr_assert(i < 30000, "it has not ended");
        nanosleep(&pause, NULL);
    }
    cr_assert_eq(weights_digest_get(w, out), state);
}

static const char *old_large_model(void)
{
    char path[256];
    struct timespec t[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    struct stat st;
    const char *model = toy_make(&large);
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    cr_assert(stat(path, &st) == 0 && st.st_size > WEIGHTS_DIGEST_AT_ONCE);
    cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
    return model;
}

Test(weights_digest, a_large_model_is_hashed_when_it_may_begin_and_then_cached)
{
    uint8_t first[SHA256_BYTES], got[SHA256_BYTES];
    const char *model = old_large_model();
    struct weights_digest *w = open_model(model, dir);
    cr_expect_eq(weights_digest_get(w, got), DIGEST_PENDING);
    weights_digest_close(w); /* ends a thread that has not begun */
    w = open_model(model, dir);
    cr_expect_eq(weights_digest_get(w, got), DIGEST_PENDING);
    weights_digest_begin(w);
    await(w, DIGEST_KNOWN, first);
    weights_digest_close(w);
    w = open_model(model, dir);
    cr_expect_eq(weights_digest_get(w, got), DIGEST_KNOWN, "the cache was not used");
    cr_expect_arr_eq(got, first, sizeof got);
    weights_digest_close(w);
    toy_remove(model);
}

Test(weights_digest, a_rank_that_shares_has_none_without_a_cache)
{
    struct digest_cache cache;
    struct weights_digest *w;
    uint8_t got[SHA256_BYTES];
    const char *model = old_large_model();
    struct weights_digest_config cfg = {.model = model, .cache = &cache, .shares = true};
    digest_cache_init(&cache, NULL, NULL);
    cr_assert_eq(weights_digest_open(&w, &cfg), ST_OK);
    weights_digest_begin(w);
    await(w, DIGEST_NONE, got);
    weights_digest_close(w);
    toy_remove(model);
}
