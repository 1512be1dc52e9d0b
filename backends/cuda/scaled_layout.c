/* Rows with scales in f32 to the panels of device memory. */
#include "backends/cuda/scaled_layout.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { RUN = 16 }; /* bytes of a lane that follow each other */

enum scaled_kind scaled_kind_of(enum dtype t)
{
    switch (t) {
    case DT_E4M3:
        return SCALED_E4M3;
    case DT_INT8_INDEX:
        return SCALED_INT8;
    case DT_INT4_INDEX:
        return SCALED_INT4;
    case DT_NF4:
    case DT_FP4:
        return SCALED_LEVELS;
    case DT_NVFP4:
        return SCALED_SMALL;
    default:
        return SCALED_NONE;
    }
}

static bool is_byte(enum scaled_kind k)
{
    return k == SCALED_E4M3 || k == SCALED_INT8;
}

static int32_t divide_up(int32_t n, int32_t by)
{
    return n / by + (n % by != 0);
}

/* Columns that share a scale. */
static int32_t block_of(const struct weight_part *p)
{
    return p->dtype == DT_E4M3 ? FP8_BLOCK : p->block;
}

/* With mma a slice begins as far behind a multiple of these as its first column. */
static int32_t unit_of(const struct weight_part *p)
{
    return scaled_kind_of(p->dtype) == SCALED_LEVELS ? SCALED_HALF : block_of(p);
}

struct k_layout scaled_k_layout(const struct weight_src *src)
{
    const struct weight_part *p = src->part;
    enum scaled_kind kind = scaled_kind_of(p->dtype);
    int32_t step = scaled_columns(kind, SCALED_STEP);
    int32_t segment = scaled_columns(kind, SCALED_SEGMENT);
    struct k_layout k = {.n_slices = src->n_slices};
    for (int i = 0; i < k.n_slices; i++) {
        int32_t cols = src->slice_end[i] - k.col[i];
        int32_t stored = cols > 0 ? (p->skip + k.col[i]) % unit_of(p) + cols : 0;
        k.col[i + 1] = src->slice_end[i];
        k.at[i + 1] = k.at[i] + divide_up(stored, step) * step;
        k.seg[i + 1] = k.seg[i] + divide_up(stored, segment);
    }
    return k;
}

/* Bytes of a panel's codes over so many columns. */
static size_t codes_bytes(enum scaled_kind kind, size_t cols)
{
    return SCALED_PANEL * cols / (is_byte(kind) ? 1 : 2);
}

static struct scaled_place mma_place_of(const struct weight_src *src)
{
    const struct weight_part *p = src->part;
    struct scaled_place at = {.kind = scaled_kind_of(p->dtype),
                              .mma = true,
                              .skip = p->skip % unit_of(p),
                              .block = unit_of(p)};
    struct k_layout k = scaled_k_layout(src);
    size_t cols = (size_t)k.at[k.n_slices], row = SCALED_PANEL * sizeof(float);
    at.n_scales = scale_blocks(at.block, at.skip, src->cols);
    if (at.kind == SCALED_SMALL)
        at.codes_at = 3 * row + cols / (size_t)at.block * SCALED_PANEL;
    else
        at.codes_at = (at.kind == SCALED_LEVELS ? cols / SCALED_HALF : (size_t)at.n_scales) * row;
    at.panel_bytes = cols == 0 ? 0 : at.codes_at + codes_bytes(at.kind, cols);
    return at;
}

struct scaled_place scaled_place_of(const struct weight_src *src, bool mma)
{
    const struct weight_part *p = src->part;
    struct scaled_place at = {.kind = scaled_kind_of(p->dtype), .skip = p->skip};
    size_t chunks = ((size_t)src->cols + SCALED_CHUNK - 1) / SCALED_CHUNK;
    size_t scales = SCALED_PANEL * sizeof(float);
    if (at.kind == SCALED_NONE)
        return (struct scaled_place){0};
    if (mma)
        return mma_place_of(src);
    if (is_indexed(p->dtype)) {
        at.n_scales = (int32_t)p->scale_stride;
        at.index_at = 2 * (size_t)at.n_scales * scales;
        at.codes_at = at.index_at + chunks * SCALED_CHUNK * sizeof(uint16_t);
    } else {
        at.block = block_of(p);
        at.n_scales = scale_blocks(at.block, at.skip, src->cols);
        at.codes_at = at.kind == SCALED_SMALL ? 2 * scales + (size_t)at.n_scales * SCALED_PANEL
                                              : (size_t)at.n_scales * scales;
    }
    at.panel_bytes = src->cols == 0 ? 0 : at.codes_at + codes_bytes(at.kind, chunks * SCALED_CHUNK);
    return at;
}

/* The scales of row r of a part to those of a lane. */
static void store_scales(const struct weight_part *p, const struct scaled_place *at, int32_t r,
                         int lane, char *head)
{
    size_t from = (size_t)r * p->scale_stride;
    float *f = (float *)(void *)head + lane;
    if (at->kind == SCALED_SMALL) {
        f[0] = p->factor;
        f[SCALED_PANEL] = p->divisor;
    }
    for (int32_t i = 0; i < at->n_scales; i++) {
        if (at->kind == SCALED_SMALL)
            head[2 * SCALED_PANEL * sizeof(float) + (size_t)i * SCALED_PANEL + (size_t)lane] =
                (char)p->small_scale[from + (size_t)i];
        else
            f[(size_t)i * SCALED_PANEL] = p->scale[from + (size_t)i];
        if (is_indexed(p->dtype))
            f[(size_t)(at->n_scales + i) * SCALED_PANEL] = p->min[from + (size_t)i];
    }
}

/* The code of column k of what is stored. */
static void store_code(uint8_t code, int32_t k, bool bytes, int lane, char *codes)
{
    size_t run = (size_t)(k / (bytes ? RUN : SCALED_CHUNK));
    char *to = codes + (run * SCALED_PANEL + (size_t)lane) * RUN + k % RUN;
    if (bytes)
        *to = (char)code;
    else
        *to = (char)(*to | (code & 15) << k / RUN % 2 * 4);
}

static bool is_nan(uint8_t e4m3)
{
    return (e4m3 & 0x7f) == 0x7f;
}

/* Row r of a part with levels to a lane of a panel with mma. */
static void store_levels_row(const struct weight_part *p, const struct scaled_place *at,
                             const struct k_layout *k, int32_t r, int lane, char *panel)
{
    enum { COLS = 2 * SCALED_HALF }; /* of a step */
    const uint8_t *row = (const uint8_t *)p->data + (size_t)r * p->row_bytes;
    const float *scale = p->scale + (size_t)r * p->scale_stride;
    float *scales = (float *)(void *)panel;
    for (int i = 0; i < k->n_slices; i++) {
        int32_t to = k->at[i] + (at->skip + k->col[i]) % at->block;
        for (int32_t c = k->col[i]; c < k->col[i + 1]; c++, to++) {
            int32_t half = to % COLS / SCALED_HALF, in_half = to % SCALED_HALF;
            size_t run = (size_t)(to / COLS * 4 + in_half / RUN);
            char *byte = panel + at->codes_at + (run * SCALED_PANEL + (size_t)lane) * RUN +
                         in_half % RUN / 4 * 4 + 2 * half + in_half % 4 / 2;
            *byte = (char)(*byte | (row[c] & 15) << in_half % 2 * 4);
            scales[((size_t)(to / COLS) * SCALED_PANEL + (size_t)lane) * 2 + (size_t)half] =
                scale[(p->skip + c) / p->block];
        }
    }
}

/* Row r of a part of E4M3 or SMALL to a lane of a panel with mma. */
static void store_mma_row(const struct weight_part *p, const struct scaled_place *at,
                          const struct k_layout *k, int32_t r, int lane, char *panel)
{
    enum { COLS = 2 * SCALED_STEP, STEP_BLOCKS = COLS / SCALED_SMALL_BLOCK }; /* of SMALL */
    const uint8_t *row = (const uint8_t *)p->data + (size_t)r * p->row_bytes;
    size_t from = (size_t)r * p->scale_stride;
    float *f = (float *)(void *)panel + lane;
    bool small = at->kind == SCALED_SMALL;
    if (small) {
        f[0] = p->factor;
        f[SCALED_PANEL] = p->divisor;
        f[2 * SCALED_PANEL] = p->factor / p->divisor;
    }
    for (int32_t i = 0; !small && i < at->n_scales; i++)
        f[(size_t)i * SCALED_PANEL] = p->scale[from + (size_t)i];
    for (int i = 0; i < k->n_slices; i++) {
        int32_t to = k->at[i] + (at->skip + k->col[i]) % at->block;
        for (int32_t c = k->col[i]; c < k->col[i + 1]; c++, to++) {
            int32_t block = (at->skip + c) / at->block;
            store_code(row[c], to, !small, lane, panel + at->codes_at);
            if (!small && is_nan(row[c]))
                f[(size_t)block * SCALED_PANEL] = NAN;
            if (!small)
                continue;
            uint8_t scale = p->small_scale[from + (size_t)block];
            panel[3 * SCALED_PANEL * sizeof(float) +
                  ((size_t)(to / COLS) * SCALED_PANEL + (size_t)lane) * STEP_BLOCKS +
                  (size_t)(to % COLS / at->block)] = (char)scale;
            if (is_nan(scale))
                f[2 * SCALED_PANEL] = NAN;
        }
    }
}

void scaled_store_panel(const struct weight_src *src, const struct scaled_place *at,
                        const struct k_layout *k, int32_t row, int32_t n, char *out)
{
    const struct weight_part *p = src->part;
    assert(n <= SCALED_PANEL);
    memset(out, 0, at->panel_bytes);
    for (int32_t i = 0; i < n; i++, row++) {
        for (; row >= p->rows; p++)
            row -= p->rows;
        if (at->mma) {
            (at->kind == SCALED_LEVELS ? store_levels_row : store_mma_row)(p, at, k, row, i, out);
            continue;
        }
        store_scales(p, at, row, i, out);
        if (is_indexed(p->dtype) && i == 0)
            memcpy(out + at->index_at, p->index, (size_t)src->cols * sizeof *p->index);
        const uint8_t *from = (const uint8_t *)p->data + (size_t)row * p->row_bytes;
        for (int32_t c = 0; c < src->cols; c++)
            store_code(from[c], c, is_byte(at->kind), i, out + at->codes_at);
    }
}
