/* x in the type and the column layout of a matrix, for kernels that read it many times. */
#include "backends/cuda/linear_mma.h"

enum { THREADS = 256 };

/* Grid: T * segments warps; a lane has 8 columns.  Bytes: T K (4 + 2).  Bound by memory, or by the
 * launch where T is small. */
template <class E> KERNEL(THREADS) pack_kernel(struct linear_job a)
{
    pdl_wait();
    const int n_seg = a.k.seg[a.k.n_slices];
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + warp_id();
    const int64_t token = i / n_seg;
    if (token >= a.n_tokens)
        return;
    const struct segment s = segment_at(a.k, (int32_t)(i % n_seg));
    const int off = lane_id() * 8;
    float v[8], scale = 1.0f;
    const int64_t row = a.rows ? a.rows[token] : token;
    const float *from = a.x + (size_t)row * a.x_stride + s.col + off;
    if (a.x_aligned && off + 8 <= s.n_cols)
        load_x8(v, from);
    else
        load_x8_part(v, from, s.n_cols - off);
    if (E::scaled) {
        scale = f16_scale(warp_max(max_finite(v, 0.0f)));
        if (lane_id() == 0)
            a.unscale[i] = inverse_pow2(scale);
    }
    if (off < s.n_steps * K_STEP)
        st_128(a.packed + (size_t)token * (size_t)a.k.at[a.k.n_slices] + s.at + off,
               pack_x8<E>(v, scale));
}

enum status linear_pack(struct backend *be, const struct linear_job *job)
{
    const int64_t warps = (int64_t)job->n_tokens * job->k.seg[job->k.n_slices];
    const unsigned grid = (unsigned)blocks_for(warps, THREADS / 32);
    if (warps == 0)
        return ST_OK;
    if (job->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, pack_kernel<elem_bf16>, grid, THREADS, 0, *job);
    return LAUNCH_DEPENDENT(be, pack_kernel<elem_f16>, grid, THREADS, 0, *job);
}
