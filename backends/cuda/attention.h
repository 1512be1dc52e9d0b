/* What the attention files share: the op's arguments on the device. */
#ifndef BACKENDS_CUDA_ATTENTION_H
#define BACKENDS_CUDA_ATTENTION_H

#include "backends/cuda/operand_device.h"
#include "backends/cuda/smem.h"

enum { HEAD_MAX = 512 }; /* largest d_head */

struct attn_args {
    const float *q;
    float *out;
    struct operand operand; /* there is one: in place of out */
    int32_t q_stride, out_stride;
    const void *k, *v;              /* of the layer's cache */
    const float *k_scale, *v_scale; /* NULL: entries have no scale */
    enum dtype kv_type;
    int32_t n_q, n_kv, d, q_per_kv, q_offset, window, chunk;
    float scale, cap;      /* of the scores */
    const float *sinks;    /* [n_q] or NULL */
    const float *rel_bias; /* [n_q][REL_COLS] or NULL: attention_plain.cu alone, */
    bool full;             /* as this, */
    int32_t k_row, v_row;  /* and these: elements of a row of each cache */
    int32_t d_value;       /* elements of a value: not attention.cu */
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
    *lo = a.window > 0 && pos >= a.window ? pos - a.window + 1
          : a.chunk > 0                   ? pos / a.chunk * a.chunk
                                          : 0;
    *hi = pos + 1;
}

DEVICE bool sees(const attn_args &a, int pos, int key)
{
    return key <= pos && (a.window <= 0 || key > pos - a.window) &&
           (a.chunk <= 0 || key >= pos / a.chunk * a.chunk);
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

/* Column c of a token's output. */
DEVICE void put_out(const attn_args &a, int64_t token, int32_t c, float v)
{
    if (a.operand.packed)
        put_bf16(a.operand, token, c, v);
    else
        a.out[(size_t)token * (size_t)a.out_stride + (size_t)c] = v;
}

/* Factors of state and part in their merged sum; the first split that has keys is taken as it is. */
DEVICE void merge_factors(float &m, float &l, float part_m, float part_l, float *a, float *b)
{
    *a = 1.0f;
    *b = 0.0f;
    if (part_l == 0.0f)
        return;
    if (l == 0.0f) {
        *a = 0.0f;
        *b = 1.0f;
        m = part_m;
        l = part_l;
        return;
    }
    float most = greater(m, part_m);
    *a = exact_exp(m - most);
    *b = exact_exp(part_m - most);
    l = fmaf(l, *a, part_l * *b);
    m = most;
}

DEVICE float merge_one(float o, float part, float a, float b)
{
    return b == 0.0f ? o : a == 0.0f ? part * b : fmaf(o, a, part * b);
}

/* Head h's sink, a split of one key whose value is 0, merged: the factor on o. */
DEVICE float merge_sink(const attn_args &a, int h, float &m, float &l)
{
    float mine, other;
    merge_factors(m, l, a.sinks[h], 1.0f, &mine, &other);
    return mine;
}

/* attention_latent.cu: latent attention, caches of 16 and 8 bits. */
enum status attention_latent_run(struct backend *be, attn_args a, const struct step_dev *st);

/* attention_plain.cu: any layer, and any type of the cache. */
enum status attention_plain_run(struct backend *be, const attn_args &a, int32_t n_tokens);

#endif
