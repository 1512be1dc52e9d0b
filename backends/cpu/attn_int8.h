/* The sums of attention over int8 entries: integers of 16 bits (attn_round.h) against bytes.  They are
 * exact, so their order is free.
 *
 * One instruction multiplies pairs of 16-bit integers and adds both products to a 32-bit sum.  A 32-bit
 * element of 4 bytes gives two pairs (w_even, w_odd), the first with 128 added, which is taken off by
 * the number that a sum begins with:
 *   keys     4 neighbouring dimensions of one key, the element being that key's;
 *   values   2 neighbouring dimensions of a key, then of the next one: the pairs are of one dimension
 *            and two keys. */
#ifndef BACKENDS_CPU_ATTN_INT8_H
#define BACKENDS_CPU_ATTN_INT8_H

#include "backends/cpu/attn_ahead.h"
#include "backends/cpu/attn_round.h"

enum {
    STEP = 4 * VL, /* bytes of a vector */
    /* Most accumulators of int8_pass. */
    INT8_ACCS = TILE_ROWS < 8 ? 8 : 24,
};

_Static_assert(HEAD_MAX % STEP == 0, "struct attn_scratch has room for int8_cols of any head");

/* Elements of a head in whole words, in whole vectors of bytes. */
static inline int int8_words(int d)
{
    return (d + 3) / 4;
}

static inline int int8_cols(int d)
{
    return (d + STEP - 1) / STEP * STEP;
}

ALWAYS_INLINE vw load_bytes(const char *p, int n)
{
    return n >= STEP ? w_load(p) : w_load_first(p, n);
}

static inline const char *int8_row(const struct kv_operand *o, size_t row)
{
    return (const char *)o->base + row * o->row_elems;
}

/* The scales of a panel of keys. */
static inline void int8_scales(const struct kv_operand *o, const size_t *rows, float *out)
{
    const struct kv_operand from = *o;
    UNROLL
    for (int j = 0; j < PANEL; j++)
        out[j] = int8_scale(&from, rows[j]);
}

/* What a tile of rows multiplies keys with: per row the start of its sums, and unit * scale; and pairs of
 * each word of the queries,
 *   for packed keys  q [words][even, odd][rows];
 *   for the cache    q [int8_cols / STEP][4][even, odd][rows][VL]: of m (of 4) word 4 i + m four times for
 *                    each i, as int8_scores has the keys' words. */
struct int8_query {
    const int32_t *q, *start;
    const float *factor;
};

/* Row r of such a tile from x [d]. */
static void int8_take(const float *x, int d, float scale, bool direct, int r, int rows, int32_t *q,
                      int32_t *start, float *factor)
{
    int16_t a[HEAD_MAX + STEP];
    uint32_t two[(HEAD_MAX + STEP) / 2];
    int32_t pairs[2][(HEAD_MAX + STEP) / 4], sum = 0;
    const int words = int8_cols(d) / 4;
    factor[r] = round_16(x, d, query_top(d), a) * scale;
    memset(a + d, 0, (size_t)(4 * words - d) * sizeof *a);
    memcpy(two, a, (size_t)words * 4 * sizeof *a);
    for (int i = 0; i < words; i++) {
        pairs[0][i] = (int32_t)((two[2 * i] & 0xffffU) | two[2 * i + 1] << 16);
        pairs[1][i] = (int32_t)(two[2 * i] >> 16 | (two[2 * i + 1] & 0xffff0000U));
    }
    for (int i = 0; i < words; i++)
        sum += a[4 * i] + a[4 * i + 2];
    start[r] = -128 * sum;
    for (int i = 0; !direct && i < int8_words(d); i++, q += 2 * rows) {
        q[r] = pairs[0][i];
        q[rows + r] = pairs[1][i];
    }
    for (int i = 0; direct && i < words; i += VL, q += 8 * rows * VL)
        for (int odd = 0; odd < 2; odd++) {
            vw four[4];
            w_spread(w_load(pairs[odd] + i), four);
            for (int m = 0; m < 4; m++)
                w_store(q + ((2 * m + odd) * rows + r) * VL, four[m]);
        }
}

/* n bytes of VL keys, at byte `at` of each row: square[j] = word j of every key. */
ALWAYS_INLINE void int8_square(const char *const *row, int at, int n, vw *square)
{
    vf x[VL];
    UNROLL
    for (int j = 0; j < VL; j++)
        x[j] = f_of_words(load_bytes(row[j] + at, n));
    v_transpose(x);
    UNROLL
    for (int j = 0; j < VL; j++)
        square[j] = words_of_f(x[j]);
}

/* Scores c [rows, PANEL] (P_STRIDE apart) of a panel of keys in the cache.  Four keys are transposed within
 * lanes of 16 bytes: element 4 i + j of vector m is word 4 i + m of key j.  It meets the same word of
 * the query; the lanes are added at the end. */
ALWAYS_INLINE void int8_scores(int rows, const struct kv_operand *k, const size_t *at,
                               const struct int8_query *t, int d, float *c, struct ahead *ahead)
{
    /* AT_ONCE fours of keys share a load of the query, where there are registers enough. */
    enum { LANES_16 = VL / 4, AT_ONCE = VL == 16 ? 2 : 1 };
    const struct kv_operand from = *k;
    struct ahead h = *ahead;
    float scales[PANEL];
    int8_scales(&from, at, scales);
    NO_UNROLL
    for (int k0 = 0; k0 < PANEL; k0 += VL) {
        vw four[DIRECT_ROWS][LANES_16];
        NO_UNROLL
        for (int g = 0; g < LANES_16; g += AT_ONCE) {
            const char *row[4 * AT_ONCE];
            vw acc[AT_ONCE][DIRECT_ROWS];
            const int32_t *q = t->q;
            ahead_turn(&h);
            for (int j = 0; j < 4 * AT_ONCE; j++)
                row[j] = int8_row(&from, at[k0 + 4 * g + j]);
            UNROLL
            for (int j = 0; j < AT_ONCE * rows; j++)
                acc[j / rows][j % rows] = w_splat(0);
            NO_UNROLL
            for (int i = 0; i < d; i += STEP, q += 8 * VL * rows) {
                vw x[AT_ONCE][4];
                UNROLL
                for (int j = 0; j < AT_ONCE; j++) {
                    ahead_fetch(&h);
                    UNROLL
                    for (int m = 0; m < 4; m++)
                        x[j][m] = load_bytes(row[4 * j + m] + i, d - i);
                    w_transpose_4(x[j]);
                }
                UNROLL
                for (int m = 0; m < 8; m++) {
                    vw y[AT_ONCE];
                    UNROLL
                    for (int j = 0; j < AT_ONCE; j++)
                        y[j] = m % 2 ? w_odd(x[j][m / 2]) : w_even(x[j][m / 2]);
                    UNROLL
                    for (int r = 0; r < rows; r++) {
                        vw z = w_load(q + (m * rows + r) * VL);
                        UNROLL
                        for (int j = 0; j < AT_ONCE; j++)
                            acc[j][r] = w_dot(acc[j][r], y[j], z);
                    }
                }
            }
            UNROLL
            for (int j = 0; j < AT_ONCE * rows; j++)
                four[j % rows][g + j / rows] = acc[j / rows][j % rows];
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf factor = v_mul(v_splat(t->factor[r]), v_load(scales + k0));
            vw sum = w_add(w_add_lanes(four[r]), w_splat(t->start[r]));
            v_store(c + r * P_STRIDE + k0, v_mul(w_float(sum), factor));
        }
    }
    *ahead = h;
}

/* Steps of `ahead` that int8_scores takes. */
static inline int int8_score_steps(int d)
{
    return PANEL / 4 * (int8_cols(d) / STEP);
}

/* The panel of keys from k on, as far as they are in [lo, hi): [2 * words][PANEL] pairs. */
static void int8_pack_keys(const struct kv_operand *o, int d, const size_t *rows, int k, int lo,
                           int hi, int32_t *panel)
{
    int from = lo / VL * VL > k ? lo / VL * VL : k, to = hi < k + PANEL ? hi : k + PANEL;
    for (int k0 = from; k0 < to; k0 += VL) {
        const char *row[VL];
        int32_t *dst = panel + k0 % PANEL;
        for (int j = 0; j < VL; j++)
            row[j] = int8_row(o, rows[k0 + j]);
        for (int i = 0; i < d; i += STEP) {
            vw square[VL];
            int n = d - i < STEP ? d - i : STEP;
            int8_square(row, i, n, square);
            for (int j = 0; j < int8_words(n); j++, dst += 2 * PANEL) {
                w_store(dst, w_even(square[j]));
                w_store(dst + PANEL, w_odd(square[j]));
            }
        }
    }
}

/* The same scores from a packed panel and the scales of its keys. */
ALWAYS_INLINE void int8_score_panel(int rows, const int32_t *panel, const float *scales,
                                    const struct int8_query *t, int d, float *c)
{
    for (int j = 0; j < PAIRS; j++) {
        vw a[TILE_ROWS], b[TILE_ROWS];
        const int32_t *w = panel + VL * j, *q = t->q;
        UNROLL
        for (int r = 0; r < rows; r++)
            a[r] = b[r] = w_splat(t->start[r]);
        for (int i = 0; i < 2 * int8_words(d); i++, w += PANEL, q += rows) {
            vw x = w_load(w), y = w_load(w + PANEL / 2);
            UNROLL
            for (int r = 0; r < rows; r++) {
                a[r] = w_dot(a[r], x, w_splat(q[r]));
                b[r] = w_dot(b[r], y, w_splat(q[r]));
            }
        }
        vf s = v_load(scales + VL * j), u = v_load(scales + PANEL / 2 + VL * j);
        UNROLL
        for (int r = 0; r < rows; r++) {
            float *to = c + r * P_STRIDE + VL * j;
            v_store(to, v_mul(w_float(a[r]), v_mul(v_splat(t->factor[r]), s)));
            v_store(to + PANEL / 2, v_mul(w_float(b[r]), v_mul(v_splat(t->factor[r]), u)));
        }
    }
}

/* A row's weights p and the scales of the values become w [SPLIT], 0 for keys outside [lo, hi), the
 * start of its sums, and their unit. */
static void int8_weigh(const float *p, const float *scale, int lo, int hi, int16_t *w,
                       int32_t *start, float *unit)
{
    float x[SPLIT];
    int32_t sum = 0;
    memset(w, 0, SPLIT * sizeof *w);
    *unit = 0.0f;
    for (int j = lo; j < hi; j++)
        x[j] = p[j] * scale[j];
    if (lo < hi)
        *unit = round_16(x + lo, hi - lo, weight_top(), w + lo);
    for (int j = 0; j < SPLIT; j++)
        sum += w[j];
    *start = -128 * sum;
}

/* Sums o [int8_cols(d)] of a row, in the order of int8_pass: of STEP elements VL for each c of 0 to 3,
 * that are 16 i + 8 (c / 2) + 2 j + c % 2 at 4 i + j.  Even ones begin with `start`. */
static void int8_begin(int32_t *o, int d, int32_t start)
{
    for (int i = 0; i < int8_cols(d); i += 2 * VL) {
        w_store(o + i, w_splat(start));
        w_store(o + i + VL, w_splat(0));
    }
}

static void int8_finish(const int32_t *o, int d, float unit, float *out)
{
    for (int i = 0; i < d; i += 16) {
        float x[16];
        const int32_t *at = o + i / STEP * STEP + i % STEP / 4;
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < 4; j++) {
                x[8 * h + 2 * j] = (float)at[2 * h * VL + j] * unit;
                x[8 * h + 2 * j + 1] = (float)at[(2 * h + 1) * VL + j] * unit;
            }
        memcpy(out + i, x, (size_t)(d - i < 16 ? d - i : 16) * sizeof *x);
    }
}

/* Vectors [c0, c0 + nv) of the 4 that n bytes of two keys give; nv 2 or 4. */
ALWAYS_INLINE void int8_zip(int nv, int c0, const char *a, const char *b, int n, vw *x)
{
    vw z[2];
    w_zip(load_bytes(a, n), load_bytes(b, n), &z[0], &z[1]);
    UNROLL
    for (int j = 0; j < nv; j += 2) {
        x[j] = w_even(z[(c0 + j) / 2]);
        x[j + 1] = w_odd(z[(c0 + j) / 2]);
    }
}

/* The values of keys [lo, hi), lo even: [(hi - lo) / 2, rounded up][int8_cols(d)] pairs. */
static void int8_pack_values(const struct kv_operand *o, int d, const size_t *rows, int lo, int hi,
                             int32_t *dst)
{
    for (int k = lo; k < hi; k += 2) {
        const char *a = int8_row(o, rows[k]), *b = int8_row(o, rows[k + 1]);
        for (int i = 0; i < d; i += STEP, dst += STEP) {
            vw x[4];
            int8_zip(4, 0, a + i, b + i, d - i, x);
            for (int c = 0; c < 4; c++)
                w_store(dst + VL * c, x[c]);
        }
    }
}

/* Values of keys [k0, k1) for one pass: pairs from the cache, or packed ones from key k0 on. */
struct int8_values {
    struct kv_operand cache;
    const size_t *rows;
    const int32_t *packed; /* NULL: from the cache */
    int k0, k1;            /* k0 even */
};

/* o [rows, nv vectors] (stride apart) += w v: element i of the values on, vectors from c0 on. */
ALWAYS_INLINE void int8_pass(int rows, int nv, bool direct, const struct int8_values *v,
                             const int16_t *w, int i, int c0, int32_t *o, int d, struct ahead *h)
{
    vw acc[TILE_ROWS * 2 > INT8_ACCS ? TILE_ROWS * 2 : INT8_ACCS];
    const int stride = int8_cols(d), k1 = v->k1;
    const int32_t *packed = v->packed + i + VL * c0;
    o += i + VL * c0;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            acc[r * nv + j] = w_load(o + r * stride + VL * j);
    }
    for (int k = v->k0; k < k1; k += 2) {
        vw x[4];
        if (direct) {
            ahead_step(h);
            int8_zip(nv, c0, int8_row(&v->cache, v->rows[k]) + i,
                     int8_row(&v->cache, v->rows[k + 1]) + i, d - i, x);
        } else {
            UNROLL
            for (int j = 0; j < nv; j++)
                x[j] = w_load(packed + VL * j);
            packed += stride;
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, w + r * SPLIT + k, sizeof pair);
            vw y = w_splat(pair);
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r * nv + j] = w_dot(acc[r * nv + j], x[j], y);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            w_store(o + r * stride + VL * j, acc[r * nv + j]);
    }
}

/* Vectors of a pass. */
ALWAYS_INLINE int int8_vectors(int rows)
{
    return rows * 4 <= INT8_ACCS ? 4 : 2;
}

ALWAYS_INLINE void int8_sums(int rows, bool direct, const struct int8_values *v, const int16_t *w,
                             int32_t *o, int d, struct ahead *ahead)
{
    const int nv = int8_vectors(rows);
    const struct int8_values from = *v;
    struct ahead h = *ahead;
    for (int i = 0; i < d; i += STEP) {
        UNROLL
        for (int c = 0; c < 4; c += nv)
            int8_pass(rows, nv, direct, &from, w, i, c, o, d, &h);
    }
    *ahead = h;
}

/* Steps of `ahead` that int8_sums takes for n keys. */
static inline int int8_value_steps(int rows, int d, int n)
{
    return int8_cols(d) / STEP * (4 / int8_vectors(rows)) * ((n + 1) / 2);
}

#define INT8_FNS(R)                                                                                \
    static void int8_panel_##R(const int32_t *panel, const float *scales,                          \
                               const struct int8_query *t, int d, float *c)                        \
    {                                                                                              \
        int8_score_panel(R, panel, scales, t, d, c);                                               \
    }                                                                                              \
    static void int8_packed_##R(const struct int8_values *v, const int16_t *w, int32_t *o, int d)  \
    {                                                                                              \
        struct ahead none = {0};                                                                   \
        int8_sums(R, false, v, w, o, d, &none);                                                    \
    }
#define INT8_ROW(R) [R] = {int8_panel_##R, int8_packed_##R},
FIRST_ROWS(INT8_FNS)
#ifdef TILE_ROWS_14
LAST_ROWS(INT8_FNS)
#endif

/* For each number of rows: over packed keys and values. */
static const struct {
    void (*scores)(const int32_t *panel, const float *scales, const struct int8_query *t, int d,
                   float *c);
    void (*sums)(const struct int8_values *v, const int16_t *w, int32_t *o, int d);
} int8_fns[TILE_ROWS + 1] = {FIRST_ROWS(INT8_ROW)
#ifdef TILE_ROWS_14
                                 LAST_ROWS(INT8_ROW)
#endif
};

#define INT8_DIRECT_FNS(R)                                                                         \
    static void int8_scores_##R(const struct kv_operand *k, const size_t *at,                      \
                                const struct int8_query *t, int d, float *c, struct ahead *h)      \
    {                                                                                              \
        int8_scores(R, k, at, t, d, c, h);                                                         \
    }                                                                                              \
    static void int8_sums_##R(const struct int8_values *v, const int16_t *w, int32_t *o, int d,    \
                              struct ahead *h)                                                     \
    {                                                                                              \
        int8_sums(R, true, v, w, o, d, h);                                                         \
    }
#define INT8_DIRECT_ROW(R) [R] = {int8_scores_##R, int8_sums_##R},
FIRST_ROWS(INT8_DIRECT_FNS)
#ifdef TILE_ROWS_14
INT8_DIRECT_FNS(7)
INT8_DIRECT_FNS(8)
#endif

/* The same over the cache. */
static const struct {
    void (*scores)(const struct kv_operand *k, const size_t *at, const struct int8_query *t, int d,
                   float *c, struct ahead *h);
    void (*sums)(const struct int8_values *v, const int16_t *w, int32_t *o, int d, struct ahead *h);
} int8_direct[DIRECT_ROWS + 1] = {FIRST_ROWS(INT8_DIRECT_ROW)
#ifdef TILE_ROWS_14
                                      INT8_DIRECT_ROW(7) INT8_DIRECT_ROW(8)
#endif
};

#endif
