#include <string.h>

#include "backends/cpu/cpu_backend.h"

enum { PACK_COLS = 512 }; /* columns of x that one packing unit transposes */

struct embed_job {
    const struct weight *table;
    int32_t first_id;
    struct view ids, out;
};

/* Row n of the table is a column of a panel. */
static void embed_row(const struct weight *w, int32_t n, float *out)
{
    const char *panel =
        (const char *)w->data.data + (size_t)(n / PANEL) * panel_bytes(&w->form, (size_t)w->k);
    for (int32_t k = 0; k < w->k; k++)
        out[k] = panel_value(&w->form, panel, (size_t)k, n % PANEL) + 0.0f;
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

/* A block of rows against the whole weight.  Rows are cut into n_tiles nearly equal tiles; the
 * work's units are (panel, tile), panel-major, so that a panel stays in cache over its tiles. */
struct linear_job {
    const struct kernels *kernels;
    const struct weight *w;
    struct view x, out;
    int32_t row0, rows, n_tiles;
    float *pack; /* [rows * K]: tile after tile, each [K][its rows] */
};

static int32_t tile_start(const struct linear_job *j, int32_t tile)
{
    return (int32_t)((int64_t)j->rows * tile / j->n_tiles);
}

static void pack_tile(const struct linear_job *j, int32_t tile, int32_t k0, int32_t k1)
{
    int32_t r0 = tile_start(j, tile), rows = tile_start(j, tile + 1) - r0;
    float *dst = j->pack + (size_t)r0 * (size_t)j->w->k;
    for (int32_t r = 0; r < rows; r++) {
        const float *src = view_f32(j->x, j->row0 + r0 + r);
        for (int32_t k = k0; k < k1; k++)
            dst[(size_t)k * (size_t)rows + (size_t)r] = src[k];
    }
}

static void pack_part(void *ctx, int part, int n_parts)
{
    const struct linear_job *j = ctx;
    int32_t per_tile = (j->w->k + PACK_COLS - 1) / PACK_COLS;
    long from, to;
    pool_share((long)per_tile * j->n_tiles, part, n_parts, &from, &to);
    for (long u = from; u < to; u++) {
        int32_t k0 = (int32_t)(u % per_tile) * PACK_COLS;
        pack_tile(j, (int32_t)(u / per_tile), k0,
                  k0 + PACK_COLS < j->w->k ? k0 + PACK_COLS : j->w->k);
    }
}

static void linear_part(void *ctx, int part, int n_parts)
{
    const struct linear_job *j = ctx;
    const struct weight *w = j->w;
    int32_t n_panels = (w->n + PANEL - 1) / PANEL;
    size_t bytes = panel_bytes(&w->form, (size_t)w->k);
    long from, to;
    pool_share((long)n_panels * j->n_tiles, part, n_parts, &from, &to);
    for (long u = from; u < to; u++) {
        int32_t p = (int32_t)(u / j->n_tiles), tile = (int32_t)(u % j->n_tiles);
        int32_t r0 = tile_start(j, tile), c0 = p * PANEL;
        struct linear_tile t = {
            .x = j->pack ? j->pack + (size_t)r0 * (size_t)w->k : view_f32(j->x, j->row0),
            .panel = (const char *)w->data.data + (size_t)p * bytes,
            .bias = w->bias.data ? (const float *)w->bias.data + c0 : NULL,
            .out = view_f32(j->out, j->row0 + r0) + c0,
            .out_stride = (size_t)j->out.stride,
            .form = w->form,
            .rows = tile_start(j, tile + 1) - r0,
            .cols = w->n - c0 < PANEL ? w->n - c0 : PANEL,
            .n_slices = w->n_slices,
            .slice_end = w->slice_end,
        };
        j->kernels->linear_tile(&t);
    }
}

enum status cpu_linear(struct backend *be, const struct weight *w, struct view x, struct view out)
{
    assert(!w->vector && x.cols == w->k && out.cols == w->n && x.rows == out.rows);
    int32_t most = be->kernels->tile_rows, block = x.rows;
    if (w->k > 0 && (size_t)block * (size_t)w->k > be->x_pack_floats)
        block = (int32_t)(be->x_pack_floats / (size_t)w->k) / most * most;
    for (int32_t row0 = 0; row0 < x.rows; row0 += block) {
        int32_t rows = x.rows - row0 < block ? x.rows - row0 : block;
        struct linear_job j = {.kernels = be->kernels,
                               .w = w,
                               .x = x,
                               .out = out,
                               .row0 = row0,
                               .rows = rows,
                               .n_tiles = (rows + most - 1) / most};
        if (rows > 1) {
            j.pack = be->x_pack;
            rows_run(be, pack_part, &j, rows, w->k);
        }
        if ((int64_t)w->k * w->n * rows < 2 * ROWS_GRAIN)
            linear_part(&j, 0, 1);
        else
            pool_run(be->pool, linear_part, &j);
    }
    return ST_OK;
}
