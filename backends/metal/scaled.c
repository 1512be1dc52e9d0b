/* Rows with scales beside their codes, as shaders/scaled.metal reads them. */
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "common/quant.h"

enum {
    N_LEVELS = 16,
    N_SMALL = 256, /* values of a byte */
    RUN = 256,     /* columns whose codes are taken at a time; even */
};

/* How a type's elements are stored in the source. */
enum source { BLOCKS, ELEMENTS };

static const struct scaled_type {
    enum dtype dtype;
    enum metal_type type;
    enum source source;
    int32_t bits;       /* of a code */
    int32_t scale_size; /* bytes of a scale and of what goes with it */
} types[] = {
    {DT_E4M3, METAL_E4M3, ELEMENTS, 8, 4},
    {DT_INT4_BF16, METAL_INT4_BF16, BLOCKS, 4, 2},
    {DT_INT4_ZERO_F16, METAL_INT4_ZERO_F16, BLOCKS, 4, 3},
    {DT_INT4_ZERO_BF16, METAL_INT4_ZERO_BF16, BLOCKS, 4, 3},
    {DT_INT8_BF16, METAL_INT8_BF16, BLOCKS, 8, 2},
    {DT_INT8_ZERO_F16, METAL_INT8_ZERO_F16, BLOCKS, 8, 3},
    {DT_INT8_ZERO_BF16, METAL_INT8_ZERO_BF16, BLOCKS, 8, 3},
    {DT_INT4_INDEX, METAL_INT4_INDEX, ELEMENTS, 4, 8},
    {DT_INT8_INDEX, METAL_INT8_INDEX, ELEMENTS, 8, 8},
    {DT_NF4, METAL_LEVELS, ELEMENTS, 4, 4},
    {DT_FP4, METAL_LEVELS, ELEMENTS, 4, 4},
    {DT_NVFP4, METAL_SMALL, ELEMENTS, 4, 1},
    {DT_MXFP4, METAL_SMALL, BLOCKS, 4, 1},
    {DT_IQ4_NL, METAL_IQ4_NL, BLOCKS, 4, 2},
};

static const struct scaled_type *scaled_type(enum dtype t)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].dtype == t)
            return &types[i];
    return NULL;
}

bool metal_scaled(enum dtype t, enum metal_type *type)
{
    const struct scaled_type *s = scaled_type(t);
    if (s)
        *type = s->type;
    return s != NULL;
}

/* Columns that share a scale; of an index 1. */
static int32_t block_of(const struct weight_part *p)
{
    const struct quant_form *f = quant_form(p->dtype);
    return f ? f->block : p->dtype == DT_E4M3 ? FP8_BLOCK : has_levels(p->dtype) ? p->block : 1;
}

enum status metal_check_scaled(const struct weight_src *src, const struct weight_part *p)
{
    int32_t block = block_of(p);
    if (block < 1 || p->skip < 0 || p->skip >= block)
        FAIL(ST_RANGE, "weight %s: first element %d of a block of %d", src->name, p->skip, block);
    if (scaled_type(p->dtype)->source == ELEMENTS && p->rows > 0 && src->cols > 0 &&
        (p->scale_stride == 0 || p->scale_stride > INT32_MAX / 8))
        FAIL(ST_RANGE, "weight %s: %s with %zu scales in a row", src->name, dtype_name(p->dtype),
             p->scale_stride);
    return ST_OK;
}

static int32_t slice_start(const struct weight_src *src, int i)
{
    return i ? src->slice_end[i - 1] : 0;
}

/* Scales of slice i, each of 1 << *shift columns. */
static int32_t slice_scales(const struct weight_src *src, const struct metal_form *form, int i,
                            int32_t *shift)
{
    int32_t start = slice_start(src, i), end = src->slice_end[i];
    *shift = metal_scale_shift(form->skip, form->block, start, end);
    return (int32_t)(((uint32_t)(end - start) + (1U << *shift) - 1) >> *shift);
}

static size_t head_bytes(const struct weight_src *src, const struct weight_part *p)
{
    size_t n = 0;
    switch (scaled_type(p->dtype)->type) {
    case METAL_INT4_INDEX:
    case METAL_INT8_INDEX:
        n = (size_t)src->cols * sizeof(uint16_t);
        break;
    case METAL_SMALL:
        n = (N_LEVELS + N_SMALL) * sizeof(float);
        break;
    case METAL_LEVELS:
    case METAL_IQ4_NL:
        n = N_LEVELS * sizeof(float);
        break;
    default:
        break;
    }
    return metal_round_up(n, 16);
}

struct metal_form metal_scaled_form(const struct weight_src *src, const struct weight_part *p,
                                    size_t *row_bytes)
{
    const struct scaled_type *t = scaled_type(p->dtype);
    struct metal_form form = {
        .head = (int32_t)head_bytes(src, p), .skip = p->skip, .block = block_of(p)};
    int32_t cols = 0, shift;
    for (int i = 0; i < src->n_slices; i++) {
        cols += metal_stored_cols(src->slice_end[i] - slice_start(src, i));
        form.n_scales += slice_scales(src, &form, i, &shift);
    }
    if (is_indexed(p->dtype))
        form.n_scales = (int32_t)p->scale_stride;
    form.codes_at = (int32_t)metal_round_up((size_t)form.n_scales * (size_t)t->scale_size, 4);
    *row_bytes = (size_t)form.codes_at + (size_t)cols * (size_t)t->bits / 8;
    return form;
}

/* The block that column k of row r is in. */
static const uint8_t *block_at(const struct weight_part *p, int32_t r, int32_t k)
{
    const struct quant_form *f = quant_form(p->dtype);
    return (const uint8_t *)p->data + (size_t)r * p->row_bytes +
           (size_t)((p->skip + k) / f->block) * (size_t)f->n_bytes;
}

/* Codes [at, at + n) of a block whose codes are q, of 8 bits or of 4: the second half of the block is in the high ones. */
static void codes_of_block(const uint8_t *q, int32_t block, int32_t bits, int32_t at, int32_t n,
                           uint8_t *codes)
{
    int32_t half = block / 2, low = half - at < n ? half - at : n;
    if (bits == 8) {
        memcpy(codes, q + at, (size_t)n);
        return;
    }
    for (int32_t i = 0; i < low; i++)
        codes[i] = q[at + i] & 15;
    for (int32_t i = low > 0 ? low : 0; i < n; i++)
        codes[i] = q[at + i - half] >> 4;
}

/* The codes of columns [k, k + n) of row r. */
static void take_codes(const struct weight_part *p, int32_t r, int32_t k, int32_t n, uint8_t *codes)
{
    const struct quant_form *f = quant_form(p->dtype);
    int32_t bits = scaled_type(p->dtype)->bits;
    if (!f) {
        memcpy(codes, (const uint8_t *)p->data + (size_t)r * p->row_bytes + k, (size_t)n);
        return;
    }
    for (int32_t i = 0, m; i < n; i += m) {
        int32_t at = (p->skip + k + i) % f->block;
        m = f->block - at < n - i ? f->block - at : n - i;
        codes_of_block(block_at(p, r, k + i) + f->n_bytes - f->block * bits / 8, f->block, bits, at,
                       m, codes + i);
    }
}

/* Codes of slice i of row r. */
static void fill_codes(const struct weight_src *src, const struct weight_part *p, int32_t r, int i,
                       uint8_t *to)
{
    bool bytes = scaled_type(p->dtype)->bits == 8;
    int32_t end = src->slice_end[i];
    for (int32_t k = slice_start(src, i), n; k < end; k += n) {
        uint8_t codes[RUN + 1];
        n = end - k < RUN ? end - k : RUN;
        codes[n] = 0;
        take_codes(p, r, k, n, codes);
        if (bytes) {
            memcpy(to, codes, (size_t)n);
            to += n;
            continue;
        }
        for (int32_t j = 0; j < (n + 1) / 2; j++)
            to[j] = (uint8_t)((codes[2 * j] & 15) | codes[2 * j + 1] << 4);
        to += (n + 1) / 2;
    }
}

/* Scale `at` of a row of scales, which column k of row r has. */
static void fill_scale(const struct weight_part *p, const struct metal_form *form, int32_t r,
                       int32_t k, size_t at, uint8_t *row)
{
    size_t from = (size_t)r * p->scale_stride + (size_t)((p->skip + k) / form->block);
    const struct quant_form *f = quant_form(p->dtype);
    if (f) {
        const uint8_t *block = block_at(p, r, k);
        size_t size = p->dtype == DT_MXFP4 ? 1 : 2;
        memcpy(row + size * at, block, size);
        if (f->has_zero)
            row[2 * (size_t)form->n_scales + at] = block[2];
    } else if (p->dtype == DT_NVFP4)
        row[at] = p->small_scale[from];
    else
        memcpy(row + 4 * at, &p->scale[from], 4);
}

static void fill_row(const struct weight_src *src, const struct weight_part *p,
                     const struct metal_form *form, int32_t r, uint8_t *row)
{
    uint8_t *codes = row + form->codes_at;
    size_t at = 0, n = (size_t)form->n_scales;
    int32_t bits = scaled_type(p->dtype)->bits;
    if (is_indexed(p->dtype)) {
        memcpy(row, p->scale + (size_t)r * n, 4 * n);
        memcpy(row + 4 * n, p->min + (size_t)r * n, 4 * n);
    }
    for (int i = 0; i < src->n_slices; i++) {
        int32_t start = slice_start(src, i), shift, scales = slice_scales(src, form, i, &shift);
        for (int32_t j = 0; j < scales && !is_indexed(p->dtype); j++)
            fill_scale(p, form, r, start + (j << shift), at++, row);
        fill_codes(src, p, r, i, codes);
        codes += metal_stored_cols(src->slice_end[i] - start) * bits / 8;
    }
}

/* What the 16 codes of a type stand for. */
static void levels_of(enum dtype t, float *level)
{
    const int8_t *whole = t == DT_IQ4_NL ? quant_iq4 : t == DT_MXFP4 ? quant_mxfp4 : NULL;
    for (int i = 0; i < N_LEVELS; i++)
        level[i] = whole ? (float)whole[i] : dtype_levels(t)[i];
}

static float small_scale(const struct weight_part *p, uint8_t byte)
{
    return p->dtype == DT_MXFP4 ? f32_of_bf16(quant_exponent(byte))
                                : f32_of_e4m3(byte) * p->factor / p->divisor;
}

static void fill_head(const struct weight_src *src, const struct weight_part *p, uint8_t *head)
{
    enum metal_type type = scaled_type(p->dtype)->type;
    float table[N_LEVELS + N_SMALL];
    if (is_indexed(p->dtype))
        memcpy(head, p->index, (size_t)src->cols * sizeof *p->index);
    if (type != METAL_LEVELS && type != METAL_IQ4_NL && type != METAL_SMALL)
        return;
    levels_of(p->dtype, table);
    for (int i = 0; i < N_SMALL && type == METAL_SMALL; i++)
        table[N_LEVELS + i] = small_scale(p, (uint8_t)i);
    memcpy(head, table, (type == METAL_SMALL ? N_LEVELS + N_SMALL : N_LEVELS) * sizeof *table);
}

void metal_fill_scaled(const struct weight_src *src, const struct weight_part *p,
                       const struct metal_part *part, char *to)
{
    if (src->cols == 0)
        return;
    fill_head(src, p, (uint8_t *)to);
    for (int32_t r = 0; r < p->rows; r++)
        fill_row(src, p, &part->form, r,
                 (uint8_t *)to + part->form.head + (size_t)r * part->row_bytes);
}
