/* A decoder-only model as a library: prefill, decode, verification of drafted tokens, mixed
 * batches, and the import and export of a sequence's KV cache.  Every call runs decoder_forward,
 * the path that serving uses.  For stand-alone use and tests; the server drives the model with step
 * plans instead.
 *
 * A sequence is named by any uint64_t that the caller chooses.  Logits are f32 in host memory,
 * [rows, V], over the whole vocabulary on every rank.  With several ranks, all of them make the
 * same calls in the same order.  All memory is taken by engine_create.  A call that fails with
 * ST_NOMEM (no free KV blocks), ST_RANGE or ST_NOT_FOUND has changed nothing.  One thread. */
#ifndef WORKER_ENGINE_ENGINE_H
#define WORKER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/model/decoder.h"

struct engine;

/* be and co (NULL: one rank) must outlive the engine; ld need not.  cfg->max_seqs also limits the
 * number of open sequences; cfg->max_out is the most rows of logits of one call. */
MUST_CHECK enum status engine_create(struct engine **out, struct loader *ld, struct backend *be,
                                     struct coll *co, const struct decoder_config *cfg);
void engine_destroy(struct engine *e);

/* Largest message of the engine's collectives, in bytes (coll_config.max_bytes). */
MUST_CHECK enum status engine_coll_bytes(size_t *out, const struct model_config *mc,
                                         const struct decoder_config *cfg);

const struct model_config *engine_config(const struct engine *e);

/* The most tokens that one sequence can have. */
int32_t engine_kv_capacity(const struct engine *e);

/* Opens the sequence, if it is new, and reserves KV blocks for max_tokens until it is released. */
MUST_CHECK enum status engine_prepare(struct engine *e, uint64_t seq, int32_t max_tokens);

/* Appends n >= 1 tokens; opens the sequence if it is new.  logits: [V], of the last token. */
MUST_CHECK enum status engine_prefill(struct engine *e, uint64_t seq, const int32_t *tokens,
                                      int32_t n, float *logits);

/* Appends one token at pos, which must be the sequence's length.  logits: [V]. */
MUST_CHECK enum status engine_decode(struct engine *e, uint64_t seq, int32_t token, int32_t pos,
                                     float *logits);

struct engine_token {
    uint64_t seq;
    int32_t token, pos;
};

/* One token of each of n different sequences.  logits: [n, V], in the order of batch. */
MUST_CHECK enum status engine_decode_batch(struct engine *e, const struct engine_token *batch,
                                           int32_t n, float *logits);

/* Appends n tokens to an open sequence.  logits: [n, V], of each of them. */
MUST_CHECK enum status engine_forward_verify(struct engine *e, uint64_t seq, const int32_t *tokens,
                                             int32_t n, float *logits);

struct engine_chunk {
    uint64_t seq;
    const int32_t *tokens;
    int32_t n;   /* >= 1 */
    int32_t pos; /* of the first token: the sequence's length; 0 opens a new one */
    bool final;  /* return the logits of its last token */
};

/* One forward pass over chunks of n different sequences: prompt chunks and single tokens, mixed.
 * logits: [n_final, V], of the last token of each final chunk, in order.  ST_RANGE when the chunks
 * have more than cfg->max_tokens tokens together. */
MUST_CHECK enum status engine_unified_forward(struct engine *e, const struct engine_chunk *chunks,
                                              int32_t n, float *logits);

/* Shortens the sequence to its first new_len tokens.  ST_UNSUPPORTED: a model with gated delta-net layers can only keep
 * all of them or none. */
MUST_CHECK enum status engine_truncate_kv(struct engine *e, uint64_t seq, int32_t new_len);

/* Closes the sequence and frees its blocks; no effect when it does not exist. */
void engine_release(struct engine *e, uint64_t seq);
/* Closes all sequences. */
void engine_reset(struct engine *e);

/* ---- import and export of a KV cache ---- */

/* One layer's KV entries in host memory, of this rank's heads. */
struct engine_kv {
    void *k, *v;              /* [len, n_kv d] in the cache's type; latent attention: no v */
    float *k_scale, *v_scale; /* [len, n_kv] for int8 and e4m3, else NULL */
    /* of a gated delta net, in place of all these: its states behind the tokens, [1, cols] as in delta_state */
    float *conv, *rule;
};

/* Elements of conv and of rule; 0: the model has no such layers. */
void engine_state_sizes(const struct engine *e, size_t *conv, size_t *rule);

/* Bytes of one row of k, of the layers where it is the longest; v, where it has its own, has the same. */
size_t engine_kv_row_bytes(const struct engine *e);

/* Opens a new sequence with the KV entries of its first len tokens, which another engine computed.
 * layers: [n_layers]. */
MUST_CHECK enum status engine_init_kv_cache(struct engine *e, uint64_t seq,
                                            const struct engine_kv *layers, int32_t len);

/* Copies the KV entries of all tokens of the sequence, for engine_init_kv_cache of another
 * engine. */
MUST_CHECK enum status engine_export_kv(struct engine *e, uint64_t seq,
                                        const struct engine_kv *layers);

bool engine_has_kv_cache(struct engine *e, uint64_t seq);

/* Tokens in the sequence's cache; -1 when the sequence does not exist. */
int32_t engine_kv_len(struct engine *e, uint64_t seq);

/* The backend's name, such as "cpu". */
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
