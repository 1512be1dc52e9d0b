/* The sizes that a decoder is opened with, and the memory that it will take on its device. */
#ifndef WORKER_MODEL_DECODER_CONFIG_H
#define WORKER_MODEL_DECODER_CONFIG_H

#include "backends/backend.h"
#include "common/formats/model_config.h"
#include "worker/load/loader.h"

struct decoder_config {
    int rank, world;
    int32_t max_tokens; /* T of the largest step */
    int32_t max_seqs;   /* sequences of the largest step */
    int32_t max_out;    /* rows of logits of the largest step */
    int32_t n_blocks, block_len;
    int32_t n_pad_blocks; /* further ones, for rows that pad a step */
    int32_t n_snapshots;  /* rows for copies of states, of a model that has states */
    int32_t max_ctx;      /* RoPE table length; at most the model's */
    enum dtype kv_dtype;
};

/* What a rank will take on its device, to the byte, before anything is loaded: as alloc_bytes. */
struct decoder_memory {
    size_t weights, kv, scratch, tables;
    size_t states; /* of gated delta-net layers, a row for each of max_seqs and n_snapshots */
    size_t states_per_seq; /* without alloc's rounding */
    size_t linear;         /* working memory of the backend that the widest matrix wants */
    size_t kv_per_block; /* bytes of one block over all layers, K and V, without alloc's rounding */
    size_t file_bytes;   /* of the model's files that this rank will read */
};

/* mc is loader_config(ld).  Besides the sizes this checks every tensor of the model: its name,
 * shape and type, and that no tensor is left over. */
MUST_CHECK enum status decoder_plan_memory(struct decoder_memory *out,
                                           const struct model_config *mc, struct loader *ld,
                                           struct backend *be, const struct decoder_config *cfg);

#endif
