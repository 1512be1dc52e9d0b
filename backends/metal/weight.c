/* Weights: the checks of a weight_src, the bytes it takes, and its rows as the file has them. */
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "backends/pack_probe.h"
#include "backends/weight_stack.h"
#include "common/checked.h"
#include "common/hash.h"
#include "common/quant.h"

static const struct type_row {
    enum dtype dtype;
    enum metal_type type;
} types[] = {
    {DT_F32, METAL_F32},   {DT_F16, METAL_F16},       {DT_BF16, METAL_BF16}, {DT_Q8_0, METAL_Q8_0},
    {DT_Q4_0, METAL_Q4_0}, {DT_Q4_1, METAL_Q4_1},     {DT_Q5_0, METAL_Q5_0}, {DT_Q5_1, METAL_Q5_1},
    {DT_Q2_K, METAL_Q2_K}, {DT_Q3_K, METAL_Q3_K},     {DT_Q4_K, METAL_Q4_K}, {DT_Q5_K, METAL_Q5_K},
    {DT_Q6_K, METAL_Q6_K}, {DT_IQ4_XS, METAL_IQ4_XS},
};

static const struct type_row *type_of(enum dtype t)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].dtype == t)
            return &types[i];
    return NULL;
}

static bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

/* Elements of a block, 1 of a type without. */
static int32_t block_of(enum dtype t)
{
    const struct quant_form *f = quant_form(t);
    return f ? f->block : 1;
}

/* Of a row in the file. */
static size_t file_bytes(enum dtype t, int32_t cols)
{
    const struct quant_form *f = quant_form(t);
    return f ? (size_t)(cols / f->block) * (size_t)f->n_bytes : (size_t)cols * dtype_size(t);
}

/* Type, form and sizes of part i; at and row0 are zeros.  Rows begin at multiples of 4 bytes. */
static struct metal_part part_of(const struct weight_src *src, int i)
{
    const struct weight_part *p = &src->part[i];
    struct metal_part part = {.rows = p->rows};
    if (metal_scaled(p->dtype, &part.type)) {
        part.form = metal_scaled_form(src, p, &part.row_bytes);
        return part;
    }
    const struct type_row *row = type_of(p->dtype);
    part.type = row ? row->type : METAL_F32; /* refused when it is loaded */
    part.row_bytes = metal_round_up(file_bytes(p->dtype, src->cols), 4);
    return part;
}

static size_t part_bytes(const struct weight_src *src, int i)
{
    struct metal_part p = part_of(src, i);
    return metal_round_up((size_t)p.form.head + (size_t)p.rows * p.row_bytes, 16);
}

static size_t data_bytes(const struct weight_src *src)
{
    size_t n = 0;
    if (src->vector)
        return (size_t)src->cols * sizeof(float);
    for (int i = 0; i < src->n_parts; i++)
        n += part_bytes(src, i);
    return n;
}

static size_t bias_bytes(const struct weight_src *src)
{
    return weight_src_has_bias(src) ? (size_t)weight_src_rows(src) * sizeof(float) : 0;
}

size_t metal_weight_bytes(struct backend *be, const struct weight_src *src)
{
    (void)be;
    return alloc_bytes(data_bytes(src)) + alloc_bytes(bias_bytes(src));
}

static enum status check_slices(const struct weight_src *src)
{
    int32_t n = src->n_slices, last = 0;
    if (n < 1 || n > N_SLICES || (n & (n - 1)))
        FAIL(ST_RANGE, "weight %s: %d slices", src->name, n);
    for (int i = 0; i < n; last = src->slice_end[i++])
        if (src->slice_end[i] < last || src->slice_end[i] > src->cols ||
            (i == n - 1 && src->slice_end[i] != src->cols))
            FAIL(ST_RANGE, "weight %s: slice %d ends at column %d of %d", src->name, i,
                 src->slice_end[i], src->cols);
    return ST_OK;
}

static enum status check_part(const struct weight_src *src, const struct weight_part *p)
{
    enum metal_type type;
    bool scaled = metal_scaled(p->dtype, &type);
    if ((!type_of(p->dtype) && !scaled) || (src->vector && !is_float(p->dtype)))
        FAIL(ST_UNSUPPORTED, "weight %s: the Metal backend has no %s %s", src->name,
             dtype_name(p->dtype), src->vector ? "vectors (f32, f16, bf16)" : "weights");
    if (p->rows < 0 || (p->skip != 0 && !scaled))
        FAIL(ST_RANGE, "weight %s: %d rows, first element %d", src->name, p->rows, p->skip);
    if (p->bias && !is_float(p->bias_dtype))
        FAIL(ST_UNSUPPORTED, "weight %s: bias of type %s", src->name, dtype_name(p->bias_dtype));
    if (scaled)
        return metal_check_scaled(src, p);
    if (src->cols % block_of(p->dtype) != 0)
        FAIL(ST_RANGE, "weight %s: %d columns in blocks of %d", src->name, src->cols,
             block_of(p->dtype));
    return ST_OK;
}

static enum status check_source(const struct weight_src *src)
{
    if (src->n_parts < 1 || src->n_parts > (int)ARRAY_LEN(src->part))
        FAIL(ST_RANGE, "weight %s: %d parts", src->name, src->n_parts);
    if (src->cols < 0 || weight_src_rows(src) > INT32_MAX ||
        (size_t)src->cols > INT32_MAX / sizeof(float))
        FAIL(ST_RANGE, "weight %s: %lld rows, %d columns", src->name,
             (long long)weight_src_rows(src), src->cols);
    if (!src->vector)
        TRY(check_slices(src));
    for (int i = 0; i < src->n_parts; i++)
        TRY(check_part(src, &src->part[i]));
    return ST_OK;
}

/* n elements of unaligned file data to f32. */
static void widen(float *dst, const char *src, enum dtype t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        if (t == DT_F32) {
            memcpy(&dst[i], src + 4 * i, 4);
            continue;
        }
        memcpy(&h, src + 2 * i, 2);
        dst[i] = t == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
    }
}

static void fill_vector(const struct weight_src *src, float *to)
{
    widen(to, src->part[0].data, src->part[0].dtype, (size_t)src->cols);
    for (int32_t i = 0; i < src->cols && src->add != 0.0f; i++)
        to[i] += src->add;
}

/* Rows as in the file. */
static void copy_rows(const struct weight_src *src, const struct weight_part *p,
                      const struct metal_part *part, char *to)
{
    size_t n = file_bytes(p->dtype, src->cols);
    for (int32_t r = 0; r < p->rows && n > 0; r++)
        memcpy(to + (size_t)r * part->row_bytes, (const char *)p->data + (size_t)r * p->row_bytes,
               n);
}

/* A vector, or the matrix's parts to zeroed memory that no command uses. */
static void pack(const struct weight_src *src, const struct weight *w, char *to)
{
    enum metal_type type;
    if (src->vector) {
        if (src->cols > 0)
            fill_vector(src, (float *)(void *)to);
        return;
    }
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        const struct metal_part *part = &w->part[i];
        if (metal_scaled(p->dtype, &type))
            metal_fill_scaled(src, p, part, to + part->at);
        else
            copy_rows(src, p, part, to + part->at);
    }
}

static void fill_bias(const struct weight_src *src, const struct weight *w)
{
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        if (p->bias && p->rows > 0)
            widen((float *)(void *)w->bias->data + w->part[i].row0, p->bias, p->bias_dtype,
                  (size_t)p->rows);
    }
}

static void describe(const struct weight_src *src, struct weight *w)
{
    size_t at = 0;
    *w = (struct weight){.vector = src->vector,
                         .n = src->vector ? 1 : (int32_t)weight_src_rows(src),
                         .step = src->vector ? 0 : data_bytes(src),
                         .k = src->cols,
                         .n_slices = src->n_slices,
                         .n_parts = src->n_parts};
    memcpy(w->slice_end, src->slice_end, sizeof w->slice_end);
    for (int i = 0, row = 0; i < src->n_parts && !src->vector; row += src->part[i++].rows) {
        w->part[i] = part_of(src, i);
        w->part[i].row0 = row;
        w->part[i].at = at;
        at += part_bytes(src, i);
    }
}

/* Neighbouring parts whose rows follow each other become one, which one dispatch multiplies: q, k and v, gate and up of
 * one type.  Not those of scaled types, which begin with tables of their own. */
static void join_parts(struct weight *w)
{
    int n = 0;
    for (int i = 1; i < w->n_parts; i++) {
        const struct metal_part *next = &w->part[i];
        struct metal_part *last = &w->part[n];
        size_t end = last->at + (size_t)last->rows * last->row_bytes;
        if (last->form.head == 0 && next->form.head == 0 && next->type == last->type &&
            next->row_bytes == last->row_bytes && next->at == end)
            last->rows += next->rows;
        else
            w->part[++n] = *next;
    }
    w->n_parts = w->n_parts > 0 ? n + 1 : 0;
}

/* n_stacked matrices, 0: one that is no stack; all are checked.  packed: their bytes, NULL: those of src. */
static enum status take_weight(struct backend *be, const struct weight_src *src, int32_t n_stacked,
                               const void *packed, struct weight **out)
{
    size_t n = n_stacked ? (size_t)n_stacked : 1;
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    describe(src, w);
    w->n_stacked = n_stacked;
    enum status st = packed ? metal_take_packed(be, packed, n * data_bytes(src), &w->data)
                            : metal_alloc(be, n * data_bytes(src), MEM_DEVICE, &w->data);
    if (st == ST_OK && weight_src_has_bias(src))
        st = metal_alloc(be, bias_bytes(src), MEM_DEVICE, &w->bias);
    if (st != ST_OK) {
        metal_free_weight(be, w);
        return st;
    }
    for (size_t i = 0; i < n && !packed; i++)
        pack(&src[i], w, w->data->data + i * w->step);
    if (w->bias)
        fill_bias(src, w);
    if (!w->vector)
        join_parts(w);
    for (int i = 0; i < w->n_parts && !w->vector && st == ST_OK; i++)
        st = metal_make_products(be, w->part[i].type, n_stacked > 0);
    if (st != ST_OK) {
        metal_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

enum status metal_load_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    TRY(check_source(src));
    return take_weight(be, src, 0, NULL, out);
}

size_t metal_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n)
{
    (void)be;
    return alloc_bytes((size_t)n * data_bytes(src));
}

static enum status check_stack(const struct weight_src *src, int32_t n)
{
    TRY(weight_stack_check(src, n));
    for (int32_t i = 0; i < n; i++)
        TRY(check_source(&src[i]));
    if (data_bytes(src) / 16 > INT32_MAX)
        FAIL(ST_RANGE, "weight %s: a matrix of %zu bytes in a stack", src->name, data_bytes(src));
    return ST_OK;
}

enum status metal_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                             struct weight **out)
{
    TRY(check_stack(src, n));
    return take_weight(be, src, n, NULL, out);
}

void metal_free_weight(struct backend *be, struct weight *w)
{
    if (!w)
        return;
    metal_free(be, w->bias);
    metal_free(be, w->data);
    free(w);
}

/* ---- packed ---- */

static enum status hash_packed(struct backend *be, const struct weight_src *one,
                               const struct weight_src *stack, uint64_t *hash)
{
    enum metal_type type;
    (void)be;
    if (!type_of(one->part[0].dtype) && !metal_scaled(one->part[0].dtype, &type))
        return ST_OK;
    for (int i = 0; i < 2; i++) {
        const struct weight_src *src = i ? stack : one;
        struct weight w;
        describe(src, &w);
        char *bytes = calloc(1, w.step);
        if (!bytes)
            FAIL(ST_NOMEM, "no memory to name the packing");
        pack(src, &w, bytes);
        *hash = hash_bytes(*hash, bytes, w.step);
        free(bytes);
    }
    return ST_OK;
}

enum status metal_pack_id(struct backend *be, uint64_t *id)
{
    *id = hash_bytes(0, "metal", 5);
    return pack_probe(be, hash_packed, id);
}

const void *metal_packed(struct backend *be, const struct weight *w, size_t *n_bytes)
{
    (void)be;
    *n_bytes = w->data->bytes;
    return w->data->data;
}

static enum status check_packed(const struct weight_src *src, size_t wanted, size_t n_bytes)
{
    if (n_bytes != wanted)
        FAIL(ST_FORMAT, "weight %s: %zu packed bytes, it has %zu", src->name, n_bytes, wanted);
    return ST_OK;
}

enum status metal_load_packed(struct backend *be, const struct weight_src *src, const void *data,
                              size_t n_bytes, struct weight **out)
{
    TRY(check_source(src));
    TRY(check_packed(src, data_bytes(src), n_bytes));
    return take_weight(be, src, 0, data, out);
}

enum status metal_load_packed_stack(struct backend *be, const struct weight_src *src, int32_t n,
                                    const void *data, size_t n_bytes, struct weight **out)
{
    TRY(check_stack(src, n));
    TRY(check_packed(src, (size_t)n * data_bytes(src), n_bytes));
    return take_weight(be, src, n, data, out);
}
