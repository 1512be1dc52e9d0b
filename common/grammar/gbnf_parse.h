/* The syntax tree of a context-free grammar; for gbnf.c and gbnf_fold.c only. */
#ifndef COMMON_GRAMMAR_GBNF_PARSE_H
#define COMMON_GRAMMAR_GBNF_PARSE_H

#include "common/grammar/charset.h"

enum {
    GBNF_MAX_RULES = 1 << 16,
    GBNF_MAX_NODES = 1 << 20,
    GBNF_MAX_DEPTH = 100,     /* nested groups and repetitions */
    GBNF_MAX_REPEAT = 100000, /* m and n */
    GBNF_MAX_NAME = 128,      /* bytes */
};
#define GBNF_NONE UINT32_MAX

enum gbnf_kind {
    GB_TEXT,   /* a literal */
    GB_EXPR,   /* a set, any character */
    GB_REF,    /* a rule */
    GB_SEQ,    /* all children, one behind the other; without any: the empty text */
    GB_ALT,    /* one of the children */
    GB_REPEAT, /* the child, min to max times */
};

struct gbnf_node {
    enum gbnf_kind kind;
    uint32_t next;     /* sibling, GBNF_NONE: the last */
    uint32_t first;    /* child, GBNF_NONE: none */
    uint32_t min, max; /* GB_REPEAT; max may be EXPR_NO_LIMIT */
    uint32_t value;    /* GB_TEXT: where its bytes are; GB_EXPR: the expression; GB_REF: the rule */
    uint32_t size;     /* GB_TEXT: bytes, GB_EXPR: ranges; else set by gbnf_fold */
    uint32_t line;
};

struct gbnf_rule {
    uint32_t name, n_name; /* in the text */
    uint32_t line;         /* of its definition, 0: not defined */
    uint32_t at;           /* byte of the name where it was seen first */
    uint32_t body;         /* node */
};

struct gbnf_tree {
    const char *text; /* borrowed */
    size_t n_text;
    char *bytes; /* of the literals */
    struct gbnf_node *nodes;
    struct gbnf_rule *rules;
    uint32_t *table; /* [n_table] rules + 1 by the hash of their names; a power of two */
    uint32_t n_bytes, cap_bytes, n_nodes, cap_nodes, n_rules, cap_rules, n_table;
    uint32_t root; /* rule */
};

/* tree is {0}; freed with gbnf_tree_free, also after a failure. */
MUST_CHECK enum status gbnf_parse(struct gbnf_tree *tree, struct expr_pool *p, const char *text,
                                  size_t n);
void gbnf_tree_free(struct gbnf_tree *tree);

#endif
