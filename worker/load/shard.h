/* This rank's share of the model: heads, feed-forward columns, vocabulary.  Cut at the borders
 * floor(i n / N_SLICES) for power-of-two worlds up to N_SLICES, so that every sum keeps its order
 * whatever the world (floor(r n / world) otherwise, where only batch invariance is promised). */
#ifndef WORKER_LOAD_SHARD_H
#define WORKER_LOAD_SHARD_H

#include "backends/backend.h"
#include "common/formats/model_config.h"

/* Columns of gate and up, K of down. */
struct ffn_share {
    int32_t first, n;
    int32_t slice_end[N_SLICES]; /* in local columns */
};

/* Heads of gated delta-net layers.  Tiled ones: behind the model's last key head comes its first. */
struct delta_share {
    int32_t v_first, n_v, k_first, n_k;
    int32_t v_per_k, v_offset;   /* local value head h reads (h + v_offset) / v_per_k mod n_k */
    int32_t slice_end[N_SLICES]; /* in local value heads */
    bool cut_groups;             /* a key head's value heads are of several ranks */
};

/* Key/value heads of this rank: those that its query heads read. */
struct kv_share {
    int32_t first, n;
    int32_t q_per_kv, q_offset; /* local query head h reads (h + q_offset) / q_per_kv */
};

struct shard {
    int32_t rank, world;                  /* this rank, ranks */
    int32_t q_first, n_q, kv_first, n_kv; /* heads, at least one of each */
    int32_t q_per_kv, q_offset;           /* as in struct kv_share */
    struct kv_share global;               /* of global layers; empty where these are as others */
    struct ffn_share ffn;     /* of the widest layer: see shard_ffn; empty where all have experts */
    int32_t most_ffn;         /* columns of the layer with most of them on this rank */
    struct ffn_share expert;  /* of each expert; empty where there are none */
    struct ffn_share shared;  /* of the shared expert; empty where there is none */
    struct delta_share delta; /* empty where no layer is one */
    struct vocab_part vocab;
    int32_t input_first, n_inputs; /* rows of the table of the layers' inputs; 0: there is none */
    int32_t n_slices;
    int32_t attn_slice_end[N_SLICES]; /* in local query heads */
};

/* The key/value heads of a layer. */
struct kv_share shard_kv(const struct shard *sh, const struct model_config *mc, int32_t layer);

/* The dense feed-forward of a layer. */
struct ffn_share shard_ffn(const struct shard *sh, const struct model_config *mc, int32_t layer);

/* Slices of all ranks: N_SLICES, or as many as ranks. */
static inline int32_t shard_all_slices(const struct shard *sh, int world)
{
    return sh->n_slices * world;
}

/* ST_RANGE when this model cannot be cut for that world (it says why). */
MUST_CHECK enum status shard_plan(struct shard *out, const struct model_config *mc, int rank,
                                  int world);

#endif
