/* Sizes of everything a decoder takes, computed once and used both by the plan and by decoder_open.
 * Private to worker/model. */
#ifndef WORKER_MODEL_MEMORY_H
#define WORKER_MODEL_MEMORY_H

#include "worker/load/shard.h"
#include "worker/model/decoder_config.h"

/* Activations of the largest step: one allocation, offsets in bytes.  All [max_tokens, ..] f32; the
 * attention's and the feed-forward's lie in the same place, for they are never alive together. */
struct scratch_layout {
    size_t resid, h;    /* D */
    size_t out;         /* model_n_out D */
    size_t qkv, q, att; /* (n_q + 2 n_kv) d, n_q d, n_q d */
    /* of latent attention: q_rank, the same, n_q (d_nope + d_rope), kv_rank + d_rope, n_q d_value;
     * att is n_q kv_rank */
    size_t q_latent, q_normed, q_heads, latent, values;
    size_t gate; /* n_q d: of attention with gates */
    /* of gated delta nets: channels of the convolution, n_v d_v (Mamba-2: 2 n_v d_v, z and what its rule gives), 2 n_v,
     * n_v d_v; of Mamba-2 the heads of all ranks */
    size_t delta_qkv, delta_z, delta_ba, delta_out, delta_squares;
    size_t squares;              /* Hq + Hkv, of norms over all heads */
    size_t mid, ffn;             /* 2 F, F of this rank's share of a dense layer */
    size_t inputs;               /* L d_input: the layers' inputs, for the whole step */
    size_t new_inputs;           /* the same, while they are made */
    size_t input_mid, input_act; /* 2 d_input, d_input: of one layer */
    size_t known_ids;            /* 1 i32: of the table of the layers' inputs */
    size_t streams, others;      /* n_streams D for the whole step, (n_streams - 1) D at its ends */
    size_t modes, coefs;         /* n_streams, n_streams n_streams */
    size_t laurel_low, laurel;   /* laurel_rank, D beside attention */
    size_t stats;                /* 3 for each slice of all ranks: of gates that are cut */
    /* of inputs that are rounded: the widest; peak_columns; the widest output of parts that have other inputs */
    size_t rounded, peaks, apart;
    int32_t apart_cols;
    size_t router, ids, weights; /* E, and k i32, k: of layers with experts */
    size_t moe, moe_bytes;       /* what moe_ffn wants, in bytes whatever the step */
    size_t shared_mid, shared_ffn, shared_scale; /* 2 F, F, 1: of the shared expert */
    size_t last, logits; /* [max_out, D], [max_out, n_cols of the vocabulary] */
    size_t total;
};

/* The KV cache of layers of one kind. */
struct kv_kind {
    size_t entry_bytes; /* K of one layer over all blocks, V the same where it has its own */
    size_t scale_bytes; /* of k_scale, v_scale; 0: this type has none */
    int32_t cols;       /* of K: n_kv d of this rank */
    int32_t n_kv;       /* heads of this rank */
    int32_t n_layers;   /* that have such memory; 1: an encoder's layers share it, for a sequence is
                           over with its step */
};

enum { KV_KINDS = 2 }; /* [1]: of global layers with heads of their own */

struct kv_layout {
    struct kv_kind kind[KV_KINDS];
    size_t conv_bytes, rule_bytes; /* states of one gated delta net over all rows; 0: none */
    int n_entries;                 /* 2: K and V; 1: latent attention, whose V is part of K */
};

/* ST_RANGE names a setting that cannot be. */
MUST_CHECK enum status decoder_config_check(const struct decoder_config *cfg,
                                            const struct model_config *mc, struct backend *be);
MUST_CHECK enum status scratch_plan(struct scratch_layout *out, const struct model_config *mc,
                                    const struct shard *sh, struct backend *be,
                                    const struct decoder_config *cfg);
/* The facts that a layer with experts has on this rank, but for the activation and its weights. */
struct moe_layer moe_facts(const struct model_config *mc, const struct shard *sh);
/* Rows of states: one for each sequence that may be open, one for rows that pad a step, then the snapshots. */
int32_t state_rows(const struct decoder_config *cfg);
MUST_CHECK enum status kv_plan(struct kv_layout *out, const struct model_config *mc,
                               const struct shard *sh, const struct decoder_config *cfg);
/* Of a token: the groups of its widest input, or of those of its experts; 0: inputs are not rounded. */
int32_t peak_columns(const struct model_config *mc);
/* One table; there are two for each RoPE, cosine and sine. */
size_t rope_table_bytes(const struct rope_config *rc, const struct decoder_config *cfg);
/* The factors on q; 0: there are none. */
size_t q_scale_bytes(const struct model_config *mc, const struct decoder_config *cfg);

#endif
