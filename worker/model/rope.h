/* Rotary position embedding tables (Su et al. 2021), with the stretched forms: linear (positions
 * divided), llama3 (long waves divided, middle ones blended) and yarn (Peng et al. 2023).  Computed
 * in double. */
#ifndef WORKER_MODEL_ROPE_H
#define WORKER_MODEL_ROPE_H

#include "common/formats/model_config.h"

/* out [rot_dim / 2]: radians per position. */
void rope_frequencies(const struct rope_config *rc, double *out);

/* Rows [first, first + n) of the tables; cos, sin [n, rot_dim / 2]. */
void rope_rows(const struct rope_config *rc, const double *frequency, int32_t first, int32_t n,
               float *cos_out, float *sin_out);

#endif
