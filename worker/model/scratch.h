/* The activations of one step: windows into the scratch buffer, and the little that forward.c, inputs.c and streams.c do with
 * all of them.  Private to worker/model. */
#ifndef WORKER_MODEL_SCRATCH_H
#define WORKER_MODEL_SCRATCH_H

#include "worker/model/decoder_parts.h"

/* Windows into the scratch buffer, of this step's T rows. */
struct scratch {
    struct view resid, h, out, qkv, q, att, mid, ffn, last, logits;
    struct view both, second; /* [2 T, D]: out and behind it the second output */
    struct view gate, delta_qkv, delta_z, delta_ba, delta_out; /* see scratch_layout */
    struct view delta_squares;                                 /* [T, heads of all ranks] */
    struct view squares;                                       /* [T, Hq + Hkv] */
    struct view q_latent, q_normed, q_heads, latent, values;   /* see scratch_layout */
    struct view router, ids, weights, moe;                     /* moe: the whole room, [1, n] */
    struct view shared_mid, shared_ffn, shared_scale;
    struct view inputs, new_inputs, input_mid, input_act;                 /* see scratch_layout */
    struct view known_ids;                                                /* see scratch_layout */
    struct view streams, others, modes, coefs, laurel_low, laurel, stats; /* see scratch_layout */
};

/* Rows at `off` of the scratch buffer. */
struct view scratch_rows(const struct decoder *m, size_t off, int32_t rows, int32_t cols);

/* Of T tokens and R rows of logits. */
struct scratch scratch_of(const struct decoder *m, int32_t T, int32_t R);

static inline enum status all_reduce(struct decoder *m, struct view x)
{
    return m->co ? m->co->ops->all_reduce(m->co, x, REDUCE_SUM) : ST_OK;
}

static inline enum status scale(struct decoder *m, struct view x, double factor)
{
    return factor != 1 ? m->op->scale(m->be, x, (float)factor) : ST_OK;
}

/* The same rows with as many columns as a layer of another kind has. */
static inline struct view with_cols(struct view x, int32_t cols)
{
    x.cols = x.stride = cols;
    return x;
}

#endif
