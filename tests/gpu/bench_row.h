/* A row of bench_gpu --rows: its shape, its data and its work.  Called by bench_rows.c. */
#ifndef TESTS_GPU_BENCH_ROW_H
#define TESTS_GPU_BENCH_ROW_H

#include "gpu/bench_rows.h"
#include "gpu/gpu_step.h"

enum {
    MAX_ROWS = 64,
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
};

/* seqs sequences of `tokens` each, of `keys` where there is a cache; variant: Mamba-2 of a delta net, a
 * window, the grid of inputs. */
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
};
extern const struct sizes row_sizes, row_sizes_tiny;

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
};

/* out [MAX_ROWS]; returns how many there are. */
size_t row_list(struct row *out);

/* Bits of a weight in device memory. */
double row_bits_of(enum dtype t);

/* Bytes that the row has to move at least, and its operations. */
void row_work(const struct row *r, const struct sizes *z, double *bytes, double *flops);

/* Random data of r->row, and r->calls. */
MUST_CHECK enum status row_make(struct run *r);

#endif
