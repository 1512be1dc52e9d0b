/* The executable specification of products with quantised weights: portable C, slow and clear. */
#include "backends/cpu/quant_x.h"

/* The slice's sum after one group. */
static float add_group(const struct quant_panel *t, int32_t group, int col, const int8_t *a,
                       float d, float acc)
{
    const struct quant_layout *l = t->pack->lay;
    const uint8_t *codes = (const uint8_t *)t->panel + quant_group_at(l, t->shape.skip, group);
    int n = GROUP / l->halves;
    for (int h = 0; h < l->halves; h++) {
        int32_t dot = 0, sum = 0;
        float min, scale = quant_scale(t->pack, t->panel, t->shape.skip, group, h, col, &min);
        for (int e = h * n; e < (h + 1) * n; e++) {
            dot += quant_q(t->pack, quant_code(l, codes, e, col)) * a[e];
            sum += a[e];
        }
        acc = fmaf((float)dot, scale * d, acc);
        if (l->has_min)
            acc = fmaf(min, d * (float)sum, acc);
    }
    return acc;
}

static float plain_output(const struct quant_panel *t, const char *x, int row, int rows, int col)
{
    float slice[N_SLICES];
    for (int s = 0; s < t->shape.n_slices; s++) {
        int32_t g, end;
        slice[s] = 0.0f;
        for (slice_groups(&t->shape, s, &g, &end); g < end; g++, x += rows * X_GROUP_BYTES) {
            const struct quant_x *info = (const struct quant_x *)(const void *)(x + rows * GROUP);
            slice[s] = add_group(t, g, col, (const int8_t *)x + row * GROUP, info[row].d, slice[s]);
        }
    }
    for (int n = t->shape.n_slices / 2; n > 0; n /= 2)
        for (int s = 0; s < n; s++)
            slice[s] = slice[2 * s] + slice[2 * s + 1];
    return t->bias ? slice[0] + t->bias[col] : slice[0];
}

static void plain_quant_panel(const struct quant_panel *t, void *scratch)
{
    (void)scratch;
    size_t bytes = (size_t)x_groups(&t->shape) * X_GROUP_BYTES; /* of a row of x */
    for (int i = 0; i < t->n_tiles; i++) {
        int r0 = cut_start(t->rows, t->n_tiles, i);
        int rows = cut_start(t->rows, t->n_tiles, i + 1) - r0;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < t->cols; c++)
                t->out[(size_t)(r0 + r) * t->out_stride + (size_t)c] =
                    plain_output(t, t->x + (size_t)r0 * bytes, r, rows, c);
    }
}

/* Of one row of x, [places] then [chunks]. */
static float plain_sorted_output(const struct sorted_panel *t, const char *x, int col)
{
    const struct sorted_shape *s = &t->shape;
    const int32_t *n_chunks = t->plan;
    const struct sorted_chunk *chunk = sorted_chunks_of(s, t->plan);
    const struct sorted_x *info = (const struct sorted_x *)(const void *)(x + sorted_infos_at(s));
    float slice[N_SLICES];
    size_t quad = 0;
    for (int i = 0; i < s->n_slices; i++) {
        slice[i] = 0.0f;
        for (int32_t c = 0; c < n_chunks[i]; c++, chunk++, info++) {
            size_t at = (size_t)chunk->group * PANEL + (size_t)col;
            float scale = ((const float *)(const void *)t->panel)[at];
            int zero = ((const int8_t *)t->panel + sorted_zeros_at(s))[at];
            int32_t dot = 0;
            for (int e = 0; e < 4 * chunk->quads; e++) {
                const char *codes = t->panel + sorted_codes_at(s);
                int q = sorted_element(t->bits, codes, quad + (size_t)e / 4, e % 4, col);
                dot += (q - zero) * ((const int8_t *)x)[quad * 4 + (size_t)e];
            }
            slice[i] = fmaf((float)dot, scale * info->d, slice[i]);
            quad += chunk->quads;
        }
    }
    for (int n = s->n_slices / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            slice[i] = slice[2 * i] + slice[2 * i + 1];
    return t->bias ? slice[0] + t->bias[col] : slice[0];
}

static void plain_sorted_panel(const struct sorted_panel *t)
{
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c++)
            t->out[(size_t)r * t->out_stride + (size_t)c] =
                plain_sorted_output(t, t->x + (size_t)r * sorted_x_bytes(&t->shape), c);
}

const struct quant_kernels quant_plain = {
    .tile_rows = 16,
    .tile_unit = 1,
    .quantize_row = row_quantize,
    .panel = plain_quant_panel,
    .sort_row = row_sort,
    .sorted = plain_sorted_panel,
};
