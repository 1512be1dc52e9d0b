/* One row (decode) of f32 activations against a panel of floats, all columns at once: for instruction
 * sets whose vectors take a panel's columns in several turns (tile_kernels.h), so that a line of
 * weights is read once and more chains of sums are under way.  The including file has included
 * tile_kernels.h. */
#ifndef BACKENDS_CPU_ONE_ROW_H
#define BACKENDS_CPU_ONE_ROW_H

/* acc += the products of n elements of x [n] with BF16 weights; both begin at a slice. */
ALWAYS_INLINE void one_row_bf16(const float *x, const uint16_t *w, long n, struct read_ahead read,
                                struct pair acc[PAIRS])
{
    for (long k = 0; k < n; k += 2, w += 2 * PANEL) {
        struct pair even[PAIRS], odd[PAIRS];
        read_ahead(read, w, 4 * PANEL);
        UNROLL
        for (int q = 0; q < PAIRS; q++) {
            v_load_bf16_pairs(w + 2 * VL * q, &even[q].a, &odd[q].a);
            v_load_bf16_pairs(w + PANEL + 2 * VL * q, &even[q].b, &odd[q].b);
            add_row(1, x + k, even[q], acc + q);
        }
        if (k + 1 == n)
            break;
        UNROLL
        for (int q = 0; q < PAIRS; q++)
            add_row(1, x + k + 1, odd[q], acc + q);
    }
}

/* The same over rows [k0, k1) of F32 or F16 weights. */
ALWAYS_INLINE void one_row_plain(enum dtype t, const float *x, const void *w, long k0, long k1,
                                 struct read_ahead read, struct pair acc[PAIRS])
{
    const size_t row_bytes = PANEL * (t == DT_F32 ? sizeof(float) : sizeof(uint16_t));
    for (long k = k0; k < k1; k++) {
        read_ahead(read, (const char *)w + (size_t)k * row_bytes, (int)row_bytes);
        UNROLL
        for (int q = 0; q < PAIRS; q++)
            add_row(1, x + k, load_pair(t, w, k, q), acc + q);
    }
}

ALWAYS_INLINE void one_row(const struct linear_tile *t, enum pack pack)
{
    struct pair tree[TREE_LEVELS][TILE_ROWS], acc[PAIRS];
    float sums[PANEL];
    long k = 0;
    for (int s = 0; s < t->n_slices; k = t->slice_end[s++]) {
        for (int q = 0; q < PAIRS; q++)
            acc[q].a = acc[q].b = v_splat(0.0f);
        if (pack == PACK_BF16)
            one_row_bf16(t->x + k,
                         (const uint16_t *)t->panel +
                             pack_rows(pack, t->slice_end, s, (int32_t)k) * PANEL,
                         t->slice_end[s] - k, t->read, acc);
        else
            one_row_plain(pack_dtype(pack), t->x, t->panel, k, t->slice_end[s], t->read, acc);
        if (t->n_slices > 1)
            climb_tree(PAIRS, s, tree, acc); /* pairs of columns in the place of rows */
    }
    for (int q = 0; q < PAIRS; q++) {
        v_store(sums + VL * q, acc[q].a);
        v_store(sums + PANEL / 2 + VL * q, acc[q].b);
    }
    for (int c = 0; c < t->cols; c++)
        t->out[c] = t->bias ? sums[c] + t->bias[c] : sums[c];
}

/* linear_tile of struct kernels */
static void linear_tile_or_row(const struct linear_tile *t)
{
    if (t->rows == 1 && t->pack == PACK_BF16)
        one_row(t, PACK_BF16);
    else if (t->rows == 1 && t->pack == PACK_F16)
        one_row(t, PACK_F16);
    else if (t->rows == 1 && t->pack == PACK_F32)
        one_row(t, PACK_F32);
    else
        fast_linear_tile(t);
}

#endif
