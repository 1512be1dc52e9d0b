/* Attention over one tile of keys by one warp of 16 rows, and the merging of splits: attention.cu's
 * arithmetic. */
#ifndef BACKENDS_CUDA_ATTENTION_TILE_H
#define BACKENDS_CUDA_ATTENTION_TILE_H

#include "backends/cuda/attention.h"

enum {
    TILE = 32,             /* keys of a tile */
    SPLIT = 128,           /* keys of a split */
    GROUP_SPLITS = 8,      /* splits of a group */
    ROWS = ATTENTION_ROWS, /* rows of a warp */
    PAD = 8, /* elements between rows in shared memory: rows begin in different banks */
};

/* ---- one tile of keys or values in shared memory ---- */

/* Elements [i, i + 8) of KV head g in a cache row as 16-bit values. */
DEVICE uint4 load_8(const attn_args &a, const void *base, int64_t row, int g, int i)
{
    size_t at = (size_t)(row * a.n_kv + g) * (size_t)a.d + (size_t)i;
    uint16_t h[8];
    for (int j = 0; j < 8; j++) {
        if (i + j >= a.d)
            h[j] = 0;
        else if (a.kv_type == DT_I8)
            h[j] = bf16_of_f32((float)((const int8_t *)base)[at + (size_t)j]);
        else if (a.kv_type == DT_E4M3)
            h[j] = bf16_of_f32(f32_of_e4m3(((const uint8_t *)base)[at + (size_t)j]));
        else
            h[j] = ((const uint16_t *)base)[at + (size_t)j];
    }
    return uint4{h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16,
                 h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16};
}

/* Where the keys of a tile are, lane i that of key i: the last one's place beyond the end. */
struct tile_keys {
    int32_t row; /* of (cache row, KV head), below 2^31: run's check */
    int n;       /* keys of the tile that exist, any number */
};

DEVICE tile_keys keys_of(const attn_args &a, const int32_t *blocks, int kv_len, int g, int key0)
{
    const int key = key0 + lane_id() < kv_len ? key0 + lane_id() : kv_len - 1;
    return {(int32_t)(cache_row(a, blocks, key) * a.n_kv + g), kv_len - key0};
}

enum { SECTION = 64 }; /* dims that are copied at a time: 128 bytes, or 64 of 8-bit entries */

/* Entries of 16 bits: eight lanes copy a section of a key, and of its value if those are wanted,
 * asynchronously. */
template <int WARPS, bool VALUES = true>
DEVICE void copy_keys(const attn_args &a, const tile_keys &keys, uint16_t *k, uint16_t *v,
                      int pitch, int sections)
{
    const int c = lane_id() % 8 * 8, row_bytes = 2 * a.d;
    const char *base_k = (const char *)a.k + 2 * c, *base_v = (const char *)a.v + 2 * c;
    UNROLL
    for (int i = 0; i < TILE / 4 / WARPS; i++) {
        const int key = (i * WARPS + warp_id() % WARPS) * 4 + lane_id() / 8;
        const int64_t from = (int64_t)shfl(keys.row, key) * row_bytes;
        uint16_t *to_k = k + key * pitch + c, *to_v = v + key * pitch + c;
        UNROLL
        for (int s = 0; s < sections; s++) {
            const bool real = key < keys.n && s * SECTION + c < a.d;
            cp_async_16(to_k + s * SECTION, base_k + from + s * SECTION * 2, real);
            if (VALUES)
                cp_async_16(to_v + s * SECTION, base_v + from + s * SECTION * 2, real);
        }
    }
}

/* Two 8-bit entries, the lower half of a word, as bf16: exact. */
DEVICE uint32_t widen_2(uint32_t w, bool e4m3)
{
    if (e4m3)
        return pack_bf16(f32_of_e4m3((uint8_t)w), f32_of_e4m3((uint8_t)(w >> 8)));
    return pack_bf16((float)(int32_t)(int8_t)w, (float)(int32_t)(int8_t)(w >> 8));
}

DEVICE uint4 widen_8(uint32_t lo, uint32_t hi, bool e4m3)
{
    return uint4{widen_2(lo, e4m3), widen_2(lo >> 16, e4m3), widen_2(hi, e4m3),
                 widen_2(hi >> 16, e4m3)};
}

/* Entries of 8 bits: four lanes load a section of a key, 16 bytes each. */
template <int WARPS>
DEVICE void widen_keys(const attn_args &a, const tile_keys &keys, const void *base, uint16_t *to,
                       int pitch, int sections)
{
    enum { AT_ONCE = TILE / 8 / WARPS };
    const int c = lane_id() % 4 * 16;
    const bool e4m3 = a.kv_type == DT_E4M3;
    NO_UNROLL
    for (int s = 0; s < sections; s++) {
        uint4 u[AT_ONCE];
        UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            const int key = (i * WARPS + warp_id() % WARPS) * 8 + lane_id() / 4;
            const int64_t from = (int64_t)shfl(keys.row, key) * a.d + s * SECTION + c;
            u[i] = key < keys.n && s * SECTION + c < a.d ? ld_128((const uint8_t *)base + from)
                                                         : uint4{0, 0, 0, 0};
        }
        UNROLL
        for (int i = 0; i < AT_ONCE; i++) {
            const int key = (i * WARPS + warp_id() % WARPS) * 8 + lane_id() / 4;
            uint16_t *at = to + key * pitch + s * SECTION + c;
            st_128(at, widen_8(u[i].x, u[i].y, e4m3));
            st_128(at + 8, widen_8(u[i].z, u[i].w, e4m3));
        }
    }
}

/* Heads whose size is no multiple of 16 bytes, element by element. */
DEVICE void load_elements(const attn_args &a, const void *base, const int32_t *blocks, int kv_len,
                          int g, int key0, uint16_t *dst, int pitch, int d_pad)
{
    int chunks = d_pad / 8;
    NO_UNROLL
    for (int i = (int)threadIdx.x; i < TILE * chunks; i += (int)blockDim.x) {
        int key = key0 + i / chunks, c = i % chunks * 8;
        uint16_t *to = dst + i / chunks * pitch + c;
        if (key >= kv_len || c >= a.d)
            st_128(to, uint4{0, 0, 0, 0});
        else
            st_128(to, load_8(a, base, cache_row(a, blocks, key), g, c));
    }
}

struct tile {
    const uint16_t *k, *v;          /* [TILE][pitch] */
    const float *k_scale, *v_scale; /* [TILE] or NULL */
    int pitch, d_pad, key0;
};

/* ---- one warp: 16 rows ---- */

/* What a lane holds of its two rows (lane / 4 and lane / 4 + 8 of the warp's). */
template <int DV> struct rows_state {
    float m[2], l[2];
    float o[DV / 8][4]; /* accumulator fragments: dims 8 n + 2 (lane % 4) + {0, 1}, of both rows */
};

struct row_ranges {
    int pos[2];           /* of the lane's rows' tokens; -1: no row */
    int warp_lo, warp_hi; /* keys that any row of the warp sees */
};

template <int DV> DEVICE void clear(rows_state<DV> &s)
{
    for (int r = 0; r < 2; r++) {
        s.m[r] = -INFINITY;
        s.l[r] = 0.0f;
    }
    UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 0; i < 4; i++) s.o[n][i] = 0.0f;
}

template <bool F16> DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    uint32_t b[2] = {b0, b1};
    if (F16)
        mma_m16n8k16_f16(c, a, b);
    else
        mma_m16n8k16_bf16(c, a, b);
}

template <bool F16> DEVICE uint32_t pack_2(float lo, float hi)
{
    return F16 ? pack_f16(lo, hi) : pack_bf16(lo, hi);
}

/* Eight elements of a query as 16-bit values; zeros from the n-th on. */
template <bool F16> DEVICE uint4 query_8(const float *p, int n)
{
    float v[8];
    if (n >= 8 && ((uintptr_t)p & 15) == 0) {
        float4 lo = ld_f32x4(p), hi = ld_f32x4(p + 4);
        v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w;
        v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
    } else {
        UNROLL for (int i = 0; i < 8; i++) v[i] = i < n ? p[i] : 0.0f;
    }
    return uint4{pack_2<F16>(v[0], v[1]), pack_2<F16>(v[2], v[3]), pack_2<F16>(v[4], v[5]),
                 pack_2<F16>(v[6], v[7])};
}

/* s [TILE / 8] fragments = q k^T.  q: the warp's rows, [ROWS][pitch]. */
template <bool F16> DEVICE void tile_scores(const tile &t, const uint16_t *q, float s[TILE / 8][4])
{
    UNROLL for (int n = 0; n < TILE / 8; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] = 0.0f;
    int lane = lane_id();
    NO_UNROLL
    for (int c = 0; c < t.d_pad; c += 16) {
        uint32_t a[4], b[4];
        ldmatrix(a, q + (lane % 16) * t.pitch + c + lane / 16 * 8);
        UNROLL for (int n = 0; n < TILE / 8; n += 2)
        { /* matrices: keys 8n, dims c; the same keys, dims c + 8; the next 8 keys likewise */
            ldmatrix(b, t.k + (8 * n + lane / 16 * 8 + lane % 8) * t.pitch + c + lane / 8 % 2 * 8);
            mma<F16>(s[n], a, b[0], b[1]);
            mma<F16>(s[n + 1], a, b[2], b[3]);
        }
    }
}

/* Scores become weights; m and l of both rows go on, what corrects the sums so far is returned. */
DEVICE void tile_softmax(const attn_args &a, const tile &t, const row_ranges &g,
                         float s[TILE / 8][4], float m[2], float l[2], float corr[2])
{
    int col = lane_id() % 4 * 2;
    float most[2] = {m[0], m[1]};
    UNROLL for (int n = 0; n < TILE / 8; n++) UNROLL for (int i = 0; i < 4; i++)
    {
        int j = 8 * n + col + i % 2, r = i / 2, key = t.key0 + j;
        float x = s[n][i] * (t.k_scale ? a.scale * t.k_scale[j] : a.scale);
        x = a.cap > 0.0f ? exact_soft_cap(x, a.cap) : x;
        s[n][i] = sees(a, g.pos[r], key) ? x : -INFINITY;
        most[r] = greater(most[r], s[n][i]);
    }
    UNROLL for (int r = 0; r < 2; r++)
    {
        most[r] = greater(most[r], shfl_xor(most[r], 1));
        most[r] = greater(most[r], shfl_xor(most[r], 2));
        float base = most[r] == -INFINITY ? 0.0f : most[r], sum = 0.0f;
        UNROLL for (int n = 0; n < TILE / 8; n++) UNROLL for (int i = 2 * r; i < 2 * r + 2; i++)
        {
            s[n][i] = exact_exp(s[n][i] - base);
            sum += s[n][i];
        }
        sum += shfl_xor(sum, 1);
        sum += shfl_xor(sum, 2);
        corr[r] = exact_exp(m[r] - base);
        l[r] = fmaf(l[r], corr[r], sum);
        m[r] = most[r];
    }
}

/* o += p v over the tile, for dims [dv0, dv0 + DV). */
template <bool F16, int DV>
DEVICE void tile_values(const tile &t, int dv0, const float p[TILE / 8][4], float o[DV / 8][4])
{
    int lane = lane_id(), col = lane % 4 * 2;
    UNROLL for (int k = 0; k < TILE / 16; k++)
    {
        uint32_t a[4], b[4];
        UNROLL for (int i = 0; i < 4; i++)
        { /* rows lane / 4 and + 8, keys 16 k + col; then keys 16 k + 8 + col */
            int n = 2 * k + i / 2, e = i % 2 * 2, j = 8 * n + col;
            float v0 = t.v_scale ? t.v_scale[j] : 1.0f, v1 = t.v_scale ? t.v_scale[j + 1] : 1.0f;
            a[i] = pack_2<F16>(p[n][e] * v0, p[n][e + 1] * v1);
        }
        UNROLL for (int n = 0; n < DV / 8; n += 2)
        { /* matrices: keys 16 k, dims 8 n; keys + 8; the same keys, dims 8 n + 8 */
            ldmatrix_trans(b, t.v + (16 * k + lane % 16) * t.pitch + dv0 + 8 * n + lane / 16 * 8);
            mma<F16>(o[n], a, b[0], b[1]);
            mma<F16>(o[n + 1], a, b[2], b[3]);
        }
    }
}

template <bool F16, int DV>
DEVICE void attend_tile(const attn_args &a, const tile &t, const uint16_t *q, const row_ranges &g,
                        int dv0, rows_state<DV> &part)
{
    float s[TILE / 8][4], corr[2];
    tile_scores<F16>(t, q, s);
    tile_softmax(a, t, g, s, part.m, part.l, corr);
    UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 0; i < 4; i++) part.o[n][i] *=
        corr[i / 2];
    tile_values<F16, DV>(t, dv0, s, part.o);
}

template <int DV> DEVICE void merge(rows_state<DV> &s, const rows_state<DV> &part)
{
    UNROLL for (int r = 0; r < 2; r++)
    {
        float a, b;
        merge_factors(s.m[r], s.l[r], part.m[r], part.l[r], &a, &b);
        UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 2 * r; i < 2 * r + 2; i++)
            s.o[n][i] = merge_one(s.o[n][i], part.o[n][i], a, b);
    }
}

/* The groups before, of a thread of `threads`: m and l here, o in memory, [DV / 8 * 4][threads], which
 * no other thread touches.  n: how many there were. */
struct outer_state {
    float m[2], l[2];
    float *o;
    int n, threads;
};

DEVICE float *outer_at(const outer_state &s, int i)
{
    return s.o + (size_t)i * (size_t)s.threads + threadIdx.x;
}

/* The first group is taken as it is. */
template <int DV> DEVICE void push_group(outer_state &s, const rows_state<DV> &group)
{
    UNROLL for (int r = 0; r < 2; r++)
    {
        float a = 0.0f, b = 1.0f;
        if (s.n == 0) {
            s.m[r] = group.m[r];
            s.l[r] = group.l[r];
        } else {
            merge_factors(s.m[r], s.l[r], group.m[r], group.l[r], &a, &b);
        }
        UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 2 * r; i < 2 * r + 2; i++)
        {
            float *o = outer_at(s, n * 4 + i);
            *o = s.n == 0 ? group.o[n][i] : merge_one(*o, group.o[n][i], a, b);
        }
    }
    s.n++;
}

template <int DV> DEVICE void take_groups(const outer_state &s, rows_state<DV> &out)
{
    UNROLL for (int r = 0; r < 2; r++)
    {
        out.m[r] = s.m[r];
        out.l[r] = s.l[r];
    }
    UNROLL for (int n = 0; n < DV / 8; n++) UNROLL for (int i = 0; i < 4; i++) out.o[n][i] =
        *outer_at(s, n * 4 + i);
}

#endif
