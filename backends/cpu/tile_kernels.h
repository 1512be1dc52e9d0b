/* Matrix products over the vectors of one instruction set.  The including file has included
 * simd_X.h, which defines
 *   VL          floats of a vector: 4, 8 or 16
 *   TILE_ROWS   rows whose accumulators fit the registers
 *   v_load, v_store, v_splat, v_add, v_mul, v_div, v_fma, v_load_f16, v_load_bf16, v_load_i8,
 *   v_load_bf16_pairs, v_load_halves, v_transpose
 *   v_max, v_load_e4m3, v_widen_X   for attention (attn_*.h)
 *
 * A tile: `rows` broadcast values of x against the columns of a panel, k ascending, one pair of
 * vectors (struct pair) after the other. */
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

/* acc[r] += sum over [k0, k1) of x(r, k) * w(k, columns of pair q), where
 * x(r, k) = x[r * row_step + k * k_step].  rows and the steps are constants at every call, so acc
 * stays in registers. */
ALWAYS_INLINE void run_chains(int rows, long row_step, long k_step, enum dtype t, const float *x,
                              const void *w, int q, long k0, long k1, struct read_ahead read,
                              struct pair *acc)
{
    const size_t row_bytes = PANEL * (t == DT_F32 ? sizeof(float) : sizeof(uint16_t));
    for (long k = k0; k < k1; k++) {
        struct pair p = load_pair(t, w, k, q);
        read_ahead(read, (const char *)w + (size_t)k * row_bytes, (int)row_bytes);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf b = v_splat(x[r * row_step + k * k_step]);
            acc[r].a = v_fma(b, p.a, acc[r].a);
            acc[r].b = v_fma(b, p.b, acc[r].b);
        }
    }
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
ALWAYS_INLINE void run_fp8_chains(int rows, const struct linear_tile *t, int q, long k0, long k1,
                                  struct pair *acc)
{
    const size_t head = pack_head_bytes(PACK_E4M3, t->head, t->slice_end[t->n_slices - 1]);
    const uint8_t *codes = (const uint8_t *)t->panel + head + VL * q;
    for (long k = k0; k < k1;) {
        long block = (t->head.skip + k) / FP8_BLOCK, end = (block + 1) * FP8_BLOCK - t->head.skip;
        const float *at = (const float *)t->panel + block * PANEL + VL * q;
        struct pair scale = {v_load(at), v_load(at + PANEL / 2)};
        for (end = end < k1 ? end : k1; k + 1 < end; k += 2) {
            struct pair w[2];
            fp8_two_rows(codes + k * PANEL, scale, w);
            read_ahead(t->read, codes + k * PANEL, 2 * PANEL);
            add_row(rows, t->x + k * rows, w[0], acc);
            add_row(rows, t->x + (k + 1) * rows, w[1], acc);
        }
        for (; k < end; k++) {
            const uint8_t *code = codes + k * PANEL;
            struct pair w = {v_mul(v_load_e4m3(code), scale.a),
                             v_mul(v_load_e4m3(code + PANEL / 2), scale.b)};
            add_row(rows, t->x + k * rows, w, acc);
        }
    }
}

/* run_chains of indexed integers. */
ALWAYS_INLINE void run_int_chains(int rows, const struct linear_tile *t, enum pack pack, int q,
                                  long k0, long k1, struct pair *acc)
{
    const size_t head = pack_head_bytes(pack, t->head, t->slice_end[t->n_slices - 1]),
                 row_bytes = pack_row_bytes(pack);
    const char *codes = (const char *)t->panel + head + VL * q;
    const float *scales = (const float *)t->panel + VL * q,
                *minima = scales + (size_t)t->head.groups * PANEL;
    const uint16_t *index = pack_index(t->panel, t->head.groups);
    for (long k = k0; k < k1; k++) {
        const char *code = codes + (size_t)k * row_bytes;
        const float *scale = scales + (size_t)index[k] * PANEL,
                    *min = minima + (size_t)index[k] * PANEL;
        struct pair w;
        if (pack == PACK_INT4) {
            v_load_halves((const uint8_t *)code, &w.a, &w.b);
        } else {
            w.a = v_load_i8((const int8_t *)code);
            w.b = v_load_i8((const int8_t *)code + PANEL / 2);
        }
        w.a = v_fma(w.a, v_load(scale), v_load(min));
        w.b = v_fma(w.b, v_load(scale + PANEL / 2), v_load(min + PANEL / 2));
        if ((size_t)k * row_bytes % 64 == 0)
            read_ahead(t->read, code, 64);
        add_row(rows, t->x + k * rows, w, acc);
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
ALWAYS_INLINE void run_level_chains(int rows, const struct linear_tile *t, enum pack pack, int q,
                                    long k0, long k1, struct pair *acc)
{
    const uint8_t *codes = (const uint8_t *)t->panel +
                           pack_head_bytes(pack, t->head, t->slice_end[t->n_slices - 1]) + VL * q;
    const vlevels table = v_levels(pack_levels(pack));
    const long block = t->head.block, skip = t->head.skip;
    for (long k = k0; k < k1;) {
        long b = (skip + k) / block, end = (b + 1) * block - skip;
        struct pair scale = level_scales(t, pack, b, q);
        for (end = end < k1 ? end : k1; k < end; k++) {
            struct pair w;
            const uint8_t *code = codes + k * (PANEL / 2);
            v_load_levels(code, table, &w.a, &w.b);
            w.a = v_mul(w.a, scale.a);
            w.b = v_mul(w.b, scale.b);
            if (k % (64 / (PANEL / 2)) == 0)
                read_ahead(t->read, code, 64);
            add_row(rows, t->x + k * rows, w, acc);
        }
    }
}

/* run_chains over n elements of k of a slice of BF16 weights; x and w are the slice's. */
ALWAYS_INLINE void run_bf16_chains(int rows, const float *x, const uint16_t *w, int q, long n,
                                   struct read_ahead read, struct pair *acc)
{
    w += 2 * VL * q;
    for (long k = 0; k < n; k += 2, x += 2 * rows, w += 2 * PANEL) {
        struct pair even, odd;
        v_load_bf16_pairs(w, &even.a, &odd.a);
        v_load_bf16_pairs(w + PANEL, &even.b, &odd.b);
        read_ahead(read, w, 4 * PANEL);
        add_row(rows, x, even, acc);
        if (k + 1 == n)
            break;
        if (2 * rows + 5 > (VL == 16 ? 32 : 16)) { /* load again what registers cannot keep */
            __asm__("" : "+r"(w));
            v_load_bf16_pairs(w, &even.a, &odd.a);
            v_load_bf16_pairs(w + PANEL, &even.b, &odd.b);
        }
        add_row(rows, x + rows, odd, acc);
    }
}

/* Adds slice s's sums to the tree, a binary counter of finished subtrees; after the last slice acc
 * is the whole sum. */
ALWAYS_INLINE void climb_tree(int rows, int s, struct pair (*tree)[TILE_ROWS], struct pair *acc)
{
    int level = 0;
    for (; s >> level & 1; level++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            acc[r].a = v_add(tree[level][r].a, acc[r].a);
            acc[r].b = v_add(tree[level][r].b, acc[r].b);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        tree[level][r] = acc[r];
}

ALWAYS_INLINE void linear_rows(const struct linear_tile *t, int rows, enum pack pack)
{
    float edge[TILE_ROWS * PANEL];
    bool whole = t->cols == PANEL;
    float *out = whole ? t->out : edge;
    size_t stride = whole ? t->out_stride : PANEL;
    for (int q = 0; q < PAIRS; q++) {
        struct pair tree[TREE_LEVELS][TILE_ROWS], acc[TILE_ROWS];
        long k = 0;
        for (int s = 0; s < t->n_slices; k = t->slice_end[s++]) {
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r].a = acc[r].b = v_splat(0.0f);
            if (pack == PACK_BF16)
                run_bf16_chains(rows, t->x + k * rows,
                                (const uint16_t *)t->panel +
                                    pack_rows(pack, t->slice_end, s, (int32_t)k) * PANEL,
                                q, t->slice_end[s] - k, t->read, acc);
            else if (pack == PACK_E4M3)
                run_fp8_chains(rows, t, q, k, t->slice_end[s], acc);
            else if (pack == PACK_INT8 || pack == PACK_INT4)
                run_int_chains(rows, t, pack, q, k, t->slice_end[s], acc);
            else if (pack_has_levels(pack))
                run_level_chains(rows, t, pack, q, k, t->slice_end[s], acc);
            else
                run_chains(rows, 1, rows, pack_dtype(pack), t->x, t->panel, q, k, t->slice_end[s],
                           t->read, acc);
            if (t->n_slices > 1)
                climb_tree(rows, s, tree, acc);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            if (t->bias) {
                acc[r].a = v_add(acc[r].a, v_load(t->bias + VL * q));
                acc[r].b = v_add(acc[r].b, v_load(t->bias + PANEL / 2 + VL * q));
            }
            v_store(out + (size_t)r * stride + VL * q, acc[r].a);
            v_store(out + (size_t)r * stride + PANEL / 2 + VL * q, acc[r].b);
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
