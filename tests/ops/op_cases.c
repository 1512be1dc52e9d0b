/* The table of cases: every op over types and shapes, with empty, single and odd sizes, and sizes
 * that the CPU backend shares between threads (ROWS_GRAIN, PRODUCT_GRAIN). */
#include "ops/op_cases.h"

#define LINEAR(T, K, N, DT, ...)                                                                   \
    {                                                                                              \
        .op = &op_linear, .rows = T, .k = K, .n = N, .dtype = DT, __VA_ARGS__                      \
    }
#define EMBED(T, K, N, DT)                                                                         \
    {                                                                                              \
        .op = &op_embed, .rows = T, .k = K, .n = N, .dtype = DT                                    \
    }
#define ROWS(OP, T, K, ...)                                                                        \
    {                                                                                              \
        .op = &(OP), .rows = T, .k = K, __VA_ARGS__                                                \
    }
#define TOPK(R, K, N, S, V)                                                                        \
    {                                                                                              \
        .op = &op_topk, .rows = R, .k = K, .n = N, .n_slices = S, .variant = V                     \
    }
#define SAMPLE(R, K, N, RANKS, ...)                                                                \
    {                                                                                              \
        .op = &op_sample, .rows = R, .k = K, .n = N, .n_parts = RANKS, __VA_ARGS__                 \
    }
#define QKV(T, NQ, NKV, D, ROT, DT, ...)                                                           \
    {                                                                                              \
        .op = &op_qkv, .rows = T, .n_q = NQ, .n_kv = NKV, .d = D, .rot = ROT, .dtype = DT,         \
        __VA_ARGS__                                                                                \
    }
#define ATTN(T, SEQS, PAST, NQ, NKV, PER, D, BLOCK, DT, ...)                                       \
    {                                                                                              \
        .op = &op_attention, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ, .n_kv = NKV,      \
        .q_per_kv = PER, .d = D, .block_len = BLOCK, .dtype = DT, __VA_ARGS__                      \
    }
#define ROUTE(T, E, K, V)                                                                          \
    {                                                                                              \
        .op = &op_moe_route, .rows = T, .n_experts = E, .top_k = K, .variant = V                   \
    }
#define SINKS(T, SEQS, PAST, NQ, NKV, PER, D, BLOCK, DT, ...)                                      \
    {                                                                                              \
        .op = &op_attention_sinks, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ,             \
        .n_kv = NKV, .q_per_kv = PER, .d = D, .block_len = BLOCK, .dtype = DT, __VA_ARGS__         \
    }
/* Of an encoder: every key of the sequence. */
#define FULL(T, SEQS, PAST, NQ, NKV, PER, D, BLOCK, DT, ...)                                       \
    {                                                                                              \
        .op = &op_attention_full, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ, .n_kv = NKV, \
        .q_per_kv = PER, .d = D, .block_len = BLOCK, .dtype = DT, __VA_ARGS__                      \
    }
#define REL_BIAS(T, SEQS, PAST, NQ, NKV, PER, D, BLOCK, DT, ...)                                   \
    {                                                                                              \
        .op = &op_attention_rel_bias, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ,          \
        .n_kv = NKV, .q_per_kv = PER, .d = D, .block_len = BLOCK, .dtype = DT, __VA_ARGS__         \
    }
#define LIMITED(T, D, F, E, K, DT, ...)                                                            \
    {                                                                                              \
        .op = &op_moe_limited, .rows = T, .k = D, .n = F, .n_experts = E, .top_k = K, .dtype = DT, \
        __VA_ARGS__                                                                                \
    }
/* Experts without gates */
#define UP(T, D, F, E, K, DT, ...)                                                                 \
    {                                                                                              \
        .op = &op_moe_up, .rows = T, .k = D, .n = F, .n_experts = E, .top_k = K, .dtype = DT,      \
        .act = ACT_RELU2, __VA_ARGS__                                                              \
    }
/* Experts whose weights are factors on their inputs */
#define INPUT(T, D, F, E, K, DT, ...)                                                              \
    {                                                                                              \
        .op = &op_moe_input, .rows = T, .k = D, .n = F, .n_experts = E, .top_k = K, .dtype = DT,   \
        __VA_ARGS__                                                                                \
    }
/* Chunks of `window` positions */
#define CHUNK(T, SEQS, PAST, NQ, NKV, PER, D, BLOCK, DT, ...)                                      \
    {                                                                                              \
        .op = &op_attention_chunk, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ,             \
        .n_kv = NKV, .q_per_kv = PER, .d = D, .block_len = BLOCK, .dtype = DT, __VA_ARGS__         \
    }
#define UNIT(T, NQ, NKV, D, ROT, DT, ...)                                                          \
    {                                                                                              \
        .op = &op_qkv_unit, .rows = T, .n_q = NQ, .n_kv = NKV, .d = D, .rot = ROT, .dtype = DT,    \
        __VA_ARGS__                                                                                \
    }
/* G groups, of which TOP are chosen from */
#define SIGMOIDS(T, E, K, V, G, TOP)                                                               \
    {                                                                                              \
        .op = &op_route_sigmoid, .rows = T, .n_experts = E, .top_k = K, .variant = V,              \
        .n_parts = G, .n_slices = TOP                                                              \
    }
#define WIDE(T, HEADS, D, FIRST, ...)                                                              \
    {                                                                                              \
        .op = &op_wide_norm, .rows = T, .n_q = HEADS, .d = D, .q_offset = FIRST, __VA_ARGS__       \
    }
#define MOE(T, D, F, E, K, DT, ...)                                                                \
    {                                                                                              \
        .op = &op_moe_ffn, .rows = T, .k = D, .n = F, .n_experts = E, .top_k = K, .dtype = DT,     \
        __VA_ARGS__                                                                                \
    }
/* One KV head for all query heads; values are the first N elements of the keys. */
#define LATENT(T, SEQS, PAST, NQ, D, N, BLOCK, DT)                                                 \
    {                                                                                              \
        .op = &op_attention_latent, .rows = T, .n_seqs = SEQS, .past = PAST, .n_q = NQ, .n_kv = 1, \
        .q_per_kv = NQ, .d = D, .n = N, .block_len = BLOCK, .dtype = DT                            \
    }
/* K elements of a head of q before the rotated ones */
#define TO_CACHE(T, NQ, D, ROT, K, DT, ...)                                                        \
    {                                                                                              \
        .op = &op_latent_to_cache, .rows = T, .n_q = NQ, .d = D, .rot = ROT, .k = K, .dtype = DT,  \
        __VA_ARGS__                                                                                \
    }
#define HEADS(T, H, K, N, DT)                                                                      \
    {                                                                                              \
        .op = &op_heads_linear, .rows = T, .n_q = H, .k = K, .n = N, .dtype = DT                   \
    }
/* NK key heads of DK, NV value heads of DV, PER of them for each key head */
#define DELTA(T, SEQS, NK, NV, PER, DK, DV, TAPS, ...)                                             \
    {                                                                                              \
        .op = &op_delta, .rows = T, .n_seqs = SEQS, .n_kv = NK, .n_q = NV, .q_per_kv = PER,        \
        .d = DK, .n = DV, .rot = TAPS, __VA_ARGS__                                                 \
    }
#define GATED(T, HEADS, D)                                                                         \
    {                                                                                              \
        .op = &op_gated_norm, .rows = T, .n_q = HEADS, .d = D                                      \
    }
#define STREAMS(OP, T, N, D, ...)                                                                  \
    {                                                                                              \
        .op = &(OP), .rows = T, .n_parts = N, .k = D, __VA_ARGS__                                  \
    }
#define CUT(T, F, SLICES, FACTOR, ...)                                                             \
    {                                                                                              \
        .op = &op_cut_gates, .rows = T, .k = F, .n_slices = SLICES, .cap = FACTOR, __VA_ARGS__     \
    }
/* G columns of a group, 0: all */
#define ROUND(T, K, G, V, ...)                                                                     \
    {                                                                                              \
        .op = &op_round_input, .rows = T, .k = K, .n = G, .variant = V, __VA_ARGS__                \
    }
#define EACH_FLOAT(X) X(DT_F32) X(DT_F16) X(DT_BF16)
#define EACH_GGUF(X)                                                                               \
    X(DT_Q8_0)                                                                                     \
    X(DT_Q4_0)                                                                                     \
    X(DT_Q4_1)                                                                                     \
    X(DT_Q5_0)                                                                                     \
    X(DT_Q5_1)                                                                                     \
    X(DT_Q4_K)                                                                                     \
    X(DT_Q5_K) X(DT_Q6_K) X(DT_Q2_K) X(DT_Q3_K) X(DT_IQ4_NL) X(DT_IQ4_XS) X(DT_MXFP4)
#define EACH_INT(X)                                                                                \
    X(DT_INT4_BF16)                                                                                \
    X(DT_INT4_ZERO_F16)                                                                            \
    X(DT_INT4_ZERO_BF16) X(DT_INT8_BF16) X(DT_INT8_ZERO_F16) X(DT_INT8_ZERO_BF16)
#define EACH_QUANT(X) EACH_GGUF(X) EACH_INT(X)
#define EACH_KV(X) EACH_FLOAT(X) X(DT_I8) X(DT_E4M3)

/* For one weight type: sizes around a panel (32 columns) and the tiles of 6, 14 and 16 rows. */
#define LINEAR_CASES(DT)                                                                           \
    LINEAR(0, 64, 32, DT, ), LINEAR(1, 1, 1, DT, ), LINEAR(1, 64, 33, DT, .bias = true),           \
        LINEAR(2, 31, 32, DT, ), LINEAR(3, 70, 100, DT, .bias = true),                             \
        LINEAR(6, 130, 65, DT, .n_slices = 2), LINEAR(7, 257, 96, DT, .n_slices = 8),              \
        LINEAR(13, 64, 160, DT, .n_slices = 4, .bias = true), LINEAR(14, 512, 64, DT, ),           \
        LINEAR(15, 512, 64, DT, .n_slices = 8), LINEAR(17, 96, 40, DT, ),                          \
        LINEAR(33, 300, 200, DT, .n_slices = 8, .bias = true), LINEAR(1, 2048, 192, DT, ),         \
        LINEAR(1, 777, 320, DT, .n_slices = 8),                                                    \
        LINEAR(100, 48, 70, DT, .n_parts = 3, .bias = true),                                       \
        LINEAR(70, 600, 96, DT, .n_slices = 8),
/* Blocks are of 32 or 256; slices cut groups. */
#define QUANT_CASES(DT)                                                                            \
    LINEAR(1, 256, 33, DT, .bias = true), LINEAR(1, 1280, 64, DT, .n_slices = 8),                  \
        LINEAR(2, 256, 40, DT, ), LINEAR(9, 512, 70, DT, .n_slices = 8, .bias = true),             \
        LINEAR(17, 768, 32, DT, .n_slices = 4), LINEAR(130, 256, 65, DT, .bias = true),            \
        EMBED(15, 512, 37, DT),
#define EMBED_CASES(DT) EMBED(0, 16, 40, DT), EMBED(1, 7, 1, DT), EMBED(29, 300, 70, DT),
#define QKV_CASES(DT)                                                                              \
    QKV(0, 2, 1, 8, 8, DT, ), QKV(1, 8, 4, 8, 8, DT, ), QKV(3, 4, 2, 64, 64, DT, .qk_norm = true), \
        QKV(5, 3, 1, 20, 12, DT, .interleaved = true), QKV(9, 2, 2, 33, 0, DT, .qk_norm = true),   \
        QKV(17, 6, 3, 128, 64, DT, .interleaved = true, .qk_norm = true),
#define ATTN_CASES(DT)                                                                             \
    ATTN(0, 1, 0, 2, 1, 2, 8, 16, DT, ), ATTN(1, 1, 0, 1, 1, 1, 8, 1, DT, ),                       \
        ATTN(1, 1, 300, 8, 2, 4, 64, 16, DT, ), ATTN(40, 1, 0, 4, 2, 2, 32, 16, DT, ),             \
        ATTN(3, 3, 255, 6, 3, 2, 20, 7, DT, ),                                                     \
        ATTN(50, 4, 240, 3, 2, 2, 33, 5, DT, .q_offset = 1),                                       \
        ATTN(30, 2, 500, 4, 1, 4, 16, 16, DT, .window = 9),                                        \
        ATTN(21, 3, 530, 2, 2, 1, 40, 32, DT, .window = 300),                                      \
        ATTN(2, 1, 1100, 5, 1, 5, 128, 16, DT, ), ATTN(1, 1, 290, 32, 8, 4, 64, 16, DT, ),         \
        ATTN(1, 1, 310, 40, 20, 2, 96, 16, DT, .window = 290),                                     \
        ATTN(2, 1, 530, 13, 5, 3, 72, 5, DT, .q_offset = 1),                                       \
        ATTN(8, 1, 28, 2, 2, 1, 24, 16, DT, ), ATTN(8, 1, 20, 2, 2, 1, 48, 16, DT, ),              \
        ATTN(5, 1, 20, 2, 2, 1, 80, 16, DT, ), ATTN(40, 1, 3, 4, 2, 2, 32, 16, DT, .cap = 1.5f),   \
        ATTN(2, 1, 600, 8, 2, 4, 64, 16, DT, .cap = 50.0f, .window = 290),
/* The last ones have the sizes of DeepSeek's models. */
#define LATENT_CASES(DT)                                                                           \
    LATENT(0, 1, 0, 2, 24, 16, 16, DT), LATENT(1, 1, 0, 1, 10, 8, 1, DT),                          \
        LATENT(40, 2, 3, 4, 24, 16, 16, DT), LATENT(3, 3, 255, 5, 33, 21, 7, DT),                  \
        LATENT(1, 1, 300, 4, 80, 64, 16, DT), LATENT(2, 1, 530, 16, 48, 40, 16, DT),               \
        LATENT(1, 1, 600, 2, 576, 512, 16, DT), LATENT(7, 2, 250, 16, 576, 512, 16, DT),
#define TO_CACHE_CASES(DT)                                                                         \
    TO_CACHE(0, 2, 24, 8, 8, DT, ), TO_CACHE(1, 1, 3, 2, 0, DT, .interleaved = true),              \
        TO_CACHE(5, 3, 40, 12, 20, DT, .interleaved = true), TO_CACHE(9, 4, 31, 10, 3, DT, ),      \
        TO_CACHE(17, 16, 576, 64, 128, DT, .interleaved = true),
#define HEADS_CASES(DT)                                                                            \
    HEADS(0, 2, 8, 8, DT), HEADS(1, 1, 1, 1, DT), HEADS(1, 5, 33, 40, DT),                         \
        HEADS(3, 4, 128, 512, DT), HEADS(17, 3, 20, 70, DT), HEADS(150, 2, 64, 33, DT),            \
        HEADS(20, 16, 512, 128, DT),
/* Experts without a row, with one, and with more than a tile. */
#define MOE_CASES(DT)                                                                              \
    MOE(0, 16, 8, 4, 2, DT, ), MOE(1, 1, 1, 4, 1, DT, ), MOE(1, 70, 33, 8, 8, DT, .n_slices = 8),  \
        MOE(5, 64, 48, 64, 8, DT, .n_slices = 8), MOE(37, 48, 21, 5, 2, DT, .n_slices = 4),        \
        MOE(100, 33, 40, 4, 3, DT, .n_slices = 2, .act = ACT_GELU_TANH),                           \
        MOE(2, 300, 200, 16, 1, DT, .n_slices = 8),

const struct op_case op_cases[] = {
    EACH_FLOAT(LINEAR_CASES) LINEAR(5, 0, 20, DT_BF16, .bias = true),
    LINEAR(4, 90, 77, DT_BF16, .n_parts = 3, .variant = 1),
    LINEAR(2, 3, 40, DT_F32, .n_slices = 8),
    LINEAR(60, 300, 70, DT_F16, .n_parts = 3, .bias = true),
    EMBED(60, 300, 70, DT_F16),
    LINEAR(1500, 1536, 33, DT_BF16, ), /* more rows than are transposed at a time */
    EACH_FLOAT(EMBED_CASES) EACH_QUANT(QUANT_CASES)
        LINEAR(4, 512, 77, DT_Q4_K, .n_parts = 3, .variant = 1),
    LINEAR(300, 512, 77, DT_Q4_K, .n_parts = 3, .variant = 1),
    LINEAR(40, 1280, 64, DT_Q6_K, .n_slices = 8),
    ROWS(op_add_rms_norm, 0, 8, ),
    ROWS(op_add_rms_norm, 1, 1, ),
    ROWS(op_add_rms_norm, 3, 17, .bias = true),
    ROWS(op_add_rms_norm, 5, 64, .variant = 1),
    ROWS(op_add_rms_norm, 20, 1000, .bias = true),
    ROWS(op_add_rms_norm, 9, 2048, ),
    ROWS(op_add_rms_norm, 40, 515, .variant = 1),
    ROWS(op_layer_norm, 0, 8, ),
    ROWS(op_layer_norm, 2, 1, ),
    ROWS(op_layer_norm, 3, 31, .bias = true),
    ROWS(op_layer_norm, 30, 768, .bias = true),
    ROWS(op_layer_norm, 4, 100, ),
    ROWS(op_act_mul, 0, 16, .act = ACT_SILU),
    ROWS(op_act_mul, 3, 37, .act = ACT_SILU),
    ROWS(op_act_mul, 11, 1030, .act = ACT_SILU),
    ROWS(op_act_mul, 3, 1000, .act = ACT_GELU),
    ROWS(op_act_mul, 40, 515, .act = ACT_GELU_TANH),
    ROWS(op_act_mul, 5, 515, .act = ACT_RELU),
    ROWS(op_act_mul, 4, 131, .act = ACT_RELU2),
    ROWS(op_scale, 0, 16, .cap = 3.0f),
    ROWS(op_scale, 19, 1111, .cap = 0.3f),
    ROWS(op_soft_cap, 0, 16, .cap = 30.0f),
    ROWS(op_soft_cap, 3, 2000, .cap = 30.0f),
    ROWS(op_soft_cap, 19, 1111, .cap = 0.5f),
    ROWS(op_activate, 0, 16, .act = ACT_GELU),
    ROWS(op_activate, 3, 2000, .act = ACT_GELU),
    ROWS(op_activate, 19, 1111, .act = ACT_GELU_TANH, .variant = 1),
    ROWS(op_activate, 9, 1111, .act = ACT_SILU, .variant = 1),
    ROWS(op_activate, 3, 2000, .act = ACT_RELU),
    ROWS(op_activate, 11, 515, .act = ACT_RELU, .variant = 1),
    ROWS(op_relu2, 3, 2000, .act = ACT_RELU2),
    ROWS(op_relu2, 11, 515, .act = ACT_RELU2, .variant = 1),
    ROWS(op_add, 0, 16, ),
    ROWS(op_add, 1, 1, ),
    ROWS(op_add, 40, 515, ),
    ROWS(op_gather, 0, 16, ),
    ROWS(op_gather, 1, 3, ),
    ROWS(op_gather, 40, 515, ),
    {.op = &op_mask_logits, .rows = 0, .n = 50},
    {.op = &op_mask_logits, .rows = 5, .n = 70},
    {.op = &op_mask_logits, .rows = 7, .n = 5000, .variant = 1},
    {.op = &op_edit_logits, .rows = 0, .n = 50},
    {.op = &op_edit_logits, .rows = 7, .n = 50},
    {.op = &op_edit_logits, .rows = 2, .n = 5, .n_slices = 2},
    {.op = &op_edit_logits, .rows = 7, .n = 50, .variant = 1},
    TOPK(0, 4, 100, 8, 0),
    TOPK(1, 1, 1, 1, 0),
    TOPK(3, 5, 3, 1, 0),
    TOPK(2, 64, 5000, 8, 0),
    TOPK(5, 20, 1000, 4, 1),
    TOPK(4, 64, 999, 2, 2),
    TOPK(3, 33, 4097, 8, 3),
    TOPK(40, 8, 300, 8, 1),
    TOPK(2, 0, 500, 8, 0),
    TOPK(2, 10, 4, 8, 2),
    TOPK(1, 256, 20000, 8, 1),
    TOPK(7, 6, 5000, 4, 4),
    SAMPLE(0, 64, 300, 1, ),
    SAMPLE(48, 64, 300, 1, .n_slices = 8),
    SAMPLE(33, 64, 300, 2, .n_slices = 4, .variant = 1),
    SAMPLE(17, 64, 1000, 8, ),
    SAMPLE(16, 64, 50, 1, .n_slices = 8), /* the candidates are the vocabulary */
    SAMPLE(16, 64, 63, 3, .n_slices = 1),
    SAMPLE(17, 9, 700, 37, .n_slices = 1, .variant = 1), /* more ranks than lanes */
    {.op = &op_take_tokens, .rows = 0, .n = 3},
    {.op = &op_take_tokens, .rows = 1, .n = 1},
    {.op = &op_take_tokens, .rows = 70, .n = 33},
    EACH_KV(QKV_CASES) EACH_KV(ATTN_CASES)
        ATTN(3, 1, 10, 0, 0, 1, 16, 16, DT_F32, ), /* a rank without query heads */
    ATTN(9, 2, 70, 4, 2, 2, 256, 16, DT_BF16, ),   /* wide heads */
    ATTN(3, 1, 100, 4, 1, 4, 256, 16, DT_F16, .window = 50),
    ATTN(2, 1, 40, 8, 1, 8, 200, 16, DT_F32, ),
    /* more partial results than fit a wave: a unit's state is carried over */
    ATTN(197, 1, 1500, 8, 8, 1, 64, 16, DT_F16, ),
    ROUTE(0, 8, 2, 0),
    ROUTE(1, 4, 1, 1),
    ROUTE(3, 4, 4, 0),
    ROUTE(7, 64, 8, 1),
    ROUTE(40, 128, 8, 0),
    ROUTE(21, 512, 32, 3), /* ties, and a factor on the weights */
    ROUTE(150, 60, 4, 2),
    FULL(1, 1, 0, 2, 2, 1, 8, 16, DT_F32, ),
    FULL(40, 1, 0, 4, 4, 1, 32, 16, DT_F32, ),
    FULL(700, 3, 0, 2, 2, 1, 64, 16, DT_F32, ),
    FULL(60, 4, 0, 3, 2, 2, 33, 5, DT_F32, .q_offset = 1),
    FULL(300, 2, 0, 2, 2, 1, 16, 16, DT_F32, .window = 9),
    FULL(50, 2, 500, 4, 4, 1, 16, 16, DT_F16, .window = 70),
    FULL(20, 2, 300, 2, 2, 1, 8, 16, DT_BF16, ),
    REL_BIAS(1, 1, 0, 2, 2, 1, 8, 16, DT_F32, ),
    REL_BIAS(40, 1, 0, 4, 4, 1, 32, 16, DT_F32, ),
    REL_BIAS(700, 3, 0, 2, 2, 1, 64, 16, DT_F32, ),
    REL_BIAS(60, 4, 300, 3, 2, 2, 33, 5, DT_F32, .q_offset = 1),
    REL_BIAS(3, 1, 400, 4, 2, 2, 16, 16, DT_F16, .window = 140, .cap = 5.0f),
    SINKS(1, 1, 0, 2, 1, 2, 8, 16, DT_F32, ),
    SINKS(40, 1, 700, 4, 2, 2, 32, 16, DT_F16, ),
    SINKS(30, 2, 500, 4, 1, 4, 16, 16, DT_F32, .window = 9),
    SINKS(50, 4, 240, 3, 2, 2, 33, 5, DT_BF16, .q_offset = 1),
    LIMITED(1, 1, 1, 4, 1, DT_F32, ),
    LIMITED(37, 48, 21, 5, 2, DT_F32, .n_slices = 4),
    LIMITED(100, 33, 40, 4, 3, DT_BF16, .n_slices = 8),
    UP(1, 1, 1, 4, 1, DT_F32, ),
    UP(37, 48, 21, 5, 2, DT_F32, .n_slices = 4),
    UP(100, 33, 40, 4, 3, DT_BF16, .n_slices = 8),
    INPUT(1, 1, 1, 4, 1, DT_F32, ),
    INPUT(37, 48, 21, 5, 2, DT_F32, .n_slices = 4),
    INPUT(100, 33, 40, 4, 3, DT_BF16, .n_slices = 8),
    CHUNK(1, 1, 0, 2, 1, 2, 8, 16, DT_F32, .window = 1),
    CHUNK(40, 1, 0, 4, 2, 2, 32, 16, DT_F32, .window = 16),
    CHUNK(30, 2, 500, 4, 1, 4, 16, 16, DT_F32, .window = 9),
    CHUNK(21, 3, 530, 2, 2, 1, 40, 32, DT_F16, .window = 300),
    CHUNK(50, 4, 240, 3, 2, 2, 33, 5, DT_BF16, .window = 100, .q_offset = 1),
    /* a chunk's last token and the next one's first */
    CHUNK(2, 1, 767, 8, 2, 4, 64, 16, DT_I8, .window = 256),
    CHUNK(700, 2, 10, 2, 2, 1, 64, 16, DT_F32, .window = 130),
    CHUNK(3, 1, 100, 2, 2, 1, 24, 16, DT_F32, .window = 8192),
    UNIT(0, 2, 1, 8, 8, DT_F32, ),
    UNIT(1, 8, 4, 8, 8, DT_F32, ),
    UNIT(5, 3, 1, 20, 12, DT_F16, .interleaved = true),
    UNIT(17, 6, 3, 128, 128, DT_BF16, .interleaved = true),
    UNIT(9, 2, 2, 33, 0, DT_I8, ),
    SIGMOIDS(0, 8, 2, 0, 0, 0),
    SIGMOIDS(1, 4, 1, 1, 0, 0),
    SIGMOIDS(40, 128, 8, 3, 1, 1),
    SIGMOIDS(21, 256, 8, 3, 8, 4),
    SIGMOIDS(150, 64, 6, 4, 4, 2),
    SIGMOIDS(7, 12, 4, 2, 12, 5),
    SIGMOIDS(33, 128, 1, 4, 0, 0),
    SIGMOIDS(40, 16, 3, 12, 0, 0), /* equal scores of different logits */
    ROWS(op_sigmoid_mul, 0, 16, ),
    ROWS(op_sigmoid_mul, 1, 1, .variant = 1),
    ROWS(op_sigmoid_mul, 19, 1111, ),
    ROWS(op_sigmoid_mul, 40, 515, .variant = 1),
    ROWS(op_add_bias, 0, 16, ),
    ROWS(op_add_bias, 1, 1, ),
    ROWS(op_add_bias, 40, 515, ),
    WIDE(0, 2, 8, 0, ),
    WIDE(1, 1, 1, 0, ),
    WIDE(5, 4, 33, 1, ),
    WIDE(40, 16, 128, 8, ),
    WIDE(7, 12, 20, 5, .n_parts = 3), /* begins within a group */
    WIDE(9, 6, 24, 0, .n_parts = 6),
    LINEAR_CASES(DT_E4M3) LINEAR(4, 90, 77, DT_E4M3, .n_parts = 3, .variant = 1),
    EMBED(29, 300, 70, DT_E4M3),
    LINEAR_CASES(DT_INT4_INDEX) LINEAR(4, 90, 77, DT_INT4_INDEX, .n_parts = 3, .variant = 1),
    EMBED(29, 300, 70, DT_INT4_INDEX),
    LINEAR_CASES(DT_INT8_INDEX) LINEAR(4, 90, 77, DT_INT8_INDEX, .n_parts = 3, .variant = 1),
    EMBED(29, 300, 70, DT_INT8_INDEX),
    LINEAR_CASES(DT_INT4_SORTED) LINEAR(4, 90, 77, DT_INT4_SORTED, .n_parts = 3, .variant = 1),
    LINEAR(9, 70, 700, DT_INT4_SORTED, .n_parts = 2),
    LINEAR(130, 33, 700, DT_INT4_SORTED, .n_slices = 8),
    EMBED(29, 300, 70, DT_INT4_SORTED),
    LINEAR_CASES(DT_INT8_SORTED) LINEAR(4, 90, 77, DT_INT8_SORTED, .n_parts = 3, .variant = 1),
    LINEAR(9, 70, 700, DT_INT8_SORTED, .n_slices = 4),
    EMBED(29, 300, 70, DT_INT8_SORTED),
    LINEAR_CASES(DT_NF4) LINEAR(4, 90, 77, DT_NF4, .n_parts = 3, .variant = 1),
    EMBED(29, 300, 70, DT_NF4),
    LINEAR_CASES(DT_FP4) LINEAR_CASES(DT_NVFP4)
        LINEAR(4, 90, 77, DT_NVFP4, .n_parts = 3, .variant = 1),
    EMBED(29, 300, 70, DT_NVFP4),
    EACH_KV(LATENT_CASES) EACH_KV(TO_CACHE_CASES) EACH_FLOAT(HEADS_CASES) EACH_FLOAT(MOE_CASES)
        MOE(1100, 8, 6, 4, 2, DT_BF16, .n_slices = 8), /* more than a chunk */
    DELTA(0, 1, 1, 1, 1, 4, 4, 4, ),
    DELTA(1, 1, 1, 1, 1, 1, 1, 2, ),
    DELTA(19, 3, 2, 3, 2, 20, 72, 3,
          .q_offset = 1), /* the first key head is shared with a lower rank */
    DELTA(33, 1, 1, 2, 2, 16, 150, 16, ),
    DELTA(21, 2, 2, 5, 1, 16, 24, 4, ), /* more value heads than PER makes: the key heads in turn */
    DELTA(40, 7, 2, 8, 4, 32, 65, 4, ),
    DELTA(70, 2, 2, 4, 2, 128, 128, 4, ),
    DELTA(21, 2, 1, 3, 3, 17, 40, 4, .bias = true), /* the convolution's bias alone */
    DELTA(0, 1, 1, 1, 1, 4, 4, 4, .variant = 1),
    DELTA(1, 1, 1, 1, 1, 1, 1, 2, .variant = 1, .bias = true),
    DELTA(19, 3, 2, 3, 2, 20, 72, 3, .variant = 2, .bias = true, .q_offset = 1),
    DELTA(33, 1, 1, 2, 2, 16, 150, 16, .variant = 1),
    DELTA(40, 7, 2, 8, 4, 32, 65, 4, .variant = 2, .bias = true),
    DELTA(70, 2, 1, 4, 4, 128, 64, 4, .variant = 1, .bias = true),
    GATED(0, 2, 8),
    GATED(1, 1, 1),
    GATED(5, 4, 33),
    GATED(40, 8, 128),
    STREAMS(op_predict_streams, 0, 4, 8, ),
    STREAMS(op_predict_streams, 1, 1, 1, ),
    STREAMS(op_predict_streams, 7, 3, 37, ),
    STREAMS(op_predict_streams, 40, 4, 515, ),
    STREAMS(op_predict_streams, 5, 8, 100, ),
    STREAMS(op_correct_streams, 0, 4, 8, ),
    STREAMS(op_correct_streams, 1, 1, 1, .bias = true),
    STREAMS(op_correct_streams, 7, 3, 37, .variant = 2),
    STREAMS(op_correct_streams, 40, 4, 515, .bias = true),
    STREAMS(op_correct_streams, 5, 8, 100, .variant = 5, .bias = true),
    ROWS(op_match_rms, 0, 16, ),
    ROWS(op_match_rms, 3, 1, ),
    ROWS(op_match_rms, 40, 515, ),
    ROWS(op_match_rms, 9, 70, .variant = 1),
    {.op = &op_known_ids, .rows = 0, .n = 3},
    {.op = &op_known_ids, .rows = 70, .n = 33},
    CUT(0, 16, 8, 1.0f, ),
    CUT(1, 1, 1, 0.5f, ),
    CUT(3, 5, 8, -0.5f, ), /* empty slices */
    CUT(40, 515, 8, 1.645f, ),
    CUT(40, 515, 8, 1.645f, .variant = 1),
    CUT(9, 2048, 4, 0.0f, .variant = 1),
    ROUND(0, 16, 0, 0, ),
    ROUND(1, 1, 0, 0, ),
    ROUND(9, 1030, 0, 0, ),
    ROUND(9, 515, 0, 1, ),
    ROUND(40, 300, 128, 1, ),
    ROUND(5, 300, 7, 0, ),
    ROUND(5, 33, 1, 1, ),
    ROUND(5, 2100, 0, 2, ),
    ROUND(5, 300, 128, 3, ),
    ROUND(7, 300, 0, 0, .n_parts = 3), /* ranks that share a group */
    ROUND(7, 300, 128, 1, .n_parts = 8),
    ROUND(7, 50, 16, 0, .n_parts = 4),
    TO_CACHE(9, 4, 31, 10, 3, DT_F32, .variant = 1), /* latents that are rounded */
    TO_CACHE(17, 16, 576, 64, 128, DT_F32, .interleaved = true, .variant = 2),
    TO_CACHE(5, 3, 70, 12, 20, DT_BF16, .variant = 2),
};
const size_t n_op_cases = ARRAY_LEN(op_cases);
