/* Products with the weights of scaled_layout.h.  The order of every sum, whatever the number of tokens:
 * slices pairwise as their tree, the bias last, and a slice
 *   mma false  in the order of the CPU backend's plain path (backends/cpu/kernels.h), so with its
 *              bits: one ascending chain of fmaf over the columns, from +0; x in f32
 *   mma true   an ascending chain sum = fmaf(p, scale, sum) of its segments, from +0; a segment is a
 *              block of 128 columns (E4M3), or 256 stored columns (SMALL: scale is factor / divisor; LEVELS: 1)
 *              p  a chain of mma.m16n8k16 of f16 from +0, those of a step ascending (scaled_mma.h),
 *                 times `unscale`, which is exact.  LEVELS: an ascending chain p = fmaf(q, scale, p) over the
 *                 halves of steps, from +0, q the chain of mma of a half, from +0
 *   With mma the segment's x is multiplied by a power of two as with f16 weights (linear_kernels.h), and
 *   rounded to f16; elements (SMALL: level times scale) are exact in f16 but for a power of two, LEVELS' are
 *   rounded to it.  unscale is the inverse of both powers. */
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
    /* LEVELS with mma: the low bytes of the levels in f16, level i in byte i, then the high ones */
    uint32_t level_bytes[8];
};

/* T = n_tokens. */
struct scaled_job {
    struct scaled_matrix m;
    struct k_layout k; /* without mma: of its slices' columns alone */
    int32_t n_tokens;
    const float *bias; /* [N] or NULL */
    const float *x;    /* [T, K], rows x_stride elements apart */
    size_t x_stride;
    const int32_t *rows; /* [T]: token i is row rows[i] of x; NULL: i */
    float *out;          /* [T, N], rows out_stride elements apart */
    size_t out_stride;
    /* mma: x in f16 as w is stored, but of four columns the second and third are exchanged; zeros where no
     * column is: [T, k.at[n_slices]]; the factors of the segments' sums [T, segments]; and where w has
     * slices their products [n_slices][T][N]. */
    uint16_t *packed;
    float *unscale, *part;
};

/* linear_scaled.c */
struct scaled_job scaled_job_of(const struct weight *w, struct view x, struct view out);

/* mma: x -> packed, unscale. */
MUST_CHECK enum status scaled_pack(struct backend *be, const struct scaled_job *job);
enum { SCALED_ROWS_MAX = 32 }; /* most tokens of scaled_rows */
/* mma, T <= SCALED_ROWS_MAX; reads packed. */
MUST_CHECK enum status scaled_rows(struct backend *be, const struct scaled_job *job);
/* mma, any T; reads packed. */
MUST_CHECK enum status scaled_tiles(struct backend *be, const struct scaled_job *job);

/* mma false, any T. */
MUST_CHECK enum status scaled_linear(struct backend *be, const struct scaled_job *job);

/* Of embed: row ids[t] - first_id of the matrix, zeros where it has none.  k: see scaled_job. */
MUST_CHECK enum status scaled_embed(struct backend *be, const struct scaled_matrix *m,
                                    const struct k_layout *k, int32_t first_id, struct view ids,
                                    struct view out);

/* A product of a mixture's experts: job has the first one's matrix, and T = all pairs, of which an
 * expert has those that groups says.  out [n_slices][T][n]: each slice's product by itself. */
struct scaled_experts {
    struct scaled_job job;
    struct moe_groups groups; /* tile_rows: MOE_ROWS_TILE; with mma those of moe_tiles too */
    size_t expert_bytes;      /* from a matrix to the next */
    /* The matrix is gate|up and has one slice: rows from ffn on go to up [T, ffn], the others to out;
     * NULL: neither. */
    float *up;
    int32_t ffn;
};
/* mma false */
MUST_CHECK enum status scaled_moe(struct backend *be, const struct scaled_experts *e);
/* mma, MOE_ROWS_TILE; reads packed. */
MUST_CHECK enum status scaled_moe_rows(struct backend *be, const struct scaled_experts *e);
/* mma, MOE_TILES_TILE or MOE_TILES_TILE_MOST; reads packed. */
MUST_CHECK enum status scaled_moe_tiles(struct backend *be, const struct scaled_experts *e);

#ifdef __cplusplus
}
#endif

#endif
