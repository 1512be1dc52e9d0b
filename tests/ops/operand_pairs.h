/* Operands (reads_operand of backend.h) beside elements: an op and the product behind it, twice, with the same bits. */
#ifndef TESTS_OPS_OPERAND_PAIRS_H
#define TESTS_OPS_OPERAND_PAIRS_H

#include "ops/op_verdict.h"

struct operand_pair {
    enum operand_source from;
    enum dtype dtype; /* of the matrices; attention: of the cache, the matrix is of BF16 */
    int32_t rows;     /* T */
    int32_t k;        /* columns of the operand; attention: 512 */
    int32_t n_slices; /* of its reader */
    enum act act;
    enum dtype down; /* act_mul: of the reader; DT_F32: it has none, the output is of elements */
    int32_t n_seqs;  /* attention */
};

extern const struct operand_pair operand_pairs[];
extern const size_t n_operand_pairs;

/* "operand of norm rows 3 ..." in a static buffer. */
const char *operand_pair_name(const struct operand_pair *p);

/* why: what is wrong, or "". */
void operand_pair_check(struct backend *be, const struct operand_pair *p, char why[OP_WHY_BYTES]);

#endif
