/* cuBLASLt for products of many tokens ("fast" numerics).  The library is found at run time: a
 * binary starts without it.  One backend, one thread. */
#ifndef BACKENDS_CUDA_LINEAR_LT_H
#define BACKENDS_CUDA_LINEAR_LT_H

#include "backends/cuda/linear_kernels.h"

struct lt;

/* be: its device is the calling thread's.  Takes LT_WORKSPACE bytes of device memory.
 * ST_UNSUPPORTED names the library that is missing. */
MUST_CHECK enum status lt_open(struct lt **out, struct backend *be);
void lt_close(struct lt *lt, struct backend *be);

/* out [T, N] = packed [T, k.at[n_slices]] * w^T (+ bias), BF16, in cuBLASLt's own order of sums.
 * The algorithm is asked for once for each (N, K, bias, power of two of T) and kept: asking takes
 * host time, running takes none beyond the launch and may be captured. */
MUST_CHECK enum status lt_linear(struct backend *be, struct lt *lt, const struct linear_job *job);

#endif
