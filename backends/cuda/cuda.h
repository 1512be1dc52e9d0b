/* The CUDA backend's table of ops (compute capability 8.0 and up).  Host code is C11; kernels are
 * in the .cu files, C++17 against gpu.h alone. */
#ifndef BACKENDS_CUDA_CUDA_H
#define BACKENDS_CUDA_CUDA_H

#include "backends/backend.h"

extern const struct backend_ops cuda_ops;

#endif
