/* Packed matrices as bytes, for a file that outlives the process. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "common/hash.h"
#include "common/quant.h"

enum { PROBE_ROWS = PANEL + 1, PROBE_COLS = 2 * QUANT_BLOCK_MAX };

/* Packs a small matrix of one type, and two as a stack in slices, and adds the bytes to the hash.
 */
static enum status probe(struct backend *be, enum dtype t, unsigned char *data, uint64_t *hash)
{
    const struct quant_form *f = quant_form(t);
    size_t row = f ? PROBE_COLS / (size_t)f->block * (size_t)f->n_bytes
                 : is_indexed(t) || has_levels(t) ? PROBE_COLS
                                                  : PROBE_COLS * dtype_size(t);
    uint16_t index[PROBE_COLS] = {0};
    uint8_t small[PROBE_COLS / FP8_BLOCK + PROBE_ROWS] = {0};
    float scale[PROBE_COLS / FP8_BLOCK + PROBE_ROWS];
    for (int i = 0; i < (int)ARRAY_LEN(scale); i++)
        scale[i] = (float)(i + 1);
    struct weight_src src[2] = {{.name = "probe",
                                 .cols = PROBE_COLS,
                                 .n_parts = 1,
                                 .part = {{.data = data,
                                           .row_bytes = row,
                                           .dtype = t,
                                           .rows = PROBE_ROWS,
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
                                 .slice_end = {PROBE_COLS}}};
    struct weight *w;
    TRY(weight_make(be, src, NULL, &w));
    *hash = hash_bytes(*hash ^ (uint64_t)t, w->data.data, w->data.bytes);
    cpu_free_weight(be, w);
    src[0].n_slices = 2;
    src[0].slice_end[0] = PROBE_COLS / 2;
    src[0].slice_end[1] = PROBE_COLS;
    src[1] = src[0];
    TRY(cpu_load_stack(be, src, 2, &w));
    *hash = hash_bytes(*hash, w->data.data, w->data.bytes);
    cpu_free_weight(be, w);
    return ST_OK;
}

/* A hash of the result of packing, so that no version number has to be maintained. */
enum status cpu_pack_id(struct backend *be, uint64_t *id)
{
    size_t n = (size_t)PROBE_ROWS * PROBE_COLS * sizeof(float);
    unsigned char *data = malloc(n);
    if (!data)
        FAIL(ST_NOMEM, "no memory to name the packing");
    for (size_t i = 0; i < n; i++) /* every half float in it is below 1 */
        data[i] = (unsigned char)(hash_mix(i) & 0x3b);
    enum status st = ST_OK;
    *id = hash_bytes(0, be->kernels->name, strlen(be->kernels->name));
    for (int t = 0; st == ST_OK && t < DT_N; t++) {
        enum dtype type = (enum dtype)t;
        if (type == DT_F32 || type == DT_F16 || type == DT_BF16 || type == DT_E4M3 ||
            is_indexed(type) || has_levels(type) || quant_form(type))
            st = probe(be, type, data, id);
    }
    free(data);
    return st;
}

const void *cpu_packed(struct backend *be, const struct weight *w, size_t *n_bytes)
{
    (void)be;
    *n_bytes = w->data.bytes;
    return w->data.data;
}

enum status cpu_load_packed(struct backend *be, const struct weight_src *src, const void *data,
                            size_t n_bytes, struct weight **out)
{
    struct weight shape;
    TRY(weight_describe(src, &shape));
    TRY(x_pack_fit(be, src));
    if (n_bytes != weight_data_bytes(src))
        FAIL(ST_FORMAT, "weight %s: %zu packed bytes, it has %zu", src->name, n_bytes,
             weight_data_bytes(src));
    return weight_make(be, src, data, out);
}
