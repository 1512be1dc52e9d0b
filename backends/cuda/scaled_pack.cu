/* x in f16 and the column layout of a matrix of scaled_layout.h with mma. */
#include "backends/cuda/scaled_mma.h"

enum { THREADS = 256 };

/* Four columns of x of which column c is the first; those outside [begin, end) are zero. */
DEVICE void load_x4(float (&v)[4], const float *x, int32_t c, int32_t begin, int32_t end)
{
    if (c >= begin && c + 4 <= end && (uintptr_t)(x + c) % 16 == 0) {
        const float4 f = ld_f32x4(x + c);
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
        return;
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = c + i >= begin && c + i < end ? x[c + i] : 0.0f;
}

/* Grid: T * segments warps; a lane has four columns of each 128.  Bytes: T K (4 + 2).  Bound by
 * memory, or by the launch where T is small. */
template <int KIND> KERNEL(THREADS) scaled_pack_kernel(struct scaled_job a)
{
    constexpr int quads = mma_shape<KIND>::segment / 128;
    pdl_wait();
    const int n_seg = a.k.seg[a.k.n_slices];
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + warp_id(), token = i / n_seg;
    if (token >= a.n_tokens)
        return;
    const int32_t seg = (int32_t)(i % n_seg);
    int32_t slice = 0;
    while (seg >= a.k.seg[slice + 1])
        slice++;
    const int32_t begin = a.k.col[slice], end = a.k.col[slice + 1];
    const int32_t off = (seg - a.k.seg[slice]) * mma_shape<KIND>::segment + lane_id() * 4;
    const int32_t col = begin - (a.m.at.skip + begin) % a.m.at.block + off;
    const float *x = a.x + (size_t)(a.rows ? a.rows[token] : token) * a.x_stride;
    float v[quads][4], most = 0.0f;
    UNROLL
    for (int q = 0; q < quads; q++) {
        load_x4(v[q], x, col + q * 128, begin, end);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const float m = fabsf(v[q][j]);
            most = m < INFINITY && m > most ? m : most;
        }
    }
    const float scale = f16_scale(warp_max(most));
    if (lane_id() == 0)
        a.unscale[i] = inverse_pow2(scale) * (float)(1 << mma_shape<KIND>::unscale_bits);
    uint16_t *to = a.packed + (size_t)token * (size_t)a.k.at[a.k.n_slices] + a.k.at[slice] + off;
    UNROLL
    for (int q = 0; q < quads; q++)
        if (a.k.at[slice] + off + q * 128 < a.k.at[slice + 1])
            *(uint2 *)(to + q * 128) = {pack_f16(v[q][0] * scale, v[q][2] * scale),
                                        pack_f16(v[q][1] * scale, v[q][3] * scale)};
}

extern "C" enum status scaled_pack(struct backend *be, const struct scaled_job *job)
{
    const int64_t warps = (int64_t)job->n_tokens * job->k.seg[job->k.n_slices];
    const unsigned grid = (unsigned)blocks_for(warps, THREADS / 32);
    if (warps == 0)
        return ST_OK;
    if (job->m.at.kind == SCALED_E4M3)
        return LAUNCH_DEPENDENT(be, scaled_pack_kernel<SCALED_E4M3>, grid, THREADS, 0, *job);
    if (job->m.at.kind == SCALED_SMALL)
        return LAUNCH_DEPENDENT(be, scaled_pack_kernel<SCALED_SMALL>, grid, THREADS, 0, *job);
    return LAUNCH_DEPENDENT(be, scaled_pack_kernel<SCALED_LEVELS>, grid, THREADS, 0, *job);
}
