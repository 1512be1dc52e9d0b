/* tekken.json and tiktoken.model: small ones written here, and what is wrong with others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tokenizer.h"

/* Behind the 256 bytes. */
static const char *const words[] = {"ab", "bc", "abc", "12"};

static void put(struct text_buf *b, const char *s)
{
    cr_assert_eq(text_buf_append(b, s, strlen(s)), ST_OK);
}

static void base64(const char *s, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        unsigned bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < n ? (unsigned char)s[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *out++ = i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
    }
    *out = 0;
}

static void token(int i, char *out)
{
    char c = (char)i;
    if (i < 256)
        base64(&c, 1, out);
    else
        base64(words[i - 256], strlen(words[i - 256]), out);
}

enum { N = 256 + (int)(sizeof words / sizeof *words) };

static char *tekken(const char *config, const char *more)
{
    struct text_buf b = {0};
    char bytes[16], item[120];
    put(&b, "{\"config\": ");
    put(&b, config);
    put(&b, ", \"vocab\": [");
    for (int i = 0; i < N; i++) {
        token(i, bytes);
        snprintf(item, sizeof item, "%s{\"rank\": %d, \"token_bytes\": \"%s\", \"token_str\": %s}",
                 i ? ", " : "", i, bytes, i ? "null" : "\"\\u0000\"");
        put(&b, item);
    }
    put(&b, "]");
    put(&b, more);
    put(&b, "}");
    cr_assert_eq(text_buf_append(&b, "", 1), ST_OK);
    return b.data;
}

#define CONFIG                                                                                     \
    "{\"pattern\": \"[a-z]+|.\", \"default_vocab_size\": 270, \"default_num_special_tokens\": 10}"

static void encodes(const struct tokenizer *t, const char *text, const char *want)
{
    struct token_list ids = {0};
    char got[200] = "", id[16];
    cr_assert_eq(tokenizer_encode(t, text, strlen(text), TOK_ADD_SPECIAL, &ids), ST_OK, "%s",
                 status_text());
    for (size_t i = 0; i < ids.n; i++) {
        snprintf(id, sizeof id, "%s%d", i ? " " : "", ids.ids[i]);
        strncat(got, id, sizeof got - strlen(got) - 1);
    }
    cr_expect_str_eq(got, want, "%s: %s", text, got);
    token_list_free(&ids);
}

Test(ranks, tekken)
{
    struct tokenizer *t;
    char *text = tekken(CONFIG, ", \"version\": \"v11\", \"special_tokens\": [{\"rank\": 1, "
                                "\"token_str\": \"<s>\"}, {\"rank\": 2, \"token_str\": \"</s>\"}]");
    cr_assert_eq(tokenizer_from_tekken(&t, text, strlen(text)), ST_OK, "%s", status_text());
    encodes(t, "abc", "1 268");        /* a token whole */
    encodes(t, "abcb", "1 268 108");   /* ab before bc, then abc */
    encodes(t, "12</s>", "1 59 60 2"); /* the expression cuts between digits */
    encodes(t, "<SPECIAL_7>\xc3\xa9", "1 7 205 179");
    cr_expect_eq(tokenizer_specials(t)->eos, 2);
    cr_expect(tokenizer_specials(t)->adds_bos);
    tokenizer_destroy(t);
    free(text);
    text = tekken(CONFIG, ""); /* an older file: its special tokens have fixed names */
    cr_assert_eq(tokenizer_from_tekken(&t, text, strlen(text)), ST_OK, "%s", status_text());
    encodes(t, "[TOOL_CALLS]a", "1 9 107");
    tokenizer_destroy(t);
    free(text);
}

Test(ranks, tekken_refusals)
{
    static const struct {
        const char *config, *more, *says;
    } rows[] = {
        {"{}", "", "pattern"},
        {"{\"pattern\": \"(\", \"default_vocab_size\": 270, \"default_num_special_tokens\": 10}",
         "", "missing"},
        {"{\"pattern\": \".\", \"default_vocab_size\": 900, \"default_num_special_tokens\": 10}",
         "", "vocab has 260 tokens, not 890"},
        {"{\"pattern\": \".\", \"default_vocab_size\": 270, \"default_num_special_tokens\": 270}",
         "", "default_vocab_size"},
        {CONFIG, ", \"special_tokens\": [{\"rank\": 10, \"token_str\": \"x\"}]", "rank"},
        {CONFIG, ", \"special_tokens\": [{\"rank\": 1}]", "no text"},
        {CONFIG,
         ", \"special_tokens\": [{\"rank\": 1, \"token_str\": \"a\"}, {\"rank\": 1, "
         "\"token_str\": \"b\"}]",
         "rank of its own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tokenizer *t;
        char *text = tekken(rows[i].config, rows[i].more);
        cr_expect_neq(tokenizer_from_tekken(&t, text, strlen(text)), ST_OK, "row %zu", i);
        cr_expect_null(t);
        cr_expect_not_null(strstr(status_text(), rows[i].says), "row %zu: %s", i, status_text());
        free(text);
    }
}

static const char kimi[] = "{\"tokenizer_class\": \"TikTokenTokenizer\", \"eos_token\": \"[EOS]\", "
                           "\"added_tokens_decoder\": {\"260\": {\"content\": \"[EOS]\"}, "
                           "\"265\": {\"content\": \"<|im_end|>\"}}}";

Test(ranks, tiktoken)
{
    struct text_buf b = {0};
    struct tokenizer *t;
    char bytes[16], line[40];
    for (int i = 0; i < N; i++) {
        token(i, bytes);
        snprintf(line, sizeof line, "%s %d\n", bytes, i);
        put(&b, line);
    }
    cr_assert_eq(tokenizer_from_tiktoken(&t, b.data, b.len, kimi, strlen(kimi)), ST_OK, "%s",
                 status_text());
    encodes(t, "abc 12<|im_end|>", "258 32 259 265");
    cr_expect_eq(tokenizer_specials(t)->eos, 260);
    tokenizer_destroy(t);
    const char *other = "{\"tokenizer_class\": \"QWenTokenizer\"}";
    cr_expect_eq(tokenizer_from_tiktoken(&t, b.data, b.len, other, strlen(other)), ST_UNSUPPORTED);
    cr_expect_not_null(strstr(status_text(), "QWenTokenizer"));
    static const struct {
        const char *text, *says;
    } rows[] = {{"", "empty"},          {"QQ==\n", "line 1"},
                {"QQ== x\n", "line 1"}, {"QQ== 0\nQg== 99999999999\n", "line 2"},
                {"Q!== 0\n", "base64"}, {" 0\n", "token 0 has 0 bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_neq(
            tokenizer_from_tiktoken(&t, rows[i].text, strlen(rows[i].text), kimi, strlen(kimi)),
            ST_OK, "row %zu", i);
        cr_expect_null(t);
        cr_expect_not_null(strstr(status_text(), rows[i].says), "row %zu: %s", i, status_text());
    }
    text_buf_free(&b);
}
