/* What the host gives the kernels: the names of the kernels, an argument struct for each (buffer 0)
 * and the sizes of threadgroups.  Part of the shader text: C and the Metal Shading Language, members
 * of 4 bytes only, so that both lay them out alike.  Strides are in elements. */
#ifndef BACKENDS_METAL_ARGS_H
#define BACKENDS_METAL_ARGS_H

/* X(name): one compute pipeline each. */
#define METAL_KERNELS(X)                                                                           \
    X(copy_bytes)                                                                                  \
    X(zero_bytes)                                                                                  \
    X(embed_f32)                                                                                   \
    X(embed_f16)                                                                                   \
    X(embed_bf16)                                                                                  \
    X(embed_q8_0)                                                                                  \
    X(linear_f32)                                                                                  \
    X(linear_f16)                                                                                  \
    X(linear_bf16)                                                                                 \
    X(linear_q8_0)                                                                                 \
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
    X(qkv_to_cache)                                                                                \
    X(attention_f32)                                                                               \
    X(attention_f16)                                                                               \
    X(attention_bf16)                                                                              \
    X(attention_i8)                                                                                \
    X(attention_e4m3)                                                                              \
    X(edit_logits)                                                                                 \
    X(mask_logits)                                                                                 \
    X(topk_chunk)                                                                                  \
    X(topk_join)                                                                                   \
    X(take_tokens)

enum {
    METAL_STRIP = 256,        /* threads of a group, and elements, where elements are independent */
    METAL_NORM_THREADS = 256, /* of a group that adds a row up */
    METAL_LINEAR_SIMDS = 4,   /* of a group of linear: rows of w */
    METAL_LINEAR_TOKENS = 8,  /* of a group of linear: rows of x */
    METAL_TOPK_THREADS = 256, /* of a group of topk_chunk and topk_join */
    METAL_CHUNK = 2048,       /* columns of a chunk of topk: 16 KiB of keys */
    METAL_MAX_HEAD = 512,     /* largest d_head */
    METAL_MAX_SLICES = 8,     /* N_SLICES of backend.h */
    METAL_BYTES_OF_THREAD = 4, /* of copy_bytes and zero_bytes */
};

/* Element types of weights and caches, as kernels name them. */
enum metal_type { METAL_F32, METAL_F16, METAL_BF16, METAL_Q8_0, METAL_I8, METAL_E4M3 };
enum { METAL_Q8_0_BLOCK = 32, METAL_Q8_0_BYTES = 34 };

enum metal_act { METAL_SILU, METAL_GELU, METAL_GELU_TANH, METAL_RELU };

/* copy_bytes, zero_bytes: n_bytes of each row; steps in bytes. */
struct metal_move_args {
    int32_t n_bytes, dst_step, src_step;
};

/* One part of a matrix: rows [row0, row0 + rows) of n, row_bytes apart. */
struct metal_embed_args {
    int32_t k, n, row0, rows, row_bytes;
    int32_t first_id, id_stride, out_stride;
    int32_t fills; /* this part writes the zeros of ids outside [0, n), too */
};

struct metal_linear_args {
    int32_t rows, row_bytes; /* of this part of w */
    int32_t n_tokens, x_stride, out_stride;
    int32_t has_bias;
    int32_t n_slices, slice_end[METAL_MAX_SLICES];
};

struct metal_norm_args {
    int32_t d, resid_stride, x_stride, out_stride;
    int32_t has_x, has_bias;
    float eps;
};

/* Ops on elements of [T, n]. */
struct metal_rows_args {
    int32_t n, out_stride, in_stride, index_stride;
    int32_t act;  /* enum metal_act */
    int32_t wide; /* sigmoid_mul: a gate for each element, else one for each row */
    float factor; /* scale, add; soft_cap: the cap */
};

struct metal_qkv_args {
    int32_t n_q, n_kv, d, rot_dim;
    int32_t qkv_stride, q_stride;
    int32_t kv_type; /* enum metal_type */
    int32_t interleaved, has_q_norm, has_k_norm, has_q_scale;
    float eps;
};

struct metal_attention_args {
    int32_t n_q, n_kv, d, q_per_kv, q_offset, window;
    int32_t q_stride, out_stride, table_stride, block_len, n_seqs;
    float scale, cap;
};

struct metal_edit_args {
    int32_t stride, first_id, n_cols, start_stride;
};

struct metal_mask_args {
    int32_t stride, first_id, n_cols, mask_stride;
};

struct metal_topk_args {
    int32_t stride, temp_stride, first_id;
    int32_t n_slices, slice_end[METAL_MAX_SLICES];
    int32_t n_chunks, list, k;
    int32_t val_stride, id_stride, stat_stride;
};

struct metal_take_args {
    int32_t n, token_stride, from_stride, last_stride;
};

#endif
