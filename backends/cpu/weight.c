/* Matrices and vectors as the CPU keeps them: checking a source, its layout, packing. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/sorted.h"
#include "common/quant.h"

static size_t n_panels(int64_t n)
{
    return ((size_t)n + PANEL - 1) / PANEL;
}

static int32_t block_of(const struct weight_part *p)
{
    return has_levels(p->dtype) ? p->block : 0;
}

static void lay_out_sorted(const struct weight_src *src, struct panels *s)
{
    struct sorted_shape shape = {s->groups, src->n_slices, src->slice_end};
    s->plan_bytes = src->cols > 0 ? sorted_plan_bytes(&shape) : 0;
    s->panel_bytes = sorted_panel_bytes(&shape, sorted_bits(s->dtype));
}

/* Neighbouring tensors of one type and skip share their panels, but for those with an index of their
 * own.  Returns the number of types. */
static int32_t lay_out(const struct weight_src *src, struct panels *panels, size_t *bytes)
{
    int32_t n = 0, row = 0;
    *bytes = 0;
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        struct panels *s = &panels[n];
        if (n > 0 && s[-1].dtype == p->dtype && s[-1].skip == p->skip && !is_indexed(p->dtype) &&
            s[-1].block == block_of(p)) {
            s[-1].n += p->rows;
        } else {
            *s = (struct panels){.dtype = p->dtype, .skip = p->skip, .row = row, .n = p->rows};
            s->quant = quant_pack_of(p->dtype);
            s->groups = is_indexed(p->dtype) ? (int32_t)p->scale_stride : 0;
            s->block = block_of(p);
            struct pack_head head = {p->skip, s->groups, s->block};
            if (is_sorted(p->dtype))
                lay_out_sorted(src, s);
            else
                s->panel_bytes = s->quant ? quant_panel_bytes(s->quant->lay, p->skip, src->cols)
                                          : pack_panel_bytes(pack_of(p->dtype), head, src->n_slices,
                                                             src->slice_end);
            n++;
        }
        row += p->rows;
    }
    for (int32_t i = 0; i < n; i++) {
        panels[i].plan_at = *bytes;
        panels[i].at = *bytes + panels[i].plan_bytes;
        panels[i].stride = panels[i].panel_bytes;
        *bytes = panels[i].at + n_panels(panels[i].n) * panels[i].panel_bytes;
    }
    return n;
}

size_t weight_data_bytes(const struct weight_src *src)
{
    struct panels panels[ARRAY_LEN(src->part)];
    size_t bytes = (size_t)src->cols * sizeof(float);
    if (!src->vector)
        lay_out(src, panels, &bytes);
    return bytes;
}

static size_t bias_bytes(const struct weight_src *src)
{
    return weight_src_has_bias(src) ? ((size_t)weight_src_rows(src) + PANEL) * sizeof(float) : 0;
}

size_t cpu_weight_bytes(struct backend *be, const struct weight_src *src)
{
    (void)be;
    return sizeof(struct weight) + mem_held(weight_data_bytes(src)) + mem_held(bias_bytes(src));
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

/* The tensor that has row n of the weight, and the row's first byte; NULL beyond the last. */
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
static void pack_column(enum pack pack, const struct weight *w, void *panel, int col,
                        const char *row)
{
    for (int32_t s = 0, k = 0; s < w->n_slices; s++) {
        size_t to = pack_rows(pack, w->slice_end, s, k);
        for (; k < w->slice_end[s]; k++, to++) {
            size_t at = panel_at(pack, to, col), i = (size_t)k;
            if (pack == PACK_F32)
                memcpy((float *)panel + at, row + i * sizeof(float), sizeof(float));
            else if (pack == PACK_E4M3 || pack == PACK_INT8)
                memcpy((char *)panel + at, row + i, 1);
            else if (pack_nibbles(pack))
                ((uint8_t *)panel)[to * (PANEL / 2) + (size_t)col % 16] |=
                    (uint8_t)((row[i] & 15) << col / 16 * 4);
            else
                memcpy((uint16_t *)panel + at, row + i * sizeof(uint16_t), sizeof(uint16_t));
        }
    }
}

/* The scales of row r of a part with levels to column c of a panel's head. */
static void pack_level_scales(const struct weight_part *p, int32_t r, int32_t c, int32_t n_blocks,
                              char *panel)
{
    float *out = (float *)(void *)panel + c;
    const size_t at = (size_t)r * p->scale_stride;
    if (p->dtype == DT_NVFP4) {
        out[0] = p->factor;
        out[PANEL] = p->divisor;
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        if (p->dtype == DT_NVFP4)
            panel[(8 + b) * PANEL + c] = (char)p->small_scale[at + (size_t)b];
        else
            out[b * PANEL] = p->scale[at + (size_t)b];
    }
}

/* The scales (and minima, and groups of the columns) of rows [row, row + n) of the matrix to the head
 * of a panel; returns its end. */
static char *pack_scales(const struct pack_job *job, const struct panels *s, int32_t row, int32_t n,
                         char *panel)
{
    float *out = (float *)(void *)panel;
    struct pack_head head = {s->skip, s->groups, s->block};
    int32_t n_blocks = s->groups  ? s->groups
                       : s->block ? scale_blocks(s->block, s->skip, job->w->k)
                                  : fp8_blocks(s->skip, job->w->k);
    for (int32_t c = 0; c < n; c++) {
        const struct weight_part *p = job->src->part;
        int32_t r = row + c;
        for (; r >= p->rows; p++)
            r -= p->rows;
        if (s->block)
            pack_level_scales(p, r, c, n_blocks, panel);
        for (int32_t b = 0; b < n_blocks && !s->block; b++) {
            size_t at = (size_t)r * p->scale_stride + (size_t)b;
            out[b * PANEL + c] = p->scale[at];
            if (s->groups)
                out[(n_blocks + b) * PANEL + c] = p->min[at];
        }
        if (s->groups && c == 0)
            memcpy(out + (size_t)n_blocks * 2 * PANEL, p->index,
                   (size_t)job->w->k * sizeof *p->index);
    }
    return panel + pack_head_bytes(pack_of(s->dtype), head, job->w->k);
}

/* The tensor of panels that no other tensor shares: those of sorted types. */
static const struct weight_part *part_of(const struct weight_src *src, const struct panels *s)
{
    const struct weight_part *p = src->part;
    for (int32_t row = s->row; row >= p->rows; p++)
        row -= p->rows;
    return p;
}

/* Panel i of s, of sorted columns; its bytes are zero. */
static void pack_sorted(const struct pack_job *job, const struct panels *s, long i,
                        const char *const rows[PANEL], int32_t n, char *panel)
{
    struct sorted_shape shape = sorted_shape_of(job->w, s);
    int8_t *zeros = (int8_t *)panel + sorted_zeros_at(&shape);
    const struct weight_part *p = part_of(job->src, s);
    for (int32_t c = 0; c < n; c++) {
        size_t at = (size_t)(i * PANEL + c) * p->scale_stride;
        for (size_t g = 0; g < p->scale_stride; g++) {
            ((float *)(void *)panel)[g * PANEL + (size_t)c] = p->scale[at + g];
            zeros[g * PANEL + (size_t)c] = p->zero[at + g];
        }
        sorted_put_column(&shape, plan_of(job->w, s), sorted_bits(s->dtype), c,
                          (const int8_t *)rows[c], panel);
    }
}

/* Brings all rows to the cache, one after the other: packing takes a block of each row in turn, which are
 * more places than a processor's prefetching follows. */
static void fetch_rows(const struct panels *s, const char *const rows[PANEL], int32_t n, int32_t k)
{
    enum { LINE = 64 };
    const struct quant_form *f = quant_form(s->dtype);
    size_t bytes = (size_t)((s->skip + k + f->block - 1) / f->block) * (size_t)f->n_bytes;
    for (int32_t c = 0; c < n; c++)
        for (size_t at = 0; at < bytes; at += LINE)
            (void)*(volatile const char *)(rows[c] + at);
}

/* Panel i of s. */
static void pack_panel(const struct pack_job *job, const struct panels *s, long i)
{
    const char *rows[PANEL] = {0};
    char *panel = (char *)job->w->data.data + s->at + (size_t)i * s->stride;
    int32_t first = (int32_t)i * PANEL, n = s->n - first < PANEL ? s->n - first : PANEL;
    for (int32_t c = 0; c < n; c++)
        source_row(job->src, (int64_t)s->row + first + c, &rows[c]);
    if (s->quant) {
        fetch_rows(s, rows, n, job->w->k);
        quant_pack_panel(s->quant, s->dtype, rows, s->skip, job->w->k, panel);
        return;
    }
    if (is_sorted(s->dtype)) {
        memset(panel, 0, s->panel_bytes);
        pack_sorted(job, s, i, rows, n, panel);
        return;
    }
    enum pack pack = pack_of(s->dtype);
    bool gaps = n < PANEL || s->panel_bytes > (size_t)job->w->k * pack_row_bytes(pack) ||
                pack_nibbles(pack);
    if (gaps && s->panel_bytes > 0) /* without columns there is no memory */
        memset(panel, 0, s->panel_bytes);
    if (pack_scaled(pack))
        panel = pack_scales(job, s, s->row + first, n, panel);
    for (int32_t c = 0; c < n; c++)
        pack_column(pack, job->w, panel, c, rows[c]);
}

static void pack_panels(void *ctx, int part, int n_parts)
{
    const struct pack_job *job = ctx;
    for (int32_t i = 0; i < job->w->n_types; i++) {
        const struct panels *s = &job->w->panels[i];
        long from, to;
        pool_share((long)n_panels(s->n), part, n_parts, &from, &to);
        for (; from < to; from++)
            pack_panel(job, s, from);
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

/* The first quantised tensor; NULL: none. */
static const struct weight_part *first_quant(const struct weight_src *src)
{
    for (int i = 0; i < src->n_parts; i++)
        if (quant_pack_of(src->part[i].dtype))
            return &src->part[i];
    return NULL;
}

/* Tensors are cut at one column, so their groups begin at the same ones. */
static bool skip_fits(const struct weight_src *src, const struct weight_part *p)
{
    const struct quant_form *f = quant_form(p->dtype);
    if (p->dtype == DT_E4M3)
        return p->skip >= 0 && p->skip < FP8_BLOCK;
    if (has_levels(p->dtype))
        return p->block > 0 && p->skip >= 0 && p->skip < p->block;
    if (!f)
        return p->skip == 0;
    return !src->vector && p->skip >= 0 && p->skip < f->block &&
           p->skip % GROUP == first_quant(src)->skip % GROUP;
}

static bool has_scales(const struct weight_part *p)
{
    size_t most = is_sorted(p->dtype) ? SORTED_GROUPS : UINT16_MAX;
    return p->rows == 0 || (p->scale_stride > 0 && p->scale_stride <= most);
}

static enum status check_source(const struct weight_src *src)
{
    if (src->n_parts < 1 || src->n_parts > (int)ARRAY_LEN(src->part))
        FAIL(ST_RANGE, "weight %s: %d parts", src->name, src->n_parts);
    if (src->cols < 0 || weight_src_rows(src) > INT32_MAX - PANEL)
        FAIL(ST_RANGE, "weight %s: %lld rows, %d columns", src->name,
             (long long)weight_src_rows(src), src->cols);
    for (int i = 0; i < src->n_parts; i++) {
        enum dtype t = src->part[i].dtype, b = src->part[i].bias_dtype;
        if (src->part[i].rows < 0)
            FAIL(ST_RANGE, "weight %s: %d rows", src->name, src->part[i].rows);
        bool scaled = t == DT_E4M3 || is_indexed(t) || has_levels(t);
        if (scaled && !src->vector && !has_scales(&src->part[i]))
            FAIL(ST_RANGE, "weight %s: %s with %zu scales in a row", src->name, dtype_name(t),
                 src->part[i].scale_stride);
        if (!is_float(t) && (src->vector || (!scaled && !quant_pack_of(t))))
            FAIL(ST_UNSUPPORTED, "weight %s: element type %s", src->name, dtype_name(t));
        if (!skip_fits(src, &src->part[i]))
            FAIL(ST_RANGE, "weight %s: the shard begins at element %d of a block", src->name,
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
        ((float *)w->data.data)[i] =
            file_f32(src->part[0].data, src->part[0].dtype, (size_t)i) + src->add;
}

enum status weight_describe(const struct weight_src *src, struct weight *w)
{
    TRY(check_source(src));
    size_t bytes;
    *w = (struct weight){.vector = src->vector,
                         .n = src->vector ? 1 : (int32_t)weight_src_rows(src),
                         .k = src->cols,
                         .n_slices = src->n_slices};
    memcpy(w->slice_end, src->slice_end, sizeof w->slice_end);
    if (!src->vector)
        w->n_types = lay_out(src, w->panels, &bytes);
    for (int32_t i = 0; i < w->n_types; i++)
        if (strip_row_bytes(w, &w->panels[i]) > X_PACK_MOST / TILE_MAX)
            FAIL(ST_UNSUPPORTED, "weight %s: %d columns are more than the CPU backend takes",
                 src->name, src->cols);
    return ST_OK;
}

/* The plans of sorted types. */
static void fill_plans(const struct weight_src *src, struct weight *w)
{
    for (int32_t i = 0; i < w->n_types; i++) {
        const struct panels *s = &w->panels[i];
        struct sorted_shape shape = sorted_shape_of(w, s);
        if (!is_sorted(s->dtype))
            continue;
        void *plan = (char *)w->data.data + s->plan_at;
        memset(plan, 0, s->plan_bytes);
        if (s->n > 0)
            sorted_make_plan(&shape, part_of(src, s)->index, plan);
    }
}

void weight_fill(struct backend *be, const struct weight_src *src, struct weight *w)
{
    if (w->vector) {
        load_vector(src, w);
    } else if (w->k > 0) {
        fill_plans(src, w);
        pool_run(be->pool, pack_panels, &(struct pack_job){src, w});
    }
}

void weight_compare_plans(struct weight *w)
{
    for (int32_t i = 1; i < w->n_types; i++) {
        struct panels *s = &w->panels[i], *before = s - 1;
        s->repeats =
            is_sorted(s->dtype) && is_sorted(before->dtype) && s->groups == before->groups &&
            (s->plan_bytes == 0 || memcmp(plan_of(w, s), plan_of(w, before), s->plan_bytes) == 0);
    }
}

struct copy_job {
    char *to;
    const char *from;
    size_t n;
};

static void copy_part(void *ctx, int part, int n_parts)
{
    const struct copy_job *job = ctx;
    long from, to;
    pool_share((long)job->n, part, n_parts, &from, &to);
    memcpy(job->to + from, job->from + from, (size_t)(to - from));
}

enum status weight_take(struct backend *be, struct weight *w, size_t bytes, const void *packed)
{
    if (packed && weight_borrow(be, w, bytes, packed))
        return ST_OK;
    TRY(mem_take(&w->data, bytes));
    if (packed)
        pool_run(be->pool, copy_part, &(struct copy_job){w->data.data, packed, bytes});
    return ST_OK;
}

enum status weight_make(struct backend *be, const struct weight_src *src, const void *packed,
                        struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    enum status st = weight_describe(src, w);
    if (st == ST_OK)
        st = weight_take(be, w, weight_data_bytes(src), packed);
    if (st == ST_OK)
        st = mem_take(&w->bias, bias_bytes(src));
    if (st != ST_OK) {
        cpu_free_weight(be, w);
        return st;
    }
    if (!packed)
        weight_fill(be, src, w);
    weight_compare_plans(w);
    if (w->bias.data)
        pack_bias(src, w);
    *out = w;
    return ST_OK;
}

/* Whole strips for max_rows rows, or X_PACK_MOST. */
static size_t x_pack_bytes(const struct backend *be, const struct weight *w)
{
    size_t most = 0;
    for (int32_t i = 0; i < w->n_types; i++) {
        size_t strip = (size_t)strip_rows(be, &w->panels[i]),
               rows = ((size_t)be->max_rows + strip - 1) / strip * strip,
               bytes = rows * strip_row_bytes(w, &w->panels[i]);
        most = bytes > most ? bytes : most;
    }
    return be->max_rows == 0 || most > X_PACK_MOST ? X_PACK_MOST : most;
}

size_t cpu_linear_bytes(struct backend *be, const struct weight_src *src)
{
    struct weight w;
    if (src->vector || weight_describe(src, &w) != ST_OK) /* loading it says why */
        return 0;
    return mem_held(x_pack_bytes(be, &w));
}

enum status x_pack_fit(struct backend *be, const struct weight_src *src)
{
    struct weight w;
    TRY(weight_describe(src, &w));
    size_t bytes = src->vector ? 0 : x_pack_bytes(be, &w);
    if (bytes <= be->x_held.bytes)
        return ST_OK;
    mem_give(&be->x_held);
    be->x_pack_floats = 0;
    TRY(mem_take(&be->x_held, bytes));
    be->x_pack = be->x_held.data;
    be->x_pack_floats = bytes / sizeof(float);
    return ST_OK;
}

enum status cpu_load_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    TRY(x_pack_fit(be, src));
    return weight_make(be, src, NULL, out);
}

void cpu_free_weight(struct backend *be, struct weight *w)
{
    if (!w)
        return;
    weights_stay(be);
    mem_give(&w->data);
    mem_give(&w->bias);
    free(w->mat);
    free(w);
}
