/* Infinity, -Infinity and NaN, which Python's json writes into config.json: without effect they pass,
 * elsewhere the key is named. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/generation.h"
#include "common/formats/model_config.h"
#include "guard.h"

/* A Llama with these members. */
static enum status parse(const char *members)
{
    char text[1000];
    struct model_config mc;
    int n = snprintf(text, sizeof text,
                     "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
                     "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"
                     "\"num_attention_heads\":4,\"vocab_size\":100,"
                     "\"max_position_embeddings\":128,%s}",
                     members);
    struct guarded g = guard_copy(text, (size_t)n);
    enum status st = model_config_parse(&mc, g.data, g.len, NULL, 0);
    guard_free(&g);
    return st;
}

Test(config_python, words_without_effect)
{
    static const char *const rows[] = {
        "\"initializer_range\":Infinity",
        "\"initializer_range\":-Infinity",
        "\"attention_dropout\":NaN",
        "\"problem_type\":{\"limit\":[0.0,Infinity,NaN]}",
        "\"_name_or_path\":\"Infinity \\\" NaN\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(parse(rows[i]), ST_OK, "%s: %s", rows[i], status_text());
}

Test(config_python, words_that_change_the_result)
{
    static const struct {
        const char *members;
        enum status st;
        const char *says;
    } rows[] = {
        {"\"rope_theta\":Infinity", ST_RANGE, "rope_theta is inf"},
        {"\"rms_norm_eps\":-Infinity", ST_RANGE, "rms_norm_eps is -inf"},
        {"\"rope_theta\":NaN", ST_FORMAT, "rope_theta must be a number"},
        {"\"num_key_value_heads\":Infinity", ST_RANGE, "num_key_value_heads is inf"},
        {"\"head_dim\":NaN", ST_FORMAT, "head_dim must be a number"},
        {"\"attention_bias\":NaN", ST_FORMAT, "attention_bias must be true or false"},
        {"\"eos_token_id\":Infinity", ST_RANGE, "an eos_token_id is no id"},
        {"\"rope_scaling\":{\"type\":\"linear\",\"factor\":Infinity}", ST_RANGE, "factor is inf"},
        {"\"time_step_limit\":Infinity", ST_UNSUPPORTED, "time_step_limit = Infinity"},
        {"\"time_step_limit\":-Infinity", ST_UNSUPPORTED, "time_step_limit = -Infinity"},
        {"\"time_step_limit\":NaN", ST_UNSUPPORTED, "time_step_limit = \"NaN\""},
        {"\"rope_theta\":infinity", ST_FORMAT, "is not JSON"},
        {"\"rope_theta\":Infinity2", ST_FORMAT, "is not JSON"},
        {"\"rope_theta\":-NaN", ST_FORMAT, "is not JSON"},
        {"\"rope_theta\":Infinit", ST_FORMAT, "is not JSON"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum status st = parse(rows[i].members);
        cr_expect_eq(st, rows[i].st, "%s: %s", rows[i].members, status_name(st));
        cr_expect(st != ST_OK && strstr(status_text(), rows[i].says), "\"%s\" does not say \"%s\"",
                  st == ST_OK ? "" : status_text(), rows[i].says);
    }
}

Test(config_python, generation_defaults)
{
    static const char text[] = "{\"temperature\":Infinity}";
    struct generation_defaults d;
    cr_assert_neq(generation_parse(&d, text, strlen(text)), ST_OK);
    cr_assert_not_null(strstr(status_text(), "temperature"), "%s", status_text());
}
