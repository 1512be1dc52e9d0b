/* A context-free grammar whose terminals are expressions (expr.h), as a graph of rules.  A compiler builds it from the
 * leaves; recursion goes through rules that were reserved first and defined later.
 *
 * Builders note a failure, which rules_finish returns, and give rule 0, which matches the empty text, from then on.
 * One thread. */
#ifndef COMMON_GRAMMAR_RULES_H
#define COMMON_GRAMMAR_RULES_H

#include "common/grammar/expr.h"

enum {
    RULES_MAX = 1 << 19,
    RULES_MAX_ARGS = 1 << 21,
    RULES_MAX_PLACES = 1 << 23, /* bytes of the names of places */
    RULES_MAX_EXPLORED = 50000, /* states of a terminal with intersection or complement */
};

enum rule_kind {
    RULE_LEXEME, /* args[0]: an expression */
    RULE_SEQ,    /* all args, one behind the other */
    RULE_ALT,    /* one of args */
    RULE_REPEAT, /* args[0], min to max times */
    RULE_REF,    /* args[0], defined later than made */
};

struct rule {
    enum rule_kind kind;
    uint32_t args, n_args; /* rules->args[args ..] */
    uint32_t min, max;     /* RULE_REPEAT; max may be EXPR_NO_LIMIT */
    uint32_t place;        /* offset of the place's name in rules->places */
    bool productive;       /* some finite text matches; others are never entered */
    bool nullable;         /* the empty text matches */
};

struct rules {
    struct expr_pool *pool; /* owned */
    struct rule *list;
    uint32_t *args;
    char *places; /* names, each ended by NUL */
    uint32_t n, cap, n_args, cap_args, n_places, cap_places;
    uint32_t place;            /* of the rules that are made next */
    struct grammar_work *work; /* NULL: not counted */
    enum status status;
};

/* work: borrowed, of building (rules_count_work). */
MUST_CHECK enum status rules_init(struct rules *r, struct grammar_work *work);
void rules_fini(struct rules *r);
/* From now on building rules and expressions is this work; NULL: it is not counted. */
void rules_count_work(struct rules *r, struct grammar_work *work);
size_t rules_bytes(const struct rules *r); /* memory that they and their pool hold */

/* The rules made from now on come from this place of the source ("#/properties/a"). */
void rules_at(struct rules *r, const char *place);

uint32_t rules_lexeme(struct rules *r, uint32_t expr);
uint32_t rules_literal(struct rules *r, const char *text);
uint32_t rules_seq(struct rules *r, const uint32_t *args, uint32_t n);
uint32_t rules_alt(struct rules *r, const uint32_t *args, uint32_t n);
uint32_t rules_repeat(struct rules *r, uint32_t arg, uint32_t min, uint32_t max);
uint32_t rules_reserve(struct rules *r);
void rules_define(struct rules *r, uint32_t reserved, uint32_t rule);

/* Freezes the pool and decides which rules are productive and nullable.
 *   ST_FORMAT       no text matches root
 *   ST_UNSUPPORTED  left recursion, or a bounded repetition of a rule that matches the empty text
 *   ST_RANGE        too large
 * The text names the place. */
MUST_CHECK enum status rules_finish(struct rules *r, uint32_t root);

/* The place of what is made now; "#" before anything. */
static inline const char *rules_at_place(const struct rules *r)
{
    return r->n_places ? r->places + r->place : "#";
}

static inline const char *rules_place(const struct rules *r, uint32_t rule)
{
    return r->places + r->list[rule].place;
}

#endif
