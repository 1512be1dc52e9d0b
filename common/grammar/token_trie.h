/* The bytes of a vocabulary's tokens, arranged for masks: a trie in depth-first order, and the tokens of JSON strings
 * apart.  One for a model; immutable, shared by all grammars and threads.
 *
 * Slices (as in llguidance's token slicer): a token whose bytes begin with plain characters of JSON strings (not " \
 * or control characters) has a plain part and a rest.  In a state inside a string any plain part leads nowhere new, so
 * one walk over the distinct rests decides all of these tokens; where the characters are counted, the plain part leads to a state
 * that depends on its number of characters alone, and the rests behind each number are walked from there. */
#ifndef COMMON_GRAMMAR_TOKEN_TRIE_H
#define COMMON_GRAMMAR_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

enum {
    TRIE_MAX_TOKENS = 1 << 24,
    TRIE_MAX_TOKEN_BYTES = 4096,
    SLICE_CHARS =
        32, /* most characters of the plain part, and most bytes of the rest, of a token of the slices */
};

struct trie_node {
    uint32_t skip; /* nodes of its subtree, itself included */
    int32_t token; /* first token that ends here, -1: none */
    uint8_t byte;
    uint16_t depth; /* bytes from the root, 1 for the first */
};

/* A trie of some of the tokens. */
struct trie {
    struct trie_node *nodes;
    uint32_t n;
};

struct token_trie {
    uint32_t
        n_tokens; /* ids of the vocabulary: rows of logits; those beyond the tokenizer have no bytes */
    uint32_t n_words;    /* of a mask: ceil(n_tokens / 32) */
    uint32_t most_bytes; /* of one token */
    uint8_t *bytes;      /* of all tokens */
    uint32_t *off;       /* [n_tokens + 1] */
    int32_t *same;       /* [n_tokens] the next token with the same bytes, -1: none */
    struct trie all;     /* of all tokens with bytes */
    struct trie others;  /* of those that are not in the slices */
    struct trie unplain; /* of those that are not in plain */
    struct trie rests;   /* of the distinct rests; a node's token is an index of rest_first */
    struct trie
        rests_after[SLICE_CHARS + 1]; /* those behind so many plain characters; of part_first */
    uint32_t *
        plain; /* [SLICE_CHARS + 1][n_words] tokens of the slices without a rest, of at most so many characters */
    uint32_t *rest_first; /* tokens of a rest: rest_tokens[rest_first[r] .. rest_first[r + 1]) */
    uint32_t *part_first; /* the same of a rest behind one number of plain characters */
    int32_t *rest_tokens;
};

/* Tokens of at most n plain characters and nothing else, n <= SLICE_CHARS. */
static inline const uint32_t *token_trie_plain(const struct token_trie *t, uint32_t n)
{
    return t->plain + (size_t)n * t->n_words;
}

/* bytes[i], n[i]: of token i; n 0: a special token, an unused id: no mask ever has it.
 * ST_RANGE: impossible sizes; ST_NOMEM. */
MUST_CHECK enum status token_trie_create(struct token_trie **out, const uint8_t *const *bytes,
                                         const uint32_t *n, uint32_t n_tokens);
void token_trie_destroy(struct token_trie *t);

#endif
