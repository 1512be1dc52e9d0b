/* The step's new keys and values to the cache, and attention over it: a simdgroup for each token and
 * head. */

/* Groups: [tokens, heads of q, k and v, or of q alone]. */
KERNEL qkv_to_cache(constant struct metal_qkv_args &a BUF(0), const device float *qkv BUF(1),
                    const device float *q_norm BUF(2), const device float *k_norm BUF(3),
                    const device float *cosines BUF(4), const device float *sines BUF(5),
                    const device float *q_scale BUF(6), const device int32_t *positions BUF(7),
                    const device int32_t *slots BUF(8), device uint8_t *k BUF(9),
                    device uint8_t *v BUF(10), device float *k_scale BUF(11),
                    device float *v_scale BUF(12), device float *q BUF(13), GRID)
{
    SHARED(float, x, [METAL_MAX_HEAD]);
    (void)index, (void)simd;
    int64_t t = group.x;
    int h = (int)group.y, pos = positions[t];
    int64_t row = (int64_t)slots[t] * a.n_kv, angle = (int64_t)pos * (a.rot_dim / 2);
    bool is_q = h < a.n_q, is_k = !is_q && h < a.n_q + a.n_kv, is_v = !is_q && !is_k;
    const device float *from =
        qkv + t * a.qkv_stride + (int64_t)(is_v && a.v_is_k != 0 ? h - a.n_kv : h) * a.d;
    for (int i = (int)lane; i < a.d; i += 32)
        x[i] = from[i];
    SIMD_BARRIER(); /* the head is whole */
    if (is_q && a.has_q_norm != 0)
        norm_head(x, q_norm, true, a.eps, a.d, lane);
    if (is_k && a.has_k_norm != 0)
        norm_head(x, k_norm, true, a.eps, a.d, lane);
    if (!is_v)
        rotate_head(x, cosines + angle, sines + angle, a.rot_dim, a.interleaved != 0, lane);
    if (is_v ? a.v_norm != 0 : a.qk_unit != 0)
        norm_head(x, qkv, false, a.eps, a.d, lane);
    if (is_k)
        store_head(x, k, k_scale, row + (h - a.n_q), (enum dtype)a.kv_type, a.d, lane);
    else if (is_v)
        store_head(x, v, v_scale, row + (h - a.n_q - a.n_kv), (enum dtype)a.kv_type, a.d, lane);
    for (int i = (int)lane; is_q && i < a.d; i += 32)
        q[t * a.q_stride + (int64_t)h * a.d + i] =
            a.has_q_scale != 0 ? x[i] * q_scale[pos] : x[i];
}

/* Latent attention.  Groups: [tokens, heads of q and the row of the cache]: the rotated part of a head
 * of q, and [norm of the latent | rotated part] to the cache. */
KERNEL latent_to_cache(constant struct metal_qkv_args &a BUF(0), const device float *latents BUF(1),
                       const device float *q_heads BUF(2), const device float *k_norm BUF(3),
                       const device float *cosines BUF(4), const device float *sines BUF(5),
                       const device int32_t *positions BUF(6), const device int32_t *slots BUF(7),
                       device uint8_t *k BUF(8), device float *k_scale BUF(9),
                       device float *q BUF(10), GRID)
{
    SHARED(float, x, [METAL_MAX_LATENT]);
    (void)index, (void)simd;
    int64_t t = group.x, angle = (int64_t)positions[t] * (a.rot_dim / 2);
    int h = (int)group.y, latent = a.d - a.rot_dim;
    bool is_row = h == a.n_q;
    int n = is_row ? a.d : a.rot_dim, first = is_row ? latent : 0;
    const device float *from =
        is_row ? latents + t * a.qkv_stride
               : q_heads + t * a.head_stride + (int64_t)(h + 1) * a.head - a.rot_dim;
    for (int i = (int)lane; i < n; i += 32)
        x[i] = from[i];
    SIMD_BARRIER(); /* the row, or the part of a head, is whole */
    if (is_row)
        norm_head(x, k_norm, true, a.eps, latent, lane);
    if (is_row && a.round_latent.grid != GRID_NONE)
        round_by_warp(a.round_latent, x, latent, lane);
    rotate_head(x + first, cosines + angle, sines + angle, a.rot_dim, a.interleaved != 0, lane);
    if (is_row)
        store_head(x, k, k_scale, (int64_t)slots[t], (enum dtype)a.kv_type, a.d, lane);
    for (int i = (int)lane; !is_row && i < a.rot_dim; i += 32)
        q[t * a.q_stride + (int64_t)h * a.d + latent + i] = x[i];
}

template <int TYPE> static inline float cache_at(const device uint8_t *p, int64_t i)
{
    if (TYPE == METAL_F32)
        return ((const device float *)p)[i];
    if (TYPE == METAL_F16)
        return widened_f16(((const device uint16_t *)p)[i]);
    if (TYPE == METAL_BF16)
        return f32_of_bf16(((const device uint16_t *)p)[i]);
    return TYPE == METAL_I8 ? (float)((const device int8_t *)p)[i] : f32_of_e4m3(p[i]);
}

template <int TYPE> static inline float scale_at(const device float *scale, int64_t head)
{
    return TYPE == METAL_I8 || TYPE == METAL_E4M3 ? scale[head] : 1.0f;
}

/* The sequence whose rows include token t. */
static inline int seq_of(const device int32_t *q_start, int n_seqs, int t)
{
    int lo = 0, hi = n_seqs - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (q_start[mid] <= t)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Keys [*lo, *hi) that a token at pos of a sequence of kv_len sees. */
static inline void keys_of(constant struct metal_attention_args &a, int pos, int kv_len,
                           thread int *lo, thread int *hi)
{
    *lo = a.window > 0 && pos >= a.window ? pos - a.window + 1
          : a.chunk > 0                   ? pos / a.chunk * a.chunk
                                          : 0;
    *hi = pos + 1;
    if (a.full != 0)
        *hi = a.window > 0 && pos + a.window < kv_len ? pos + a.window : kv_len;
}

/* Keys 32 at a time from a multiple of 32 on, a key a lane, with an online softmax: a score is a
 * chain over the dimensions, a value a chain over the keys; a sink last, a key whose value is 0.
 * Groups: [tokens from the first of the dispatch on, query heads]. */
template <int TYPE>
static inline void
attend(constant struct metal_attention_args &a, const device float *queries,
       const device uint8_t *k, const device uint8_t *v, const device float *k_scale,
       const device float *v_scale, const device int32_t *positions,
       const device int32_t *q_start, const device int32_t *kv_len, const device int32_t *table,
       const device float *sinks, const device float *rel_bias, device float *out,
       threadgroup float *q, uint3 group, uint lane)
{
    const int PER_LANE = METAL_MAX_HEAD / 32;
    int t = a.first + (int)group.x, h = (int)group.y, g = (h + a.q_offset) / a.q_per_kv;
    int seq = seq_of(q_start, a.n_seqs, t), pos = positions[t], lo, hi;
    const device int32_t *blocks = table + (int64_t)seq * a.table_stride;
    float o[PER_LANE], m = -INFINITY, l = 0.0f;
    keys_of(a, pos, kv_len[seq], &lo, &hi);
    for (int i = (int)lane; i < a.d; i += 32)
        q[i] = queries[(int64_t)t * a.q_stride + (int64_t)h * a.d + i];
    SIMD_BARRIER(); /* q is whole */
    for (int i = 0; i < PER_LANE; i++)
        o[i] = 0.0f;
    for (int key0 = lo / 32 * 32; key0 < hi; key0 += 32) {
        int key = key0 + (int)lane, row = 0;
        bool seen = key >= lo && key < hi;
        if (seen)
            row = blocks[key / a.block_len] * a.block_len + key % a.block_len;
        int64_t head = (int64_t)row * a.n_kv + g, at = (int64_t)row * a.k_row + (int64_t)g * a.d;
        float dot = 0.0f;
        for (int i = 0; seen && i < a.d; i++)
            dot = fmaf(q[i], cache_at<TYPE>(k, at + i), dot);
        float s = -INFINITY;
        if (seen) {
            s = dot * scale_at<TYPE>(k_scale, head) * a.scale;
            s = a.has_rel_bias != 0 ? s + rel_bias[(int64_t)h * REL_COLS + rel_at(key - pos)] : s;
            s = a.cap > 0.0f ? exact_soft_cap(s, a.cap) : s;
        }
        float most = warp_max(s);
        most = most > m ? most : m;
        float base = most == -INFINITY ? 0.0f : most;
        float p = seen ? exact_exp(s - base) : 0.0f, corr = exact_exp(m - base);
        l = fmaf(l, corr, warp_sum(p));
        m = most;
        p = seen ? p * scale_at<TYPE>(v_scale, head) : 0.0f;
        for (int i = 0; i < PER_LANE; i++)
            o[i] *= corr;
        int first = lo > key0 ? lo - key0 : 0, end = hi - key0 < 32 ? hi - key0 : 32;
        for (int j = first; j < end; j++) {
            float pj = simd_shuffle(p, (ushort)j);
            int64_t from = (int64_t)simd_shuffle(row, (ushort)j) * a.v_row + (int64_t)g * a.d_value;
            for (int i = 0, c = (int)lane; c < a.d_value; i++, c += 32)
                o[i] = fmaf(pj, cache_at<TYPE>(v, from + c), o[i]);
        }
    }
    float factor = 1.0f;
    if (a.has_sinks != 0) {
        float most = sinks[h] > m ? sinks[h] : m;
        factor = exact_exp(m - most);
        l = fmaf(l, factor, exact_exp(sinks[h] - most));
    }
    for (int i = 0, c = (int)lane; c < a.d_value; i++, c += 32)
        out[(int64_t)t * a.out_stride + (int64_t)h * a.d_value + c] =
            o[i] * factor / l + 0.0f; /* one zero */
}

#define ATTENTION(name, type)                                                                      \
    KERNEL name(constant struct metal_attention_args &a BUF(0), const device float *queries BUF(1), \
                const device uint8_t *k BUF(2), const device uint8_t *v BUF(3),                    \
                const device float *k_scale BUF(4), const device float *v_scale BUF(5),            \
                const device int32_t *positions BUF(6), const device int32_t *q_start BUF(7),      \
                const device int32_t *kv_len BUF(8), const device int32_t *table BUF(9),           \
                const device float *sinks BUF(10), const device float *rel_bias BUF(11),           \
                device float *out BUF(12), GRID)                                                   \
    {                                                                                              \
        SHARED(float, q, [METAL_MAX_LATENT]);                                                      \
        (void)index, (void)simd;                                                                   \
        attend<type>(a, queries, k, v, k_scale, v_scale, positions, q_start, kv_len, table, sinks, \
                     rel_bias, out, q, group, lane);                                               \
    }
ATTENTION(attention_f32, METAL_F32)
ATTENTION(attention_f16, METAL_F16)
ATTENTION(attention_bf16, METAL_BF16)
ATTENTION(attention_i8, METAL_I8)
ATTENTION(attention_e4m3, METAL_E4M3)
