/* qkv_to_cache: per-head norm, RoPE, the cache's type, in one kernel. */
#include "backends/cuda/attention.h"
#include "backends/cuda/inputs.h"
#include "backends/gpu/heads.h"

enum { QKV_WARPS = 4, LATENT_MAX = 576 /* largest row of a latent cache */ };

struct qkv_args {
    const float *qkv; /* [T, (n_q + 2 n_kv) d] */
    float *q;         /* [T, n_q d] */
    int32_t qkv_stride, q_stride;
    void *k, *v;              /* the layer's cache */
    float *k_scale, *v_scale; /* NULL: entries have no scale */
    enum dtype kv_type;
    int32_t n_q, n_kv, d, rot_dim;
    bool interleaved;
    bool unit, v_norm, v_is_k, q_alone; /* as in attn_layer */
    float eps;
    const float *q_norm, *k_norm; /* [d] or NULL */
    const float *cos, *sin;       /* [max_pos, rot_dim / 2] */
    const float *q_scale;         /* [max_pos] or NULL */
    const int32_t *pos, *slot;
};

/* heads.h's, by the warp that is the caller. */
DEVICE void norm_head(float *x, const float *w, float eps, int d)
{
    norm_head(x, w, w != nullptr, eps, d, (uint32_t)lane_id());
}

DEVICE void rotate_head(const qkv_args &a, int t, float *x)
{
    const int64_t row = (int64_t)a.pos[t] * (a.rot_dim / 2);
    rotate_head(x, a.cos + row, a.sin + row, a.rot_dim, a.interleaved, (uint32_t)lane_id());
}

/* Is x finite in a cache of that type? */
DEVICE bool fits(enum dtype kv_type, float x)
{
    if (kv_type == DT_F16)
        return (f16_of_f32(x) & 0x7c00U) != 0x7c00U;
    if (kv_type == DT_BF16)
        return (bf16_of_f32(x) & 0x7f80U) != 0x7f80U;
    return (bits_of_f32(x) & 0x7f800000U) != 0x7f800000U;
}

DEVICE bool head_fits(enum dtype kv_type, const float *x, int d)
{
    bool fit = true;
    for (int i = lane_id(); i < d; i += 32)
        fit = fit && fits(kv_type, x[i]);
    return warp_ballot(!fit) == 0;
}

DEVICE void store_head(const qkv_args &a, const float *x, void *cache, float *scale, int64_t head)
{
    store_head(x, (uint8_t *)cache, scale, head, a.kv_type, a.d, (uint32_t)lane_id());
}

/* Grid (tokens, heads / QKV_WARPS), a warp per head.  Bound: one launch; reads and writes of the
 * row. */
KERNEL(QKV_WARPS * 32) qkv_kernel(qkv_args a)
{
    SHARED(float, heads, [QKV_WARPS][HEAD_MAX]);
    pdl_wait();
    int t = (int)blockIdx.x, h = (int)blockIdx.y * QKV_WARPS + warp_id(), d = a.d;
    if (h >= a.n_q + (a.q_alone ? 0 : 2 * a.n_kv))
        return; /* the whole warp; there is no barrier of the block */
    const int64_t slot = (int64_t)a.slot[t] * a.n_kv;
    float *x = heads[warp_id()];
    bool is_k = h >= a.n_q && h < a.n_q + a.n_kv, is_v = h >= a.n_q + a.n_kv;
    const int column = is_v && a.v_is_k ? h - a.n_kv : h;
    const float *from = a.qkv + (size_t)t * (size_t)a.qkv_stride + (size_t)column * (size_t)d;
    const float *norm = is_v ? nullptr : is_k ? a.k_norm : a.q_norm;
    for (int i = lane_id(); i < d; i += 32)
        x[i] = from[i];
    sync_warp(); /* the head is whole */
    if (norm || (is_v && a.v_norm))
        norm_head(x, norm, a.eps, d);
    if (!is_v)
        rotate_head(a, t, x);
    if (!is_v && a.unit)
        norm_head(x, nullptr, a.eps, d);
    /* Attention multiplies a tile of values with weights that are 0 where a row does not see the key, and
     * 0 times what is not finite is NaN.  A key is not multiplied but for its score, which only rows
     * that see it take: so it is the key that is NaN. */
    if (is_v)
        for (int i = lane_id(); i < d; i += 32)
            x[i] = fits(a.kv_type, x[i]) ? x[i] : 0.0f;
    const float *value = from + (a.v_is_k ? 0 : a.n_kv * d); /* of a key's head */
    if (is_k && !(head_fits(a.kv_type, x, d) &&
                  head_fits(a.v_norm ? DT_F32 : a.kv_type, value, d))) /* a norm's result is small */
        for (int i = lane_id(); i < d; i += 32)
            x[i] = NAN;
    sync_warp(); /* stores read other lanes' elements */
    if (is_v)
        store_head(a, x, a.v, a.v_scale, slot + h - a.n_q - a.n_kv);
    else if (is_k)
        store_head(a, x, a.k, a.k_scale, slot + h - a.n_q);
    else
        for (int i = lane_id(); i < d; i += 32)
            a.q[(size_t)t * (size_t)a.q_stride + (size_t)h * (size_t)d + (size_t)i] =
                a.q_scale ? x[i] * a.q_scale[a.pos[t]] : x[i];
}

/* The op's arguments but for what is taken apart, and where to. */
static qkv_args args_of(const struct attn_layer *al, const struct step_dev *st, struct kv_layer kv,
                        struct view q)
{
    qkv_args a = {};
    a.q = view_f32(q);
    a.q_stride = q.stride;
    a.k = view_ptr(kv.k);
    a.k_scale = kv.k_scale.buf ? view_f32(kv.k_scale) : nullptr;
    a.kv_type = kv.k.dtype;
    a.n_q = al->n_q;
    a.n_kv = al->n_kv;
    a.d = al->d_head;
    a.rot_dim = al->rot_dim;
    a.interleaved = al->rope_interleaved;
    a.eps = al->eps;
    a.k_norm = vector_of(al->k_norm);
    a.cos = al->cos.buf ? view_f32(al->cos) : nullptr; /* without RoPE */
    a.sin = al->sin.buf ? view_f32(al->sin) : nullptr;
    a.pos = view_i32(st->pos);
    a.slot = view_i32(st->slot);
    return a;
}

enum status cuda_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                              const struct step_dev *st, struct view qkv, struct kv_layer kv,
                              struct view q)
{
    assert(kv.k.stride == kv.k.cols && kv.k.dtype == kv.v.dtype && al->d_head <= HEAD_MAX);
    assert(qkv.cols == attn_qkv_cols(al) && (!al->qk_unit || (!al->q_norm && !al->k_norm)));
    if (st->n_tokens == 0)
        return ST_OK;
    qkv_args a = args_of(al, st, kv, q);
    a.qkv = view_f32(qkv);
    a.qkv_stride = qkv.stride;
    a.v = view_ptr(kv.v);
    a.v_scale = kv.v_scale.buf ? view_f32(kv.v_scale) : nullptr;
    a.unit = al->qk_unit;
    a.v_norm = al->v_norm;
    a.v_is_k = al->v_is_k;
    a.q_alone = al->q_alone;
    a.q_norm = vector_of(al->q_norm);
    a.q_scale = al->q_scale.buf ? view_f32(al->q_scale) : nullptr;
    dim3 grid((unsigned)st->n_tokens, (unsigned)blocks_for(al->n_q + 2 * al->n_kv, QKV_WARPS));
    return LAUNCH_DEPENDENT(be, qkv_kernel, grid, QKV_WARPS * 32, 0, a);
}

/* Grid (tokens, heads / QKV_WARPS): a warp for each head's rotated part of q, and one for the row of
 * the cache.  qkv: the latents; q_heads [T, n_q head]: the queries before RoPE.  Bound as qkv_kernel. */
KERNEL(QKV_WARPS * 32)
latent_kernel(qkv_args a, struct rounding rule, const float *q_heads, int32_t head, int32_t stride)
{
    SHARED(float, rows, [QKV_WARPS][LATENT_MAX]);
    pdl_wait();
    const int t = (int)blockIdx.x, h = (int)blockIdx.y * QKV_WARPS + warp_id();
    const int latent = a.d - a.rot_dim;
    float *x = rows[warp_id()];
    if (h > a.n_q)
        return; /* the whole warp; there is no barrier of the block */
    if (h == a.n_q) {
        for (int i = lane_id(); i < a.d; i += 32)
            x[i] = a.qkv[(size_t)t * (size_t)a.qkv_stride + (size_t)i];
        sync_warp(); /* the row is whole */
        norm_head(x, a.k_norm, a.eps, latent);
        if (rule.grid != GRID_NONE)
            round_by_warp(rule, x, latent, lane_id());
        rotate_head(a, t, x + latent);
        store_head(a, x, a.k, a.k_scale, a.slot[t]);
        return;
    }
    const float *from =
        q_heads + (size_t)t * (size_t)stride + (size_t)(h + 1) * (size_t)head - (size_t)a.rot_dim;
    for (int i = lane_id(); i < a.rot_dim; i += 32)
        x[i] = from[i];
    sync_warp(); /* the part is whole */
    rotate_head(a, t, x);
    for (int i = lane_id(); i < a.rot_dim; i += 32)
        a.q[(size_t)t * (size_t)a.q_stride + (size_t)h * (size_t)a.d + (size_t)(latent + i)] = x[i];
}

enum status cuda_latent_to_cache(struct backend *be, const struct attn_layer *al,
                                 const struct step_dev *st, struct view latent, struct view q_heads,
                                 struct kv_layer kv, struct view q)
{
    assert(al->n_q > 0 && al->n_kv == 1 && al->d_value + al->rot_dim == al->d_head);
    assert(latent.cols == al->d_head && q.cols == al->n_q * al->d_head && !al->q_scale.buf);
    assert(q_heads.cols % al->n_q == 0 && q_heads.cols / al->n_q >= al->rot_dim);
    assert(kv.k.stride == kv.k.cols && al->k_norm && !al->round_latent.shared);
    if (al->d_head > LATENT_MAX || al->d_value > HEAD_MAX)
        FAIL(ST_UNSUPPORTED, "latents of %d + %d elements: the CUDA backend takes up to %d",
             al->d_value, al->rot_dim, LATENT_MAX);
    if (st->n_tokens == 0)
        return ST_OK;
    qkv_args a = args_of(al, st, kv, q);
    a.qkv = view_f32(latent);
    a.qkv_stride = latent.stride;
    const dim3 grid((unsigned)st->n_tokens, (unsigned)blocks_for(al->n_q + 1, QKV_WARPS));
    return LAUNCH_DEPENDENT(be, latent_kernel, grid, QKV_WARPS * 32, 0, a,
                            rounding_of(&al->round_latent), view_f32(q_heads),
                            q_heads.cols / al->n_q, q_heads.stride);
}
