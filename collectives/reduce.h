/* The arithmetic of all_reduce: element by element over the ranks' operands, in the order of the
 * contract in coll.h.  Pure. */
#ifndef COLLECTIVES_REDUCE_H
#define COLLECTIVES_REDUCE_H

#include <stddef.h>

#include "collectives/coll.h"

/* dst[i] = src[0][i] op src[1][i] ... as a binary tree in rank order.  dst [n] may be one of src;
 * other overlap is not allowed.  MAX and MIN give NaN where an operand is NaN. */
void reduce_tree(float *dst, const float *const *src, int world, size_t n, enum reduce_op op);

/* Where part p begins when n elements are divided among the ranks: part p is
 * [part_begin(p), part_begin(p + 1)).  Borders are multiples of 16 elements (a cache line); parts
 * may be empty. */
static inline size_t part_begin(size_t n, int world, int p)
{
    size_t each = ((n + (size_t)world - 1) / (size_t)world + 15) / 16 * 16;
    size_t at = each * (size_t)p;
    return at < n ? at : n;
}

#endif
