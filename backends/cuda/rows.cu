/* Ops over rows.  All are bound by memory: the comments give a row's bytes, read + written.  Rows
 * are on grid.x (grid.y ends at 65,535).  Threads handle elements in fours, one 16-byte access each
 * where both rows are aligned; whether they are changes no bit. */
#include "backends/cuda/norm_rows.h"
#include "backends/cuda/operand.h"
#include "backends/gpu/activated.h"

enum {
    STRIP_THREADS = 256,
    STRIP = 4 * STRIP_THREADS, /* elements of a block where elements are independent */
};

static dim3 strips(int32_t rows, int32_t cols)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(cols, STRIP));
}

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

/* First element of this thread in its block's strip. */
DEVICE int strip_at()
{
    return (int)blockIdx.y * STRIP + 4 * (int)threadIdx.x;
}

/* grid (T, D / 1024); 2 or 4 D + 4 D */
template <enum dtype T>
KERNEL(STRIP_THREADS)
embed_kernel(const void *table, int32_t k_pad, int32_t n, int32_t first_id, const int32_t *ids,
             int32_t id_stride, float *out, int32_t out_stride, int32_t d)
{
    pdl_wait();
    int64_t row = (int64_t)ids[(int64_t)blockIdx.x * id_stride] - first_id;
    bool mine = row >= 0 && row < n;
    int64_t from = (mine ? row : 0) * k_pad;
    float *to = row_of(out, out_stride);
    for (int i = (int)blockIdx.y * STRIP + (int)threadIdx.x, j = 0; j < 4 && i < d;
         i += STRIP_THREADS, j++)
        to[i] = mine ? element_f32<T>(table, from + i) + 0.0f : 0.0f;
}

#define EMBED(T)                                                                                   \
    LAUNCH_DEPENDENT(be, embed_kernel<T>, strips(out.rows, out.cols), STRIP_THREADS, 0,            \
                     matrix_of(table), table->k_pad, table->n, first_id, view_i32(ids),            \
                     ids.stride, view_f32(out), out.stride, out.cols)

extern "C" enum status cuda_embed(struct backend *be, const struct weight *table, int32_t first_id,
                                  struct view ids, struct view out)
{
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == table->k);
    if (nothing(out))
        return ST_OK;
    if (table->n_parts > 0)
        FAIL(ST_UNSUPPORTED,
             "an embedding of several types of which one is not of floats: the CUDA "
             "backend has none");
    if (is_quantised(table))
        return cuda_embed_quant(be, table, first_id, ids, out);
    if (table->scaled.kind != SCALED_NONE)
        return cuda_embed_scaled(be, table, first_id, ids, out);
    switch (table->dtype) {
    case DT_F16:
        return EMBED(DT_F16);
    case DT_BF16:
        return EMBED(DT_BF16);
    default:
        return EMBED(DT_F32);
    }
}

/* grid T; 8 D (+ 4 D of w, + 4 D of a bias, from L2) + 8 D; without x 4 D + 4 D.  The row is read
 * again for the output, out of L1. */
KERNEL(NORM_THREADS)
add_rms_norm_kernel(float *resid, int32_t resid_stride, const float *x, int32_t x_stride,
                    const float *x_bias, const float *w, float eps, float *out, int32_t out_stride,
                    int32_t d)
{
    pdl_wait();
    float *r = row_of(resid, resid_stride), *o = row_of(out, out_stride);
    const float scale = add_and_scale(r, x ? row_of(x, x_stride) : nullptr, x_bias, eps, d);
    for (int i = 4 * (int)threadIdx.x; i < d; i += NORM_STEP) {
        int n = four_of(i, d);
        float4 v = load_4(r + i, n), f = load_4(w + i, n);
        store_4(o + i, {v.x * scale * f.x, v.y * scale * f.y, v.z * scale * f.z, v.w * scale * f.w},
                n);
    }
}

extern "C" enum status cuda_add_rms_norm(struct backend *be, struct view resid, struct view x,
                                         const struct weight *x_bias, const struct weight *w,
                                         float eps, struct view out)
{
    assert(out.rows == resid.rows && out.cols == resid.cols && w->k == resid.cols);
    assert(!x.buf || (x.rows == resid.rows && x.cols == resid.cols));
    assert(!x_bias || x_bias->k == resid.cols);
    if (nothing(out))
        return ST_OK;
    if (out.reader)
        return operand_rms_norm(be, resid, x, x_bias, w, eps, out);
    return LAUNCH_DEPENDENT(be, add_rms_norm_kernel, (unsigned)out.rows, NORM_THREADS, 0,
                            view_f32(resid), resid.stride, x.buf ? view_f32(x) : nullptr, x.stride,
                            vector_of(x_bias), vector_of(w), eps, view_f32(out), out.stride,
                            out.cols);
}

/* b == NULL: no bias */
DEVICE float normal(float x, float mean, float scale, float w, const float *b)
{
    return b ? fmaf((x - mean) * scale, w, *b) : (x - mean) * scale * w;
}

/* Three times over the row: mean, variance, output.  grid T; 4 D + 4 D */
KERNEL(NORM_THREADS)
layer_norm_kernel(const float *x, int32_t x_stride, const float *w, const float *b, float eps,
                  float *out, int32_t out_stride, int32_t d)
{
    pdl_wait();
    const float *r = row_of(x, x_stride);
    float *o = row_of(out, out_stride), sum = 0.0f, squares = 0.0f;
    for (int i = 4 * (int)threadIdx.x; i < d; i += NORM_STEP) {
        float4 v = load_4(r + i, four_of(i, d)); /* zeros beyond the row add nothing */
        sum = sum + v.x + v.y + v.z + v.w;
    }
    float mean = block_sum(sum) / (float)d;
    for (int i = 4 * (int)threadIdx.x; i < d; i += NORM_STEP)
        squares = square_sum(load_4(r + i, four_of(i, d)), mean, four_of(i, d), squares);
    float scale = 1.0f / sqrtf(block_sum(squares) / (float)d + eps);
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS)
        o[i] = normal(r[i], mean, scale, w[i], b ? b + i : nullptr);
}

extern "C" enum status cuda_layer_norm(struct backend *be, struct view x, const struct weight *w,
                                       const struct weight *b, float eps, struct view out)
{
    assert(out.rows == x.rows && out.cols == x.cols && w->k == x.cols && (!b || b->k == x.cols));
    if (nothing(out))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, layer_norm_kernel, (unsigned)x.rows, NORM_THREADS, 0, view_f32(x),
                            x.stride, vector_of(w), vector_of(b), eps, view_f32(out), out.stride,
                            out.cols);
}

template <enum act ACT> DEVICE float4 activated_4(float4 v)
{
    return {activated(ACT, v.x), activated(ACT, v.y), activated(ACT, v.z), activated(ACT, v.w)};
}

/* grid (T, F / 1024); 8 F + 4 F */
template <enum act ACT>
KERNEL(STRIP_THREADS)
act_mul_kernel(const float *gate_up, int32_t in_stride, float *out, int32_t out_stride, int32_t f)
{
    pdl_wait();
    const float *g = row_of(gate_up, in_stride);
    int i = strip_at(), n = four_of(i, f);
    if (n <= 0)
        return;
    float4 v = activated_4<ACT>(load_4(g + i, n)), up = load_4(g + f + i, n);
    store_4(row_of(out, out_stride) + i, {v.x * up.x, v.y * up.y, v.z * up.z, v.w * up.w}, n);
}

/* kernel<act> for an act that is known at run time */
#define LAUNCH_ACT(kernel, act, ...)                                                               \
    ((act) == ACT_SILU        ? LAUNCH_DEPENDENT(be, kernel<ACT_SILU>, __VA_ARGS__)                \
     : (act) == ACT_GELU      ? LAUNCH_DEPENDENT(be, kernel<ACT_GELU>, __VA_ARGS__)                \
     : (act) == ACT_GELU_TANH ? LAUNCH_DEPENDENT(be, kernel<ACT_GELU_TANH>, __VA_ARGS__)           \
     : (act) == ACT_RELU2     ? LAUNCH_DEPENDENT(be, kernel<ACT_RELU2>, __VA_ARGS__)               \
                              : LAUNCH_DEPENDENT(be, kernel<ACT_RELU>, __VA_ARGS__))

extern "C" enum status cuda_act_mul(struct backend *be, enum act act, struct view gate_up,
                                    struct view out)
{
    assert(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
    if (nothing(out))
        return ST_OK;
    if (out.reader)
        return operand_act_mul(be, act, gate_up, out);
    return LAUNCH_ACT(act_mul_kernel, act, strips(out.rows, out.cols), STRIP_THREADS, 0,
                      view_f32(gate_up), gate_up.stride, view_f32(out), out.stride, out.cols);
}

/* grid (T, F / 1024); 4 F + 4 F; out may be x */
template <enum act ACT>
KERNEL(STRIP_THREADS)
activate_kernel(const float *x, int32_t x_stride, float *out, int32_t out_stride, int32_t f)
{
    pdl_wait();
    int i = strip_at(), n = four_of(i, f);
    if (n > 0)
        store_4(row_of(out, out_stride) + i, activated_4<ACT>(load_4(row_of(x, x_stride) + i, n)),
                n);
}

extern "C" enum status cuda_activate(struct backend *be, enum act act, struct view x,
                                     struct view out)
{
    assert(x.rows == out.rows && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    return LAUNCH_ACT(activate_kernel, act, strips(out.rows, out.cols), STRIP_THREADS, 0,
                      view_f32(x), x.stride, view_f32(out), out.stride, out.cols);
}

/* grid (T, D / 1024); 8 D */
KERNEL(STRIP_THREADS)
scale_kernel(float *x, int32_t stride, float factor, int32_t n_cols)
{
    pdl_wait();
    int i = strip_at(), n = four_of(i, n_cols);
    if (n <= 0)
        return;
    float *to = row_of(x, stride) + i;
    float4 v = load_4(to, n);
    store_4(to, {factor * v.x, factor * v.y, factor * v.z, factor * v.w}, n);
}

extern "C" enum status cuda_scale(struct backend *be, struct view x, float factor)
{
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, scale_kernel, strips(x.rows, x.cols), STRIP_THREADS, 0, view_f32(x),
                            x.stride, factor, x.cols);
}

/* grid (T, D / 1024); 8 D */
KERNEL(STRIP_THREADS)
soft_cap_kernel(float *x, int32_t stride, float cap, int32_t n_cols)
{
    pdl_wait();
    int i = strip_at(), n = four_of(i, n_cols);
    if (n <= 0)
        return;
    float *to = row_of(x, stride) + i;
    float4 v = load_4(to, n);
    store_4(to,
            {exact_soft_cap(v.x, cap), exact_soft_cap(v.y, cap), exact_soft_cap(v.z, cap),
             exact_soft_cap(v.w, cap)},
            n);
}

extern "C" enum status cuda_soft_cap(struct backend *be, struct view x, float cap)
{
    if (nothing(x))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, soft_cap_kernel, strips(x.rows, x.cols), STRIP_THREADS, 0,
                            view_f32(x), x.stride, cap, x.cols);
}

/* grid (T, D / 1024); 8 D + 4 D */
KERNEL(STRIP_THREADS)
add_kernel(float *dst, int32_t dst_stride, const float *src, int32_t src_stride, float scale,
           int32_t d)
{
    pdl_wait();
    int i = strip_at(), n = four_of(i, d);
    if (n <= 0)
        return;
    float *to = row_of(dst, dst_stride) + i;
    float4 a = load_4(to, n), b = load_4(row_of(src, src_stride) + i, n);
    store_4(to,
            {fmaf(scale, b.x, a.x), fmaf(scale, b.y, a.y), fmaf(scale, b.z, a.z),
             fmaf(scale, b.w, a.w)},
            n);
}

extern "C" enum status cuda_add(struct backend *be, struct view dst, struct view src, float scale)
{
    assert(dst.rows == src.rows && dst.cols == src.cols);
    if (nothing(dst))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, add_kernel, strips(dst.rows, dst.cols), STRIP_THREADS, 0,
                            view_f32(dst), dst.stride, view_f32(src), src.stride, scale, dst.cols);
}

/* grid (R, D / 1024); 4 D + 4 D */
KERNEL(STRIP_THREADS)
gather_kernel(const float *x, int32_t x_stride, const int32_t *row, int32_t row_stride, float *out,
              int32_t out_stride, int32_t d)
{
    pdl_wait();
    int i = strip_at(), n = four_of(i, d);
    const float *from = x + (int64_t)row[(int64_t)blockIdx.x * row_stride] * x_stride;
    if (n > 0)
        store_4(row_of(out, out_stride) + i, load_4(from + i, n), n);
}

extern "C" enum status cuda_gather(struct backend *be, struct view x, struct view row,
                                   struct view out)
{
    assert(row.rows == out.rows && row.cols == 1 && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    return LAUNCH_DEPENDENT(be, gather_kernel, strips(out.rows, out.cols), STRIP_THREADS, 0,
                            view_f32(x), x.stride, view_i32(row), row.stride, view_f32(out),
                            out.stride, out.cols);
}
