/* The scales of e4m3 matrices, one for each row and FP8_BLOCK columns whatever a file's blocks are.
 * The elements are read from the file where they are. */
#ifndef WORKER_LOAD_DERIVE_FP8_H
#define WORKER_LOAD_DERIVE_FP8_H

#include "worker/load/derive.h"
#include "worker/load/loader.h"

/* p: p->rows rows and the columns [col, col + cols) of the matrix t.  Sets its scales
 * and skip.  ST_FORMAT names a scale that is not finite. */
MUST_CHECK enum status derive_fp8(struct copies *c, struct loader *ld,
                                  const struct stored_tensor *t, const struct stored_rows *rows,
                                  size_t col, size_t cols, struct weight_part *p);

/* p: rows are the columns cut->first + i of the matrix t, columns its rows from cut->col on; it
 * becomes f32. */
MUST_CHECK enum status derive_fp8_transposed(struct copies *c, struct loader *ld,
                                             const struct stored_tensor *t,
                                             const struct share_cut *cut, struct weight_part *p);

/* p: rows are the columns cut->first + i of matrix `expert` of the stack t [n, in, out], which has a scale for each column of
 * each matrix (loader_column_scales).  Sets the scales and skip.  ST_FORMAT names a scale that is not finite. */
MUST_CHECK enum status derive_fp8_columns(struct copies *c, struct loader *ld,
                                          const struct stored_tensor *t, size_t expert,
                                          const struct share_cut *cut, struct weight_part *p);

#endif
