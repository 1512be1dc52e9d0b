/* What the host gives the kernels: the names of the kernels, an argument struct (buffer 0) for each that
 * is not of backends/gpu/ and the sizes of threadgroups.  Part of the shader text: C and the Metal Shading Language, members
 * of 4 bytes only, so that both lay them out alike.  Strides are in elements. */
#ifndef BACKENDS_METAL_ARGS_H
#define BACKENDS_METAL_ARGS_H

#include "backends/gpu/args.h"

/* F(a, b, name, type): each type of weights, as kernels and enum metal_type name it. */
#define METAL_EACH_TYPE(F, a, b)                                                                   \
    F(a, b, f32, METAL_F32)                                                                        \
    F(a, b, f16, METAL_F16)                                                                        \
    F(a, b, bf16, METAL_BF16)                                                                      \
    F(a, b, q8_0, METAL_Q8_0)                                                                      \
    F(a, b, q4_0, METAL_Q4_0)                                                                      \
    F(a, b, q4_1, METAL_Q4_1)                                                                      \
    F(a, b, q5_0, METAL_Q5_0)                                                                      \
    F(a, b, q5_1, METAL_Q5_1)                                                                      \
    F(a, b, q2_k, METAL_Q2_K)                                                                      \
    F(a, b, q3_k, METAL_Q3_K)                                                                      \
    F(a, b, q4_k, METAL_Q4_K)                                                                      \
    F(a, b, q5_k, METAL_Q5_K)                                                                      \
    F(a, b, q6_k, METAL_Q6_K)                                                                      \
    F(a, b, iq4_xs, METAL_IQ4_XS)                                                                  \
    F(a, b, e4m3, METAL_E4M3)                                                                      \
    F(a, b, int4_bf16, METAL_INT4_BF16)                                                            \
    F(a, b, int4_zero_f16, METAL_INT4_ZERO_F16)                                                    \
    F(a, b, int4_zero_bf16, METAL_INT4_ZERO_BF16)                                                  \
    F(a, b, int8_bf16, METAL_INT8_BF16)                                                            \
    F(a, b, int8_zero_f16, METAL_INT8_ZERO_F16)                                                    \
    F(a, b, int8_zero_bf16, METAL_INT8_ZERO_BF16)                                                  \
    F(a, b, int4_index, METAL_INT4_INDEX)                                                          \
    F(a, b, int8_index, METAL_INT8_INDEX)                                                          \
    F(a, b, iq4_nl, METAL_IQ4_NL)                                                                  \
    F(a, b, levels, METAL_LEVELS)                                                                  \
    F(a, b, small, METAL_SMALL)

/* X(op_type): a kernel for each type of weights. */
#define METAL_KERNEL_OF(X, op, name, type) X(op##_##name)
#define METAL_WEIGHT_KERNELS(X, op) METAL_EACH_TYPE(METAL_KERNEL_OF, X, op)

/* X(name): one compute pipeline each. */
#define METAL_KERNELS(X)                                                                           \
    METAL_WEIGHT_KERNELS(X, embed)                                                                 \
    METAL_WEIGHT_KERNELS(X, linear)                                                                \
    METAL_WEIGHT_KERNELS(X, linear_one)                                                            \
    METAL_WEIGHT_KERNELS(X, experts)                                                               \
    METAL_WEIGHT_KERNELS(X, matrix)                                                                \
    METAL_WEIGHT_KERNELS(X, matrix_one)                                                            \
    METAL_WEIGHT_KERNELS(X, experts_matrix)                                                        \
    METAL_WEIGHT_KERNELS(X, experts_matrix_one)                                                    \
    X(attention_matrix_f32)                                                                        \
    X(attention_matrix_f16)                                                                        \
    X(attention_matrix_bf16)                                                                       \
    X(attention_matrix_i8)                                                                         \
    X(attention_matrix_e4m3)                                                                       \
    X(attention_matrix_wide_f32)                                                                   \
    X(attention_matrix_wide_f16)                                                                   \
    X(attention_matrix_wide_bf16)                                                                  \
    X(attention_matrix_wide_i8)                                                                    \
    X(attention_matrix_wide_e4m3)                                                                  \
    X(input_peaks)                                                                                 \
    X(round_input)                                                                                 \
    X(round_experts)                                                                               \
    X(copy_bytes)                                                                                  \
    X(zero_bytes)                                                                                  \
    X(moe_route)                                                                                   \
    X(moe_group)                                                                                   \
    X(moe_act)                                                                                     \
    X(moe_sum)                                                                                     \
    X(moe_bias)                                                                                    \
    X(add_rms_norm)                                                                                \
    X(layer_norm)                                                                                  \
    X(act_mul)                                                                                     \
    X(activate)                                                                                    \
    X(scale)                                                                                       \
    X(soft_cap)                                                                                    \
    X(sigmoid_mul)                                                                                 \
    X(add_bias)                                                                                    \
    X(add)                                                                                         \
    X(gather)                                                                                      \
    X(head_squares)                                                                                \
    X(wide_norm)                                                                                   \
    X(gated_norm)                                                                                  \
    X(predict_streams)                                                                             \
    X(correct_streams)                                                                             \
    X(match_rms)                                                                                   \
    X(known_ids)                                                                                   \
    X(slice_stats)                                                                                 \
    X(cut_gates)                                                                                   \
    X(delta_conv)                                                                                  \
    X(delta_unit)                                                                                  \
    X(delta_rule)                                                                                  \
    X(qkv_to_cache)                                                                                \
    X(latent_to_cache)                                                                             \
    X(attention_f32)                                                                               \
    X(attention_f16)                                                                               \
    X(attention_bf16)                                                                              \
    X(attention_i8)                                                                                \
    X(attention_e4m3)                                                                              \
    X(edit)                                                                                        \
    X(mask)                                                                                        \
    X(topk_chunk)                                                                                  \
    X(topk_join)                                                                                   \
    X(take_tokens)

enum {
    METAL_STRIP = 256,        /* threads of a group, and elements, where elements are independent */
    METAL_NORM_THREADS = 256, /* of a group that adds a row up */
    METAL_LINEAR_SIMDS = 4,   /* simdgroups of a group of linear */
    METAL_LINEAR_ROWS = 2,    /* of a simdgroup: rows of w, */
    METAL_LINEAR_TOKENS = 8,  /* and rows of x, */
    METAL_LINEAR_ROWS_ONE = 4,    /* of linear_one, which has one row of x: rows of w */
    METAL_MATRIX_ROWS = 16,       /* the same of matrix and matrix_one: rows of w, */
    METAL_MATRIX_TOKENS = 32,     /* of matrix: rows of x, */
    METAL_MATRIX_ONE = 8,         /* and of matrix_one */
    METAL_MATRIX_HEAD = 128,      /* largest d_head and d_value of attention_matrix, */
    METAL_MATRIX_WIDE_HEAD = 256, /* and of attention_matrix_wide */
    TOPK_CHUNK = 2048,            /* columns of a chunk of topk: 16 KiB of keys */
    METAL_DELTA_THREADS = 128,    /* of a group of delta_conv and delta_rule: columns */
    METAL_MAX_HEAD = 512,         /* largest d_head, and d_value of latent attention */
    METAL_MAX_LATENT = 576,       /* largest d_head of latent attention */
    METAL_MAX_SLICES = N_SLICES,
    METAL_BYTES_OF_THREAD = 4, /* of copy_bytes and zero_bytes */
    METAL_INPUT_SIMDS = 8,     /* of a group of input_peaks and round_input */
};

/* Element types of weights, then of caches alone. */
enum metal_type {
#define METAL_TYPE(a, b, name, type) type,
    METAL_EACH_TYPE(METAL_TYPE, , )
#undef METAL_TYPE
        N_METAL_WEIGHT_TYPES,
    METAL_I8 = N_METAL_WEIGHT_TYPES
};

/* copy_bytes, zero_bytes: n_bytes of each row; steps in bytes. */
struct metal_move_args {
    int32_t n_bytes, dst_step, src_step;
};

/* How a part of a matrix with scales beside its codes is stored: shaders/scaled.metal.  Other types: zeros. */
struct metal_form {
    int32_t head;        /* bytes of the part before its rows */
    int32_t n_scales;    /* of a row */
    int32_t codes_at;    /* bytes of a row before its codes */
    int32_t skip, block; /* of weight_part; columns that share a scale */
};

/* A slice [start, end) of a row has a scale for each 1 << shift columns, counted from its first one: the largest power of
 * two whose multiples all borders of the part's blocks are.  So it depends on the slice's columns alone. */
static inline int32_t metal_scale_shift(int32_t skip, int32_t block, int32_t start, int32_t end)
{
    uint32_t off = ((uint32_t)skip + (uint32_t)start) % (uint32_t)block,
             bits = off | (uint32_t)block;
    if (off + (uint32_t)(end - start) <= (uint32_t)block)
        return 30; /* one block */
    return (int32_t)(bits_of_f32((float)(bits & (0U - bits))) >> 23) - 127;
}

/* Columns of a slice as they are stored: whole words of codes. */
static inline int32_t metal_stored_cols(int32_t cols)
{
    return (cols + 7) / 8 * 8;
}

/* One part of a matrix: rows [row0, row0 + rows) of n, row_bytes apart. */
struct metal_embed_args {
    int32_t k, n, row0, rows, row_bytes;
    int32_t first_id, id_stride, out_stride;
    int32_t fills; /* this part writes the zeros of ids outside [0, n), too */
    int32_t n_slices, slice_end[METAL_MAX_SLICES];
    struct metal_form form;
};

/* group.z: matrices of a stack, each with columns of its own of x and out, the steps from one to the next. */
struct metal_linear_args {
    int32_t rows, row_bytes; /* of this part of w */
    int32_t n_tokens, x_stride, out_stride;
    int32_t w_step, x_step, out_step; /* w_step in 16 bytes */
    int32_t has_bias;
    int32_t n_slices, slice_end[METAL_MAX_SLICES];
    struct metal_form form;
};

/* Pairs (token, expert) by expert: see moe_group. */
struct metal_group_args {
    int32_t n_tokens, n_experts, top_k, id_stride;
    int32_t tile; /* pairs of a tile */
};

/* Some rows of one part of every expert's matrix. */
struct metal_experts_args {
    int32_t first, rows, row_bytes;
    int32_t expert_step; /* to the next expert's, in 16 bytes */
    int32_t n_experts, top_k;
    int32_t x_stride, by_token; /* by_token: row of x is the pair's token, else the pair's place */
    int32_t out_stride, by_slice; /* by_slice: out [pairs, n_slices, out_stride], not added */
    int32_t n_slices, slice_end[METAL_MAX_SLICES];
    struct metal_form form;
};

/* Between gate and up, beside each other in a row of mid, and down. */
struct metal_act_args {
    int32_t ffn, mid_stride, top_k, id_stride, weight_stride;
    int32_t act; /* enum act */
    int32_t up_alone, has_bias, weigh_input;
    float glu_limit, glu_alpha; /* glu_limit 0: act */
};

struct metal_sum_args {
    int32_t n, n_slices, top_k, weight_stride, out_stride;
    int32_t weighs; /* else every weight is 1 */
};

struct metal_norm_args {
    int32_t d, resid_stride, x_stride, out_stride;
    int32_t has_x, has_bias;
    float eps;
};

/* Ops on elements of [T, n]. */
struct metal_rows_args {
    int32_t n, out_stride, in_stride, index_stride;
    int32_t act;  /* enum act */
    float factor; /* scale, add; soft_cap: the cap */
};

struct metal_delta_args {
    int32_t n_k, n_v, d_k, d_v, v_per_k, v_offset, taps, channels;
    int32_t qkv_stride, ba_stride, out_stride, past_stride, rule_stride;
    int32_t has_bias, has_skip;
    float dt_min, dt_max;
};

/* n columns of each row, groups [first_group, end_group). */
struct metal_inputs_args {
    struct rounding rule;
    int32_t n, x_stride, out_stride, peaks_stride;
    int32_t first_group, end_group, has_peaks;
};

/* Inputs of experts, n columns of each pair. */
struct metal_round_experts_args {
    int32_t n, top_k, id_stride, x_stride, out_stride;
    int32_t by_token,
        grid; /* by_token: row of x is the pair's token, else its place; enum input_grid */
    float scale[MOE_MAX_EXPERTS];
};

struct metal_qkv_args {
    int32_t n_q, n_kv, d, rot_dim;
    int32_t qkv_stride, q_stride;
    int32_t kv_type; /* enum dtype */
    int32_t interleaved, has_q_norm, has_k_norm, has_q_scale;
    int32_t qk_unit, v_norm, v_is_k;
    int32_t head, head_stride; /* latent_to_cache: elements of a head of q_heads, of its row */
    struct rounding round_latent;
    float eps;
};

struct metal_attention_args {
    int32_t n_q, n_kv, d, d_value, q_per_kv, q_offset, window, chunk;
    int32_t q_stride, out_stride, table_stride, block_len, n_seqs;
    int32_t k_row, v_row; /* elements of a row of each cache */
    int32_t full, has_sinks, has_rel_bias;
    int32_t first; /* token of the first group, by matrices tile */
    float scale, cap;
};

#endif
