/* Products with quantised weights over the vectors of one instruction set.  The including file has
 * included bytes_X.h, which defines VL, Q_ROWS (most rows of a tile), W_OFFSET (weights meet x as
 * the bytes q + W_OFFSET) and
 *   b_load, b_store, b_splat, b_add, b_or, b_field, b_table, b_lookup   vectors of VL columns x 4
 *   i_splat, i_dot, f_of_i   one int32 a column; i_dot adds four products a column
 *
 * One row (decode) takes the codes from the panel straight into the products.  More rows share the
 * work: SPAN groups are unpacked to bytes and f32 scales, then every tile goes over them. */
#ifndef BACKENDS_CPU_QUANT_KERNELS_H
#define BACKENDS_CPU_QUANT_KERNELS_H

#include "backends/cpu/quant_x.h"
#include "backends/cpu/vectors.h"

enum {
    SPAN = 8,               /* groups unpacked at a time: 12 KiB */
    AHEAD_BYTES = 8 * 1024, /* the panel is prefetched this far */
};

struct span_group {
    uint8_t w[QUADS * PANEL * 4]; /* [QUADS][PANEL][4] */
    float scale[2][PANEL], min[2][PANEL];
};

struct quant_scratch {
    struct span_group group[SPAN];
    float acc[QUANT_ROWS][PANEL];
    float tree[TREE_LEVELS][QUANT_ROWS][PANEL];
};

struct bytes {
    vb a, b;
};

struct sums {
    vi a, b;
};

struct scales {
    struct pair scale, min;
};

ALWAYS_INLINE struct bytes both_fields(vb v, int from_a, int from_b, int to, int mask)
{
    return (struct bytes){b_field(v, from_a - to, mask << to), b_field(v, from_b - to, mask << to)};
}

ALWAYS_INLINE struct bytes with_fields(struct bytes c, struct bytes more)
{
    return (struct bytes){b_or(c.a, more.a), b_or(c.b, more.b)};
}

/* Codes of quad j, part q.  See quant_panels.h. */
ALWAYS_INLINE struct bytes load_codes(struct quant_layout l, const uint8_t *group, int j, int q)
{
    struct bytes c;
    group += 4 * VL * q;
    if (l.bits == 8)
        return (struct bytes){b_load(group + j * 128), b_load(group + j * 128 + 64)};
    const uint8_t *twos = group + (l.bits & 4 ? QUADS * 64 : 0);
    const uint8_t *ones = twos + (l.bits & 2 ? QUADS / 2 * 64 : 0);
    if (l.bits & 4)
        c = both_fields(b_load(group + j * 64), 0, 4, 0, 15);
    if (l.bits & 2) {
        int at = j % 2 * 4;
        struct bytes two = both_fields(b_load(twos + j / 2 * 64), at, at + 2, l.bits & 4, 3);
        c = l.bits & 4 ? with_fields(c, two) : two;
    }
    if (l.bits & 1) {
        int at = j % 4 * 2;
        c = with_fields(c, both_fields(b_load(ones + j / 4 * 64), at, at + 1, l.bits & 6, 1));
    }
    return c;
}

/* What takes codes to weights plus an offset: a table for 4 bits, otherwise a number to add. */
ALWAYS_INLINE vb code_map(struct quant_layout l, const struct quant_pack *p, int offset)
{
    uint8_t table[CODES_MAX];
    if (l.bits != 4)
        return b_splat(p->low + offset);
    for (int i = 0; i < CODES_MAX; i++)
        table[i] = (uint8_t)(quant_q(p, (unsigned)i) + offset);
    return b_table(table);
}

ALWAYS_INLINE struct bytes load_weights(struct quant_layout l, vb map, const uint8_t *group, int j,
                                        int q, int offset)
{
    struct bytes c = load_codes(l, group, j, q);
    if (l.bits == 8 && offset == 128)
        return c; /* stored as q + 128 */
    if (l.bits == 4)
        return (struct bytes){b_lookup(map, c.a), b_lookup(map, c.b)};
    return (struct bytes){b_add(c.a, map), b_add(c.b, map)};
}

ALWAYS_INLINE struct pair mul_pair(struct pair x, vf a, vf b)
{
    return (struct pair){v_mul(x.a, a), v_mul(x.b, b)};
}

/* Scales of half h of the group, part q. */
ALWAYS_INLINE struct scales load_scales(struct quant_layout l, const char *head, const char *sub,
                                        int q)
{
    const uint16_t *d = (const uint16_t *)(const void *)head + VL * q;
    const int8_t *m = (const int8_t *)sub + VL * q, *m_min = m + quant_sub_min_step(&l);
    struct scales s = {{v_load_f16(d), v_load_f16(d + PANEL / 2)}, {v_splat(0), v_splat(0)}};
    if (l.has_min)
        s.min = (struct pair){v_load_f16(d + PANEL), v_load_f16(d + PANEL + PANEL / 2)};
    if (l.nibble_subs) {
        vf a, b, a_min, b_min;
        v_load_halves((const uint8_t *)m, &a, &a_min);
        v_load_halves((const uint8_t *)m + PANEL / 2, &b, &b_min);
        s.scale = mul_pair(s.scale, a, b);
        s.min = mul_pair(s.min, a_min, b_min);
    } else if (l.super > 1) {
        s.scale = mul_pair(s.scale, v_load_i8(m), v_load_i8(m + PANEL / 2));
        if (l.has_min)
            s.min = mul_pair(s.min, v_load_i8(m_min), v_load_i8(m_min + PANEL / 2));
    }
    return s;
}

/* What the integer sum begins with, so that the offset of the weights falls out. */
ALWAYS_INLINE vi start_sum(const struct quant_x *x, int halves, int h)
{
    if (W_OFFSET == 0)
        return i_splat(0);
    return i_splat(halves == 1 ? x->start : h == 0 ? x->start_low : x->start - x->start_low);
}

ALWAYS_INLINE float min_factor(const struct quant_x *x, int halves, int h)
{
    if (halves == 1)
        return x->d_sum;
    return x->d * (float)((h == 0 ? x->start_low : x->start - x->start_low) / -128);
}

ALWAYS_INLINE vi load_quad(const char *a)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    return i_splat(four);
}

/* acc after the sum of one scale. */
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

/* ---- one row ---- */

/* One run of a single row into acc. */
ALWAYS_INLINE void direct_run(struct quant_layout l, const struct quant_panel *t, vb map, int32_t g,
                              const char *x, struct pair acc[PARTS])
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(x + RUN);
    const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
    const uint8_t *group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g);
    for (size_t i = 0; i < quant_group_bytes(&l); i += 64)
        __builtin_prefetch(group + AHEAD_BYTES + i);
    UNROLL
    for (int h = 0; h < l.halves; h++) {
        const char *sub = head + quant_sub_at(&l, t->shape.skip, g, h);
        UNROLL
        for (int q = 0; q < PARTS; q++) {
            struct scales s = load_scales(l, head, sub, q);
            vi start = start_sum(info, l.halves, h);
            struct sums dot = {start, start};
            const int n = QUADS / l.halves;
            UNROLL
            for (int j = 0; j < n; j++) {
                struct bytes w = load_weights(l, map, group, h * n + j, q, W_OFFSET);
                vi a = load_quad(x + 4 * (h * n + j));
                dot.a = i_dot(dot.a, w.a, a);
                dot.b = i_dot(dot.b, w.b, a);
            }
            acc[q] = add_sum(acc[q], dot, &s, l.has_min, l.halves, h, info);
        }
    }
}

ALWAYS_INLINE void direct_row(struct quant_layout l, const struct quant_panel *t)
{
    struct pair tree[TREE_LEVELS][PARTS], acc[PARTS];
    const char *x = t->x;
    float out[PANEL];
    vb map = code_map(l, t->pack, W_OFFSET);
    for (int s = 0; s < t->shape.n_slices; s++) {
        int32_t g, end;
        for (int q = 0; q < PARTS; q++)
            acc[q].a = acc[q].b = v_splat(0.0f);
        for (slice_groups(&t->shape, s, &g, &end); g < end; g++, x += X_RUN_BYTES)
            direct_run(l, t, map, g, x, acc);
        int level = 0;
        for (; s >> level & 1; level++)
            for (int q = 0; q < PARTS; q++) {
                acc[q].a = v_add(tree[level][q].a, acc[q].a);
                acc[q].b = v_add(tree[level][q].b, acc[q].b);
            }
        for (int q = 0; q < PARTS; q++)
            tree[level][q] = acc[q];
    }
    for (int q = 0; q < PARTS; q++) {
        v_store(out + VL * q, acc[q].a);
        v_store(out + PANEL / 2 + VL * q, acc[q].b);
    }
    for (int c = 0; c < t->cols; c++)
        t->out[c] = t->bias ? out[c] + t->bias[c] : out[c];
}

/* ---- several rows ---- */

ALWAYS_INLINE void unpack_groups(struct quant_layout l, const struct quant_panel *t, int32_t g,
                                 int n, struct span_group *out, int offset)
{
    vb map = code_map(l, t->pack, offset);
    for (int i = 0; i < n; i++, g++, out++) {
        const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
        const uint8_t *group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g);
        UNROLL
        for (int j = 0; j < QUADS; j++)
            for (int q = 0; q < PARTS; q++) {
                struct bytes w = load_weights(l, map, group, j, q, offset);
                b_store(out->w + j * PANEL * 4 + 4 * VL * q, w.a);
                b_store(out->w + j * PANEL * 4 + 64 + 4 * VL * q, w.b);
            }
        for (int h = 0; h < l.halves; h++)
            for (int q = 0; q < PARTS; q++) {
                const char *sub = head + quant_sub_at(&l, t->shape.skip, g, h);
                struct scales s = load_scales(l, head, sub, q);
                v_store(out->scale[h] + VL * q, s.scale.a);
                v_store(out->scale[h] + PANEL / 2 + VL * q, s.scale.b);
                v_store(out->min[h] + VL * q, s.min.a);
                v_store(out->min[h] + PANEL / 2 + VL * q, s.min.b);
            }
    }
}

/* Some rows of a tile, which has in_tile: x and infos begin at the first of them. */
struct span_x {
    const char *x;
    const struct quant_x *info;
    int in_tile;
};

/* n runs of rows from the unpacked groups w on, x at the first run; acc [rows][PANEL].
 * `ahead` (ahead_step bytes for each run) is what will be unpacked next. */
ALWAYS_INLINE void span_rows(int rows, int halves, bool min, const struct span_group *w, int n,
                             const struct span_x *sx, float (*acc)[PANEL], const char *ahead,
                             size_t ahead_step)
{
    const char *x = sx->x, *infos = (const char *)sx->info;
    int step = sx->in_tile * X_RUN_BYTES;
    for (int i = 0; i < n; i++, w++, x += step, infos += step, ahead += ahead_step) {
        const struct quant_x *info = (const struct quant_x *)(const void *)infos;
        for (size_t b = 0; b < ahead_step; b += 64)
            __builtin_prefetch(ahead + b);
        for (int q = 0; q < PARTS; q++) {
            const uint8_t *wq = w->w + 4 * VL * q;
            UNROLL
            for (int h = 0; h < halves; h++) {
                struct sums dot[Q_ROWS];
                const int quads = QUADS / halves;
                UNROLL
                for (int r = 0; r < rows; r++)
                    dot[r].a = dot[r].b = start_sum(&info[r], halves, h);
                UNROLL
                for (int j = h * quads; j < (h + 1) * quads; j++) {
                    vb a = b_load(wq + j * PANEL * 4), b = b_load(wq + j * PANEL * 4 + 64);
                    UNROLL
                    for (int r = 0; r < rows; r++) {
                        vi quad = load_quad(x + r * RUN + 4 * j);
                        dot[r].a = i_dot(dot[r].a, a, quad);
                        dot[r].b = i_dot(dot[r].b, b, quad);
                    }
                }
                const float *sc = w->scale[h] + VL * q, *mi = w->min[h] + VL * q;
                struct scales s = {{v_load(sc), v_load(sc + PANEL / 2)},
                                   {v_load(mi), v_load(mi + PANEL / 2)}};
                UNROLL
                for (int r = 0; r < rows; r++) {
                    float *to = acc[r] + VL * q;
                    struct pair sum = {v_load(to), v_load(to + PANEL / 2)};
                    sum = add_sum(sum, dot[r], &s, min, halves, h, &info[r]);
                    v_store(to, sum.a);
                    v_store(to + PANEL / 2, sum.b);
                }
            }
        }
    }
}

typedef void direct_fn(const struct quant_panel *t);
typedef void unpack_fn(const struct quant_panel *t, int32_t g, int n, struct span_group *out);
typedef void span_fn(const struct span_group *w, int n, const struct span_x *x, float (*acc)[PANEL],
                     const char *ahead, size_t ahead_step);
/* All tiles over one span. */
typedef void tiles_fn(const struct quant_panel *t, size_t x_bytes, const struct span_group *w,
                      int n, size_t x_at, float (*acc)[PANEL], const char *ahead,
                      size_t ahead_step);

#define KIND_FNS(NAME, BITS, HALVES, SUPER, MIN, NIBBLES)                                          \
    static void direct_##NAME(const struct quant_panel *t)                                         \
    {                                                                                              \
        direct_row((struct quant_layout){BITS, HALVES, SUPER, MIN, NIBBLES}, t);                   \
    }                                                                                              \
    static void unpack_##NAME(const struct quant_panel *t, int32_t g, int n,                       \
                              struct span_group *out)                                              \
    {                                                                                              \
        unpack_groups((struct quant_layout){BITS, HALVES, SUPER, MIN, NIBBLES}, t, g, n, out,      \
                      W_OFFSET);                                                                   \
    }
QUANT_KINDS(KIND_FNS)

#define KIND_ROW(NAME, ...) [NAME] = {direct_##NAME, unpack_##NAME},
static const struct {
    direct_fn *direct;
    unpack_fn *unpack;
} kind_fns[QK_N] = {QUANT_KINDS(KIND_ROW)};

#define SPAN_FN(R, HALVES, MIN)                                                                    \
    static void span_##R##_##HALVES##_##MIN(const struct span_group *w, int n,                     \
                                            const struct span_x *x, float(*acc)[PANEL],            \
                                            const char *ahead, size_t step)                        \
    {                                                                                              \
        span_rows(R, HALVES, MIN, w, n, x, acc, ahead, step);                                      \
    }
#define SPAN_FNS(R) SPAN_FN(R, 1, 0) SPAN_FN(R, 1, 1) SPAN_FN(R, 2, 0) SPAN_FN(R, 2, 1)
#define SPAN_ROW(R) [R] = {{span_##R##_1_0, span_##R##_1_1}, {span_##R##_2_0, span_##R##_2_1}},
#if defined(Q_ROWS_8)
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif defined(Q_ROWS_6)
#define ALL_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define ALL_ROWS(X) X(1) X(2) X(3) X(4)
#endif
ALL_ROWS(SPAN_FNS)
static span_fn *const span_fns[Q_ROWS + 1][2][2] = {ALL_ROWS(SPAN_ROW)};

static void span_tiles(const struct quant_panel *t, size_t x_bytes, const struct span_group *w,
                       int n, size_t x_at, float (*acc)[PANEL], const char *ahead, size_t step)
{
    const struct quant_layout *l = t->pack->lay;
    for (int i = 0; i < t->n_tiles; i++) {
        int r0 = tile_start(t->rows, t->n_tiles, i);
        int in_tile = tile_start(t->rows, t->n_tiles, i + 1) - r0;
        const char *x = t->x + (size_t)r0 * x_bytes + (size_t)in_tile * x_at;
        const struct quant_x *info = (const struct quant_x *)(const void *)(x + in_tile * RUN);
        for (int r = 0, rows; r < in_tile; r += rows, step = 0) {
            rows = in_tile - r < Q_ROWS ? in_tile - r : Q_ROWS;
            struct span_x sx = {x + r * RUN, info + r, in_tile};
            span_fns[rows][l->halves - 1][l->has_min](w, n, &sx, acc + r0 + r, ahead, step);
        }
    }
}

/* Adds slice s's sums (acc) to the tree, a binary counter of finished subtrees; after the last
 * slice acc is the whole. */
static void climb_rows(int rows, int s, float (*acc)[PANEL], float (*tree)[QUANT_ROWS][PANEL])
{
    int level = 0;
    for (; s >> level & 1; level++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < PANEL; c++)
                acc[r][c] = tree[level][r][c] + acc[r][c];
    memcpy(tree[level], acc, (size_t)rows * sizeof *acc);
}

static void store_rows(const struct quant_panel *t, float (*acc)[PANEL])
{
    for (int r = 0; r < t->rows; r++) {
        float *out = t->out + (size_t)r * t->out_stride;
        if (t->bias)
            for (int c = 0; c < PANEL; c++)
                acc[r][c] += t->bias[c];
        memcpy(out, acc[r], (size_t)t->cols * sizeof *out);
    }
}

/* Several rows: span after span is unpacked, then meets every tile. */
ALWAYS_INLINE void panel_rows(const struct quant_panel *t, struct quant_scratch *own,
                              unpack_fn *unpack, tiles_fn *tiles)
{
    const struct quant_layout *l = t->pack->lay;
    size_t x_bytes = (size_t)quant_runs(&t->shape) * X_RUN_BYTES, x_at = 0; /* of a row of x */
    for (int s = 0; s < t->shape.n_slices; s++) {
        int32_t g, end, n;
        memset(own->acc, 0, (size_t)t->rows * sizeof own->acc[0]);
        for (slice_groups(&t->shape, s, &g, &end); g < end; g += n) {
            n = end - g < SPAN ? end - g : SPAN;
            const char *next = t->panel + quant_group_at(l, t->shape.skip, g + n);
            unpack(t, g, n, own->group);
            tiles(t, x_bytes, own->group, n, x_at, own->acc, next, quant_group_bytes(l));
            x_at += (size_t)n * X_RUN_BYTES;
        }
        if (t->shape.n_slices > 1)
            climb_rows(t->rows, s, own->acc, own->tree);
    }
    store_rows(t, own->acc);
}

static void fast_quant_panel(const struct quant_panel *t, void *scratch)
{
    if (t->rows == 1)
        kind_fns[t->pack->kind].direct(t);
    else
        panel_rows(t, scratch, kind_fns[t->pack->kind].unpack, span_tiles);
}

#define QUANT_KERNELS                                                                              \
    {                                                                                              \
        .tile_rows = Q_ROWS, .scratch = sizeof(struct quant_scratch),                              \
        .quantize_row = row_quantize, .panel = fast_quant_panel                                    \
    }

#endif
