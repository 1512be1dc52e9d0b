/* Weights that are made on the device, for benchmarks: a model of 16 GB does not go through the
 * host. */
#ifndef TESTS_GPU_RANDOM_WEIGHTS_H
#define TESTS_GPU_RANDOM_WEIGHTS_H

#ifdef __cplusplus
extern "C" {
#endif
#include "backends/backend.h"

/* From now on load_weight of this CUDA backend makes weights of the source's shape up: matrices
 * BF16, sums of four uniform numbers with standard deviation 0.02, another seed for each; vectors
 * 1.  ST_UNSUPPORTED: biases, matrices of other types or with padded columns. */
void random_weights(struct backend *be);

#ifdef __cplusplus
}
#endif

#endif
