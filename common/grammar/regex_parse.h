/* The syntax tree of a regular expression; for regex.c only. */
#ifndef COMMON_GRAMMAR_REGEX_PARSE_H
#define COMMON_GRAMMAR_REGEX_PARSE_H

#include "common/grammar/charset.h"

enum {
    REGEX_MAX_BYTES = 1 << 13,
    REGEX_MAX_DEPTH = 100,     /* nested groups */
    REGEX_MAX_REPEAT = 100000, /* m and n */
};

enum regex_kind { RX_EMPTY, RX_SET, RX_BEGIN, RX_END, RX_CONCAT, RX_OR, RX_REPEAT };

struct regex_node {
    enum regex_kind kind;
    uint32_t a, b;     /* CONCAT, OR: both; REPEAT: a */
    uint32_t min, max; /* REPEAT */
    uint32_t expr;     /* SET: one character of it */
    uint32_t at;       /* byte in the pattern */
};

struct regex_tree {
    struct regex_node *nodes;
    uint32_t n, cap, root;
};

/* tree is {0}; the caller frees tree->nodes, also after a failure. */
MUST_CHECK enum status regex_parse(struct regex_tree *tree, struct expr_pool *p,
                                   const char *pattern, size_t n, enum text_form form);

#endif
