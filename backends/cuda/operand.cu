/* Ops over rows whose output is an operand: the values of rows.cu's kernels, written as the next product reads
 * them.  A warp has a segment, a lane 8 of its columns. */
#include "backends/cuda/norm_rows.h"
#include "backends/cuda/operand_device.h"
#include "backends/gpu/activated.h"

enum { THREADS = 256 };

/* Columns [0, n) of 8; the others are zeros. */
DEVICE void load_columns(float (&v)[8], const float *p, int32_t n)
{
    const float4 a = load_4(p, n < 4 ? n : 4), b = load_4(p + 4, n < 8 ? n - 4 : 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

struct norm_args {
    float *resid;
    const float *x, *x_bias, *w; /* x, x_bias: may be NULL */
    int32_t resid_stride, x_stride, d;
    float eps;
    struct operand to;
    struct k_layout k;
};

/* grid T; 8 D (+ 4 D of w, + 4 D of a bias, from L2) + 6 D; without x 4 D + 2 D.  The row is read again for the
 * output, out of L1. */
template <class E> KERNEL(NORM_THREADS) norm_operand_kernel(struct norm_args a)
{
    pdl_wait();
    float *r = row_of(a.resid, a.resid_stride);
    const float scale =
        add_and_scale(r, a.x ? row_of(a.x, a.x_stride) : nullptr, a.x_bias, a.eps, a.d);
    for (int32_t i = warp_id(); i < a.k.seg[a.k.n_slices]; i += NORM_THREADS / 32) {
        const struct segment s = segment_at(a.k, i);
        const int32_t col = s.col + lane_id() * 8, n = s.n_cols - lane_id() * 8;
        float v[8], f[8];
        load_columns(v, r + col, n);
        load_columns(f, a.w + col, n);
        UNROLL
        for (int j = 0; j < 8; j++)
            v[j] = j < n ? v[j] * scale * f[j] : 0.0f;
        put_segment<E>(a.to, a.k, s, i, (int64_t)blockIdx.x, v);
    }
}

enum status operand_rms_norm(struct backend *be, struct view resid, struct view x,
                             const struct weight *x_bias, const struct weight *w, float eps,
                             struct view out)
{
    struct norm_args a = {};
    a.resid = view_f32(resid);
    a.x = x.buf ? view_f32(x) : nullptr;
    a.x_bias = vector_of(x_bias);
    a.w = vector_of(w);
    a.resid_stride = resid.stride;
    a.x_stride = x.stride;
    a.d = out.cols;
    a.eps = eps;
    a.to = operand_of(be, out);
    a.k = out.reader->k_layout;
    if (out.reader->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, norm_operand_kernel<elem_bf16>, (unsigned)out.rows,
                                NORM_THREADS, 0, a);
    return LAUNCH_DEPENDENT(be, norm_operand_kernel<elem_f16>, (unsigned)out.rows, NORM_THREADS, 0,
                            a);
}

struct act_args {
    const float *gate_up; /* [T, 2 F] */
    int32_t stride, f, n_tokens;
    enum act act;
    struct operand to;
    struct k_layout k;
};

/* Grid: T * segments warps; 8 F + 2 F */
template <class E> KERNEL(THREADS) act_operand_kernel(struct act_args a)
{
    pdl_wait();
    const int n_seg = a.k.seg[a.k.n_slices];
    const int64_t at = (int64_t)blockIdx.x * (THREADS / 32) + warp_id(), token = at / n_seg;
    if (token >= a.n_tokens)
        return;
    const int32_t i = (int32_t)(at % n_seg);
    const struct segment s = segment_at(a.k, i);
    const int32_t n = s.n_cols - lane_id() * 8;
    const float *gate = a.gate_up + (size_t)token * (size_t)a.stride + s.col + lane_id() * 8;
    float v[8], up[8];
    load_columns(v, gate, n);
    load_columns(up, gate + a.f, n);
    UNROLL
    for (int j = 0; j < 8; j++)
        v[j] = j < n ? activated(a.act, v[j]) * up[j] : 0.0f;
    put_segment<E>(a.to, a.k, s, i, token, v);
}

enum status operand_act_mul(struct backend *be, enum act act, struct view gate_up, struct view out)
{
    struct act_args a = {};
    a.gate_up = view_f32(gate_up);
    a.stride = gate_up.stride;
    a.f = out.cols;
    a.n_tokens = out.rows;
    a.act = act;
    a.to = operand_of(be, out);
    a.k = out.reader->k_layout;
    const int64_t warps = (int64_t)out.rows * a.k.seg[a.k.n_slices];
    const unsigned grid = (unsigned)blocks_for(warps, THREADS / 32);
    if (out.reader->dtype == DT_BF16)
        return LAUNCH_DEPENDENT(be, act_operand_kernel<elem_bf16>, grid, THREADS, 0, a);
    return LAUNCH_DEPENDENT(be, act_operand_kernel<elem_f16>, grid, THREADS, 0, a);
}
