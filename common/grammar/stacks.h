/* Sets of stacks of grammar rules in progress.  A set is its stacks' tops in ascending order, each with the set of what
 * is below it; equal sets have equal ids.  machine.c only. */
#ifndef COMMON_GRAMMAR_STACKS_H
#define COMMON_GRAMMAR_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/grammar/work.h"

enum { STACKS_NONE = 0, STACKS_BOTTOM = 1 }; /* no stack; the one stack that is empty */
#define STACK_BOTTOM UINT32_MAX              /* the rule in the frame of an empty stack's end */

enum { STACKS_MAX = 1 << 21, STACKS_MAX_TOPS = 1 << 22 };

struct frame {
    uint32_t rule;
    uint32_t pos; /* SEQ: the next argument; REPEAT: times so far */
};

struct stack_top {
    struct frame frame;
    uint32_t below;
};

struct stack_set {
    uint32_t tops, n, depth; /* stacks->tops[tops ..] */
};

/* A union that was made; a < b, a 0: none. */
struct stacks_union {
    uint32_t a, b, set;
};

struct stacks {
    struct stack_set *sets;
    struct stack_top *tops;
    uint32_t *table; /* [n_table] sets + 1 by hash; a power of two */
    /* [n_table] unions by hash, the last one of each place.  Sets share what is below them, so without these a union of
     * ambiguous stacks would be made again on each of the ways to it. */
    struct stacks_union *unions;
    uint32_t n_sets, cap_sets, n_tops, cap_tops, n_table;
    struct grammar_work *work; /* NULL: not counted */
    enum status status;        /* of the first failure; all later sets are STACKS_NONE */
};

MUST_CHECK enum status stacks_init(struct stacks *s);
void stacks_fini(struct stacks *s);
void stacks_clear(struct stacks *s);
/* After stacks_clear: gives the memory back that it does not need then. */
void stacks_shrink(struct stacks *s);
size_t stacks_bytes(const struct stacks *s);

/* Each stack of the set with a frame on top. */
uint32_t stacks_push(struct stacks *s, struct frame frame, uint32_t below);
uint32_t stacks_union(struct stacks *s, uint32_t a, uint32_t b);

static inline const struct stack_top *stacks_tops(const struct stacks *s, uint32_t set, uint32_t *n)
{
    *n = s->sets[set].n;
    return s->tops + s->sets[set].tops;
}

static inline uint32_t stacks_depth(const struct stacks *s, uint32_t set)
{
    return s->sets[set].depth;
}

#endif
