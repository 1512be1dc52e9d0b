/* moe_ffn.  For a chunk of tokens:
 *   1. the pairs (token, expert) are sorted by expert;
 *   2. x is packed in that order; gate, up and the activation give hidden [P, F];
 *   3. hidden is packed; down gives each slice's product of each pair, for as many columns at a
 *      time as the scratch memory holds;
 *   4. a token's experts and slices are added.
 * The launches depend on T alone, so a recorded step serves any choice of experts. */
#include "backends/cuda/moe_kernels.h"
#include "backends/cuda/quant_kernels.h"
#include "backends/cuda/scaled_kernels.h"

enum {
    MAX_PAIRS = 16384,      /* of a chunk: bounds the scratch */
    PARTS_BYTES = 32 << 20, /* that the slices' products may take: they stay in L2 */
    ALIGN = 64,
};

/* Where a chunk's arrays are in the scratch memory, in bytes. */
struct room {
    size_t start, first_tile, expert, token, row, hidden;
    size_t packed, unscale; /* of hidden */
    size_t shared;          /* x, packed, and its factors; later the slices' products */
    size_t shared_bytes, total;
};

static size_t take(size_t *total, size_t bytes)
{
    size_t at = *total;
    *total += round_up_size(bytes, ALIGN);
    return at;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of a row of x in any layout and type, and of its factors, over k columns in slices. */
static size_t packed_bytes(size_t k)
{
    return (k + N_SLICES * K_STEP) * sizeof(uint16_t);
}

static size_t unscale_bytes(size_t k)
{
    return (k / SCALED_SEGMENT + N_SLICES) * sizeof(float);
}

/* A matrix of scaled_layout.h whose x is packed; NULL is none. */
static bool has_mma(const struct weight *w)
{
    return w && w->scaled.mma;
}

/* Bytes of a row's records for a quantised matrix; of a stack for each part, the larger one's: they are packed one after
 * the other. */
static size_t records_bytes(const struct weight *w)
{
    size_t most =
        w->sorted.bits ? (size_t)w->sorted.n_chunks : (size_t)w->k / QUANT_GROUP + 2 * N_SLICES;
    for (int32_t i = 0; i < w->n_parts; i++)
        most = larger(i > 0 ? most : 0, (size_t)w->part[i]->sorted.n_chunks);
    return most * QUANT_RECORD;
}

/* Sorted columns, of one order or of one for each part. */
static bool has_orders(const struct weight *w)
{
    return w && (w->sorted.bits || w->n_parts > 0);
}

/* The same of a row for w, k columns: with mma of slices that begin in a block more, of sorted columns of chunks. */
static size_t packed_row_bytes(const struct weight *w, size_t k)
{
    size_t own = has_mma(w) ? (size_t)w->k_pad * sizeof(uint16_t) : 0;
    if (has_orders(w))
        own = records_bytes(w);
    return larger(packed_bytes(k), own);
}

static size_t unscale_row_bytes(const struct weight *w, size_t k)
{
    size_t own = has_mma(w) ? (size_t)w->k_layout.seg[w->k_layout.n_slices] * sizeof(float) : 0;
    return larger(unscale_bytes(k), own);
}

static struct room room_of(const struct moe_layer *ml, int32_t n_tokens)
{
    size_t pairs = (size_t)n_tokens * (size_t)ml->top_k, E = (size_t)ml->n_experts;
    size_t D = (size_t)ml->hidden, F = (size_t)ml->ffn;
    size_t column = pairs * N_SLICES * sizeof(float);
    size_t most = column * round_up_size(D, MOE_SUMS_COLS), least = column * MOE_SUMS_COLS;
    struct room r = {0};
    r.start = take(&r.total, (E + 1) * sizeof(int32_t));
    r.first_tile = take(&r.total, (E + 1) * sizeof(int32_t));
    r.expert = take(&r.total, pairs * sizeof(int32_t));
    r.token = take(&r.total, pairs * sizeof(int32_t));
    r.row = take(&r.total, pairs * sizeof(int32_t));
    r.hidden = take(&r.total, pairs * F * sizeof(float));
    r.packed = take(&r.total, pairs * packed_row_bytes(ml->down, F));
    r.unscale = take(&r.total, pairs * unscale_row_bytes(ml->down, F));
    r.shared_bytes = larger(round_up_size(pairs * packed_row_bytes(ml->gate_up, D), ALIGN) +
                                round_up_size(pairs * unscale_row_bytes(ml->gate_up, D), ALIGN),
                            larger(smaller(most, PARTS_BYTES), least));
    r.shared = take(&r.total, r.shared_bytes);
    return r;
}

static int32_t chunk_of(const struct moe_layer *ml, int32_t n_tokens)
{
    int32_t most = MAX_PAIRS / ml->top_k;
    return n_tokens < most ? n_tokens : most;
}

/* Bytes that the slices of a row add at most where they begin in a block, packed and unscaled. */
enum { GAPS_BYTES = N_SLICES * (2 * 256 + 2 * (int)sizeof(float)), GAPS_TOKENS = 64 };

/* Bytes of a token's records of sorted columns, in groups of 32 or more. */
static size_t token_records(const struct moe_layer *ml)
{
    size_t k = (size_t)ml->hidden + (size_t)ml->ffn;
    return (size_t)ml->top_k * ((N_SLICES + 1) * k / SORTED_CHUNK + 2 * N_SLICES) * QUANT_RECORD;
}

size_t cuda_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens)
{
    (void)be;
    int32_t few = max_tokens < GAPS_TOKENS ? max_tokens : GAPS_TOKENS;
    size_t gaps = 2 * (size_t)few * (size_t)ml->top_k * GAPS_BYTES + 4 * ALIGN;
    struct moe_layer shape = *ml; /* a plan is made before there are weights */
    shape.gate_up = shape.down = NULL;
    size_t most = larger(room_of(&shape, chunk_of(ml, max_tokens)).total,
                         room_of(&shape, chunk_of(ml, few)).total + gaps);
    return larger(most, room_of(&shape, chunk_of(ml, 1)).total + token_records(ml) + 4 * ALIGN);
}

/* A chunk of tokens. */
struct chunk {
    const struct moe_layer *ml;
    struct view x, ids, weights, out;
    struct view scratch;
    char *memory; /* the scratch's */
    struct room room;
    struct moe_groups groups;
};

static int32_t n_pairs(const struct chunk *c)
{
    return c->x.rows * c->ml->top_k;
}

static struct view scratch_view(const struct chunk *c, size_t at, int32_t rows, int32_t cols,
                                int32_t stride)
{
    return (struct view){.buf = c->scratch.buf,
                         .off = c->scratch.off + at,
                         .rows = rows,
                         .cols = cols,
                         .stride = stride,
                         .dtype = DT_F32};
}

/* The rows of a tile that suit P pairs over E experts. */
static int32_t tile_rows_of(const struct chunk *c, const struct weight *w)
{
    int32_t mean = n_pairs(c) / c->ml->n_experts;
    if (has_panels(w) && !has_mma(w))
        return MOE_ROWS_TILE;
    if (w->dtype == DT_F32)
        return MOE_F32_TILE;
    if (mean <= MOE_ROWS_TILE)
        return MOE_ROWS_TILE;
    return mean < MOE_TILES_TILE_MOST ? MOE_TILES_TILE : MOE_TILES_TILE_MOST;
}

static enum status sort_pairs(struct backend *be, struct chunk *c, int32_t tile_rows)
{
    char *at = c->memory;
    if (c->groups.tile_rows == tile_rows)
        return ST_OK;
    c->groups = (struct moe_groups){.n_tokens = c->x.rows,
                                    .n_experts = c->ml->n_experts,
                                    .top_k = c->ml->top_k,
                                    .tile_rows = tile_rows,
                                    .start = (int32_t *)(void *)(at + c->room.start),
                                    .first_tile = (int32_t *)(void *)(at + c->room.first_tile),
                                    .expert = (int32_t *)(void *)(at + c->room.expert),
                                    .token = (int32_t *)(void *)(at + c->room.token),
                                    .row = (int32_t *)(void *)(at + c->room.row)};
    return moe_group(be, &c->groups, view_i32(c->ids), c->ids.stride);
}

static struct moe_product product_of(const struct chunk *c, const struct weight *w, struct view x,
                                     struct view out)
{
    struct moe_product p = {.job = linear_job_of(w, x, out),
                            .groups = c->groups,
                            .act = c->ml->act,
                            .expert_bytes =
                                (size_t)w->n_pad * (size_t)w->k_pad * dtype_size(w->dtype)};
    p.job.n_tokens = n_pairs(c);
    return p;
}

static enum status run_product(struct backend *be, const struct moe_product *p)
{
    if (p->job.dtype == DT_F32)
        return moe_f32(be, p);
    return p->groups.tile_rows == MOE_ROWS_TILE ? moe_rows(be, p) : moe_tiles(be, p);
}

/* Are hidden rows made by the products' kernels?  Else moe_act makes them of gate and up. */
static bool fuses_hidden(const struct moe_layer *ml)
{
    return !has_panels(ml->gate_up) && !ml->up_alone && !ml->weigh_input && !ml->gate_up_bias &&
           ml->glu_limit == 0.0f;
}

/* Bytes of packed rows of x for a product: quantised, records. */
static size_t x_bytes(const struct weight *w, size_t pairs)
{
    if (w->quant || has_orders(w))
        return round_up_size(pairs * records_bytes(w), ALIGN);
    if ((has_panels(w) && !has_mma(w)) || w->dtype == DT_F32)
        return 0;
    return round_up_size(pairs * packed_row_bytes(w, (size_t)w->k), ALIGN) +
           round_up_size(pairs * unscale_row_bytes(w, (size_t)w->k), ALIGN);
}

/* Bytes that gate and up take beside hidden, where moe_act makes it: panels write gate to hidden. */
static size_t gated_bytes(const struct moe_layer *ml, size_t pairs)
{
    size_t F = (size_t)ml->ffn;
    if (fuses_hidden(ml) || ml->up_alone)
        return 0;
    return pairs * (has_panels(ml->gate_up) ? 1 : 2) * F * sizeof(float);
}

/* Has the room, of `bytes`, what products and gates take?  Packed x, then gate and up, are in
 * `shared`. */
static bool fits(const struct moe_layer *ml, int32_t n_tokens, size_t bytes)
{
    size_t pairs = (size_t)n_tokens * (size_t)ml->top_k;
    struct room r = room_of(ml, n_tokens);
    return r.total <= bytes &&
           x_bytes(ml->gate_up, pairs) + gated_bytes(ml, pairs) <= r.shared_bytes &&
           (!is_quantised(ml->down) ||
            x_bytes(ml->down, pairs) <=
                r.unscale + pairs * unscale_bytes((size_t)ml->ffn) - r.packed);
}

static struct quant_experts quant_experts_of(const struct chunk *c, const struct weight *w,
                                             struct view x, struct view out, char *packed)
{
    struct quant_experts e = {
        .job = quant_job_of(w, x, out), .groups = c->groups, .expert_bytes = panels_bytes_of(w)};
    e.job.n_tokens = n_pairs(c);
    e.job.packed = (unsigned char *)packed;
    return e;
}

/* packed, unscale: with mma. */
static struct scaled_experts scaled_experts_of(const struct chunk *c, const struct weight *w,
                                               struct view x, struct view out, char *packed,
                                               char *unscale)
{
    struct scaled_experts e = {
        .job = scaled_job_of(w, x, out), .groups = c->groups, .expert_bytes = panels_bytes_of(w)};
    e.job.n_tokens = n_pairs(c);
    e.job.packed = (uint16_t *)(void *)packed;
    e.job.unscale = (float *)(void *)unscale;
    return e;
}

static enum status run_scaled(struct backend *be, const struct scaled_experts *e)
{
    if (!e->job.m.at.mma)
        return scaled_moe(be, e);
    return e->groups.tile_rows == MOE_ROWS_TILE ? scaled_moe_rows(be, e) : scaled_moe_tiles(be, e);
}

/* w, or a part of it, of quantised weights: its rows from ffn on to `up`, the others to out; NULL: all to out. */
static enum status run_quant(struct backend *be, struct chunk *c, const struct weight *w,
                             struct view out, float *up)
{
    struct quant_experts e = quant_experts_of(c, w, c->x, out, c->memory + c->room.shared);
    e.job.rows = c->groups.token;
    e.up = up;
    e.ffn = c->ml->ffn;
    TRY(quant_pack_experts(be, &e));
    return quant_moe(be, &e);
}

/* gate|up, or up alone, of panels: gate to hidden, up to `up`. */
static enum status run_panels(struct backend *be, struct chunk *c, struct view hidden, float *up)
{
    const struct weight *w = c->ml->gate_up;
    if (w->n_parts > 0) {
        struct view beside = hidden;
        beside.off = c->scratch.off + (size_t)((char *)up - c->memory);
        TRY(run_quant(be, c, w->part[0], hidden, NULL));
        return run_quant(be, c, w->part[1], beside, NULL);
    }
    if (is_quantised(w))
        return run_quant(be, c, w, hidden, up);
    char *packed = c->memory + c->room.shared;
    char *unscale =
        packed + round_up_size((size_t)n_pairs(c) * packed_row_bytes(w, (size_t)w->k), ALIGN);
    struct scaled_experts e = scaled_experts_of(c, w, c->x, hidden, packed, unscale);
    e.job.rows = c->groups.token;
    e.up = up;
    e.ffn = c->ml->ffn;
    if (has_mma(w))
        TRY(scaled_pack(be, &e.job));
    return run_scaled(be, &e);
}

/* The same of floats, to hidden or, with hidden.cols = 2 ffn, side by side. */
static enum status run_floats(struct backend *be, struct chunk *c, struct view hidden, bool fused)
{
    char *packed = c->memory + c->room.shared;
    struct moe_product p = product_of(c, c->ml->gate_up, c->x, hidden);
    p.hidden = fused;
    p.job.rows = c->groups.token;
    p.job.packed = (uint16_t *)(void *)packed;
    p.job.unscale =
        (float *)(void *)(packed +
                          round_up_size((size_t)n_pairs(c) * packed_bytes((size_t)c->ml->hidden),
                                        ALIGN));
    if (p.job.dtype != DT_F32)
        TRY(linear_pack(be, &p.job));
    return run_product(be, &p);
}

/* x -> hidden */
static enum status run_gate_up(struct backend *be, struct chunk *c, struct view hidden)
{
    const struct moe_layer *ml = c->ml;
    size_t pairs = (size_t)n_pairs(c), F = (size_t)ml->ffn;
    TRY(sort_pairs(be, c, tile_rows_of(c, ml->gate_up)));
    if (fuses_hidden(ml))
        return run_floats(be, c, hidden, true);
    size_t at = c->room.shared + x_bytes(ml->gate_up, pairs);
    float *beside = (float *)(void *)(c->memory + at);
    struct moe_gated g = {.gate = view_f32(hidden),
                          .gate_stride = F,
                          .up = ml->up_alone ? NULL : beside,
                          .up_stride = F,
                          .out = view_f32(hidden),
                          .n_rows = n_pairs(c),
                          .ffn = ml->ffn,
                          .act = ml->act,
                          .glu_limit = ml->glu_limit,
                          .glu_alpha = ml->glu_alpha,
                          .bias = vector_of(ml->gate_up_bias),
                          .weigh = ml->weigh_input,
                          .groups = c->groups,
                          .ids = view_i32(c->ids),
                          .weights = view_f32(c->weights),
                          .id_stride = c->ids.stride,
                          .weight_stride = c->weights.stride};
    if (has_panels(ml->gate_up)) {
        TRY(run_panels(be, c, hidden, ml->up_alone ? NULL : beside));
    } else if (ml->up_alone) {
        TRY(run_floats(be, c, hidden, false));
    } else {
        struct view both = scratch_view(c, at, n_pairs(c), 2 * ml->ffn, 2 * ml->ffn);
        TRY(run_floats(be, c, both, false));
        g.gate = beside;
        g.up = beside + F;
        g.gate_stride = g.up_stride = 2 * F;
    }
    return moe_act(be, &g);
}

/* Columns of out that the slices' products have room for at a time. */
static int32_t columns_at_once(const struct chunk *c)
{
    int32_t D = c->ml->hidden;
    size_t column = (size_t)n_pairs(c) * (size_t)c->ml->down->k_layout.n_slices * sizeof(float);
    size_t fit = c->room.shared_bytes / column / MOE_SUMS_COLS * MOE_SUMS_COLS;
    return fit < (size_t)D ? (int32_t)fit : D;
}

/* The product of down: one of three. */
struct down {
    struct moe_product floats; /* its job's out, slices and strides are those of all */
    struct quant_experts quant;
    struct scaled_experts scaled;
};

/* Rows [col, col + n) of every expert's matrix; col is a multiple of MOE_SUMS_COLS. */
static enum status run_rows_of_down(struct backend *be, const struct chunk *c, struct down *d,
                                    int32_t col, int32_t n)
{
    const struct weight *down = c->ml->down;
    size_t panels = (size_t)col / QUANT_PANEL * panel_bytes_of(down);
    if (is_quantised(down)) {
        struct quant_experts e = d->quant;
        e.job.m.w += panels;
        e.job.m.n = n;
        return quant_moe(be, &e);
    }
    if (has_panels(down)) {
        struct scaled_experts e = d->scaled;
        e.job.m.w += panels;
        e.job.m.n = n;
        return run_scaled(be, &e);
    }
    struct moe_product p = d->floats;
    p.job.w = (const char *)p.job.w + (size_t)col * (size_t)down->k_pad * dtype_size(p.job.dtype);
    p.job.n = n;
    return run_product(be, &p);
}

/* Columns [col, col + n) of out */
static enum status run_columns(struct backend *be, const struct chunk *c, struct down *d,
                               int32_t col, int32_t n)
{
    const struct linear_job *job = &d->floats.job;
    TRY(run_rows_of_down(be, c, d, col, n));
    struct moe_sums s = {.part = job->out,
                         .row = c->groups.row,
                         .weights = c->ml->weigh_input ? NULL : view_f32(c->weights),
                         .out = view_f32(c->out) + col,
                         .part_stride = job->out_stride,
                         .n_tokens = c->x.rows,
                         .top_k = c->ml->top_k,
                         .n = n,
                         .n_slices = job->k.n_slices,
                         .weight_stride = c->weights.stride,
                         .out_stride = c->out.stride};
    return moe_add(be, &s);
}

/* hidden -> out */
static enum status run_down(struct backend *be, struct chunk *c, struct view hidden)
{
    const struct weight *down = c->ml->down;
    int32_t D = c->ml->hidden, most = columns_at_once(c), rows = n_pairs(c);
    int32_t stride = (int32_t)round_up_size((size_t)most, 4);
    struct view parts = scratch_view(c, c->room.shared, rows, D < most ? D : most, stride);
    TRY(sort_pairs(be, c, tile_rows_of(c, down)));
    if (c->ml->round_hidden.grid != GRID_NONE)
        TRY(cuda_round_input(be, &c->ml->round_hidden, hidden, (struct view){0}, hidden));
    struct down d = {.floats = product_of(c, down, hidden, parts)};
    d.floats.job.packed = (uint16_t *)(void *)(c->memory + c->room.packed);
    d.floats.job.unscale = (float *)(void *)(c->memory + c->room.unscale);
    if (is_quantised(down)) {
        d.quant = quant_experts_of(c, down, hidden, parts, c->memory + c->room.packed);
        TRY(quant_pack_experts(be, &d.quant));
    } else if (has_panels(down)) {
        d.scaled = scaled_experts_of(c, down, hidden, parts, c->memory + c->room.packed,
                                     c->memory + c->room.unscale);
        if (has_mma(down))
            TRY(scaled_pack(be, &d.scaled.job));
    } else if (down->dtype != DT_F32) {
        TRY(linear_pack(be, &d.floats.job));
    }
    for (int32_t col = 0; col < D; col += most)
        TRY(run_columns(be, c, &d, col, D - col < most ? D - col : most));
    return ST_OK;
}

static void check_shapes(const struct moe_layer *ml, struct view x, struct view ids,
                         struct view weights, struct view out)
{
    assert(ml->gate_up->n_stacked == ml->n_experts && ml->down->n_stacked == ml->n_experts);
    assert(ml->gate_up->n == (ml->up_alone ? 1 : 2) * ml->ffn && ml->gate_up->k == ml->hidden);
    assert(!(ml->up_alone || ml->weigh_input) || (!ml->gate_up_bias && ml->glu_limit == 0.0f));
    assert(ml->down->n == ml->hidden && ml->down->k == ml->ffn);
    assert(ml->gate_up->k_layout.n_slices == 1 && x.cols == ml->hidden && out.cols == ml->hidden);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k && x.rows == out.rows);
    assert(ids.rows == x.rows && weights.rows == x.rows && !ml->round_hidden.shared);
    (void)ml, (void)x, (void)ids, (void)weights, (void)out;
}

enum status cuda_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                         struct view ids, struct view weights, struct view scratch, struct view out)
{
    check_shapes(ml, x, ids, weights, out);
    const size_t bytes = (size_t)scratch.cols * sizeof(float);
    assert(bytes >= cuda_moe_scratch(be, ml, x.rows));
    if (ml->ffn == 0) /* this rank has no columns */
        return cuda_zero(be, out);
    for (int32_t row = 0, n; row < x.rows; row += n) {
        n = chunk_of(ml, x.rows - row);
        while (n > 1 && !fits(ml, n, bytes))
            n = (n + 1) / 2;
        if (!fits(ml, n, bytes))
            FAIL(ST_UNSUPPORTED, "experts of %d x %d: the CUDA backend has no room for their gates",
                 ml->hidden, ml->ffn);
        struct chunk c = {.ml = ml,
                          .x = view_rows(x, row, n),
                          .ids = view_rows(ids, row, n),
                          .weights = view_rows(weights, row, n),
                          .out = view_rows(out, row, n),
                          .scratch = scratch,
                          .memory = view_ptr(scratch),
                          .room = room_of(ml, n)};
        struct view hidden = scratch_view(&c, c.room.hidden, n_pairs(&c), ml->ffn, ml->ffn);
        TRY(run_gate_up(be, &c, hidden));
        TRY(run_down(be, &c, hidden));
    }
    return ST_OK;
}
