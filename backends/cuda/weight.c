/* Weights of the CUDA backend: the checks of a weight_src, the bytes it takes, and its upload in
 * the layout of k_layout.h.  Called while a model loads. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/weight_stack.h"
#include "common/checked.h"
#include "common/quant.h"

/* The part's type where it is quantised, else NULL. */
static const struct quant_type *quant_of(const struct weight_part *p)
{
    return quant_type_of(p->dtype);
}

static bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

/* Do sorted parts have one order of columns?  Before the index is known they are counted as if not. */
static bool same_order(const struct weight_src *src, const struct weight_part *a,
                       const struct weight_part *b)
{
    return a->scale_stride == b->scale_stride && a->index && b->index &&
           memcmp(a->index, b->index, (size_t)src->cols * sizeof *a->index) == 0;
}

/* Parts [first, result) are rows of one matrix in memory: all floats, or packed alike.  A panel has
 * the groups of one indexed part; of sorted ones a matrix has one order of columns. */
static int32_t end_of_run(const struct weight_src *src, int32_t first)
{
    const struct weight_part *p = &src->part[first];
    int32_t i = first + 1, rows = p->rows;
    for (; i < src->n_parts; rows += src->part[i++].rows) {
        const struct weight_part *o = &src->part[i];
        bool alike = o->dtype == p->dtype && o->skip == p->skip;
        if (has_levels(p->dtype))
            alike = alike && o->block == p->block;
        if (is_sorted(p->dtype))
            alike = alike && same_order(src, p, o);
        else if (is_indexed(p->dtype))
            alike = alike && o->scale_stride == p->scale_stride && rows % SCALED_PANEL == 0;
        if (is_float(p->dtype) ? !is_float(o->dtype) : !alike)
            break;
    }
    return i;
}

/* Must its parts be matrices of their own? */
static bool has_runs(const struct weight_src *src)
{
    return !src->vector && end_of_run(src, 0) < src->n_parts;
}

/* The source of the run of parts from `first` on; returns its end. */
static int32_t source_of_run(const struct weight_src *src, int32_t first, struct weight_src *out)
{
    int32_t end = end_of_run(src, first);
    *out = *src;
    out->n_parts = end - first;
    for (int32_t i = first; i < end; i++)
        out->part[i - first] = src->part[i];
    return end;
}

/* Parts of one type stay in it; mixtures are widened to f32, which holds the same values. */
static enum dtype stored_type(const struct weight_src *src)
{
    if (src->vector)
        return DT_F32;
    for (int i = 1; i < src->n_parts; i++)
        if (src->part[i].dtype != src->part[0].dtype)
            return DT_F32;
    return src->part[0].dtype;
}

static size_t padded_rows(const struct weight_src *src)
{
    size_t pad = is_float(src->part[0].dtype) ? ROW_PAD : QUANT_PANEL;
    return src->vector ? 1 : round_up_size((size_t)weight_src_rows(src), pad);
}

/* Is the matrix multiplied on the matrix units, by scaled_rows.cu and scaled_tiles.cu? */
static bool has_mma(const struct backend *be, const struct weight_src *src)
{
    return !be->exact_x && !src->vector && scaled_has_mma(&src->part[0]);
}

/* A vector's elements follow each other. */
static struct k_layout layout_of(const struct backend *be, const struct weight_src *src,
                                 bool stacked)
{
    if (has_mma(be, src))
        return scaled_k_layout(src);
    if (!src->vector)
        return k_layout_of(src, stacked);
    return (struct k_layout){.n_slices = 1, .col = {0, src->cols}, .at = {0, src->cols}};
}

static size_t padded_cols(const struct backend *be, const struct weight_src *src, bool stacked)
{
    struct k_layout k = layout_of(be, src, stacked);
    return (size_t)k.at[k.n_slices];
}

static size_t data_bytes(const struct backend *be, const struct weight_src *src, bool stacked)
{
    const struct quant_type *q = quant_of(&src->part[0]);
    struct sorted_place sorted = sorted_place_of(src);
    if (sorted.bits && padded_rows(src) == 0)
        return 0;
    if (sorted.bits)
        return sorted.head_bytes + padded_rows(src) / QUANT_PANEL * sorted.panel_bytes;
    if (q)
        return padded_rows(src) / QUANT_PANEL *
               quant_place_of(q, src->part[0].skip, src->cols).panel_bytes;
    if (scaled_kind_of(src->part[0].dtype) != SCALED_NONE)
        return padded_rows(src) / SCALED_PANEL * scaled_place_of(src, has_mma(be, src)).panel_bytes;
    return padded_rows(src) * padded_cols(be, src, stacked) * dtype_size(stored_type(src));
}

static size_t bias_bytes(const struct weight_src *src)
{
    return weight_src_has_bias(src) ? padded_rows(src) * sizeof(float) : 0;
}

size_t cuda_weight_bytes(struct backend *be, const struct weight_src *src)
{
    size_t bytes = 0;
    struct weight_src run;
    if (!has_runs(src))
        return alloc_bytes(data_bytes(be, src, false)) + alloc_bytes(bias_bytes(src));
    for (int32_t i = 0; i < src->n_parts;) {
        i = source_of_run(src, i, &run);
        bytes += cuda_weight_bytes(be, &run);
    }
    return bytes;
}

/* Of n_stacked matrices; 0: of one that is no stack. */
static size_t all_bytes(const struct backend *be, const struct weight_src *src, int32_t n_stacked)
{
    return data_bytes(be, src, n_stacked > 0) * (size_t)(n_stacked ? n_stacked : 1);
}

/* Is each part of the matrices a stack of its own?  Orders of columns differ from expert to expert. */
static bool has_stacks(const struct weight_src *src)
{
    return is_sorted(src->part[0].dtype) && src->n_parts > 1;
}

/* src with part i alone. */
static struct weight_src part_alone(const struct weight_src *src, int i)
{
    struct weight_src one = *src;
    one.n_parts = 1;
    one.part[0] = src->part[i];
    return one;
}

size_t cuda_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n)
{
    size_t bytes = 0;
    for (int i = 0; has_stacks(src) && i < src->n_parts; i++) {
        struct weight_src one = part_alone(src, i);
        bytes += cuda_stack_bytes(be, &one, n);
    }
    if (has_stacks(src))
        return bytes;
    return round_up_size(all_bytes(be, src, n), ALLOC_ALIGN);
}

/* A panel of that many columns has less than 2^31 bytes. */
enum { MAX_COLS = 1 << 25 };

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
    for (int i = 0; i < src->n_parts; i++)
        if (quant_of(&src->part[i]) && src->part[i].skip % QUANT_GROUP != p->skip % QUANT_GROUP)
            return false;
    return p->skip >= 0 && p->skip < f->block;
}

static enum status check_source(const struct weight_src *src)
{
    if (src->n_parts < 1 || src->n_parts > (int)ARRAY_LEN(src->part))
        FAIL(ST_RANGE, "weight %s: %d parts", src->name, src->n_parts);
    if (src->cols < 0 || src->cols > MAX_COLS || weight_src_rows(src) > INT32_MAX - QUANT_PANEL)
        FAIL(ST_RANGE, "weight %s: %lld rows, %d columns", src->name,
             (long long)weight_src_rows(src), src->cols);
    for (int i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        bool sorted = is_sorted(p->dtype), scaled = scaled_kind_of(p->dtype) != SCALED_NONE;
        if (!is_float(p->dtype) && (src->vector || (!quant_of(p) && !scaled && !sorted)))
            FAIL(ST_UNSUPPORTED, "weight %s: the CUDA backend has no %s %s", src->name,
                 dtype_name(p->dtype), src->vector ? "vectors" : "weights");
        if (p->rows < 0 || !skip_fits(src, p))
            FAIL(ST_RANGE, "weight %s: %d rows, first element %d", src->name, p->rows, p->skip);
        if ((scaled || sorted) && p->rows > 0 &&
            (p->scale_stride == 0 || p->scale_stride > (sorted ? SORTED_GROUPS : UINT16_MAX)))
            FAIL(ST_RANGE, "weight %s: %s with %zu scales in a row", src->name,
                 dtype_name(p->dtype), p->scale_stride);
        if (p->bias && !is_float(p->bias_dtype))
            FAIL(ST_UNSUPPORTED, "weight %s: bias of type %s", src->name,
                 dtype_name(p->bias_dtype));
    }
    return src->vector ? ST_OK : check_slices(src);
}

/* n elements of unaligned file data, from type t to f32 or as they are. */
static void convert(void *dst, enum dtype to, const void *src, enum dtype t, size_t n)
{
    if (to == t) {
        memcpy(dst, src, n * dtype_size(t));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src + i * sizeof h, sizeof h);
        ((float *)dst)[i] = t == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
    }
}

/* One row of a part to its place in the layout. */
static void place_row(const struct weight *w, char *to, const char *from, enum dtype t)
{
    const struct k_layout *k = &w->k_layout;
    size_t size = dtype_size(w->dtype);
    memset(to, 0, (size_t)w->k_pad * size);
    for (int i = 0; i < k->n_slices; i++)
        convert(to + (size_t)k->at[i] * size, w->dtype, from + (size_t)k->col[i] * dtype_size(t), t,
                (size_t)(k->col[i + 1] - k->col[i]));
}

/* Rows of one part, from row `at` of the matrix on, through the staging memory. */
static enum status load_part(struct backend *be, const struct weight *w,
                             const struct weight_part *p, size_t at)
{
    size_t bytes = (size_t)w->k_pad * dtype_size(w->dtype);
    size_t most = bytes > 0 ? STAGING_BYTES / 2 / bytes : 0;
    if (w->k == 0)
        return ST_OK;
    if (most == 0)
        FAIL(ST_UNSUPPORTED, "a weight of %d columns", w->k);
    for (size_t row = 0, n; row < (size_t)p->rows; row += n) {
        char *staged;
        n = (size_t)p->rows - row < most ? (size_t)p->rows - row : most;
        TRY(staging_take(be, n * bytes, &staged));
        for (size_t i = 0; i < n; i++)
            place_row(w, staged + i * bytes, (const char *)p->data + (row + i) * p->row_bytes,
                      p->dtype);
        CUDA_TRY(cudaMemcpyAsync((char *)w->data->data + (at + row) * bytes, staged, n * bytes,
                                 cudaMemcpyHostToDevice, be->stream));
    }
    return ST_OK;
}

/* Rows [row, row + n) of the matrix, n <= QUANT_PANEL, as the first blocks of their shares. */
static void rows_of(const struct weight_src *src, int32_t row, int32_t n, const char **rows)
{
    const struct weight_part *p = src->part;
    for (int32_t i = 0; i < n; i++, row++) {
        for (; row >= p->rows; p++)
            row -= p->rows;
        rows[i] = (const char *)p->data + (size_t)row * p->row_bytes;
    }
}

/* Rows [row, row + n) of the matrix, of which a panel is made; plan: of sorted columns. */
static void store_panel(const struct weight_src *src, const struct weight *w, const void *plan,
                        int32_t row, int32_t n, char *out)
{
    const char *rows[QUANT_PANEL];
    if (w->sorted.bits) {
        sorted_store_panel(src, &w->sorted, plan, row, n, out);
        return;
    }
    if (!w->quant) {
        scaled_store_panel(src, &w->scaled, &w->k_layout, row, n, out);
        return;
    }
    rows_of(src, row, n, rows);
    quant_store_panel(w->dtype, &w->place, rows, n, out);
}

/* All rows of a matrix in panels. */
static enum status load_panels(struct backend *be, const struct weight_src *src,
                               const struct weight *w, const void *plan, char *to)
{
    size_t bytes = panel_bytes_of(w);
    if (bytes > STAGING_BYTES / 2)
        FAIL(ST_UNSUPPORTED, "weight %s: quantised rows of %d columns", src->name, w->k);
    for (int32_t row = 0; row < w->n; row += QUANT_PANEL, to += bytes) {
        int32_t n = w->n - row < QUANT_PANEL ? w->n - row : QUANT_PANEL;
        char *staged;
        TRY(staging_take(be, bytes, &staged));
        store_panel(src, w, plan, row, n, staged);
        CUDA_TRY(cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, be->stream));
    }
    return ST_OK;
}

/* The head of a matrix of sorted columns, then its rows. */
static enum status load_planned(struct backend *be, const struct weight_src *src,
                                const struct weight *w, void *plan, char *to)
{
    const struct sorted_shape s = sorted_shape_of_src(src);
    char *staged;
    if (w->sorted.head_bytes > STAGING_BYTES / 2)
        FAIL(ST_UNSUPPORTED, "weight %s: an order of %d columns", src->name, w->k);
    sorted_make_plan(&s, src->part[0].index, plan);
    TRY(staging_take(be, w->sorted.head_bytes, &staged));
    sorted_store_head(&w->sorted, &s, plan, staged);
    CUDA_TRY(cudaMemcpyAsync(to, staged, w->sorted.head_bytes, cudaMemcpyHostToDevice, be->stream));
    return load_panels(be, src, w, plan, to + w->sorted.head_bytes);
}

static enum status load_sorted(struct backend *be, const struct weight_src *src,
                               const struct weight *w, char *to)
{
    const struct sorted_shape s = sorted_shape_of_src(src);
    void *plan = calloc(1, sorted_plan_bytes(&s));
    if (!plan)
        FAIL(ST_NOMEM, "no memory for the order of weight %s", src->name);
    enum status st = load_planned(be, src, w, plan, to);
    free(plan);
    return st;
}

/* A vector with a constant added. */
static enum status load_vector(struct backend *be, const struct weight_src *src,
                               const struct weight *w)
{
    struct view all = {.buf = w->data, .rows = 1, .cols = w->k, .stride = w->k, .dtype = DT_F32};
    float *f = malloc((size_t)w->k * sizeof *f);
    if (!f)
        FAIL(ST_NOMEM, "no memory for the vector %s", src->name);
    convert(f, DT_F32, src->part[0].data, src->part[0].dtype, (size_t)w->k);
    for (int32_t i = 0; i < w->k; i++)
        f[i] += src->add;
    enum status st = cuda_write(be, all, f);
    free(f);
    return st;
}

static enum status load_bias(struct backend *be, const struct weight_src *src,
                             const struct weight *w)
{
    int32_t at = 0;
    for (int i = 0; i < src->n_parts; at += src->part[i++].rows) {
        const struct weight_part *p = &src->part[i];
        struct view part = {.buf = w->bias,
                            .off = (size_t)at * sizeof(float),
                            .rows = 1,
                            .cols = p->rows,
                            .stride = p->rows,
                            .dtype = DT_F32};
        if (!p->bias || p->rows == 0)
            continue;
        float *f = malloc((size_t)p->rows * sizeof *f);
        if (!f)
            FAIL(ST_NOMEM, "no memory for a bias of weight %s", src->name);
        convert(f, DT_F32, p->bias, p->bias_dtype, (size_t)p->rows);
        enum status st = cuda_write(be, part, f);
        free(f);
        TRY(st);
    }
    return ST_OK;
}

/* Buffers are zeroed when they are taken: so is the padding below the last row. */
static enum status take_memory(struct backend *be, const struct weight_src *src, struct weight *w)
{
    size_t bytes = all_bytes(be, src, w->n_stacked);
    if (bytes > 0)
        TRY(cuda_alloc(be, bytes, MEM_DEVICE, &w->data));
    if (weight_src_has_bias(src))
        TRY(cuda_alloc(be, bias_bytes(src), MEM_DEVICE, &w->bias));
    return ST_OK;
}

/* The rows of a matrix that begins at row `at` of the memory. */
static enum status load_matrix(struct backend *be, const struct weight_src *src,
                               const struct weight *w, size_t at)
{
    if (has_panels(w) && !w->data)
        return ST_OK; /* no rows or no columns */
    if (has_panels(w)) {
        char *to = (char *)w->data->data + at / (size_t)w->n_pad * panels_bytes_of(w);
        return w->sorted.bits ? load_sorted(be, src, w, to) : load_panels(be, src, w, NULL, to);
    }
    for (int i = 0; i < src->n_parts; at += (size_t)src->part[i++].rows)
        TRY(load_part(be, w, &src->part[i], at));
    return ST_OK;
}

static enum status fill(struct backend *be, const struct weight_src *src, struct weight *w)
{
    if (src->vector && src->add != 0.0f && w->k > 0)
        return load_vector(be, src, w);
    if (!w->n_stacked)
        TRY(load_matrix(be, src, w, 0));
    for (int32_t i = 0; i < w->n_stacked; i++)
        TRY(load_matrix(be, &src[i], w, (size_t)i * (size_t)w->n_pad));
    return w->bias ? load_bias(be, src, w) : ST_OK;
}

static enum status take_weight(struct backend *be, const struct weight_src *src, int32_t n_stacked,
                               struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    w->vector = src->vector;
    w->n_stacked = n_stacked;
    w->dtype = stored_type(src);
    w->n = src->vector ? 1 : (int32_t)weight_src_rows(src);
    w->k = src->cols;
    w->n_pad = (int32_t)padded_rows(src);
    w->k_pad = (int32_t)padded_cols(be, src, n_stacked > 0);
    w->k_layout = layout_of(be, src, n_stacked > 0);
    w->quant = quant_of(&src->part[0]);
    w->skip = src->part[0].skip;
    if (w->quant)
        w->place = quant_place_of(w->quant, w->skip, w->k);
    w->sorted = sorted_place_of(src);
    w->scaled = src->vector ? (struct scaled_place){0} : scaled_place_of(src, has_mma(be, src));
    enum status st = take_memory(be, src, w);
    if (st != ST_OK) {
        cuda_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

static enum status load_weights(struct backend *be, const struct weight_src *src, int32_t n_stacked,
                                struct weight **out)
{
    struct weight *w;
    TRY(take_weight(be, src, n_stacked, &w));
    enum status st = fill(be, src, w);
    if (st != ST_OK) {
        cuda_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

enum status cuda_take_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    TRY(check_source(src));
    if (has_runs(src))
        FAIL(ST_UNSUPPORTED, "weight %s: rows of several types without data", src->name);
    return take_weight(be, src, 0, out);
}

/* Each run of parts as a weight of its own. */
static enum status load_runs(struct backend *be, const struct weight_src *src, struct weight *w)
{
    struct weight_src run;
    for (int32_t i = 0; i < src->n_parts;) {
        i = source_of_run(src, i, &run);
        TRY(load_weights(be, &run, 0, &w->part[w->n_parts]));
        w->n_parts++;
    }
    return ST_OK;
}

static enum status load_composite(struct backend *be, const struct weight_src *src,
                                  struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    w->n = (int32_t)weight_src_rows(src);
    w->k = src->cols;
    enum status st = load_runs(be, src, w);
    if (st != ST_OK) {
        cuda_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

enum status cuda_load_weight(struct backend *be, const struct weight_src *src, struct weight **out)
{
    TRY(check_source(src));
    return has_runs(src) ? load_composite(be, src, out) : load_weights(be, src, 0, out);
}

/* Part after part, a stack each. */
static enum status load_stacks(struct backend *be, const struct weight_src *src, int32_t n,
                               struct weight_src *alone, struct weight *w)
{
    for (int part = 0; part < src->n_parts; part++) {
        for (int32_t i = 0; i < n; i++)
            alone[i] = part_alone(&src[i], part);
        TRY(load_weights(be, alone, n, &w->part[part]));
        w->n_parts++;
    }
    return ST_OK;
}

static enum status load_composite_stack(struct backend *be, const struct weight_src *src, int32_t n,
                                        struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    struct weight_src *alone = calloc((size_t)n, sizeof *alone);
    enum status st = ST_OK;
    if (!w || !alone) {
        free(w);
        free(alone);
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    }
    w->n = (int32_t)weight_src_rows(src);
    w->k = src->cols;
    w->n_stacked = n;
    w->k_layout = k_layout_of(src, true);
    st = load_stacks(be, src, n, alone, w);
    free(alone);
    if (st != ST_OK) {
        cuda_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

static enum status check_stack(const struct weight_src *src, int32_t n)
{
    TRY(weight_stack_check(src, n));
    for (int32_t i = 0; i < n; i++) {
        TRY(check_source(&src[i]));
        if (!has_stacks(&src[i]) && has_runs(&src[i]))
            FAIL(ST_UNSUPPORTED, "weight %s: the CUDA backend has no experts of several types (%s)",
                 src->name, dtype_name(src[i].part[0].dtype));
    }
    return ST_OK;
}

enum status cuda_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                            struct weight **out)
{
    TRY(check_stack(src, n));
    return has_stacks(src) ? load_composite_stack(be, src, n, out) : load_weights(be, src, n, out);
}

void cuda_free_weight(struct backend *be, struct weight *w)
{
    if (!w)
        return;
    for (int32_t i = 0; i < w->n_parts; i++)
        cuda_free_weight(be, w->part[i]);
    cuda_free(be, w->bias);
    cuda_free(be, w->data);
    free(w);
}
