/* linear and embed of matrices with scales in f32: jobs, and their room in the scratch memory. */
#include "backends/cuda/scaled_kernels.h"

#include <string.h>

enum { TOKEN_TILE = 128 }; /* blocks of tokens are multiples of this where they can be */

static struct scaled_matrix matrix_of_scaled(const struct weight *w)
{
    struct scaled_matrix m = {.w = matrix_of(w), .at = w->scaled, .n = w->n, .k = w->k};
    const float *levels = dtype_levels(w->dtype);
    if (levels)
        memcpy(m.levels, levels, sizeof m.levels);
    for (int i = 0; levels && i < 16; i++) {
        uint32_t half = f16_of_f32(levels[i]);
        m.level_bytes[i / 4] |= (half & 255U) << i % 4 * 8;
        m.level_bytes[4 + i / 4] |= half >> 8 << i % 4 * 8;
    }
    return m;
}

struct scaled_job scaled_job_of(const struct weight *w, struct view x, struct view out)
{
    return (struct scaled_job){.m = matrix_of_scaled(w),
                               .k = w->k_layout,
                               .n_tokens = x.rows,
                               .bias = bias_of(w),
                               .x = view_f32(x),
                               .x_stride = (size_t)x.stride,
                               .out = view_f32(out),
                               .out_stride = (size_t)out.stride};
}

/* Gives the job its places in the scratch memory: how many tokens they hold, at most all. */
static int32_t take_scratch(const struct backend *be, struct scaled_job *job)
{
    size_t n_slices = (size_t)job->k.n_slices, T = (size_t)job->n_tokens;
    size_t part = n_slices > 1 ? n_slices * (size_t)job->m.n * sizeof *job->part : 0;
    size_t unscale = (size_t)job->k.seg[n_slices] * sizeof *job->unscale;
    size_t row = (size_t)job->k.at[n_slices] * sizeof *job->packed;
    size_t token = part + unscale + row;
    if (token > 0 && be->scratch->bytes / token < T)
        T = be->scratch->bytes / token;
    if (T > TOKEN_TILE && T < (size_t)job->n_tokens)
        T -= T % TOKEN_TILE;
    char *at = be->scratch->data;
    job->packed = (uint16_t *)(void *)at; /* a multiple of 128 bytes */
    job->part = (float *)(void *)(at + T * row);
    job->unscale = (float *)(void *)(at + T * (row + part));
    return (int32_t)T;
}

/* In blocks of tokens: rows are alone, so the borders do not show. */
static enum status run_blocks(struct backend *be, struct scaled_job job)
{
    int32_t left = job.n_tokens, most = take_scratch(be, &job);
    if (most == 0)
        FAIL(ST_UNSUPPORTED,
             "a product over %d columns: the CUDA backend's scratch memory of %d MiB holds no row",
             job.m.k, (int)(be->scratch->bytes >> 20));
    for (; left > 0; left -= job.n_tokens) {
        job.n_tokens = left < most ? left : most;
        TRY(scaled_pack(be, &job));
        TRY(job.n_tokens <= SCALED_ROWS_MAX ? scaled_rows(be, &job) : scaled_tiles(be, &job));
        job.x += (size_t)job.n_tokens * job.x_stride;
        job.out += (size_t)job.n_tokens * job.out_stride;
    }
    return ST_OK;
}

enum status cuda_linear_scaled(struct backend *be, const struct weight *w, struct view x,
                               struct view out)
{
    struct scaled_job job = scaled_job_of(w, x, out);
    return w->scaled.mma ? run_blocks(be, job) : scaled_linear(be, &job);
}

enum status cuda_embed_scaled(struct backend *be, const struct weight *table, int32_t first_id,
                              struct view ids, struct view out)
{
    struct scaled_matrix m = matrix_of_scaled(table);
    return scaled_embed(be, &m, &table->k_layout, first_id, ids, out);
}
