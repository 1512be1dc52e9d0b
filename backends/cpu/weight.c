#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"

/* Elements of parts with one type stay in it; mixed parts are widened to f32, which is exact. */
static enum dtype common_dtype(const struct weight_src *src)
{
    for (int i = 1; i < src->n_parts; i++)
        if (src->part[i].dtype != src->part[0].dtype)
            return DT_F32;
    return src->part[0].dtype;
}

static bool has_bias(const struct weight_src *src)
{
    for (int i = 0; i < src->n_parts; i++)
        if (src->part[i].bias)
            return true;
    return false;
}

static int64_t total_rows(const struct weight_src *src)
{
    int64_t n = 0;
    for (int i = 0; i < src->n_parts; i++)
        n += src->part[i].rows;
    return n;
}

static size_t n_panels(int64_t n)
{
    return ((size_t)n + PANEL - 1) / PANEL;
}

static size_t data_bytes(const struct weight_src *src)
{
    size_t k = (size_t)src->cols;
    if (src->vector)
        return k * sizeof(float);
    return n_panels(total_rows(src)) * PANEL * k * dtype_size(common_dtype(src));
}

static size_t bias_bytes(const struct weight_src *src)
{
    return has_bias(src) ? n_panels(total_rows(src)) * PANEL * sizeof(float) : 0;
}

size_t cpu_weight_bytes(struct backend *be, const struct weight_src *src)
{
    (void)be;
    return sizeof(struct weight) + mem_held(data_bytes(src)) + mem_held(bias_bytes(src));
}

/* Element i of unaligned file data. */
static float file_f32(const void *data, enum dtype t, size_t i)
{
    uint16_t h;
    float f;
    if (t == DT_F32) {
        memcpy(&f, (const char *)data + i * sizeof f, sizeof f);
        return f;
    }
    memcpy(&h, (const char *)data + i * sizeof h, sizeof h);
    return t == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
}

struct pack_job {
    const struct weight_src *src;
    struct weight *w;
};

/* Row n of the stacked parts: its first byte and its type; NULL beyond the last. */
static const char *source_row(const struct weight_src *src, int64_t n, enum dtype *t)
{
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        if (n < p->rows) {
            *t = p->dtype;
            return (const char *)p->data + (size_t)n * p->row_bytes;
        }
        n -= p->rows;
    }
    return NULL;
}

/* One source row into its column of a panel. */
static void pack_column(const struct weight *w, void *panel, int col, const char *row, enum dtype t)
{
    size_t at = panel_at(w->dtype, col);
    if (w->dtype == DT_F32)
        for (size_t k = 0; k < (size_t)w->k; k++)
            ((float *)panel)[k * PANEL + at] = file_f32(row, t, k);
    else
        for (size_t k = 0; k < (size_t)w->k; k++)
            memcpy((uint16_t *)panel + k * PANEL + at, row + k * sizeof(uint16_t), sizeof(uint16_t));
}

static void pack_panels(void *ctx, int part, int n_parts)
{
    const struct pack_job *job = ctx;
    const struct weight *w = job->w;
    size_t panel_bytes = (size_t)w->k * PANEL * dtype_size(w->dtype);
    long from, to;
    pool_share((long)n_panels(w->n), part, n_parts, &from, &to);
    for (long p = from; p < to; p++)
        for (int c = 0; c < PANEL; c++) {
            enum dtype t;
            const char *row = source_row(job->src, (int64_t)p * PANEL + c, &t);
            if (row)
                pack_column(w, (char *)w->data.data + (size_t)p * panel_bytes, c, row, t);
        }
}

static void pack_bias(const struct weight_src *src, struct weight *w)
{
    float *out = w->bias.data;
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        for (int32_t n = 0; p->bias && n < p->rows; n++)
            out[n] = file_f32(p->bias, p->bias_dtype, (size_t)n);
        out += p->rows;
    }
}

static enum status check_source(const struct weight_src *src)
{
    if (src->n_parts < 1 || src->n_parts > (int)ARRAY_LEN(src->part))
        FAIL(ST_RANGE, "weight %s: %d parts", src->name, src->n_parts);
    if (src->cols < 0 || total_rows(src) > INT32_MAX - PANEL)
        FAIL(ST_RANGE, "weight %s: %lld rows, %d columns", src->name, (long long)total_rows(src),
             src->cols);
    for (int i = 0; i < src->n_parts; i++) {
        enum dtype t = src->part[i].dtype, b = src->part[i].bias_dtype;
        if (src->part[i].rows < 0)
            FAIL(ST_RANGE, "weight %s: %d rows", src->name, src->part[i].rows);
        if (t != DT_F32 && t != DT_F16 && t != DT_BF16)
            FAIL(ST_UNSUPPORTED, "weight %s: element type %s", src->name, dtype_name(t));
        if (src->part[i].bias && b != DT_F32 && b != DT_F16 && b != DT_BF16)
            FAIL(ST_UNSUPPORTED, "weight %s: bias of type %s", src->name, dtype_name(b));
    }
    if (src->vector)
        return ST_OK;
    if (src->n_slices < 1 || src->n_slices > N_SLICES || (src->n_slices & (src->n_slices - 1)))
        FAIL(ST_RANGE, "weight %s: %d slices", src->name, src->n_slices);
    for (int i = 0, last = 0; i < src->n_slices; last = src->slice_end[i++])
        if (src->slice_end[i] < last || src->slice_end[i] > src->cols ||
            (i == src->n_slices - 1 && src->slice_end[i] != src->cols))
            FAIL(ST_RANGE, "weight %s: slice %d ends at column %d of %d", src->name, i,
                 src->slice_end[i], src->cols);
    return ST_OK;
}

static void load_vector(const struct weight_src *src, struct weight *w)
{
    for (int32_t i = 0; i < w->k; i++)
        ((float *)w->data.data)[i] = file_f32(src->part[0].data, src->part[0].dtype, (size_t)i);
}

enum status cpu_load_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    TRY(check_source(src));
    if (!src->vector && (size_t)src->cols * (size_t)be->kernels->tile_rows > be->x_pack_floats)
        FAIL(ST_UNSUPPORTED, "weight %s: %d columns, the CPU backend takes up to %zu", src->name,
             src->cols, be->x_pack_floats / (size_t)be->kernels->tile_rows);
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    w->dtype = src->vector ? DT_F32 : common_dtype(src);
    w->vector = src->vector;
    w->n = src->vector ? 1 : (int32_t)total_rows(src);
    w->k = src->cols;
    w->n_slices = src->n_slices;
    memcpy(w->slice_end, src->slice_end, sizeof w->slice_end);
    enum status st = mem_take(&w->data, data_bytes(src));
    if (st == ST_OK)
        st = mem_take(&w->bias, bias_bytes(src));
    if (st != ST_OK) {
        cpu_free_weight(be, w);
        return st;
    }
    if (w->vector)
        load_vector(src, w);
    else
        pool_run(be->pool, pack_panels, &(struct pack_job){src, w});
    if (w->bias.data)
        pack_bias(src, w);
    *out = w;
    return ST_OK;
}

void cpu_free_weight(struct backend *be, struct weight *w)
{
    (void)be;
    if (!w)
        return;
    mem_give(&w->data);
    mem_give(&w->bias);
    free(w);
}
