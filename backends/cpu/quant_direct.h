/* One row of x (decode) against a panel: the codes go from the panel straight into the products.
 * Included by quant_kernels.h, which says what the vectors must define. */
#ifndef BACKENDS_CPU_QUANT_DIRECT_H
#define BACKENDS_CPU_QUANT_DIRECT_H

/* How the weights of a panel are multiplied: as their codes where those are consecutive
 * (q + offset = code), which saves mapping them; otherwise mapped. */
struct form {
    bool as_codes;
    int offset;
    vb map;
};

ALWAYS_INLINE struct form form_of(struct quant_layout l, const struct quant_pack *p, bool as_codes,
                                  int offset)
{
    if (as_codes)
        return (struct form){.as_codes = true, .offset = -p->low};
    return (struct form){.offset = offset, .map = code_map(l, p, offset)};
}

/* A group of x as 8 high + low. */
struct x_halves {
    alignas(32) char high[GROUP], low[GROUP];
};

/* Half h of a group, which begins at `group`, and of a row of x. */
struct half {
    const uint8_t *group;
    const char *x;
    const struct x_halves *parts; /* of x; with DOT_NARROW */
    const char *spread;           /* of the group */
    struct read_ahead read;
    int h;
};

ALWAYS_INLINE struct bytes direct_quad(struct quant_layout l, struct form m, const struct half *f,
                                       int j, int q)
{
    if (q == 0)
        read_ahead_quad(f->read, f->spread, j, quad_bytes_of(&l));
    return m.as_codes ? load_codes(l, f->group, j, q)
                      : load_weights(l, m.map, f->group, j, q, m.offset);
}

#ifdef DOT_NARROW
enum { DIRECT_OFFSET = 128 };
ALWAYS_INLINE void take_parts(const char *x, struct x_halves *out)
{
    x_parts(x, out->high, out->low);
    __asm__ volatile("" ::"r"(out) : "memory"); /* the quads are loaded from there */
}

/* dot [PAIRS] = the sums of q a of a whole group, for weights that are multiplied as q + 128: with x in
 * two parts the products of 4 quads with the high part, at most 4 * 2 * 255 * 16, and of 8 quads with
 * the low one, 8 * 2 * 255 * 7, fit 16 bits. */
ALWAYS_INLINE void parts_dots(struct quant_layout l, struct form m, const struct half *f,
                              struct sums dot[PAIRS])
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(f->x + GROUP);
    const vi start = start_sum(info, 1, 0, DIRECT_OFFSET);
    struct sums high[PAIRS], low[PAIRS];
    for (int q = 0; q < PAIRS; q++)
        dot[q] = (struct sums){start, start};
    UNROLL
    for (int j = 0; j < QUADS; j++) {
        vi x_high = load_quad(f->parts->high + 4 * j), x_low = load_quad(f->parts->low + 4 * j);
        UNROLL
        for (int q = 0; q < PAIRS; q++) {
            struct bytes w = direct_quad(l, m, f, j, q);
            w = (struct bytes){in_order(w.a), in_order(w.b)}; /* loaded once */
            struct sums h = {i_mul16(w.a, x_high), i_mul16(w.b, x_high)};
            struct sums n = {i_mul16(w.a, x_low), i_mul16(w.b, x_low)};
            high[q] =
                j % 4 == 0 ? h : (struct sums){i_add16(high[q].a, h.a), i_add16(high[q].b, h.b)};
            low[q] = j == 0 ? n : (struct sums){i_add16(low[q].a, n.a), i_add16(low[q].b, n.b)};
            if (j % 4 == 3)
                dot[q] = (struct sums){i_widen_eight(dot[q].a, high[q].a),
                                       i_widen_eight(dot[q].b, high[q].b)};
        }
    }
    for (int q = 0; q < PAIRS; q++)
        dot[q] = (struct sums){i_widen(dot[q].a, low[q].a), i_widen(dot[q].b, low[q].b)};
}
#else
enum { DIRECT_OFFSET = W_OFFSET };
ALWAYS_INLINE void take_parts(const char *x, struct x_halves *out)
{
    (void)x, (void)out;
}

ALWAYS_INLINE void parts_dots(struct quant_layout l, struct form m, const struct half *f,
                              struct sums dot[PAIRS])
{
    (void)l, (void)m, (void)f, (void)dot;
}
#endif

/* dot [PAIRS] = the sums of q a of a half, pairs [q0, q_end) of the columns. */
#ifdef DOT_WIDE
/* Two chains for each vector, so that a product waits less for the one before it.  4-bit codes in the
 * high halves of bytes stay there, which makes the sum 16 times as large. */
ALWAYS_INLINE void half_dots(struct quant_layout l, struct form m, const struct half *f, int q0,
                             int q_end, struct sums dot[PAIRS])
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(f->x + GROUP);
    const int n = QUADS / l.halves;
    const bool high = m.as_codes && l.bits == 4;
    struct sums odd = {i_splat(0), i_splat(0)};
    static_assert(PAIRS == 1, "vectors of 16 columns");
    (void)q0, (void)q_end;
    dot->a = start_sum(info, l.halves, f->h, m.offset);
    dot->b = start_sum(info, l.halves, f->h, high ? 16 * m.offset : m.offset);
    UNROLL
    for (int j = f->h * n; j < (f->h + 1) * n; j++) {
        struct bytes w = direct_quad(l, m, f, j, 0);
        vi a = load_quad(f->x + 4 * j);
        if (high)
            w.b = b_field(b_load(f->group + j * 64), 0, 0xf0);
        struct sums *chain = j % 2 ? &odd : dot;
        chain->a = i_dot(chain->a, w.a, a);
        chain->b = i_dot(chain->b, w.b, a);
    }
    dot->a = i_add(dot->a, odd.a);
    dot->b = i_add(dot->b, odd.b);
    if (high)
        dot->b = i_sixteenth(dot->b);
}
#else
ALWAYS_INLINE void half_dots(struct quant_layout l, struct form m, const struct half *f, int q0,
                             int q_end, struct sums dot[PAIRS])
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(f->x + GROUP);
    const vi start = start_sum(info, l.halves, f->h, m.offset);
    const int n = QUADS / l.halves, quads = narrow_quads(l.bits);
    struct sums narrow[PAIRS];
    UNROLL
    for (int q = q0; q < q_end; q++)
        dot[q].a = dot[q].b = start;
    UNROLL
    for (int j = 0; j < n; j++) {
        vi a = load_quad(f->x + 4 * (f->h * n + j));
        UNROLL
        for (int q = q0; q < q_end; q++) {
            struct bytes w = direct_quad(l, m, f, f->h * n + j, q);
            if (m.as_codes) {
                dot[q].a = narrow_dot(dot[q].a, &narrow[q].a, w.a, a, j, n, quads);
                dot[q].b = narrow_dot(dot[q].b, &narrow[q].b, w.b, a, j, n, quads);
            } else {
                dot[q].a = i_dot(dot[q].a, w.a, a);
                dot[q].b = i_dot(dot[q].b, w.b, a);
            }
        }
    }
}
#endif

/* acc after groups [g, g + n) of a single row, which are behind one head. */
ALWAYS_INLINE void direct_groups(struct quant_layout l, const struct quant_panel *t, struct form m,
                                 bool ahead, int32_t g, int32_t n, const char *x,
                                 struct pair acc[PAIRS])
{
    const bool in_parts = HAS_NARROW && !m.as_codes;
    /* From memory 4 bits are faster in two turns; AArch64 takes more instructions for more columns. */
    const int at_once = (l.bits == 4 && !in_parts) || VL < 8 ? 1 : PAIRS;
    const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
    const char *sub = t->panel + quant_sub_at(&l, t->shape.skip, g);
    struct x_halves parts;
    struct half f = {.group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g),
                     .x = x,
                     .parts = &parts,
                     .spread = group_spread(&l, t->panel, g),
                     .read = ahead ? t->read : (struct read_ahead){0}};
    struct scales shared[PAIRS];
    if (l.super > 1 && !quant_near_bytes(&l)) /* subs are read out of order */
        for (size_t at = 0; at < quant_head_bytes(&l); at += 64)
            __builtin_prefetch(head + at);
    for (int q = 0; q < PAIRS; q++)
        shared[q] = load_head(l, head, q);
    for (int32_t i = 0; i < n; i++) {
        const struct quant_x *info = (const struct quant_x *)(const void *)(f.x + GROUP);
        if (in_parts)
            take_parts(f.x, &parts);
        UNROLL
        for (f.h = 0; f.h < l.halves; f.h++) {
            UNROLL
            for (int q0 = 0; q0 < PAIRS; q0 += at_once) {
                struct sums dot[PAIRS];
                struct scales s[PAIRS];
                UNROLL
                for (int q = q0; q < q0 + at_once; q++)
                    s[q] = sub_scales(l, shared[q], sub + PANEL * f.h, q);
                if (in_parts)
                    parts_dots(l, m, &f, dot);
                else
                    half_dots(l, m, &f, q0, q0 + at_once, dot);
                UNROLL
                for (int q = q0; q < q0 + at_once; q++)
                    acc[q] = add_sum(acc[q], dot[q], &s[q], l.has_min, l.halves, f.h, info);
            }
        }
        f.group += quant_group_bytes(&l);
        f.x += X_GROUP_BYTES;
        f.spread += QUADS * quad_bytes_of(&l);
        sub += quant_sub_step(&l);
    }
}

ALWAYS_INLINE void direct_row(struct quant_layout l, const struct quant_panel *t, bool as_codes,
                              bool ahead)
{
    struct pair tree[TREE_LEVELS][PAIRS], acc[PAIRS];
    const char *x = t->x;
    float out[PANEL];
    struct form m = form_of(l, t->pack, as_codes, DIRECT_OFFSET);
    for (int s = 0; s < t->shape.n_slices; s++) {
        int32_t g, end, n;
        for (int q = 0; q < PAIRS; q++)
            acc[q].a = acc[q].b = v_splat(0.0f);
        for (slice_groups(&t->shape, s, &g, &end); g < end; g += n, x += n * X_GROUP_BYTES) {
            n = l.super - (g + t->shape.skip / GROUP) % l.super;
            n = n < end - g ? n : end - g;
            direct_groups(l, t, m, ahead, g, n, x, acc);
        }
        int level = 0;
        for (; s >> level & 1; level++)
            for (int q = 0; q < PAIRS; q++) {
                acc[q].a = v_add(tree[level][q].a, acc[q].a);
                acc[q].b = v_add(tree[level][q].b, acc[q].b);
            }
        for (int q = 0; q < PAIRS; q++)
            tree[level][q] = acc[q];
    }
    for (int q = 0; q < PAIRS; q++) {
        v_store(out + VL * q, acc[q].a);
        v_store(out + PANEL / 2 + VL * q, acc[q].b);
    }
    for (int c = 0; c < t->cols; c++)
        t->out[c] = t->bias ? out[c] + t->bias[c] : out[c];
}

#endif
