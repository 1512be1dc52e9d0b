/* Grammars: which texts they take, that masks and matchers agree, and bounds. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/grammar/grammar_memory.h"
#include "effort.h"

/* ---- helpers ---- */

static struct grammar *compile(enum grammar_kind kind, const char *text)
{
    struct grammar_source s = {kind, text, strlen(text)};
    struct grammar *g;
    cr_assert_eq(grammar_compile(&g, &s, NULL), ST_OK, "%s: %s", text, status_text());
    return g;
}

static bool takes(struct grammar *g, const char *text, size_t n)
{
    struct matcher *m;
    bool ok;
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    cr_assert_eq(matcher_consume(m, text, n, &ok), ST_OK);
    ok = ok && matcher_accepts(m);
    matcher_destroy(m);
    return ok;
}

struct texts {
    enum grammar_kind kind;
    const char *source;
    const char *yes[6], *no[6];
};

static void check_texts(const struct texts *t)
{
    struct grammar *g = compile(t->kind, t->source);
    for (size_t i = 0; i < 6 && t->yes[i]; i++)
        cr_expect(takes(g, t->yes[i], strlen(t->yes[i])), "%s should take %s", t->source,
                  t->yes[i]);
    for (size_t i = 0; i < 6 && t->no[i]; i++)
        cr_expect(!takes(g, t->no[i], strlen(t->no[i])), "%s should not take %s", t->source,
                  t->no[i]);
    grammar_destroy(g);
}

static void check_refused(enum grammar_kind kind, const char *source, enum status code,
                          const char *words)
{
    struct grammar_source s = {kind, source, strlen(source)};
    struct grammar *g;
    enum status st = grammar_compile(&g, &s, NULL);
    cr_expect_eq(st, code, "%s gives %s", source, status_name(st));
    cr_expect(st == ST_OK || strstr(status_text(), words), "%s: \"%s\" does not say \"%s\"", source,
              status_text(), words);
    cr_expect_null(g);
}

/* ---- which texts ---- */

Test(grammar, expressions)
{
    static const struct texts list[] = {
        {GRAMMAR_REGEX, "ab*c|d", {"ac", "abbc", "d"}, {"", "ab", "abd", "dd"}},
        {GRAMMAR_REGEX, "^(a|bc){2,3}$", {"aa", "abc", "bcbcbc"}, {"a", "aaaa", "ab"}},
        {GRAMMAR_REGEX,
         "[^a-c\\d]",
         {"d", "\xc3\xa9", "\xf0\x9f\x98\x80"},
         {"a", "5", "", "\xc3", "dd"}},
        {GRAMMAR_REGEX, "\\w+@\\w+\\.(com|org)", {"x_1@y.org"}, {"@y.org", "x@y.net", "x@y.comm"}},
        {GRAMMAR_REGEX,
         "\\u{1F600}[\\u00e0-\\u00ff]?",
         {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80\xc3\xa0"},
         {"\xc3\xa0"}},
        {GRAMMAR_REGEX, "(a?){3}b", {"b", "aaab"}, {"aaaab"}},
        {GRAMMAR_REGEX, ".", {"x", "\xe2\x82\xac"}, {"\n", "\r", "\xe2\x80\xa8", "xx"}},
        {GRAMMAR_REGEX, "x{0,3}?y+?", {"y", "xxxyy"}, {"xxxxy", "x"}},
        {GRAMMAR_CHOICE,
         "[\"yes\",\"no\",\"yesterday\",\"\\u00e9\"]",
         {"yes", "no", "yesterday", "\xc3\xa9"},
         {"", "ye", "nope"}},
        {GRAMMAR_JSON_OBJECT,
         "",
         {"{}", "{\"a\":[1,{\"b\":null}]}"},
         {"[]", "{ }", "{\"a\":1,}", "{\"a\"}"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_texts(&list[i]);
}

Test(grammar, schemas)
{
    static const struct texts list[] = {
        {GRAMMAR_JSON_SCHEMA,
         "{}",
         {"null", "-1.5e+3", "\"\\u00e9\\ud83d\\ude00\"", "[[],{}]"},
         {"", "01", "\"\\ud83d\"", "[1,]", " 1"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":105}",
         {"-12", "0", "-9", "104", "99"},
         {"-13", "105", "1.0", "007", "1000"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"number\",\"minimum\":0.25,\"maximum\":1.5}",
         {"0.25", "1", "1.50", "0.3", "1.499"},
         {"0.24", "1.51", "-1", "2", "0.2499"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"number\",\"exclusiveMaximum\":0}",
         {"-0.001", "-7"},
         {"0", "-0", "-0.0", "1"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}",
         {"14", "7000"},
         {"7", "15"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"number\",\"multipleOf\":0.25}",
         {"1.5", "-0.75", "2", "1.7500"},
         {"1.3", "0.126"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"\xc3\xa9\xc3\xa9\xc3\xa9\"", "\"\\n\\n\""},
         {"\"a\"", "\"abcd\"", "\"a\n\""}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"pattern\":\"^a.*z$\",\"maxLength\":4}",
         {"\"az\"", "\"abcz\""},
         {"\"abcdz\"", "\"abc\"", "\"ba z\""}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"pattern\":\"b\\\"c\"}",
         {"\"ab\\\"cd\""},
         {"\"abc\"", "\"b\"c\""}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2024-02-29\""},
         {"\"2023-02-29\"", "\"2024-13-01\""}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\"},\"a\":{\"type\":"
         "\"boolean\"}},\"required\":[\"a\"],"
         "\"additionalProperties\":false}",
         {"{\"b\":1,\"a\":true}", "{\"a\":false}"},
         {"{}", "{\"a\":true,\"b\":1}", "{\"b\":1}", "{\"a\":true,\"c\":1}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}}}",
         {"{}", "{\"a\":null}", "{\"ab\":1}", "{\"a\":null,\"x\":[]}"},
         {"{\"a\":1}", "{\"x\":1,\"a\":1}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,"
         "\"maxProperties\":2}",
         {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":null}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true,\"c\":true},\"maxProperties\":"
         "1}",
         {"{}", "{\"a\":1}", "{\"c\":1}", "{\"z\":1}"},
         {"{\"a\":1,\"b\":1}", "{\"c\":1,\"z\":1}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"}},"
         "\"additionalProperties\":false}",
         {"{}", "{\"x\":1,\"xy\":2}"},
         {"{\"y\":1}", "{\"x\":\"\"}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3}"
         ",\"minItems\":1,\"maxItems\":4}",
         {"[1]", "[1,2]", "[1,2,3,3]"},
         {"[]", "[2]", "[1,2,3,3,3]", "[1,3]"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
         "\"next\":{\"anyOf\":[{\"type\":\"null\"},"
         "{\"$ref\":\"#/$defs/"
         "n\"}]}},\"required\":[\"v\",\"next\"],\"additionalProperties\":false}},\"$ref\":\"#/"
         "$defs/n\"}",
         {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
         {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"enum\":[\"a\",3,null,{\"x\":[1]},\"long\"],\"type\":[\"string\",\"object\"],"
         "\"minLength\":2}",
         {"\"long\"", NULL},
         {"\"a\"", "3", "null"}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"allOf\":[{\"type\":\"string\",\"minLength\":2},{\"maxLength\":3}],\"anyOf\":[{"
         "\"const\":\"ab\"},{\"const\":\"abcd\"}]}",
         {"\"ab\""},
         {"\"abcd\"", "\"a\""}},
        {GRAMMAR_JSON_SCHEMA,
         "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}",
         {"1", "\"\""},
         {"1.5", "null"}},
        {GRAMMAR_JSON_SCHEMA, /* values tell the types of what has no "type" */
         "{\"oneOf\":[{\"type\":\"integer\"},{\"const\":null},{\"enum\":[\"a\",true]}]}",
         {"1", "null", "\"a\"", "true"},
         {"1.5", "\"b\"", "false"}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_texts(&list[i]);
}

Test(grammar, refusals_name_their_place)
{
    enum grammar_kind s = GRAMMAR_JSON_SCHEMA, r = GRAMMAR_REGEX;
    check_refused(s, "{\"properties\":{\"a\":{\"not\":{}}}}", ST_UNSUPPORTED, "#/properties/a/not");
    check_refused(s, "{\"items\":{\"uniqueItems\":true}}", ST_UNSUPPORTED, "#/items/uniqueItems");
    check_refused(s, "{\"type\":\"strange\"}", ST_FORMAT, "#/type");
    check_refused(s, "{\"type\":\"string\",\"pattern\":\"(?=a)\"}", ST_UNSUPPORTED,
                  "#/pattern: regular expression, byte 0: look-around");
    check_refused(s, "{\"$ref\":\"http://example.com/x\"}", ST_UNSUPPORTED, "#/$ref");
    check_refused(s, "{\"oneOf\":[{\"type\":\"integer\"},{\"enum\":[null,1]}]}", ST_UNSUPPORTED,
                  "#/oneOf");
    check_refused(s, "{\"oneOf\":[{\"minimum\":1},{\"minimum\":2}]}", ST_UNSUPPORTED, "#/oneOf");
    check_refused(s, "{\"anyOf\":[{\"format\":\"iri\"}]}", ST_UNSUPPORTED, "#/anyOf/0/format");
    check_refused(
        s, "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
        ST_FORMAT, "no text");
    check_refused(s, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", ST_FORMAT, "no text");
    check_refused(s, "{\"minLength\":-1}", ST_RANGE, "#/minLength");
    check_refused(s, "{\"a\":1,\"a\":2}", ST_FORMAT, "a");
    check_refused(s, "3", ST_FORMAT, "a schema must be");
    check_refused(s, "", ST_FORMAT, "");
    check_refused(r, "(a", ST_FORMAT, "byte 0");
    check_refused(r, "a)", ST_FORMAT, "byte 1");
    check_refused(r, "(a)\\1", ST_UNSUPPORTED, "back-references");
    check_refused(r, "\\bx", ST_UNSUPPORTED, "\\b");
    check_refused(r, "a{2,1}", ST_FORMAT, "byte 1");
    check_refused(r, "*", ST_FORMAT, "nothing to repeat");
    check_refused(r, "[z-a]", ST_FORMAT, "backwards");
    check_refused(GRAMMAR_CHOICE, "[]", ST_FORMAT, "at least one");
    check_refused(GRAMMAR_CHOICE, "[1]", ST_FORMAT, "[0]");
    check_refused(GRAMMAR_KINDS, "", ST_UNSUPPORTED, "kind");
}

Test(grammar, a_refused_schema_of_great_depth_or_size)
{
    size_t n = 1 << 20;
    char *deep = malloc(n + 8);
    strcpy(deep, "{\"enum\":");
    memset(deep + 8, '[', n - 8);
    struct grammar_source s = {GRAMMAR_JSON_SCHEMA, deep, n};
    struct grammar *g;
    cr_expect_eq(grammar_compile(&g, &s, NULL), ST_RANGE);
    s.n = GRAMMAR_MAX_BYTES + 1;
    cr_expect_eq(grammar_compile(&g, &s, NULL), ST_RANGE);
    free(deep);
}

Test(grammar, a_compile_that_is_not_wanted_stops)
{
    static const char text[] = "{\"type\":\"object\"}";
    atomic_bool stop = false;
    struct grammar_source s = {GRAMMAR_JSON_SCHEMA, text, sizeof text - 1};
    struct grammar *g;
    cr_expect_eq(grammar_compile(&g, &s, &stop), ST_OK);
    cr_expect(grammar_work(g) > 0 && grammar_work(g) < GRAMMAR_MAX_WORK / 100);
    grammar_destroy(g);
    atomic_store(&stop, true);
    cr_expect_eq(grammar_compile(&g, &s, &stop), ST_CANCELED);
    cr_expect_null(g);
}

/* ---- masks ---- */

enum { N_TOKENS = 700 };

/* A vocabulary of single bytes, pieces of JSON and random texts; the last ids have no bytes. */
static struct token_trie *vocabulary(uint8_t text[N_TOKENS][16], uint32_t n[N_TOKENS])
{
    static const char *const pieces[] = {
        "\"",       "\":",  "\",\"",  "{\"",  "\"}",   "},",    "]}",      "null",
        "true",     "alse", "\"a\":", "\\n",  "\\\"",  "\\u00", "12",      ".5",
        "e+",       "-",    "[[",     "]],",  "abc\"", "a\\",   "x\",\"y", "\xc3",
        "\xc3\xa9", "\x80", "  ",     "date", "\"]",   "1,",    "\"\",\"", "zz\":1"};
    const uint8_t *bytes[N_TOKENS];
    unsigned seed = 7;
    struct token_trie *t;
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        n[i] = i < N_TOKENS - 20;
        text[i][0] = (uint8_t)i;
        if (i >= 256 && i < 256 + sizeof pieces / sizeof *pieces) {
            n[i] = (uint32_t)strlen(pieces[i - 256]);
            memcpy(text[i], pieces[i - 256], n[i]);
        } else if (i >= 256 && n[i]) {
            static const char some[] = "\"\\{}[],:0123abcdefxyz \n.-";
            n[i] = 1 + (seed = seed * 1103515245U + 12345) / 65536 % 12;
            for (uint32_t k = 0; k < n[i]; k++)
                text[i][k] =
                    (uint8_t)some[(seed = seed * 1103515245U + 12345) / 65536 % (sizeof some - 1)];
        }
        bytes[i] = text[i];
    }
    cr_assert_eq(token_trie_create(&t, bytes, n, N_TOKENS), ST_OK);
    return t;
}

/* Random walks over the masks: a token is in the mask exactly when the matcher takes it; taking back leaves no trace;
 * the same bytes in other parts give the same mask. */
static void walk(const char *source, enum grammar_kind kind, unsigned seed)
{
    static uint8_t text[N_TOKENS][16];
    static uint32_t n[N_TOKENS], mask[(N_TOKENS + 31) / 32], again[(N_TOKENS + 31) / 32];
    struct token_trie *trie = vocabulary(text, n);
    struct grammar *g = compile(kind, source), *fresh = compile(kind, source);
    struct matcher *m, *whole;
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    for (int step = 0; step < 40; step++) {
        uint32_t count, allowed = 0, pick = 0;
        int32_t only;
        bool cached;
        bool ok;
        cr_assert_eq(matcher_mask(m, trie, mask, &count, &only, &cached), ST_OK);
        for (uint32_t t = 0; t < N_TOKENS; t++) {
            size_t before = matcher_n_bytes(m);
            bool in_mask = mask[t / 32] >> (t % 32) & 1;
            cr_assert_eq(matcher_consume(m, text[t], n[t], &ok), ST_OK);
            ok = ok && n[t] > 0;
            cr_assert_eq(ok, in_mask, "%s: token %u '%.*s' after %zu bytes", source, t, (int)n[t],
                         text[t], before);
            matcher_rollback(m, matcher_n_bytes(m) - before);
            allowed += in_mask;
            seed = seed * 1664525U + 1013904223U;
            if (in_mask && seed / 65536 % allowed == 0)
                pick = t;
        }
        cr_assert_eq(allowed, count);
        cr_assert_eq(matcher_mask(m, trie, again, &count, &only, &cached), ST_OK);
        cr_assert_eq(memcmp(mask, again, sizeof mask), 0);
        cr_assert(count > 0 || matcher_accepts(m), "%s: a dead end", source);
        if (count == 0)
            break;
        cr_assert(count > 1 || only == (int32_t)pick);
        cr_assert_eq(matcher_consume(m, text[pick], n[pick], &ok), ST_OK);
        cr_assert(ok);
    }
    cr_assert_eq(matcher_copy(&whole, m), ST_OK);
    cr_assert_eq(matcher_accepts(whole), matcher_accepts(m));
    matcher_destroy(whole);
    matcher_destroy(m);
    grammar_destroy(g);
    grammar_destroy(fresh);
    token_trie_destroy(trie);
}

/* An array of n strings. */
static size_t write_strings(char *out, size_t n)
{
    size_t at = 0;
    out[at++] = '[';
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(out + at, "%s\"value number %zu of it\"", i ? "," : "", i);
    out[at++] = ']';
    return at;
}

/* One enum is not compared with itself: 35,000 values, the square of which would take minutes. */
Test(grammar, large_enums)
{
    char *text = malloc(4 << 20);
    cr_assert_not_null(text);
    size_t n = (size_t)sprintf(text, "{\"enum\":");
    n += write_strings(text + n, 35000);
    text[n++] = '}';
    cr_assert_leq(n, (size_t)GRAMMAR_MAX_BYTES);
    struct grammar *g = NULL;
    struct grammar_source s = {GRAMMAR_JSON_SCHEMA, text, n};
    cr_expect_eq(grammar_compile(&g, &s, NULL), ST_OK, "%s", status_detail());
    grammar_destroy(g);

    n = (size_t)sprintf(text, "{\"allOf\":[{\"enum\":");
    n += write_strings(text + n, 3000);
    n += (size_t)sprintf(text + n, "},{\"enum\":");
    n += write_strings(text + n, 3000);
    n += (size_t)sprintf(text + n, "}]}");
    g = NULL;
    s.n = n;
    cr_expect_eq(grammar_compile(&g, &s, NULL), ST_RANGE);
    cr_expect_not_null(strstr(status_detail(), "too many values"), "%s", status_detail());
    grammar_destroy(g);
    free(text);
}

Test(grammar, masks_are_what_matchers_take)
{
    static const char *const schemas[] = {
        "{}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":5},\"abc\":{"
        "\"type\":\"number\"}}}",
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1}}",
        "{\"type\":\"string\",\"pattern\":\"(abc)+|x.*y\",\"maxLength\":70}",
        "{\"type\":\"array\",\"items\":{\"enum\":[\"abc\",\"ab\",12,125,null]}}",
        "{\"additionalProperties\":{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120},\"type\":"
        "\"object\"}",
        "{\"type\":\"string\",\"maxLength\":100}",
        "{\"type\":\"string\",\"format\":\"date-time\"}",
    };
    for (unsigned seed = 0; seed < 4; seed++) {
        for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
            walk(schemas[i], GRAMMAR_JSON_SCHEMA, seed);
        walk(".*a\"b.*", GRAMMAR_REGEX, seed);
        walk("[a-f]{3,60}(x|yz)*", GRAMMAR_REGEX, seed);
        walk("[\"abc\",\"date\",\"abcdef\"]", GRAMMAR_CHOICE, seed);
        walk("", GRAMMAR_JSON_OBJECT, seed);
    }
}

/* Far from its bounds a counted pattern has the masks of its states, whatever the number of characters. */
Test(grammar, masks_far_from_a_bound_are_kept)
{
    static const uint8_t *const bytes[] = {(const uint8_t *)"\"", (const uint8_t *)"a",
                                           (const uint8_t *)"aaaa", (const uint8_t *)"b"};
    static const uint32_t n[] = {1, 1, 4, 1};
    struct grammar *g =
        compile(GRAMMAR_JSON_SCHEMA,
                "{\"type\":\"string\",\"pattern\":\"^a+$\",\"minLength\":500,\"maxLength\":1000}");
    struct token_trie *trie;
    struct matcher *m;
    cr_assert_eq(token_trie_create(&trie, bytes, n, 4), ST_OK);
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    uint32_t made = 0;
    for (uint32_t i = 0; i <= 1000; i++) {
        uint32_t mask = 0, n_allowed;
        int32_t only;
        bool ok, cached;
        cr_assert_eq(matcher_consume(m, i ? "a" : "\"", 1, &ok), ST_OK);
        cr_assert(ok);
        cr_assert_eq(matcher_mask(m, trie, &mask, &n_allowed, &only, &cached), ST_OK);
        uint32_t want = (i >= 500 ? 1U : 0) | (i < 1000 ? 2U : 0) | (i <= 996 ? 4U : 0);
        cr_expect_eq(mask, want, "%u characters: %x", i, mask);
        made += !cached;
    }
    cr_expect_lt(made, 40, "%u masks", made);
    matcher_destroy(m);
    token_trie_destroy(trie);
    grammar_destroy(g);
}

/* Nesting beyond the bound is refused, not followed. */
Test(grammar, depth_is_bounded)
{
    struct grammar *g = compile(GRAMMAR_JSON_SCHEMA, "{}");
    struct matcher *m;
    bool ok = true;
    size_t depth = 0;
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    while (ok && depth < 10000) {
        cr_assert_eq(matcher_consume(m, "[", 1, &ok), ST_OK);
        depth += ok;
    }
    cr_expect(depth > 100 && depth < 2000, "%zu", depth);
    for (; depth > 0; depth--) {
        cr_assert_eq(matcher_consume(m, "]", 1, &ok), ST_OK);
        cr_assert(ok);
    }
    cr_expect(matcher_accepts(m));
    matcher_destroy(m);
    grammar_destroy(g);
}

/* Alternatives that stay open together share their stacks: no doubling with each level. */
Test(grammar, ambiguous_recursion_stays_small)
{
    struct grammar *g =
        compile(GRAMMAR_JSON_SCHEMA,
                "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"maxItems\":1},"
                "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}");
    char text[400];
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    cr_expect(takes(g, text, 400));
    cr_expect(!takes(g, text, 399));
    grammar_destroy(g);
}

/* ---- memory ---- */

/* Every letter makes a state of its own. */
static const char growing[] = "[a-z]{0,400}(x[a-z]{9}|y[a-z]{8}z)";

static size_t feed_letters(struct matcher *m, unsigned seed, size_t n)
{
    size_t fed = 0;
    bool ok = true;
    for (; fed < n && ok; fed++) {
        char c = (char)('a' + (seed = seed * 1103515245 + 12345) / 65536 % 26);
        cr_assert_eq(matcher_consume(m, &c, 1, &ok), ST_OK);
    }
    return fed;
}

/* What was given back is made again: matchers are where they were, and end where others end. */
Test(grammar, shrinking_changes_no_answer)
{
    struct grammar *g = compile(GRAMMAR_REGEX, growing), *other = compile(GRAMMAR_REGEX, growing);
    struct matcher *m, *n;
    size_t compiled = grammar_bytes(g);
    cr_assert_eq(compiled, grammar_bytes(other), "not a function of the source");
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    cr_assert_eq(matcher_create(&n, other), ST_OK);
    for (unsigned i = 0; i < 20; i++) {
        cr_assert_eq(feed_letters(m, i, 20), feed_letters(n, i, 20));
        cr_assert_eq(matcher_accepts(m), matcher_accepts(n));
        cr_assert_gt(grammar_bytes(g), compiled);
        grammar_shrink(g);
        cr_assert_leq(grammar_bytes(g), compiled + 1024, "%zu bytes", grammar_bytes(g));
        cr_assert_eq(matcher_accepts(m), matcher_accepts(n));
        cr_assert_eq(matcher_n_bytes(m), matcher_n_bytes(n));
    }
    matcher_destroy(m);
    matcher_destroy(n);
    grammar_destroy(g);
    grammar_destroy(other);
}

Test(grammar, memory_of_many_keeps_its_bound)
{
    enum { N = 24 };
    struct grammar *g[N];
    struct matcher *m[N];
    struct grammar_share share[N] = {0};
    struct grammar_memory memory = {.max = 2 << 20};
    size_t alone = 0, largest = 0;
    for (unsigned i = 0; i < N; i++) {
        g[i] = compile(GRAMMAR_REGEX, growing);
        cr_assert_eq(matcher_create(&m[i], g[i]), ST_OK);
        grammar_memory_used(&memory, &share[i], g[i]);
    }
    for (unsigned round = 0; round < 10; round++)
        for (unsigned i = 0; i < N; i++) {
            matcher_reset(m[i]);
            cr_assert_gt(feed_letters(m[i], round * N + i, 400), 100);
            grammar_memory_used(&memory, &share[i], g[i]);
            largest = largest < share[i].n_bytes ? share[i].n_bytes : largest;
            cr_assert_leq(memory.n_bytes, memory.max + largest);
        }
    for (unsigned i = 0; i < N; i++) {
        cr_assert_gt(matcher_n_bytes(m[i]), 100);
        alone += largest;
        grammar_memory_leave(&memory, &share[i]);
        grammar_memory_leave(&memory, &share[i]); /* again: nothing */
        matcher_destroy(m[i]);
        grammar_destroy(g[i]);
    }
    cr_assert_gt(alone, 2 * memory.max, "nothing had to be given back: %zu bytes", alone);
    cr_assert_eq(memory.n_bytes, 0);
    cr_assert_null(memory.newest);
    cr_assert_null(memory.oldest);
}

/* ---- no memory ---- */

enum { N_STEPS = 60, N_WORDS = (N_TOKENS + 31) / 32, N_BLOCKS = 1 << 14 };

struct recorded {
    uint32_t masks[N_STEPS][N_WORDS], picks[N_STEPS], n;
};

static void record(const struct token_trie *trie, struct grammar *g, const uint8_t (*text)[16],
                   const uint32_t *n, struct recorded *out)
{
    struct matcher *m;
    cr_assert_eq(matcher_create(&m, g), ST_OK);
    for (out->n = 0; out->n < N_STEPS; out->n++) {
        uint32_t *mask = out->masks[out->n], count, pick = 0, seen = 0;
        int32_t only;
        bool cached;
        bool ok;
        cr_assert_eq(matcher_mask(m, trie, mask, &count, &only, &cached), ST_OK);
        if (count == 0)
            break;
        for (uint32_t t = 0; t < N_TOKENS; t++)
            if (mask[t / 32] >> (t % 32) & 1 && seen++ == out->n * 7919U % count)
                pick = t;
        out->picks[out->n] = pick;
        cr_assert_eq(matcher_consume(m, text[pick], n[pick], &ok), ST_OK);
    }
    matcher_destroy(m);
}

/* The same walk; from step `from` on only about `slack` bytes can be allocated.  Wrong: a mask or an answer that
 * differs. */
static enum status repeat(const struct token_trie *trie, struct matcher *m,
                          const uint8_t (*text)[16], const uint32_t *n, const struct recorded *r,
                          uint32_t from, size_t slack, bool *wrong)
{
    static void *taken[N_BLOCKS];
    static uint32_t mask[N_WORDS];
    struct rlimit had, none;
    size_t n_taken = 0;
    enum status st = ST_OK;
    void *kept = malloc(slack + 1);
    getrlimit(RLIMIT_AS, &had);
    none = (struct rlimit){1, had.rlim_max};
    *wrong = false;
    for (uint32_t i = 0; i < r->n && st == ST_OK; i++) {
        uint32_t count;
        int32_t only;
        bool cached;
        bool ok = true;
        if (i == from) {
            setrlimit(RLIMIT_AS, &none);
            for (size_t size = 1 << 20; size >= 32; size /= 2)
                while (n_taken < N_BLOCKS && (taken[n_taken] = malloc(size)))
                    n_taken++;
            free(kept);
        }
        st = matcher_mask(m, trie, mask, &count, &only, &cached);
        if (st == ST_OK) {
            *wrong = *wrong || memcmp(mask, r->masks[i], sizeof mask) != 0;
            st = matcher_consume(m, text[r->picks[i]], n[r->picks[i]], &ok);
        }
        *wrong = *wrong || (st == ST_OK && !ok);
    }
    setrlimit(RLIMIT_AS, &had);
    while (n_taken)
        free(taken[--n_taken]);
    return st;
}

/* Many texts, each with a state of a thousand expressions: a mask of them is refused, and as well by an automaton that has
 * most of the states.  A grammar of the same kind that takes less is not. */
Test(grammar, a_mask_has_a_bound_of_work)
{
    enum { TOKENS = 1 << 13, LENGTH = 12 };
    static uint8_t text[TOKENS][LENGTH];
    static const uint8_t *bytes[TOKENS];
    static uint32_t n[TOKENS], mask[TOKENS / 32], again[TOKENS / 32];
    struct token_trie *trie;
    uint32_t count;
    int32_t only;
    bool cached, ok;
    uint8_t prefix[1000];
    memset(prefix, 'a', sizeof prefix);
    for (uint32_t i = 0; i < TOKENS; i++) {
        bytes[i] = text[i];
        n[i] = LENGTH;
        for (uint32_t k = 0; k < LENGTH; k++)
            text[i][k] = i * 2654435761U >> (20 + k) & 1 ? 'a' : 'b';
    }
    cr_assert_eq(token_trie_create(&trie, bytes, n, TOKENS), ST_OK);
    for (int dear = 0; dear < 2; dear++) {
        struct grammar *g = compile(GRAMMAR_REGEX, dear ? "[ab]*a[ab]{900}" : "[ab]*a[ab]{9}");
        struct matcher *m, *warm;
        enum status want = dear ? ST_RANGE : ST_OK;
        cr_assert_eq(matcher_create(&m, g), ST_OK);
        cr_assert_eq(matcher_consume(m, prefix, sizeof prefix, &ok), ST_OK);
        cr_assert_eq(matcher_mask(m, trie, mask, &count, &only, &cached), want, "%s",
                     status_text());
        cr_assert_eq(matcher_mask(m, trie, mask, &count, &only, &cached), want);
        cr_assert_eq(cached, !dear);
        cr_assert_eq(matcher_create(&warm, g), ST_OK);
        cr_assert_eq(matcher_consume(warm, prefix, sizeof prefix, &ok), ST_OK);
        for (uint32_t i = 0; i < 600; i++) { /* states that the mask needs */
            cr_assert_eq(matcher_consume(warm, text[i], LENGTH, &ok), ST_OK);
            matcher_rollback(warm, LENGTH);
        }
        cr_assert_eq(matcher_mask(warm, trie, again, &count, &only, &cached), want);
        cr_assert(dear || memcmp(mask, again, sizeof mask) == 0);
        matcher_destroy(warm);
        matcher_destroy(m);
        grammar_destroy(g);
    }
    token_trie_destroy(trie);
}

/* Without memory a mask is an error, never that of dead states. */
Test(grammar, no_memory_is_an_error)
{
    if (SANITIZED)
        cr_skip_test("a sanitizer's allocator does not return without memory");
    static uint8_t text[N_TOKENS][16];
    static uint32_t n[N_TOKENS];
    static struct recorded r;
    const char *source = "([a-z ]{3,20}[.!] ){4,9}";
    struct token_trie *trie = vocabulary(text, n);
    struct grammar *twin = compile(GRAMMAR_REGEX, source);
    unsigned n_failed = 0;
    record(trie, twin, (const uint8_t(*)[16])text, n, &r);
    for (uint32_t k = 0; k < 8 * 12; k++) {
        struct grammar *g = compile(GRAMMAR_REGEX, source);
        struct matcher *m;
        bool wrong;
        cr_assert_eq(matcher_create(&m, g), ST_OK);
        enum status st = repeat(trie, m, (const uint8_t(*)[16])text, n, &r, 1 + k / 12 * 5,
                                (size_t)64 << k % 12, &wrong);
        cr_assert(!wrong, "from step %u, %u bytes", 1 + k / 12 * 5, 64U << k % 12);
        cr_assert(st == ST_OK || st == ST_NOMEM, "%s", status_text());
        n_failed += st == ST_NOMEM;
        matcher_destroy(m);
        grammar_destroy(g);
    }
    cr_assert_gt(n_failed, 0u);
    grammar_destroy(twin);
    token_trie_destroy(trie);
}
