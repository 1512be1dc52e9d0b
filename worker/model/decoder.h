/* A decoder-only transformer on one rank: its weight shard, its KV cache and its scratch, all sized
 * at open.  Serving, engine.h and tests all run through decoder_forward.
 * Called by the rank's main thread. */
#ifndef WORKER_MODEL_DECODER_H
#define WORKER_MODEL_DECODER_H

#include "backends/backend.h"
#include "collectives/coll.h"
#include "common/formats/model_config.h"
#include "worker/load/loader.h"
#include "worker/load/shard.h"
#include "worker/model/decoder_config.h"

struct decoder;

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

/* The final states of the last step, normed: [st->n_tokens, hidden] f32 on the device, valid until the next
 * decoder_forward; equal on every rank. */
struct view decoder_states(const struct decoder *m);

/* Enqueues the copy of a sequence's states from one row to another, in all layers that have states: rows
 * [0, max_seqs) are those of the sequences, those behind the pads' one (n_pad_blocks) snapshots. */
MUST_CHECK enum status decoder_copy_states(struct decoder *m, int32_t from, int32_t to);

/* The states of one layer, rows as above; no buf: it has none. */
struct delta_state decoder_state(const struct decoder *m, int32_t layer);

/* Views of one layer's KV cache (for hand-over between prefill and decode, and tests). */
struct kv_layer decoder_kv(const struct decoder *m, int32_t layer);

#endif
