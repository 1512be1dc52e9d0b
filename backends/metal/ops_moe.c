/* Mixtures of experts: shaders/moe.metal.  For a chunk of tokens:
 *   1. the pairs (token, expert) are sorted by expert;
 *   2. gate and up of each pair, whose input is rounded first where experts have scales of their own for it, then in place what is between them and down, by place: mid [P, 2F],
 *      without gates [P, F];
 *   3. for as many columns at a time as there is room for, each slice's product of each pair with
 *      down, then a token's experts and the slices are added.
 * The dispatches depend on T alone, and which tokens share a chunk changes no bit. */
#include <string.h>

#include "backends/metal/metal_backend.h"

enum {
    MAX_PAIRS = 4096,      /* of a chunk: bounds the scratch */
    SUMS_BYTES = 16 << 20, /* that the slices' products take */
    ROOM_ALIGN = 64,
};

/* Where a chunk's arrays are in the scratch memory, in bytes. */
struct room {
    size_t start, first_tile, pair, place, mid, sums, total;
    int32_t sum_cols; /* columns of down that `sums` holds at a time */
};

static size_t take(size_t *total, size_t bytes)
{
    size_t at = *total;
    *total += metal_round_up(bytes, ROOM_ALIGN);
    return at;
}

static int32_t chunk_of(const struct moe_layer *ml, int32_t n_tokens)
{
    int32_t most = MAX_PAIRS / ml->top_k;
    return n_tokens < most ? n_tokens : most;
}

static int32_t mid_cols(const struct moe_layer *ml)
{
    return ml->up_alone ? ml->ffn : 2 * ml->ffn;
}

static struct room room_of(const struct moe_layer *ml, int32_t n_tokens)
{
    size_t E = (size_t)ml->n_experts, pairs = (size_t)n_tokens * (size_t)ml->top_k;
    size_t column = (pairs + 1) * N_SLICES * sizeof(float), cols = SUMS_BYTES / column;
    struct room r = {0};
    cols = cols / METAL_LINEAR_SIMDS * METAL_LINEAR_SIMDS; /* at least 128, of MAX_PAIRS */
    cols = cols < (size_t)ml->hidden ? cols : (size_t)ml->hidden;
    r.start = take(&r.total, (E + 1) * sizeof(int32_t));
    r.first_tile = take(&r.total, (E + 1) * sizeof(int32_t));
    r.pair = take(&r.total, pairs * sizeof(int32_t));
    r.place = take(&r.total, pairs * sizeof(int32_t));
    r.mid = take(&r.total, pairs * (size_t)mid_cols(ml) * sizeof(float));
    r.sums = take(&r.total, cols * column);
    r.sum_cols = (int32_t)cols;
    return r;
}

size_t metal_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens)
{
    (void)be;
    return room_of(ml, chunk_of(ml, max_tokens)).total;
}

enum status metal_moe_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                            struct view ids, struct view weights)
{
    assert(ml->top_k >= 1 && ml->top_k <= ml->n_experts && logits.cols == ml->n_experts);
    assert(ml->n_experts <= MOE_MAX_EXPERTS && ml->top_k <= MOE_MAX_TOP_K);
    assert((!ml->route_bias || ml->sigmoid) && (!ml->expert_scale || !ml->sigmoid));
    assert(ml->n_groups <= 1 || ml->n_experts % ml->n_groups == 0);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k);
    assert(ids.rows == logits.rows && weights.rows == logits.rows);
    if (logits.rows == 0)
        return ST_OK;
    struct metal_bound in = bound_f32(logits);
    const struct metal_bound bound[] = {in, bound_vector(ml->route_bias, in),
                                        bound_vector(ml->expert_scale, in), bound_i32(ids),
                                        bound_f32(weights)};
    const struct route_args args = {.n_tokens = logits.rows,
                                    .n_experts = ml->n_experts,
                                    .top_k = ml->top_k,
                                    .logit_stride = logits.stride,
                                    .id_stride = ids.stride,
                                    .weight_stride = weights.stride,
                                    .renormalise = ml->renormalise,
                                    .sigmoid = ml->sigmoid,
                                    .has_bias = ml->route_bias != NULL,
                                    .has_expert_scale = ml->expert_scale != NULL,
                                    .n_groups = ml->n_groups > 1 ? ml->n_groups : 1,
                                    .top_groups = ml->top_groups,
                                    .scale = ml->scale};
    return METAL_DISPATCH(be, KERNEL_moe_route, args, bound,
                          ((struct mtl_size){groups_for(logits.rows, ROUTE_WARPS), 1, 1}),
                          32 * ROUTE_WARPS, 0);
}
static_assert((int)MOE_MAX_TOP_K <= 32, "a lane has an expert of its own");

int32_t metal_rounded_tokens(const struct moe_layer *ml, int32_t n_tokens)
{
    int32_t most = chunk_of(ml, n_tokens);
    const struct room r = room_of(ml, most);
    size_t n = (r.total - r.sums) / ((size_t)ml->top_k * (size_t)ml->hidden * sizeof(float));
    assert(n > 0);
    return n < (size_t)most ? (int32_t)n : most;
}

struct chunk {
    const struct moe_layer *ml;
    int32_t n_tokens;
    struct metal_bound x, ids, weights, out, scratch; /* of its first token */
    int32_t x_stride, id_stride, weight_stride, out_stride;
    struct room room;
};

static int32_t n_pairs(const struct chunk *c)
{
    return c->n_tokens * c->ml->top_k;
}

static struct metal_bound in_room(const struct chunk *c, size_t at)
{
    return (struct metal_bound){c->scratch.buf, c->scratch.off + at};
}

/* What a simdgroup of a kernel has: rows of a part, and a tile of pairs. */
static const struct shape {
    enum metal_kernel kernel; /* its first type's */
    int32_t rows, pairs;
} chains = {KERNEL_experts_f32, 1, METAL_LINEAR_TOKENS},
  matrices = {KERNEL_experts_matrix_f32, METAL_MATRIX_ROWS, METAL_MATRIX_TOKENS},
  matrices_one = {KERNEL_experts_matrix_one_f32, METAL_MATRIX_ROWS, METAL_MATRIX_ONE};

/* Small tiles where an expert has few pairs; the two of matrices give the same bits. */
static const struct shape *shape_of(const struct backend *be, const struct chunk *c)
{
    if (!be->matrices)
        return &chains;
    return n_pairs(c) < METAL_MATRIX_ONE * c->ml->n_experts ? &matrices_one : &matrices;
}

static enum status group_pairs(struct backend *be, const struct chunk *c)
{
    const struct metal_bound bound[] = {c->ids, in_room(c, c->room.start),
                                        in_room(c, c->room.first_tile), in_room(c, c->room.pair),
                                        in_room(c, c->room.place)};
    const struct metal_group_args args = {.n_tokens = c->n_tokens,
                                          .n_experts = c->ml->n_experts,
                                          .top_k = c->ml->top_k,
                                          .id_stride = c->id_stride,
                                          .tile = shape_of(be, c)->pairs};
    return METAL_DISPATCH(be, KERNEL_moe_group, args, bound, ((struct mtl_size){1, 1, 1}),
                          METAL_STRIP, 0);
}

/* A tile is of one expert, so each expert may have one that is not full. */
static int32_t most_tiles(const struct chunk *c, int32_t tile)
{
    int32_t pairs = n_pairs(c), tiles = pairs / tile + c->ml->n_experts;
    return tiles < pairs ? tiles : pairs;
}

/* Rows [first, first + n) of one part of w for all pairs; `args` has what gate, up and down differ
 * in. */
static enum status products(struct backend *be, const struct chunk *c, const struct weight *w,
                            const struct metal_part *p, int32_t first, int32_t n,
                            struct metal_bound x, struct metal_bound out,
                            struct metal_experts_args args)
{
    args.first = first;
    args.rows = n;
    args.row_bytes = (int32_t)p->row_bytes;
    args.expert_step = (int32_t)(w->step / 16);
    args.n_experts = c->ml->n_experts;
    args.top_k = c->ml->top_k;
    args.n_slices = w->n_slices;
    args.form = p->form;
    memcpy(args.slice_end, w->slice_end, sizeof args.slice_end);
    const struct metal_bound bound[] = {{w->data, p->at},          x,
                                        in_room(c, c->room.start), in_room(c, c->room.first_tile),
                                        in_room(c, c->room.pair),  out};
    const struct shape *s = shape_of(be, c);
    struct mtl_size groups = {groups_for(n, (int64_t)METAL_LINEAR_SIMDS * s->rows),
                              (unsigned long)most_tiles(c, s->pairs), 1};
    return METAL_DISPATCH(be, metal_kernel_of(s->kernel, p->type), args, bound, groups,
                          32 * METAL_LINEAR_SIMDS,
                          (uint64_t)n * (uint64_t)w->k * (uint64_t)n_pairs(c));
}

/* Rows of w whose products are one dispatch: its work is bounded. */
static int32_t rows_at_once(const struct chunk *c, const struct weight *w)
{
    int64_t most = DISPATCH_WORK / ((int64_t)n_pairs(c) * w->k + 1);
    most = most / METAL_LINEAR_SIMDS * METAL_LINEAR_SIMDS;
    return most < METAL_LINEAR_SIMDS ? METAL_LINEAR_SIMDS
           : most > INT32_MAX        ? INT32_MAX
                                     : (int32_t)most;
}

/* The inputs of the pairs' experts rounded, by place: [n_pairs, n] floats to `to`, whose rows are as far apart as those
 * of from; by_token: row of from is the pair's token, and those of `to` follow each other.  scale [E]. */
static enum status round_experts(struct backend *be, const struct chunk *c, enum input_grid grid,
                                 const float *scale, struct metal_bound from, int32_t stride,
                                 bool by_token, int32_t n, struct metal_bound to)
{
    struct metal_round_experts_args args = {.n = n,
                                            .top_k = c->ml->top_k,
                                            .id_stride = c->id_stride,
                                            .x_stride = stride,
                                            .out_stride = by_token ? n : stride,
                                            .by_token = by_token,
                                            .grid = (int32_t)grid};
    memcpy(args.scale, scale, (size_t)c->ml->n_experts * sizeof *scale);
    const struct metal_bound bound[] = {from, in_room(c, c->room.pair), c->ids, to};
    struct mtl_size groups = {(unsigned long)n_pairs(c), groups_for(n, METAL_STRIP), 1};
    return METAL_DISPATCH(be, KERNEL_round_experts, args, bound, groups, METAL_STRIP, 0);
}

static enum status round_hidden(struct backend *be, const struct chunk *c)
{
    const struct moe_layer *ml = c->ml;
    struct metal_bound mid = in_room(c, c->room.mid);
    if (ml->hidden_scale)
        return round_experts(be, c, ml->round_hidden.grid, ml->hidden_scale, mid, mid_cols(ml),
                             false, ml->ffn, mid);
    if (ml->round_hidden.grid == GRID_NONE)
        return ST_OK;
    const struct metal_inputs_args rows = {
        .n = ml->ffn, .x_stride = mid_cols(ml), .out_stride = mid_cols(ml)};
    return metal_round_rows(be, &ml->round_hidden, n_pairs(c), rows, mid, mid, mid);
}

static enum status activate(struct backend *be, const struct chunk *c)
{
    const struct moe_layer *ml = c->ml;
    struct metal_bound mid = in_room(c, c->room.mid);
    const struct metal_bound bound[] = {in_room(c, c->room.pair), c->ids, c->weights,
                                        bound_vector(ml->gate_up_bias, mid), mid};
    const struct metal_act_args args = {.ffn = ml->ffn,
                                        .mid_stride = mid_cols(ml),
                                        .top_k = ml->top_k,
                                        .id_stride = c->id_stride,
                                        .weight_stride = c->weight_stride,
                                        .act = (int32_t)ml->act,
                                        .up_alone = ml->up_alone,
                                        .has_bias = ml->gate_up_bias != NULL,
                                        .weigh_input = ml->weigh_input,
                                        .glu_limit = ml->glu_limit,
                                        .glu_alpha = ml->glu_alpha};
    struct mtl_size groups = {(unsigned long)n_pairs(c), groups_for(ml->ffn, METAL_STRIP), 1};
    TRY(METAL_DISPATCH(be, KERNEL_moe_act, args, bound, groups, METAL_STRIP, 0));
    return round_hidden(be, c);
}

static enum status gate_up(struct backend *be, const struct chunk *c)
{
    const struct moe_layer *ml = c->ml;
    const struct weight *w = ml->gate_up;
    int32_t most = rows_at_once(c, w);
    struct metal_experts_args args = {
        .x_stride = c->x_stride, .by_token = 1, .out_stride = mid_cols(ml)};
    struct metal_bound x = c->x;
    if (ml->input_scale) {
        x = in_room(c, c->room.sums);
        TRY(round_experts(be, c, ml->round_input.grid, ml->input_scale, c->x, c->x_stride, true,
                          ml->hidden, x));
        args.x_stride = ml->hidden;
        args.by_token = 0;
    }
    for (int i = 0; i < w->n_parts; i++) {
        const struct metal_part *p = &w->part[i];
        for (int32_t r = 0, n; r < p->rows; r += n) {
            n = p->rows - r < most ? p->rows - r : most;
            size_t col = (size_t)(p->row0 + r) * sizeof(float);
            TRY(products(be, c, w, p, r, n, x, in_room(c, c->room.mid + col), args));
        }
    }
    return activate(be, c);
}

/* Columns [first, first + n) of out: rows of down. */
static enum status down(struct backend *be, const struct chunk *c, int32_t first, int32_t n)
{
    const struct weight *w = c->ml->down;
    int32_t most = rows_at_once(c, w);
    const struct metal_experts_args args = {
        .x_stride = mid_cols(c->ml), .out_stride = n, .by_slice = 1};
    for (int32_t r = 0, m; r < n; r += m) {
        m = n - r < most ? n - r : most;
        struct metal_bound to = in_room(c, c->room.sums + (size_t)r * sizeof(float));
        TRY(products(be, c, w, w->part, first + r, m, in_room(c, c->room.mid), to, args));
    }
    struct metal_bound out = c->out;
    out.off += (size_t)first * sizeof(float);
    const struct metal_bound bound[] = {in_room(c, c->room.sums), in_room(c, c->room.place),
                                        c->weights, out};
    const struct metal_sum_args sum = {.n = n,
                                       .n_slices = w->n_slices,
                                       .top_k = c->ml->top_k,
                                       .weight_stride = c->weight_stride,
                                       .out_stride = c->out_stride,
                                       .weighs = !c->ml->weigh_input};
    struct mtl_size groups = {(unsigned long)c->n_tokens, groups_for(n, METAL_STRIP), 1};
    return METAL_DISPATCH(be, KERNEL_moe_sum, sum, bound, groups, METAL_STRIP, 0);
}

static struct metal_bound row_of(struct metal_bound b, struct view v, int32_t row)
{
    b.off += (size_t)row * view_row_step(v);
    return b;
}

enum status metal_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                          struct view ids, struct view weights, struct view scratch,
                          struct view out)
{
    assert(ml->gate_up->n_stacked == ml->n_experts && ml->down->n_stacked == ml->n_experts);
    assert(ml->gate_up->n == mid_cols(ml) && ml->gate_up->k == ml->hidden && x.cols == ml->hidden);
    assert(ml->down->n == ml->hidden && ml->down->k == ml->ffn && ml->down->n_parts == 1);
    assert(ids.rows == x.rows && weights.rows == x.rows && out.rows == x.rows);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k && out.cols == ml->hidden);
    assert(!ml->gate_up_bias || ml->gate_up_bias->k == ml->n_experts * 2 * ml->ffn);
    assert(!ml->up_alone || (!ml->gate_up_bias && ml->glu_limit <= 0.0f && !ml->weigh_input));
    assert(!ml->round_hidden.shared); /* one rank */
    if (x.rows == 0)
        return ST_OK;
    const struct room room = room_of(ml, chunk_of(ml, x.rows));
    int32_t most = ml->input_scale ? metal_rounded_tokens(ml, x.rows) : chunk_of(ml, x.rows);
    for (int32_t t = 0, n; t < x.rows; t += n) {
        n = x.rows - t < most ? x.rows - t : most;
        struct chunk c = {.ml = ml,
                          .n_tokens = n,
                          .x = row_of(bound_f32(x), x, t),
                          .ids = row_of(bound_i32(ids), ids, t),
                          .weights = row_of(bound_f32(weights), weights, t),
                          .out = row_of(bound_f32(out), out, t),
                          .scratch = bound_f32(scratch),
                          .x_stride = x.stride,
                          .id_stride = ids.stride,
                          .weight_stride = weights.stride,
                          .out_stride = out.stride,
                          .room = room};
        assert(c.room.total <= view_row_bytes(scratch));
        TRY(group_pairs(be, &c));
        TRY(gate_up(be, &c));
        for (int32_t d = 0, m; d < ml->hidden; d += m) {
            m = ml->hidden - d < c.room.sum_cols ? ml->hidden - d : c.room.sum_cols;
            TRY(down(be, &c, d, m));
        }
    }
    return ST_OK;
}

enum status metal_moe_bias(struct backend *be, const struct moe_layer *ml, struct view ids,
                           struct view weights, struct view out)
{
    assert(ml->down_bias->k == ml->n_experts * out.cols && ids.cols == ml->top_k);
    assert(ids.rows == out.rows && weights.rows == out.rows && weights.cols == ml->top_k);
    if (out.rows == 0 || out.cols == 0)
        return ST_OK;
    struct metal_bound to = bound_f32(out);
    const struct metal_bound bound[] = {bound_vector(ml->down_bias, to), bound_i32(ids),
                                        bound_f32(weights), to};
    const struct moe_bias_args args = {.n = out.cols,
                                       .top_k = ml->top_k,
                                       .id_stride = ids.stride,
                                       .weight_stride = weights.stride,
                                       .out_stride = out.stride};
    struct mtl_size groups = {(unsigned long)out.rows, groups_for(out.cols, BIAS_THREADS), 1};
    return METAL_DISPATCH(be, KERNEL_moe_bias, args, bound, groups, BIAS_THREADS, 0);
}
