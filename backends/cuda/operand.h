/* Operands: activations as the products of 16-bit weights read them (reads_operand of backend.h), written by the
 * kernel that computes them, so that no kernel packs them.
 *
 * A view with a reader has, from its first byte on, in place of [T, K] f32:
 *   - x rounded to the type of the reader's elements, zeros where the reader has no column, in one of two orders:
 *       up to ROWS_MAX tokens, and for cuBLASLt: rows of k.at[n_slices] elements, as the reader's (k_layout.h)
 *       more tokens: blocks of FRAGMENT_TOKENS in the order of matrix registers (linear_mma.h); what is in a block
 *       for tokens behind the last one reaches no output
 *   - F16: from the next multiple of 16 tokens on the factors of the segments' sums, [T, segments] f32
 * The order is a function of the reader and of T alone, and the view has both: there is no second copy and no
 * state beside the view.  Whoever writes the memory as elements writes what a view without a reader says it has.
 *
 * Two kinds of producers:
 *   by segment   a warp has 256 columns of a token (add_rms_norm, act_mul): any reader; the f16 scale is at hand
 *   by element   other threads or blocks have a segment's other columns (attention, the activation behind gate
 *                and up): BF16 readers whose slices are multiples of K_STEP columns, so that none are zeros */
#ifndef BACKENDS_CUDA_OPERAND_H
#define BACKENDS_CUDA_OPERAND_H

#include "backends/cuda/cuda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As kernels get it. */
struct operand {
    uint16_t *packed; /* NULL: there is none */
    float *unscale;   /* [T, segments] */
    int32_t row;      /* elements of a token: k.at[n_slices] of the reader */
    bool fragments;
};

/* Of a view with a reader. */
struct operand operand_of(const struct backend *be, struct view v);

/* Can w read what x's reader does?  Types and layouts are equal. */
bool operand_fits(const struct weight *w, const struct weight *reader);

/* Can a producer write single elements of w's operand? */
bool operand_by_element(const struct weight *w);

/* The ops of rows.cu with out.reader (operand.cu). */
MUST_CHECK enum status operand_rms_norm(struct backend *be, struct view resid, struct view x,
                                        const struct weight *x_bias, const struct weight *w,
                                        float eps, struct view out);
MUST_CHECK enum status operand_act_mul(struct backend *be, enum act act, struct view gate_up,
                                       struct view out);

#ifdef __cplusplus
}
#endif

#endif
