/* Several rows of x on AArch64, in place of add_groups of quant_kernels.h, which includes this: the sums of
 * some columns are in registers over all groups.  A unit is TILE_UNIT rows whose sums share vectors, of
 * integers and of floats:
 *   1 row    SDOT makes the sums of 4 products for 4 columns.  x and weights as elsewhere
 *   2 rows   with the matrix instructions (FEAT_I8MM) USMMLA makes the sums of 8 products for 2 columns
 *            and 2 rows: (c r, c r+1, c+1 r, c+1 r+1).
 *              weights  bytes of struct unpacked: [STEPS][PANEL / 2][2 columns][8 elements]
 *              x        the bytes of a group: for every 2 rows of the tile [STEPS][2 rows][8]; a last row
 *                       without a partner is as elsewhere [GROUP] */
#ifndef BACKENDS_CPU_QUANT_NEON_H
#define BACKENDS_CPU_QUANT_NEON_H

#ifdef DOT_MATRIX
enum { TILE_UNIT = 2 };
#else
enum { TILE_UNIT = 1 };
#endif
enum {
    STEPS = GROUP / 8,
    UNITS = Q_ROWS / TILE_UNIT,
    VECTORS = 2 * TILE_UNIT, /* of a unit and pair q: columns [VL q, +VL), then [16 + VL q, +VL) */
};

/* What the rows of a unit have for the half of a group, in the places of their sums. */
struct unit {
    vi start;
    vf d, min; /* min: the factor of the minimum */
};

#ifdef DOT_MATRIX
ALWAYS_INLINE int32x4_t twice_low(int32x4_t v)
{
    return vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(v), 0));
}

ALWAYS_INLINE int32x4_t twice_high(int32x4_t v)
{
    return vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(v), 1));
}

/* As start_sum and min_factor.  two: the second row is there. */
ALWAYS_INLINE struct unit unit_of(const struct quant_x *x, bool two, int halves, int h, int offset)
{
    int32x4_t a = vreinterpretq_s32_u8(b_load(x)), b = vreinterpretq_s32_u8(b_load(x + two));
    int32x4_t factors = vzip1q_s32(a, b), starts = vzip2q_s32(a, b);
    struct unit p = {.start = twice_low(starts),
                     .d = vreinterpretq_f32_s32(twice_low(factors)),
                     .min = vreinterpretq_f32_s32(twice_high(factors))};
    if (halves == 2) {
        int32x4_t low = twice_high(starts);
        p.start = h == 0 ? low : vsubq_s32(p.start, low);
        p.min = v_mul(p.d, f_of_i(vnegq_s32(vshrq_n_s32(p.start, 7))));
    }
    p.start = vmulq_n_s32(vshrq_n_s32(p.start, 7), offset); /* a multiple of 128 */
    return p;
}

/* Sums of rows a and b to vectors, and back. */
ALWAYS_INLINE void load_unit_sums(const float *a, const float *b, vf out[VECTORS])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        vf row_a = v_load(a + i * (PANEL / 2)), row_b = v_load(b + i * (PANEL / 2));
        out[2 * i] = vzip1q_f32(row_a, row_b);
        out[2 * i + 1] = vzip2q_f32(row_a, row_b);
    }
}

ALWAYS_INLINE void store_unit_sums(const vf sum[VECTORS], float *a, float *b)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        v_store(a + i * (PANEL / 2), vuzp1q_f32(sum[2 * i], sum[2 * i + 1]));
        if (b != a)
            v_store(b + i * (PANEL / 2), vuzp2q_f32(sum[2 * i], sum[2 * i + 1]));
    }
}

/* Bytes [8 step, + 8) of rows r and r + 1 of the `rows`, twice those of a row without a partner. */
ALWAYS_INLINE int8x16_t load_rows(const char *x, int rows, int r, int step)
{
    x += r * GROUP;
    if (r + 1 < rows)
        return vreinterpretq_s8_u8(b_load(x + 16 * step));
    int64_t eight;
    memcpy(&eight, x + 8 * step, sizeof eight);
    return vreinterpretq_s8_s64(vdupq_n_s64(eight));
}

/* Adds the integer sums of half h of a group; w: of pair q of the columns. */
ALWAYS_INLINE void group_dots(int rows, int halves, int h, const uint8_t *w, const char *x,
                              vi dot[UNITS][VECTORS])
{
    const int steps = STEPS / halves;
    UNROLL
    for (int s = h * steps; s < (h + 1) * steps; s++) {
        const uint8_t *at = w + s * PANEL * 8;
        vb b[VECTORS] = {b_load(at), b_load(at + 16), b_load(at + 128), b_load(at + 144)};
        UNROLL
        for (int p = 0; p < (rows + 1) / 2; p++) {
            int8x16_t a = load_rows(x, rows, 2 * p, s);
            UNROLL
            for (int c = 0; c < VECTORS; c++)
                dot[p][c] = vusmmlaq_s32(dot[p][c], b[c], a);
        }
    }
}

#else
ALWAYS_INLINE struct unit unit_of(const struct quant_x *x, bool two, int halves, int h, int offset)
{
    (void)two;
    return (struct unit){start_sum(x, halves, h, offset), v_splat(x->d),
                         v_splat(min_factor(x, halves, h))};
}

ALWAYS_INLINE void load_unit_sums(const float *a, const float *b, vf out[VECTORS])
{
    (void)b;
    out[0] = v_load(a);
    out[1] = v_load(a + PANEL / 2);
}

ALWAYS_INLINE void store_unit_sums(const vf sum[VECTORS], float *a, float *b)
{
    (void)b;
    v_store(a, sum[0]);
    v_store(a + PANEL / 2, sum[1]);
}

ALWAYS_INLINE void group_dots(int rows, int halves, int h, const uint8_t *w, const char *x,
                              vi dot[UNITS][VECTORS])
{
    const int runs = 2 / halves; /* of 16 elements */
    UNROLL
    for (int s = h * runs; s < (h + 1) * runs; s++) {
        vb a[Q_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            a[r] = b_load(x + r * GROUP + 16 * s);
        UNROLL
        for (int e = 0; e < 4; e++) {
            const uint8_t *at = w + (4 * s + e) * PANEL * 4;
            vb low = b_load(at), high = b_load(at + 64);
            UNROLL
            for (int r = 0; r < rows; r++) {
                dot[r][0] = i_dot_quad(dot[r][0], low, a[r], e);
                dot[r][1] = i_dot_quad(dot[r][1], high, a[r], e);
            }
        }
    }
}
#endif

/* Reads ahead for a quarter of the group at `spread`: 2 of its QUADS. */
ALWAYS_INLINE void read_ahead_quads(const struct tile_x *tx, const char *spread, int q)
{
    const bool small = tx->quad_bytes <= 96;
    spread += (size_t)(2 * q) * tx->quad_bytes;
    read_ahead(tx->read, spread, (int)(tx->quad_bytes << small));
    if (!small)
        read_ahead(tx->read, spread + tx->quad_bytes, (int)tx->quad_bytes);
}

/* acc [rows][PANEL], or 0, after the n groups of w; x begins at the first of them.  narrow is 0. */
ALWAYS_INLINE void add_groups(int rows, int halves, bool min, int narrow, const struct unpacked *w,
                              int n, const struct tile_x *tx, float (*acc)[PANEL])
{
    const int units = (rows + TILE_UNIT - 1) / TILE_UNIT;
    const size_t step = (size_t)tx->in_tile * X_GROUP_BYTES;
    struct unit of[UNPACK_GROUPS][2][UNITS];
    (void)narrow;
    for (int i = 0; i < n; i++) {
        const struct quant_x *info =
            (const struct quant_x *)(const void *)((const char *)tx->info + (size_t)i * step);
        UNROLL
        for (int h = 0; h < halves; h++) {
            UNROLL
            for (int u = 0, r = 0; u < units; u++, r += TILE_UNIT)
                of[i][h][u] = unit_of(info + r, r + 1 < rows, halves, h, tx->offset);
        }
    }
    for (int q = 0; q < PAIRS; q++) {
        const char *x = tx->x, *next = tx->next, *spread = tx->spread;
        vf sum[UNITS][VECTORS];
        UNROLL
        for (int u = 0; u < units; u++) {
            const int r = u * TILE_UNIT, partner = r + TILE_UNIT <= rows ? r + TILE_UNIT - 1 : r;
            if (tx->first) {
                UNROLL
                for (int c = 0; c < VECTORS; c++)
                    sum[u][c] = v_splat(0.0f);
            } else {
                load_unit_sums(acc[r] + VL * q, acc[partner] + VL * q, sum[u]);
            }
        }
        for (int i = 0; i < n; i++, x += step, next += step) {
            if (q == 0) {
                UNROLL
                for (int at = 0; at < rows * X_GROUP_BYTES; at += 64)
                    __builtin_prefetch(next + at);
            }
            if (spread) {
                read_ahead_quads(tx, spread, q);
                spread += QUADS * tx->quad_bytes;
            }
            UNROLL
            for (int h = 0; h < halves; h++) {
                vi dot[UNITS][VECTORS];
                vf scale[VECTORS], least[VECTORS];
                UNROLL
                for (int u = 0; u < units; u++) {
                    UNROLL
                    for (int c = 0; c < VECTORS; c++)
                        dot[u][c] = of[i][h][u].start;
                }
                group_dots(rows, halves, h, w[i].bytes + 4 * TILE_UNIT * VL * q, x, dot);
                load_unit_sums(w[i].scale[h] + VL * q, w[i].scale[h] + VL * q, scale);
                if (min)
                    load_unit_sums(w[i].min[h] + VL * q, w[i].min[h] + VL * q, least);
                UNROLL
                for (int u = 0; u < units; u++) {
                    UNROLL
                    for (int c = 0; c < VECTORS; c++) {
                        vf s = v_mul(scale[c], of[i][h][u].d);
                        sum[u][c] = v_fma(f_of_i(dot[u][c]), s, sum[u][c]);
                        if (min)
                            sum[u][c] = v_fma(least[c], of[i][h][u].min, sum[u][c]);
                    }
                }
            }
        }
        UNROLL
        for (int u = 0; u < units; u++) {
            const int r = u * TILE_UNIT, partner = r + TILE_UNIT <= rows ? r + TILE_UNIT - 1 : r;
            store_unit_sums(sum[u], acc[r] + VL * q, acc[partner] + VL * q);
        }
    }
}

#endif
