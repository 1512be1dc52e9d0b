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

/* Lanes of 16 bytes in a head. */
static inline int int8_lanes(int d)
{
    return (d + LANE_BYTES - 1) / LANE_BYTES;
}

ALWAYS_INLINE vw load_bytes(const char *p, int n)
{
    return n >= STEP ? w_load(p) : w_load_first(p, n);
}

static inline const char *int8_row(const struct kv_operand *o, size_t row)
{
    return (const char *)o->base + row * o->row_elems;
}

enum { QUERY_PAIRS = HEAD_MAX / 2 }; /* between rows of queries */

/* What a tile of rows multiplies keys with: per row the start of its sums, and unit * scale; and pairs of
 * each word of the queries, q [rows, QUERY_PAIRS]: even, odd of a word, then of the next, zeros at the end. */
struct int8_query {
    const int32_t *q, *start;
    const float *factor;
};

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

/* Steps of `ahead` for LANE_BYTES of the keys of nv vectors: one per cache line.  Zen 4 drops some of the
 * prefetches that are issued together. */
ALWAYS_INLINE int int8_fetches(int nv)
{
    return nv * VL * LANE_BYTES / LINE;
}

/* acc [nv][rows] += q . four words of nv vectors of keys, q [rows, QUERY_PAIRS]. */
ALWAYS_INLINE void int8_dims(int rows, int nv, vf (*words)[4], const int32_t *q, vw *acc,
                             struct ahead *ahead)
{
    UNROLL
    for (int m = 0; m < 8; m++) {
        vw x[2];
        if (m % (8 / int8_fetches(nv)) == 0)
            ahead_fetch(ahead);
        UNROLL
        for (int v = 0; v < nv; v++) {
            vw word = words_of_f(words[v][m / 2]);
            x[v] = m % 2 ? w_odd(word) : w_even(word);
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int v = 0; v < nv; v++)
                acc[v * rows + r] = w_dot_at(acc[v * rows + r], x[v], q + r * QUERY_PAIRS + m);
        }
    }
}

/* v_load_lanes of n < LANE_BYTES bytes at p + at * row_bytes, zeros behind them. */
ALWAYS_INLINE void int8_rest(const char *p, const size_t *at, size_t row_bytes, int n, vf *words)
{
    char bytes[VL * LANE_BYTES] = {0};
    for (int j = 0; j < VL; j++)
        memcpy(bytes + j * LANE_BYTES, p + at[j] * row_bytes, (size_t)n);
    v_load_lanes(bytes, LANE_BYTES, words);
}

/* Scores c [n_kv][rows, PANEL] (P_STRIDE apart) of a panel of keys in the cache, as score_cache. */
ALWAYS_INLINE void int8_scores(int rows, const struct attn_split *a, const size_t *at,
                               const struct int8_query *queries, float *c, struct ahead *ahead)
{
    const int nv = score_vectors(rows), d = a->d;
    const size_t row_bytes = a->k.row_elems;
    const bool copied = lines_are_copied(at, a->block_len, row_bytes);
    struct key_lines lines;
    float scales[ATTN_ROWS * PANEL];
    head_scales(&a->k, a->n_kv, at, a->block_len, scales, PANEL);
    for (int g = 0; g < a->n_kv * (PANEL / VL); g += nv) {
        vw acc[2 * DIRECT_ROWS];
        int head = g / (PANEL / VL), key = g % (PANEL / VL) * VL, i = 0;
        const struct int8_query *t = &queries[head];
        const char *p = (const char *)a->k.base + head * d;
        const int32_t *q = t->q;
        float *to = c + head * rows * P_STRIDE + key;
        UNROLL
        for (int j = 0; j < nv * rows; j++)
            acc[j] = w_splat(t->start[j % rows]);
        NO_UNROLL
        for (; i < d; i += LANE_BYTES, p += LANE_BYTES, q += 8) {
            vf words[2][4];
            if (i % 64 == 0)
                take_lines(&lines, nv, copied, p, at + key, row_bytes, d - i);
            ahead_turn(ahead);
            UNROLL
            for (int v = 0; v < nv; v++) {
                if (d - i >= LANE_BYTES)
                    v_load_lanes(lines.p[v], lines.stride, words[v]);
                else
                    int8_rest(p, at + key + v * VL, row_bytes, d - i, words[v]);
                v_transpose_4(words[v]);
                lines.p[v] += LANE_BYTES;
            }
            int8_dims(rows, nv, words, q, acc, ahead);
        }
        UNROLL
        for (int j = 0; j < nv * rows; j++) {
            vf factor = v_mul(v_splat(t->factor[j % rows]), v_load(scales + (g + j / rows) * VL));
            v_store(to + j % rows * P_STRIDE + j / rows * VL, v_mul(w_float(acc[j]), factor));
        }
    }
}

/* Steps of `ahead` that int8_scores takes. */
static inline int int8_score_steps(const struct attn_split *a)
{
    int nv = score_vectors(a->rows);
    return a->n_kv * (PANEL / VL) / nv * int8_lanes(a->d) * int8_fetches(nv);
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
        for (int i = 0; i < 2 * int8_words(d); i++, w += PANEL, q++) {
            vw x = w_load(w), y = w_load(w + PANEL / 2);
            UNROLL
            for (int r = 0; r < rows; r++) {
                a[r] = w_dot(a[r], x, w_splat(q[r * QUERY_PAIRS]));
                b[r] = w_dot(b[r], y, w_splat(q[r * QUERY_PAIRS]));
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
    for (int i = 0; i < d; i += STEP) {
        float rest[STEP], *to = d - i < STEP ? rest : out + i;
        vf x[4], y[4];
        UNROLL
        for (int c = 0; c < 4; c++)
            x[c] = v_mul(w_float(w_load(o + i + VL * c)), v_splat(unit));
        v_zip(x[0], x[1], &y[0], &y[1]);
        v_zip(x[2], x[3], &y[2], &y[3]);
        UNROLL
        for (int j = 0; j < 4; j++)
            v_store_lanes(to + 4 * j, y[j], 16);
        if (to == rest)
            memcpy(out + i, rest, (size_t)(d - i) * sizeof *rest);
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

/* o [rows, nv vectors] (SUM_STRIDE apart) += w v: element i of the values on, vectors from c0 on. */
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
            acc[r * nv + j] = w_load(o + r * SUM_STRIDE + VL * j);
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
            UNROLL
            for (int j = 0; j < nv; j++)
                acc[r * nv + j] = w_dot_at(acc[r * nv + j], x[j], w + r * SPLIT + k);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int j = 0; j < nv; j++)
            w_store(o + r * SUM_STRIDE + VL * j, acc[r * nv + j]);
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
    for (int i = 0; i < d; i += STEP) {
        UNROLL
        for (int c = 0; c < 4; c += nv)
            int8_pass(rows, nv, direct, &from, w, i, c, o, d, ahead);
    }
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
    static void int8_scores_##R(const struct attn_split *a, const size_t *at,                      \
                                const struct int8_query *queries, float *c, struct ahead *h)       \
    {                                                                                              \
        int8_scores(R, a, at, queries, c, h);                                                      \
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
    void (*scores)(const struct attn_split *a, const size_t *at, const struct int8_query *queries,
                   float *c, struct ahead *h);
    void (*sums)(const struct int8_values *v, const int16_t *w, int32_t *o, int d, struct ahead *h);
} int8_direct[DIRECT_ROWS + 1] = {FIRST_ROWS(INT8_DIRECT_ROW)
#ifdef TILE_ROWS_14
                                      INT8_DIRECT_ROW(7) INT8_DIRECT_ROW(8)
#endif
};

#endif
