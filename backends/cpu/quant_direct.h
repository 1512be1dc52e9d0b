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

ALWAYS_INLINE struct form form_of(struct quant_layout l, const struct quant_pack *p, bool as_codes)
{
    if (as_codes)
        return (struct form){.as_codes = true, .offset = -p->low};
    return (struct form){.offset = W_OFFSET, .map = code_map(l, p, W_OFFSET)};
}

/* Half h of a group, which begins at `group`, and of a row of x. */
struct half {
    const uint8_t *group;
    const char *x;
    const char *spread; /* of the group */
    struct read_ahead read;
    int h;
};

ALWAYS_INLINE struct bytes direct_quad(struct quant_layout l, struct form m, const struct half *f,
                                       int j, int q)
{
    if (q == 0)
        read_ahead_quad(f->read, f->spread, j, quad_bytes_of(&l));
    return m.as_codes ? load_codes(l, f->group, j, q)
                      : load_weights(l, m.map, f->group, j, q, W_OFFSET);
}

/* The sums of q a of a half, pair q of the columns. */
#ifdef DOT_WIDE
/* Two chains for each vector, so that a product waits less for the one before it.  4-bit codes in the
 * high halves of bytes stay there, which makes the sum 16 times as large. */
ALWAYS_INLINE struct sums half_dot(struct quant_layout l, struct form m, const struct half *f,
                                   int q)
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(f->x + GROUP);
    const int n = QUADS / l.halves;
    const bool high = m.as_codes && l.bits == 4;
    struct sums dot = {start_sum(info, l.halves, f->h, m.offset),
                       start_sum(info, l.halves, f->h, high ? 16 * m.offset : m.offset)};
    struct sums odd = {i_splat(0), i_splat(0)};
    UNROLL
    for (int j = f->h * n; j < (f->h + 1) * n; j++) {
        struct bytes w = direct_quad(l, m, f, j, q);
        vi a = load_quad(f->x + 4 * j);
        if (high)
            w.b = b_field(b_load(f->group + j * 64 + 4 * VL * q), 0, 0xf0);
        struct sums *chain = j % 2 ? &odd : &dot;
        chain->a = i_dot(chain->a, w.a, a);
        chain->b = i_dot(chain->b, w.b, a);
    }
    dot.a = i_add(dot.a, odd.a);
    dot.b = i_add(dot.b, odd.b);
    if (high)
        dot.b = i_sixteenth(dot.b);
    return dot;
}
#else
ALWAYS_INLINE struct sums half_dot(struct quant_layout l, struct form m, const struct half *f,
                                   int q)
{
    const struct quant_x *info = (const struct quant_x *)(const void *)(f->x + GROUP);
    vi start = start_sum(info, l.halves, f->h, m.offset);
    struct sums dot = {start, start}, narrow = dot;
    const int n = QUADS / l.halves, quads = narrow_quads(l.bits);
    UNROLL
    for (int j = 0; j < n; j++) {
        struct bytes w = direct_quad(l, m, f, f->h * n + j, q);
        vi a = load_quad(f->x + 4 * (f->h * n + j));
        if (m.as_codes) {
            dot.a = narrow_dot(dot.a, &narrow.a, w.a, a, j, n, quads);
            dot.b = narrow_dot(dot.b, &narrow.b, w.b, a, j, n, quads);
        } else {
            dot.a = i_dot(dot.a, w.a, a);
            dot.b = i_dot(dot.b, w.b, a);
        }
    }
    return dot;
}
#endif

/* acc after groups [g, g + n) of a single row, which are behind one head. */
ALWAYS_INLINE void direct_groups(struct quant_layout l, const struct quant_panel *t, struct form m,
                                 bool ahead, int32_t g, int32_t n, const char *x,
                                 struct pair acc[PAIRS])
{
    const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
    const char *sub = t->panel + quant_sub_at(&l, t->shape.skip, g);
    struct half f = {.group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g),
                     .x = x,
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
        UNROLL
        for (f.h = 0; f.h < l.halves; f.h++) {
            UNROLL
            for (int q = 0; q < PAIRS; q++) {
                struct scales s = sub_scales(l, shared[q], sub + PANEL * f.h, q);
                struct sums dot = half_dot(l, m, &f, q);
                acc[q] = add_sum(acc[q], dot, &s, l.has_min, l.halves, f.h, info);
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
    struct form m = form_of(l, t->pack, as_codes);
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
