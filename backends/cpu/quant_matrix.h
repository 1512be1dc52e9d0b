/* Several rows of x with the matrix instructions of AArch64 (FEAT_I8MM), in place of add_groups of
 * quant_kernels.h, which includes this: one USMMLA makes the sums of 8 products for 2 columns and
 * 2 rows, one SDOT or USDOT those of 4 products for 4 columns and 1 row.
 *   weights  bytes of struct unpacked: [STEPS][PANEL / 2][2 columns][8 elements]
 *   x        the bytes of a group: for every 2 rows of the tile [STEPS][2 rows][8]; a last row without
 *            a partner is as elsewhere [GROUP]
 *   sums     vectors (c r, c r+1, c+1 r, c+1 r+1) of columns c, c + 1 and rows r, r + 1, of
 *            integers and of floats: every sum has the value that it has in rows of columns */
#ifndef BACKENDS_CPU_QUANT_MATRIX_H
#define BACKENDS_CPU_QUANT_MATRIX_H

enum {
    STEPS = GROUP / 8,
    ROW_PAIRS = Q_ROWS / 2,
    COL_PAIRS = 4, /* whose sums are in registers at once: columns [VL q, +VL), [16 + VL q, +VL) */
};

/* What two rows of x have for the half of a group: (r, r + 1, r, r + 1). */
struct row_pair {
    int32x4_t start;
    vf d, min; /* min: the factor of the minimum */
};

ALWAYS_INLINE int32x4_t twice_low(int32x4_t v)
{
    return vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(v), 0));
}

ALWAYS_INLINE int32x4_t twice_high(int32x4_t v)
{
    return vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(v), 1));
}

/* As start_sum and min_factor.  second: offset of the second row's in x. */
ALWAYS_INLINE struct row_pair row_pair_of(const struct quant_x *x, int second, int halves, int h,
                                          int offset)
{
    int32x4_t a = vreinterpretq_s32_u8(b_load(x)), b = vreinterpretq_s32_u8(b_load(x + second));
    int32x4_t factors = vzip1q_s32(a, b), starts = vzip2q_s32(a, b);
    struct row_pair p = {.start = twice_low(starts),
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

/* Columns [c, c + 2 VL) of which are two runs of VL: sums of rows a and b to vectors, and back. */
ALWAYS_INLINE void load_sums(const float *a, const float *b, vf out[COL_PAIRS])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        vf row_a = v_load(a + i * (PANEL / 2)), row_b = v_load(b + i * (PANEL / 2));
        out[2 * i] = vzip1q_f32(row_a, row_b);
        out[2 * i + 1] = vzip2q_f32(row_a, row_b);
    }
}

ALWAYS_INLINE void store_sums(const vf sum[COL_PAIRS], float *a, float *b)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        v_store(a + i * (PANEL / 2), vuzp1q_f32(sum[2 * i], sum[2 * i + 1]));
        if (b != a)
            v_store(b + i * (PANEL / 2), vuzp2q_f32(sum[2 * i], sum[2 * i + 1]));
    }
}

/* Values of columns, each twice. */
ALWAYS_INLINE void load_twice(const float *p, vf out[COL_PAIRS])
{
    load_sums(p, p, out);
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

/* The integer sums of half h of a group for pair q of the columns. */
ALWAYS_INLINE void matrix_dots(int rows, int halves, int h, const uint8_t *w, const char *x,
                               const struct row_pair *of, int32x4_t dot[ROW_PAIRS][COL_PAIRS])
{
    const int steps = STEPS / halves;
    UNROLL
    for (int p = 0; p < (rows + 1) / 2; p++) {
        UNROLL
        for (int c = 0; c < COL_PAIRS; c++)
            dot[p][c] = of[p].start;
    }
    UNROLL
    for (int s = h * steps; s < (h + 1) * steps; s++) {
        const uint8_t *at = w + s * PANEL * 8;
        vb b[COL_PAIRS] = {b_load(at), b_load(at + 16), b_load(at + 128), b_load(at + 144)};
        UNROLL
        for (int p = 0; p < (rows + 1) / 2; p++) {
            int8x16_t a = load_rows(x, rows, 2 * p, s);
            UNROLL
            for (int c = 0; c < COL_PAIRS; c++)
                dot[p][c] = vusmmlaq_s32(dot[p][c], b[c], a);
        }
    }
}

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
    (void)narrow;
    struct row_pair of[UNPACK_GROUPS][2][ROW_PAIRS];
    const size_t step = (size_t)tx->in_tile * X_GROUP_BYTES;
    for (int i = 0; i < n; i++) {
        const struct quant_x *info =
            (const struct quant_x *)(const void *)((const char *)tx->info + (size_t)i * step);
        for (int h = 0; h < halves; h++) {
            UNROLL
            for (int r = 0; r < rows; r += 2)
                of[i][h][r / 2] = row_pair_of(info + r, r + 1 < rows, halves, h, tx->offset);
        }
    }
    for (int q = 0; q < PAIRS; q++) {
        const char *x = tx->x, *next = tx->next, *spread = tx->spread;
        vf sum[ROW_PAIRS][COL_PAIRS];
        UNROLL
        for (int r = 0; r < rows; r += 2) {
            if (tx->first)
                sum[r / 2][0] = sum[r / 2][1] = sum[r / 2][2] = sum[r / 2][3] = v_splat(0.0f);
            else
                load_sums(acc[r] + VL * q, acc[r + 1 < rows ? r + 1 : r] + VL * q, sum[r / 2]);
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
                int32x4_t dot[ROW_PAIRS][COL_PAIRS];
                vf scale[COL_PAIRS], least[COL_PAIRS];
                matrix_dots(rows, halves, h, w[i].bytes + 8 * VL * q, x, of[i][h], dot);
                load_twice(w[i].scale[h] + VL * q, scale);
                if (min)
                    load_twice(w[i].min[h] + VL * q, least);
                UNROLL
                for (int p = 0; p < (rows + 1) / 2; p++) {
                    UNROLL
                    for (int c = 0; c < COL_PAIRS; c++) {
                        vf s = v_mul(scale[c], of[i][h][p].d);
                        sum[p][c] = v_fma(f_of_i(dot[p][c]), s, sum[p][c]);
                        if (min)
                            sum[p][c] = v_fma(least[c], of[i][h][p].min, sum[p][c]);
                    }
                }
            }
        }
        UNROLL
        for (int r = 0; r < rows; r += 2)
            store_sums(sum[r / 2], acc[r] + VL * q, acc[r + 1 < rows ? r + 1 : r] + VL * q);
    }
}

static void row_quantize(const struct quant_shape *s, const float *x, int row, int rows, char *tile)
{
    quantize_row(s, x, row, rows, tile, true);
}

#endif
