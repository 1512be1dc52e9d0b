/* What a program without Criterion asks of a case: text that says what is wrong, or the empty
 * string. */
#ifndef TESTS_OPS_OP_VERDICT_H
#define TESTS_OPS_OP_VERDICT_H

#include "ops/op_cases.h"

enum { OP_WHY_BYTES = 512 };

/* [rows, cols]; the caller frees it.  A failed run is in why. */
float *op_results(struct backend *be, const struct op_case *c, char why[OP_WHY_BYTES]);

/* Within the reference's bounds, in double precision? */
void op_check_reference(const struct op_case *c, const float *got, char why[OP_WHY_BYTES]);

/* Has the case in calls of `chunk` rows the bits of want? */
void op_check_chunks(struct backend *be, const struct op_case *c, int32_t chunk, const float *want,
                     char why[OP_WHY_BYTES]);

#endif
