/* The matrix products of linear.c: each function enqueues one way to compute out = x w^T (+ bias).
 *
 * The order of every sum, whichever way ("strict"):
 *   slices   those of struct weight_src, added pairwise as its binary tree; the bias last
 *   slice    an ascending chain of fp32 additions of its segments, from +0
 *   segment  bf16 and f16: a chain of mma.m16n8k16 from +0, two for each K_CHUNK columns (which
 *            columns meet: linear_mma.h), x rounded to the type of w; f32: a chain of fmaf
 * For f16 a segment of x is first multiplied by the power of two that brings its token's greatest
 * magnitude there to [2^14, 2^15), and the segment's sum by the inverse: both exact.
 * So an output's bits depend on its rows of x and w alone, and a rank that holds neighbouring
 * slices has the partial sums of one that holds them all. */
#ifndef BACKENDS_CUDA_LINEAR_KERNELS_H
#define BACKENDS_CUDA_LINEAR_KERNELS_H

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/k_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROWS_MAX_X32 = 8, /* most tokens of linear_rows_x32 */
    ROWS_MAX = 32,    /* and of linear_rows */
    STACK_LEVELS = 3, /* log2(N_SLICES) */
};

struct operand;

/* T = n_tokens, N = n.  All pointers are the device's. */
struct linear_job {
    int32_t n_tokens, n;
    enum dtype dtype;  /* of w: F32, F16, BF16 */
    const void *w;     /* [N, k.at[k.n_slices]] */
    const float *bias; /* [N] or NULL */
    struct k_layout k;
    const float *x; /* [T, K], rows x_stride elements apart */
    size_t x_stride;
    const int32_t *rows; /* [T]: token i is row rows[i] of x, for linear_pack and f32; NULL: i */
    bool x_aligned;      /* a slice's columns begin at a multiple of 16 bytes in every row of x */
    float *out;          /* [T, N], rows out_stride elements apart */
    size_t out_stride;
    /* x in the type and the layout of w, zeros where no column is: [T, k.at[k.n_slices]], T to a
     * multiple of 16 for linear_pack_fragments; and for f16 the factors of the segments' sums, [T, segments]. */
    uint16_t *packed;
    float *unscale;
    float *sums; /* linear_sums_bytes: sums that wait for others */
    /* Several: product h has the matrix h head_bytes behind w, and columns h head_x of x and h head_out of
     * out on; packed, T to a multiple of 16, and unscale are [n_heads] of these.  No bias, no rows. */
    int32_t n_heads; /* >= 1 */
    size_t head_bytes, head_x, head_out;
};

/* The product of w, x and out but for its places in scratch memory; of a stack's first matrix. */
struct linear_job linear_job_of(const struct weight *w, struct view x, struct view out);
/* Does it, or all products of a job of several: floats. */
MUST_CHECK enum status linear_run(struct backend *be, const struct linear_job *job);

/* x -> packed, unscale. */
MUST_CHECK enum status linear_pack(struct backend *be, const struct linear_job *job);
/* The same in linear_mma.h's fragments: blocks of 16 tokens, zeros behind the last, each of k.at[k.n_slices]
 * / K_CHUNK chunks.  Without rows.  Of all heads. */
MUST_CHECK enum status linear_pack_fragments(struct backend *be, const struct linear_job *job);

/* F16, BF16, T <= ROWS_MAX_X32; reads x. */
MUST_CHECK enum status linear_rows_x32(struct backend *be, const struct linear_job *job);
/* F16, BF16, T <= ROWS_MAX; reads packed. */
MUST_CHECK enum status linear_rows(struct backend *be, const struct linear_job *job);
/* act_mul of the product, gate before up: to an operand of single elements, or to [T, N / 2] where there is none.
 * BF16, T <= ROWS_MAX; reads packed. */
MUST_CHECK enum status linear_hidden_rows(struct backend *be, const struct linear_job *job,
                                          enum act act, const struct operand *to);
/* F16, BF16, any T; reads packed of linear_pack_fragments, uses sums. */
MUST_CHECK enum status linear_tiles(struct backend *be, const struct linear_job *job);
size_t linear_sums_bytes(const struct backend *be);
/* n_heads > 1, F16, BF16, one slice: T <= ROWS_MAX_X32, reads x; */
MUST_CHECK enum status linear_heads_rows(struct backend *be, const struct linear_job *job);
/* any T, reads packed of linear_pack_fragments. */
MUST_CHECK enum status linear_heads_tiles(struct backend *be, const struct linear_job *job);
/* F32, any T and n_heads; reads x. */
MUST_CHECK enum status linear_f32(struct backend *be, const struct linear_job *job);

#ifdef __cplusplus
}
#endif

#endif
