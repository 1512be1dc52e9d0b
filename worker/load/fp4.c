#include "worker/load/fp4.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "worker/load/site.h"

enum { LEVELS = 16, NESTED_MAP = 256, MAX_STATE = 4096, MAX_BLOCK = 1 << 16 };

static const char *codes_name(enum fp4_storage s)
{
    return s == FP4_NV || s == FP4_MX ? "weight_packed" : "weight";
}

bool fp4_stored(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert)
{
    enum fp4_storage s = loader_config(ld)->fp4;
    struct stored_tensor t;
    return s != FP4_NONE && site_has(ld, pattern, layer, expert, codes_name(s), &t) &&
           strcmp(t.type_name, "U8") == 0;
}

static bool has(const struct site *s, const char *end, struct stored_tensor *out)
{
    return site_has(s->ld, s->pattern, s->layer, s->expert, end, out);
}

static float f32_at(const struct stored_tensor *t, size_t i)
{
    float f;
    memcpy(&f, t->data + i * sizeof f, sizeof f);
    return f;
}

/* A number beside the matrix that is finite and not 0. */
static enum status read_number(const struct site *s, const char *end, float *out)
{
    struct stored_tensor t;
    TRY(site_part(s, end, "F32", 0, 0, &t));
    *out = f32_at(&t, 0);
    if (!isfinite(*out) || *out == 0.0f)
        FAIL(ST_FORMAT, "tensor %s: %g is no scale", t.name, (double)*out);
    return ST_OK;
}

/* bitsandbytes' description of a matrix. */
struct state {
    int32_t block, nested_block;
    double offset;
};

static enum status read_state(const struct fp4 *m, const char *name, const cJSON *root,
                              struct state *out)
{
    const char *type = "?", *nested = "float32";
    const cJSON *shape = json_member(root, "shape");
    const cJSON *rows = cJSON_GetArrayItem(shape, 0), *cols = cJSON_GetArrayItem(shape, 1);
    TRY(json_string(root, "quant_type", &type));
    TRY(json_need(root, "blocksize"));
    TRY(json_i32(root, "blocksize", 1, MAX_BLOCK, &out->block));
    TRY(json_i32(root, "nested_blocksize", 1, MAX_BLOCK, &out->nested_block));
    TRY(json_double(root, "nested_offset", -1e30, 1e30, &out->offset));
    TRY(json_string(root, "nested_dtype", &nested));
    if (strcmp(type, m->dtype == DT_NF4 ? "nf4" : "fp4") != 0 || strcmp(nested, "float32") != 0)
        FAIL(ST_UNSUPPORTED, "tensor %s: quant_type \"%.40s\" with nested_dtype \"%.40s\"", name,
             type, nested);
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) != 2 || !cJSON_IsNumber(rows) ||
        !cJSON_IsNumber(cols) || rows->valuedouble != (double)m->rows ||
        cols->valuedouble != (double)m->cols)
        FAIL(ST_FORMAT, "tensor %s: its shape is not [%zu,%zu]", name, m->rows, m->cols);
    return ST_OK;
}

static enum status parse_state(const struct fp4 *m, const struct stored_tensor *t,
                               struct state *out)
{
    cJSON *root = NULL;
    TRY(json_parse(&root, t->data, t->n_bytes, MAX_STATE, t->name));
    enum status st = read_state(m, t->name, root, out);
    cJSON_Delete(root);
    return st;
}

/* Scales that are codes of 8 bits. */
static enum status open_nested(struct fp4 *m, const struct site *s, size_t n_scales)
{
    size_t n = (n_scales + m->nested_block - 1) / m->nested_block;
    TRY(site_part(s, "weight.absmax", "U8", n_scales, 0, &m->scales));
    TRY(site_part(s, "weight.nested_absmax", "F32", n, 0, &m->nested));
    return site_part(s, "weight.nested_quant_map", "F32", NESTED_MAP, 0, &m->nested_map);
}

static enum status check_levels(const struct fp4 *m, const struct site *s)
{
    struct stored_tensor map;
    const float *levels = dtype_levels(m->dtype);
    TRY(site_part(s, "weight.quant_map", "F32", LEVELS, 0, &map));
    for (size_t i = 0; i < LEVELS; i++)
        if (f32_at(&map, i) != levels[i])
            FAIL(ST_UNSUPPORTED, "tensor %s: level %zu is %g, that of %s is %g", map.name, i,
                 (double)f32_at(&map, i), dtype_name(m->dtype), (double)levels[i]);
    return ST_OK;
}

static enum status open_bnb(struct fp4 *m, const struct site *s)
{
    struct stored_tensor text, nested;
    struct state state = {.nested_block = 256};
    bool nf4 = has(s, "weight.quant_state.bitsandbytes__nf4", &text);
    m->dtype = nf4 ? DT_NF4 : DT_FP4;
    if (!nf4 && !has(s, "weight.quant_state.bitsandbytes__fp4", &text))
        FAIL(ST_NOT_FOUND,
             "tensor %s: it has no quant_state of bitsandbytes__nf4 or __fp4 beside it",
             s->pattern);
    TRY(site_part(
        s, nf4 ? "weight.quant_state.bitsandbytes__nf4" : "weight.quant_state.bitsandbytes__fp4",
        "U8", text.shape[0], 0, &text));
    TRY(parse_state(m, &text, &state));
    m->file_block = (size_t)state.block;
    m->nested_block = (size_t)state.nested_block;
    m->offset = (float)state.offset;
    m->block = m->file_block < m->cols ? m->file_block : m->cols;
    if (m->cols % m->block || m->file_block % m->block)
        FAIL(ST_UNSUPPORTED, "tensor %s: blocks of %zu weights cut rows of %zu", text.name,
             m->file_block, m->cols);
    size_t n = m->rows * m->cols, n_scales = (n + m->file_block - 1) / m->file_block;
    TRY(site_part(s, "weight", "U8", (n + 1) / 2, 1, &m->codes));
    TRY(check_levels(m, s));
    if (has(s, "weight.nested_absmax", &nested))
        return open_nested(m, s, n_scales);
    return site_part(s, "weight.absmax", "F32", n_scales, 0, &m->scales);
}

/* Rows of whole blocks, two elements in a byte. */
static enum status open_rows(struct fp4 *m, const struct site *s)
{
    bool mx = m->storage == FP4_MX;
    m->dtype = mx ? DT_MXFP4 : DT_NVFP4;
    m->block = mx ? 32 : 16;
    if (m->cols % m->block)
        FAIL(ST_UNSUPPORTED, "tensor %s: %zu columns are no blocks of %zu", s->pattern, m->cols,
             m->block);
    TRY(site_part(s, codes_name(m->storage), "U8", m->rows, m->cols / 2, &m->codes));
    TRY(site_part(s, "weight_scale", mx ? "U8" : "F8_E4M3", m->rows, m->cols / m->block,
                  &m->scales));
    m->factor = m->divisor = 1.0f;
    if (m->storage == FP4_NV)
        return read_number(s, "weight_global_scale", &m->divisor);
    return mx ? ST_OK : read_number(s, "weight_scale_2", &m->factor);
}

enum status fp4_open(struct fp4 *out, struct loader *ld, const char *pattern, int32_t layer,
                     int32_t expert, size_t rows, size_t cols)
{
    const struct site s = {ld, pattern, layer, expert};
    *out = (struct fp4){.storage = loader_config(ld)->fp4, .rows = rows, .cols = cols};
    return out->storage == FP4_BNB ? open_bnb(out, &s) : open_rows(out, &s);
}

void fp4_codes(const struct fp4 *m, size_t row, size_t col, size_t n, uint8_t *out)
{
    size_t at = row * m->cols + col;
    unsigned first = m->storage == FP4_BNB ? 4 : 0; /* where in a byte the first element is */
    for (size_t i = 0; i < n; i++, at++)
        out[i] = m->codes.data[at / 2] >> (at % 2 ? 4 - first : first) & 15;
}

float fp4_scale(const struct fp4 *m, size_t row, size_t block)
{
    size_t i = (row * m->cols + block * m->block) / m->file_block;
    if (!m->nested.data)
        return f32_at(&m->scales, i);
    float scale =
        f32_at(&m->nested_map, m->scales.data[i]) * f32_at(&m->nested, i / m->nested_block);
    return scale + m->offset;
}

uint8_t fp4_small_scale(const struct fp4 *m, size_t row, size_t block)
{
    return m->scales.data[row * (m->cols / m->block) + block];
}
