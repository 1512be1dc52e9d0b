/* Attention over a cache in f32: no matrix units, a warp per row. */
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

/* Grid (tokens, query heads), one warp.  Keys 32 at a time with an online softmax over the whole
 * range; scores are chains over the dimensions, values chains over the keys.  For models in f32:
 * clear, not fast.
 */
KERNEL(32) attention_f32(attn_args a)
{
    pdl_wait();
    DYN_SMEM(float, q);
    enum { PER_LANE = HEAD_MAX / 32 };
    int t = (int)blockIdx.x, h = (int)blockIdx.y, seq = seq_of(a, t), lo, hi;
    const float *k = (const float *)a.k, *v = (const float *)a.v;
    const int32_t *blocks = a.table + (size_t)seq * (size_t)a.table_stride;
    int g = (h + a.q_offset) / a.q_per_kv;
    float o[PER_LANE], m = -INFINITY, l = 0.0f;
    range_of(a, a.pos[t], &lo, &hi);
    for (int i = lane_id(); i < a.d; i += 32)
        q[i] = a.q[(size_t)t * (size_t)a.q_stride + (size_t)h * (size_t)a.d + (size_t)i];
    SYNC_THREADS(); /* q is whole */
    UNROLL for (int i = 0; i < PER_LANE; i++) o[i] = 0.0f;
    for (int key0 = lo / 32 * 32; key0 < hi; key0 += 32) {
        int key = key0 + lane_id();
        bool seen = key >= lo && key < hi;
        int64_t row = seen ? cache_row(a, blocks, key) * a.n_kv + g : 0;
        float dot = 0.0f;
        for (int i = 0; seen && i < a.d; i++)
            dot = fmaf(q[i], k[(size_t)row * (size_t)a.d + (size_t)i], dot);
        float score = dot * a.scale;
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
            UNROLL for (int i = 0; i < PER_LANE; i++)
            {
                int c = lane_id() + 32 * i;
                if (c < a.d)
                    o[i] = fmaf(pj, v[(size_t)rj * (size_t)a.d + (size_t)c], o[i]);
            }
        }
    }
    UNROLL for (int i = 0; i < PER_LANE; i++)
    {
        int c = lane_id() + 32 * i;
        if (c < a.d)
            a.out[(size_t)t * (size_t)a.out_stride + (size_t)h * (size_t)a.d + (size_t)c] =
                finish(o[i], l);
    }
}

enum status attention_f32_run(struct backend *be, const attn_args &a, int32_t n_tokens)
{
    return LAUNCH_DEPENDENT(be, attention_f32, dim3((unsigned)n_tokens, (unsigned)a.n_q), 32,
                            (size_t)a.d * sizeof(float), a);
}
