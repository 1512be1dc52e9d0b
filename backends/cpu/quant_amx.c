/* AMX (tile, int8) beside AVX-512 VNNI: the integer sums of 16 rows of x and 16 columns are one
 * instruction; the vectors are left with the scales.  Few rows go the way of VNNI. */
#include "backends/cpu/bytes_avx512.h"

#include "backends/cpu/quant_unpack.h"

enum { T_ROWS = 16, T_COLS = 16, T_SUMS = 4 };

/* The processor's layout of LDTILECFG's operand. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tiles 0 to 3 are sums, 4 and 6 rows of x, 5 and 7 weights; RUN / halves elements of k. */
static void configure(int rows, int halves)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool x = i == 4 || i == 6, w = i == 5 || i == 7;
        c.row_bytes[i] = (uint16_t)(x ? RUN / halves : 4 * T_COLS);
        c.rows[i] = (uint8_t)(w ? QUADS / halves : rows);
    }
    _tile_loadconfig(&c);
}

/* Tiles of equal rows over a strip, up to SPAN runs of one slice: a stream of units (a run, or
 * half of one), tile after tile, in a tile columns 0 to 15 before 16 to 31. */
struct strip {
    const struct quant_panel *t;
    struct quant_scratch *own;     /* tile i's rows begin at T_ROWS i */
    int rows, n_tiles, tile0;      /* the first */
    int slice, n;                  /* of the panel; runs */
    bool begins, ends;             /* the slice */
    const char *x;                 /* the first tile's first run */
    size_t x_tile;                 /* bytes from a tile to the next */
    const char *ahead, *ahead_end; /* what will be unpacked next ... */
    size_t ahead_step;             /* ... fetched in so many bytes at a unit */
};

/* Where the stream is: a unit of columns 16 q on of a tile. */
struct place {
    const char *x;              /* its run */
    const struct span_group *w; /* its group */
    int unit, q, tile;          /* of the columns; of the tile; of the panel */
};

/* For each row r; T_ROWS of them when full. */
#define EACH_ROW                                                                                   \
    UNROLL                                                                                         \
    for (int r = 0; r < T_ROWS; r++)                                                               \
        if (full || r < st->rows)

ALWAYS_INLINE void next_unit(const struct strip *st, int halves, struct place *at)
{
    at->unit++;
    if (at->unit % halves)
        return;
    at->x += st->rows * X_RUN_BYTES;
    at->w++;
    if (at->unit < st->n * halves)
        return;
    at->unit = 0;
    at->x -= (ptrdiff_t)st->n * (st->rows * X_RUN_BYTES);
    at->w -= st->n;
    if (++at->q < PANEL / T_COLS)
        return;
    at->q = 0;
    at->tile++;
    at->x += st->x_tile;
}

/* The unit at `to`: x and weights to tiles X and W, SUM = x w. */
#define MULTIPLY(SUM, X, W)                                                                        \
    do {                                                                                           \
        int h = to.unit % halves;                                                                  \
        _tile_loadd(X, to.x + h * (RUN / halves), RUN);                                            \
        _tile_loadd(W, to.w->w + h * (QUADS / halves * PANEL * 4) + 4 * T_COLS * to.q, PANEL * 4); \
        _tile_zero(SUM);                                                                           \
        _tile_dpbssd(SUM, X, W);                                                                   \
    } while (0)

/* acc of each row after the unit, whose integer sums are [rows][T_COLS]. */
ALWAYS_INLINE void add_unit(const struct strip *st, bool full, int halves, bool min,
                            const struct place *at, const int32_t *sums, vf acc[T_ROWS])
{
    int h = at->unit % halves;
    const struct span_group *w = at->w;
    const struct quant_x *info = (const struct quant_x *)(const void *)(at->x + st->rows * RUN);
    vf scale = v_load(w->scale[h] + T_COLS * at->q), m = scale;
    if (min)
        m = v_load(w->min[h] + T_COLS * at->q);
    EACH_ROW
    {
        vf f = f_of_i(b_load(sums + r * T_COLS));
        acc[r] = v_fma(f, v_mul(scale, v_splat(info[r].d)), acc[r]);
        if (min)
            acc[r] = v_fma(m, v_splat(min_factor(&info[r], halves, h)), acc[r]);
    }
}

ALWAYS_INLINE void begin_tile(const struct strip *st, bool full, const struct place *at,
                              vf acc[T_ROWS])
{
    const float(*from)[PANEL] = (const float(*)[PANEL])(st->own->acc + T_ROWS * at->tile);
    EACH_ROW acc[r] = st->begins ? v_splat(0.0f) : v_load(from[r] + T_COLS * at->q);
}

/* The panel's sums go out. */
ALWAYS_INLINE void put_out(const struct strip *st, bool full, const struct place *at,
                           const vf acc[T_ROWS])
{
    const struct quant_panel *t = st->t;
    int cols = t->cols - T_COLS * at->q;
    __mmask16 mask = (__mmask16)(cols >= T_COLS ? 0xffff : cols > 0 ? (1 << cols) - 1 : 0);
    float *out =
        t->out + (size_t)tile_start(t->rows, t->n_tiles, at->tile) * t->out_stride + T_COLS * at->q;
    EACH_ROW
    {
        vf sum = t->bias ? v_add(acc[r], v_load(t->bias + T_COLS * at->q)) : acc[r];
        _mm512_mask_storeu_ps(out + (size_t)r * t->out_stride, mask, sum);
    }
}

/* A tile's columns are through the strip: kept, or, at a slice's end, into the tree or out. */
ALWAYS_INLINE void end_tile(const struct strip *st, bool full, const struct place *at,
                            vf acc[T_ROWS])
{
    float(*to)[PANEL] = st->own->acc + T_ROWS * at->tile;
    if (st->ends) {
        int level = 0;
        for (; st->slice >> level & 1; level++) {
            to = st->own->tree[level] + T_ROWS * at->tile;
            EACH_ROW acc[r] = v_add(v_load(to[r] + T_COLS * at->q), acc[r]);
        }
        if (st->slice == st->t->shape.n_slices - 1) {
            put_out(st, full, at, acc);
            return;
        }
        to = st->own->tree[level] + T_ROWS * at->tile;
    }
    EACH_ROW v_store(to[r] + T_COLS * at->q, acc[r]);
}

/* Unit u is multiplied while the one before is written out and the one before that is added. */
#define STAGE(SUM, BEFORE, LAST, X, W)                                                             \
    do {                                                                                           \
        if (u < units) {                                                                           \
            MULTIPLY(SUM, X, W);                                                                   \
            next_unit(st, halves, &to);                                                            \
            for (size_t b = 0; b < st->ahead_step && ahead < st->ahead_end; b += 64, ahead += 64)  \
                __builtin_prefetch(ahead, 0, 2);                                                   \
        }                                                                                          \
        if (u >= 1 && u <= units)                                                                  \
            _tile_stored(BEFORE, sums[BEFORE], 4 * T_COLS);                                        \
        if (u >= 2 && u <= units + 1) {                                                            \
            if (from.unit == 0)                                                                    \
                begin_tile(st, full, &from, acc);                                                  \
            add_unit(st, full, halves, min, &from, sums[LAST], acc);                               \
            if (from.unit == st->n * halves - 1)                                                   \
                end_tile(st, full, &from, acc);                                                    \
            next_unit(st, halves, &from);                                                          \
        }                                                                                          \
        u++;                                                                                       \
    } while (0)

ALWAYS_INLINE void strip_units(const struct strip *st, bool full, int halves, bool min)
{
    _Alignas(64) int32_t sums[T_SUMS][T_ROWS * T_COLS];
    const int units = st->n_tiles * (PANEL / T_COLS) * st->n * halves;
    const char *ahead = st->ahead;
    struct place to = {.x = st->x, .w = st->own->group, .tile = st->tile0}, from = to;
    vf acc[T_ROWS];
    UNROLL
    for (int r = 0; r < T_ROWS; r++)
        acc[r] = v_splat(0.0f);
    for (int u = 0; u < units + 2;) {
        STAGE(0, 3, 2, 4, 5);
        STAGE(1, 0, 3, 6, 7);
        STAGE(2, 1, 0, 4, 5);
        STAGE(3, 2, 1, 6, 7);
    }
}

/* By full, halves - 1, min; two halves with minima (Q2_K) are faster with VNNI. */
#define STRIP_FN(FULL, HALVES, MIN)                                                                \
    static void strip_##FULL##_##HALVES##_##MIN(const struct strip *st)                            \
    {                                                                                              \
        strip_units(st, FULL, HALVES, MIN);                                                        \
    }
STRIP_FN(0, 1, 0)
STRIP_FN(0, 1, 1)
STRIP_FN(0, 2, 0)
STRIP_FN(1, 1, 0) STRIP_FN(1, 1, 1) STRIP_FN(1, 2, 0) typedef void strip_fn(const struct strip *st);
static strip_fn *const strip_fns[2][2][2] = {{{strip_0_1_0, strip_0_1_1}, {strip_0_2_0, NULL}},
                                             {{strip_1_1_0, strip_1_1_1}, {strip_1_2_0, NULL}}};

static int rows_of(const struct quant_panel *t, int tile)
{
    return tile_start(t->rows, t->n_tiles, tile + 1) - tile_start(t->rows, t->n_tiles, tile);
}

/* All tiles over a strip that begins first_run runs into a row of x; those of equal rows in one go.
 */
static void strip_tiles(struct strip *st, int first_run, size_t ahead_bytes)
{
    const struct quant_panel *t = st->t;
    const struct quant_layout *l = t->pack->lay;
    size_t x_bytes = (size_t)quant_runs(&t->shape) * X_RUN_BYTES; /* of a row */
    size_t units = (size_t)(t->n_tiles * (PANEL / T_COLS) * st->n * l->halves);
    st->ahead_step = (ahead_bytes / units + 63) / 64 * 64;
    st->ahead_end = st->ahead + ahead_bytes;
    for (st->tile0 = 0; st->tile0 < t->n_tiles; st->tile0 += st->n_tiles) {
        int i = st->tile0, end = i + 1;
        st->rows = rows_of(t, i);
        while (end < t->n_tiles && rows_of(t, end) == st->rows)
            end++;
        st->n_tiles = end - i;
        st->x = t->x + (size_t)tile_start(t->rows, t->n_tiles, i) * x_bytes +
                (size_t)(st->rows * first_run) * X_RUN_BYTES;
        st->x_tile = (size_t)st->rows * x_bytes;
        configure(st->rows, l->halves);
        strip_fns[st->rows == T_ROWS][l->halves - 1][l->has_min](st);
        st->ahead += st->ahead_step * (size_t)(st->n_tiles * (PANEL / T_COLS) * st->n * l->halves);
    }
}

#define SIGNED_FN(NAME, BITS, HALVES, SUPER, MIN, NIBBLES)                                         \
    static void signed_##NAME(const struct quant_panel *t, int32_t g, int n,                       \
                              struct span_group *out)                                              \
    {                                                                                              \
        unpack_groups((struct quant_layout){BITS, HALVES, SUPER, MIN, NIBBLES}, t, g, n, out, 0);  \
    }
QUANT_KINDS(SIGNED_FN)
#define SIGNED_ROW(NAME, ...) [NAME] = signed_##NAME,
static unpack_fn *const unpack_signed[QK_N] = {QUANT_KINDS(SIGNED_ROW)};

/* Groups [g, end) of slice s. */
static void slice_strips(const struct quant_panel *t, struct quant_scratch *own, int s, int32_t g,
                         int32_t end, int first_run)
{
    const struct quant_layout *l = t->pack->lay;
    struct strip st = {.t = t, .own = own, .slice = s, .begins = true};
    for (; g < end; g += st.n, first_run += st.n, st.begins = false) {
        st.n = end - g < SPAN ? end - g : SPAN;
        st.ends = g + st.n == end;
        st.ahead = t->panel + quant_group_at(l, t->shape.skip, g + st.n);
        unpack_signed[t->pack->kind](t, g, st.n, own->group);
        strip_tiles(&st, first_run, (size_t)st.n * quant_group_bytes(l));
    }
}

static bool has_empty_slice(const struct quant_shape *shape)
{
    int32_t g, end;
    for (int s = 0; s < shape->n_slices; s++) {
        slice_groups(shape, s, &g, &end);
        if (g == end)
            return true;
    }
    return false;
}

static void amx_panel(const struct quant_panel *t, void *scratch)
{
    const struct quant_layout *l = t->pack->lay;
    if (t->rows <= T_ROWS || !strip_fns[0][l->halves - 1][l->has_min] ||
        has_empty_slice(&t->shape)) {
        quant_avx512vnni.panel(t, scratch);
        return;
    }
    for (int s = 0, run = 0; s < t->shape.n_slices; s++) {
        int32_t g, end;
        slice_groups(&t->shape, s, &g, &end);
        slice_strips(t, scratch, s, g, end, run);
        run += end - g;
    }
    _tile_release();
}

static void amx_quantize_row(const struct quant_shape *s, const float *x, int row, int rows,
                             char *tile)
{
    quant_avx512vnni.quantize_row(s, x, row, rows, tile);
}

const struct quant_kernels quant_amx = {
    .tile_rows = T_ROWS,
    .scratch = sizeof(struct quant_scratch),
    .quantize_row = amx_quantize_row,
    .panel = amx_panel,
};
