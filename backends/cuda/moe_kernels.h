/* Mixtures of experts, moe.c's kernels.  The pairs (token, expert) of a chunk of tokens are sorted
 * by expert, and in an expert by token: pair t * k + i becomes row row[t * k + i].  Products take
 * tiles of an expert's rows; how many each expert has is known on the device only, so grids are
 * what runs at once and blocks take the next tile until there is none.
 *
 * P = T k pairs; F: this rank's columns of an expert; D: hidden. */
#ifndef BACKENDS_CUDA_MOE_KERNELS_H
#define BACKENDS_CUDA_MOE_KERNELS_H

#include "backends/cuda/linear_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a tile: */
enum {
    MOE_ROWS_TILE = 16,        /* moe_rows */
    MOE_TILES_TILE = 64,       /* moe_tiles, */
    MOE_TILES_TILE_MOST = 128, /* or this */
    MOE_F32_TILE = 32,         /* moe_f32 */
    MOE_SUMS_COLS = 128,       /* a block of moe_add: see there */
};

/* Everything on the device. */
struct moe_groups {
    int32_t n_tokens, n_experts, top_k;
    int32_t tile_rows;
    int32_t *start;      /* [E + 1] first row of each expert */
    int32_t *first_tile; /* [E + 1] */
    int32_t *expert;     /* [tiles <= P] whose rows they are */
    int32_t *token;      /* [P] of each row */
    int32_t *row;        /* [P] of each pair */
};

/* One of a layer's products.  job: w, n and k of the first expert's matrix; x, packed and unscale
 * have all P rows.  hidden: w is gate|up and job.out [P, F] = act(x gate^T) * (x up^T).  Else
 * job.out [n_slices][P][n]: each slice's product by itself. */
struct moe_product {
    struct linear_job job;
    struct moe_groups groups;
    size_t expert_bytes; /* from a matrix to the next */
    bool hidden;
    enum act act;
};

/* ids [T, k], rows id_stride elements apart -> start, first_tile, expert, token, row. */
MUST_CHECK enum status moe_group(struct backend *be, const struct moe_groups *g, const int32_t *ids,
                                 int32_t id_stride);

/* F16, BF16, reads packed; few rows an expert. */
MUST_CHECK enum status moe_rows(struct backend *be, const struct moe_product *p);
/* F16, BF16, reads packed; many rows. */
MUST_CHECK enum status moe_tiles(struct backend *be, const struct moe_product *p);
/* F32, reads x. */
MUST_CHECK enum status moe_f32(struct backend *be, const struct moe_product *p);

/* hidden of the rows of gate and up, for layers whose products do not make it: P rows of ffn columns,
 * gate_stride and up_stride elements apart; out [P, ffn] may be gate.  up NULL: act(gate) alone. */
struct moe_gated {
    const float *gate, *up;
    size_t gate_stride, up_stride;
    float *out;
    int32_t n_rows, ffn;
    enum act act;
    float glu_limit, glu_alpha;
    const float *bias; /* [E, 2 ffn] or NULL */
    bool weigh;        /* an expert's weight is a factor on gate and up */
    struct moe_groups groups;
    const int32_t *ids;   /* [T, k] */
    const float *weights; /* [T, k] */
    int32_t id_stride, weight_stride;
};
MUST_CHECK enum status moe_act(struct backend *be, const struct moe_gated *g);

/* What moe_ffn says of a token's experts and slices: out [T, n]. */
struct moe_sums {
    const float *part; /* [n_slices][P][n], rows part_stride elements apart: a multiple of 4 */
    const int32_t *row;
    const float *weights; /* [T, k]; NULL: all are 1 */
    float *out;
    size_t part_stride;
    int32_t n_tokens, top_k, n, n_slices, weight_stride, out_stride;
};
MUST_CHECK enum status moe_add(struct backend *be, const struct moe_sums *s);

#ifdef __cplusplus
}
#endif

#endif
