/* Regular expressions over bytes, with intersection and complement, and their derivatives (Brzozowski 1964; Owens,
 * Reppy and Turon 2009): the lexemes of a grammar.  Equal expressions have equal ids, so an id is also a state of the
 * expression's automaton, and deriving by a byte is its transition.
 *
 * Life: create; build expressions; expr_freeze, which divides the bytes into classes; then derive.  Derivatives are
 * made when they are first asked for.  expr_trim drops those again, so that a long-lived pool keeps within its bound;
 * ids from before the freeze stay valid.
 *
 * Builders cannot fail visibly: a pool that is full, or without memory, notes the failure, which expr_status gives, and
 * gives EXPR_NONE from then on.  One thread per pool. */
#ifndef COMMON_GRAMMAR_EXPR_H
#define COMMON_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/grammar/work.h"

struct expr_pool;

/* An expression; the first ids are fixed. */
enum {
    EXPR_NONE = 0,  /* no text at all */
    EXPR_EMPTY = 1, /* the empty text */
    EXPR_ALL = 2,   /* every text */
};

enum {
    EXPR_MAX = 1 << 20,         /* expressions of a pool */
    EXPR_MAX_WORDS = 1 << 23,   /* and words of their operands: 32 MiB */
    EXPR_MAX_DERIVED = 1 << 23, /* words of transitions: 32 MiB */
};
#define EXPR_NO_LIMIT UINT32_MAX /* max of expr_repeat */

/* A set of bytes. */
struct byte_set {
    uint32_t words[8];
};

static inline void byte_set_add(struct byte_set *s, unsigned lo, unsigned hi)
{
    for (unsigned b = lo; b <= hi; b++)
        s->words[b / 32] |= 1U << (b % 32);
}

static inline bool byte_set_has(const struct byte_set *s, unsigned b)
{
    return s->words[b / 32] >> (b % 32) & 1;
}

MUST_CHECK enum status expr_pool_create(struct expr_pool **out);
void expr_pool_destroy(struct expr_pool *p);

/* From now on making and deriving expressions is work (borrowed, NULL: it is not counted); a failure when it is spent. */
void expr_count_work(struct expr_pool *p, struct grammar_work *work);

/* ST_OK, or the first failure since the pool was made or trimmed; its text is this thread's detail. */
MUST_CHECK enum status expr_status(const struct expr_pool *p);

/* ---- building ---- */

uint32_t expr_bytes(struct expr_pool *p, const struct byte_set *set); /* one byte of the set */
uint32_t expr_range(struct expr_pool *p, unsigned lo, unsigned hi);   /* one byte lo..hi */
uint32_t expr_literal(struct expr_pool *p, const void *text, size_t n);
uint32_t expr_concat(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_or(struct expr_pool *p, const uint32_t *e, size_t n);
uint32_t expr_or2(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_and(struct expr_pool *p, const uint32_t *e, size_t n);
uint32_t expr_and2(struct expr_pool *p, uint32_t a, uint32_t b);
uint32_t expr_not(struct expr_pool *p, uint32_t a);
/* min to max times a; max may be EXPR_NO_LIMIT */
uint32_t expr_repeat(struct expr_pool *p, uint32_t a, uint32_t min, uint32_t max);
uint32_t expr_optional(struct expr_pool *p, uint32_t a);
/* Texts of decimal digits with at most one point whose value is a multiple of divisor / 10^decimals, divisor >= 1,
 * decimals <= 9; the empty text is 0. */
uint32_t expr_multiple(struct expr_pool *p, uint32_t divisor, uint32_t decimals);

/* Expressions that many sources need again: a place for each, EXPR_NONE until its maker (charset.c) has set it. */
enum expr_kept { EXPR_ANY_PLAIN, EXPR_ANY_JSON, EXPR_JSON_ANY, EXPR_N_KEPT };
uint32_t *expr_kept(struct expr_pool *p, enum expr_kept which);

/* One of n texts, as a tree of common beginnings: a derivative looks at one branch. */
struct expr_text {
    const char *p;
    size_t n;
};
/* Sorts texts. */
uint32_t expr_choice(struct expr_pool *p, struct expr_text *texts, size_t n);

/* ---- looking ---- */

bool expr_nullable(const struct expr_pool *p, uint32_t e); /* does it contain the empty text? */
/* Does it consist of finitely many texts?  false also when that is not obvious. */
bool expr_finite(const struct expr_pool *p, uint32_t e);
/* Does it use intersection or complement?  Only then may an expression other than EXPR_NONE be empty. */
bool expr_has_and(const struct expr_pool *p, uint32_t e);
/* How many times unit may be repeated from here so that the text can still be completed, whichever text of unit each
 * time is: at least this many, EXPR_NO_LIMIT = for ever. */
uint32_t expr_free_run(const struct expr_pool *p, uint32_t e, uint32_t unit);
/* If e is C{min,n} and more, C being unit and perhaps other texts, and neither these nor the rest begin with one of unit's
 * first bytes: n, and *min; else 0.  Then each text of unit leads to C{min-1,n-1} and more. */
uint32_t expr_string_run(const struct expr_pool *p, uint32_t e, uint32_t unit, uint32_t *min);
size_t expr_count(const struct expr_pool *p);
/* About how many expressions deriving e looks at, whether or not its derivatives were made. */
uint32_t expr_weight(const struct expr_pool *p, uint32_t e);

/* Is the text one of e's?  Only before expr_freeze. */
bool expr_matches(struct expr_pool *p, uint32_t e, const void *text, size_t n);

/* ---- deriving ---- */

/* Divides the bytes into classes of those that no expression tells apart.  Then nothing more is built. */
void expr_freeze(struct expr_pool *p);
uint32_t expr_n_classes(const struct expr_pool *p);
const uint8_t *expr_classes(const struct expr_pool *p); /* [256] class of each byte */
/* The texts that remain behind a byte of that class. */
uint32_t expr_derive(struct expr_pool *p, uint32_t e, uint32_t class_id);

/* Is there no text at all in e?  Explores at most max_states expressions; ST_RANGE: that does not decide.  The states of a
 * pattern whose characters are counted too are those of the pattern (expr_lengths.h).  What was found is kept. */
MUST_CHECK enum status expr_explore(struct expr_pool *p, uint32_t e, uint32_t max_states,
                                    bool *empty);
/* The same from what expr_explore found for e or for an expression that e was derived from. */
bool expr_known_empty(struct expr_pool *p, uint32_t e);

/* An expression of whose texts the same beginnings of up to `most` bytes are known, and which are texts themselves; equal
 * for many e that differ by a number of characters that is still far.  Often e. */
uint32_t expr_far(struct expr_pool *p, uint32_t e, uint32_t most);

/* Is the pool so full that it should be trimmed before more is derived? */
bool expr_nearly_full(const struct expr_pool *p);
/* Drops all that was derived since the freeze, except what expr_explore made, and a noted failure. */
void expr_trim(struct expr_pool *p);
/* After expr_trim: gives the memory back that the pool does not need then. */
void expr_shrink(struct expr_pool *p);
size_t expr_pool_bytes(const struct expr_pool *p);

#endif
