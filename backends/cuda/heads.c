/* heads_linear: the products of a stack's matrices, those of floats in one launch. */
#include "backends/cuda/linear_kernels.h"

/* Bytes from a matrix of a stack to the next. */
static size_t matrix_bytes(const struct weight *w)
{
    if (has_panels(w))
        return panels_bytes_of(w);
    return (size_t)w->n_pad * (size_t)w->k_pad * dtype_size(w->dtype);
}

/* a, b: columns of x and out from a head to the next. */
static enum status run_floats(struct backend *be, const struct weight *w, struct view x,
                              struct view out, int32_t a, int32_t b)
{
    struct linear_job job = linear_job_of(w, x, out);
    assert(!w->bias);
    if (x.rows == 0 || w->n == 0)
        return ST_OK;
    job.n_heads = w->n_stacked;
    job.head_bytes = matrix_bytes(w);
    job.head_x = (size_t)a;
    job.head_out = (size_t)b;
    job.x_aligned &= a % 4 == 0;
    return linear_run(be, &job);
}

/* A launch, or some, for each matrix. */
static enum status run_panels(struct backend *be, const struct weight *w, struct view x,
                              struct view out, int32_t a, int32_t b)
{
    struct weight one = *w;
    struct buf data = w->data ? *w->data : (struct buf){0};
    one.n_stacked = 0;
    one.data = w->data ? &data : NULL;
    for (int32_t h = 0; h < w->n_stacked; h++) {
        TRY(cuda_linear(be, &one, view_columns(x, h * a, w->k), view_columns(out, h * b, w->n)));
        if (w->data)
            data.data = (char *)data.data + matrix_bytes(w);
    }
    return ST_OK;
}

enum status cuda_heads_linear(struct backend *be, const struct weight *w, struct view x,
                              struct view out)
{
    int32_t n = w->n_stacked, a = x.cols / n, b = out.cols / n;
    assert(n > 0 && w->k_layout.n_slices == 1 && x.rows == out.rows);
    assert(x.cols % n == 0 && a >= w->k && out.cols % n == 0 && b >= w->n);
    return has_panels(w) ? run_panels(be, w, x, out, a, b) : run_floats(be, w, x, out, a, b);
}
