/* Rows of integers (worker/load/ints.h) as the backends read them.  Where a group is neighbouring
 * columns, a multiple of 32 of them, with scales of 16 bits: blocks of 32 that meet activations in
 * 8 bits (Q4_0, Q8_0, INT4_*, INT8_*).  Otherwise elements with an index of groups, which meet them in
 * f32, or, where the columns are sorted, in 8 bits too (INT4_SORTED, INT8_SORTED). */
#ifndef WORKER_LOAD_DERIVE_INTS_H
#define WORKER_LOAD_DERIVE_INTS_H

#include "worker/load/derive.h"
#include "worker/load/ints.h"

/* p: p->rows rows and the columns [col, col + cols).  Sets all but rows and biases.  floats: whatever it is, to meet
 * activations in f32.
 * ST_FORMAT names a tensor with a scale that is not finite, a zero point that is not in the middle
 * where the configuration says so, or a wrong index. */
MUST_CHECK enum status derive_ints(struct copies *c, const struct ints *m, bool floats,
                                   const struct stored_rows *rows, size_t col, size_t cols,
                                   struct weight_part *p);

/* p: rows are the columns 0 .. cut->rows of the matrix, columns its rows from cut->col on; it becomes
 * f32. */
MUST_CHECK enum status derive_ints_transposed(struct copies *c, const struct ints *m,
                                              const struct share_cut *cut, struct weight_part *p);

#endif
