/* Intersections of patterns with a number of characters, U{lo,hi}: whether one is empty is decided without a state for
 * each number.  For the automaton of the pattern alone, AND(x, U{0,}), it is computed with how many characters each state
 * can still reach its end; these numbers are ultimately periodic.  For expr_empty.c only. */
#ifndef COMMON_GRAMMAR_EXPR_LENGTHS_H
#define COMMON_GRAMMAR_EXPR_LENGTHS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

struct expr_pool;

/* Does e, an AND, have an operand U{lo,hi}, or the rest of a character and U{lo,hi}, with lo > 0 or a limit? */
bool lengths_counted(struct expr_pool *p, uint32_t e);

/* Computes the numbers for e and all that can be derived from it.  Its states before the last character are given to
 * explore(ctx, e), which is to explore all that can be derived from them and fails as it likes.  *done false: not possible, or too many states; nothing is known then. */
MUST_CHECK enum status lengths_find(struct expr_pool *p, uint32_t e,
                                    enum status (*explore)(void *ctx, uint32_t e), void *ctx,
                                    bool *done);

/* Is e, an AND that was derived from what lengths_find has seen, empty?  false also when it was not. */
bool lengths_empty(struct expr_pool *p, uint32_t e);

/* For such an AND: one that goes on with the same texts of up to `most` bytes, equal for many numbers of characters; or e. */
uint32_t lengths_far(struct expr_pool *p, uint32_t e, uint32_t most);

#endif
