/* Rows with scales in f32 to the panels of device memory. */
#include "backends/cuda/scaled_layout.h"

#include <assert.h>
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

struct scaled_place scaled_place_of(const struct weight_part *p, int32_t cols)
{
    struct scaled_place at = {.kind = scaled_kind_of(p->dtype), .skip = p->skip};
    size_t chunks = ((size_t)cols + SCALED_CHUNK - 1) / SCALED_CHUNK;
    size_t scales = SCALED_PANEL * sizeof(float);
    if (at.kind == SCALED_NONE)
        return (struct scaled_place){0};
    if (is_indexed(p->dtype)) {
        at.n_scales = (int32_t)p->scale_stride;
        at.index_at = 2 * (size_t)at.n_scales * scales;
        at.codes_at = at.index_at + chunks * SCALED_CHUNK * sizeof(uint16_t);
    } else {
        at.block = at.kind == SCALED_E4M3 ? FP8_BLOCK : p->block;
        at.n_scales = scale_blocks(at.block, at.skip, cols);
        at.codes_at = at.kind == SCALED_SMALL ? 2 * scales + (size_t)at.n_scales * SCALED_PANEL
                                              : (size_t)at.n_scales * scales;
    }
    at.panel_bytes =
        cols == 0 ? 0
                  : at.codes_at + chunks * SCALED_PANEL * SCALED_CHUNK / (is_byte(at.kind) ? 1 : 2);
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

static void store_codes(const uint8_t *row, int32_t cols, bool bytes, int lane, char *codes)
{
    for (int32_t k = 0; k < cols; k++) {
        size_t run = (size_t)(k / (bytes ? RUN : SCALED_CHUNK));
        char *to = codes + (run * SCALED_PANEL + (size_t)lane) * RUN + k % RUN;
        if (bytes)
            *to = (char)row[k];
        else
            *to = (char)(*to | (row[k] & 15) << k / RUN % 2 * 4);
    }
}

void scaled_store_panel(const struct weight_src *src, const struct scaled_place *at, int32_t row,
                        int32_t n, char *out)
{
    const struct weight_part *p = src->part;
    assert(n <= SCALED_PANEL);
    memset(out, 0, at->panel_bytes);
    for (int32_t i = 0; i < n; i++, row++) {
        for (; row >= p->rows; p++)
            row -= p->rows;
        store_scales(p, at, row, i, out);
        if (is_indexed(p->dtype) && i == 0)
            memcpy(out + at->index_at, p->index, (size_t)src->cols * sizeof *p->index);
        store_codes((const uint8_t *)p->data + (size_t)row * p->row_bytes, src->cols,
                    is_byte(at->kind), i, out + at->codes_at);
    }
}
