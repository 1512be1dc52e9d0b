/* A few rows of x (decode of several sequences) against a panel: as with one row the codes go from the
 * panel straight into the products, FEW_ROWS rows at a time.  Included by quant_kernels.h, which
 * says what the vectors must define. */
#ifndef BACKENDS_CPU_QUANT_FEW_H
#define BACKENDS_CPU_QUANT_FEW_H

enum { FEW_ROWS = 4 }; /* most rows at a time: their sums are in registers */

#ifdef DIRECT_FEW
enum {
    FEW_GROUPS = 4,         /* groups that all rows meet before the next ones: they fit a cache */
    AHEAD_OF_FEW = 4 << 10, /* at least their bytes in a panel, of fewer than 8 bits */
};

/* Most rows of a strip that are multiplied so: where it took less time than unpacking groups first, with
 * weights from memory on Zen 4 (docs/measured.md, Machine D).  More than FEW_ROWS rows take the codes
 * apart twice, which with 16 registers, with 8 bits and with tables is often no cheaper than storing
 * them unpacked: 8 bits are not unpacked with VNNI; without VNNI products of signed weights take
 * fewer instructions as words. */
static int few_most(const struct quant_pack *p)
{
    const int bits = p->lay->bits;
    if (!HAS_NARROW && VL == 16) /* AVX-512 with VNNI */
        return bits == 8 ? 4 : 8;
    if (!HAS_NARROW) /* AVX-VNNI */
        return bits == 8 ? 0 : bits == 6 ? 8 : 4;
    if (VL == 8) /* AVX2 */
        return p->values ? 4 : bits == 8 ? 7 : 8;
    return p->values ? 3 : bits == 8 || bits == 5 ? 4 : 8; /* AVX-512 without VNNI */
}

/* Types with a minimum have codes from 0 on, so that codes have no offset to cancel. */
ALWAYS_INLINE struct form few_form(struct quant_layout l, const struct quant_pack *p, bool as_codes)
{
    struct form m = form_of(l, p, as_codes, W_OFFSET);
    if (as_codes && l.has_min)
        m.offset = 0;
    return m;
}

/* dot [rows] = the sums of q a of a half, pair q of the columns; info: of these rows. */
#ifdef DOT_WIDE
/* As half_dot; with two rows there are two chains for each vector. */
ALWAYS_INLINE void few_dots(int rows, struct quant_layout l, struct form m, const struct half *f,
                            const struct quant_x *info, int q, struct sums *dot)
{
    const int n = QUADS / l.halves;
    const bool high = m.as_codes && l.bits == 4, two = rows == 2;
    struct sums odd[FEW_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        dot[r].a = start_sum(&info[r], l.halves, f->h, m.offset);
        dot[r].b = start_sum(&info[r], l.halves, f->h, high ? 16 * m.offset : m.offset);
        odd[r] = (struct sums){i_splat(0), i_splat(0)};
    }
    UNROLL
    for (int j = f->h * n; j < (f->h + 1) * n; j++) {
        struct bytes w = direct_quad(l, m, f, j, q);
        if (high)
            w.b = b_field(b_load(f->group + j * 64 + 4 * VL * q), 0, 0xf0);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi a = load_quad(f->x + r * GROUP + 4 * j);
            struct sums *chain = two && j % 2 ? &odd[r] : &dot[r];
            chain->a = i_dot(chain->a, w.a, a);
            chain->b = i_dot(chain->b, w.b, a);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        if (two)
            dot[r] = (struct sums){i_add(dot[r].a, odd[r].a), i_add(dot[r].b, odd[r].b)};
        if (high)
            dot[r].b = i_sixteenth(dot[r].b);
    }
}
#else
ALWAYS_INLINE void few_dots(int rows, struct quant_layout l, struct form m, const struct half *f,
                            const struct quant_x *info, int q, struct sums *dot)
{
    const int n = QUADS / l.halves, quads = narrow_quads(l.bits);
    struct sums narrow[FEW_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r].a = dot[r].b = start_sum(&info[r], l.halves, f->h, m.offset);
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

/* acc [rows][PANEL], or 0, after groups [g, g + n) of the panel; x begins at the first of them. */
ALWAYS_INLINE void few_groups(int rows, struct quant_layout l, bool as_codes,
                              const struct quant_panel *t, int32_t g, int32_t n,
                              const struct tile_x *tx, float (*acc)[PANEL])
{
    const struct form m = few_form(l, t->pack, as_codes);
    const int32_t end = g + n;
    const int step = tx->in_tile * X_GROUP_BYTES;
    const char *infos = (const char *)tx->info;
    struct half f = {.group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g),
                     .x = tx->x,
                     .spread = group_spread(&l, t->panel, g),
                     .read = tx->spread ? tx->read : (struct read_ahead){0}};
    struct pair sum[FEW_ROWS][PAIRS];
    load_sums(rows, tx->first, acc, sum);
    while (g < end) { /* the groups behind a head */
        const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
        const char *sub = t->panel + quant_sub_at(&l, t->shape.skip, g);
        int32_t behind = l.super - (g + t->shape.skip / GROUP) % l.super;
        int32_t until = behind < end - g ? g + behind : end;
        struct scales shared[PAIRS];
        for (int q = 0; q < PAIRS; q++)
            shared[q] = load_head(l, head, q);
        for (; g < until; g++) {
            const struct quant_x *info = (const struct quant_x *)(const void *)infos;
            UNROLL
            for (f.h = 0; f.h < l.halves; f.h++) {
                UNROLL
                for (int q = 0; q < PAIRS; q++) {
                    struct sums dot[FEW_ROWS];
                    load_again();
                    struct scales s = sub_scales(l, shared[q], sub + PANEL * f.h, q);
                    few_dots(rows, l, m, &f, info, q, dot);
                    UNROLL
                    for (int r = 0; r < rows; r++)
                        sum[r][q] =
                            add_sum(sum[r][q], dot[r], &s, l.has_min, l.halves, f.h, &info[r]);
                }
            }
            f.group += quant_group_bytes(&l);
            f.x += step;
            f.spread += QUADS * quad_bytes_of(&l);
            infos += step;
            sub += quant_sub_step(&l);
        }
        f.group += quant_head_bytes(&l);
    }
    store_sums(rows, sum, acc);
}

typedef void few_fn(int rows, const struct quant_panel *t, int32_t g, int32_t n,
                    const struct tile_x *tx, float (*acc)[PANEL]);

/* rows: 2 to FEW_ROWS. */
ALWAYS_INLINE void few_rows(int rows, struct quant_layout l, bool as_codes,
                            const struct quant_panel *t, int32_t g, int32_t n,
                            const struct tile_x *tx, float (*acc)[PANEL])
{
    if (rows == 2)
        few_groups(2, l, as_codes, t, g, n, tx, acc);
    else if (rows == 3)
        few_groups(3, l, as_codes, t, g, n, tx, acc);
    else
        few_groups(4, l, as_codes, t, g, n, tx, acc);
}

#define FEW_FN(NAME, BITS, ...)                                                                    \
    static void few_##NAME(int rows, const struct quant_panel *t, int32_t g, int32_t n,            \
                           const struct tile_x *tx, float(*acc)[PANEL])                            \
    {                                                                                              \
        if (BITS < 8 && !t->pack->values)                                                          \
            few_rows(rows, (struct quant_layout){BITS, __VA_ARGS__}, true, t, g, n, tx, acc);      \
        else if (BITS == 8 || BITS == 4)                                                           \
            few_rows(rows, (struct quant_layout){BITS, __VA_ARGS__}, false, t, g, n, tx, acc);     \
    }
QUANT_KINDS(FEW_FN)

#define FEW_ROW(NAME, ...) [NAME] = few_##NAME,
static few_fn *const few_fns[QK_N] = {QUANT_KINDS(FEW_ROW)};

/* acc [rows][PANEL], or 0, after groups [g, g + n) of the panel; rows: 2 to FEW_ROWS. */
static void add_few(int rows, const struct quant_panel *t, int32_t g, int32_t n,
                    const struct tile_x *tx, float (*acc)[PANEL])
{
    few_fns[t->pack->kind](rows, t, g, n, tx, acc);
}
#else
enum { FEW_GROUPS = 1, AHEAD_OF_FEW = 0 };
static int few_most(const struct quant_pack *p)
{
    (void)p;
    return 0;
}
static void add_few(int rows, const struct quant_panel *t, int32_t g, int32_t n,
                    const struct tile_x *tx, float (*acc)[PANEL])
{
    (void)rows, (void)t, (void)g, (void)n, (void)tx, (void)acc;
}
#endif

#endif
