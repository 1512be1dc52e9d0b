/* The work of compiling a grammar, in steps: about one expression looked at, or 16 bytes of a text.  The count is a function
 * of the source alone, so that every process refuses the same sources; the time is not counted.  Whatever may take long
 * spends its steps as it goes, and asks with work_check at least once in each loop.  One thread, but for *stop. */
#ifndef COMMON_GRAMMAR_WORK_H
#define COMMON_GRAMMAR_WORK_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/status.h"

struct grammar_work {
    uint64_t left;           /* steps */
    const atomic_bool *stop; /* set: the grammar is no longer wanted; NULL: it always is */
    enum status
        status; /* ST_RANGE: all steps are spent; ST_CANCELED; ST_NOMEM; the first of these */
};

/* w NULL: work that is not counted. */
static inline void work_spend(struct grammar_work *w, uint64_t n)
{
    if (!w || w->status != ST_OK)
        return;
    if (w->stop && atomic_load_explicit(w->stop, memory_order_relaxed))
        w->status = ST_CANCELED;
    else if (n > w->left)
        w->status = ST_RANGE;
    else
        w->left -= n;
}

/* A question about the source could not be answered: the compile fails, for "no" may be wrong. */
static inline void work_no_memory(struct grammar_work *w)
{
    if (w && w->status == ST_OK)
        w->status = ST_NOMEM;
}

/* grammar_compile puts the place and the sentence in front of the failure. */
MUST_CHECK static inline enum status work_check(const struct grammar_work *w)
{
    return w ? w->status : ST_OK;
}

#endif
