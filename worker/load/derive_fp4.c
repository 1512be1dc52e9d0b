#include "worker/load/derive_fp4.h"

#include <math.h>

#include "common/quant.h"

static float value_of(const struct fp4 *m, uint8_t small)
{
    return m->dtype == DT_NVFP4 ? f32_of_e4m3(small) * m->factor / m->divisor : 1.0f;
}

/* The scale of a block; of NVFP4 as the product has it. */
static enum status read_scale(const struct fp4 *m, size_t row, size_t block, float *out)
{
    *out = m->storage == FP4_BNB ? fp4_scale(m, row, block)
                                 : value_of(m, fp4_small_scale(m, row, block));
    if (!isfinite(*out))
        FAIL(ST_FORMAT, "tensor %s: the scale of row %zu, block %zu is not finite", m->scales.name,
             row, block);
    return ST_OK;
}

/* One block of 32: low halves are elements 0 .. 15, high ones 16 .. 31. */
static void put_mx_block(const struct fp4 *m, size_t row, size_t block, unsigned char *out)
{
    uint8_t code[32];
    fp4_codes(m, row, block * 32, 32, code);
    out[0] = fp4_small_scale(m, row, block);
    for (int i = 0; i < 16; i++)
        out[1 + i] = (unsigned char)(code[i] | code[16 + i] << 4);
}

static enum status derive_mx(struct copies *c, const struct fp4 *m, const struct stored_rows *rows,
                             size_t col, size_t cols, struct weight_part *p)
{
    void *out;
    size_t size = (size_t)quant_form(DT_MXFP4)->n_bytes, first = col / 32;
    size_t n = cols ? (col + cols - 1) / 32 + 1 - first : 0;
    p->skip = (int32_t)(col % 32);
    p->row_bytes = n * size;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, (size_t)p->rows * p->row_bytes, &out));
    for (size_t r = 0; r < (size_t)p->rows; r++)
        for (size_t b = 0; b < n; b++)
            put_mx_block(m, stored_row(rows, r), first + b,
                         (unsigned char *)out + r * p->row_bytes + b * size);
    p->data = out;
    return ST_OK;
}

/* Scales of p's rows and blocks from `first` on. */
static enum status put_scales(struct copies *c, const struct fp4 *m, const struct stored_rows *rows,
                              size_t first, struct weight_part *p)
{
    void *out;
    bool small = m->dtype == DT_NVFP4;
    size_t n = p->scale_stride;
    TRY(copies_take(c, (size_t)p->rows * n * (small ? 1 : sizeof(float)), &out));
    for (size_t r = 0; r < (size_t)p->rows; r++)
        for (size_t b = 0; b < n; b++) {
            float scale;
            size_t row = stored_row(rows, r);
            TRY(read_scale(m, row, first + b, &scale));
            if (small)
                ((uint8_t *)out)[r * n + b] = fp4_small_scale(m, row, first + b);
            else
                ((float *)out)[r * n + b] = scale;
        }
    p->scale = small ? NULL : out;
    p->small_scale = small ? out : NULL;
    return ST_OK;
}

enum status derive_fp4(struct copies *c, const struct fp4 *m, const struct stored_rows *rows,
                       size_t col, size_t cols, struct weight_part *p)
{
    void *out;
    p->dtype = m->dtype;
    p->data = m->codes.data;
    if (m->dtype == DT_MXFP4)
        return derive_mx(c, m, rows, col, cols, p);
    p->block = (int32_t)m->block;
    p->skip = (int32_t)(col % m->block);
    p->scale_stride = (size_t)scale_blocks(p->block, p->skip, (int32_t)cols);
    p->factor = m->factor;
    p->divisor = m->divisor;
    p->row_bytes = cols;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, (size_t)p->rows * cols, &out));
    for (size_t r = 0; r < (size_t)p->rows; r++)
        fp4_codes(m, stored_row(rows, r), col, cols, (uint8_t *)out + r * cols);
    p->data = out;
    return put_scales(c, m, rows, col / m->block, p);
}

enum status derive_fp4_transposed(struct copies *c, const struct fp4 *m,
                                  const struct share_cut *cut, struct weight_part *p)
{
    void *out;
    p->dtype = DT_F32;
    p->skip = 0;
    p->row_bytes = cut->cols * sizeof(float);
    p->data = m->codes.data;
    if (m->dtype == DT_MXFP4)
        FAIL(ST_UNSUPPORTED, "tensor %s: a transposed matrix of MXFP4 is not supported",
             m->codes.name);
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    for (size_t k = 0; k < cut->cols; k++)
        for (size_t r = 0; r < cut->rows; r++) {
            float scale;
            uint8_t code;
            TRY(read_scale(m, cut->col + k, r / m->block, &scale));
            fp4_codes(m, cut->col + k, r, 1, &code);
            ((float *)out)[r * cut->cols + k] = dtype_levels(m->dtype)[code] * scale;
        }
    p->data = out;
    return ST_OK;
}
