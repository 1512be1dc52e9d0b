/* Quantisers: from f32 to the blocks of common/quant.h.
 *
 * Q8_0, Q4_0, Q4_1, Q5_0, Q5_1: rounding to nearest, against the scale as it is stored (f16).
 * Q4_K, Q5_K: for each group of 32 several scales are tried; for each the integers are rounded and
 * scale and minimum are the weighted least-squares fit to them; the best is kept.  Then the groups'
 * scales and minima are rounded to 6 bits under the block's two, and the integers are rounded again
 * against those.  Q6_K likewise with groups of 16, signed scales of 8 bits and no minimum.  The
 * weight of an element is x^2 plus the group's mean of it: large weights matter more.
 * Pure. */
#ifndef WORKER_QUANTIZE_QUANT_ENCODE_H
#define WORKER_QUANTIZE_QUANT_ENCODE_H

#include "common/quant.h"

/* Is there a quantiser for t? */
bool quant_can_encode(enum dtype t);

/* x [n] finite, n a multiple of the block; blocks: n / block * n_bytes bytes. */
void quant_encode(enum dtype t, const float *x, size_t n, void *blocks);

#endif
