/* The weights a decoder loads, each made of one or more stored tensors, cut to a rank's share.  How
 * a tensor is cut follows from its axes alone (common/formats/model_config.h). */
#ifndef WORKER_LOAD_WEIGHTS_H
#define WORKER_LOAD_WEIGHTS_H

#include "backends/backend.h"
#include "worker/load/loader.h"
#include "worker/load/shard.h"
#include "worker/load/weight_ids.h"

bool weight_per_layer(enum weight_id id);
bool weight_is_stack(enum weight_id id);

/* Calls visit for this rank's share of every weight of the model in the order of the files, layer
 * by layer; stops at the first failure.  Weights outside the layers come with the first (embedding)
 * or the last one.  src [n]: n matrices of a stack, else n is 1.  n_bytes: of the files that the
 * share is.  sizes_only: the sources' data may not be read.  The data live until visit returns.
 * Fails as loader_tensor does; ST_NOMEM. */
MUST_CHECK enum status
weights_each(struct loader *ld, const struct shard *sh,
             enum status (*visit)(void *ctx, enum weight_id id, int32_t layer,
                                  const struct weight_src *src, int32_t n, size_t n_bytes),
             void *ctx, bool sizes_only);

/* The stored matrix or vector that has the rows of id; they begin at *first_row.  Of a tensor that has all experts'
 * matrices, *t is the expert's part (its shape stays).  Fails as loader_tensor does. */
MUST_CHECK enum status weight_tensor(struct stored_tensor *t, int32_t *first_row, struct loader *ld,
                                     enum tensor_id id, int32_t layer, int32_t expert);

/* Tells the system that the share will be read. */
void weight_will_read(const struct weight_src *src);

#endif
