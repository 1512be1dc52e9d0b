/* The weights of a decoder.  What each is made of: weights.c. */
#ifndef WORKER_LOAD_WEIGHT_IDS_H
#define WORKER_LOAD_WEIGHT_IDS_H

enum weight_id {
    W_EMBED, /* also the head of a tied model */
    W_ATTN_NORM,
    W_QKV,
    W_Q_NORM,
    W_K_NORM,
    W_O,
    W_O_BIAS,
    W_POST_ATTN_NORM,
    W_FFN_NORM,
    W_GATE_UP,
    W_DOWN,
    W_DOWN_BIAS,
    W_ROUTER,
    W_EXPERTS_GATE_UP, /* stacks: one matrix for each expert */
    W_EXPERTS_DOWN,
    W_POST_FFN_NORM,
    W_FINAL_NORM,
    W_HEAD,
    /* the caches of packed weights know the numbers of those above */
    W_ATTN_NORM_BIAS,
    W_FFN_NORM_BIAS,
    W_FINAL_NORM_BIAS,
    W_UP, /* where there is no gate */
    W_ROUTER_BIAS,
    W_SHARED_GATE_UP,
    W_SHARED_DOWN,
    W_SHARED_SCALE,
    W_SINKS,
    W_REL_BIAS,
    W_EXPERTS_BIAS, /* of gate and up, [E 2F]; of down, [E D] */
    W_EXPERTS_DOWN_BIAS,
    /* latent attention: see TN_Q_A and those behind it; W_Q where the queries have no latent, and in
     * layers that share keys and values */
    W_Q,
    W_Q_A,
    W_Q_A_NORM,
    W_Q_B,
    W_KV_A,
    W_KV_A_NORM,
    W_K_B, /* stacks: one matrix for each query head */
    W_V_B,
    /* of encoders */
    W_TYPES,
    W_POSITIONS,
    W_EMBED_NORM,
    W_EMBED_NORM_BIAS,
    W_Q_GATE,
    /* gated delta nets: W_DELTA_CONV is [taps][channels], W_DELTA_DECAY -e^A_log */
    W_DELTA_QKV,
    W_DELTA_Z,
    W_DELTA_BA,
    W_DELTA_CONV,
    W_DELTA_DECAY,
    W_DELTA_DT,
    W_DELTA_NORM,
    W_DELTA_OUT,
    W_DELTA_STEP, /* of Mamba-2, in place of W_DELTA_BA */
    W_DELTA_CONV_BIAS,
    W_DELTA_SKIP,
    /* global layers with heads of their own have these in place of W_QKV to W_O_BIAS */
    W_GLOBAL_QKV,
    W_GLOBAL_QK, /* where values are the keys */
    W_GLOBAL_Q_NORM,
    W_GLOBAL_K_NORM,
    W_GLOBAL_O,
    W_GLOBAL_O_BIAS,
    W_LAYER_SCALE,
    W_GLOBAL_Q, /* of layers that share keys and values */
    W_INPUT_EMBED,
    W_INPUT_PROJ,
    W_INPUT_PROJ_NORM,
    W_INPUT_GATE,
    W_INPUT_OUT,
    W_INPUT_NORM,
    W_ROUTER_NORM,
    W_EXPERT_SCALE,
    W_EXPERT_IN_NORM,
    W_DENSE_OUT_NORM,
    W_EXPERT_OUT_NORM,
    W_EXPERTS_UP, /* a stack, where experts have no gate */
    W_SHARED_UP,
    /* of several residual streams: the first two are stacks of a matrix for each stream but the first */
    W_STREAM_IN,
    W_STREAM_OUT,
    W_STREAM_NORM,
    W_STREAM_ROUTER,
    W_STREAM_PREDICT,
    W_STREAM_CORRECT,
    W_STREAM_SCALE,
    W_LAUREL_LEFT,
    W_LAUREL_RIGHT,
    W_LAUREL_NORM,
    W_N
};

#endif
