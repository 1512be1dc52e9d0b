/* Weights of gated delta-net layers, and of attention with gates, whose elements are not stored as the backends read
 * them: a rank's share is copied.  Called by weights.c. */
#ifndef WORKER_LOAD_GROUP_WEIGHTS_H
#define WORKER_LOAD_GROUP_WEIGHTS_H

#include "worker/load/derive.h"
#include "worker/load/loader.h"
#include "worker/load/shard.h"

/* Where n rows of id from `first` on are in the stored tensor that has them. */
struct stored_rows share_rows(const struct model_config *mc, enum tensor_id id, int32_t layer,
                              int32_t first, int32_t n);

/* p, whose rows, row_bytes and dtype are set, gets copies of whole stored rows. */
MUST_CHECK enum status copy_rows(struct copies *copies, const unsigned char *stored,
                                 const struct stored_rows *rows, struct weight_part *p);

/* This rank's channels of the convolution, [taps][channels], and of its bias, and its decays, -e^A_log: vectors of f32. */
MUST_CHECK enum status cut_conv(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                const struct shard *sh, int32_t layer, struct copies *copies);
MUST_CHECK enum status cut_conv_bias(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                     const struct shard *sh, int32_t layer, struct copies *copies);
MUST_CHECK enum status cut_decay(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                 const struct shard *sh, int32_t layer, struct copies *copies);
/* -e^A_log of an element. */
float decay_of_log(float a_log);

#endif
