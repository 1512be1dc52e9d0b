/* The pool of expressions, for expr*.c only. */
#ifndef COMMON_GRAMMAR_EXPR_IMPL_H
#define COMMON_GRAMMAR_EXPR_IMPL_H

#include "common/grammar/expr.h"

enum expr_kind {
    EK_NONE,
    EK_EMPTY,
    EK_BYTES,    /* words: the set */
    EK_CONCAT,   /* a, b; a is no concat */
    EK_OR,       /* two and more, ascending; at most one EK_BYTES */
    EK_AND,      /* two and more, ascending */
    EK_NOT,      /* a */
    EK_REPEAT,   /* a, min, max; min is 0 if a is nullable */
    EK_MULTIPLE, /* divisor, remainder of the digits so far, decimals to come, was there a point? */
};

struct expr_node {
    uint32_t words, n_words; /* operands: pool->words[words ..] */
    uint32_t row;            /* of transitions, 0: none yet */
    uint8_t kind;
    bool nullable, has_and;
    bool explored, known, empty; /* what expr_explore found, or expr_known_empty from it */
    bool is_rest;                /* of a character (expr_lengths.c) */
    uint32_t lengths;            /* 1 + index of the pool's lengths, 0: none */
    uint32_t lengths_at;         /* state of these */
};

/* Numbers of characters (expr_lengths.h) for the states of one automaton: dist[k * n + i], for k < start + period, is the least d such that state i can reach its
 * end with k + d characters, UINT32_MAX: with no number from k on.  k from start on repeat with the period. */
struct expr_lengths {
    uint32_t *dist;
    uint32_t n, start, period;
    uint32_t most; /* the greatest dist that is a number */
};

struct expr_pool {
    struct expr_node *nodes;
    uint32_t *words; /* operands */
    uint32_t *table; /* [n_table] ids + 1 by hash, open addressing; a power of two */
    uint32_t
        *rows; /* [n_rows][n_classes] derivatives, UINT32_MAX: not made yet; row 0 is not used */
    uint32_t n_nodes, n_words, n_table, n_rows; /* n_rows in words */
    uint32_t cap_nodes, cap_words, cap_rows;
    uint32_t base_nodes, base_words; /* what expr_trim keeps */
    uint32_t kept[EXPR_N_KEPT];      /* EXPR_NONE: not made yet */
    struct expr_lengths *lengths;
    uint32_t n_lengths, cap_lengths;
    size_t lengths_bytes;
    uint32_t n_classes;
    uint8_t classes[256];
    uint8_t first_of[256];     /* a byte of each class */
    struct grammar_work *work; /* NULL: not counted */
    enum status status;
};

/* The expression of that kind and operands, found or made.  EXPR_NONE after a failure. */
uint32_t expr_make(struct expr_pool *p, enum expr_kind kind, const uint32_t *words, uint32_t n);

static inline const uint32_t *expr_operands(const struct expr_pool *p, uint32_t e)
{
    return p->words + p->nodes[e].words;
}

/* Is it the complement of finitely many texts, obviously? */
bool expr_excludes_few(const struct expr_pool *p, uint32_t e);

/* The pool's hash table over nodes [0, n_nodes). */
MUST_CHECK enum status expr_rehash(struct expr_pool *p);

#endif
