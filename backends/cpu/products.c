/* Rows of x against one panel of a matrix, of floats or quantised. */
#include "backends/cpu/bf16.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/sorted.h"

static struct quant_shape shape_of(const struct weight *w, const struct panels *s)
{
    return (struct quant_shape){w->k, s->skip, w->n_slices, w->slice_end};
}

struct sorted_shape sorted_shape_of(const struct weight *w, const struct panels *s)
{
    return (struct sorted_shape){s->groups, w->n_slices, w->slice_end};
}

const void *plan_of(const struct weight *w, const struct panels *s)
{
    return weight_data(w) + s->plan_at;
}

enum strip_kind strip_kind(const struct backend *be, const struct panels *s)
{
    if (is_sorted(s->dtype))
        return STRIP_SORTED;
    return s->quant ? STRIP_QUANT : s->dtype == DT_BF16 && be->bf16 ? STRIP_BF16 : STRIP_F32;
}

bool strip_repeats(const struct backend *be, const struct panels *s)
{
    enum strip_kind kind = strip_kind(be, s);
    return kind == strip_kind(be, s - 1) && (kind != STRIP_SORTED || s->repeats);
}

/* Floats: the larger of both kinds, so that strips are shared by all float types and memory does not
 * depend on --activations. */
size_t strip_row_bytes(const struct weight *w, const struct panels *s)
{
    struct quant_shape shape = shape_of(w, s);
    size_t floats = (size_t)w->k * sizeof(float),
           rounded = (size_t)bf16_groups(w->n_slices, w->slice_end) * BF16_GROUP * sizeof(uint16_t);
    if (s->quant)
        return (size_t)x_groups(&shape) * X_GROUP_BYTES;
    if (is_sorted(s->dtype)) {
        struct sorted_shape sorted = sorted_shape_of(w, s);
        return sorted_x_bytes(&sorted);
    }
    return rounded > floats ? rounded : floats;
}

int32_t strip_rows(const struct backend *be, const struct panels *s)
{
    static const int32_t rows[] = {
        [STRIP_QUANT] = QUANT_ROWS, [STRIP_BF16] = BF16_ROWS, [STRIP_SORTED] = QUANT_ROWS};
    enum strip_kind kind = strip_kind(be, s);
    return kind == STRIP_F32 ? be->kernels->tile_rows : rows[kind];
}

/* Tiles of a strip that has some and is not of floats. */
static int32_t n_tiles(const struct backend *be, enum strip_kind kind, int32_t rows)
{
    int32_t most = kind == STRIP_QUANT ? be->quant->tile_rows : be->bf16->tile_rows;
    return (rows + most - 1) / most;
}

void strip_put(const struct backend *be, const struct weight *w, const struct panels *s,
               const float *x, int32_t r, int32_t rows, void *strip)
{
    enum strip_kind kind = strip_kind(be, s);
    if (kind == STRIP_F32) {
        for (int32_t k = 0; k < w->k; k++)
            ((float *)strip)[(size_t)k * (size_t)rows + (size_t)r] = x[k];
        return;
    }
    if (kind == STRIP_SORTED) {
        struct sorted_shape sorted = sorted_shape_of(w, s);
        be->quant->sort_row(&sorted, plan_of(w, s), x,
                            (char *)strip + (size_t)r * sorted_x_bytes(&sorted));
        return;
    }
    struct quant_shape shape = shape_of(w, s);
    int32_t n = n_tiles(be, kind, rows), unit = kind == STRIP_QUANT ? be->quant->tile_unit : 1;
    int32_t units = (rows + unit - 1) / unit;
    int32_t tile = (n * (r / unit + 1) - 1) / units; /* last with cut_units <= r */
    int32_t first = cut_units(rows, unit, n, tile);
    int32_t in_tile = cut_units(rows, unit, n, tile + 1) - first;
    if (kind == STRIP_QUANT)
        be->quant->quantize_row(&shape, x, r - first, in_tile,
                                (char *)strip + (size_t)first * strip_row_bytes(w, s));
    else
        bf16_put_row(be->bf16, w->n_slices, w->slice_end, x, r - first, in_tile,
                     (uint16_t *)strip + (size_t)first * BF16_GROUP *
                                             (size_t)bf16_groups(w->n_slices, w->slice_end));
}

int32_t panel_count(const struct panels *s)
{
    return (s->n + PANEL - 1) / PANEL;
}

int32_t weight_panels(const struct weight *w)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_types; i++)
        n += panel_count(&w->panels[i]);
    return n;
}

const struct panels *panels_of(const struct weight *w, int32_t *p)
{
    const struct panels *s = w->panels;
    for (; *p >= panel_count(s); s++)
        *p -= panel_count(s);
    return s;
}

void panel_product(const struct backend *be, const struct weight *w, const struct panels *s,
                   int32_t p, const void *strip, int32_t rows, float *out, size_t out_stride,
                   int part)
{
    int32_t left = s->n - p * PANEL, cols = left < PANEL ? left : PANEL;
    const char *panel = weight_data(w) + s->at + (size_t)p * s->stride;
    const float *bias = w->bias.data ? (const float *)w->bias.data + s->row + p * PANEL : NULL;
    enum strip_kind kind = strip_kind(be, s);
    if (kind == STRIP_QUANT) {
        struct quant_panel t = {.pack = s->quant,
                                .panel = panel,
                                .shape = shape_of(w, s),
                                .x = strip,
                                .bias = bias,
                                .out = out,
                                .out_stride = out_stride,
                                .rows = rows,
                                .cols = cols,
                                .n_tiles = n_tiles(be, kind, rows),
                                .read = be->read};
        be->quant->panel(&t, be->quant_thread + (size_t)part * be->quant_scratch);
    } else if (kind == STRIP_SORTED) {
        struct sorted_panel t = {.bits = sorted_bits(s->dtype),
                                 .shape = sorted_shape_of(w, s),
                                 .plan = plan_of(w, s),
                                 .panel = panel,
                                 .x = strip,
                                 .bias = bias,
                                 .out = out,
                                 .out_stride = out_stride,
                                 .rows = rows,
                                 .cols = cols,
                                 .read = be->read};
        be->quant->sorted(&t);
    } else if (kind == STRIP_BF16) {
        struct bf16_panel t = {.x = strip,
                               .panel = (const uint16_t *)(const void *)panel,
                               .bias = bias,
                               .out = out,
                               .out_stride = out_stride,
                               .rows = rows,
                               .cols = cols,
                               .n_tiles = n_tiles(be, kind, rows),
                               .n_slices = w->n_slices,
                               .slice_end = w->slice_end,
                               .read = be->read};
        bf16_panel_product(be->bf16, &t);
    } else {
        struct linear_tile t = {.x = strip,
                                .panel = panel,
                                .pack = pack_of(s->dtype),
                                .bias = bias,
                                .out = out,
                                .out_stride = out_stride,
                                .rows = rows,
                                .cols = cols,
                                .n_slices = w->n_slices,
                                .slice_end = w->slice_end,
                                .read = be->read,
                                .head = {s->skip, s->groups, s->block}};
        be->kernels->linear_tile(&t);
    }
}
