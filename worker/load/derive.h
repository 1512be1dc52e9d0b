/* Tensors whose rows are not stored as the backends read them: transposed ones, rows of gate and up
 * in turn, MXFP4 blocks apart from their scales.  A rank's share of them is copied into rows when it
 * is loaded.  The copies are freed after each weight, so they take the bytes of one weight (of all
 * experts of a layer) besides the plan.  Called by weights.c. */
#ifndef WORKER_LOAD_DERIVE_H
#define WORKER_LOAD_DERIVE_H

#include "backends/backend.h"
#include "worker/load/tensor_source.h"

/* The copies of one weight. */
struct copies {
    void **p;
    size_t n, cap;
    bool sizes_only; /* nothing is copied: parts have sizes and types alone */
};

void copies_free(struct copies *c);

/* Rows first, first + step, ... of a stored tensor, and its columns from col on. */
struct share_cut {
    size_t first, step, rows, col, cols;
};

/* Which rows of a stored matrix are those of a derived one: n neighbours of every group of `step` rows, from row `at` of
 * the group on.  The first of the derived matrix is number `first` of all those.  Elements, scales, zero points and biases
 * of rows are all found by it. */
struct stored_rows {
    size_t first, step, at, n;
    size_t paired; /* rows of a head whose halves are stored in turn; 0: they are not */
};

/* All neighbours. */
static inline struct stored_rows stored_neighbours(size_t first)
{
    return (struct stored_rows){.first = first, .step = 1, .n = 1};
}

/* Row i is stored behind row i - 1. */
static inline bool stored_in_order(const struct stored_rows *rows)
{
    return rows->n == 1 && rows->step == 1 && !rows->paired;
}

/* The stored row of row i. */
static inline size_t stored_row(const struct stored_rows *rows, size_t i)
{
    size_t k = rows->first + i, half = rows->paired / 2, in = half ? k % rows->paired : 0;
    if (half)
        k = k - in + in % half * 2 + in / half;
    return k / rows->n * rows->step + rows->at + k % rows->n;
}

/* stored: [all columns][n_rows] of 2 or 4 bytes, of p->dtype.  Sets p's data and row_bytes. */
MUST_CHECK enum status derive_transposed(struct copies *c, const unsigned char *stored,
                                         size_t n_rows, const struct share_cut *cut,
                                         struct weight_part *p);

/* The same of blocks of a quantised type with n_rows elements in a stored row, all rows of them: p
 * becomes f32. */
MUST_CHECK enum status derive_dequantised(struct copies *c, const unsigned char *stored,
                                          size_t n_rows, const struct share_cut *cut,
                                          struct weight_part *p);

/* blocks: [rows][row_blocks][16], of which a byte holds elements 2 i and 2 i + 1; scales: [rows]
 * [row_blocks] exponents.  The columns are whole blocks.  p becomes DT_MXFP4 as in common/quant.h. */
MUST_CHECK enum status derive_mxfp4(struct copies *c, const unsigned char *blocks,
                                    const unsigned char *scales, size_t row_blocks,
                                    const struct share_cut *cut, struct weight_part *p);

/* One block of these: pairs [16] and the exponent become out [17], whose low halves are elements 0 .. 15, high ones
 * 16 .. 31. */
void mxfp4_block(const unsigned char *pairs, unsigned char exponent, unsigned char *out);

/* Elements of a vector [..] of dtype t as f32 to out[0 .. cut->rows). */
void derive_floats(const unsigned char *stored, enum dtype t, const struct share_cut *cut,
                   float *out);

/* Zeroed memory that lives as long as the copies.  ST_NOMEM. */
MUST_CHECK enum status copies_take(struct copies *c, size_t bytes, void **out);

#endif
