/* AMX (its tile registers, int8) beside AVX-512 VNNI: one instruction makes the integer sums of 16
 * rows of x and 16 columns; the vector unit applies the scales.  Few rows are left to VNNI. */
#include "backends/cpu/bytes_avx512.h"

#include "backends/cpu/amx_tiles.h"
#include "backends/cpu/quant_unpack.h"

enum { T_ROWS = 16, T_COLS = 16, T_SUMS = 4 };

/* Tile registers 0 to 3 are sums, 4 and 6 rows of x, 5 and 7 weights; GROUP / halves elements of
 * k. */
static void configure(int rows, int halves)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        bool x = i == 4 || i == 6, w = i == 5 || i == 7;
        c.row_bytes[i] = (uint16_t)(x ? GROUP / halves : 4 * T_COLS);
        c.rows[i] = (uint8_t)(w ? QUADS / halves : rows);
    }
    tiles_configure(&c);
}

/* Tiles of equal rows with up to UNPACK_GROUPS groups of one slice: a stream of steps (a group or
 * half of one), tile after tile, in a tile columns 0 to 15 before 16 to 31. */
struct stream {
    const struct quant_panel *t;
    struct quant_scratch *own;     /* tile i's rows begin at T_ROWS i */
    int rows, n_tiles, tile0;      /* the first */
    int slice, n;                  /* of the panel; groups */
    bool begins, ends;             /* the slice */
    const char *x;                 /* the first tile's first group */
    size_t x_tile;                 /* bytes from a tile to the next */
    const char *ahead, *ahead_end; /* the groups that are unpacked next */
    size_t ahead_step;             /* bytes of them that a step prefetches */
};

/* A step of the stream: `step` of the columns from 16 q on of a tile. */
struct place {
    const char *x;            /* the step's group of the tile's rows */
    const struct unpacked *w; /* the step's group of the weights */
    int step, q, tile;
};

/* For each row r; T_ROWS of them when full. */
#define EACH_ROW                                                                                   \
    UNROLL                                                                                         \
    for (int r = 0; r < T_ROWS; r++)                                                               \
        if (full || r < st->rows)

ALWAYS_INLINE void next_step(const struct stream *st, int halves, struct place *at)
{
    at->step++;
    if (at->step % halves)
        return;
    at->x += st->rows * X_GROUP_BYTES;
    at->w++;
    if (at->step < st->n * halves)
        return;
    at->step = 0;
    at->x -= (ptrdiff_t)st->n * (st->rows * X_GROUP_BYTES);
    at->w -= st->n;
    if (++at->q < PANEL / T_COLS)
        return;
    at->q = 0;
    at->tile++;
    at->x += st->x_tile;
}

/* The step at `to`: x and weights to tile registers X and W, SUM = x w. */
#define MULTIPLY(SUM, X, W)                                                                        \
    do {                                                                                           \
        int h = to.step % halves;                                                                  \
        _tile_loadd(X, to.x + h * (GROUP / halves), GROUP);                                        \
        _tile_loadd(W, to.w->w + h * (QUADS / halves * PANEL * 4) + 4 * T_COLS * to.q, PANEL * 4); \
        _tile_zero(SUM);                                                                           \
        _tile_dpbssd(SUM, X, W);                                                                   \
    } while (0)

/* acc of each row after a step, whose integer sums are [rows][T_COLS]. */
ALWAYS_INLINE void add_step(const struct stream *st, bool full, int halves, bool min,
                            const struct place *at, const int32_t *sums, vf acc[T_ROWS])
{
    int h = at->step % halves;
    const struct unpacked *w = at->w;
    const struct quant_x *info = (const struct quant_x *)(const void *)(at->x + st->rows * GROUP);
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

ALWAYS_INLINE void begin_tile(const struct stream *st, bool full, const struct place *at,
                              vf acc[T_ROWS])
{
    const float(*from)[PANEL] = (const float(*)[PANEL])(st->own->sums.acc + T_ROWS * at->tile);
    EACH_ROW acc[r] = st->begins ? v_splat(0.0f) : v_load(from[r] + T_COLS * at->q);
}

/* Sums of the whole panel to `out`. */
ALWAYS_INLINE void put_out(const struct stream *st, bool full, const struct place *at,
                           const vf acc[T_ROWS])
{
    const struct quant_panel *t = st->t;
    int cols = t->cols - T_COLS * at->q;
    __mmask16 mask = (__mmask16)(cols >= T_COLS ? 0xffff : cols > 0 ? (1 << cols) - 1 : 0);
    float *out =
        t->out + (size_t)cut_start(t->rows, t->n_tiles, at->tile) * t->out_stride + T_COLS * at->q;
    EACH_ROW
    {
        vf sum = t->bias ? v_add(acc[r], v_load(t->bias + T_COLS * at->q)) : acc[r];
        _mm512_mask_storeu_ps(out + (size_t)r * t->out_stride, mask, sum);
    }
}

/* The sums of a tile's columns at the stream's end: kept, or, at a slice's end, into the tree or to
 * `out`. */
ALWAYS_INLINE void end_tile(const struct stream *st, bool full, const struct place *at,
                            vf acc[T_ROWS])
{
    float(*to)[PANEL] = st->own->sums.acc + T_ROWS * at->tile;
    if (st->ends) {
        int level = 0;
        for (; st->slice >> level & 1; level++) {
            to = st->own->sums.tree[level] + T_ROWS * at->tile;
            EACH_ROW acc[r] = v_add(v_load(to[r] + T_COLS * at->q), acc[r]);
        }
        if (st->slice == st->t->shape.n_slices - 1) {
            put_out(st, full, at, acc);
            return;
        }
        to = st->own->sums.tree[level] + T_ROWS * at->tile;
    }
    EACH_ROW v_store(to[r] + T_COLS * at->q, acc[r]);
}

/* Step u is multiplied while the one before is stored and the one before that is added. */
#define STAGE(SUM, BEFORE, LAST, X, W)                                                             \
    do {                                                                                           \
        if (u < steps) {                                                                           \
            MULTIPLY(SUM, X, W);                                                                   \
            next_step(st, halves, &to);                                                            \
            for (size_t b = 0; b < st->ahead_step && ahead < st->ahead_end; b += 64, ahead += 64)  \
                __builtin_prefetch(ahead, 0, 2);                                                   \
        }                                                                                          \
        if (u >= 1 && u <= steps)                                                                  \
            _tile_stored(BEFORE, sums[BEFORE], 4 * T_COLS);                                        \
        if (u >= 2 && u <= steps + 1) {                                                            \
            if (from.step == 0)                                                                    \
                begin_tile(st, full, &from, acc);                                                  \
            add_step(st, full, halves, min, &from, sums[LAST], acc);                               \
            if (from.step == st->n * halves - 1)                                                   \
                end_tile(st, full, &from, acc);                                                    \
            next_step(st, halves, &from);                                                          \
        }                                                                                          \
        u++;                                                                                       \
    } while (0)

ALWAYS_INLINE void run_stream(const struct stream *st, bool full, int halves, bool min)
{
    _Alignas(64) int32_t sums[T_SUMS][T_ROWS * T_COLS];
    const int steps = st->n_tiles * (PANEL / T_COLS) * st->n * halves;
    const char *ahead = st->ahead;
    struct place to = {.x = st->x, .w = st->own->group, .tile = st->tile0}, from = to;
    vf acc[T_ROWS];
    UNROLL
    for (int r = 0; r < T_ROWS; r++)
        acc[r] = v_splat(0.0f);
    for (int u = 0; u < steps + 2;) {
        STAGE(0, 3, 2, 4, 5);
        STAGE(1, 0, 3, 6, 7);
        STAGE(2, 1, 0, 4, 5);
        STAGE(3, 2, 1, 6, 7);
    }
}

/* By full, halves - 1, min; two halves with minima (Q2_K) are faster with VNNI. */
#define STREAM_FN(FULL, HALVES, MIN)                                                               \
    static void stream_##FULL##_##HALVES##_##MIN(const struct stream *st)                          \
    {                                                                                              \
        run_stream(st, FULL, HALVES, MIN);                                                         \
    }
STREAM_FN(0, 1, 0)
STREAM_FN(0, 1, 1)
STREAM_FN(0, 2, 0)
STREAM_FN(1, 1, 0)
STREAM_FN(1, 1, 1)
STREAM_FN(1, 2, 0)

typedef void stream_fn(const struct stream *st);
static stream_fn *const stream_fns[2][2][2] = {
    {{stream_0_1_0, stream_0_1_1}, {stream_0_2_0, NULL}},
    {{stream_1_1_0, stream_1_1_1}, {stream_1_2_0, NULL}}};

static int rows_of(const struct quant_panel *t, int tile)
{
    return cut_start(t->rows, t->n_tiles, tile + 1) - cut_start(t->rows, t->n_tiles, tile);
}

/* All tiles with the groups of st, which begin first_group groups into a row of x; tiles of equal
 * rows are one stream. */
static void stream_tiles(struct stream *st, int first_group, size_t ahead_bytes)
{
    const struct quant_panel *t = st->t;
    const struct quant_layout *l = t->pack->lay;
    size_t x_bytes = (size_t)x_groups(&t->shape) * X_GROUP_BYTES; /* of a row */
    size_t steps = (size_t)(t->n_tiles * (PANEL / T_COLS) * st->n * l->halves);
    st->ahead_step = (ahead_bytes / steps + 63) / 64 * 64;
    st->ahead_end = st->ahead + ahead_bytes;
    for (st->tile0 = 0; st->tile0 < t->n_tiles; st->tile0 += st->n_tiles) {
        int i = st->tile0, end = i + 1;
        st->rows = rows_of(t, i);
        while (end < t->n_tiles && rows_of(t, end) == st->rows)
            end++;
        st->n_tiles = end - i;
        st->x = t->x + (size_t)cut_start(t->rows, t->n_tiles, i) * x_bytes +
                (size_t)(st->rows * first_group) * X_GROUP_BYTES;
        st->x_tile = (size_t)st->rows * x_bytes;
        configure(st->rows, l->halves);
        stream_fns[st->rows == T_ROWS][l->halves - 1][l->has_min](st);
        st->ahead += st->ahead_step * (size_t)(st->n_tiles * (PANEL / T_COLS) * st->n * l->halves);
    }
}

#define SIGNED_FN(NAME, ...)                                                                       \
    static void signed_##NAME(const struct quant_panel *t, int32_t g, int n, struct unpacked *out) \
    {                                                                                              \
        unpack_groups((struct quant_layout){__VA_ARGS__}, t, g, n, out, false, 0);                 \
    }
QUANT_KINDS(SIGNED_FN)
#define SIGNED_ROW(NAME, ...) [NAME] = signed_##NAME,
static unpack_fn *const unpack_signed[QK_N] = {QUANT_KINDS(SIGNED_ROW)};

/* Groups [g, end) of slice s. */
static void stream_slice(const struct quant_panel *t, struct quant_scratch *own, int s, int32_t g,
                         int32_t end, int first_group)
{
    const struct quant_layout *l = t->pack->lay;
    struct stream st = {.t = t, .own = own, .slice = s, .begins = true};
    for (; g < end; g += st.n, first_group += st.n, st.begins = false) {
        st.n = end - g < UNPACK_GROUPS ? end - g : UNPACK_GROUPS;
        st.ends = g + st.n == end;
        st.ahead = t->panel + quant_group_at(l, t->shape.skip, g + st.n);
        unpack_signed[t->pack->kind](t, g, st.n, own->group);
        stream_tiles(&st, first_group, (size_t)st.n * quant_group_bytes(l));
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
    if (t->rows <= T_ROWS || !stream_fns[0][l->halves - 1][l->has_min] ||
        has_empty_slice(&t->shape)) {
        quant_avx512vnni.panel(t, scratch);
        return;
    }
    for (int s = 0, group = 0; s < t->shape.n_slices; s++) {
        int32_t g, end;
        slice_groups(&t->shape, s, &g, &end);
        stream_slice(t, scratch, s, g, end, group);
        group += end - g;
    }
    _tile_release();
}

static void amx_quantize_row(const struct quant_shape *s, const float *x, int row, int rows,
                             char *tile)
{
    quant_avx512vnni.quantize_row(s, x, row, rows, tile);
}

static void amx_sort_row(const struct sorted_shape *s, const void *plan, const float *x, char *row)
{
    quant_avx512vnni.sort_row(s, plan, x, row);
}

/* Chunks are shorter than a tile's rows. */
static void amx_sorted(const struct sorted_panel *t)
{
    quant_avx512vnni.sorted(t);
}

const struct quant_kernels quant_amx = {
    .tile_rows = T_ROWS,
    .tile_unit = 1,
    .scratch = sizeof(struct quant_scratch),
    .quantize_row = amx_quantize_row,
    .panel = amx_panel,
    .sort_row = amx_sort_row,
    .sorted = amx_sorted,
};
