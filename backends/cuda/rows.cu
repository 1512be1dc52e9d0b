/* Ops over rows.  Every kernel: one block a row (and a strip of it where rows are independent
 * element by element), 16-byte accesses where the rows allow it; bound by memory: bytes are given
 * as what is read + written of a row. */
#include "backends/cuda/gpu.h"

enum { NORM_THREADS = 512, STRIP_THREADS = 256, STRIP = 1024 /* elements: 4 a thread */ };

/* Rows on grid.y would end at 65,535: rows are on x, strips on y. */
static dim3 strips(int32_t rows, int32_t cols)
{
    return dim3((unsigned)rows, (unsigned)blocks_for(cols, STRIP));
}

static bool nothing(struct view v)
{
    return v.rows == 0 || v.cols == 0;
}

/* Elements of a strip that this thread has: first, and those up to `end` in steps of a block. */
#define EACH_OF_STRIP(i, n)                                                                        \
    for (int i = (int)blockIdx.y * STRIP + (int)threadIdx.x,                                       \
             i##_end = (int)blockIdx.y * STRIP + STRIP < (n) ? (int)blockIdx.y * STRIP + STRIP     \
                                                             : (n);                                \
         i < i##_end; i += STRIP_THREADS)

/* grid (T, D / 1024); 2 or 4 D + 4 D bytes */
template <enum dtype T>
KERNEL(STRIP_THREADS)
embed_kernel(const void *table, int32_t k_pad, int32_t n, int32_t first_id, const int32_t *ids,
             int32_t id_stride, float *out, int32_t out_stride, int32_t d)
{
    int64_t row = (int64_t)ids[(int64_t)blockIdx.x * id_stride] - first_id;
    bool mine = row >= 0 && row < n;
    int64_t from = (mine ? row : 0) * k_pad;
    float *to = out + (int64_t)blockIdx.x * out_stride;
    EACH_OF_STRIP(i, d)
    to[i] = mine ? element_f32<T>(table, from + i) + 0.0f : 0.0f;
}

#define EMBED(T)                                                                                   \
    LAUNCH(be, embed_kernel<T>, strips(out.rows, out.cols), STRIP_THREADS, 0, matrix_of(table),    \
           table->k_pad, table->n, first_id, view_i32(ids), ids.stride, view_f32(out), out.stride, \
           out.cols)

extern "C" enum status cuda_embed(struct backend *be, const struct weight *table, int32_t first_id,
                                  struct view ids, struct view out)
{
    assert(ids.rows == out.rows && ids.cols == 1 && out.cols == table->k);
    if (nothing(out))
        return ST_OK;
    switch (table->dtype) {
    case DT_F16:
        return EMBED(DT_F16);
    case DT_BF16:
        return EMBED(DT_BF16);
    default:
        return EMBED(DT_F32);
    }
}

/* The sum of a row is in lanes: thread j adds elements j, j + 512, ... in a chain, then block_sum.
 * grid T; 8 D read (+ 4 D of a bias, + 4 D of w, in the caches) + 8 D written; with no x 4 D + 4 D.
 * The row is read again for the output, out of L1. */
KERNEL(NORM_THREADS)
add_rms_norm_kernel(float *resid, int32_t resid_stride, const float *x, int32_t x_stride,
                    const float *x_bias, const float *w, float eps, float *out, int32_t out_stride,
                    int32_t d)
{
    float *r = resid + (int64_t)blockIdx.x * resid_stride, sum = 0.0f;
    const float *a = x + (int64_t)blockIdx.x * x_stride;
    float *o = out + (int64_t)blockIdx.x * out_stride;
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS) {
        float v = r[i];
        if (x) {
            v += x_bias ? a[i] + x_bias[i] : a[i];
            r[i] = v;
        }
        sum = fmaf(v, v, sum);
    }
    float scale = 1.0f / sqrtf(block_sum(sum) / (float)d + eps);
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS)
        o[i] = r[i] * scale * w[i];
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
    return LAUNCH(be, add_rms_norm_kernel, (unsigned)out.rows, NORM_THREADS, 0, view_f32(resid),
                  resid.stride, x.buf ? view_f32(x) : nullptr, x.stride, vector_of(x_bias),
                  vector_of(w), eps, view_f32(out), out.stride, out.cols);
}

/* As above, twice over the row: mean, then variance.  grid T; 4 D + 4 D bytes */
KERNEL(NORM_THREADS)
layer_norm_kernel(const float *x, int32_t x_stride, const float *w, const float *b, float eps,
                  float *out, int32_t out_stride, int32_t d)
{
    const float *r = x + (int64_t)blockIdx.x * x_stride;
    float *o = out + (int64_t)blockIdx.x * out_stride, sum = 0.0f, squares = 0.0f;
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS)
        sum += r[i];
    float mean = block_sum(sum) / (float)d;
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS)
        squares = fmaf(r[i] - mean, r[i] - mean, squares);
    float scale = 1.0f / sqrtf(block_sum(squares) / (float)d + eps);
    for (int i = (int)threadIdx.x; i < d; i += NORM_THREADS)
        o[i] = b ? fmaf((r[i] - mean) * scale, w[i], b[i]) : (r[i] - mean) * scale * w[i];
}

extern "C" enum status cuda_layer_norm(struct backend *be, struct view x, const struct weight *w,
                                       const struct weight *b, float eps, struct view out)
{
    assert(out.rows == x.rows && out.cols == x.cols && w->k == x.cols && (!b || b->k == x.cols));
    if (nothing(out))
        return ST_OK;
    return LAUNCH(be, layer_norm_kernel, (unsigned)x.rows, NORM_THREADS, 0, view_f32(x), x.stride,
                  vector_of(w), vector_of(b), eps, view_f32(out), out.stride, out.cols);
}

DEVICE float activated(enum act act, float x)
{
    return act == ACT_SILU ? exact_silu(x) : act == ACT_GELU ? exact_gelu(x) : exact_gelu_tanh(x);
}

/* grid (T, F / 1024); 8 F + 4 F bytes */
KERNEL(STRIP_THREADS)
act_mul_kernel(enum act act, const float *gate_up, int32_t in_stride, float *out,
               int32_t out_stride, int32_t f)
{
    const float *g = gate_up + (int64_t)blockIdx.x * in_stride;
    float *o = out + (int64_t)blockIdx.x * out_stride;
    EACH_OF_STRIP(i, f)
    o[i] = activated(act, g[i]) * g[f + i];
}

extern "C" enum status cuda_act_mul(struct backend *be, enum act act, struct view gate_up,
                                    struct view out)
{
    assert(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
    if (nothing(out))
        return ST_OK;
    return LAUNCH(be, act_mul_kernel, strips(out.rows, out.cols), STRIP_THREADS, 0, act,
                  view_f32(gate_up), gate_up.stride, view_f32(out), out.stride, out.cols);
}

/* grid (T, F / 1024); 4 F + 4 F bytes; out may be x */
KERNEL(STRIP_THREADS)
activate_kernel(enum act act, const float *x, int32_t x_stride, float *out, int32_t out_stride,
                int32_t f)
{
    const float *r = x + (int64_t)blockIdx.x * x_stride;
    float *o = out + (int64_t)blockIdx.x * out_stride;
    EACH_OF_STRIP(i, f)
    o[i] = activated(act, r[i]);
}

extern "C" enum status cuda_activate(struct backend *be, enum act act, struct view x,
                                     struct view out)
{
    assert(x.rows == out.rows && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    return LAUNCH(be, activate_kernel, strips(out.rows, out.cols), STRIP_THREADS, 0, act,
                  view_f32(x), x.stride, view_f32(out), out.stride, out.cols);
}

/* grid (T, D / 1024); 8 D + 4 D bytes */
KERNEL(STRIP_THREADS)
add_kernel(float *dst, int32_t dst_stride, const float *src, int32_t src_stride, float scale,
           int32_t d)
{
    float *to = dst + (int64_t)blockIdx.x * dst_stride;
    const float *from = src + (int64_t)blockIdx.x * src_stride;
    EACH_OF_STRIP(i, d)
    to[i] = fmaf(scale, from[i], to[i]);
}

extern "C" enum status cuda_add(struct backend *be, struct view dst, struct view src, float scale)
{
    assert(dst.rows == src.rows && dst.cols == src.cols);
    if (nothing(dst))
        return ST_OK;
    return LAUNCH(be, add_kernel, strips(dst.rows, dst.cols), STRIP_THREADS, 0, view_f32(dst),
                  dst.stride, view_f32(src), src.stride, scale, dst.cols);
}

/* grid (R, D / 1024); 4 D + 4 D bytes */
KERNEL(STRIP_THREADS)
gather_kernel(const float *x, int32_t x_stride, const int32_t *row, int32_t row_stride, float *out,
              int32_t out_stride, int32_t d)
{
    const float *from = x + (int64_t)row[(int64_t)blockIdx.x * row_stride] * x_stride;
    float *to = out + (int64_t)blockIdx.x * out_stride;
    EACH_OF_STRIP(i, d)
    to[i] = from[i];
}

extern "C" enum status cuda_gather(struct backend *be, struct view x, struct view row,
                                   struct view out)
{
    assert(row.rows == out.rows && row.cols == 1 && x.cols == out.cols);
    if (nothing(out))
        return ST_OK;
    return LAUNCH(be, gather_kernel, strips(out.rows, out.cols), STRIP_THREADS, 0, view_f32(x),
                  x.stride, view_i32(row), row.stride, view_f32(out), out.stride, out.cols);
}
