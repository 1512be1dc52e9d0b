/* Mixtures of experts.  moe_ffn sorts the (token, expert) pairs of a step by expert and cuts each
 * expert's pairs into strips of rows; four jobs of the pool follow:
 *   pack     the strips' rows of x
 *   gate, up
 *   hidden   the activation, packed again
 *   down     each panel for all pairs, so that one thread adds a token's experts
 * Panels are the outer loop of the products, so that all threads have the same work however the
 * tokens are spread over the experts, and a panel stays in cache over its strips. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/sorted.h"

struct strip {
    int32_t expert, first, rows; /* rows of the sorted pairs */
};

/* Up to MOE_AT_ONCE tokens, which bounds the scratch. */
struct moe_job {
    struct backend *be;
    const struct moe_layer *ml;
    struct view x, ids, weights, out;
    struct view peaks; /* of moe_hidden and moe_down; no buf: of moe_ffn */
    int32_t row0, rows, n_strips;
    int32_t *start;      /* [E + 1] of each expert's pairs in `pair` */
    int32_t *pair;       /* [pairs] token of the job * k + i, by expert, ascending in each */
    struct strip *strip; /* [n_strips] by expert */
    char *x_packed;      /* strip after strip: its rows of x, see products.c */
    float *mid;          /* [pairs, mid_cols] */
    char *h_packed;      /* strip after strip: its hidden rows, slice after slice */
    float *acc;          /* for each part: [n_slices][rows][PANEL] */
    size_t acc_floats;   /* of a part */
};

static size_t round_16(size_t floats)
{
    return (floats + 15) & ~(size_t)15;
}

/* Most floats of a packed row over all slices, whatever the types: K floats, or quantised
 * X_GROUP_BYTES for each group and for one more at each end of a slice; sorted types: moe_strips_fit. */
static size_t packed_floats(size_t k)
{
    return round_16(k + 2 * N_SLICES * X_GROUP_BYTES / sizeof(float));
}

bool moe_strips_fit(const struct weight_src *src, const struct weight *w)
{
    size_t row = 0;
    for (int32_t s = 0; s < src->n_slices; s++) {
        int32_t end = src->slice_end[s] - (s ? src->slice_end[s - 1] : 0);
        struct sorted_shape one = {w->panels[0].groups, 1, &end};
        row += sorted_x_bytes(&one);
    }
    return row * (size_t)w->n_types <= packed_floats((size_t)src->cols) * sizeof(float);
}

/* Of gate and up of a pair, or of up alone. */
static size_t mid_cols(const struct moe_layer *ml)
{
    return (ml->up_alone ? 1 : 2) * (size_t)ml->ffn;
}

/* Places the job's arrays in the scratch memory; its size in floats.  base NULL: the size alone.
 * The packed rows of x and the packed hidden rows are never used at the same time. */
static size_t place(struct moe_job *j, const struct moe_layer *ml, int32_t rows, int parts,
                    float *base)
{
    size_t pairs = (size_t)rows * (size_t)ml->top_k, F = (size_t)ml->ffn, D = (size_t)ml->hidden;
    size_t start = 0, pair = start + round_16((size_t)ml->n_experts + 1);
    size_t strip = pair + round_16(pairs), packed = strip + round_16(3 * pairs);
    size_t mid = packed + pairs * packed_floats(D > F ? D : F);
    size_t acc = mid + round_16(pairs * mid_cols(ml));
    size_t acc_floats = (size_t)N_SLICES * (size_t)rows * PANEL;
    if (base) {
        j->start = (int32_t *)base + start;
        j->pair = (int32_t *)base + pair;
        j->strip = (struct strip *)(void *)(base + strip);
        j->x_packed = j->h_packed = (char *)(base + packed);
        j->mid = base + mid;
        j->acc = base + acc;
        j->acc_floats = acc_floats;
    }
    return acc + (size_t)parts * acc_floats;
}

size_t cpu_moe_scratch(struct backend *be, const struct moe_layer *ml, int32_t max_tokens)
{
    int32_t rows = max_tokens < MOE_AT_ONCE ? max_tokens : MOE_AT_ONCE;
    return place(NULL, ml, rows, pool_parts(be->pool), NULL) * sizeof(float);
}

static int32_t token_of(const struct moe_job *j, int32_t row)
{
    return j->row0 + j->pair[row] / j->ml->top_k;
}

/* Counting sort of the pairs by expert. */
static void sort_pairs(struct moe_job *j)
{
    int32_t E = j->ml->n_experts, k = j->ml->top_k;
    memset(j->start, 0, (size_t)(E + 1) * sizeof *j->start);
    for (int32_t t = 0; t < j->rows; t++)
        for (int32_t i = 0; i < k; i++) {
            int32_t e = view_i32(j->ids, j->row0 + t)[i];
            assert(e >= 0 && e < E);
            j->start[e + 1]++;
        }
    for (int32_t e = 0; e < E; e++)
        j->start[e + 1] += j->start[e];
    for (int32_t t = 0; t < j->rows; t++)
        for (int32_t i = 0; i < k; i++)
            j->pair[j->start[view_i32(j->ids, j->row0 + t)[i]]++] = t * k + i;
    for (int32_t e = E; e > 0; e--) /* each start has moved to the next one's */
        j->start[e] = j->start[e - 1];
    j->start[0] = 0;
}

static void cut_strips(struct moe_job *j)
{
    int32_t up = strip_rows(j->be, j->ml->gate_up->panels);
    int32_t down = strip_rows(j->be, j->ml->down->panels), most = up < down ? up : down;
    j->n_strips = 0;
    for (int32_t e = 0; e < j->ml->n_experts; e++) {
        int32_t first = j->start[e], n = j->start[e + 1] - first, cuts = (n + most - 1) / most;
        for (int32_t i = 0; i < cuts; i++) {
            int32_t from = n * i / cuts, to = n * (i + 1) / cuts;
            j->strip[j->n_strips++] = (struct strip){e, first + from, to - from};
        }
    }
}

/* Bytes of a packed row for n_slices slices of an expert's matrix. */
static size_t slices_bytes(const struct weight *stack, int32_t n_slices)
{
    size_t bytes = 0;
    for (int32_t s = 0; s < n_slices; s++)
        bytes += strip_row_bytes(&stack->mat[s], stack->mat[s].panels);
    return bytes;
}

/* Of the rows of x of a pair, for panels s of an expert's matrix: sorted ones have a strip for each type. */
static int32_t x_strips(const struct moe_job *j)
{
    const struct weight *w = j->ml->gate_up->mat;
    return strip_kind(j->be, w->panels) == STRIP_SORTED ? w->n_types : 1;
}

static char *x_strip(const struct moe_job *j, const struct strip *t, const struct panels *s)
{
    const struct weight *w = &j->ml->gate_up->mat[t->expert];
    size_t row = slices_bytes(j->ml->gate_up, 1);
    for (; s > w->panels && strip_repeats(j->be, s); s--)
        ;
    return j->x_packed +
           ((size_t)t->first * (size_t)x_strips(j) + (size_t)(s - w->panels) * (size_t)t->rows) *
               row;
}

/* Slice s of a strip's hidden rows. */
static char *h_strip(const struct moe_job *j, const struct strip *t, int32_t s)
{
    const struct weight *down = j->ml->down;
    return j->h_packed + (size_t)t->first * slices_bytes(down, down->n_slices) +
           (size_t)t->rows * slices_bytes(down, s);
}

/* What expert t->expert reads of a sorted pair: x, or x rounded by the expert's own scale. */
static const float *expert_input(const struct moe_job *j, const struct strip *t, int32_t row,
                                 int part)
{
    const float *x = view_f32(j->x, token_of(j, row));
    float *out = j->be->heads_thread + (size_t)part * HEADS_STRIP;
    struct input_rule rule = j->ml->round_input;
    static_assert((int)HEADS_STRIP >= (int)MOE_SCALED_COLUMNS, "a row fits into the strip");
    if (!j->ml->input_scale)
        return x;
    assert(j->ml->hidden <= MOE_SCALED_COLUMNS);
    rule.scale = j->ml->input_scale[t->expert];
    round_row(&rule, x, NULL, out, j->ml->hidden);
    return out;
}

static void pack_part(void *ctx, int part, int n_parts)
{
    const struct moe_job *j = ctx;
    long from, to;
    pool_share(j->n_strips, part, n_parts, &from, &to);
    for (long i = from; i < to; i++) {
        const struct strip *t = &j->strip[i];
        const struct weight *w = &j->ml->gate_up->mat[t->expert];
        for (const struct panels *s = w->panels; s < w->panels + w->n_types; s++) {
            if (s > w->panels && strip_repeats(j->be, s))
                continue;
            for (int32_t r = 0; r < t->rows; r++)
                strip_put(j->be, w, s, expert_input(j, t, t->first + r, part), r, t->rows,
                          x_strip(j, t, s));
        }
    }
}

static void gate_up_part(void *ctx, int part, int n_parts)
{
    const struct moe_job *j = ctx;
    size_t cols = mid_cols(j->ml);
    long from, to;
    pool_share((long)weight_panels(j->ml->gate_up->mat) * j->n_strips, part, n_parts, &from, &to);
    for (long u = from; u < to; u++) {
        const struct strip *t = &j->strip[u % j->n_strips];
        const struct weight *w = &j->ml->gate_up->mat[t->expert];
        int32_t p = (int32_t)(u / j->n_strips);
        const struct panels *s = panels_of(w, &p);
        float *out = j->mid + (size_t)t->first * cols + (size_t)s->row + (size_t)p * PANEL;
        panel_product(j->be, w, s, p, x_strip(j, t, s), t->rows, out, cols, part);
    }
}

/* The weight of the expert of a sorted pair. */
static float weight_of(const struct moe_job *j, int32_t row)
{
    int32_t k = j->ml->top_k, pair = j->pair[row];
    return view_f32(j->weights, j->row0 + pair / k)[pair % k];
}

/* g [mid_cols] of a sorted pair: the expert's bias or weight, then the activation in place. */
static void activate_row(const struct moe_job *j, int32_t expert, int32_t row, float *g)
{
    const struct moe_layer *ml = j->ml;
    const struct kernels *ker = j->be->kernels;
    int32_t F = ml->ffn;
    if (ml->gate_up_bias)
        ker->add_bias(g, vector_of(ml->gate_up_bias) + (size_t)expert * 2 * (size_t)F, 2 * F);
    if (ml->weigh_input) {
        float weight = weight_of(j, row);
        for (int32_t i = 0; i < 2 * F; i++)
            g[i] *= weight;
    }
    if (ml->up_alone)
        ker->activate(ml->act, g, g, F);
    else if (ml->glu_limit > 0.0f)
        ker->clamped_glu(ml->glu_limit, ml->glu_alpha, g, g + F, g, F);
    else
        ker->act_mul(ml->act, g, g + F, g, F);
}

/* Of the input of down of a sorted pair: what the ranks give for it, in j->peaks. */
static float *peaks_of(const struct moe_job *j, int32_t row)
{
    int32_t k = j->ml->top_k, pair = j->pair[row], groups = input_groups(&j->ml->round_hidden);
    return view_f32(j->peaks, j->row0 + pair / k) + pair % k * groups;
}

/* g [ffn] of a sorted pair: rounded where that is asked for, then packed. */
static void pack_hidden_row(const struct moe_job *j, const struct strip *t, int32_t r, float *g)
{
    const struct weight *down = j->ml->down;
    struct input_rule rule = j->ml->round_hidden;
    if (j->ml->hidden_scale)
        rule.scale = j->ml->hidden_scale[t->expert];
    if (rule.grid != GRID_NONE)
        round_row(&rule, g, j->peaks.buf ? peaks_of(j, t->first + r) : NULL, g, j->ml->ffn);
    for (int32_t s = 0; s < down->n_slices; s++) {
        const struct weight *w = &down->mat[t->expert * down->n_slices + s];
        strip_put(j->be, w, w->panels, g + (s ? down->slice_end[s - 1] : 0), r, t->rows,
                  h_strip(j, t, s));
    }
}

enum { ACTIVATE = 1, PACK_HIDDEN = 2 };

/* The activation in place, then, where down follows at once, the rows packed, otherwise their peaks. */
static void hidden_rows(const struct moe_job *j, int what, int part, int n_parts)
{
    long from, to;
    pool_share(j->n_strips, part, n_parts, &from, &to);
    for (long i = from; i < to; i++) {
        const struct strip *t = &j->strip[i];
        for (int32_t r = 0; r < t->rows; r++) {
            float *g = j->mid + (size_t)(t->first + r) * mid_cols(j->ml);
            if (what & ACTIVATE)
                activate_row(j, t->expert, t->first + r, g);
            if (what & PACK_HIDDEN)
                pack_hidden_row(j, t, r, g);
            else
                row_peaks(&j->ml->round_hidden, g, j->ml->ffn, peaks_of(j, t->first + r));
        }
    }
}

static void hidden_part(void *ctx, int part, int n_parts)
{
    hidden_rows(ctx, ACTIVATE | PACK_HIDDEN, part, n_parts);
}

static void peaks_part(void *ctx, int part, int n_parts)
{
    hidden_rows(ctx, ACTIVATE, part, n_parts);
}

static void pack_hidden_part(void *ctx, int part, int n_parts)
{
    hidden_rows(ctx, PACK_HIDDEN, part, n_parts);
}

/* acc [n_slices][rows][PANEL]: the weighted products of panel p, experts ascending. */
static void add_experts(const struct moe_job *j, int32_t p, float *acc, int part)
{
    const struct weight *down = j->ml->down;
    int32_t k = j->ml->top_k;
    size_t slice = (size_t)j->rows * PANEL;
    float product[QUANT_ROWS * PANEL] = {0};
    memset(acc, 0, (size_t)down->n_slices * slice * sizeof *acc);
    for (int32_t u = 0; u < j->n_strips * down->n_slices; u++) {
        int32_t s = u % down->n_slices;
        const struct strip *t = &j->strip[u / down->n_slices];
        const struct weight *w = &down->mat[t->expert * down->n_slices + s];
        panel_product(j->be, w, w->panels, p, h_strip(j, t, s), t->rows, product, PANEL, part);
        for (int32_t r = 0; r < t->rows; r++) {
            int32_t token = j->pair[t->first + r] / k;
            float weight = j->ml->weigh_input ? 1.0f : weight_of(j, t->first + r);
            j->be->kernels->add(acc + (size_t)s * slice + (size_t)token * PANEL,
                                product + r * PANEL, weight, PANEL);
        }
    }
}

static void down_part(void *ctx, int part, int n_parts)
{
    const struct moe_job *j = ctx;
    int32_t D = j->ml->hidden;
    size_t slice = (size_t)j->rows * PANEL;
    float *acc = j->acc + (size_t)part * j->acc_floats;
    long from, to;
    pool_share(panel_count(j->ml->down->mat->panels), part, n_parts, &from, &to);
    for (int32_t p = (int32_t)from; p < to; p++) {
        int32_t cols = D - p * PANEL < PANEL ? D - p * PANEL : PANEL;
        add_experts(j, p, acc, part);
        for (int32_t n = j->ml->down->n_slices / 2; n > 0; n /= 2)
            for (size_t s = 0; s < (size_t)n; s++)
                for (size_t i = 0; i < slice; i++)
                    acc[s * slice + i] = acc[2 * s * slice + i] + acc[(2 * s + 1) * slice + i];
        for (int32_t t = 0; t < j->rows; t++)
            memcpy(view_f32(j->out, j->row0 + t) + (size_t)p * PANEL, acc + (size_t)t * PANEL,
                   (size_t)cols * sizeof *acc);
    }
}

static void check_shapes(const struct moe_layer *ml, struct view x, struct view ids,
                         struct view weights, struct view scratch, struct view out)
{
    assert(ml->gate_up->mat && (size_t)ml->gate_up->n == mid_cols(ml) &&
           ml->gate_up->k == ml->hidden);
    assert(ml->down->mat && ml->down->n == ml->hidden && ml->down->k == ml->ffn);
    assert(!(ml->up_alone || ml->weigh_input) || (!ml->gate_up_bias && ml->glu_limit == 0.0f));
    assert(!ml->up_alone || !ml->weigh_input);
    assert(!ml->gate_up_bias || ml->gate_up_bias->k == ml->n_experts * 2 * ml->ffn);
    assert(ml->gate_up->n_slices == 1 && ml->down->n_types == 1 && x.cols == ml->hidden &&
           out.cols == ml->hidden);
    assert(ids.cols == ml->top_k && weights.cols == ml->top_k && x.rows == out.rows);
    assert(ids.rows == x.rows && weights.rows == x.rows && scratch.dtype == DT_F32);
    (void)ml, (void)x, (void)ids, (void)weights, (void)scratch, (void)out;
}

static void begin(struct moe_job *j, struct view scratch)
{
    place(j, j->ml, j->rows, pool_parts(j->be->pool), view_f32(scratch, 0));
    sort_pairs(j);
    cut_strips(j);
}

enum status cpu_moe_ffn(struct backend *be, const struct moe_layer *ml, struct view x,
                        struct view ids, struct view weights, struct view scratch, struct view out)
{
    check_shapes(ml, x, ids, weights, scratch, out);
    assert((size_t)scratch.cols * sizeof(float) >= cpu_moe_scratch(be, ml, x.rows));
    struct moe_job j = {.be = be, .ml = ml, .x = x, .ids = ids, .weights = weights, .out = out};
    for (j.row0 = 0; j.row0 < x.rows; j.row0 += j.rows) {
        j.rows = x.rows - j.row0 < MOE_AT_ONCE ? x.rows - j.row0 : MOE_AT_ONCE;
        begin(&j, scratch);
        pool_run(be->pool, pack_part, &j);
        pool_run(be->pool, gate_up_part, &j);
        pool_run(be->pool, hidden_part, &j);
        pool_run(be->pool, down_part, &j);
    }
    return ST_OK;
}

enum status cpu_moe_hidden(struct backend *be, const struct moe_layer *ml, struct view x,
                           struct view ids, struct view weights, struct view scratch,
                           struct view peaks)
{
    check_shapes(ml, x, ids, weights, scratch, x);
    assert(x.rows <= MOE_AT_ONCE && peaks.rows == x.rows);
    assert(peaks.cols == ml->top_k * input_groups(&ml->round_hidden));
    struct moe_job j = {.be = be, .ml = ml, .x = x, .ids = ids, .weights = weights};
    j.peaks = peaks;
    j.rows = x.rows;
    begin(&j, scratch);
    pool_run(be->pool, pack_part, &j);
    pool_run(be->pool, gate_up_part, &j);
    pool_run(be->pool, peaks_part, &j);
    return ST_OK;
}

enum status cpu_moe_down(struct backend *be, const struct moe_layer *ml, struct view peaks,
                         struct view ids, struct view weights, struct view scratch, struct view out)
{
    check_shapes(ml, out, ids, weights, scratch, out);
    assert(out.rows <= MOE_AT_ONCE && peaks.rows == out.rows);
    struct moe_job j = {.be = be, .ml = ml, .ids = ids, .weights = weights, .out = out};
    j.peaks = peaks;
    j.rows = out.rows;
    begin(&j, scratch);
    pool_run(be->pool, pack_hidden_part, &j);
    pool_run(be->pool, down_part, &j);
    return ST_OK;
}

/* ---- biases of down ---- */

struct bias_job {
    const struct kernels *kernels;
    const struct moe_layer *ml;
    struct view ids, weights, out;
};

static void bias_part(void *ctx, int part, int n_parts)
{
    const struct bias_job *j = ctx;
    int32_t k = j->ml->top_k, D = j->ml->hidden;
    long from, to;
    pool_share(j->out.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        const int32_t *ids = view_i32(j->ids, t);
        for (int32_t n = 0, last = -1; n < k; n++) { /* the least id above the last one */
            int32_t at = -1;
            for (int32_t i = 0; i < k; i++)
                if (ids[i] > last && (at < 0 || ids[i] < ids[at]))
                    at = i;
            assert(at >= 0);
            last = ids[at];
            j->kernels->add(view_f32(j->out, t),
                            vector_of(j->ml->down_bias) + (size_t)last * (size_t)D,
                            view_f32(j->weights, t)[at], D);
        }
    }
}

enum status cpu_moe_bias(struct backend *be, const struct moe_layer *ml, struct view ids,
                         struct view weights, struct view out)
{
    assert(ml->down_bias->k == ml->n_experts * ml->hidden && out.cols == ml->hidden);
    assert(ids.rows == out.rows && weights.rows == out.rows && ids.cols == ml->top_k);
    struct bias_job j = {be->kernels, ml, ids, weights, out};
    rows_run(be, bias_part, &j, out.rows, out.cols * ml->top_k);
    return ST_OK;
}
