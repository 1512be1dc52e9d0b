/* Shared memory of blocks, for all kernels that have more than 48 KiB. */
#ifndef BACKENDS_CUDA_SMEM_H
#define BACKENDS_CUDA_SMEM_H

#include "backends/cuda/cuda_backend.h"

/* Bytes of a block, static and dynamic ones, that every device from sm_80 on has: 99 KiB on sm_86 and sm_89, 163 KiB
 * on sm_80, 227 KiB on sm_90 and sm_100 (CUDA programming guide, "compute capabilities"). */
enum { BLOCK_SMEM = 99 << 10 };

/* Those that a block of this device may have. */
static inline enum status device_smem(const struct backend *be, size_t *out)
{
    int bytes = 0;
    CUDA_TRY(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, be->device));
    *out = (size_t)bytes;
    return ST_OK;
}

#endif
