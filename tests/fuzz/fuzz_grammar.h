/* A grammar from outside: it compiles or is refused with a text, and the bytes that the masks allow are consumed. */
#ifndef TESTS_FUZZ_FUZZ_GRAMMAR_H
#define TESTS_FUZZ_FUZZ_GRAMMAR_H

#include <stdlib.h>
#include <string.h>

#include "common/grammar/grammar.h"

enum { N = 256 };

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* The vocabulary of single bytes. */
static struct token_trie *bytes_trie(void)
{
    static uint8_t byte[N];
    const uint8_t *p[N];
    uint32_t n[N];
    struct token_trie *t;
    for (uint32_t i = 0; i < N; i++) {
        byte[i] = (uint8_t)i;
        p[i] = &byte[i];
        n[i] = 1;
    }
    must(token_trie_create(&t, p, n, N) == ST_OK);
    return t;
}

static int fuzz_grammar(enum grammar_kind kind, const uint8_t *data, size_t size)
{
    struct grammar_source source = {kind, (const char *)data, size};
    struct grammar *g;
    struct matcher *m;
    uint32_t mask[N / 32], n;
    int32_t only;
    bool cached;
    bool ok;
    if (grammar_compile(&g, &source, NULL) != ST_OK) {
        must(strlen(status_text()) > 0 && !g);
        return 0;
    }
    struct token_trie *t = bytes_trie();
    must(matcher_create(&m, g) == ST_OK);
    for (int step = 0; step < 16; step++) {
        enum status made = matcher_mask(m, t, mask, &n, &only, &cached);
        must(made == ST_OK || made == ST_RANGE);
        if (made != ST_OK)
            break;
        must(n > 0 || matcher_accepts(m));
        if (n == 0)
            break;
        uint32_t byte = data[(size_t)step % size] % N;
        while (!(mask[byte / 32] >> (byte % 32) & 1))
            byte = (byte + 1) % N;
        must(matcher_consume(m, &(uint8_t){(uint8_t)byte}, 1, &ok) == ST_OK && ok);
    }
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
    return 0;
}

#endif
