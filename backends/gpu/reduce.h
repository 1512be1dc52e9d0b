/* Sums and maxima of warps and blocks, in an order that the shape alone decides.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_REDUCE_H
#define BACKENDS_GPU_REDUCE_H

/* Every lane gets the same bits: pairs 16 lanes apart first, then 8, 4, 2, 1. */
DEVICE float warp_sum(float v)
{
    UNROLL
    for (int apart = 16; apart > 0; apart /= 2)
        v += shfl_xor(v, apart);
    return v;
}

/* NaN is never the greatest. */
DEVICE float warp_max(float v)
{
    UNROLL
    for (int apart = 16; apart > 0; apart /= 2) {
        float o = shfl_xor(v, apart);
        v = o > v ? o : v;
    }
    return v;
}

/* By all threads of a one-dimensional block of n_warps; every thread gets the same bits: warp_sum of each
 * warp, then warp_sum of these.  part [32]. */
DEVICE float block_sum(float v, SHARED_MEM float *part, uint32_t lane, uint32_t warp,
                       uint32_t n_warps)
{
    v = warp_sum(v);
    SYNC_THREADS(); /* the last use of part has been read */
    if (lane == 0)
        part[warp] = v;
    SYNC_THREADS(); /* part is written */
    return warp_sum(lane < n_warps ? part[lane] : 0.0f);
}

DEVICE float block_max(float v, SHARED_MEM float *part, uint32_t lane, uint32_t warp,
                       uint32_t n_warps)
{
    v = warp_max(v);
    SYNC_THREADS(); /* as above */
    if (lane == 0)
        part[warp] = v;
    SYNC_THREADS();
    return warp_max(lane < n_warps ? part[lane] : -INFINITY);
}

#endif
