/* A bound on the memory that several grammars hold together.  What their automata have grown is given back by the grammar
 * that was not used for longest, until the sum keeps the bound; what they took when they were compiled stays.  Answers
 * do not depend on it: matchers consume their bytes again.  One thread. */
#ifndef COMMON_GRAMMAR_GRAMMAR_MEMORY_H
#define COMMON_GRAMMAR_GRAMMAR_MEMORY_H

#include "common/grammar/grammar.h"

/* A grammar's place in it; zeros at the start, at one address while it is in. */
struct grammar_share {
    struct grammar *grammar; /* borrowed; NULL: not in */
    size_t n_bytes;          /* when it was counted last */
    struct grammar_share *newer, *older;
};

struct grammar_memory { /* zeros but for max at the start */
    size_t max, n_bytes;
    struct grammar_share *newest, *oldest; /* by their last use */
};

/* The share's grammar was compiled or used: counts it again and makes room, not by shrinking it.  The first call puts it
 * in. */
void grammar_memory_used(struct grammar_memory *m, struct grammar_share *share,
                         struct grammar *grammar);
/* Before the grammar is destroyed; a share that is not in is fine. */
void grammar_memory_leave(struct grammar_memory *m, struct grammar_share *share);

#endif
