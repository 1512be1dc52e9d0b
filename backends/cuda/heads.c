/* heads_linear: a product for each matrix of a stack, by linear's kernels. */
#include "backends/cuda/cuda_backend.h"

/* Bytes from a matrix of a stack to the next. */
static size_t matrix_bytes(const struct weight *w)
{
    if (has_panels(w))
        return (size_t)w->n_pad / QUANT_PANEL * panel_bytes_of(w);
    return (size_t)w->n_pad * (size_t)w->k_pad * dtype_size(w->dtype);
}

enum status cuda_heads_linear(struct backend *be, const struct weight *w, struct view x,
                              struct view out)
{
    int32_t n = w->n_stacked, a = x.cols / n, b = out.cols / n;
    assert(n > 0 && w->k_layout.n_slices == 1 && x.rows == out.rows);
    assert(x.cols % n == 0 && a >= w->k && out.cols % n == 0 && b >= w->n);
    struct weight one = *w;
    struct buf data = w->data ? *w->data : (struct buf){0};
    one.n_stacked = 0;
    one.data = w->data ? &data : NULL;
    for (int32_t h = 0; h < n; h++) {
        TRY(cuda_linear(be, &one, view_columns(x, h * a, w->k), view_columns(out, h * b, w->n)));
        if (w->data)
            data.data = (char *)data.data + matrix_bytes(w);
    }
    return ST_OK;
}
