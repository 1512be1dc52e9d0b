/* Products with sorted columns (sorted.h) over the vectors of one instruction set; included by quant_kernels.h. */
#ifndef BACKENDS_CPU_SORTED_KERNELS_H
#define BACKENDS_CPU_SORTED_KERNELS_H

/* Rows whose sums are in registers at once, with the integer sums of a chunk. */
enum { SORTED_ROWS = Q_ROWS / 2 };

/* Pair q of the bytes of a quad, for products with i_dot: codes of 4 bits, element + W_OFFSET of 8. */
ALWAYS_INLINE struct bytes sorted_quad(int bits, const uint8_t *codes, int q)
{
    if (bits == 4) {
        vb v = b_load(codes + 4 * VL * q);
        return (struct bytes){b_field(v, 0, 15), b_field(v, 4, 15)};
    }
    struct bytes w = {b_load(codes + 4 * VL * q), b_load(codes + 2 * PANEL + 4 * VL * q)};
    if (W_OFFSET)
        w = (struct bytes){b_add(w.a, b_splat(W_OFFSET)), b_add(w.b, b_splat(W_OFFSET))};
    return w;
}

/* The integer sums of a chunk of n quads for each of `rows` rows, pair q. */
ALWAYS_INLINE void sorted_dots(int bits, int rows, const uint8_t *codes, int n, const char *x,
                               size_t x_bytes, int q, struct read_ahead read, struct sums *dot)
{
    const int quad_bytes = PANEL * 4 * bits / 8;
    struct sums sum16[SORTED_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r].a = dot[r].b = sum16[r].a = sum16[r].b = i_splat(0);
    NO_UNROLL
    for (int j = 0; j < n; j++, codes += quad_bytes) {
        struct bytes w = sorted_quad(bits, codes, q);
        if (q == 0)
            read_ahead(read, codes, quad_bytes);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi a = load_quad(x + (size_t)r * x_bytes + 4 * j);
            if (HAS_NARROW && bits == 4) {
                dot[r].a = narrow_dot(dot[r].a, &sum16[r].a, w.a, a, j, n, 8);
                dot[r].b = narrow_dot(dot[r].b, &sum16[r].b, w.b, a, j, n, 8);
            } else {
                dot[r].a = i_dot(dot[r].a, w.a, a);
                dot[r].b = i_dot(dot[r].b, w.b, a);
            }
        }
    }
}

/* acc after a chunk's integer sums: those of (element - zero) a are exact in f32, as all of a chunk are below 2^24. */
ALWAYS_INLINE struct pair add_chunk(struct pair acc, struct sums dot, struct pair scale,
                                    struct pair zero, const struct sorted_x *x)
{
    vf d = v_splat(x->d), minus = v_splat(x->minus_sum);
    acc.a = v_fma(v_fma(zero.a, minus, f_of_i(dot.a)), v_mul(scale.a, d), acc.a);
    acc.b = v_fma(v_fma(zero.b, minus, f_of_i(dot.b)), v_mul(scale.b, d), acc.b);
    return acc;
}

ALWAYS_INLINE void sorted_rows(int bits, int rows, const struct sorted_panel *t, int r0,
                               struct read_ahead read)
{
    const struct sorted_shape *s = &t->shape;
    const size_t x_bytes = sorted_x_bytes(s), quad_bytes = (size_t)(PANEL * 4 * bits / 8);
    const int32_t *n_chunks = t->plan;
    const struct sorted_chunk *chunk = sorted_chunks_of(s, t->plan);
    const float *scales = (const float *)(const void *)t->panel;
    const int8_t *zeros = (const int8_t *)t->panel + sorted_zeros_at(s);
    const uint8_t *codes = (const uint8_t *)t->panel + sorted_codes_at(s);
    const char *x = t->x + (size_t)r0 * x_bytes, *infos = x + sorted_infos_at(s);
    /* The head of the next panel is asked for evenly over this one's chunks. */
    size_t all_chunks = 1;
    for (int i = 0; i < s->n_slices; i++)
        all_chunks += (size_t)n_chunks[i];
    const size_t head_step = sorted_codes_at(s) / all_chunks + 1;
    const char *next = t->panel + sorted_panel_bytes(s, bits);
    const vf offset = v_splat(bits == 8 ? (float)W_OFFSET : 0.0f);
    struct pair tree[TREE_LEVELS][SORTED_ROWS][PAIRS], acc[SORTED_ROWS][PAIRS];
    for (int i = 0; i < s->n_slices; i++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            for (int q = 0; q < PAIRS; q++)
                acc[r][q].a = acc[r][q].b = v_splat(0.0f);
        for (int32_t c = 0; c < n_chunks[i]; c++, chunk++) {
            const int n = chunk->quads;
            const size_t at = (size_t)chunk->group * PANEL;
            UNROLL
            for (int q = 0; q < PAIRS; q++) {
                struct sums dot[SORTED_ROWS];
                sorted_dots(bits, rows, codes, n, x, x_bytes, q, read, dot);
                const float *sc = scales + at + VL * q;
                const int8_t *ze = zeros + at + VL * q;
                struct pair scale = {v_load(sc), v_load(sc + PANEL / 2)},
                            zero = {v_load_i8(ze), v_load_i8(ze + PANEL / 2)};
                if (bits == 8 && W_OFFSET != 0)
                    zero = (struct pair){v_add(zero.a, offset), v_add(zero.b, offset)};
                UNROLL
                for (int r = 0; r < rows; r++)
                    acc[r][q] = add_chunk(
                        acc[r][q], dot[r], scale, zero,
                        (const struct sorted_x *)(const void *)(infos + (size_t)r * x_bytes));
            }
            if (read.eighths > 0)
                __builtin_prefetch(next);
            next += head_step;
            codes += (size_t)n * quad_bytes;
            x += 4 * n;
            infos += sizeof(struct sorted_x);
        }
        int level = 0;
        for (; i >> level & 1; level++)
            for (int r = 0; r < rows; r++)
                for (int q = 0; q < PAIRS; q++) {
                    acc[r][q].a = v_add(tree[level][r][q].a, acc[r][q].a);
                    acc[r][q].b = v_add(tree[level][r][q].b, acc[r][q].b);
                }
        for (int r = 0; r < rows; r++)
            for (int q = 0; q < PAIRS; q++)
                tree[level][r][q] = acc[r][q];
    }
    for (int r = 0; r < rows; r++) {
        float sums[PANEL], *out = t->out + (size_t)(r0 + r) * t->out_stride;
        for (int q = 0; q < PAIRS; q++) {
            v_store(sums + VL * q, acc[r][q].a);
            v_store(sums + PANEL / 2 + VL * q, acc[r][q].b);
        }
        for (int c = 0; c < t->cols; c++)
            out[c] = t->bias ? sums[c] + t->bias[c] : sums[c];
    }
}

typedef void sorted_fn(const struct sorted_panel *t, int r0, struct read_ahead read);

#define SORTED_FN(R)                                                                               \
    static void sorted_4_##R(const struct sorted_panel *t, int r0, struct read_ahead read)         \
    {                                                                                              \
        sorted_rows(4, R, t, r0, read);                                                            \
    }                                                                                              \
    static void sorted_8_##R(const struct sorted_panel *t, int r0, struct read_ahead read)         \
    {                                                                                              \
        sorted_rows(8, R, t, r0, read);                                                            \
    }
#define SORTED_ROW(R) [R] = {sorted_4_##R, sorted_8_##R},
#if defined(Q_ROWS_8)
#define SORTED_COUNTS(X) X(1) X(2) X(3) X(4)
#elif defined(Q_ROWS_6)
#define SORTED_COUNTS(X) X(1) X(2) X(3)
#else
#define SORTED_COUNTS(X) X(1) X(2)
#endif
SORTED_COUNTS(SORTED_FN)
static sorted_fn *const sorted_fns[SORTED_ROWS + 1][2] = {SORTED_COUNTS(SORTED_ROW)};

static void fast_sorted_panel(const struct sorted_panel *t)
{
    struct read_ahead read = t->read;
    for (int r0 = 0, n; r0 < t->rows; r0 += n) {
        n = t->rows - r0 < SORTED_ROWS ? t->rows - r0 : SORTED_ROWS;
        sorted_fns[n][t->bits == 8](t, r0, read);
        read = (struct read_ahead){0}; /* the panel is in the cache */
    }
}

#endif
