/* Weights of gated delta-net layers, and of attention with gates, whose elements are not stored as the backends read
 * them: a rank's share is copied.  Called by weights.c. */
#ifndef WORKER_LOAD_GROUP_WEIGHTS_H
#define WORKER_LOAD_GROUP_WEIGHTS_H

#include "worker/load/derive.h"
#include "worker/load/loader.h"
#include "worker/load/shard.h"

/* Is the matrix stored group after group of rows (model_row_groups)? */
bool rows_in_groups(const struct model_config *mc, enum tensor_id id);

/* n rows of such a matrix, t, from `first` on, counted among those of id.  ST_UNSUPPORTED: of a type whose scales are
 * not in the rows. */
MUST_CHECK enum status cut_groups(struct weight_part *p, size_t *n_bytes,
                                  const struct model_config *mc, enum tensor_id id,
                                  const struct stored_tensor *t, int32_t first, int32_t n,
                                  struct copies *copies);

/* This rank's channels of the convolution, [taps][channels], and its decays, -e^A_log: vectors of f32. */
MUST_CHECK enum status cut_conv(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                const struct shard *sh, int32_t layer, struct copies *copies);
MUST_CHECK enum status cut_decay(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                 const struct shard *sh, int32_t layer, struct copies *copies);

#endif
