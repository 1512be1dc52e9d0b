/* Rotary position embedding tables (Su et al. 2021), with the stretched forms: linear (positions
 * divided), llama3 (long waves divided, middle ones blended) and yarn (Peng et al. 2023).  Computed
 * in double. */
#ifndef WORKER_MODEL_ROPE_H
#define WORKER_MODEL_ROPE_H

#include "common/formats/model_config.h"

/* out [rot_dim / 2]: radians per position.  longrope: those of its long divisors where a context
 * of max_ctx is longer than the original one, for all positions, so that a sequence keeps its bits
 * when it grows; else max_ctx says nothing. */
void rope_frequencies(const struct rope_config *rc, int32_t max_ctx, double *out);

/* The factor on q of positions [first, first + n): see rope_config.q_beta. */
void rope_q_scales(const struct rope_config *rc, int32_t first, int32_t n, float *out);

/* Rows [first, first + n) of the tables; cos, sin [n, rot_dim / 2]. */
void rope_rows(const struct rope_config *rc, const double *frequency, int32_t first, int32_t n,
               float *cos_out, float *sin_out);

#endif
