/* The pre-tokenizers that byte-level GGUF files name in tokenizer.ggml.pre.  Each row says what the
 * model's own tokenizer.json does; the expressions are part of those models' definitions. */
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

/* Steps of a row. */
enum {
    GPT2 = 1,   /* ByteLevel with its own expression */
    DIGITS = 2, /* each digit apart, before the expressions */
    NFC = 4,
    IGNORE_MERGES = 8,
    ADDS_BOS = 16,
    FALCON = 32,      /* punctuation, ByteLevel, digits, groups of three */
    DIGITS_LAST = 64, /* each digit apart, after the expressions */
};

#define LLAMA3(digits)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* As the above, with marks among the letters. */
#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                    \
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CAMEL(tail, digits)                                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" tail "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Kimi K2's tiktoken expression: Chinese characters apart, and none among the letters of other words. */
#define NO_HAN(letters) "(?:(?!\\p{Han})" letters ")"
#define KIMI_WORD(upper, lower)                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?" NO_HAN(UPPER) upper NO_HAN(LOWER) lower                               \
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
#define KIMI                                                                                       \
    "\\p{Han}+|" KIMI_WORD("*", "+")                                                               \
        KIMI_WORD("+", "*") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"                           \
                            "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* U+4E00-9FA5, U+0800-4E00, U+AC00-D7FF as the model's authors put them. */
#define EAST_ASIAN "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}"                 \
    "\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}"         \
    "\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}"                           \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"                 \
    "\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                  \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"         \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}"                  \
    "\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}"                 \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"                 \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"         \
    "\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

struct pre_row {
    const char *names; /* separated by blanks, with one at either end */
    unsigned steps;
    const char *splits[6];
};

static const struct pre_row rows[] = {
    {" gpt-2 phi-2 jais gigachat modern-bert exaone4 granite-docling mellum a.x-4.0 ",
     GPT2,
     {NULL}},
    {" mpt olmo ", GPT2 | NFC, {NULL}},
    {" starcoder refact smollm codeshell command-r exaone minerva-7b ", GPT2 | DIGITS, {NULL}},
    {" falcon ", FALCON, {NULL}},
    {" qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez ", NFC, {LLAMA3("\\p{N}")}},
    {" qwen35 ", NFC, {QWEN35}},
    {" llama-bpe llama3 llama-v3 ", IGNORE_MERGES | ADDS_BOS, {LLAMA3("\\p{N}{1,3}")}},
    {" glm4 glm5 ", IGNORE_MERGES, {LLAMA3("\\p{N}{1,3}")}},
    {" falcon3 chatglm-bpe dbrx smaug-bpe ", 0, {LLAMA3("\\p{N}{1,3}")}},
    {" kimi-k2 ", 0, {KIMI}},
    {" tekken ", IGNORE_MERGES | ADDS_BOS, {CAMEL("", "\\p{N}")}},
    {" gpt-4o llama4 ", 0, {CAMEL("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}")}},
    {" deepseek-llm ",
     DIGITS_LAST,
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-\\/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      "\\s+$", EAST_ASIAN}},
    {" deepseek-coder ", DIGITS_LAST, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN}},
    {" deepseek-v3 deepseek-r1 ",
     0,
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
      "[!\"#$%&'()*+,\\-./"
      ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
      "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
};

const char *gguf_pre_kimi(void)
{
    return KIMI;
}

static enum status add_digits(struct tokenizer *t, bool each)
{
    struct pre_step *s;
    TRY(add_pre(t, &s, PRE_DIGITS));
    s->behavior = each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
    return ST_OK;
}

static enum status add_byte_level(struct tokenizer *t, bool expression)
{
    struct pre_step *s;
    TRY(add_pre(t, &s, PRE_BYTE_LEVEL));
    s->scan = SCAN_GPT2;
    s->use_regex = expression;
    return ST_OK;
}

static enum status add_falcon(struct tokenizer *t)
{
    struct pre_step *s;
    TRY(add_pre(t, &s, PRE_PUNCTUATION));
    s->behavior = SPLIT_CONTIGUOUS;
    TRY(add_byte_level(t, true));
    TRY(add_digits(t, false));
    return add_split(t, "[0-9][0-9][0-9]");
}

static enum status apply(struct tokenizer *t, const struct pre_row *row)
{
    struct norm_step *norm;
    if (row->steps & NFC) {
        TRY(add_norm(t, &norm, NORM_FORM));
        norm->form = UC_NFC;
    }
    if (row->steps & FALCON)
        return add_falcon(t);
    if (row->steps & DIGITS)
        TRY(add_digits(t, true));
    for (size_t i = 0; i < ARRAY_LEN(row->splits) && row->splits[i]; i++)
        TRY(add_split(t, row->splits[i]));
    if (row->steps & DIGITS_LAST)
        TRY(add_digits(t, true));
    t->model.ignore_merges = row->steps & IGNORE_MERGES;
    return add_byte_level(t, row->steps & GPT2);
}

enum status gguf_pre(struct tokenizer *t, struct tok_text name, bool *adds_bos)
{
    bool is_name = name.len > 0 && !memchr(name.data, ' ', name.len);
    for (size_t i = 0; is_name && i < ARRAY_LEN(rows); i++)
        for (const char *p = rows[i].names; p[1]; p = strchr(p + 1, ' '))
            if (strncmp(p + 1, name.data, name.len) == 0 && p[1 + name.len] == ' ') {
                *adds_bos = rows[i].steps & ADDS_BOS;
                return apply(t, &rows[i]);
            }
    FAIL(ST_UNSUPPORTED, "gguf: the pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not supported",
         (int)(name.len < 64 ? name.len : 64), name.data ? name.data : "");
}
