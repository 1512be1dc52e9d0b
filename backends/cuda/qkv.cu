/* qkv_to_cache: per-head norm, RoPE, the cache's type, in one kernel. */
#include "backends/cuda/attention.h"

enum { QKV_WARPS = 4 };

struct qkv_args {
    const float *qkv; /* [T, (n_q + 2 n_kv) d] */
    float *q;         /* [T, n_q d] */
    int32_t qkv_stride, q_stride;
    void *k, *v;              /* the layer's cache */
    float *k_scale, *v_scale; /* NULL: entries have no scale */
    enum dtype kv_type;
    int32_t n_q, n_kv, d, rot_dim;
    bool interleaved;
    float eps;
    const float *q_norm, *k_norm; /* [d] or NULL */
    const float *cos, *sin;       /* [max_pos, rot_dim / 2] */
    const float *q_scale;         /* [max_pos] or NULL */
    const int32_t *pos, *slot;
};

/* x [d] of a warp's shared memory = rms norm of x. */
DEVICE void norm_head(float *x, const float *w, float eps, int d)
{
    float sum = 0.0f;
    for (int i = lane_id(); i < d; i += 32)
        sum = fmaf(x[i], x[i], sum);
    float r = 1.0f / sqrtf(warp_sum(sum) / (float)d + eps);
    for (int i = lane_id(); i < d; i += 32)
        x[i] = x[i] * r * w[i];
    sync_warp(); /* rotation reads other lanes' elements */
}

DEVICE void rotate_head(const qkv_args &a, int t, float *x)
{
    int half = a.rot_dim / 2, step = a.interleaved ? 2 : 1, apart = a.interleaved ? 1 : half;
    size_t row = (size_t)a.pos[t] * (size_t)half;
    for (int i = lane_id(); i < half; i += 32) {
        float p = x[i * step], s = x[i * step + apart], co = a.cos[row + (size_t)i],
              si = a.sin[row + (size_t)i];
        x[i * step] = fmaf(p, co, -(s * si));
        x[i * step + apart] = fmaf(p, si, s * co);
    }
    sync_warp(); /* stores read other lanes' elements */
}

/* Nearest integer, ties to even, cut to [-127, 127]. */
DEVICE int8_t i8_nearest(float x)
{
    const float magic = 0x1.8p23f;
    x = x > 127.0f ? 127.0f : x;
    x = x < -127.0f ? -127.0f : x;
    return (int8_t)(uint8_t)(bits_of_f32(x + magic) & 0xffU);
}

DEVICE float magnitude(float x)
{
    return x < 0.0f ? -x : x;
}

/* x [d] to one head of a cache row; an 8-bit entry gets the scale |x|max / the type's greatest
 * value. */
DEVICE void store_head(const qkv_args &a, const float *x, void *cache, float *scale, size_t head)
{
    size_t at = head * (size_t)a.d;
    float inv = 0.0f, top = a.kv_type == DT_I8 ? 127.0f : 448.0f;
    if (a.kv_type == DT_I8 || a.kv_type == DT_E4M3) {
        float most = 0.0f;
        for (int i = lane_id(); i < a.d; i += 32)
            most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
        most = warp_max(most);
        bool small = most < 0x1p-100f;
        inv = small ? 0.0f : top / most;
        if (lane_id() == 0)
            scale[head] = small ? 0.0f : most / top;
    }
    for (int i = lane_id(); i < a.d; i += 32)
        switch (a.kv_type) {
        case DT_F16:
            ((uint16_t *)cache)[at + (size_t)i] = f16_of_f32(x[i]);
            break;
        case DT_BF16:
            ((uint16_t *)cache)[at + (size_t)i] = bf16_of_f32(x[i]);
            break;
        case DT_I8:
            ((int8_t *)cache)[at + (size_t)i] = i8_nearest(x[i] * inv);
            break;
        case DT_E4M3:
            ((uint8_t *)cache)[at + (size_t)i] = e4m3_of_f32(x[i] * inv);
            break;
        default:
            ((float *)cache)[at + (size_t)i] = x[i];
            break;
        }
}

/* Grid (tokens, heads / QKV_WARPS), a warp per head.  Bound: one launch; reads and writes of the
 * row. */
KERNEL(QKV_WARPS * 32) qkv_kernel(qkv_args a)
{
    SHARED(float, heads, [QKV_WARPS][HEAD_MAX]);
    pdl_wait();
    int t = (int)blockIdx.x, h = (int)blockIdx.y * QKV_WARPS + warp_id(), d = a.d;
    if (h >= a.n_q + 2 * a.n_kv)
        return; /* the whole warp; there is no barrier of the block */
    size_t slot = (size_t)a.slot[t] * (size_t)a.n_kv;
    float *x = heads[warp_id()];
    bool is_k = h >= a.n_q && h < a.n_q + a.n_kv, is_v = h >= a.n_q + a.n_kv;
    const float *from = a.qkv + (size_t)t * (size_t)a.qkv_stride + (size_t)h * (size_t)d;
    const float *norm = is_v ? nullptr : is_k ? a.k_norm : a.q_norm;
    for (int i = lane_id(); i < d; i += 32)
        x[i] = from[i];
    sync_warp(); /* the head is whole */
    if (norm)
        norm_head(x, norm, a.eps, d);
    if (!is_v)
        rotate_head(a, t, x);
    if (is_v)
        store_head(a, x, a.v, a.v_scale, slot + (size_t)(h - a.n_q - a.n_kv));
    else if (is_k)
        store_head(a, x, a.k, a.k_scale, slot + (size_t)(h - a.n_q));
    else
        for (int i = lane_id(); i < d; i += 32)
            a.q[(size_t)t * (size_t)a.q_stride + (size_t)h * (size_t)d + (size_t)i] =
                a.q_scale ? x[i] * a.q_scale[a.pos[t]] : x[i];
}

enum status cuda_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                              const struct step_dev *st, struct view qkv, struct kv_layer kv,
                              struct view q)
{
    assert(kv.k.stride == kv.k.cols && kv.k.dtype == kv.v.dtype && al->d_head <= HEAD_MAX);
    assert(!al->v_norm && !al->v_is_k && !al->q_alone);
    if (st->n_tokens == 0)
        return ST_OK;
    qkv_args a = {};
    a.qkv = view_f32(qkv);
    a.q = view_f32(q);
    a.qkv_stride = qkv.stride;
    a.q_stride = q.stride;
    a.k = view_ptr(kv.k);
    a.v = view_ptr(kv.v);
    a.k_scale = kv.k_scale.buf ? view_f32(kv.k_scale) : nullptr;
    a.v_scale = kv.v_scale.buf ? view_f32(kv.v_scale) : nullptr;
    a.kv_type = kv.k.dtype;
    a.n_q = al->n_q;
    a.n_kv = al->n_kv;
    a.d = al->d_head;
    a.rot_dim = al->rot_dim;
    a.interleaved = al->rope_interleaved;
    a.eps = al->eps;
    a.q_norm = vector_of(al->q_norm);
    a.k_norm = vector_of(al->k_norm);
    a.cos = al->cos.buf ? view_f32(al->cos) : nullptr; /* without RoPE */
    a.sin = al->sin.buf ? view_f32(al->sin) : nullptr;
    a.q_scale = al->q_scale.buf ? view_f32(al->q_scale) : nullptr;
    a.pos = view_i32(st->pos);
    a.slot = view_i32(st->slot);
    dim3 grid((unsigned)st->n_tokens, (unsigned)blocks_for(al->n_q + 2 * al->n_kv, QKV_WARPS));
    return LAUNCH_DEPENDENT(be, qkv_kernel, grid, QKV_WARPS * 32, 0, a);
}
