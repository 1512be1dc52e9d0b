#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "common/quant.h"

enum { SMALL_GROUP = 16 }; /* divides the groups of all quantised types */

static enum pack pack_of(enum dtype t)
{
    const struct quant_form *f = quant_form(t);
    if (f && f->nibbles)
        return f->has_min ? PACK_Q4_MIN : PACK_Q4;
    if (f)
        return f->has_min ? PACK_Q8_MIN : PACK_Q8;
    return t == DT_F16 ? PACK_F16 : t == DT_BF16 ? PACK_BF16 : PACK_F32;
}

/* Parts of one type stay in it.  Mixed quantised ones are joined in bytes with the smallest group,
 * other mixtures are widened to f32: both hold the same values. */
static struct panel_form form_of(const struct weight_src *src)
{
    const struct quant_form *first = quant_form(src->part[0].dtype);
    struct panel_form form = {pack_of(src->part[0].dtype), first ? first->group : 0, 0};
    bool mixed = false, all_quant = true;
    for (int i = 0; i < src->n_parts; i++) {
        mixed |= src->part[i].dtype != src->part[0].dtype;
        all_quant &= quant_form(src->part[i].dtype) != NULL;
    }
    if (mixed)
        form = (struct panel_form){all_quant ? PACK_Q8_MIN : PACK_F32, SMALL_GROUP, 0};
    if (pack_is_quant(form.pack))
        form.skip = src->part[0].skip % form.group;
    return form;
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
    struct panel_form form = form_of(src);
    return n_panels(total_rows(src)) * panel_bytes(&form, k);
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

/* The part that has row n of the stacked parts, and the row's first byte; NULL beyond the last. */
static const struct weight_part *source_row(const struct weight_src *src, int64_t n,
                                            const char **row)
{
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        if (n < p->rows) {
            *row = (const char *)p->data + (size_t)n * p->row_bytes;
            return p;
        }
        n -= p->rows;
    }
    return NULL;
}

/* One source row into its column of a panel. */
static void pack_column(const struct weight *w, void *panel, int col, const char *row, enum dtype t)
{
    size_t at = panel_at(w->form.pack, col);
    if (w->form.pack == PACK_F32)
        for (size_t k = 0; k < (size_t)w->k; k++)
            ((float *)panel)[k * PANEL + at] = file_f32(row, t, k);
    else
        for (size_t k = 0; k < (size_t)w->k; k++)
            memcpy((uint16_t *)panel + k * PANEL + at, row + k * sizeof(uint16_t),
                   sizeof(uint16_t));
}

/* Elements [i, i + n) of an unpacked block into column col of a zeroed panel, from k on; all of one
 * group of the block and of the panel. */
static void put_run(const struct panel_form *form, char *panel, size_t k, int col,
                    const struct quant_form *f, const struct quant_block *b, int32_t i, int32_t n)
{
    size_t at = k + (size_t)form->skip, group = (size_t)form->group;
    size_t row_bytes = pack_row_bytes(form->pack);
    char *head = panel + at / group * panel_group_bytes(form);
    char *row = head + pack_head_bytes(form->pack) + at % group * row_bytes;
    float *scale = (float *)(void *)head;
    scale[col] = b->scale[i / f->group];
    if (pack_has_min(form->pack))
        scale[PANEL + col] = b->min[i / f->group];
    if (form->pack == PACK_Q8 || form->pack == PACK_Q8_MIN) {
        for (int32_t j = 0; j < n; j++)
            row[(size_t)j * row_bytes + (size_t)col] = b->q[i + j];
        return;
    }
    int shift = col < PANEL / 2 ? 0 : 4;
    row += col % (PANEL / 2);
    for (int32_t j = 0; j < n; j++, row += row_bytes)
        *row = (char)((unsigned char)*row | (unsigned)(b->q[i + j] - f->low) << shift);
}

static int32_t least(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

/* One source row in blocks, whose first `skip` elements are not of this share. */
static void pack_quant_column(const struct weight *w, char *panel, int col, const char *row,
                              const struct weight_part *part)
{
    const struct quant_form *f = quant_form(part->dtype);
    int32_t group = w->form.pack == PACK_F32 ? f->group : w->form.group, n;
    int64_t end = (int64_t)part->skip + w->k;
    struct quant_block b;
    for (int64_t at = part->skip; at < end; at += n) {
        int32_t i = (int32_t)(at % f->block);
        size_t k = (size_t)(at - part->skip);
        n = least(group - at % group, end - at);
        if (i == 0 || k == 0)
            quant_unpack(part->dtype, row + (size_t)(at / f->block) * (size_t)f->n_bytes, &b);
        if (w->form.pack != PACK_F32)
            put_run(&w->form, panel, k, col, f, &b, i, n);
        else
            for (int32_t j = 0; j < n; j++)
                ((float *)(void *)panel)[(k + (size_t)j) * PANEL + (size_t)col] =
                    quant_value(f, &b, i + j);
    }
}

static void pack_panels(void *ctx, int part, int n_parts)
{
    const struct pack_job *job = ctx;
    const struct weight *w = job->w;
    size_t bytes = panel_bytes(&w->form, (size_t)w->k);
    long from, to;
    pool_share((long)n_panels(w->n), part, n_parts, &from, &to);
    for (long i = from; i < to; i++)
        for (int c = 0; c < PANEL; c++) {
            const char *row;
            const struct weight_part *p = source_row(job->src, (int64_t)i * PANEL + c, &row);
            char *panel = (char *)w->data.data + (size_t)i * bytes;
            if (p && quant_form(p->dtype))
                pack_quant_column(w, panel, c, row, p);
            else if (p)
                pack_column(w, panel, c, row, p->dtype);
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

static bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

/* Parts are cut at one column, so their blocks begin there or at borders that 16 divides. */
static bool skip_fits(const struct weight_src *src, const struct weight_part *p)
{
    const struct quant_form *f = quant_form(p->dtype);
    if (!f)
        return p->skip == 0;
    return !src->vector && p->skip >= 0 && p->skip < f->block &&
           (!quant_form(src->part[0].dtype) ||
            p->skip % SMALL_GROUP == src->part[0].skip % SMALL_GROUP);
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
        if (!is_float(t) && (src->vector || !quant_form(t)))
            FAIL(ST_UNSUPPORTED, "weight %s: element type %s", src->name, dtype_name(t));
        if (!skip_fits(src, &src->part[i]))
            FAIL(ST_RANGE, "weight %s: the share begins at element %d of a block", src->name,
                 src->part[i].skip);
        if (src->part[i].bias && !is_float(b))
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

size_t weight_data_bytes(const struct weight_src *src)
{
    return data_bytes(src);
}

enum status weight_describe(struct backend *be, const struct weight_src *src, struct weight *w)
{
    TRY(check_source(src));
    if (!src->vector && (size_t)src->cols * (size_t)be->kernels->tile_rows > be->x_pack_floats)
        FAIL(ST_UNSUPPORTED, "weight %s: %d columns, the CPU backend takes up to %zu", src->name,
             src->cols, be->x_pack_floats / (size_t)be->kernels->tile_rows);
    *w = (struct weight){.form = form_of(src),
                         .vector = src->vector,
                         .n = src->vector ? 1 : (int32_t)total_rows(src),
                         .k = src->cols,
                         .n_slices = src->n_slices};
    memcpy(w->slice_end, src->slice_end, sizeof w->slice_end);
    return ST_OK;
}

void weight_fill(struct backend *be, const struct weight_src *src, struct weight *w)
{
    if (w->vector)
        load_vector(src, w);
    else
        pool_run(be->pool, pack_panels, &(struct pack_job){src, w});
}

enum status cpu_load_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    enum status st = weight_describe(be, src, w);
    if (st == ST_OK)
        st = mem_take(&w->data, data_bytes(src));
    if (st == ST_OK)
        st = mem_take(&w->bias, bias_bytes(src));
    if (st != ST_OK) {
        cpu_free_weight(be, w);
        return st;
    }
    weight_fill(be, src, w);
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
    free(w->mat);
    free(w);
}
