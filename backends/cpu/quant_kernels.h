/* Products with quantised weights over the vectors of one instruction set.  The including file has
 * included bytes_X.h, which defines the names that quant_unpack.h lists and
 *   Q_ROWS                   most rows whose sums are in registers at once
 *   W_OFFSET                 weights are multiplied as the bytes q + W_OFFSET
 *   i_splat, i_dot, f_of_i   vectors of one int32 a column; i_dot adds four products a column
 * with DOT_WIDE, where i_dot takes unsigned weights and keeps all bits of their products,
 *   i_add, i_sixteenth       sums, and a sixteenth of multiples of 16
 * and, with DOT_NARROW, for weights that are multiplied as their codes (unsigned):
 *   i_mul16, i_add16         two sums of two products a column, in 16 bits; adds them
 *   i_widen, i_widen_eight   adds both sums of each column, or eight times these, to an int32
 *   x_parts                  see x_words.h
 * and, with DOT_WORDS, for signed weights and several rows:
 *   x_words                  see x_words.h
 *   i_words                  the even and the odd bytes of a vector as words
 *   i_dot_words              adds two products of words a column
 * and, with DOT_UNITS, where several rows are multiplied by quant_neon.h:
 *   i_dot_quad               i_dot with one of 4 quads of x, or, with DOT_MATRIX,
 *   b_zip_quads              two quads of 4 columns to 8 bytes of each
 *
 * and, with DIRECT_FEW, a few rows take the codes as one row does (quant_few.h).
 *
 * One row (decode) takes the codes from the panel straight into the products.  More rows share the
 * work: UNPACK_GROUPS groups are unpacked to bytes and f32 scales, then every tile is multiplied
 * with them. */
#ifndef BACKENDS_CPU_QUANT_KERNELS_H
#define BACKENDS_CPU_QUANT_KERNELS_H

#include <assert.h>

#include "backends/cpu/quant_unpack.h"
#include "backends/cpu/quant_x.h"

struct sums {
    vi a, b;
};

/* The integer sum's first value, which cancels the offset of weights that are multiplied as
 * q + offset. */
ALWAYS_INLINE vi start_sum(const struct quant_x *x, int halves, int h, int offset)
{
    int32_t start = halves == 1 ? x->start : h == 0 ? x->start_low : x->start - x->start_low;
    return i_splat(offset == 128 ? start : (start >> 7) * offset); /* a multiple of 128 */
}

ALWAYS_INLINE vi load_quad(const char *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return i_splat(four);
}

/* acc after the integer sum of one scale. */
ALWAYS_INLINE struct pair add_sum(struct pair acc, struct sums dot, const struct scales *s,
                                  bool min, int halves, int h, const struct quant_x *x)
{
    vf d = v_splat(x->d);
    acc.a = v_fma(f_of_i(dot.a), v_mul(s->scale.a, d), acc.a);
    acc.b = v_fma(f_of_i(dot.b), v_mul(s->scale.b, d), acc.b);
    if (min) {
        vf f = v_splat(min_factor(x, halves, h));
        acc.a = v_fma(s->min.a, f, acc.a);
        acc.b = v_fma(s->min.b, f, acc.b);
    }
    return acc;
}

/* Quads whose products with codes of that many bits can be summed in 16 bits:
 * 2 (2^bits - 1) 127 each. */
ALWAYS_INLINE int narrow_quads(int bits)
{
    return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}

#ifdef DOT_NARROW
enum { HAS_NARROW = 1 };
/* What follows loads its operands itself: with 16 registers, operands that are loaded once for
 * several products would be stored and loaded for each of them. */
ALWAYS_INLINE void load_again(void)
{
    __asm__ volatile("" ::: "memory");
}
/* dot after quad j of n: narrow has the products since the last multiple of `quads`. */
ALWAYS_INLINE vi narrow_dot(vi dot, vi *narrow, vb w, vi x, int j, int n, int quads)
{
    vi products = i_mul16(w, x);
    *narrow = j % quads == 0 ? products : i_add16(*narrow, products);
    return (j + 1) % quads == 0 || j + 1 == n ? i_widen(dot, *narrow) : dot;
}
#else
enum { HAS_NARROW = 0 };
ALWAYS_INLINE void load_again(void)
{
}
ALWAYS_INLINE vi narrow_dot(vi dot, vi *narrow, vb w, vi x, int j, int n, int quads)
{
    (void)narrow, (void)j, (void)n, (void)quads;
    return i_dot(dot, w, x);
}
#endif

/* Several rows are multiplied with codes where there are some. */
#ifdef DOT_UNITS
enum { HAS_CODES = 1 };
#else
enum { HAS_CODES = HAS_NARROW };
#endif

/* A group of some rows of x as words: quad j is the words of quads[row][0][j] and [1][j]. */
struct x_words {
    alignas(64) int32_t quads[Q_ROWS][2][QUADS];
};

#ifdef DOT_WORDS
enum { HAS_WORDS = 1 };
ALWAYS_INLINE void take_words(int rows, const char *x, struct x_words *out)
{
    UNROLL
    for (int r = 0; r < rows; r++)
        x_words(x + r * GROUP, out->quads[r][0], out->quads[r][1]);
}

/* dot [rows] of both vectors of columns += quad j of the weights a and b. */
ALWAYS_INLINE void dot_words(int rows, struct sums *dot, vb a, vb b, const struct x_words *x, int j)
{
    vi even[2], odd[2];
    i_words(a, &even[0], &odd[0]);
    i_words(b, &even[1], &odd[1]);
    UNROLL
    for (int r = 0; r < rows; r++) {
        vi low = i_splat(x->quads[r][0][j]), high = i_splat(x->quads[r][1][j]);
        dot[r].a = i_dot_words(i_dot_words(dot[r].a, even[0], low), odd[0], high);
        dot[r].b = i_dot_words(i_dot_words(dot[r].b, even[1], low), odd[1], high);
    }
}
#else
enum { HAS_WORDS = 0 };
ALWAYS_INLINE void take_words(int rows, const char *x, struct x_words *out)
{
    (void)rows, (void)x, (void)out;
}
ALWAYS_INLINE void dot_words(int rows, struct sums *dot, vb a, vb b, const struct x_words *x, int j)
{
    (void)rows, (void)dot, (void)a, (void)b, (void)x, (void)j;
}
#endif

#include "backends/cpu/quant_direct.h"

/* ---- several rows ---- */

/* Some rows of a tile, which has in_tile: x and info begin at the first of them. */
struct tile_x {
    const char *x;
    const struct quant_x *info;
    int in_tile;
    /* These rows read ahead of what is there, see group_spread, quad_bytes for each quad; NULL: of nothing. */
    const char *spread;
    size_t quad_bytes;
    int offset; /* weights are multiplied as q + offset */
    struct read_ahead read;
    const char *next; /* x of the next tile: prefetched */
    bool first;       /* of a slice: sums begin at 0 */
};

/* sum [rows] = acc [rows][PANEL], or 0 for the first groups of a slice. */
ALWAYS_INLINE void load_sums(int rows, bool first, float (*acc)[PANEL], struct pair (*sum)[PAIRS])
{
    UNROLL
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < PAIRS; q++)
            sum[r][q] =
                first ? (struct pair){v_splat(0.0f), v_splat(0.0f)}
                      : (struct pair){v_load(acc[r] + VL * q), v_load(acc[r] + VL * q + PANEL / 2)};
}

ALWAYS_INLINE void store_sums(int rows, struct pair (*sum)[PAIRS], float (*acc)[PANEL])
{
    UNROLL
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < PAIRS; q++) {
            v_store(acc[r] + VL * q, sum[r][q].a);
            v_store(acc[r] + VL * q + PANEL / 2, sum[r][q].b);
        }
}

#include "backends/cpu/quant_few.h"

#ifdef DOT_UNITS
#include "backends/cpu/quant_neon.h"
#else
enum { TILE_UNIT = 1 };
/* acc [rows][PANEL], or 0, after the n groups of w; x begins at the first of them.  narrow: weights are
 * codes, narrow_quads of them; 0: they are q + W_OFFSET. */
ALWAYS_INLINE void add_groups(int rows, int halves, bool min, int narrow, const struct unpacked *w,
                              int n, const struct tile_x *tx, float (*acc)[PANEL])
{
    const int offset = narrow ? tx->offset : W_OFFSET;
    const char *x = tx->x, *infos = (const char *)tx->info;
    const char *spread = tx->spread, *next = tx->next;
    struct pair sum[Q_ROWS][PAIRS];
    struct x_words words;
    int step = tx->in_tile * X_GROUP_BYTES;
    load_sums(rows, tx->first, acc, sum);
    for (int i = 0; i < n; i++, w++, x += step, infos += step, next += step) {
        UNROLL
        for (int at = 0; at < rows * X_GROUP_BYTES; at += 64)
            __builtin_prefetch(next + at);
        const struct quant_x *info = (const struct quant_x *)(const void *)infos;
        if (HAS_NARROW && spread) {
            UNROLL
            for (int j = 0; j < QUADS; j++)
                read_ahead_quad(tx->read, spread, j, tx->quad_bytes);
        }
        if (HAS_WORDS && !narrow)
            take_words(rows, x, &words);
        for (int q = 0; q < PAIRS; q++) {
            const uint8_t *wq = w->w + 4 * VL * q;
            UNROLL
            for (int h = 0; h < halves; h++) {
                struct sums dot[Q_ROWS], sum16[Q_ROWS];
                const int quads = QUADS / halves;
                load_again();
                UNROLL
                for (int r = 0; r < rows; r++)
                    dot[r].a = dot[r].b =
                        narrow && min ? i_splat(0) : start_sum(&info[r], halves, h, offset);
                UNROLL
                for (int j = h * quads; j < (h + 1) * quads; j++) {
                    if (!HAS_NARROW && q == 0 && spread)
                        read_ahead_quad(tx->read, spread, j, tx->quad_bytes);
                    vb a = b_load(wq + j * PANEL * 4), b = b_load(wq + j * PANEL * 4 + 64);
                    if (HAS_WORDS && !narrow) {
                        dot_words(rows, dot, a, b, &words, j);
                        continue;
                    }
                    UNROLL
                    for (int r = 0; r < rows; r++) {
                        vi quad = load_quad(x + r * GROUP + 4 * j);
                        if (narrow) {
                            int at = j - h * quads;
                            dot[r].a =
                                narrow_dot(dot[r].a, &sum16[r].a, a, quad, at, quads, narrow);
                            dot[r].b =
                                narrow_dot(dot[r].b, &sum16[r].b, b, quad, at, quads, narrow);
                        } else {
                            dot[r].a = i_dot(dot[r].a, a, quad);
                            dot[r].b = i_dot(dot[r].b, b, quad);
                        }
                    }
                }
                const float *sc = w->scale[h] + VL * q, *mi = w->min[h] + VL * q;
                struct scales s = {{v_load(sc), v_load(sc + PANEL / 2)},
                                   {v_load(mi), v_load(mi + PANEL / 2)}};
                UNROLL
                for (int r = 0; r < rows; r++) {
                    sum[r][q] = add_sum(sum[r][q], dot[r], &s, min, halves, h, &info[r]);
                }
            }
        }
        spread += spread ? QUADS * tx->quad_bytes : 0;
    }
    store_sums(rows, sum, acc);
}
#endif

typedef void direct_fn(const struct quant_panel *t);
typedef void groups_fn(const struct unpacked *w, int n, const struct tile_x *x,
                       float (*acc)[PANEL]);

/* ahead: with reading ahead, whose branches cost time where there is none. */
#define DIRECT_FN(NAME, AHEAD, BITS, ...)                                                          \
    static void direct_##NAME##_##AHEAD(const struct quant_panel *t)                               \
    {                                                                                              \
        if (BITS < 8 && !t->pack->values)                                                          \
            direct_row((struct quant_layout){BITS, __VA_ARGS__}, t, true, AHEAD);                  \
        else if (BITS == 8 || BITS == 4)                                                           \
            direct_row((struct quant_layout){BITS, __VA_ARGS__}, t, false, AHEAD);                 \
    }
#define KIND_FNS(NAME, BITS, ...)                                                                  \
    DIRECT_FN(NAME, 0, BITS, __VA_ARGS__)                                                          \
    DIRECT_FN(NAME, 1, BITS, __VA_ARGS__)                                                          \
    static void unpack_##NAME(const struct quant_panel *t, int32_t g, int n, struct unpacked *out) \
    {                                                                                              \
        bool as_codes = HAS_CODES && BITS < 8 && !t->pack->values;                                 \
        unpack_groups((struct quant_layout){BITS, __VA_ARGS__}, t, g, n, out, as_codes, W_OFFSET); \
    }
QUANT_KINDS(KIND_FNS)

#define KIND_ROW(NAME, ...) [NAME] = {{direct_##NAME##_0, direct_##NAME##_1}, unpack_##NAME},
static const struct {
    direct_fn *direct[2]; /* by `ahead` */
    unpack_fn *unpack;
} kind_fns[QK_N] = {QUANT_KINDS(KIND_ROW)};

/* By rows, halves - 1, has_min, and log2 of narrow (0: weights are no codes). */
#define GROUPS_FN(R, HALVES, MIN, NARROW)                                                          \
    static void groups_##R##_##HALVES##_##MIN##_##NARROW(                                          \
        const struct unpacked *w, int n, const struct tile_x *x, float(*acc)[PANEL])               \
    {                                                                                              \
        add_groups(R, HALVES, MIN, NARROW, w, n, x, acc);                                          \
    }
#ifdef DOT_NARROW
#define GROUPS_FNS_OF(R, HALVES, MIN)                                                              \
    GROUPS_FN(R, HALVES, MIN, 0)                                                                   \
    GROUPS_FN(R, HALVES, MIN, 2)                                                                   \
    GROUPS_FN(R, HALVES, MIN, 4)                                                                   \
    GROUPS_FN(R, HALVES, MIN, 8)
#define GROUPS_ROW_OF(R, HALVES, MIN)                                                              \
    {                                                                                              \
        groups_##R##_##HALVES##_##MIN##_0, groups_##R##_##HALVES##_##MIN##_2,                      \
            groups_##R##_##HALVES##_##MIN##_4, groups_##R##_##HALVES##_##MIN##_8                   \
    }
#else
#define GROUPS_FNS_OF(R, HALVES, MIN) GROUPS_FN(R, HALVES, MIN, 0)
#define GROUPS_ROW_OF(R, HALVES, MIN)                                                              \
    {                                                                                              \
        groups_##R##_##HALVES##_##MIN##_0                                                          \
    }
#endif
#define GROUPS_FNS(R)                                                                              \
    GROUPS_FNS_OF(R, 1, 0) GROUPS_FNS_OF(R, 1, 1) GROUPS_FNS_OF(R, 2, 0) GROUPS_FNS_OF(R, 2, 1)
#define GROUPS_ROW(R)                                                                              \
    [R] = {{GROUPS_ROW_OF(R, 1, 0), GROUPS_ROW_OF(R, 1, 1)},                                       \
           {GROUPS_ROW_OF(R, 2, 0), GROUPS_ROW_OF(R, 2, 1)}},
#if defined(Q_ROWS_8)
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif defined(Q_ROWS_6)
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define ALL_ROWS(X) X(1) X(2) X(3) X(4)
#endif
ALL_ROWS(GROUPS_FNS)
static groups_fn *const groups_fns[Q_ROWS + 1][2][2][HAS_NARROW ? 4 : 1] = {ALL_ROWS(GROUPS_ROW)};

/* Groups [g, g + n) of slice s, the first and the last ones of it or not, which begin x_at bytes into
 * a row of x. */
struct some_groups {
    int s;
    int32_t g, n;
    bool first, last;
    size_t x_at;
};

/* How many tiles share the reading ahead of the groups that follow; else the first does it alone.  Few
 * tiles do where the memory is what they wait for (Zen 4, us, alone / shared: Q8_0 with 16 rows 2380 /
 * 1710, with 64 rows 6400 / 6600; with AVX2 16 rows 4760 / 4450; Q4_0 with AVX2 2680 / 2780).
 * AArch64 was not measured. */
static int tiles_ahead(const struct quant_layout *l, int n_tiles)
{
    return VL >= 8 && l->bits == 8 && n_tiles <= 4 ? n_tiles : 1;
}

/* One tile with groups [g, g + n) of the panel, which are not unpacked, FEW_ROWS rows at a time. */
static void add_few_tile(const struct quant_panel *t, int32_t g, int32_t n,
                         const struct tile_x *tile, float (*acc)[PANEL])
{
    const int parts = (tile->in_tile + FEW_ROWS - 1) / FEW_ROWS;
    struct tile_x tx = *tile;
    for (int p = 0, r = 0, rows; p < parts; p++, r += rows, tx.spread = NULL) {
        rows = cut_units(tile->in_tile, TILE_UNIT, parts, p + 1) - r;
        tx.x = tile->x + r * GROUP;
        tx.info = tile->info + r;
        add_few(rows, t, g, n, &tx, acc + r);
    }
}

/* All tiles with some groups of the panel; w: these groups, NULL: they are not unpacked. */
static void add_tiles(const struct quant_panel *t, const struct some_groups *some,
                      const struct unpacked *w, struct slice_tree *own)
{
    const struct quant_layout *l = t->pack->lay;
    const struct slice_out out = {t->shape.n_slices, t->cols, t->bias, t->out, t->out_stride};
    const size_t x_bytes = (size_t)x_groups(&t->shape) * X_GROUP_BYTES; /* of a row of x */
    const bool codes = HAS_CODES && l->bits < 8 && !t->pack->values;
    float(*acc)[PANEL] = slice_sums(own, some->s);
    const int ahead = w ? tiles_ahead(l, t->n_tiles) : 1;
    struct tile_x tx = {.spread = group_spread(l, t->panel, some->g),
                        .quad_bytes = (quad_bytes_of(l) + (size_t)ahead - 1) / (size_t)ahead,
                        .offset = codes ? -t->pack->low : W_OFFSET,
                        .first = some->first};
    tx.read = w              ? read_ahead_of_next(t->read, AHEAD_OF_GROUPS)
              : l->bits == 8 ? t->read
                             : read_ahead_of_next(t->read, AHEAD_OF_FEW);
    int narrow = 0;
    if (HAS_NARROW && codes)
        narrow = l->bits <= 4 ? 3 : l->bits == 5 ? 2 : 1;
    assert(!l->has_min || l->bits == 8 || t->pack->low == 0);
    for (int i = 0, r0 = 0, end; i < t->n_tiles; i++, r0 = end) {
        end = cut_units(t->rows, TILE_UNIT, t->n_tiles, i + 1);
        tx.in_tile = end - r0;
        tx.x = t->x + (size_t)r0 * x_bytes + (size_t)tx.in_tile * some->x_at;
        tx.info = (const struct quant_x *)(const void *)(tx.x + tx.in_tile * GROUP);
        tx.next = tx.x + x_bytes * (size_t)tx.in_tile;
        if (w)
            groups_fns[tx.in_tile][l->halves - 1][l->has_min][narrow](w, some->n, &tx, acc + r0);
        else
            add_few_tile(t, some->g, some->n, &tx, acc + r0);
        tx.spread = i + 1 < ahead ? tx.spread + (size_t)(some->n * QUADS) * tx.quad_bytes : NULL;
        if (some->last)
            climb_rows(own, &out, some->s, r0, tx.in_tile);
    }
}

static void add_empty_slice(const struct quant_panel *t, int s, struct slice_tree *own)
{
    const struct slice_out out = {t->shape.n_slices, t->cols, t->bias, t->out, t->out_stride};
    memset(slice_sums(own, s), 0, (size_t)t->rows * sizeof own->acc[0]);
    climb_rows(own, &out, s, 0, t->rows);
}

static void fast_quant_panel(const struct quant_panel *t, void *scratch)
{
    struct quant_scratch *own = scratch;
    const bool few = t->rows <= few_most(t->pack);
    const int32_t most = few ? FEW_GROUPS : UNPACK_GROUPS;
    struct some_groups some = {0};
    if (t->rows == 1) {
        kind_fns[t->pack->kind].direct[t->read.eighths > 0](t);
        return;
    }
    for (; some.s < t->shape.n_slices; some.s++) {
        int32_t from, end;
        slice_groups(&t->shape, some.s, &from, &end);
        if (from == end)
            add_empty_slice(t, some.s, &own->sums);
        for (some.g = from; some.g < end; some.g += some.n) {
            some.n = end - some.g < most ? end - some.g : most;
            some.first = some.g == from;
            some.last = some.g + some.n == end;
            if (!few)
                kind_fns[t->pack->kind].unpack(t, some.g, some.n, own->group);
            add_tiles(t, &some, few ? NULL : own->group, &own->sums);
            some.x_at += (size_t)some.n * X_GROUP_BYTES;
        }
    }
}

#include "backends/cpu/sorted_kernels.h"

#define QUANT_KERNELS                                                                              \
    {                                                                                              \
        .tile_rows = Q_ROWS, .tile_unit = TILE_UNIT, .scratch = sizeof(struct quant_scratch),      \
        .quantize_row = row_quantize, .panel = fast_quant_panel, .sort_row = row_sort,             \
        .sorted = fast_sorted_panel                                                                \
    }

#endif
