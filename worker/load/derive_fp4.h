/* Rows of 4-bit floats (worker/load/fp4.h) as the backends read them: MXFP4 in blocks of 32, the others a
 * byte for each element beside their scales. */
#ifndef WORKER_LOAD_DERIVE_FP4_H
#define WORKER_LOAD_DERIVE_FP4_H

#include "worker/load/derive.h"
#include "worker/load/fp4.h"

/* p: p->rows rows and the columns [col, col + cols).  Sets all but rows and biases.  ST_FORMAT names
 * a tensor with a scale that is not finite. */
MUST_CHECK enum status derive_fp4(struct copies *c, const struct fp4 *m,
                                  const struct stored_rows *rows, size_t col, size_t cols,
                                  struct weight_part *p);

/* p: rows are the columns 0 .. cut->rows of the matrix, columns its rows from cut->col on; it becomes
 * f32. */
MUST_CHECK enum status derive_fp4_transposed(struct copies *c, const struct fp4 *m,
                                             const struct share_cut *cut, struct weight_part *p);

#endif
