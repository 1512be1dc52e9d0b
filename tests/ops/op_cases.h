/* The ops of backend.h as rows {op, shape}: each builds its inputs from the shape alone, runs on
 * any backend and leaves its results as floats, so that backends, instruction sets, thread counts
 * and batches can be compared, and has a reference in double precision with an error bound for each
 * result. */
#ifndef TESTS_OPS_OP_CASES_H
#define TESTS_OPS_OP_CASES_H

#include "backends/backend.h"

struct op_case {
    const struct op *op;
    int32_t rows;     /* T, or rows of logits */
    int32_t k, n;     /* columns of the input, of the output */
    enum dtype dtype; /* of the weight, or of the KV cache */
    int32_t n_slices; /* 0 = 1 */
    int32_t variant;  /* of the op: see its run function */
    bool bias;
    int32_t n_parts; /* 0 = 1; more: parts of different sizes and types */
    enum act act;
    int32_t n_q, n_kv, d, rot, q_per_kv, q_offset, window, block_len;
    int32_t n_seqs, past; /* attention: rows shared evenly by the sequences, tokens before them */
    bool interleaved, qk_norm;
    float cap;    /* attention, soft_cap; 0: none; the factor of scale, of cut_gates */
    double x_eps; /* linear, attention, moe_ffn: greatest relative error that the backend makes
                     rounding its inputs to its matrix units' type; 0 = none */
    bool words; /* attention over int8 entries: the backend rounds queries and weights to 16 bits */
    int32_t n_experts, top_k; /* of the mixture's ops: k is D, n is F */
};

struct op {
    const char *name;
    /* Results of a row. */
    int32_t (*cols)(const struct op_case *c);
    /* Rows [first, first + n) of the case alone, as one call of the op; out [n, cols]. */
    enum status (*run)(struct backend *be, const struct op_case *c, int32_t first, int32_t n,
                       float *out);
    /* All rows: out and the largest error allowed, both [rows, cols]. */
    void (*reference)(const struct op_case *c, double *out, double *bound);
};

/* All cases. */
extern const struct op_case op_cases[];
extern const size_t n_op_cases;

/* "linear rows 5 k 70 n 100 bf16 ..." in a static buffer. */
const char *op_case_name(const struct op_case *c);

/* For the files of this folder. */
extern const struct op op_linear, op_embed, op_add_rms_norm, op_layer_norm, op_act_mul, op_activate,
    op_scale, op_soft_cap, op_add, op_gather, op_edit_logits, op_mask_logits, op_topk, op_sample,
    op_take_tokens, op_qkv, op_attention, op_moe_route, op_moe_ffn, op_sigmoid_mul, op_add_bias,
    op_wide_norm, op_route_sigmoid, op_attention_sinks, op_attention_full, op_attention_rel_bias,
    op_moe_limited, op_attention_latent, op_latent_to_cache, op_heads_linear, op_delta,
    op_gated_norm, op_relu2, op_moe_up, op_predict_streams, op_correct_streams, op_match_rms,
    op_known_ids, op_cut_gates, op_moe_input, op_attention_chunk, op_qkv_unit, op_round_input;

/* Does the case multiply with BF16 weights? */
static inline bool op_has_bf16_weights(const struct op_case *c)
{
    return c->dtype == DT_BF16 &&
           (c->op == &op_linear || c->op == &op_moe_ffn || c->op == &op_heads_linear);
}

/* The number of an input_rule's grid that is nearest to y, of two the one with an even last bit; *step: from
 * it to the next. */
double op_on_grid(enum input_grid grid, double y, double *step);

/* Repeatable number in [-1, 1) for (stream, i, j). */
float in_f32(uint32_t stream, int64_t i, int64_t j);

/* The activation in double; *err: what an f32 result may be off. */
double ref_act(enum act act, double x, double *err);

/* Rounds a double's worth of f32 to a stored type and back. */
float stored_f32(enum dtype t, float v);
void store_at(void *dst, enum dtype t, size_t i, float v);
float load_at(const void *src, enum dtype t, size_t i);

/* Have the rows of a KV cache of this type scales? */
bool op_kv_scaled(enum dtype t);
/* Value of a stored cache element without its scale. */
double op_kv_element(const void *data, enum dtype t, size_t i);
static inline size_t op_at(int64_t row, int64_t cols, int64_t i)
{
    return (size_t)row * (size_t)cols + (size_t)i;
}

/* Everything that a run takes from the backend, given back by env_close. */
enum { ENV_MAX = 24 };
struct op_env {
    struct backend *be;
    const struct backend_ops *ops;
    struct buf *bufs[ENV_MAX];
    struct weight *weights[ENV_MAX];
    int n_bufs, n_weights;
    enum status st; /* first failure */
};

struct op_env env_open(struct backend *be);
enum status env_close(struct op_env *e);
/* A [rows, cols] with an offset and a stride beyond cols:
 * zeroed, or filled from packed host data. */
struct view env_view(struct op_env *e, int32_t rows, int32_t cols, enum dtype t, const void *data);
/* The same without gaps between rows (index arrays and KV). */
struct view env_packed(struct op_env *e, int32_t rows, int32_t cols, enum dtype t,
                       const void *data);
struct weight *env_vector(struct op_env *e, const float *data, int32_t n);
/* [n, k] of type t: in_f32(stream, row, column), slices of k / n_slices columns; bias [n] or NULL. */
struct weight *env_matrix(struct op_env *e, enum dtype t, uint32_t stream, int32_t n, int32_t k,
                          int32_t n_slices, const float *bias);
/* v with w as its reader; a failure where the backend has no such operand. */
struct view env_operand(struct op_env *e, struct view v, const struct weight *w,
                        enum operand_source from);
void env_read(struct op_env *e, void *dst, struct view v);
#define ENV_RUN(e, call)                                                                           \
    do {                                                                                           \
        if ((e)->st == ST_OK)                                                                      \
            (e)->st = (call);                                                                      \
    } while (0)

/* [n, cols] floats of stream, rows first, first + 1, ...; the caller frees it. */
float *in_rows(uint32_t stream, int32_t first, int32_t n, int32_t cols);

#endif
