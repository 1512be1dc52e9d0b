#include "worker/load/derive_fp8.h"

#include <math.h>

/* Where in the stored scales that of a row and a column is. */
static size_t scale_at(const struct model_config *mc, const struct stored_tensor *t, size_t row,
                       size_t col)
{
    if (mc->fp8_rows)
        return row / (size_t)mc->fp8_rows * (size_t)t->shape[1] + col / (size_t)mc->fp8_cols;
    return t->n_dims > 0 && t->shape[0] > 1 ? row : 0;
}

/* Element `at` of stored scales. */
static enum status take_scale(const struct stored_tensor *stored, size_t at, float *out)
{
    const struct share_cut one = {.step = 1, .rows = 1};
    derive_floats(stored->data + at * dtype_size(stored->dtype), stored->dtype, &one, out);
    if (!isfinite(*out))
        FAIL(ST_FORMAT, "tensor %s: scale %zu is not finite", stored->name, at);
    return ST_OK;
}

enum status derive_fp8(struct copies *c, struct loader *ld, const struct stored_tensor *t,
                       const struct stored_rows *rows, size_t col, size_t cols,
                       struct weight_part *p)
{
    struct stored_tensor stored;
    void *out;
    TRY(loader_scales(ld, t, &stored));
    p->skip = (int32_t)(col % FP8_BLOCK);
    p->scale_stride = (size_t)fp8_blocks(p->skip, (int32_t)cols);
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, (size_t)p->rows * p->scale_stride * sizeof(float), &out));
    p->scale = out;
    for (size_t r = 0; r < (size_t)p->rows; r++)
        for (size_t b = 0; b < p->scale_stride; b++) {
            size_t at = scale_at(loader_config(ld), &stored, stored_row(rows, r),
                                 (col / FP8_BLOCK + b) * FP8_BLOCK);
            TRY(take_scale(&stored, at, (float *)out + r * p->scale_stride + b));
        }
    return ST_OK;
}

enum status derive_fp8_columns(struct copies *c, struct loader *ld, const struct stored_tensor *t,
                               size_t expert, const struct share_cut *cut, struct weight_part *p)
{
    struct stored_tensor stored;
    void *out;
    TRY(loader_column_scales(ld, t, &stored));
    p->skip = (int32_t)(cut->col % FP8_BLOCK);
    p->scale_stride = (size_t)fp8_blocks(p->skip, (int32_t)cut->cols);
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, cut->rows * p->scale_stride * sizeof(float), &out));
    p->scale = out;
    for (size_t r = 0; r < cut->rows; r++) {
        float *scale = (float *)out + r * p->scale_stride;
        size_t at = expert * (size_t)t->shape[2] + cut->first + r * cut->step;
        for (size_t b = 0; b < p->scale_stride; b++)
            TRY(take_scale(&stored, at, scale + b));
    }
    return ST_OK;
}

enum status derive_fp8_transposed(struct copies *c, struct loader *ld,
                                  const struct stored_tensor *t, const struct share_cut *cut,
                                  struct weight_part *p)
{
    struct weight_part rows = {.rows = (int32_t)cut->cols};
    const struct stored_rows from = stored_neighbours(cut->col);
    void *out;
    size_t n = (size_t)t->shape[1];
    TRY(derive_fp8(c, ld, t, &from, 0, n, &rows));
    p->dtype = DT_F32;
    p->row_bytes = cut->cols * sizeof(float);
    p->data = t->data;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    for (size_t k = 0; k < cut->cols; k++)
        for (size_t r = 0; r < cut->rows; r++) {
            size_t col = cut->first + r * cut->step;
            ((float *)out)[r * cut->cols + k] = f32_of_e4m3(t->data[(cut->col + k) * n + col]) *
                                                rows.scale[k * rows.scale_stride + col / FP8_BLOCK];
        }
    p->data = out;
    return ST_OK;
}
