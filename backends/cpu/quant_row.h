/* A few rows (decode) against a panel: the codes go from the panel straight into the products, at
 * most DIRECT_ROWS rows at a time.  Included by quant_kernels.h, which says what the vectors must
 * define. */
#ifndef BACKENDS_CPU_QUANT_ROW_H
#define BACKENDS_CPU_QUANT_ROW_H

enum { DIRECT_ROWS = 4 };

/* Some rows of a tile: their bytes of a group, what belongs to them (struct quant_x), and the bytes
 * from a group to the next. */
struct few_rows {
    const char *x, *info;
    int step;
    float *out; /* rows out_stride apart */
    struct read_ahead read;
};

/* How the weights of a panel are multiplied: as their codes where those are consecutive
 * (q + offset = code), which saves mapping them; otherwise mapped. */
struct form {
    bool as_codes;
    int offset;
    vb map;
};

ALWAYS_INLINE struct form form_of(struct quant_layout l, const struct quant_pack *p, bool as_codes)
{
    if (!as_codes)
        return (struct form){.offset = W_OFFSET, .map = code_map(l, p, W_OFFSET)};
    const int offset = l.has_min ? 0 : 1 << (l.bits - 1); /* a constant, as -p->low is not */
    assert(offset == -p->low);
    return (struct form){.as_codes = true, .offset = offset};
}

/* Half h of a group, which begins at `group`, and of some rows of x. */
struct half {
    const uint8_t *group;
    const char *x;
    const struct quant_x *info;
    int h;
};

ALWAYS_INLINE struct bytes direct_quad(struct quant_layout l, struct form m, const struct half *f,
                                       int j, int q)
{
    return m.as_codes ? load_codes(l, f->group, j, q)
                      : load_weights(l, m.map, f->group, j, q, W_OFFSET);
}

/* dot [rows] = the sums of q a of a half, pair q of the columns. */
#ifdef DOT_WIDE
/* Codes of 4 bits, a single row.  The columns of high halves are not taken apart: the bytes as they
 * are give low + 16 high.  Two chains for each vector, so that a product waits less for the one
 * before it. */
ALWAYS_INLINE struct sums nibble_dot(struct form m, const struct half *f, int q)
{
    const vi zero = i_splat(0);
    assert(m.offset == 0 || m.offset == 8);
    vi start16 = m.offset ? i_splat(f->info->start) : zero; /* 16 times the first value of a sum */
    vi start = m.offset ? i_sixteenth(start16) : zero;
    struct sums even = {start, start}, odd = {zero, start16};
    UNROLL
    for (int j = 0; j < QUADS; j++) {
        vb both = b_load_once(f->group + j * 64 + 4 * VL * q);
        vi a = load_quad(f->x + 4 * j);
        struct sums *chain = j % 2 ? &odd : &even;
        chain->a = i_dot(chain->a, b_field(both, 0, 15), a);
        chain->b = i_dot(chain->b, both, a);
    }
    vi low = i_add(even.a, odd.a), sum = i_add(even.b, odd.b);
    return (struct sums){low, i_sixteenth(i_sub(sum, low))};
}

ALWAYS_INLINE void half_dots(int rows, struct quant_layout l, struct form m, const struct half *f,
                             int q, struct sums *dot)
{
    const int n = QUADS / l.halves;
    struct sums odd = {i_splat(0), i_splat(0)}; /* a second chain of a single row */
    if (rows == 1 && m.as_codes && l.bits == 4 && l.halves == 1) {
        dot[0] = nibble_dot(m, f, q);
        return;
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r].a = dot[r].b = start_sum(&f->info[r], l.halves, f->h, m.offset);
    UNROLL
    for (int j = f->h * n; j < (f->h + 1) * n; j++) {
        struct bytes w = direct_quad(l, m, f, j, q);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi a = load_quad(f->x + r * GROUP + 4 * j);
            struct sums *chain = rows == 1 && j % 2 ? &odd : &dot[r];
            chain->a = i_dot(chain->a, w.a, a);
            chain->b = i_dot(chain->b, w.b, a);
        }
    }
    if (rows == 1)
        dot[0] = (struct sums){i_add(dot[0].a, odd.a), i_add(dot[0].b, odd.b)};
}
#else
ALWAYS_INLINE void half_dots(int rows, struct quant_layout l, struct form m, const struct half *f,
                             int q, struct sums *dot)
{
    struct sums narrow[DIRECT_ROWS];
    const int n = QUADS / l.halves, quads = narrow_quads(l.bits);
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r].a = dot[r].b = start_sum(&f->info[r], l.halves, f->h, m.offset);
    UNROLL
    for (int j = 0; j < n; j++) {
        struct bytes w = direct_quad(l, m, f, f->h * n + j, q);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi a = load_quad(f->x + r * GROUP + 4 * (f->h * n + j));
            if (m.as_codes) {
                dot[r].a = narrow_dot(dot[r].a, &narrow[r].a, w.a, a, j, n, quads);
                dot[r].b = narrow_dot(dot[r].b, &narrow[r].b, w.b, a, j, n, quads);
            } else {
                dot[r].a = i_dot(dot[r].a, w.a, a);
                dot[r].b = i_dot(dot[r].b, w.b, a);
            }
        }
    }
}
#endif

/* acc [rows] after groups [g, g + n); where super > 1, they are behind one head. */
ALWAYS_INLINE void direct_groups(int rows, struct quant_layout l, const struct quant_panel *t,
                                 struct form m, struct few_rows *x, int32_t g, int32_t n,
                                 struct pair (*acc)[PAIRS])
{
    const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
    const char *sub = head + quant_sub_at(&l, t->shape.skip, g, 0);
    const char *spread = group_spread(&l, t->panel, g);
    const size_t step = quant_group_bytes(&l) + (l.super == 1 ? quant_head_bytes(&l) : 0);
    struct half f = {.group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g)};
    struct scales shared[PAIRS];
    for (int q = 0; q < PAIRS; q++)
        shared[q] = load_head(l, head, q);
    for (int32_t i = 0; i < n; i++) {
        f.x = x->x;
        f.info = (const struct quant_x *)(const void *)x->info;
        read_ahead_group(x->read, spread, quad_bytes_of(&l));
        UNROLL
        for (f.h = 0; f.h < l.halves; f.h++) {
            UNROLL
            for (int q = 0; q < PAIRS; q++) {
                struct sums dot[DIRECT_ROWS];
                load_again();
                half_dots(rows, l, m, &f, q, dot);
                struct scales s = l.super == 1 ? load_head(l, head, q)
                                               : sub_scales(l, shared[q], sub + PANEL * f.h, q);
                UNROLL
                for (int r = 0; r < rows; r++)
                    acc[r][q] =
                        add_sum(acc[r][q], dot[r], &s, l.has_min, l.halves, f.h, &f.info[r]);
            }
        }
        f.group += step;
        x->x += x->step;
        x->info += x->step;
        spread += QUADS * quad_bytes_of(&l);
        head += step;
        sub += PANEL * l.halves;
    }
}

/* Adds slice s's sums to the tree, a binary counter of finished subtrees; after the last slice acc
 * is the whole sum. */
ALWAYS_INLINE void direct_climb(int rows, int s, struct pair (*tree)[DIRECT_ROWS][PAIRS],
                                struct pair (*acc)[PAIRS])
{
    int level = 0;
    for (; s >> level & 1; level++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            for (int q = 0; q < PAIRS; q++) {
                acc[r][q].a = v_add(tree[level][r][q].a, acc[r][q].a);
                acc[r][q].b = v_add(tree[level][r][q].b, acc[r][q].b);
            }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < PAIRS; q++)
            tree[level][r][q] = acc[r][q];
}

ALWAYS_INLINE void direct_rows(int rows, struct quant_layout l, const struct quant_panel *t,
                               bool as_codes, struct few_rows x)
{
    struct pair tree[TREE_LEVELS][DIRECT_ROWS][PAIRS], acc[DIRECT_ROWS][PAIRS];
    struct form m = form_of(l, t->pack, as_codes);
    for (int s = 0; s < t->shape.n_slices; s++) {
        int32_t g, end, n;
        UNROLL
        for (int r = 0; r < rows; r++)
            for (int q = 0; q < PAIRS; q++)
                acc[r][q].a = acc[r][q].b = v_splat(0.0f);
        for (slice_groups(&t->shape, s, &g, &end); g < end; g += n) {
            n = l.super - (g + t->shape.skip / GROUP) % l.super;
            n = l.super > 1 && n < end - g ? n : end - g;
            direct_groups(rows, l, t, m, &x, g, n, acc);
        }
        direct_climb(rows, s, tree, acc);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float sums[PANEL], *out = x.out + (size_t)r * t->out_stride;
        for (int q = 0; q < PAIRS; q++) {
            v_store(sums + VL * q, acc[r][q].a);
            v_store(sums + PANEL / 2 + VL * q, acc[r][q].b);
        }
        for (int c = 0; c < t->cols; c++)
            out[c] = t->bias ? sums[c] + t->bias[c] : sums[c];
    }
}

/* A single row; where every line is asked for, a loop without branches. */
ALWAYS_INLINE void direct_one(struct quant_layout l, const struct quant_panel *t, bool as_codes,
                              struct few_rows x)
{
    if (x.read.eighths == 8) {
        x.read.eighths = 8;
        direct_rows(1, l, t, as_codes, x);
    } else {
        direct_rows(1, l, t, as_codes, x);
    }
}

/* Two rows to DIRECT_ROWS. */
ALWAYS_INLINE void direct_few(struct quant_layout l, const struct quant_panel *t, bool as_codes,
                              int rows, struct few_rows x)
{
    if (rows == 2)
        direct_rows(2, l, t, as_codes, x);
    else if (rows == 3)
        direct_rows(3, l, t, as_codes, x);
    else
        direct_rows(4, l, t, as_codes, x);
}

/* Types whose values may have a table: 4 bits without a minimum. */
ALWAYS_INLINE bool may_map(struct quant_layout l)
{
    return l.bits == 8 || (l.bits == 4 && !l.has_min);
}

#endif
