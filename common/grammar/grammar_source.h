/* What a grammar is made of: see grammar.h. */
#ifndef COMMON_GRAMMAR_GRAMMAR_SOURCE_H
#define COMMON_GRAMMAR_GRAMMAR_SOURCE_H

#include <stddef.h>

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
    GRAMMAR_KINDS,
};

struct grammar_source {
    enum grammar_kind kind;
    const char *text; /* UTF-8 */
    size_t n;
};

#endif
