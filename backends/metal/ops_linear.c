/* Enqueueing of products and of rows of matrices: shaders/linear.metal. */
#include <string.h>

#include "backends/metal/metal_backend.h"

enum status metal_embed(struct backend *be, const struct weight *table, int32_t first_id,
                        struct view ids, struct view out)
{
    assert(!table->vector && ids.rows == out.rows && ids.cols == 1 && out.cols == table->k);
    if (out.rows == 0 || out.cols == 0)
        return ST_OK;
    for (int i = 0; i < table->n_parts; i++) {
        const struct metal_part *p = &table->part[i];
        const struct metal_bound bound[] = {{table->data, p->at}, bound_i32(ids), bound_f32(out)};
        struct metal_embed_args args = {.k = table->k,
                                        .n = table->n,
                                        .row0 = p->row0,
                                        .rows = p->rows,
                                        .row_bytes = (int32_t)p->row_bytes,
                                        .first_id = first_id,
                                        .id_stride = ids.stride,
                                        .out_stride = out.stride,
                                        .fills = i == 0,
                                        .n_slices = table->n_slices,
                                        .form = p->form};
        memcpy(args.slice_end, table->slice_end, sizeof args.slice_end);
        struct mtl_size groups = {(unsigned long)out.rows, groups_for(out.cols, METAL_STRIP), 1};
        TRY(METAL_DISPATCH(be, metal_kernel_of(KERNEL_embed_f32, p->type), args, bound, groups,
                           METAL_STRIP, 0));
    }
    return ST_OK;
}

/* What a simdgroup of a kernel has: rows of w and of x. */
static const struct shape {
    enum metal_kernel kernel; /* its first type's */
    int32_t rows, tokens;
} chains = {KERNEL_linear_f32, METAL_LINEAR_ROWS, METAL_LINEAR_TOKENS},
  chains_one = {KERNEL_linear_one_f32, METAL_LINEAR_ROWS_ONE, 1},
  matrices = {KERNEL_matrix_f32, METAL_MATRIX_ROWS, METAL_MATRIX_TOKENS},
  matrices_one = {KERNEL_matrix_one_f32, METAL_MATRIX_ROWS, METAL_MATRIX_ONE};

/* For n rows of x; the two of each kind give the same bits. */
static const struct shape *shape_of(const struct backend *be, int32_t n)
{
    if (be->matrices)
        return n <= METAL_MATRIX_ONE ? &matrices_one : &matrices;
    return n == 1 ? &chains_one : &chains;
}

/* Matrices of a stack that are multiplied at once: columns from one's input and output to the next's. */
struct heads {
    int32_t n, x_step, out_step;
};

/* Rows [first, first + n) of x times one part of w. */
static enum status product(struct backend *be, const struct weight *w, const struct metal_part *p,
                           const struct heads *h, struct view x, struct view out, int32_t first,
                           int32_t n)
{
    struct metal_linear_args args = {.rows = p->rows,
                                     .row_bytes = (int32_t)p->row_bytes,
                                     .n_tokens = n,
                                     .x_stride = x.stride,
                                     .out_stride = out.stride,
                                     .w_step = (int32_t)(w->n_stacked ? w->step / 16 : 0),
                                     .x_step = h->x_step,
                                     .out_step = h->out_step,
                                     .has_bias = w->bias != NULL,
                                     .n_slices = w->n_slices,
                                     .form = p->form};
    memcpy(args.slice_end, w->slice_end, sizeof args.slice_end);
    struct metal_bound from = bound_f32(x), to = bound_f32(out), bias = from;
    from.off += (size_t)first * view_row_step(x);
    to.off += (size_t)first * view_row_step(out) + (size_t)p->row0 * sizeof(float);
    if (w->bias)
        bias = (struct metal_bound){w->bias, (size_t)p->row0 * sizeof(float)};
    const struct metal_bound bound[] = {{w->data, p->at}, from, bias, to};
    const struct shape *s = shape_of(be, n);
    struct mtl_size groups = {groups_for(p->rows, (int64_t)METAL_LINEAR_SIMDS * s->rows),
                              groups_for(n, s->tokens), (unsigned long)h->n};
    return METAL_DISPATCH(be, metal_kernel_of(s->kernel, p->type), args, bound, groups,
                          32 * METAL_LINEAR_SIMDS,
                          (uint64_t)h->n * (uint64_t)p->rows * (uint64_t)w->k * (uint64_t)n);
}

/* x, out: of the first head.  A dispatch of many rows is cut, so that command buffers can be; which rows go
 * together changes no bit. */
static enum status products(struct backend *be, const struct weight *w, const struct heads *h,
                            struct view x, struct view out)
{
    for (int i = 0; i < w->n_parts; i++) {
        const struct metal_part *p = &w->part[i];
        int64_t row_work = (int64_t)h->n * p->rows * w->k + 1;
        int64_t tile = be->matrices ? METAL_MATRIX_TOKENS : METAL_LINEAR_TOKENS;
        int64_t most = (be->matrices ? MATRIX_WORK : DISPATCH_WORK) / row_work;
        most = most < tile ? tile : most / tile * tile;
        for (int32_t t = 0, n; t < x.rows && p->rows > 0; t += n) {
            n = x.rows - t < most ? x.rows - t : (int32_t)most;
            TRY(product(be, w, p, h, x, out, t, n));
        }
    }
    return ST_OK;
}

enum status metal_linear(struct backend *be, const struct weight *w, struct view x, struct view out)
{
    assert(!w->vector && x.rows == out.rows && x.cols == w->k && out.cols == w->n);
    return products(be, w, &(struct heads){.n = 1}, x, out);
}

enum status metal_heads_linear(struct backend *be, const struct weight *w, struct view x,
                               struct view out)
{
    int32_t n = w->n_stacked;
    assert(n > 0 && w->n_slices == 1 && x.rows == out.rows && !w->bias);
    assert(x.cols % n == 0 && x.cols / n >= w->k && out.cols % n == 0 && out.cols / n >= w->n);
    const struct heads h = {.n = n, .x_step = x.cols / n, .out_step = out.cols / n};
    return products(be, w, &h, view_columns(x, 0, w->k), view_columns(out, 0, w->n));
}
