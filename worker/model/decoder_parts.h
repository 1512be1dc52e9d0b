/* What a decoder consists of, for the files that open it and run it.  Private to worker/model. */
#ifndef WORKER_MODEL_DECODER_PARTS_H
#define WORKER_MODEL_DECODER_PARTS_H

#include "worker/load/weights.h"
#include "worker/model/decoder.h"
#include "worker/model/memory.h"

enum { KV_BUFS = 4 }; /* k, v, k_scale, v_scale */

/* How the input of a weight's parts is rounded; n 1: of all alike, 0: not at all. */
struct matrix_input {
    int32_t n;
    int32_t rows[3];
    struct input_rule rule[3];
};

struct layer {
    struct weight *w[W_N];
    struct matrix_input input[W_N];
    struct attn_layer attn;
    struct moe_layer moe;              /* of a layer with experts */
    float *input_scale, *hidden_scale; /* of its experts, see moe_layer; NULL: they have none */
    bool sparse;                       /* it is one */
    float scale;                       /* factor on the residual stream behind it */
    struct ffn_share ffn;              /* of its dense feed-forward */
    bool
        is_delta; /* it is a gated delta net or Mamba-2 and has states in place of attention and KV */
    struct delta_layer delta;
    struct delta_state state;
    struct buf *conv_state, *rule_state;
    struct kv_layer kv;
    struct buf *kv_buf[KV_BUFS];
};

struct decoder {
    struct model_config mc;
    struct decoder_config cfg;
    struct shard sh;
    struct backend *be;
    const struct backend_ops *op;
    struct coll *co; /* NULL: one rank */
    enum act act;
    float eps;
    struct weight *w[W_N]; /* those outside the layers */
    struct matrix_input head_input;
    struct layer *layer; /* [n_layers] */
    struct scratch_layout at;
    struct buf *scratch;
    struct rope_tables {
        const struct rope_config *rc;
        struct buf *cos, *sin;
    } rope[2];              /* of mc.rope, of mc.local_rope */
    struct buf *q_scale;    /* NULL: none */
    struct view states;     /* of the last step */
    size_t loaded, to_load; /* bytes of the files */
};

#endif
