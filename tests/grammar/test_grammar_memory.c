/* Compiling, matching and masks when one allocation fails: each of them in turn. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/grammar/grammar.h"
#include "wrap_allocator.h"

static unsigned long n_left; /* allocations until the one that fails; 0: none does */

static bool allocation_fails(void)
{
    return n_left && --n_left == 0;
}

static const struct {
    const char *name;
    enum grammar_kind kind;
    const char *text;
} sources[] = {
    /* names with escapes are compared as texts of their own */
    {"schema", GRAMMAR_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"\\u0061b\":{\"type\":\"integer\"},\"c\\u0064\":"
     "{\"$ref\":\"#/$defs/"
     "e\\u0066\"},\"g\":{\"oneOf\":[{\"const\":\"\\u0068\"},{\"const\":\"i\"}]}},"
     "\"required\":[\"ab\",\"c\\u0064\"],\"$defs\":{\"\\u0065f\":{\"enum\":[\"x\\u0079\",\"z\"]}},"
     "\"additionalProperties\":false}"},
    {"regex", GRAMMAR_REGEX, "(ab|cd){2,5}[x-z]+\\d?"},
    {"choice", GRAMMAR_CHOICE, "[\"yes\",\"no\",\"per\\u0068aps\"]"},
    {"tags", GRAMMAR_TAGS,
     "{\"seq\":[{\"free\":{\"without\":[\"<c>\"]}},{\"special\":\"<c>\"},{\"repeat\":{\"schema\":{"
     "\"type\":"
     "\"object\",\"properties\":{\"b\":{\"type\":\"string\",\"maxLength\":3},\"A "
     "c\":{\"enum\":[\"x\",1]}},"
     "\"required\":[\"b\"]},\"special_quote\":\"<q>\"},\"between\":{\"text\":\",\"},\"max\":3}]}"},
    {"context-free", GRAMMAR_GBNF, "root ::= sum (\";\" sum)*\nsum ::= [0-9]+ | \"(\" sum \")\"\n"},
    {"thinking", GRAMMAR_THINKING_TAGS,
     "{\"budget\":2,\"open\":\"<t>\",\"close\":\"</"
     "t>\",\"close_ids\":[7,8],\"answer\":{\"choice\":[\"a\",\"b\"]}}"},
};

/* The vocabulary of single bytes. */
static struct token_trie *bytes_trie(void)
{
    static uint8_t byte[256];
    const uint8_t *p[256];
    uint32_t n[256];
    struct token_trie *t;
    for (uint32_t i = 0; i < 256; i++) {
        byte[i] = (uint8_t)i;
        p[i] = &byte[i];
        n[i] = 1;
    }
    cr_assert_eq(token_trie_create(&t, p, n, 256), ST_OK);
    return t;
}

enum { STEPS = 12, WORDS = 256 / 32 };

/* The masks of a text that takes the allowed bytes in turn, and whether it could end: as far as memory lasts. */
struct walk {
    uint32_t mask[STEPS][WORDS];
    bool accepts[STEPS];
    size_t n;
};

static enum status take_walk(struct grammar *g, struct token_trie *t, struct walk *w)
{
    struct matcher *m;
    *w = (struct walk){.n = 0};
    TRY(matcher_create(&m, g));
    enum status st = ST_OK;
    while (st == ST_OK && w->n < STEPS) {
        uint32_t n = 0, byte = (uint32_t)(37 * w->n) % 256;
        int32_t only;
        bool cached, ok = true;
        w->accepts[w->n] = matcher_accepts(m);
        st = matcher_mask(m, t, w->mask[w->n], &n, &only, &cached);
        if (st != ST_OK || n == 0)
            break;
        while (!(w->mask[w->n][byte / 32] >> (byte % 32) & 1))
            byte = (byte + 1) % 256;
        st = matcher_consume(m, &(uint8_t){(uint8_t)byte}, 1, &ok);
        w->n += st == ST_OK;
        cr_assert(st != ST_OK || ok);
    }
    matcher_destroy(m);
    return st;
}

/* It fails with ST_NOMEM, or the grammar is the one that it is with memory. */
Test(grammar_memory, each_allocation_fails_once)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        const struct grammar_source source = {sources[i].kind, sources[i].text,
                                              strlen(sources[i].text)};
        struct grammar *g;
        cr_assert_eq(grammar_compile(&g, &source, NULL), ST_OK, "%s", status_text());
        uint64_t work = grammar_work(g);
        unsigned long k = 0, n_failed = 0;
        bool reached = true;
        grammar_destroy(g);
        while (reached) {
            n_left = ++k;
            enum status st = grammar_compile(&g, &source, NULL);
            reached = n_left == 0;
            n_left = 0;
            cr_assert(st == ST_OK || st == ST_NOMEM, "%s, allocation %lu: %s", sources[i].name, k,
                      status_text());
            n_failed += st == ST_NOMEM;
            if (st != ST_OK)
                continue;
            cr_assert_eq(grammar_work(g), work, "%s, allocation %lu", sources[i].name, k);
            grammar_destroy(g);
        }
        cr_assert_gt(n_failed, 10u, "%s: %lu of %lu", sources[i].name, n_failed, k);
    }
}

/* Masks fail with ST_NOMEM, which ends the rank, or are what they are with memory. */
Test(grammar_memory, masks_when_an_allocation_fails)
{
    struct token_trie *t = bytes_trie();
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        const struct grammar_source source = {sources[i].kind, sources[i].text,
                                              strlen(sources[i].text)};
        struct walk want, got;
        struct grammar *g;
        unsigned long k = 0, n_failed = 0;
        bool reached = true;
        cr_assert_eq(grammar_compile(&g, &source, NULL), ST_OK, "%s", status_text());
        cr_assert_eq(take_walk(g, t, &want), ST_OK, "%s", status_text());
        grammar_destroy(g);
        while (reached) {
            cr_assert_eq(grammar_compile(&g, &source, NULL), ST_OK, "%s", status_text());
            n_left = ++k;
            enum status st = take_walk(g, t, &got);
            reached = n_left == 0;
            n_left = 0;
            cr_assert(st == ST_OK || st == ST_NOMEM, "%s, allocation %lu: %s", sources[i].name, k,
                      status_text());
            n_failed += st == ST_NOMEM;
            cr_assert(st != ST_OK || (got.n == want.n && memcmp(&got, &want, sizeof got) == 0),
                      "%s, allocation %lu: another mask", sources[i].name, k);
            grammar_destroy(g);
        }
        cr_assert_gt(n_failed, 2u, "%s: %lu of %lu", sources[i].name, n_failed, k);
    }
    token_trie_destroy(t);
}
