/* A decoder-only transformer on one rank: its weight shard, its KV cache and its scratch, all sized
 * at open.  decoder_forward is the one path that everything runs through (serving, engine.h,
 * tests). Called by the rank's main thread. */
#ifndef WORKER_MODEL_DECODER_H
#define WORKER_MODEL_DECODER_H

#include "backends/backend.h"
#include "collectives/coll.h"
#include "common/formats/model_config.h"
#include "worker/load/loader.h"
#include "worker/model/shard.h"

struct decoder;

struct decoder_config {
    int rank, world;
    int32_t max_tokens; /* T of the largest step */
    int32_t max_seqs;   /* sequences of the largest step */
    int32_t max_out;    /* rows of logits of the largest step */
    int32_t n_blocks, block_len;
    int32_t n_pad_blocks; /* further ones, for rows that pad a step */
    int32_t max_ctx;      /* RoPE table length; at most the model's */
    enum dtype kv_dtype;
};

/* What a rank will take on its device, to the byte, before anything is loaded: as alloc_bytes. */
struct decoder_memory {
    size_t weights, kv, scratch, tables;
    size_t linear;       /* working memory of the backend that the widest matrix wants */
    size_t kv_per_block; /* bytes of one block over all layers, K and V, without alloc's rounding */
    size_t file_bytes;   /* of the model's files that this rank will read */
};

/* mc is loader_config(ld).  Besides the sizes this checks every tensor of the model: its name,
 * shape and type, and that no tensor is left over. */
MUST_CHECK enum status decoder_plan_memory(struct decoder_memory *out,
                                           const struct model_config *mc, struct loader *ld,
                                           struct backend *be, const struct decoder_config *cfg);

/* Largest message of the decoder's collectives, in bytes (coll_config.max_bytes). */
size_t decoder_coll_bytes(const struct model_config *mc, const struct decoder_config *cfg);

/* Loads the weights (progress through ld) and takes all memory.  co may be NULL when world is 1. ld
 * is not needed afterwards; be and co must outlive the decoder. */
MUST_CHECK enum status decoder_open(struct decoder **out, const struct model_config *mc,
                                    struct loader *ld, struct backend *be, struct coll *co,
                                    const struct decoder_config *cfg);
void decoder_close(struct decoder *m);

const struct model_config *decoder_model(const struct decoder *m);
const struct shard *decoder_shard(const struct decoder *m);

/* Runs all layers over the step's tokens.  *logits: [st->out_row.rows, shard.vocab.n_cols] f32 on
 * the device, valid until the next call. */
MUST_CHECK enum status decoder_forward(struct decoder *m, const struct step_dev *st,
                                       struct view *logits);

/* Views of one layer's KV cache (for hand-over between prefill and decode, and tests). */
struct kv_layer decoder_kv(const struct decoder *m, int32_t layer);

#endif
