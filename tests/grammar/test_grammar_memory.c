/* Compiling when one allocation fails: each of them in turn. */
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
};

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
