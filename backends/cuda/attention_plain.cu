/* Attention in f32 for a cache of any type and for layers that neither attention.cu nor
 * attention_latent.cu takes: those that are not causal, biases of distances.  No matrix units, a warp per
 * row. */
#include "backends/cuda/attention.h"

/* The sequence whose rows include token t. */
DEVICE int seq_of(const attn_args &a, int t)
{
    int lo = 0, hi = a.n_seqs - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (a.q_start[mid] <= t)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Element i of a cache without its scale. */
DEVICE float cached(const void *cache, enum dtype t, int64_t i)
{
    switch (t) {
    case DT_F16:
        return element_f32<DT_F16>(cache, i);
    case DT_BF16:
        return element_f32<DT_BF16>(cache, i);
    case DT_I8:
        return (float)((const int8_t *)cache)[i];
    case DT_E4M3:
        return f32_of_e4m3(((const uint8_t *)cache)[i]);
    default:
        return ((const float *)cache)[i];
    }
}

/* Keys [lo, hi) of a sequence of kv_len. */
DEVICE void keys_of(const attn_args &a, int pos, int kv_len, int *lo, int *hi)
{
    range_of(a, pos, lo, hi);
    if (a.full)
        *hi = a.window > 0 && pos + a.window < kv_len ? pos + a.window : kv_len;
}

/* Grid (tokens, query heads), one warp.  Keys 32 at a time with an online softmax over the whole
 * range; scores are chains over the dimensions, values chains over the keys; a sink last.  Clear, not
 * fast: bound by a lane's loads of its key, one element at a time.
 */
KERNEL(32) attention_plain(attn_args a)
{
    pdl_wait();
    DYN_SMEM(float, q);
    enum { PER_LANE = HEAD_MAX / 32 };
    int t = (int)blockIdx.x, h = (int)blockIdx.y, seq = seq_of(a, t), lo, hi;
    const int32_t *blocks = a.table + (size_t)seq * (size_t)a.table_stride;
    int g = (h + a.q_offset) / a.q_per_kv;
    float o[PER_LANE], m = -INFINITY, l = 0.0f;
    const int pos = a.pos[t];
    const float *bias = a.rel_bias ? a.rel_bias + (size_t)h * REL_COLS : nullptr;
    keys_of(a, pos, a.kv_len[seq], &lo, &hi);
    for (int i = lane_id(); i < a.d; i += 32)
        q[i] = a.q[(size_t)t * (size_t)a.q_stride + (size_t)h * (size_t)a.d + (size_t)i];
    SYNC_THREADS(); /* q is whole */
    UNROLL for (int i = 0; i < PER_LANE; i++) o[i] = 0.0f;
    for (int key0 = lo / 32 * 32; key0 < hi; key0 += 32) {
        int key = key0 + lane_id();
        bool seen = key >= lo && key < hi;
        int64_t row = seen ? cache_row(a, blocks, key) : 0, at = row * a.k_row + (int64_t)g * a.d;
        float dot = 0.0f;
        for (int i = 0; seen && i < a.d; i++)
            dot = fmaf(q[i], cached(a.k, a.kv_type, at + i), dot);
        float score = dot * (a.k_scale ? a.scale * a.k_scale[row * a.n_kv + g] : a.scale);
        if (bias && seen)
            score += bias[rel_at(key - pos)];
        score = a.cap > 0.0f ? exact_soft_cap(score, a.cap) : score;
        float s = seen ? score : -INFINITY;
        float most = greater(m, warp_max(s)), base = most == -INFINITY ? 0.0f : most;
        float p = seen ? exact_exp(s - base) : 0.0f, corr = exact_exp(m - base);
        l = fmaf(l, corr, warp_sum(p));
        m = most;
        UNROLL for (int i = 0; i < PER_LANE; i++) o[i] *= corr;
        int first = lo > key0 ? lo - key0 : 0, end = hi - key0 < 32 ? hi - key0 : 32;
        for (int j = first; j < end; j++) {
            float pj = shfl(p, j);
            int64_t rj = shfl(row, j);
            pj = a.v_scale ? pj * a.v_scale[rj * a.n_kv + g] : pj;
            UNROLL for (int i = 0; i < PER_LANE; i++)
            {
                int c = lane_id() + 32 * i;
                if (c < a.d_value)
                    o[i] =
                        fmaf(pj, cached(a.v, a.kv_type, rj * a.v_row + (int64_t)g * a.d_value + c),
                             o[i]);
            }
        }
    }
    const float factor = a.sinks ? merge_sink(a, h, m, l) : 1.0f;
    UNROLL for (int i = 0; i < PER_LANE; i++)
    {
        int c = lane_id() + 32 * i;
        if (c < a.d_value)
            put_out(a, t, h * a.d_value + c, finish(o[i] * factor, l));
    }
}

enum status attention_plain_run(struct backend *be, const attn_args &a, int32_t n_tokens)
{
    return LAUNCH_DEPENDENT(be, attention_plain, dim3((unsigned)n_tokens, (unsigned)a.n_q), 32,
                            (size_t)a.d * sizeof(float), a);
}
