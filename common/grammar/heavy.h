/* Transitions of an automaton that take many steps to make, with these steps.  The work of a mask is the sum over the
 * different transitions that it needs, whether they were there before or not: so it is a function of the grammar and of
 * the text, and every process finds the same masks too dear.  One thread. */
#ifndef COMMON_GRAMMAR_HEAVY_H
#define COMMON_GRAMMAR_HEAVY_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct heavy_entry {
    uint32_t key; /* of the transition + 1; 0: free */
    uint32_t steps;
    uint32_t number; /* of the sum that it was counted in last */
};

struct heavy { /* zeros at the start */
    struct heavy_entry *entries;
    uint32_t n, cap; /* cap: a power of two */
    uint32_t number;
};

MUST_CHECK enum status heavy_add(struct heavy *h, uint32_t key, uint32_t steps);
/* Begins a sum. */
void heavy_begin(struct heavy *h);
/* The steps of a transition that was added, 0 if this sum has them already. */
uint32_t heavy_count(struct heavy *h, uint32_t key);
void heavy_clear(struct heavy *h);
void heavy_fini(struct heavy *h);
size_t heavy_bytes(const struct heavy *h);

#endif
