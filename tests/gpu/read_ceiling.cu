#include "backends/cuda/gpu.h"
#include "gpu/read_ceiling.h"

enum { THREADS = 256, LOADS = 8 };

/* Grid: 8 blocks a multiprocessor, each reads every gridDim.x-th piece of THREADS * LOADS * 16
 * bytes; a thread has LOADS loads under way.  Bound by memory. */
KERNEL(THREADS) read_kernel(const uint4 *p, size_t n, uint32_t *out)
{
    uint32_t x = 0;
    const size_t piece = (size_t)THREADS * LOADS;
    for (size_t at = blockIdx.x * piece; at + piece <= n; at += gridDim.x * piece) {
        uint4 v[LOADS];
        UNROLL
        for (int i = 0; i < LOADS; i++)
            v[i] = ld_stream_128(p + at + (size_t)i * THREADS + threadIdx.x);
        UNROLL
        for (int i = 0; i < LOADS; i++)
            x ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    out[blockIdx.x * THREADS + threadIdx.x] = x;
}

size_t read_ceiling_out_bytes(const struct backend *be)
{
    return (size_t)be->n_sm * 8 * THREADS * sizeof(uint32_t);
}

enum status read_ceiling(struct backend *be, struct view data, struct view out)
{
    return LAUNCH(be, read_kernel, (unsigned)be->n_sm * 8, THREADS, 0,
                  (const uint4 *)view_ptr(data),
                  (size_t)data.rows * (size_t)data.cols * sizeof(float) / sizeof(uint4),
                  (uint32_t *)view_ptr(out));
}
