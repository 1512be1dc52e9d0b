#include "backends/pack_probe.h"

#include <stdlib.h>

#include "common/hash.h"
#include "common/quant.h"

/* A row more than a panel of the CPU has; columns of several blocks of each type. */
enum { ROWS = 33, COLS = 2 * QUANT_BLOCK_MAX };

static size_t row_bytes(enum dtype t)
{
    const struct quant_form *f = quant_form(t);
    if (f)
        return COLS / (size_t)f->block * (size_t)f->n_bytes;
    return is_indexed(t) || has_levels(t) ? COLS : COLS * dtype_size(t);
}

static enum status probe(struct backend *be, enum dtype t, const unsigned char *data,
                         pack_probe_fn pack, uint64_t *hash)
{
    uint16_t index[COLS] = {0};
    uint8_t small[COLS / FP8_BLOCK + ROWS] = {0};
    float scale[COLS / FP8_BLOCK + ROWS];
    for (int i = 0; i < (int)ARRAY_LEN(scale); i++)
        scale[i] = (float)(i + 1);
    struct weight_src one = {.name = "probe",
                             .cols = COLS,
                             .n_parts = 1,
                             .part = {{.data = data,
                                       .row_bytes = row_bytes(t),
                                       .dtype = t,
                                       .rows = ROWS,
                                       .scale = scale,
                                       .scale_stride = 1,
                                       .min = scale,
                                       .zero = (const int8_t *)small,
                                       .index = index,
                                       .block = 2 * FP8_BLOCK,
                                       .small_scale = small,
                                       .factor = 1,
                                       .divisor = 1}},
                             .n_slices = 1,
                             .slice_end = {COLS}};
    struct weight_src stack[2] = {one, one};
    for (int i = 0; i < 2; i++) {
        stack[i].n_slices = 2;
        stack[i].slice_end[0] = COLS / 2;
        stack[i].slice_end[1] = COLS;
    }
    *hash ^= (uint64_t)t;
    return pack(be, &one, stack, hash);
}

enum status pack_probe(struct backend *be, pack_probe_fn pack, uint64_t *id)
{
    size_t n = (size_t)ROWS * COLS * sizeof(float);
    unsigned char *data = malloc(n);
    if (!data)
        FAIL(ST_NOMEM, "no memory to name the packing");
    for (size_t i = 0; i < n; i++) /* every half float in it is below 1 */
        data[i] = (unsigned char)(hash_mix(i) & 0x3b);
    enum status st = ST_OK;
    for (int t = 0; st == ST_OK && t < DT_N; t++) {
        enum dtype type = (enum dtype)t;
        if (type == DT_F32 || type == DT_F16 || type == DT_BF16 || type == DT_E4M3 ||
            is_indexed(type) || has_levels(type) || quant_form(type))
            st = probe(be, type, data, pack, id);
    }
    free(data);
    return st;
}
