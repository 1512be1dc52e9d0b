/* What a grammar is made of: see grammar.h. */
#ifndef COMMON_GRAMMAR_GRAMMAR_SOURCE_H
#define COMMON_GRAMMAR_GRAMMAR_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRAMMAR_MAX_BYTES = 1 << 20, /* of a source */
    /* Begins the bytes of a special token.  No UTF-8 has it, so no other form than tags.h's "special" matches it; other
     * tokens with that byte are given no bytes. */
    GRAMMAR_SPECIAL = 0xff,
};

/* Values are on the wire: append only. */
enum grammar_kind {
    GRAMMAR_NONE = 0,
    GRAMMAR_JSON_SCHEMA = 1, /* source: the schema (schema.h); the text: a JSON value, compact */
    GRAMMAR_JSON_OBJECT = 2, /* source: empty; any JSON object, compact */
    GRAMMAR_REGEX = 3,  /* source: a regular expression (regex.h) that the whole text matches */
    GRAMMAR_CHOICE = 4, /* source: a JSON array of strings, of which the text is one */
    GRAMMAR_TAGS = 5,   /* source: structural tags (tags.h), a JSON object */
    GRAMMAR_GBNF =
        6, /* source: a context-free grammar (gbnf.h), of whose rule root the text is one */
    GRAMMAR_THINKING = 7, /* source: a budget of thinking (thinking.h); any text */
    GRAMMAR_THINKING_TAGS =
        8, /* source: the same, whose "answer" is structural tags, for the whole text */
    GRAMMAR_KINDS,
};

/* A kind whose texts are any: end-of-sequence tokens are possible everywhere, and end answers as without a grammar. */
static inline bool grammar_kind_is_open(uint32_t kind)
{
    return kind == GRAMMAR_THINKING;
}

struct grammar_source {
    enum grammar_kind kind;
    const char *text; /* UTF-8 */
    size_t n;
};

#endif
