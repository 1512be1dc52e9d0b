/* From the final states of a prompt's tokens to its embedding, as the model's sentence-transformers modules say
 * (common/formats/sentence_modules.h).  Rank 0's, on the host.  Rows are taken one after the other in the order of the
 * tokens and summed in f64, so that an embedding has the same bits whatever chunks the prompt was computed in.
 * All memory is taken by pooler_create. */
#ifndef WORKER_EMBED_POOLER_H
#define WORKER_EMBED_POOLER_H

#include "common/formats/sentence_modules.h"

struct pooler;

struct pooler_config {
    const struct sentence_modules *modules; /* borrowed by the pooler */
    const char *model;                      /* folder, for the weights of Dense modules */
    int32_t hidden, max_open;               /* components of a state; sequences at once */
};

/* Bytes that pooler_create takes from the host. */
size_t pooler_bytes(const struct pooler_config *cfg);
/* Reads and checks the weights of Dense modules: DIR/model.safetensors with linear.weight and linear.bias. */
MUST_CHECK enum status pooler_create(struct pooler **out, const struct pooler_config *cfg);
void pooler_destroy(struct pooler *p);

/* rows [n, hidden] f32: the states of tokens [pos, pos + n) of the sequence in that slot; pos 0 begins another. */
void pooler_take(struct pooler *p, int32_t slot, int32_t pos, const float *rows, int32_t n);
/* out [modules->dim]: the embedding of the tokens so far, n of them. */
void pooler_finish(struct pooler *p, int32_t slot, int32_t n, float *out);

#endif
