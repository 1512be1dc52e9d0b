/* The parts of a tokenizer.json but the model and the added tokens: each object {"type": ...}
 * becomes steps. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

#define MAX_NESTING 8
#define MAX_STRIP 64 /* characters that a Strip decoder takes at most */

/* ---- reading a part's fields ---- */

static bool absent(const cJSON *j)
{
    return !j || cJSON_IsNull(j);
}

static const cJSON *field(const cJSON *j, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(j, name);
}

static enum status type_of(const cJSON *j, const char *part, const char **type)
{
    const cJSON *t = field(j, "type");
    if (!cJSON_IsObject(j) || !cJSON_IsString(t))
        FAIL(ST_FORMAT, "%s: expected an object with a \"type\"", part);
    *type = t->valuestring;
    return ST_OK;
}

static enum status get_bool(const cJSON *j, const char *part, const char *name, bool fallback,
                            bool *v)
{
    const cJSON *b = field(j, name);
    *v = fallback;
    if (absent(b))
        return ST_OK;
    if (!cJSON_IsBool(b))
        FAIL(ST_FORMAT, "%s: \"%s\" is not true or false", part, name);
    *v = cJSON_IsTrue(b);
    return ST_OK;
}

static enum status get_count(const cJSON *j, const char *part, const char *name, double max,
                             uint32_t *v)
{
    const cJSON *x = field(j, name);
    if (!cJSON_IsNumber(x) || x->valuedouble < 0 || x->valuedouble > max ||
        x->valuedouble != (double)(uint32_t)x->valuedouble)
        FAIL(ST_FORMAT, "%s: \"%s\" is not a whole number up to %g", part, name, max);
    *v = (uint32_t)x->valuedouble;
    return ST_OK;
}

static enum status get_text(const cJSON *j, const char *part, const char *name,
                            struct text_buf *out)
{
    const cJSON *s = field(j, name);
    if (!cJSON_IsString(s))
        FAIL(ST_FORMAT, "%s: \"%s\" is not a string", part, name);
    return text_buf_append(out, s->valuestring, strlen(s->valuestring));
}

/* {"String": s} goes to literal, {"Regex": r} to regex. */
static enum status get_pattern(const cJSON *j, const char *part, struct text_buf *literal,
                               struct regex **regex, const char **source)
{
    const cJSON *p = field(j, "pattern"), *s = field(p, "String"), *r = field(p, "Regex");
    *source = NULL;
    if (cJSON_IsString(s)) {
        if (!*s->valuestring)
            FAIL(ST_UNSUPPORTED, "%s: an empty pattern", part);
        return text_buf_append(literal, s->valuestring, strlen(s->valuestring));
    }
    if (!cJSON_IsString(r))
        FAIL(ST_FORMAT, "%s: \"pattern\" is neither a String nor a Regex", part);
    *source = r->valuestring;
    return regex_create(regex, r->valuestring, strlen(r->valuestring));
}

static enum status get_char(const cJSON *j, const char *part, const char *name, uint32_t *cp)
{
    const cJSON *s = field(j, name);
    size_t len = 0, n = cJSON_IsString(s) ? strlen(s->valuestring) : 0;
    if (n)
        *cp = u8_get(s->valuestring, &len);
    if (n == 0 || len != n)
        FAIL(ST_FORMAT, "%s: \"%s\" is not one character", part, name);
    return ST_OK;
}

typedef enum status load_fn(struct tokenizer *t, const cJSON *j, int depth);

/* Calls load for each element of the array called name. */
static enum status each(struct tokenizer *t, const cJSON *j, const char *part, const char *name,
                        int depth, load_fn *load)
{
    const cJSON *list = field(j, name), *item;
    if (!cJSON_IsArray(list))
        FAIL(ST_FORMAT, "%s Sequence: \"%s\" is not a list", part, name);
    if (depth >= MAX_NESTING)
        FAIL(ST_UNSUPPORTED, "%s: sequences nested deeper than %d", part, MAX_NESTING);
    cJSON_ArrayForEach(item, list) TRY(load(t, item, depth + 1));
    return ST_OK;
}

/* ---- steps ---- */

enum status add_norm(struct tokenizer *t, struct norm_step **step, enum norm_kind kind)
{
    *step = NULL;
    if (t->n_norm == MAX_STEPS)
        FAIL(ST_UNSUPPORTED, "normalizer: more than %d steps", MAX_STEPS);
    *step = &t->norm[t->n_norm++];
    (*step)->kind = kind;
    return ST_OK;
}

enum status add_pre(struct tokenizer *t, struct pre_step **step, enum pre_kind kind)
{
    *step = NULL;
    if (t->n_pre == MAX_STEPS)
        FAIL(ST_UNSUPPORTED, "pre_tokenizer: more than %d steps", MAX_STEPS);
    *step = &t->pre[t->n_pre++];
    (*step)->kind = kind;
    (*step)->behavior = SPLIT_ISOLATED;
    return ST_OK;
}

enum status add_dec(struct tokenizer *t, struct dec_step **step, enum dec_kind kind)
{
    *step = NULL;
    if (t->decoder.n_steps == MAX_STEPS)
        FAIL(ST_UNSUPPORTED, "decoder: more than %d steps", MAX_STEPS);
    *step = &t->decoder.steps[t->decoder.n_steps++];
    (*step)->kind = kind;
    return ST_OK;
}

/* ---- normalizer ---- */

enum status decode_base64(const char *s, size_t len, struct text_buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int n = 0;
    for (const char *end = s + len; s < end && *s != '='; s++) {
        const char *d = *s ? strchr(digits, *s) : NULL;
        if (!d)
            FAIL(ST_FORMAT, "the character '%c' in base64", *s);
        bits = bits << 6 | (uint32_t)(d - digits);
        n += 6;
        if (n >= 8) {
            n -= 8;
            char c = (char)(bits >> n & 0xFF);
            TRY(text_buf_append(out, &c, 1));
        }
    }
    return ST_OK;
}

static enum status load_precompiled(struct tokenizer *t, const cJSON *j)
{
    struct norm_step *s;
    struct text_buf map = {0};
    const cJSON *text = field(j, "precompiled_charsmap");
    if (!cJSON_IsString(text))
        FAIL(ST_FORMAT, "normalizer Precompiled: \"precompiled_charsmap\" is not a string");
    TRY(add_norm(t, &s, NORM_PRECOMPILED));
    enum status st = decode_base64(text->valuestring, strlen(text->valuestring), &map);
    if (st != ST_OK)
        st = status_fail(st, __FILE__, __LINE__,
                         "normalizer Precompiled: precompiled_charsmap is not base64");
    if (st == ST_OK)
        st = set_precompiled(s, map.data, map.len);
    text_buf_free(&map);
    return st;
}

static enum status load_bert_normalizer(struct tokenizer *t, const cJSON *j)
{
    struct norm_step *s;
    bool clean, cjk, accents, lower;
    TRY(get_bool(j, "normalizer BertNormalizer", "clean_text", true, &clean));
    TRY(get_bool(j, "normalizer BertNormalizer", "handle_chinese_chars", true, &cjk));
    TRY(get_bool(j, "normalizer BertNormalizer", "lowercase", true, &lower));
    TRY(get_bool(j, "normalizer BertNormalizer", "strip_accents", lower, &accents));
    if (clean)
        TRY(add_norm(t, &s, NORM_CLEAN));
    if (cjk)
        TRY(add_norm(t, &s, NORM_SPACE_CJK));
    if (accents) {
        TRY(add_norm(t, &s, NORM_FORM));
        s->form = UC_NFD;
        TRY(add_norm(t, &s, NORM_STRIP_NONSPACING));
    }
    return lower ? add_norm(t, &s, NORM_LOWERCASE) : ST_OK;
}

static enum status load_replace(struct tokenizer *t, const cJSON *j)
{
    struct norm_step *s;
    const char *source;
    TRY(add_norm(t, &s, NORM_REPLACE));
    TRY(get_pattern(j, "normalizer Replace", &s->find, &s->regex, &source));
    return get_text(j, "normalizer Replace", "content", &s->with);
}

static enum status load_norm(struct tokenizer *t, const cJSON *j, int depth)
{
    static const struct {
        const char *type;
        enum norm_kind kind;
        int form;
    } simple[] = {{"NFC", NORM_FORM, UC_NFC},
                  {"NFD", NORM_FORM, UC_NFD},
                  {"NFKC", NORM_FORM, UC_NFKC},
                  {"NFKD", NORM_FORM, UC_NFKD},
                  {"Lowercase", NORM_LOWERCASE, 0},
                  {"StripAccents", NORM_STRIP_ACCENTS, 0},
                  {"Nmt", NORM_NMT, 0},
                  {"ByteLevel", NORM_BYTE_LEVEL, 0}};
    struct norm_step *s;
    const char *type;
    TRY(type_of(j, "normalizer", &type));
    for (size_t i = 0; i < ARRAY_LEN(simple); i++) {
        if (strcmp(type, simple[i].type) != 0)
            continue;
        TRY(add_norm(t, &s, simple[i].kind));
        s->form = simple[i].form;
        return ST_OK;
    }
    if (strcmp(type, "Sequence") == 0)
        return each(t, j, "normalizer", "normalizers", depth, load_norm);
    if (strcmp(type, "Strip") == 0) {
        TRY(add_norm(t, &s, NORM_STRIP));
        TRY(get_bool(j, "normalizer Strip", "strip_left", true, &s->left));
        return get_bool(j, "normalizer Strip", "strip_right", true, &s->right);
    }
    if (strcmp(type, "Replace") == 0)
        return load_replace(t, j);
    if (strcmp(type, "Prepend") == 0) {
        TRY(add_norm(t, &s, NORM_PREPEND));
        return get_text(j, "normalizer Prepend", "prepend", &s->with);
    }
    if (strcmp(type, "BertNormalizer") == 0)
        return load_bert_normalizer(t, j);
    if (strcmp(type, "Precompiled") == 0)
        return load_precompiled(t, j);
    FAIL(ST_UNSUPPORTED, "normalizer %s is not supported", type);
}

enum status load_normalizer(struct tokenizer *t, const cJSON *j)
{
    return absent(j) ? ST_OK : load_norm(t, j, 0);
}

/* ---- pre-tokenizer ---- */

static enum status get_behavior(const cJSON *j, const char *part, enum split_behavior *b)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const cJSON *s = field(j, "behavior");
    for (size_t i = 0; cJSON_IsString(s) && i < ARRAY_LEN(names); i++)
        if (strcmp(s->valuestring, names[i]) == 0) {
            *b = (enum split_behavior)i;
            return ST_OK;
        }
    FAIL(ST_UNSUPPORTED, "%s: the behavior %s is not supported", part,
         cJSON_IsString(s) ? s->valuestring : "(absent)");
}

/* Expressions that scan.c matches by hand. */
static void choose_scan(struct pre_step *s, const char *source)
{
#define LLAMA3(digits)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    static const struct {
        const char *source;
        enum scan_kind scan;
        int digits;
    } known[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
         SCAN_GPT2, 0},
        {LLAMA3("\\p{N}"), SCAN_LLAMA3, 1},
        {LLAMA3("\\p{N}{1,3}"), SCAN_LLAMA3, 3},
    };
#undef LLAMA3
    /* Both match everywhere: only with these two ways of cutting is every match a piece. */
    if (!source || s->invert || s->behavior == SPLIT_CONTIGUOUS ||
        s->behavior == SPLIT_MERGED_WITH_PREVIOUS || s->behavior == SPLIT_MERGED_WITH_NEXT)
        return;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (s->behavior == SPLIT_ISOLATED && strcmp(source, known[i].source) == 0) {
            s->scan = known[i].scan;
            s->scan_digits = known[i].digits;
        }
}

enum status add_split(struct tokenizer *t, const char *pattern)
{
    struct pre_step *s;
    TRY(add_pre(t, &s, PRE_SPLIT));
    TRY(regex_create(&s->regex, pattern, strlen(pattern)));
    choose_scan(s, pattern);
    return ST_OK;
}

static enum status load_split(struct tokenizer *t, const cJSON *j)
{
    struct pre_step *s;
    const char *source;
    TRY(add_pre(t, &s, PRE_SPLIT));
    TRY(get_pattern(j, "pre_tokenizer Split", &s->literal, &s->regex, &source));
    TRY(get_behavior(j, "pre_tokenizer Split", &s->behavior));
    TRY(get_bool(j, "pre_tokenizer Split", "invert", false, &s->invert));
    choose_scan(s, source);
    return ST_OK;
}

static enum status get_scheme(const cJSON *j, const char *part, enum prepend_scheme *scheme)
{
    const cJSON *s = field(j, "prepend_scheme");
    bool prefix;
    *scheme = PREPEND_ALWAYS;
    if (cJSON_IsString(s)) {
        if (strcmp(s->valuestring, "first") == 0)
            *scheme = PREPEND_FIRST;
        else if (strcmp(s->valuestring, "never") == 0)
            *scheme = PREPEND_NEVER;
        else if (strcmp(s->valuestring, "always") != 0)
            FAIL(ST_UNSUPPORTED, "%s: the prepend_scheme %s is not supported", part,
                 s->valuestring);
    }
    TRY(get_bool(j, part, "add_prefix_space", true, &prefix));
    if (!prefix)
        *scheme = PREPEND_NEVER;
    return ST_OK;
}

static enum status load_metaspace(struct tokenizer *t, const cJSON *j)
{
    struct pre_step *s;
    uint32_t cp;
    TRY(add_pre(t, &s, PRE_METASPACE));
    TRY(get_char(j, "pre_tokenizer Metaspace", "replacement", &cp));
    TRY(get_text(j, "pre_tokenizer Metaspace", "replacement", &s->literal));
    TRY(get_scheme(j, "pre_tokenizer Metaspace", &s->scheme));
    s->behavior = SPLIT_MERGED_WITH_NEXT;
    return get_bool(j, "pre_tokenizer Metaspace", "split", true, &s->split);
}

static enum status load_byte_level(struct tokenizer *t, const cJSON *j)
{
    struct pre_step *s;
    TRY(add_pre(t, &s, PRE_BYTE_LEVEL));
    s->scan = SCAN_GPT2;
    TRY(get_bool(j, "pre_tokenizer ByteLevel", "add_prefix_space", true, &s->add_prefix_space));
    return get_bool(j, "pre_tokenizer ByteLevel", "use_regex", true, &s->use_regex);
}

static enum status load_simple_pre(struct tokenizer *t, const cJSON *j, const char *type)
{
    struct pre_step *s;
    uint32_t cp;
    if (strcmp(type, "Punctuation") == 0) {
        TRY(add_pre(t, &s, PRE_PUNCTUATION));
        return absent(field(j, "behavior"))
                   ? ST_OK
                   : get_behavior(j, "pre_tokenizer Punctuation", &s->behavior);
    }
    if (strcmp(type, "Digits") == 0) {
        TRY(add_pre(t, &s, PRE_DIGITS));
        TRY(get_bool(j, "pre_tokenizer Digits", "individual_digits", false, &s->individual));
        s->behavior = s->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return ST_OK;
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        TRY(add_pre(t, &s, PRE_SPLIT));
        s->behavior = SPLIT_REMOVED;
        TRY(get_char(j, "pre_tokenizer CharDelimiterSplit", "delimiter", &cp));
        return get_text(j, "pre_tokenizer CharDelimiterSplit", "delimiter", &s->literal);
    }
    if (strcmp(type, "FixedLength") == 0) {
        TRY(add_pre(t, &s, PRE_FIXED_LENGTH));
        TRY(get_count(j, "pre_tokenizer FixedLength", "length", 1e6, &cp));
        s->length = cp;
        if (cp == 0)
            FAIL(ST_FORMAT, "pre_tokenizer FixedLength: \"length\" is 0");
        return ST_OK;
    }
    if (strcmp(type, "Whitespace") == 0)
        return add_pre(t, &s, PRE_WHITESPACE);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return add_pre(t, &s, PRE_BERT);
    if (strcmp(type, "WhitespaceSplit") == 0) {
        TRY(add_pre(t, &s, PRE_WHITESPACE_SPLIT));
        s->behavior = SPLIT_REMOVED;
        return ST_OK;
    }
    FAIL(ST_UNSUPPORTED, "pre_tokenizer %s is not supported", type);
}

static enum status load_pre(struct tokenizer *t, const cJSON *j, int depth)
{
    const char *type;
    TRY(type_of(j, "pre_tokenizer", &type));
    if (strcmp(type, "Sequence") == 0)
        return each(t, j, "pre_tokenizer", "pretokenizers", depth, load_pre);
    if (strcmp(type, "Split") == 0)
        return load_split(t, j);
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(t, j);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(t, j);
    return load_simple_pre(t, j, type);
}

enum status load_pre_tokenizer(struct tokenizer *t, const cJSON *j)
{
    return absent(j) ? ST_OK : load_pre(t, j, 0);
}

/* ---- decoder ---- */

static enum status load_simple_dec(struct tokenizer *t, const cJSON *j, const char *type)
{
    struct dec_step *s;
    uint32_t cp;
    if (strcmp(type, "Replace") == 0) {
        struct regex *regex = NULL;
        const char *source;
        TRY(add_dec(t, &s, DEC_REPLACE));
        TRY(get_pattern(j, "decoder Replace", &s->find, &regex, &source));
        regex_destroy(regex);
        if (source)
            FAIL(ST_UNSUPPORTED, "decoder Replace: a regular expression is not supported");
        return get_text(j, "decoder Replace", "content", &s->with);
    }
    if (strcmp(type, "Strip") == 0) {
        TRY(add_dec(t, &s, DEC_STRIP));
        TRY(get_char(j, "decoder Strip", "content", &cp));
        TRY(get_text(j, "decoder Strip", "content", &s->find));
        TRY(get_count(j, "decoder Strip", "start", MAX_STRIP, &s->start));
        return get_count(j, "decoder Strip", "stop", MAX_STRIP, &s->stop);
    }
    if (strcmp(type, "Metaspace") == 0) {
        enum prepend_scheme scheme;
        TRY(add_dec(t, &s, DEC_METASPACE));
        TRY(get_char(j, "decoder Metaspace", "replacement", &cp));
        TRY(get_text(j, "decoder Metaspace", "replacement", &s->find));
        TRY(get_scheme(j, "decoder Metaspace", &scheme));
        s->drop_first = scheme != PREPEND_NEVER;
        return ST_OK;
    }
    if (strcmp(type, "WordPiece") == 0) {
        TRY(add_dec(t, &s, DEC_WORDPIECE));
        TRY(get_text(j, "decoder WordPiece", "prefix", &s->find));
        return get_bool(j, "decoder WordPiece", "cleanup", true, &s->cleanup);
    }
    if (strcmp(type, "BPEDecoder") == 0) {
        TRY(add_dec(t, &s, DEC_BPE));
        return get_text(j, "decoder BPEDecoder", "suffix", &s->find);
    }
    FAIL(ST_UNSUPPORTED, "decoder %s is not supported", type);
}

static enum status load_dec(struct tokenizer *t, const cJSON *j, int depth)
{
    struct dec_step *s;
    const char *type;
    TRY(type_of(j, "decoder", &type));
    if (strcmp(type, "Sequence") == 0)
        return each(t, j, "decoder", "decoders", depth, load_dec);
    if (strcmp(type, "ByteLevel") == 0)
        return add_dec(t, &s, DEC_BYTE_LEVEL);
    if (strcmp(type, "ByteFallback") == 0)
        return add_dec(t, &s, DEC_BYTE_FALLBACK);
    if (strcmp(type, "Fuse") == 0)
        return add_dec(t, &s, DEC_FUSE);
    return load_simple_dec(t, j, type);
}

enum status load_decoder(struct tokenizer *t, const cJSON *j)
{
    if (!absent(j))
        TRY(load_dec(t, j, 0));
    return decoder_prepare(t, !absent(j));
}
