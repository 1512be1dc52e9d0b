/* The text digest: what it covers, and what it does not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest/text_digest.h"
#include "common/hex.h"
#include "temp_dir.h"

static char model[128], dir[64];

static void setup(void)
{
    temp_dir_make(dir);
    snprintf(model, sizeof model, "%s/model", dir);
    char command[512];
    snprintf(command, sizeof command, "cp -r %s/deploy/demo-model %s && rm %s/*.py",
             INGOT_SOURCE_DIR, model, model);
    cr_assert_eq(system(command), 0);
}

static void teardown(void)
{
    temp_dir_remove(dir);
}

TestSuite(text_digest, .init = setup, .fini = teardown);

static const char *digest(void)
{
    static char text[2][2 * SHA256_BYTES + 1];
    static int turn;
    uint8_t out[SHA256_BYTES];
    bool has;
    turn = !turn;
    cr_assert_eq(text_digest(model, &has, out), ST_OK, "%s", status_text());
    cr_assert(has);
    hex_of(out, sizeof out, text[turn]);
    return text[turn];
}

/* Runs a command in the model's folder. */
static void sh(const char *script)
{
    char command[1024];
    snprintf(command, sizeof command, "cd %s && %s", model, script);
    cr_assert_eq(system(command), 0, "%s", command);
}

static void changes(const char *script, bool does)
{
    char before[2 * SHA256_BYTES + 1];
    snprintf(before, sizeof before, "%s", digest());
    sh(script);
    if (does)
        cr_expect_str_neq(digest(), before, "%s changes nothing", script);
    else
        cr_expect_str_eq(digest(), before, "%s changes the digest", script);
}

Test(text_digest, covers_tokens_templates_ids_and_defaults)
{
    changes("sed -i 's/\"Ġthe\"/\"Ġteh\"/' tokenizer.json && grep -q Ġteh tokenizer.json", true);
    changes("echo '{{ messages }}' > chat_template.jinja", true);
    changes("mkdir additional_chat_templates && echo x > additional_chat_templates/tool_use.jinja",
            true);
    changes("echo '{\"chat_template\": \"x\"}' > chat_template.json", true);
    changes("echo '{\"eos_token\": \"<other>\"}' > tokenizer_config.json", true);
    changes("echo '{\"eos_token\": {\"content\":\"<other>\"}}' > tokenizer_config.json", true);
    changes("echo '{\"eos_token\": \"<other>\", \"chat_template\":\"y\"}' > tokenizer_config.json",
            true);
    changes("echo '{\"eos_token_id\": 1}' > generation_config.json", true);
    changes("echo '{\"eos_token_id\": [1, 2]}' > generation_config.json", true);
    changes("echo '{\"eos_token_id\": [1, 2], \"temperature\": 0.5}' > generation_config.json",
            true);
    changes("rm generation_config.json", true);
}

Test(text_digest, does_not_depend_on_weights_names_or_layout)
{
    sh("echo '{\"eos_token_id\": [1, 2], \"temperature\": 0.5}' > generation_config.json");
    sh("echo '{\"eos_token\": \"<other>\", \"bos_token\": \"b\"}' > tokenizer_config.json");
    changes("printf x >> model.safetensors", false);
    changes(
        "sed -i 's/\"rms_norm_eps\": *[0-9.e-]*/\"rms_norm_eps\": 0.00123/' config.json && grep "
        "-q 0.00123 config.json",
        false);
    changes("echo '{ \"temperature\": 5e-1,\"transformers_version\": \"5\", \"top_k\": null, "
            "\"eos_token_id\": [1,2]}' > generation_config.json",
            false);
    changes(
        "echo '{\"bos_token\": \"b\", \"eos_token\": \"<other>\", \"padding_side\": \"left\"}' > "
        "tokenizer_config.json",
        false);
    changes("mv ../model ../moved && cp -r ../moved ../model", false);
}

Test(text_digest, a_folder_without_text_has_none)
{
    uint8_t out[SHA256_BYTES];
    bool has = true;
    cr_expect_eq(text_digest(INGOT_SOURCE_DIR "/tests/golden/models/llama-mha", &has, out), ST_OK);
    cr_expect_not(has);
    sh("rm tokenizer.json tokenizer_config.json");
    cr_expect_eq(text_digest(model, &has, out), ST_OK);
    cr_expect_not(has);
    sh("echo > vocab.json");
    cr_expect_eq(text_digest(model, &has, out), ST_OK);
    cr_expect(has);
    cr_expect_eq(text_digest("/nothing", &has, out), ST_NOT_FOUND);
}

/* JSON that cannot be parsed counts by its bytes. */
Test(text_digest, a_damaged_file_still_counts)
{
    sh("echo '{\"eos_token\": ' > tokenizer_config.json");
    changes("echo '{\"bos_token\": ' > tokenizer_config.json", true);
}

Test(hex, both_ways)
{
    uint8_t bytes[4] = {0x01, 0xab, 0xff, 0x00}, back[4];
    char text[9];
    hex_of(bytes, 4, text);
    cr_expect_str_eq(text, "01abff00");
    cr_expect(hex_parse("01ABff00", back, 4));
    cr_expect_arr_eq(back, bytes, 4);
    cr_expect_not(hex_parse("01abff0", back, 4));
    cr_expect_not(hex_parse("01abff000", back, 4));
    cr_expect_not(hex_parse("01abfg00", back, 4));
    cr_expect_not(hex_parse(" 1abff00", back, 4));
}
