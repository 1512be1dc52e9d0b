/* Products with quantised weights: each function enqueues one way to compute out = x w^T (+ bias).
 *
 * The order of every sum is that of the CPU backend (backends/cpu/kernels.h), whichever way, so the
 * bits are the same:
 *   x       in groups of QUANT_GROUP columns, as the file's blocks count them; a group that a
 *           slice's end cuts is two groups, one in each slice.  amax = greatest |x|, d = amax / 127,
 *           a = nearest even of x (127 / amax) in 8 bits; 127 / amax not finite: a = 0, d = 0; an x
 *           that is not finite: a = 0, d = NaN
 *   slice   groups ascending from acc = +0, for each scale of a group:
 *           acc = fmaf((float)(sum of q a), scale * d, acc), the sum exact in integers; then with a
 *           minimum acc = fmaf(minimum, d * (float)(sum of a), acc)
 *   slices  pairwise as their tree; the bias last
 * Of sorted columns (backends/sorted_plan.h): the chunks of a slice in their order in place of groups. */
#ifndef BACKENDS_CUDA_QUANT_KERNELS_H
#define BACKENDS_CUDA_QUANT_KERNELS_H

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/moe_kernels.h"
#include "backends/cuda/quant_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QUANT_ROWS_MAX = 32, /* most tokens of quant_rows */
    QUANT_RECORD = 48,   /* bytes of a group of x: a [32] int8, then struct quant_info */
    QUANT_SORTED = 16,   /* added to the bits of a code: a form of sorted columns */
};

/* d_sum = d * (float)(sum of a); sum[h]: of a over half h of the group, in integers. */
struct quant_info {
    float d, d_sum;
    int32_t sum[2];
};

/* What kernels know of a matrix. */
struct quant_matrix {
    const unsigned char *w; /* [panels][panel_bytes] */
    struct quant_place at;
    const unsigned char *head; /* of sorted columns, whose place is `sorted` */
    struct sorted_place sorted;
    size_t panel_bytes;
    int32_t form; /* the bits of a code, + QUANT_SORTED */
    int32_t halves, low, bf16;
    int32_t minimum, sub, has_values; /* enum quant_minimum, enum quant_sub */
    uint32_t values[4];               /* int8 [16] */
    int32_t n, k;                     /* rows, columns */
};

/* Which groups the slices have.  Slice i has the columns up to end[i], the groups [first[i],
 * first[i] + x_at[i + 1] - x_at[i]) of w, and as many of x from x_at[i] on.  Of sorted columns the matrix's head says this;
 * x_at[n_slices] is the most chunks. */
struct quant_slices {
    int32_t n_slices, skip; /* skip: columns of the first group before the share's first */
    int32_t end[N_SLICES], first[N_SLICES], x_at[N_SLICES + 1];
};

/* T = n_tokens. */
struct quant_job {
    struct quant_matrix m;
    struct quant_slices s;
    int32_t n_tokens;
    const float *bias; /* [N] or NULL */
    const float *x;    /* [T, K], rows x_stride elements apart */
    size_t x_stride;
    const int32_t *rows;   /* [T]: token i is row rows[i] of x, for quant_pack; NULL: i */
    unsigned char *packed; /* [groups of x, or chunks][T] records of QUANT_RECORD bytes */
    float *out;            /* [T, N], rows out_stride elements apart */
    size_t out_stride;
};

/* x -> packed */
MUST_CHECK enum status quant_pack(struct backend *be, const struct quant_job *job);
/* T <= QUANT_ROWS_MAX; reads packed. */
MUST_CHECK enum status quant_rows(struct backend *be, const struct quant_job *job);
/* Any T; reads packed. */
MUST_CHECK enum status quant_tiles(struct backend *be, const struct quant_job *job);

/* A product of a mixture's experts: job has the first one's matrix, and T = all pairs, of which an expert
 * has those that groups says.  out [n_slices][T][n]: each slice's product by itself. */
struct quant_experts {
    struct quant_job job;
    struct moe_groups groups; /* tile_rows: MOE_ROWS_TILE */
    size_t expert_bytes;      /* from a matrix to the next */
    /* The matrix is gate|up and has one slice: rows from ffn on go to up [T, ffn], the others to out;
     * NULL: neither. */
    float *up;
    int32_t ffn;
};
MUST_CHECK enum status quant_moe(struct backend *be, const struct quant_experts *e);
/* x of all pairs -> packed: sorted columns have each expert's order. */
MUST_CHECK enum status quant_pack_experts(struct backend *be, const struct quant_experts *e);

/* linear_quant.c */
/* The product of w, x and out but for `packed`. */
struct quant_job quant_job_of(const struct weight *w, struct view x, struct view out);

/* Of embed: row ids[t] - first_id of the matrix, zeros where it has none.  out [T, K] as above. */
MUST_CHECK enum status quant_embed(struct backend *be, const struct quant_matrix *m, int32_t skip,
                                   int32_t first_id, struct view ids, struct view out);

#ifdef __cplusplus
}
#endif

#endif
