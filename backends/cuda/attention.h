/* What both attention files share: the op's arguments on the device. */
#ifndef BACKENDS_CUDA_ATTENTION_H
#define BACKENDS_CUDA_ATTENTION_H

#include "backends/cuda/gpu.h"

enum { HEAD_MAX = 512 }; /* largest d_head */

struct attn_args {
    const float *q;
    float *out;
    int32_t q_stride, out_stride;
    const void *k, *v;              /* of the layer's cache */
    const float *k_scale, *v_scale; /* NULL: entries have no scale */
    enum dtype kv_type;
    int32_t n_q, n_kv, d, q_per_kv, q_offset, window;
    float scale, cap; /* of the scores */
    const int32_t *pos, *q_start, *kv_len, *table;
    int32_t table_stride, block_len, n_seqs;
    float *part;    /* decode: [splits of all sequences, n_kv, q_per_kv, d + 2] */
    int64_t n_part; /* room for that many splits */
    float *outer;   /* decode: [blocks, rows, dims] sums of groups, where the splits have no room */
};

/* Query heads [*h0, *h0 + result) of this rank read KV head g. */
DEVICE int heads_of(const attn_args &a, int g, int *h0)
{
    int lo = g * a.q_per_kv - a.q_offset, hi = lo + a.q_per_kv;
    *h0 = lo > 0 ? lo : 0;
    return (hi < a.n_q ? hi : a.n_q) - *h0;
}

/* Keys [lo, hi) that a token at pos sees. */
DEVICE void range_of(const attn_args &a, int pos, int *lo, int *hi)
{
    *lo = a.window > 0 && pos >= a.window ? pos - a.window + 1 : 0;
    *hi = pos + 1;
}

DEVICE bool sees(const attn_args &a, int pos, int key)
{
    return key <= pos && (a.window <= 0 || key > pos - a.window);
}

/* Row of the cache that holds a key. */
DEVICE int64_t cache_row(const attn_args &a, const int32_t *blocks, int key)
{
    return (int64_t)blocks[key / a.block_len] * a.block_len + key % a.block_len;
}

DEVICE float greater(float a, float b)
{
    return b > a ? b : a;
}

/* + 0.0f: a sum of nothing but zeros has one sign whatever tiles were skipped. */
DEVICE float finish(float o, float l)
{
    return o / l + 0.0f;
}

/* attention_f32.cu: a cache in f32. */
enum status attention_f32_run(struct backend *be, const attn_args &a, int32_t n_tokens);

#endif
