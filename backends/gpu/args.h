/* What the hosts give the kernels of backends/gpu/: sizes of blocks, and an argument struct for each
 * kernel.  C, CUDA and the Metal Shading Language, members of 4 bytes only, so that all lay them out
 * alike.  Strides are in elements; has_x: x is read. */
#ifndef BACKENDS_GPU_ARGS_H
#define BACKENDS_GPU_ARGS_H

#include "backends/limits.h"

enum {
    GATES_THREADS = 256, /* of a block of gates.h, and columns of a strip */
    GATES_HEADS = GATES_THREADS / 32,
    EDIT_THREADS = 128, /* of logits.h: edit and take_tokens, */
    MASK_THREADS = 256, /* mask, */
    TOPK_THREADS = 256, /* topk_chunk and topk_join */
    ROUTE_WARPS = 4,    /* of moe.h: of moe_route, a token each, */
    BIAS_THREADS = 256, /* moe_bias */
};

/* inputs.h: what kernels take of an input_rule; with a scale of all values a group is any run of columns. */
struct rounding {
    int32_t grid;  /* enum input_grid */
    float scale;   /* > 0: of every value */
    int32_t group; /* columns of a group; 0: all */
    int32_t first; /* this rank's first column */
};

/* gates.h */
struct sigmoid_mul_args {
    int32_t n, x_stride, gate_stride;
    int32_t wide; /* a gate for each element, else one for each row */
};

struct add_bias_args {
    int32_t n, x_stride;
};

/* n heads of d of each row; other_stride: of the squares or the gates. */
struct heads_args {
    int32_t n, d, x_stride, other_stride;
    int32_t group, first; /* wide_norm */
    float eps;
};

/* n streams of d of each row; i: the active one. */
struct streams_args {
    int32_t n, d, i, x_stride, coef_stride, active_stride;
    int32_t has_weight;
};

struct match_args {
    int32_t d, x_stride, like_stride;
};

struct known_args {
    int32_t n_tokens, n, id_stride, out_stride;
};

struct stats_args {
    int32_t x_stride, out_stride;
    int32_t slice_end[N_SLICES];
};

struct cut_args {
    int32_t n, n_slices, x_stride, stats_stride;
    float factor;
};

/* logits.h */
struct edit_args {
    int32_t stride, first_id, n_cols, start_stride;
};

struct mask_args {
    int32_t stride, first_id, n_cols, mask_stride;
};

/* list: a power of two from k on, 0: there are no lists. */
struct topk_args {
    int32_t stride, temp_stride, first_id;
    int32_t n_slices, slice_end[N_SLICES];
    int32_t n_chunks, list, k;
    int32_t val_stride, id_stride, stat_stride;
};

struct take_args {
    int32_t n, token_stride, from_stride, last_stride;
};

/* moe.h */
struct route_args {
    int32_t n_tokens, n_experts, top_k, logit_stride, id_stride, weight_stride;
    int32_t renormalise, sigmoid, has_bias, has_expert_scale;
    int32_t n_groups, top_groups; /* n_groups 1: none */
    float scale;
};

struct moe_bias_args {
    int32_t n, top_k, id_stride, weight_stride, out_stride;
};

#endif
