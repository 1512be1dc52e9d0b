/* x in the type and the column layout of a matrix, for kernels that read it many times. */
#include "backends/cuda/operand_device.h"

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
    float v[8];
    const int64_t x_row = a.rows ? a.rows[token] : token;
    const float *from = a.x + (size_t)x_row * a.x_stride + s.col + off;
    if (a.x_aligned && off + 8 <= s.n_cols)
        load_x8(v, from);
    else
        load_x8_part(v, from, s.n_cols - off);
    const struct operand rows = {a.packed, a.unscale, a.k.at[a.k.n_slices], false};
    put_segment<E>(rows, a.k, s, (int32_t)(i % n_seg), token, v);
}

/* The lane's 8 columns of a segment of x, and their scale; zeros of a token that is not there. */
template <class E>
DEVICE uint4 packed_x8(const struct head_job &a, const struct segment &s, int64_t token,
                       int64_t seg)
{
    const int off = lane_id() * 8;
    float v[8] = {}, scale = 1.0f;
    if (token >= a.n_tokens)
        return uint4{0, 0, 0, 0};
    const float *from = a.x + (size_t)token * a.x_stride + s.col + off;
    if (a.x_aligned && off + 8 <= s.n_cols)
        load_x8(v, from);
    else
        load_x8_part(v, from, s.n_cols - off);
    if (E::scaled) {
        scale = f16_scale(warp_max(max_finite(v, 0.0f)));
        if (lane_id() == 0)
            a.unscale[token * a.k.seg[a.k.n_slices] + seg] = inverse_pow2(scale);
    }
    return pack_x8<E>(v, scale);
}

/* As pack_kernel, [.., heads]; a warp has tokens g and g + 8 of a block, whose columns meet in a lane's registers. */
template <class E> KERNEL(THREADS) fragments_kernel(struct linear_job job)
{
    pdl_wait();
    const struct head_job a = head_job_of(job, blockIdx.y);
    const int n_seg = a.k.seg[a.k.n_slices], pairs = FRAGMENT_TOKENS / 2;
    const int64_t i = (int64_t)blockIdx.x * (THREADS / 32) + warp_id();
    const int64_t pair = i / n_seg, block = pair / pairs;
    if (block * FRAGMENT_TOKENS >= a.n_tokens)
        return;
    const int g = (int)(pair % pairs), t = lane_id() & 3;
    const struct segment s = segment_at(a.k, (int32_t)(i % n_seg));
    const int64_t token = block * FRAGMENT_TOKENS + g;
    const uint4 lo = packed_x8<E>(a, s, token, i % n_seg);
    const uint4 hi = packed_x8<E>(a, s, token + pairs, i % n_seg);
    const struct fragment f = fragment_of(lo, hi);
    const int64_t chunk = block * (a.k.at[a.k.n_slices] / K_CHUNK) + s.at / K_CHUNK + lane_id() / 4;
    char *to = (char *)a.packed + chunk * FRAGMENT_BYTES + (g * 4 + t) * 16;
    if (lane_id() * 8 >= stored_elements(a.k, (int32_t)(i % n_seg)))
        return;
    st_128(to, f.first);
    st_128(to + FRAGMENT_BYTES / 2, f.second);
}

enum status linear_pack_fragments(struct backend *be, const struct linear_job *job)
{
    const int64_t pairs = blocks_for(job->n_tokens, FRAGMENT_TOKENS) * (FRAGMENT_TOKENS / 2);
    const int64_t warps = pairs * job->k.seg[job->k.n_slices];
    const dim3 grid((unsigned)blocks_for(warps, THREADS / 32), (unsigned)job->n_heads);
    assert(!job->rows);
    if (warps == 0)
        return ST_OK;
    if (job->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, fragments_kernel<elem_bf16>, grid, THREADS, 0, *job);
    return LAUNCH_DEPENDENT(be, fragments_kernel<elem_f16>, grid, THREADS, 0, *job);
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
