/* Biases of distances (T5's relative position buckets, Raffel et al. 2020, arXiv 1910.10683, as MPNet has them): a
 * checkpoint has a row for each bucket of distances and a column for each head; ranks keep a row for each of their heads by
 * distance (attn_layer's rel_bias). */
#ifndef WORKER_LOAD_REL_BIAS_H
#define WORKER_LOAD_REL_BIAS_H

#include "worker/load/derive.h"

/* The bucket of a key so far behind the token (before it: below 0): 0 to REL_BUCKETS - 1.  The half of the buckets for each
 * side; 8 single distances, then logarithmic up to 128. */
int32_t rel_bias_bucket(int32_t distance);

/* stored: [REL_BUCKETS][all].  Heads [first, first + n) become one row of n REL_COLS f32. */
MUST_CHECK enum status derive_rel_bias(struct copies *c, const struct stored_tensor *stored,
                                       size_t first, size_t n, size_t all, struct weight_part *p);

#endif
