/* What load_stack of every backend needs of a stack's matrices. */
#ifndef BACKENDS_WEIGHT_STACK_H
#define BACKENDS_WEIGHT_STACK_H

#include <string.h>

#include "backends/backend.h"

/* The same shape, slices and types? */
static inline bool weight_src_alike(const struct weight_src *a, const struct weight_src *b)
{
    bool same = a->cols == b->cols && a->n_parts == b->n_parts && a->n_slices == b->n_slices &&
                memcmp(a->slice_end, b->slice_end, sizeof a->slice_end) == 0;
    for (int i = 0; same && i < a->n_parts; i++) {
        const struct weight_part *p = &a->part[i], *q = &b->part[i];
        same = p->dtype == q->dtype && p->rows == q->rows && p->skip == q->skip &&
               p->block == q->block &&
               (!is_indexed(p->dtype) || p->scale_stride == q->scale_stride);
    }
    return same;
}

/* ST_RANGE: n is not 1 to MOE_MAX_EXPERTS.  ST_UNSUPPORTED: matrices that differ in type or shape,
 * vectors, biases.  Each matrix by itself is for the backend to check. */
MUST_CHECK static inline enum status weight_stack_check(const struct weight_src *src, int32_t n)
{
    if (n < 1 || n > MOE_MAX_EXPERTS)
        FAIL(ST_RANGE, "weight %s: a stack of %d matrices", src->name, n);
    for (int32_t i = 0; i < n; i++) {
        if (!weight_src_alike(&src[i], src))
            FAIL(ST_UNSUPPORTED, "weight %s: matrix %d of the stack has another type or shape",
                 src->name, i);
        if (src[i].vector || weight_src_has_bias(&src[i]))
            FAIL(ST_UNSUPPORTED, "weight %s: a stack of %s", src->name,
                 src[i].vector ? "vectors" : "matrices with biases");
    }
    return ST_OK;
}

#endif
