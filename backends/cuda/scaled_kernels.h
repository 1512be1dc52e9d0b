/* Products with the weights of scaled_layout.h, which meet activations in f32.
 *
 * The order of every sum is that of the CPU backend's plain path (backends/cpu/kernels.h), so the
 * bits are the same, whatever the number of tokens: within a slice one ascending chain of fmaf over
 * the columns, from +0; slices pairwise as their tree; the bias last. */
#ifndef BACKENDS_CUDA_SCALED_KERNELS_H
#define BACKENDS_CUDA_SCALED_KERNELS_H

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/moe_kernels.h"
#include "backends/cuda/scaled_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What kernels know of a matrix. */
struct scaled_matrix {
    const unsigned char *w; /* [panels][panel_bytes] */
    struct scaled_place at;
    int32_t n, k;     /* rows, columns */
    float levels[16]; /* LEVELS, SMALL */
};

/* T = n_tokens. */
struct scaled_job {
    struct scaled_matrix m;
    int32_t n_slices, end[N_SLICES]; /* slice i has the columns up to end[i] */
    int32_t n_tokens;
    const float *bias; /* [N] or NULL */
    const float *x;    /* [T, K], rows x_stride elements apart */
    size_t x_stride;
    const int32_t *rows; /* [T]: token i is row rows[i] of x; NULL: i */
    float *out;          /* [T, N], rows out_stride elements apart */
    size_t out_stride;
};

/* linear_scaled.c */
struct scaled_job scaled_job_of(const struct weight *w, struct view x, struct view out);

/* Any T. */
MUST_CHECK enum status scaled_linear(struct backend *be, const struct scaled_job *job);

/* Of embed: row ids[t] - first_id of the matrix, zeros where it has none. */
MUST_CHECK enum status scaled_embed(struct backend *be, const struct scaled_matrix *m,
                                    int32_t first_id, struct view ids, struct view out);

/* A product of a mixture's experts: job has the first one's matrix, and T = all pairs, of which an
 * expert has those that groups says.  out [n_slices][T][n]: each slice's product by itself. */
struct scaled_experts {
    struct scaled_job job;
    struct moe_groups groups; /* tile_rows: MOE_ROWS_TILE */
    size_t expert_bytes;      /* from a matrix to the next */
    /* The matrix is gate|up and has one slice: rows from ffn on go to up [T, ffn], the others to out;
     * NULL: neither. */
    float *up;
    int32_t ffn;
};
MUST_CHECK enum status scaled_moe(struct backend *be, const struct scaled_experts *e);

#ifdef __cplusplus
}
#endif

#endif
