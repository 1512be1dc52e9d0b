#include "backends/cpu/cpu_backend.h"

static struct quant_shape shape_of(const struct weight *w, const struct section *s)
{
    return (struct quant_shape){w->k, s->skip, w->n_slices, w->slice_end};
}

size_t image_bytes(const struct weight *w, const struct section *s)
{
    struct quant_shape shape = shape_of(w, s);
    return s->quant ? (size_t)quant_runs(&shape) * X_RUN_BYTES : (size_t)w->k * sizeof(float);
}

int32_t image_rows(const struct backend *be, const struct section *s)
{
    return s->quant ? QUANT_ROWS : be->kernels->tile_rows;
}

static int32_t n_tiles(const struct backend *be, int32_t rows)
{
    return (rows + be->quant->tile_rows - 1) / be->quant->tile_rows;
}

void image_put(const struct backend *be, const struct weight *w, const struct section *s,
               const float *x, int32_t r, int32_t rows, void *image)
{
    if (!s->quant) {
        for (int32_t k = 0; k < w->k; k++)
            ((float *)image)[(size_t)k * (size_t)rows + (size_t)r] = x[k];
        return;
    }
    struct quant_shape shape = shape_of(w, s);
    int32_t n = n_tiles(be, rows), tile = (n * (r + 1) - 1) / rows; /* last with tile_start <= r */
    int32_t first = tile_start(rows, n, tile), in_tile = tile_start(rows, n, tile + 1) - first;
    be->quant->quantize_row(&shape, x, r - first, in_tile,
                            (char *)image + (size_t)first * image_bytes(w, s));
}

int32_t section_panels(const struct section *s)
{
    return (s->n + PANEL - 1) / PANEL;
}

int32_t weight_panels(const struct weight *w)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_sections; i++)
        n += section_panels(&w->section[i]);
    return n;
}

const struct section *section_of_panel(const struct weight *w, int32_t *p)
{
    const struct section *s = w->section;
    for (; *p >= section_panels(s); s++)
        *p -= section_panels(s);
    return s;
}

void panel_product(const struct backend *be, const struct weight *w, const struct section *s,
                   int32_t p, const void *image, int32_t rows, float *out, size_t out_stride,
                   int part)
{
    int32_t left = s->n - p * PANEL, cols = left < PANEL ? left : PANEL;
    const char *panel = (const char *)w->data.data + s->at + (size_t)p * s->stride;
    const float *bias = w->bias.data ? (const float *)w->bias.data + s->row + p * PANEL : NULL;
    if (s->quant) {
        struct quant_panel t = {.pack = s->quant,
                                .panel = panel,
                                .shape = shape_of(w, s),
                                .x = image,
                                .bias = bias,
                                .out = out,
                                .out_stride = out_stride,
                                .rows = rows,
                                .cols = cols,
                                .n_tiles = n_tiles(be, rows)};
        be->quant->panel(&t, be->quant_thread + (size_t)part * be->quant_scratch);
    } else {
        struct linear_tile t = {.x = image,
                                .panel = panel,
                                .pack = pack_of(s->dtype),
                                .bias = bias,
                                .out = out,
                                .out_stride = out_stride,
                                .rows = rows,
                                .cols = cols,
                                .n_slices = w->n_slices,
                                .slice_end = w->slice_end};
        be->kernels->linear_tile(&t);
    }
}
