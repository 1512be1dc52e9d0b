#include "worker/load/derive_ints.h"

#include <math.h>
#include <string.h>

#include "common/quant.h"

enum { BLOCK = 32 };

static bool by_index(const struct ints *m)
{
    return !m->in_order || m->scales.dtype == DT_F32 || (m->group % BLOCK && m->n_groups > 1);
}

/* zeros, bf16 */
static enum dtype block_type(size_t bits, bool zeros, bool bf16)
{
    static const enum dtype four[2][2] = {{DT_Q4_0, DT_INT4_BF16},
                                          {DT_INT4_ZERO_F16, DT_INT4_ZERO_BF16}},
                            eight[2][2] = {{DT_Q8_0, DT_INT8_BF16},
                                           {DT_INT8_ZERO_F16, DT_INT8_ZERO_BF16}};
    return bits == 4 ? four[zeros][bf16] : eight[zeros][bf16];
}

static enum status check_scale(const struct ints *m, float scale, size_t row, size_t group)
{
    if (!isfinite(scale))
        FAIL(ST_FORMAT, "tensor %s: the scale of row %zu, group %zu is not finite", m->scales.name,
             row, group);
    return ST_OK;
}

/* The index of a file that has none by its configuration says nothing else. */
static enum status check_index(const struct ints *m)
{
    for (size_t k = 0; m->index.data && k < m->cols; k++) {
        size_t g = ints_group(m, k);
        if (g >= m->n_groups)
            FAIL(ST_FORMAT, "tensor %s: column %zu is in group %zu of %zu", m->index.name, k, g,
                 m->n_groups);
        if (m->in_order && g != k / m->group)
            FAIL(ST_FORMAT,
                 "tensor %s: column %zu is in group %zu, but the configuration says that columns "
                 "are in order (desc_act in quantization_config)",
                 m->index.name, k, g);
    }
    return ST_OK;
}

static enum status check_middle(const struct ints *m, unsigned zero, size_t row, size_t group)
{
    if (zero != 1U << (m->bits - 1))
        FAIL(ST_FORMAT,
             "tensor %s: the zero point of row %zu, group %zu is %u, but the configuration says "
             "that "
             "all are %u (sym in quantization_config)",
             m->zeros.name, row, group, zero, 1U << (m->bits - 1));
    return ST_OK;
}

/* One block of BLOCK columns, as common/quant.h has type t. */
static void put_block(const struct quant_form *f, size_t bits, uint16_t scale, unsigned zero,
                      const uint8_t code[BLOCK], unsigned char *out)
{
    *out++ = (unsigned char)scale;
    *out++ = (unsigned char)(scale >> 8);
    if (f->has_zero)
        *out++ = (unsigned char)(bits == 4 ? zero : zero ^ 0x80U);
    for (int i = 0; bits == 4 && i < BLOCK / 2; i++)
        out[i] = (unsigned char)(code[i] | code[i + BLOCK / 2] << 4);
    for (int i = 0; bits == 8 && i < BLOCK; i++)
        out[i] = code[i] ^ 0x80;
}

/* Blocks [block, block + n) of the rows; block after block, because files store neighbouring rows
 * together. */
static enum status put_blocks(const struct ints *m, const struct weight_part *p,
                              const struct stored_rows *rows, size_t block, size_t n,
                              unsigned char *out)
{
    const struct quant_form *f = quant_form(p->dtype);
    for (size_t b = 0; b < n; b++) {
        size_t col = (block + b) * BLOCK, left = m->cols - col, group = col / m->group;
        for (size_t r = 0; r < (size_t)p->rows; r++) {
            uint8_t code[BLOCK] = {0};
            uint16_t bits;
            size_t row = stored_row(rows, r);
            unsigned zero = ints_zero(m, row, group);
            TRY(check_scale(m, ints_scale(m, row, group, &bits), row, group));
            if (m->symmetric)
                TRY(check_middle(m, zero, row, group));
            ints_codes(m, row, col, left < BLOCK ? left : BLOCK, code);
            put_block(f, m->bits, bits, zero, code,
                      out + r * p->row_bytes + b * (size_t)f->n_bytes);
        }
    }
    return ST_OK;
}

static enum status derive_blocks(struct copies *c, const struct ints *m,
                                 const struct stored_rows *rows, size_t col, size_t cols,
                                 struct weight_part *p)
{
    void *out;
    p->dtype = block_type(m->bits, !m->symmetric, m->scales.dtype == DT_BF16);
    p->skip = (int32_t)(col % BLOCK);
    size_t block = col / BLOCK, n = cols ? (col + cols - 1) / BLOCK + 1 - block : 0;
    p->row_bytes = n * (size_t)quant_form(p->dtype)->n_bytes;
    p->data = m->codes.data;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, (size_t)p->rows * p->row_bytes, &out));
    p->data = out;
    return put_blocks(m, p, rows, block, n, out);
}

/* Scales and minima, or zero points, [rows][n_groups]; an element of 8 bits is signed. */
static enum status put_groups(const struct ints *m, const struct stored_rows *rows, size_t n,
                              float *scale, float *min, int8_t *zeros)
{
    for (size_t r = 0; r < n; r++)
        for (size_t g = 0; g < m->n_groups; g++) {
            uint16_t bits;
            size_t row = stored_row(rows, r);
            unsigned zero = ints_zero(m, row, g);
            float s = ints_scale(m, row, g, &bits);
            TRY(check_scale(m, s, row, g));
            if (m->symmetric)
                TRY(check_middle(m, zero, row, g));
            scale[r * m->n_groups + g] = s;
            int at_zero = (int)zero - (m->bits == 8 ? 128 : 0); /* the element that is 0 */
            if (zeros)
                zeros[r * m->n_groups + g] = (int8_t)at_zero;
            else
                min[r * m->n_groups + g] = s * (float)-at_zero;
        }
    return ST_OK;
}

/* Bytes [rows][cols]; in pieces, because files store neighbouring rows together. */
static void put_elements(const struct ints *m, const struct stored_rows *rows, size_t n, size_t col,
                         size_t cols, uint8_t *out)
{
    uint8_t flip = m->bits == 8 ? 0x80 : 0;
    for (size_t at = col / BLOCK * BLOCK; at < col + cols; at += BLOCK)
        for (size_t r = 0; r < n; r++) {
            uint8_t code[BLOCK];
            size_t end = at + BLOCK < m->cols ? at + BLOCK : m->cols;
            ints_codes(m, stored_row(rows, r), at, end - at, code);
            for (size_t k = at < col ? col : at; k < end && k < col + cols; k++)
                out[r * cols + k - col] = code[k - at] ^ flip;
        }
}

static enum status derive_indexed(struct copies *c, const struct ints *m, bool sorted,
                                  const struct stored_rows *from, size_t col, size_t cols,
                                  struct weight_part *p)
{
    void *out, *scale, *min, *index;
    size_t rows = (size_t)p->rows, n = rows * m->n_groups;
    if (m->n_groups > (sorted ? SORTED_GROUPS : UINT16_MAX))
        FAIL(ST_UNSUPPORTED, "tensor %s: %zu groups in a row", m->scales.name, m->n_groups);
    if (sorted)
        p->dtype = m->bits == 4 ? DT_INT4_SORTED : DT_INT8_SORTED;
    else
        p->dtype = m->bits == 4 ? DT_INT4_INDEX : DT_INT8_INDEX;
    p->skip = 0;
    p->row_bytes = cols;
    p->scale_stride = m->n_groups;
    p->data = m->codes.data;
    if (c->sizes_only)
        return ST_OK;
    TRY(copies_take(c, rows * cols, &out));
    TRY(copies_take(c, n * sizeof(float), &scale));
    TRY(copies_take(c, n * (sorted ? 1 : sizeof(float)), &min));
    TRY(copies_take(c, cols * sizeof(uint16_t), &index));
    TRY(put_groups(m, from, rows, scale, min, sorted ? min : NULL));
    for (size_t k = 0; k < cols; k++)
        ((uint16_t *)index)[k] = (uint16_t)ints_group(m, col + k);
    put_elements(m, from, rows, col, cols, out);
    p->data = out;
    p->scale = scale;
    p->min = sorted ? NULL : min;
    p->zero = sorted ? min : NULL;
    p->index = index;
    return ST_OK;
}

enum status derive_ints(struct copies *c, const struct ints *m, bool floats,
                        const struct stored_rows *rows, size_t col, size_t cols,
                        struct weight_part *p)
{
    if (!c->sizes_only)
        TRY(check_index(m));
    return floats || by_index(m) ? derive_indexed(c, m, !floats && m->sorted, rows, col, cols, p)
                                 : derive_blocks(c, m, rows, col, cols, p);
}

enum status derive_ints_transposed(struct copies *c, const struct ints *m,
                                   const struct share_cut *cut, struct weight_part *p)
{
    struct weight_part rows = {.rows = (int32_t)cut->cols};
    const struct stored_rows from = stored_neighbours(cut->col);
    void *out;
    p->dtype = DT_F32;
    p->skip = 0;
    p->row_bytes = cut->cols * sizeof(float);
    p->data = m->codes.data;
    if (c->sizes_only)
        return ST_OK;
    TRY(check_index(m));
    TRY(derive_indexed(c, m, false, &from, 0, m->cols, &rows));
    TRY(copies_take(c, cut->rows * p->row_bytes, &out));
    p->data = out;
    for (size_t r = 0; r < cut->rows; r++)
        for (size_t k = 0; k < cut->cols; k++) {
            int8_t q = ((const int8_t *)rows.data)[k * m->cols + r];
            size_t g = k * m->n_groups + rows.index[r];
            ((float *)out)[r * cut->cols + k] = fmaf(q, rows.scale[g], rows.min[g]);
        }
    return ST_OK;
}
