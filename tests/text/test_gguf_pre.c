/* The pre-tokenizers that GGUF files name: which neighbours they let merge. */
#include "tests/text/vectors.h"

#include "common/formats/gguf.h"
#include "coordinator/tokenizer/unicode.h"
#include "tests/text/gguf_writer.h"

/* The byte-level alphabet, then a token (and the merge that makes it) for each probe. */
static const char *const merges[] = {"1 2", "12 3", "1 23", "2 3", "a B", "B b",
                                     "B a", "a .",  ". a",  "! !", "S a", "\xC3\xA6 \xC2\xBC"};

static uint32_t alphabet(unsigned b)
{
    bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    unsigned before = b <= 0x20 ? b : b <= 0xA0 ? 33 + b - 0x7F : 67;
    return itself ? b : 0x100 + before;
}

static void build(struct file *f, const char *pre)
{
    char text[32];
    put_header(f, 0, 5);
    put_str(f, "tokenizer.ggml.model");
    put_int(f, GGUF_STRING, 4);
    put_str(f, "gpt2");
    put_str(f, "tokenizer.ggml.pre");
    put_int(f, GGUF_STRING, 4);
    put_str(f, pre);
    put_str(f, "tokenizer.ggml.bos_token_id");
    put_int(f, GGUF_U32, 4);
    put_int(f, 0, 4);
    put_str(f, "tokenizer.ggml.tokens");
    put_int(f, GGUF_ARRAY, 4);
    put_int(f, GGUF_STRING, 4);
    put_int(f, 256 + ARRAY_LEN(merges) - 1, 8); /* two merges make 123 */
    for (unsigned b = 0; b < 256; b++) {
        text[u8_put(text, alphabet(b))] = 0;
        put_str(f, text);
    }
    for (size_t i = 0; i < ARRAY_LEN(merges); i++) {
        const char *blank = strchr(merges[i], ' ');
        snprintf(text, sizeof text, "%.*s%s", (int)(blank - merges[i]), merges[i], blank + 1);
        if (i != 2)
            put_str(f, text);
    }
    put_str(f, "tokenizer.ggml.merges");
    put_int(f, GGUF_ARRAY, 4);
    put_int(f, GGUF_STRING, 4);
    put_int(f, ARRAY_LEN(merges), 8);
    for (size_t i = 0; i < ARRAY_LEN(merges); i++)
        put_str(f, merges[i]);
}

static enum status open_pre(const char *pre, struct tokenizer **t)
{
    static struct file f;
    struct gguf *g;
    build(&f, pre);
    cr_assert_eq(gguf_parse(&g, f.bytes, f.n), ST_OK, "%s", status_text());
    enum status st = tokenizer_from_gguf(t, g);
    gguf_free(g);
    return st;
}

static size_t n_tokens(const struct tokenizer *t, const char *text)
{
    struct token_list ids = {0};
    cr_assert_eq(tokenizer_encode(t, text, strlen(text), 0, &ids), ST_OK, "%s", status_text());
    size_t n = ids.n;
    token_list_free(&ids);
    return n;
}

Test(gguf_pre, cuts_as_its_model_does)
{
    static const struct {
        const char *pre;
        size_t n123, aBb, dot_a, excl; /* tokens of "123", "aBb", ".a", "!!" */
    } rows[] = {
        {"gpt-2", 1, 2, 2, 1},        {"mpt", 1, 2, 2, 1},
        {"olmo", 1, 2, 2, 1},         {"starcoder", 3, 2, 2, 1},
        {"refact", 3, 2, 2, 1},       {"smollm", 3, 2, 2, 1},
        {"command-r", 3, 2, 2, 1},    {"falcon", 1, 2, 2, 1},
        {"qwen2", 3, 2, 1, 1},        {"stablelm2", 3, 2, 1, 1},
        {"llama-bpe", 1, 2, 1, 1},    {"glm4", 1, 2, 1, 1},
        {"tekken", 3, 2, 1, 1},       {"gpt-4o", 1, 2, 1, 1},
        {"kimi-k2", 1, 2, 1, 1},      {"qwen35", 3, 2, 1, 1},
        {"exaone4", 1, 2, 2, 1},      {"llama4", 1, 2, 1, 1},
        {"deepseek-llm", 3, 2, 2, 1}, {"deepseek-coder", 3, 2, 2, 1},
        {"deepseek-v3", 1, 2, 1, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tokenizer *t;
        cr_assert_eq(open_pre(rows[i].pre, &t), ST_OK, "%s: %s", rows[i].pre, status_text());
        cr_expect_eq(n_tokens(t, "123"), rows[i].n123, "%s: %zu", rows[i].pre, n_tokens(t, "123"));
        cr_expect_eq(n_tokens(t, "aBb"), rows[i].aBb, "%s: %zu", rows[i].pre, n_tokens(t, "aBb"));
        cr_expect_eq(n_tokens(t, ".a"), rows[i].dot_a, "%s: %zu", rows[i].pre, n_tokens(t, ".a"));
        cr_expect_eq(n_tokens(t, "!!"), rows[i].excl, "%s: %zu", rows[i].pre, n_tokens(t, "!!"));
        tokenizer_destroy(t);
    }
}

/* "aB" is one word everywhere but where words end before a capital. */
Test(gguf_pre, camel_case)
{
    struct tokenizer *t;
    cr_assert_eq(open_pre("llama-bpe", &t), ST_OK);
    cr_expect_eq(n_tokens(t, "aB"), 1);
    cr_expect(tokenizer_specials(t)->adds_bos);
    tokenizer_destroy(t);
    cr_assert_eq(open_pre("tekken", &t), ST_OK);
    cr_expect_eq(n_tokens(t, "aB"), 2);
    cr_expect(tokenizer_specials(t)->adds_bos);
    tokenizer_destroy(t);
    cr_assert_eq(open_pre("kimi-k2", &t), ST_OK);
    cr_expect_eq(n_tokens(t, "aB"), 2);
    cr_expect(!tokenizer_specials(t)->adds_bos);
    tokenizer_destroy(t);
}

Test(gguf_pre, refuses_by_name)
{
    static const char *const names[] = {"default", "wobble", "gpt", "gpt-2 phi-2", ""};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct tokenizer *t;
        cr_expect_eq(open_pre(names[i], &t), ST_UNSUPPORTED, "%s", names[i]);
        cr_expect_null(t);
        cr_expect(strstr(status_text(), "tokenizer.ggml.pre"));
    }
}
