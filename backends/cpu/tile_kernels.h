/* Matrix products over the vectors of one instruction set.  The including file has included
 * simd_X.h, which defines
 *   VL          floats of a vector: 4, 8 or 16
 *   TILE_ROWS   rows whose accumulators fit the registers
 *   v_load, v_store, v_splat, v_add, v_mul, v_div, v_fma, v_load_f16, v_load_bf16, v_load_i8,
 *   v_load_bf16_pairs, v_load_halves, v_transpose
 *   v_max, v_load_e4m3, v_widen_X, v_fma_at, v_load_lanes, v_transpose_4   for attention (attn_*.h)
 *
 * A tile: `rows` broadcast values of x against the columns of a panel, k ascending, in pairs of
 * vectors (struct pair).  A pass takes n_q pairs of them from pair q0 on, and acc[i * rows + r] is the
 * sum of row r and pair q0 + i; rows and n_q are constants at every call, so that the sums of a pass
 * stay in registers.  x is the tile's: x[k * rows + r]. */
#ifndef BACKENDS_CPU_TILE_KERNELS_H
#define BACKENDS_CPU_TILE_KERNELS_H

#include "backends/cpu/read_ahead.h"
#include "backends/cpu/row_kernels.h"
#include "backends/cpu/vectors.h"

ALWAYS_INLINE enum dtype pack_dtype(enum pack p)
{
    return p == PACK_F32 ? DT_F32 : p == PACK_F16 ? DT_F16 : DT_BF16;
}

ALWAYS_INLINE struct pair load_pair(enum dtype t, const void *w, long k, int q)
{
    struct pair p;
    if (t == DT_F16) {
        const uint16_t *at = (const uint16_t *)w + k * PANEL + VL * q;
        p.a = v_load_f16(at);
        p.b = v_load_f16(at + PANEL / 2);
    } else {
        const float *at = (const float *)w + k * PANEL + VL * q;
        p.a = v_load(at);
        p.b = v_load(at + PANEL / 2);
    }
    return p;
}

/* acc[r] += x[r] times a pair of vectors of weights. */
ALWAYS_INLINE void add_row(int rows, const float *x, struct pair w, struct pair *acc)
{
    UNROLL
    for (int r = 0; r < rows; r++) {
        vf b = v_splat(x[r]);
        acc[r].a = v_fma(b, w.a, acc[r].a);
        acc[r].b = v_fma(b, w.b, acc[r].b);
    }
}

/* acc += the products of k in [k0, k1) with weights in floats. */
ALWAYS_INLINE void run_chains(int rows, int n_q, const struct linear_tile *t, enum dtype dtype,
                              int q0, long k0, long k1, struct pair *acc)
{
    const size_t row_bytes = PANEL * (dtype == DT_F32 ? sizeof(float) : sizeof(uint16_t));
    for (long k = k0; k < k1; k++) {
        read_ahead(t->read, (const char *)t->panel + (size_t)k * row_bytes, (int)row_bytes);
        UNROLL
        for (int i = 0; i < n_q; i++)
            add_row(rows, t->x + k * rows, load_pair(dtype, t->panel, k, q0 + i), acc + i * rows);
    }
}

/* Two rows of E4M3 weights, PANEL columns each, times their scale. */
#ifdef V_LOAD_E4M3_X4
ALWAYS_INLINE void fp8_two_rows(const uint8_t *code, struct pair scale, struct pair w[2])
{
    vf v[4];
    v_load_e4m3_x4(code, v);
    for (int i = 0; i < 2; i++)
        w[i] = (struct pair){v_mul(v[2 * i], scale.a), v_mul(v[2 * i + 1], scale.b)};
}
#else
ALWAYS_INLINE void fp8_two_rows(const uint8_t *code, struct pair scale, struct pair w[2])
{
    for (int i = 0; i < 2; i++, code += PANEL)
        w[i] = (struct pair){v_mul(v_load_e4m3(code), scale.a),
                             v_mul(v_load_e4m3(code + PANEL / 2), scale.b)};
}
#endif

/* run_chains of E4M3 weights, block after block. */
ALWAYS_INLINE void run_fp8_chains(int rows, int n_q, const struct linear_tile *t, int q0, long k0,
                                  long k1, struct pair *acc)
{
    const size_t head = pack_head_bytes(PACK_E4M3, t->head, t->slice_end[t->n_slices - 1]);
    const uint8_t *codes = (const uint8_t *)t->panel + head + VL * q0;
    for (long k = k0; k < k1;) {
        long block = (t->head.skip + k) / FP8_BLOCK, end = (block + 1) * FP8_BLOCK - t->head.skip;
        const float *at = (const float *)t->panel + block * PANEL + VL * q0;
        struct pair scale[PAIRS];
        for (int i = 0; i < n_q; i++)
            scale[i] = (struct pair){v_load(at + VL * i), v_load(at + VL * i + PANEL / 2)};
        for (end = end < k1 ? end : k1; k + 1 < end; k += 2) {
            read_ahead(t->read, codes + k * PANEL, 2 * PANEL);
            UNROLL
            for (int i = 0; i < n_q; i++) {
                struct pair w[2];
                fp8_two_rows(codes + k * PANEL + VL * i, scale[i], w);
                add_row(rows, t->x + k * rows, w[0], acc + i * rows);
                add_row(rows, t->x + (k + 1) * rows, w[1], acc + i * rows);
            }
        }
        for (; k < end; k++) {
            UNROLL
            for (int i = 0; i < n_q; i++) {
                const uint8_t *code = codes + k * PANEL + VL * i;
                struct pair w = {v_mul(v_load_e4m3(code), scale[i].a),
                                 v_mul(v_load_e4m3(code + PANEL / 2), scale[i].b)};
                add_row(rows, t->x + k * rows, w, acc + i * rows);
            }
        }
    }
}

/* run_chains of indexed integers. */
ALWAYS_INLINE void run_int_chains(int rows, int n_q, const struct linear_tile *t, enum pack pack,
                                  int q0, long k0, long k1, struct pair *acc)
{
    const size_t head = pack_head_bytes(pack, t->head, t->slice_end[t->n_slices - 1]),
                 row_bytes = pack_row_bytes(pack);
    const char *codes = (const char *)t->panel + head + VL * q0;
    const float *scales = (const float *)t->panel + VL * q0,
                *minima = scales + (size_t)t->head.groups * PANEL;
    const uint16_t *index = pack_index(t->panel, t->head.groups);
    for (long k = k0; k < k1; k++) {
        if ((size_t)k * row_bytes % 64 == 0)
            read_ahead(t->read, codes + (size_t)k * row_bytes, 64);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            const char *code = codes + (size_t)k * row_bytes + VL * i;
            const float *scale = scales + (size_t)index[k] * PANEL + VL * i,
                        *min = minima + (size_t)index[k] * PANEL + VL * i;
            struct pair w;
            if (pack == PACK_INT4) {
                v_load_halves((const uint8_t *)code, &w.a, &w.b);
            } else {
                w.a = v_load_i8((const int8_t *)code);
                w.b = v_load_i8((const int8_t *)code + PANEL / 2);
            }
            w.a = v_fma(w.a, v_load(scale), v_load(min));
            w.b = v_fma(w.b, v_load(scale + PANEL / 2), v_load(min + PANEL / 2));
            add_row(rows, t->x + k * rows, w, acc + i * rows);
        }
    }
}

/* NF4, FP4, NVFP4: the scales of a block for pair q of the columns. */
ALWAYS_INLINE struct pair level_scales(const struct linear_tile *t, enum pack pack, long block,
                                       int q)
{
    const float *head = (const float *)t->panel + VL * q;
    if (pack != PACK_NVFP4)
        return (struct pair){v_load(head + block * PANEL),
                             v_load(head + block * PANEL + PANEL / 2)};
    const uint8_t *small = (const uint8_t *)t->panel + (8 + block) * PANEL + VL * q;
    vf a = v_mul(v_load_e4m3(small), v_load(head)),
       b = v_mul(v_load_e4m3(small + PANEL / 2), v_load(head + PANEL / 2));
    return (struct pair){v_div(a, v_load(head + PANEL)),
                         v_div(b, v_load(head + PANEL + PANEL / 2))};
}

/* run_chains of those. */
ALWAYS_INLINE void run_level_chains(int rows, int n_q, const struct linear_tile *t, enum pack pack,
                                    int q0, long k0, long k1, struct pair *acc)
{
    const uint8_t *codes = (const uint8_t *)t->panel +
                           pack_head_bytes(pack, t->head, t->slice_end[t->n_slices - 1]) + VL * q0;
    const vlevels table = v_levels(pack_levels(pack));
    const long block = t->head.block, skip = t->head.skip;
    for (long k = k0; k < k1;) {
        long b = (skip + k) / block, end = (b + 1) * block - skip;
        struct pair scale[PAIRS];
        for (int i = 0; i < n_q; i++)
            scale[i] = level_scales(t, pack, b, q0 + i);
        for (end = end < k1 ? end : k1; k < end; k++) {
            const uint8_t *code = codes + k * (PANEL / 2);
            if (k % (64 / (PANEL / 2)) == 0)
                read_ahead(t->read, code, 64);
            UNROLL
            for (int i = 0; i < n_q; i++) {
                struct pair w;
                v_load_levels(code + VL * i, table, &w.a, &w.b);
                w.a = v_mul(w.a, scale[i].a);
                w.b = v_mul(w.b, scale[i].b);
                add_row(rows, t->x + k * rows, w, acc + i * rows);
            }
        }
    }
}

/* run_chains over n elements of k of a slice of BF16 weights; x and w are the slice's. */
ALWAYS_INLINE void run_bf16_chains(int rows, int n_q, const float *x, const uint16_t *w, int q0,
                                   long n, struct read_ahead read, struct pair *acc)
{
    const bool narrow = 2 * rows * n_q + 5 > (VL == 16 ? 32 : 16);
    w += 2 * VL * q0;
    for (long k = 0; k < n; k += 2, x += 2 * rows, w += 2 * PANEL) {
        read_ahead(read, w, 4 * PANEL);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            const uint16_t *at = w + 2 * VL * i;
            struct pair even, odd;
            v_load_bf16_pairs(at, &even.a, &odd.a);
            v_load_bf16_pairs(at + PANEL, &even.b, &odd.b);
            add_row(rows, x, even, acc + i * rows);
            if (k + 1 == n)
                continue;
            if (narrow) { /* load again what registers cannot keep */
                __asm__("" : "+r"(at));
                v_load_bf16_pairs(at, &even.a, &odd.a);
                v_load_bf16_pairs(at + PANEL, &even.b, &odd.b);
            }
            add_row(rows, x + rows, odd, acc + i * rows);
        }
    }
}

/* Adds slice s's n sums to the tree, a binary counter of finished subtrees; after the last slice acc is the
 * whole sum. */
ALWAYS_INLINE void climb_tree(int n, int s, struct pair (*tree)[TILE_ROWS], struct pair *acc)
{
    int level = 0;
    for (; s >> level & 1; level++) {
        UNROLL
        for (int i = 0; i < n; i++) {
            acc[i].a = v_add(tree[level][i].a, acc[i].a);
            acc[i].b = v_add(tree[level][i].b, acc[i].b);
        }
    }
    UNROLL
    for (int i = 0; i < n; i++)
        tree[level][i] = acc[i];
}

/* acc += the products of slice s, which begins at k. */
ALWAYS_INLINE void run_slice(int rows, int n_q, const struct linear_tile *t, enum pack pack, int q0,
                             int s, long k, struct pair *acc)
{
    const long end = t->slice_end[s];
    if (pack == PACK_BF16)
        run_bf16_chains(rows, n_q, t->x + k * rows,
                        (const uint16_t *)t->panel +
                            pack_rows(pack, t->slice_end, s, (int32_t)k) * PANEL,
                        q0, end - k, t->read, acc);
    else if (pack == PACK_E4M3)
        run_fp8_chains(rows, n_q, t, q0, k, end, acc);
    else if (pack == PACK_INT8 || pack == PACK_INT4)
        run_int_chains(rows, n_q, t, pack, q0, k, end, acc);
    else if (pack_has_levels(pack))
        run_level_chains(rows, n_q, t, pack, q0, k, end, acc);
    else
        run_chains(rows, n_q, t, pack_dtype(pack), q0, k, end, acc);
}

/* The pairs of a pass: all of a panel where the registers hold their sums, because the chains of one pair
 * and few rows wait for each other; else one. */
ALWAYS_INLINE int pairs_of_pass(int rows)
{
    return 2 * PAIRS * rows <= (VL == 8 ? 12 : 24) ? PAIRS : 1;
}

ALWAYS_INLINE void linear_rows(const struct linear_tile *t, int rows, enum pack pack)
{
    float edge[TILE_ROWS * PANEL];
    bool whole = t->cols == PANEL;
    float *out = whole ? t->out : edge;
    size_t stride = whole ? t->out_stride : PANEL;
    const int n_q = pairs_of_pass(rows);
    for (int q = 0; q < PAIRS; q += n_q) {
        struct pair tree[TREE_LEVELS][TILE_ROWS], acc[TILE_ROWS];
        long k = 0;
        for (int s = 0; s < t->n_slices; k = t->slice_end[s++]) {
            UNROLL
            for (int i = 0; i < n_q * rows; i++)
                acc[i].a = acc[i].b = v_splat(0.0f);
            run_slice(rows, n_q, t, pack, q, s, k, acc);
            if (t->n_slices > 1)
                climb_tree(n_q * rows, s, tree, acc);
        }
        UNROLL
        for (int i = 0; i < n_q * rows; i++) {
            int at = VL * (q + i / rows);
            if (t->bias) {
                acc[i].a = v_add(acc[i].a, v_load(t->bias + at));
                acc[i].b = v_add(acc[i].b, v_load(t->bias + PANEL / 2 + at));
            }
            v_store(out + (size_t)(i % rows) * stride + at, acc[i].a);
            v_store(out + (size_t)(i % rows) * stride + PANEL / 2 + at, acc[i].b);
        }
    }
    for (int r = 0; !whole && r < rows; r++)
        memcpy(t->out + (size_t)r * t->out_stride, edge + r * PANEL,
               (size_t)t->cols * sizeof(float));
}

/* One function for each number of rows. */
struct tile_fns {
    void (*linear[PACK_N])(const struct linear_tile *t);
};

#define LINEAR_FN(R, PACK)                                                                         \
    static void linear_##PACK##_##R(const struct linear_tile *t)                                   \
    {                                                                                              \
        linear_rows(t, R, PACK);                                                                   \
    }
#define TILE_FNS(R)                                                                                \
    LINEAR_FN(R, PACK_F32)                                                                         \
    LINEAR_FN(R, PACK_F16)                                                                         \
    LINEAR_FN(R, PACK_BF16)                                                                        \
    LINEAR_FN(R, PACK_E4M3)                                                                        \
    LINEAR_FN(R, PACK_INT8)                                                                        \
    LINEAR_FN(R, PACK_INT4)                                                                        \
    LINEAR_FN(R, PACK_NF4)                                                                         \
    LINEAR_FN(R, PACK_FP4)                                                                         \
    LINEAR_FN(R, PACK_NVFP4)
#define TILE_ROW(R)                                                                                \
    [R] = {{linear_PACK_F32_##R, linear_PACK_F16_##R, linear_PACK_BF16_##R, linear_PACK_E4M3_##R,  \
            linear_PACK_INT8_##R, linear_PACK_INT4_##R, linear_PACK_NF4_##R, linear_PACK_FP4_##R,  \
            linear_PACK_NVFP4_##R}},
#define FIRST_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define LAST_ROWS(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

FIRST_ROWS(TILE_FNS)
#ifdef TILE_ROWS_14
LAST_ROWS(TILE_FNS)
#endif

static const struct tile_fns tile_fns[TILE_ROWS + 1] = {FIRST_ROWS(TILE_ROW)
#ifdef TILE_ROWS_14
                                                            LAST_ROWS(TILE_ROW)
#endif
};

static void fast_linear_tile(const struct linear_tile *t)
{
    tile_fns[t->rows].linear[t->pack](t);
}

#endif
