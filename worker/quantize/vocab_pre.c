#include "worker/quantize/vocab_pre.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

enum status vocab_note(struct text_buf *notes, const char *text)
{
    TRY(text_buf_append(notes, text, strlen(text)));
    return text_buf_append(notes, "\n", 1);
}

static const char *type_of(const cJSON *part)
{
    const cJSON *t = json_member(part, "type");
    return cJSON_IsString(t) ? t->valuestring : "";
}

static bool is(const cJSON *part, const char *type)
{
    return strcmp(type_of(part), type) == 0;
}

static bool flag(const cJSON *part, const char *name, bool absent)
{
    const cJSON *v = json_member(part, name);
    return v ? cJSON_IsTrue(v) : absent;
}

/* The steps of a part: of a sequence, or the one. */
static int steps_of(const cJSON *part, const char *list, const cJSON **out, int max)
{
    int n = 0;
    const cJSON *item;
    if (!part)
        return 0;
    if (!is(part, "Sequence")) {
        out[0] = part;
        return 1;
    }
    cJSON_ArrayForEach(item, json_member(part, list)) if (n < max) out[n++] = item;
    return n;
}

/* ---- byte-level BPE ---- */

/* The expression of GPT-4's tokenizer as Llama 3 and Qwen write it; digits: how many together. */
#define SPLIT(digits)                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Those of Qwen 3.5, of Mistral's tekken, and of GPT-4o and what took it over. */
#define QWEN35                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                    \
    "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail, digits)                                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" tail "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

enum { NFC = 1, MERGES_IGNORED = 2, OWN_SPLIT = 4, DIGITS = 8 };

static const struct pre_row {
    const char *name, *regex;
    int flags;
} rows[] = {
    {"qwen2", SPLIT("\\p{N}"), NFC},
    {"llama-bpe", SPLIT("\\p{N}{1,3}"), MERGES_IGNORED},
    {"smaug-bpe", SPLIT("\\p{N}{1,3}"), 0},
    {"gpt-2", NULL, OWN_SPLIT},
    {"qwen35", QWEN35, NFC},
    {"tekken", CASED("", "\\p{N}"), MERGES_IGNORED},
    {"gpt-4o", CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}"), 0},
    {"olmo", NULL, OWN_SPLIT | NFC},
    {"smollm", NULL, OWN_SPLIT | DIGITS},
};

static const char *regex_of(const cJSON *step)
{
    const cJSON *p = json_member(json_member(step, "pattern"), "Regex");
    const cJSON *behavior = json_member(step, "behavior");
    bool plain = cJSON_IsString(behavior) && strcmp(behavior->valuestring, "Isolated") == 0 &&
                 !flag(step, "invert", false);
    return plain && cJSON_IsString(p) ? p->valuestring : "";
}

static enum status unknown_pre(const char *what)
{
    FAIL(
        ST_UNSUPPORTED,
        "tokenizer.json: %.100s is no pre-tokenizer that ingot-quantize has a GGUF name for (those "
        "of Qwen 2 and 3.5, Llama 3, GPT-2, GPT-4o, Mistral, OLMo, SmolLM and Smaug have one)",
        what);
}

/* Digits?, Split?, ByteLevel */
static enum status read_steps(const cJSON *root, const char **regex, int *flags)
{
    const cJSON *step[4], *norm[4];
    int n = steps_of(json_member(root, "pre_tokenizer"), "pretokenizers", step, 4);
    int n_norm = steps_of(json_member(root, "normalizer"), "normalizers", norm, 4);
    *regex = NULL;
    *flags = 0;
    if (n_norm > 1 || (n_norm == 1 && !is(norm[0], "NFC")))
        return unknown_pre("its normalizer");
    *flags |= n_norm == 1 ? NFC : 0;
    *flags |= flag(json_member(root, "model"), "ignore_merges", false) ? MERGES_IGNORED : 0;
    for (int i = 0; i < n; i++) {
        bool last = i == n - 1;
        if (is(step[i], "Digits") && flag(step[i], "individual_digits", false) && i == 0 && !last)
            *flags |= DIGITS;
        else if (is(step[i], "Split") && !last && !*regex)
            *regex = regex_of(step[i]);
        else if (is(step[i], "ByteLevel") && last && !flag(step[i], "add_prefix_space", true))
            *flags |= flag(step[i], "use_regex", true) ? OWN_SPLIT : 0;
        else
            return unknown_pre(type_of(step[i]));
    }
    return n ? ST_OK : unknown_pre("none");
}

enum status vocab_pre_name(const cJSON *root, const char **pre, struct text_buf *notes)
{
    const char *regex;
    int flags;
    TRY(read_steps(root, &regex, &flags));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool same =
            regex && rows[i].regex ? strcmp(regex, rows[i].regex) == 0 : regex == rows[i].regex;
        if (same && flags == rows[i].flags) {
            *pre = rows[i].name;
            return ST_OK;
        }
    }
    if (regex && strcmp(regex, rows[0].regex) == 0 && flags == 0) {
        *pre = rows[0].name;
        return vocab_note(notes,
                          "the pre-tokenizer is written as qwen2, which also normalises text "
                          "to NFC: text that is not in that form gives other tokens");
    }
    return unknown_pre(regex && *regex ? regex : "the sequence");
}

/* ---- SentencePiece ---- */

static bool is_mark(const cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "\xE2\x96\x81") == 0;
}

enum status vocab_space_prefix(const cJSON *root, bool *prefix, struct text_buf *notes)
{
    const cJSON *norm[4], *step[4];
    int n_norm = steps_of(json_member(root, "normalizer"), "normalizers", norm, 4);
    int n = steps_of(json_member(root, "pre_tokenizer"), "pretokenizers", step, 4);
    /* Gemma: blanks, of which the normalizer leaves none, would end a word */
    const cJSON *blank = n == 1 && is(step[0], "Split")
                             ? json_member(json_member(step[0], "pattern"), "String")
                             : NULL;
    if (cJSON_IsString(blank) && strcmp(blank->valuestring, " ") == 0)
        n = 0;
    if (n == 0 && n_norm > 0 && is(norm[n_norm - 1], "Replace") &&
        is_mark(json_member(norm[n_norm - 1], "content"))) {
        *prefix = n_norm == 2 && is(norm[0], "Prepend") && is_mark(json_member(norm[0], "prepend"));
        if (*prefix || n_norm == 1)
            return ST_OK;
    }
    if (n == 1 && n_norm == 0 && is(step[0], "Metaspace") && !flag(step[0], "split", true)) {
        const cJSON *s = json_member(step[0], "prepend_scheme");
        const char *scheme = cJSON_IsString(s) ? s->valuestring : "always";
        *prefix = strcmp(scheme, "never") != 0;
        return !*prefix ? ST_OK
                        : vocab_note(notes, "GGUF puts a blank before every text: one that begins "
                                            "with a blank or follows a special token gives other "
                                            "tokens");
    }
    FAIL(ST_UNSUPPORTED,
         "tokenizer.json: its normalizer and pre-tokenizer are not those of a SentencePiece model");
}

/* ---- post-processor ---- */

static enum status special_id(const cJSON *template, const cJSON *item, int32_t *id)
{
    const cJSON *name = json_member(json_member(item, "SpecialToken"), "id");
    const cJSON *all = json_member(template, "special_tokens");
    const cJSON *ids =
        json_member(cJSON_IsString(name) ? json_member(all, name->valuestring) : NULL, "ids");
    if (*id >= 0 || cJSON_GetArraySize(ids) != 1)
        FAIL(ST_UNSUPPORTED, "tokenizer.json: its post-processor adds several tokens at one end");
    *id = cJSON_GetArrayItem(ids, 0)->valueint;
    return ST_OK;
}

static enum status read_template(const cJSON *template, int32_t *head, int32_t *tail)
{
    const cJSON *item;
    bool behind = false;
    cJSON_ArrayForEach(item, json_member(template, "single"))
    {
        if (json_member(item, "Sequence"))
            behind = true;
        else
            TRY(special_id(template, item, behind ? tail : head));
    }
    return ST_OK;
}

enum status vocab_ends(const cJSON *root, int32_t *head, int32_t *tail)
{
    const cJSON *step[4];
    int n = steps_of(json_member(root, "post_processor"), "processors", step, 4);
    *head = *tail = -1;
    for (int i = 0; i < n; i++) {
        if (is(step[i], "TemplateProcessing"))
            TRY(read_template(step[i], head, tail));
        else if (!is(step[i], "ByteLevel"))
            FAIL(ST_UNSUPPORTED, "tokenizer.json: the post-processor %.60s cannot be said in GGUF",
                 type_of(step[i]));
    }
    return ST_OK;
}
