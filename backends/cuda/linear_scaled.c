/* linear and embed of matrices with scales in f32: jobs. */
#include "backends/cuda/scaled_kernels.h"

#include <string.h>

static struct scaled_matrix matrix_of_scaled(const struct weight *w)
{
    struct scaled_matrix m = {.w = matrix_of(w), .at = w->scaled, .n = w->n, .k = w->k};
    const float *levels = dtype_levels(w->dtype);
    if (levels)
        memcpy(m.levels, levels, sizeof m.levels);
    return m;
}

struct scaled_job scaled_job_of(const struct weight *w, struct view x, struct view out)
{
    struct scaled_job job = {.m = matrix_of_scaled(w),
                             .n_slices = w->k_layout.n_slices,
                             .n_tokens = x.rows,
                             .bias = bias_of(w),
                             .x = view_f32(x),
                             .x_stride = (size_t)x.stride,
                             .out = view_f32(out),
                             .out_stride = (size_t)out.stride};
    memcpy(job.end, w->k_layout.col + 1, sizeof job.end);
    return job;
}

enum status cuda_linear_scaled(struct backend *be, const struct weight *w, struct view x,
                               struct view out)
{
    struct scaled_job job = scaled_job_of(w, x, out);
    return scaled_linear(be, &job);
}

enum status cuda_embed_scaled(struct backend *be, const struct weight *table, int32_t first_id,
                              struct view ids, struct view out)
{
    struct scaled_matrix m = matrix_of_scaled(table);
    return scaled_embed(be, &m, first_id, ids, out);
}
