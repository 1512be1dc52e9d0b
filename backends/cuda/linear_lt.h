/* cuBLASLt for products of many tokens ("fast" numerics).  The library is found at run time: a
 * binary starts without it.  One backend, one thread. */
#ifndef BACKENDS_CUDA_LINEAR_LT_H
#define BACKENDS_CUDA_LINEAR_LT_H

#include "backends/cuda/linear_kernels.h"

enum { LT_WORKSPACE = 32 << 20 }; /* bytes; what Hopper's split-K algorithms want */

struct lt;

/* The calling thread's device is the backend's.
 * ST_UNSUPPORTED names the library that is missing. */
MUST_CHECK enum status lt_open(struct lt **out, struct backend *be);
/* Takes LT_WORKSPACE bytes of device memory, before the first product. */
MUST_CHECK enum status lt_take_workspace(struct lt *lt, struct backend *be);
void lt_close(struct lt *lt, struct backend *be);

/* out [T, N] = packed [T, k.at[n_slices]] * w^T (+ bias), BF16, in cuBLASLt's own order of sums.
 * The algorithm is asked for once for each (N, K, bias, power of two of T) and kept: asking takes
 * host time, running takes none beyond the launch and may be captured. */
MUST_CHECK enum status lt_linear(struct backend *be, struct lt *lt, const struct linear_job *job);

#endif
