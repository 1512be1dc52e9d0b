/* The matrices of latent attention, one for each query head: from the query to what meets a latent,
 * and from a latent to the value.  Stored by themselves (GGUF) or as rows of one matrix
 * (HuggingFace), of which the first is transposed while it is loaded.  Called by weights.c. */
#ifndef WORKER_LOAD_HEAD_WEIGHTS_H
#define WORKER_LOAD_HEAD_WEIGHTS_H

#include "worker/load/derive.h"
#include "worker/load/loader.h"

/* TN_K_B or TN_V_B of a query head, counted over all ranks.  *n_bytes grows by those of the file. */
MUST_CHECK enum status cut_head(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                                enum tensor_id id, int32_t layer, int32_t head,
                                struct copies *copies);

#endif
