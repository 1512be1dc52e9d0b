/* A row of bench_gpu --rows: its shape, its data and its work.  Called by bench_rows.c. */
#ifndef TESTS_GPU_BENCH_ROW_H
#define TESTS_GPU_BENCH_ROW_H

#include "gpu/bench_rows.h"
#include "gpu/bench_shapes.h"
#include "gpu/gpu_step.h"

enum {
    MAX_ROWS = 80,
    MAX_CALLS = 16,
    MAX_BUFS = 96,
    MAX_WEIGHTS = 24,
    INDEX_GROUP = 128, /* columns of a scale of INT4_INDEX and INT4_SORTED, */
    LEVEL_BLOCK = 64,  /* of NF4 */
};

enum row_kind {
    ROW_LINEAR,
    ROW_DELTA_CONV,
    ROW_DELTA_RULE,
    ROW_TO_LATENT,
    ROW_LATENT,
    ROW_HEADS,
    ROW_SINKS,
    ROW_EXPERTS,
    ROW_ROUND,
    ROW_DENSE, /* bench_row_dense.c */
};

/* Variants of ROW_DENSE, and the matrices of a layer. */
enum dense_part { PART_QKV, PART_O, PART_FFN, PART_LAYER };
enum dense_matrix { DENSE_QKV, DENSE_O, DENSE_GATE_UP, DENSE_DOWN, N_DENSE };

/* seqs sequences of `tokens` each, of `keys` where there is a cache; variant: Mamba-2 of a delta net, a
 * window, the grid of inputs, a part of a dense layer. */
struct row {
    char name[48];
    enum row_kind kind;
    enum dtype type;
    int32_t seqs, tokens, keys, variant;
};

/* Sizes of the kinds' shapes, published and for the emulator. */
struct sizes {
    int32_t n, k;                                   /* linear */
    int32_t delta_k, delta_v, d_k, d_v;             /* heads and their sizes, */
    int32_t mamba_k, mamba_v, mamba_d_k, mamba_d_v; /* of Mamba-2 */
    int32_t latent_q, latent, rot, nope; /* heads; elements of a latent, of RoPE, of a head */
    int32_t n_q, n_kv, d, window;        /* attention with sinks */
    int32_t experts[2], top_k[2], hidden[2], ffn[2]; /* with biases; without */
    int32_t round;                                   /* columns */
    const struct bench_shape *dense;                 /* of the layer */
};
extern const struct sizes row_sizes, row_sizes_tiny;

/* Of ROW_DENSE; T = seqs. */
struct dense_run {
    struct weight *w[N_DENSE][MAX_CALLS];
    const struct weight *norm;    /* [D] */
    struct view resid, x, h, out; /* [T, D] */
    struct view qkv, q, att, mid,
        ffn; /* [T, (n_q + 2 n_kv) d], [T, n_q d] twice, [T, 2 F], [T, F] */
};

/* Vectors of a kind's constants, made once a row. */
struct run {
    struct backend *be;
    const struct backend_ops *op;
    const struct bench_rows_config *cfg;
    const struct row *row;
    const struct sizes *z;
    struct buf *buf[MAX_BUFS];
    struct weight *weight[MAX_WEIGHTS];
    int n_bufs, n_weights, calls;
    struct gpu_step step;
    struct view x, out, aux, ids[MAX_CALLS], weights, scratch;
    struct weight *w[MAX_CALLS];
    struct kv_layer kv[MAX_CALLS];
    struct delta_state state[MAX_CALLS];
    struct delta_layer dl;
    struct attn_layer al;
    struct moe_layer ml;
    struct input_rule rule;
    struct dense_run dense;
};

/* out [MAX_ROWS]; returns how many there are. */
size_t row_list(struct row *out);

/* Bits of a weight in device memory. */
double row_bits_of(enum dtype t);

/* Bytes that the row has to move at least, and its operations. */
void row_work(const struct row *r, const struct sizes *z, double *bytes, double *flops);

/* Random data of r->row, and r->calls. */
MUST_CHECK enum status row_make(struct run *r);

/* What row_make is made of: memory [rows, cols], with numbers in [-1/2, 1/2), a vector [n] of `value`. */
MUST_CHECK enum status row_take(struct run *r, int32_t rows, int32_t cols, enum dtype t,
                                struct view *out);
MUST_CHECK enum status row_take_random(struct run *r, int32_t rows, int32_t cols, struct view *out);
MUST_CHECK enum status row_vector(struct run *r, int32_t n, float value, const struct weight **out);
/* r->step, of r->row's sequences. */
MUST_CHECK enum status row_step(struct run *r);
/* How many copies of `bytes` are together larger than the L2 cache: r->calls. */
int row_copies(const struct run *r, double bytes);
/* w [r->calls]: the matrix [n, k] as often; r->kv likewise: bf16 caches for r->step, v_cols 0: as latents. */
MUST_CHECK enum status row_matrices(struct run *r, enum dtype t, int32_t n, int32_t k, bool sliced,
                                    struct weight **w);
MUST_CHECK enum status row_caches(struct run *r, int32_t k_cols, int32_t v_cols);

/* ROW_DENSE (bench_row_dense.c). */
MUST_CHECK enum status dense_make(struct run *r);
MUST_CHECK enum status dense_call(struct run *r, int i);
void dense_work(const struct row *r, const struct bench_shape *s, double *bytes, double *flops);

#endif
