/* A model that can be called: the contracts of a decoder-only model (prefill, decode, verify, mixed
 * batches) and of a decode back end that takes over a KV cache from elsewhere, as thin functions
 * over the one path, decoder_forward.  For stand-alone use and tests; a served model is driven by
 * step plans.
 *
 * A sequence is any uint64_t that the caller picks.  Logits are f32 in host memory, [rows, V], over
 * the whole vocabulary on every rank.  With several ranks all of them make the same calls in the
 * same order.  Everything is sized at start.  A call that fails with ST_NOMEM (a KV budget, named),
 * ST_RANGE or ST_NOT_FOUND has changed nothing.  One thread. */
#ifndef WORKER_ENGINE_ENGINE_H
#define WORKER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/model/decoder.h"

struct engine;

/* be and co (NULL: one rank) must outlive the engine, ld need not.  cfg->max_seqs is also the
 * number of sequences that can be open at once; cfg->max_out the rows of logits of one forward. */
MUST_CHECK enum status engine_create(struct engine **out, struct loader *ld, struct backend *be,
                                     struct coll *co, const struct decoder_config *cfg);
void engine_destroy(struct engine *e);

/* Largest message of the engine's collectives, in bytes (coll_config.max_bytes). */
MUST_CHECK enum status engine_coll_bytes(size_t *out, const struct model_config *mc,
                                         const struct decoder_config *cfg);

const struct model_config *engine_config(const struct engine *e);

/* Tokens that one sequence can grow to. */
int32_t engine_kv_capacity(const struct engine *e);

/* Opens the sequence, if it is new, and keeps room for max_tokens until it is released. */
MUST_CHECK enum status engine_prepare(struct engine *e, uint64_t seq, int32_t max_tokens);

/* Appends n >= 1 tokens, opening the sequence if it is new.  logits [V] of the last token. */
MUST_CHECK enum status engine_prefill(struct engine *e, uint64_t seq, const int32_t *tokens,
                                      int32_t n, float *logits);

/* Appends one token at pos, which must be the sequence's length.  logits [V]. */
MUST_CHECK enum status engine_decode(struct engine *e, uint64_t seq, int32_t token, int32_t pos,
                                     float *logits);

struct engine_token {
    uint64_t seq;
    int32_t token, pos;
};

/* n different sequences, one token each.  logits [n, V] in the same order. */
MUST_CHECK enum status engine_decode_batch(struct engine *e, const struct engine_token *batch,
                                           int32_t n, float *logits);

/* Appends n tokens to an open sequence and gives the logits [n, V] of all. */
MUST_CHECK enum status engine_forward_verify(struct engine *e, uint64_t seq, const int32_t *tokens,
                                             int32_t n, float *logits);

struct engine_chunk {
    uint64_t seq;
    const int32_t *tokens;
    int32_t n;   /* >= 1 */
    int32_t pos; /* of the first token: the sequence's length; 0 opens a new one */
    bool final;  /* logits are wanted */
};

/* One forward over a mixed batch of n different sequences: prompt chunks and single tokens.  logits
 * [n_final, V]: of the last token of each final chunk, in order.  ST_RANGE when all tokens together
 * are more than a step holds. */
MUST_CHECK enum status engine_unified_forward(struct engine *e, const struct engine_chunk *chunks,
                                              int32_t n, float *logits);

/* Forgets everything behind the first new_len tokens. */
MUST_CHECK enum status engine_truncate_kv(struct engine *e, uint64_t seq, int32_t new_len);

/* Nothing happens when there is no such sequence. */
void engine_release(struct engine *e, uint64_t seq);
void engine_reset(struct engine *e);

/* ---- a KV cache from elsewhere ---- */

/* Rows of one layer's cache in host memory: k, v [len, n_kv d] in the cache's type with this rank's
 * heads, scales [len, n_kv] for the types that have them, else NULL. */
struct engine_kv {
    void *k, *v;
    float *k_scale, *v_scale;
};

/* Bytes of a row of k, and of v. */
size_t engine_kv_row_bytes(const struct engine *e);

/* A new sequence whose first len tokens were run elsewhere.  layers [n_layers]. */
MUST_CHECK enum status engine_init_kv_cache(struct engine *e, uint64_t seq,
                                            const struct engine_kv *layers, int32_t len);

/* What engine_init_kv_cache takes: all tokens of the sequence. */
MUST_CHECK enum status engine_export_kv(struct engine *e, uint64_t seq,
                                        const struct engine_kv *layers);

bool engine_has_kv_cache(struct engine *e, uint64_t seq);

/* Tokens in the sequence's cache; -1 when there is none. */
int32_t engine_kv_len(struct engine *e, uint64_t seq);

/* The back end's name, "cpu". */
const char *engine_name(const struct engine *e);

static inline enum status engine_decode_step(struct engine *e, int32_t token, int32_t position,
                                             uint64_t seq, float *logits)
{
    return engine_decode(e, seq, token, position, logits);
}

static inline void engine_release_kv_cache(struct engine *e, uint64_t seq)
{
    engine_release(e, seq);
}

#endif
