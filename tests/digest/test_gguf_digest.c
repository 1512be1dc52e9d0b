/* Both digests of GGUF models, whole and in parts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest/text_digest.h"
#include "common/digest/weights_digest.h"
#include "model/make_gguf.h"
#include "model/rig.h"
#include "model/split_gguf.h"
#include "temp_dir.h"

static void text_of(const char *path, uint8_t out[SHA256_BYTES])
{
    bool has;
    cr_assert_eq(text_digest(path, &has, out), ST_OK, "%s", status_text());
    cr_assert(has);
}

static void weights_of(const char *path, uint8_t out[SHA256_BYTES])
{
    struct digest_cache cache;
    struct weights_digest *w;
    struct weights_digest_config cfg = {.model = path, .cache = &cache};
    digest_cache_init(&cache, NULL, NULL);
    cr_assert_eq(weights_digest_open(&w, &cfg), ST_OK, "%s", status_text());
    cr_assert_eq(weights_digest_get(w, out), DIGEST_KNOWN);
    weights_digest_close(w);
}

static const char *make(const char *key)
{
    struct gguf_recipe r = {.key = key, .value = 5};
    return gguf_make(golden_dir("llama-gqa"), &r);
}

Test(gguf_digest, text_is_the_tokenizer_s_metadata_and_the_ids)
{
    uint8_t plain[SHA256_BYTES], got[SHA256_BYTES];
    static const struct {
        const char *key;
        bool counts;
    } rows[] = {{"general.alignment_of_stars", false},
                {"tokenizer.ggml.padding_token_id", true},
                {"tokenizer.ggml.eos_token_id", true},
                {"tokenizer.ggml.eot_token_id", true}};
    const char *path = make(NULL);
    text_of(path, plain);
    unlink(path);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        path = make(rows[i].key);
        text_of(path, got);
        cr_expect_eq(memcmp(got, plain, sizeof got) != 0, rows[i].counts, "%s", rows[i].key);
        unlink(path);
    }
}

/* A folder whose tokenizer is that of a .gguf file. */
Test(gguf_digest, text_of_a_folder_with_a_gguf_file)
{
    char dir[64], command[512];
    uint8_t first[SHA256_BYTES], got[SHA256_BYTES];
    temp_dir_make(dir);
    for (int i = 0; i < 2; i++) {
        const char *path = make(i ? "tokenizer.ggml.padding_token_id" : NULL);
        snprintf(command, sizeof command, "cp %s/config.json %s/ && cp %s %s/m.gguf",
                 golden_dir("llama-gqa"), dir, path, dir);
        cr_assert_eq(system(command), 0);
        text_of(dir, i ? got : first);
        unlink(path);
    }
    cr_expect_arr_neq(got, first, sizeof got);
    temp_dir_remove(dir);
}

Test(gguf_digest, weights_are_every_byte_of_every_part)
{
    char dir[64], path[128];
    uint8_t whole[SHA256_BYTES], first[SHA256_BYTES], got[SHA256_BYTES];
    struct split_recipe split = {.n_parts = 3};
    const char *one = make(NULL);
    temp_dir_make(dir);
    weights_of(one, whole);
    split_gguf(one, dir, "m", &split);
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", dir);
    weights_of(path, first);
    cr_expect_arr_neq(first, whole, sizeof first);
    for (int i = 3; i >= 1; i--) {
        snprintf(path, sizeof path, "%s/m-0000%d-of-00003.gguf", dir, i);
        weights_of(path, got);
        cr_expect_arr_eq(got, first, sizeof got, "opened by part %d", i);
        FILE *f = fopen(path, "r+b");
        fseek(f, -1, SEEK_END);
        int c = fgetc(f);
        fseek(f, -1, SEEK_END);
        fputc(c ^ 1, f);
        fclose(f);
        weights_of(path, got);
        cr_expect_arr_neq(got, first, sizeof got, "part %d", i);
        memcpy(first, got, sizeof first);
    }
    unlink(one);
    temp_dir_remove(dir);
}
