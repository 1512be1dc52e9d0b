/* AMX (tile, int8) beside AVX-512 VNNI: the integer sums of 16 rows of x and 16 columns are one
 * instruction; the vectors are left with the scales.  Few rows go the way of VNNI. */
#define DOT_VNNI
#include "backends/cpu/bytes_avx512.h"

#include "backends/cpu/quant_kernels.h"

enum { T_ROWS = 16, T_LEAST = 8, T_COLS = 16, T_SUMS = 4, STRIP = 8 };

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

struct amx_scratch {
    struct span_group group[STRIP];
    float acc[QUANT_ROWS][PANEL];
    float tree[TREE_LEVELS][QUANT_ROWS][PANEL];
};

/* Tiles of equal rows over a strip, up to STRIP runs of one slice: a stream of units (a run, or
 * half of one), tile after tile, in a tile columns 0 to 15 before 16 to 31. */
struct strip {
    const struct quant_panel *t;
    struct amx_scratch *own;
    int n_tiles, row0;             /* the first row */
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
    int unit, q, tile;          /* of the columns; of the tile; of the strip */
};

ALWAYS_INLINE void next_unit(const struct strip *st, int rows, int halves, struct place *at)
{
    at->unit++;
    if (at->unit % halves)
        return;
    at->x += rows * X_RUN_BYTES;
    at->w++;
    if (at->unit < st->n * halves)
        return;
    at->unit = 0;
    at->x -= (ptrdiff_t)st->n * (rows * X_RUN_BYTES);
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
ALWAYS_INLINE void add_unit(int rows, int halves, bool min, const struct place *at,
                            const int32_t *sums, vf acc[T_ROWS])
{
    int h = at->unit % halves;
    const struct span_group *w = at->w;
    const struct quant_x *info = (const struct quant_x *)(const void *)(at->x + rows * RUN);
    vf scale = v_load(w->scale[h] + T_COLS * at->q), m = scale;
    if (min)
        m = v_load(w->min[h] + T_COLS * at->q);
    UNROLL
    for (int r = 0; r < rows; r++) {
        vf f = f_of_i(b_load(sums + r * T_COLS));
        acc[r] = v_fma(f, v_mul(scale, v_splat(info[r].d)), acc[r]);
        if (min)
            acc[r] = v_fma(m, v_splat(min_factor(&info[r], halves, h)), acc[r]);
    }
}

ALWAYS_INLINE void begin_tile(const struct strip *st, int rows, const struct place *at,
                              vf acc[T_ROWS])
{
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = v_splat(0.0f);
    if (st->begins)
        return;
    float(*from)[PANEL] = st->own->acc + st->row0 + at->tile * rows;
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = v_load(from[r] + T_COLS * at->q);
}

/* The panel's sums go out. */
ALWAYS_INLINE void put_out(const struct strip *st, int rows, const struct place *at,
                           const vf acc[T_ROWS])
{
    const struct quant_panel *t = st->t;
    int cols = t->cols - T_COLS * at->q;
    __mmask16 mask = (__mmask16)(cols >= T_COLS ? 0xffff : cols > 0 ? (1 << cols) - 1 : 0);
    float *out = t->out + (size_t)(st->row0 + at->tile * rows) * t->out_stride + T_COLS * at->q;
    UNROLL
    for (int r = 0; r < rows; r++, out += t->out_stride)
        _mm512_mask_storeu_ps(out, mask,
                              t->bias ? v_add(acc[r], v_load(t->bias + T_COLS * at->q)) : acc[r]);
}

/* A tile's columns are through the strip: kept, or, at a slice's end, into the tree or out. */
ALWAYS_INLINE void end_tile(const struct strip *st, int rows, const struct place *at,
                            vf acc[T_ROWS])
{
    int row = st->row0 + at->tile * rows, level = 0;
    float(*to)[PANEL] = st->own->acc;
    if (st->ends) {
        for (; st->slice >> level & 1; level++) {
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r] = v_add(v_load(st->own->tree[level][row + r] + T_COLS * at->q), acc[r]);
        }
        to = st->own->tree[level];
        if (st->slice == st->t->shape.n_slices - 1) {
            put_out(st, rows, at, acc);
            return;
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        v_store(to[row + r] + T_COLS * at->q, acc[r]);
}

/* Unit u is multiplied while the one before is written out and the one before that is added. */
#define STAGE(SUM, BEFORE, LAST, X, W)                                                             \
    do {                                                                                           \
        if (u < units) {                                                                           \
            MULTIPLY(SUM, X, W);                                                                   \
            next_unit(st, rows, halves, &to);                                                      \
            for (size_t b = 0; b < st->ahead_step && ahead < st->ahead_end; b += 64, ahead += 64)  \
                __builtin_prefetch(ahead, 0, 2);                                                   \
        }                                                                                          \
        if (u >= 1 && u <= units)                                                                  \
            _tile_stored(BEFORE, sums[BEFORE], 4 * T_COLS);                                        \
        if (u >= 2 && u <= units + 1) {                                                            \
            if (from.unit == 0)                                                                    \
                begin_tile(st, rows, &from, acc);                                                  \
            add_unit(rows, halves, min, &from, sums[LAST], acc);                                   \
            if (from.unit == st->n * halves - 1)                                                   \
                end_tile(st, rows, &from, acc);                                                    \
            next_unit(st, rows, halves, &from);                                                    \
        }                                                                                          \
        u++;                                                                                       \
    } while (0)

ALWAYS_INLINE void strip_rows(const struct strip *st, int rows, int halves, bool min)
{
    _Alignas(64) int32_t sums[T_SUMS][T_ROWS * T_COLS];
    const int units = st->n_tiles * (PANEL / T_COLS) * st->n * halves;
    const char *ahead = st->ahead;
    struct place to = {.x = st->x, .w = st->own->group}, from = to;
    vf acc[T_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = v_splat(0.0f);
    for (int u = 0; u < units + 2;) {
        STAGE(0, 3, 2, 4, 5);
        STAGE(1, 0, 3, 6, 7);
        STAGE(2, 1, 0, 4, 5);
        STAGE(3, 2, 1, 6, 7);
    }
}

#define STRIP_FN(R, HALVES, MIN)                                                                   \
    static void strip_##R##_##HALVES##_##MIN(const struct strip *st)                               \
    {                                                                                              \
        strip_rows(st, R, HALVES, MIN);                                                            \
    }
#define STRIP_FNS(R) STRIP_FN(R, 1, 0) STRIP_FN(R, 1, 1) STRIP_FN(R, 2, 0)
#define STRIP_ROW(R) [R - T_LEAST] = {{strip_##R##_1_0, strip_##R##_1_1}, {strip_##R##_2_0, NULL}},
#define STRIP_SIZES(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
STRIP_SIZES(STRIP_FNS)
typedef void strip_fn(const struct strip *st);
static strip_fn *const strip_fns[T_ROWS - T_LEAST + 1][2][2] = {STRIP_SIZES(STRIP_ROW)};

static int rows_of(const struct quant_panel *t, int tile)
{
    return tile_start(t->rows, t->n_tiles, tile + 1) - tile_start(t->rows, t->n_tiles, tile);
}

/* All tiles over a strip that begins first_run runs into a row of x. */
static void strip_tiles(struct strip *st, int first_run, size_t ahead_bytes)
{
    const struct quant_panel *t = st->t;
    const struct quant_layout *l = t->pack->lay;
    size_t x_bytes = (size_t)quant_runs(&t->shape) * X_RUN_BYTES; /* of a row */
    size_t units = (size_t)(t->n_tiles * (PANEL / T_COLS) * st->n * l->halves);
    st->ahead_step = (ahead_bytes / units + 63) / 64 * 64;
    st->ahead_end = st->ahead + ahead_bytes;
    for (int i = 0; i < t->n_tiles; i += st->n_tiles) {
        int rows = rows_of(t, i);
        st->row0 = tile_start(t->rows, t->n_tiles, i);
        for (st->n_tiles = 1; i + st->n_tiles < t->n_tiles && rows_of(t, i + st->n_tiles) == rows;)
            st->n_tiles++;
        st->x = t->x + (size_t)st->row0 * x_bytes + (size_t)(rows * first_run) * X_RUN_BYTES;
        st->x_tile = (size_t)rows * x_bytes;
        configure(rows, l->halves);
        strip_fns[rows - T_LEAST][l->halves - 1][l->has_min](st);
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
static void slice_strips(const struct quant_panel *t, struct amx_scratch *own, int s, int32_t g,
                         int32_t end, int first_run)
{
    const struct quant_layout *l = t->pack->lay;
    struct strip st = {.t = t, .own = own, .slice = s, .begins = true};
    for (; g < end; g += st.n, first_run += st.n, st.begins = false) {
        st.n = end - g < STRIP ? end - g : STRIP;
        st.ends = g + st.n == end;
        st.ahead = t->panel + quant_group_at(l, t->shape.skip, g + st.n);
        unpack_signed[t->pack->kind](t, g, st.n, own->group);
        strip_tiles(&st, first_run, (size_t)st.n * quant_group_bytes(l));
    }
}

static void amx_panel(const struct quant_panel *t, void *scratch)
{
    struct amx_scratch *own = scratch;
    const struct quant_layout *l = t->pack->lay;
    if (t->rows <= T_ROWS || !strip_fns[0][l->halves - 1][l->has_min]) {
        fast_quant_panel(t, scratch); /* faster, too, for two halves with minima (Q2_K) */
        return;
    }
    for (int s = 0, run = 0; s < t->shape.n_slices; s++) {
        int32_t g, end;
        slice_groups(&t->shape, s, &g, &end);
        slice_strips(t, own, s, g, end, run);
        run += end - g;
        if (g < end)
            continue;
        memset(own->acc, 0, (size_t)t->rows * sizeof own->acc[0]);
        climb_rows(t->rows, s, own->acc, own->tree);
        if (s == t->shape.n_slices - 1)
            store_rows(t, own->acc);
    }
    _tile_release();
}

const struct quant_kernels quant_amx = {
    .tile_rows = T_ROWS,
    .scratch = sizeof(struct amx_scratch) > sizeof(struct quant_scratch)
                   ? sizeof(struct amx_scratch)
                   : sizeof(struct quant_scratch),
    .quantize_row = row_quantize,
    .panel = amx_panel,
};
