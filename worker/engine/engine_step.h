/* One forward of the engine: gathers chunks into the arrays of struct step_dev, runs the decoder
 * and brings the logits of all vocabulary shards to the host.  Private to worker/engine/engine.c. */
#ifndef WORKER_ENGINE_ENGINE_STEP_H
#define WORKER_ENGINE_ENGINE_STEP_H

#include "worker/engine/kv_table.h"
#include "worker/model/decoder.h"

struct engine_step {
    struct decoder *decoder;
    struct backend *be;
    const struct backend_ops *op;
    struct coll *co; /* NULL: one rank */
    struct decoder_config cfg;
    int32_t vocab, max_blocks;
    int32_t *host; /* the arrays of a step, at the offsets of `dev` */
    struct buf *dev_buf;
    struct step_dev dev;  /* views of the largest step */
    int32_t widest;       /* columns of the widest vocabulary shard */
    struct buf *padded;   /* [max_out, widest] f32: this rank's logits */
    struct buf *gathered; /* [world * max_out, widest] f32 */
    float *gathered_host; /* the same */
};

/* Leaves something that fini can take, whether it fails or not. */
MUST_CHECK enum status engine_step_init(struct engine_step *s, struct decoder *decoder,
                                        struct backend *be, struct coll *co,
                                        const struct decoder_config *cfg, int32_t max_blocks);
void engine_step_fini(struct engine_step *s);

void engine_step_begin(struct engine_step *s);

/* Tokens at positions kv->len and up, for which kv already holds blocks. */
enum step_rows { ROWS_NONE, ROWS_LAST, ROWS_ALL };
void engine_step_add(struct engine_step *s, const struct kv_seq *kv, const int32_t *tokens,
                     int32_t n, enum step_rows rows);

/* logits [rows asked for, V]. */
MUST_CHECK enum status engine_step_run(struct engine_step *s, float *logits);

/* Columns of the widest vocabulary shard. */
MUST_CHECK enum status widest_vocab(int32_t *out, const struct model_config *mc, int world);

#endif
