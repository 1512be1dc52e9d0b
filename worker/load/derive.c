#include "worker/load/derive.h"

#include <stdlib.h>
#include <string.h>

#include "common/quant.h"

void copies_free(struct copies *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->p[i]);
    free(c->p);
    *c = (struct copies){.sizes_only = c->sizes_only};
}

enum status copies_take(struct copies *c, size_t bytes, void **out)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        void **p = realloc(c->p, cap * sizeof *p);
        if (!p)
            FAIL(ST_NOMEM, "no memory for a weight's rows");
        c->p = p;
        c->cap = cap;
    }
    *out = calloc(1, bytes ? bytes : 1);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for the %zu bytes of a weight's rows", bytes);
    c->p[c->n++] = *out;
    return ST_OK;
}

enum status derive_transposed(struct copies *c, const unsigned char *stored, size_t n_rows,
                              const struct share_cut *cut, struct weight_part *p)
{
    size_t size = dtype_size(p->dtype);
    void *out;
    p->row_bytes = cut->cols * size;
    p->data = stored;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    for (size_t k = 0; k < cut->cols; k++) {
        const unsigned char *from = stored + ((cut->col + k) * n_rows + cut->first) * size;
        for (size_t r = 0; r < cut->rows; r++)
            memcpy((unsigned char *)out + r * p->row_bytes + k * size, from + r * cut->step * size,
                   size);
    }
    p->data = out;
    return ST_OK;
}

enum status derive_dequantised(struct copies *c, const unsigned char *stored, size_t n_rows,
                               const struct share_cut *cut, struct weight_part *p)
{
    const struct quant_form *f = quant_form(p->dtype);
    size_t row_bytes = n_rows / (size_t)f->block * (size_t)f->n_bytes;
    void *row, *out;
    enum dtype stored_type = p->dtype;
    p->dtype = DT_F32;
    p->row_bytes = cut->cols * sizeof(float);
    p->data = stored;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, n_rows * sizeof(float), &row));
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    for (size_t k = 0; k < cut->cols; k++) {
        quant_expand(stored_type, stored + (cut->col + k) * row_bytes, n_rows, row);
        for (size_t r = 0; r < cut->rows; r++)
            ((float *)out)[r * cut->cols + k] = ((float *)row)[cut->first + r * cut->step];
    }
    p->data = out;
    return ST_OK;
}

void mxfp4_block(const unsigned char *pairs, unsigned char exponent, unsigned char *out)
{
    out[0] = exponent;
    for (int i = 0; i < 16; i++) {
        int low = pairs[i / 2] >> i % 2 * 4 & 15, high = pairs[8 + i / 2] >> i % 2 * 4 & 15;
        out[1 + i] = (unsigned char)(low | high << 4);
    }
}

enum status derive_mxfp4(struct copies *c, const unsigned char *blocks, const unsigned char *scales,
                         size_t row_blocks, const struct share_cut *cut, struct weight_part *p)
{
    const struct quant_form *f = quant_form(DT_MXFP4);
    size_t block = (size_t)f->block, size = (size_t)f->n_bytes, n = cut->cols / block;
    void *out;
    p->dtype = DT_MXFP4;
    p->row_bytes = n * size;
    p->data = blocks;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    for (size_t r = 0; r < cut->rows; r++) {
        size_t from = (cut->first + r * cut->step) * row_blocks + cut->col / block;
        for (size_t b = 0; b < n; b++)
            mxfp4_block(blocks + (from + b) * 16, scales[from + b],
                        (unsigned char *)out + r * p->row_bytes + b * size);
    }
    p->data = out;
    return ST_OK;
}

void derive_floats(const unsigned char *stored, enum dtype t, const struct share_cut *cut,
                   float *out)
{
    for (size_t r = 0; r < cut->rows; r++) {
        const unsigned char *from = stored + (cut->first + r * cut->step) * dtype_size(t);
        uint16_t half = 0;
        if (t == DT_F32) {
            memcpy(&out[r], from, sizeof out[r]);
            continue;
        }
        memcpy(&half, from, sizeof half);
        out[r] = t == DT_BF16 ? f32_of_bf16(half) : f32_of_f16(half);
    }
}
