/* embed, linear: the pool shares their rows, and (panel, strip) items. */
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/sorted.h"

struct embed_job {
    const struct weight *table;
    int32_t first_id;
    struct view ids, out;
};

/* Row n of the table is a column of a panel. */
static void embed_row(const struct weight *w, int32_t n, float *out)
{
    const struct panels *s = w->panels;
    while (n >= s->row + s->n)
        s++;
    const char *panel = weight_data(w) + s->at + (size_t)((n - s->row) / PANEL) * s->stride;
    int col = (n - s->row) % PANEL;
    if (s->quant)
        quant_panel_expand(s->quant, panel, s->skip, w->k, col, out);
    struct sorted_shape shape = sorted_shape_of(w, s);
    bool sorted = is_sorted(s->dtype);
    if (sorted)
        sorted_expand(&shape, plan_of(w, s), sorted_bits(s->dtype), panel, col, out);
    enum pack pack = pack_of(s->dtype);
    bool scaled = pack_scaled(pack);
    for (int32_t k = 0; scaled && k < w->k; k++)
        out[k] = panel_scaled_value(pack, panel, (struct pack_head){s->skip, s->groups, s->block},
                                    w->k, k, col);
    for (int32_t i = 0, k = 0; !s->quant && !sorted && !scaled && i < w->n_slices; i++) {
        size_t row = pack_rows(pack, w->slice_end, i, k);
        for (; k < w->slice_end[i]; k++)
            out[k] = panel_value(pack, panel, row++, col);
    }
    for (int32_t k = 0; k < w->k; k++)
        out[k] += 0.0f;
}

static void embed_part(void *ctx, int part, int n_parts)
{
    const struct embed_job *j = ctx;
    long from, to;
    pool_share(j->out.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        int64_t n = (int64_t)col_i32(j->ids, t) - j->first_id;
        float *out = view_f32(j->out, t);
        if (n >= 0 && n < j->table->n)
            embed_row(j->table, (int32_t)n, out);
        else
            memset(out, 0, (size_t)j->out.cols * sizeof *out);
    }
}

enum status cpu_embed(struct backend *be, const struct weight *table, int32_t first_id,
                      struct view ids, struct view out)
{
    assert(!table->vector && table->k == out.cols && ids.rows == out.rows);
    struct embed_job j = {table, first_id, ids, out};
    rows_run(be, embed_part, &j, out.rows, out.cols);
    return ST_OK;
}

/* Rows [row0, row0 + rows) against the panels of one type, cut into n_strips nearly equal strips. */
struct linear_job {
    struct backend *be;
    const struct weight *w;
    const struct panels *s;
    struct view x, out;
    int32_t row0, rows, n_strips;
};

/* Strip i: rows [*first, + result) of the job's, and its memory. */
static int32_t strip_of(const struct linear_job *j, int32_t i, int32_t *first, char **strip)
{
    *first = cut_start(j->rows, j->n_strips, i);
    *strip = (char *)j->be->x_pack + (size_t)*first * strip_row_bytes(j->w, j->s);
    return cut_start(j->rows, j->n_strips, i + 1) - *first;
}

static void pack_part(void *ctx, int part, int n_parts)
{
    const struct linear_job *j = ctx;
    long from, to;
    pool_share(j->rows, part, n_parts, &from, &to);
    for (int32_t i = 0; i < j->n_strips; i++) {
        int32_t first;
        char *strip;
        int32_t rows = strip_of(j, i, &first, &strip);
        for (int32_t r = 0; r < rows; r++)
            if (first + r >= from && first + r < to)
                strip_put(j->be, j->w, j->s, view_f32(j->x, j->row0 + first + r), r, rows, strip);
    }
}

/* Item u is (panel, strip).  Where x stays in f32, a panel stays in the cache over the strips, which
 * have few rows; other strips stay there over the panels. */
static void product_item(void *ctx, long u, int part)
{
    const struct linear_job *j = ctx;
    int32_t n_panels = panel_count(j->s);
    bool floats = strip_kind(j->be, j->s) == STRIP_F32;
    int32_t p = (int32_t)(floats ? u / j->n_strips : u % n_panels);
    int32_t i = (int32_t)(floats ? u % j->n_strips : u / n_panels), first;
    char *strip;
    int32_t rows = strip_of(j, i, &first, &strip);
    if (floats && rows == 1 && j->rows == 1)
        strip = (char *)view_f32(j->x, j->row0); /* one row is its own strip */
    panel_product(j->be, j->w, j->s, p, strip, rows,
                  view_f32(j->out, j->row0 + first) + j->s->row + p * PANEL, (size_t)j->out.stride,
                  part);
}

/* Small matrices stay in a core's own cache: the threads share only more work of them. */
static bool worth_sharing(const struct linear_job *j)
{
    size_t bytes = (size_t)panel_count(j->s) * j->s->panel_bytes;
    int64_t work = (int64_t)j->w->k * j->s->n * j->rows;
    return work > (bytes > SMALL_MATRIX ? PRODUCT_GRAIN : SMALL_PRODUCT_GRAIN);
}

/* The job's rows against all panels; neighbouring types of a kind share the strips. */
static void run_rows(struct linear_job *j)
{
    for (int32_t i = 0; i < j->w->n_types; i++) {
        j->s = &j->w->panels[i];
        int32_t most = strip_rows(j->be, j->s);
        enum strip_kind kind = strip_kind(j->be, j->s);
        bool have = i > 0 && strip_repeats(j->be, j->s);
        j->n_strips = (j->rows + most - 1) / most;
        if (!have && (kind != STRIP_F32 || j->rows > 1))
            rows_run(j->be, pack_part, j, j->rows, j->w->k);
        long items = (long)panel_count(j->s) * j->n_strips;
        if (worth_sharing(j))
            pool_run_items(j->be->pool, items, product_item, j);
        else
            for (long u = 0; u < items; u++)
                product_item(j, u, 0);
    }
}

/* Rows whose strips fit x_pack, whole strips where there is room for that. */
static int32_t rows_at_a_time(const struct backend *be, const struct weight *w)
{
    int32_t least = INT32_MAX / 2;
    for (int32_t i = 0; i < w->n_types; i++) {
        size_t most = (size_t)strip_rows(be, &w->panels[i]),
               row = strip_row_bytes(w, &w->panels[i]);
        size_t rows = row ? be->x_pack_floats * sizeof(float) / row : (size_t)least;
        rows = rows >= most ? rows / most * most : rows;
        least = rows < (size_t)least ? (int32_t)rows : least;
    }
    return least;
}

enum status cpu_linear(struct backend *be, const struct weight *w, struct view x, struct view out)
{
    assert(!w->vector && x.cols == w->k && out.cols == w->n && x.rows == out.rows);
    int32_t most = rows_at_a_time(be, w);
    for (int32_t row0 = 0; row0 < x.rows; row0 += most) {
        struct linear_job j = {.be = be, .w = w, .x = x, .out = out, .row0 = row0};
        j.rows = x.rows - row0 < most ? x.rows - row0 : most;
        run_rows(&j);
    }
    return ST_OK;
}
