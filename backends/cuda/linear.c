/* linear: which of the kernels computes a product. */
#include "backends/cuda/linear_kernels.h"
#include "backends/cuda/linear_lt.h"
#include "backends/cuda/operand.h"

/* Blocks of tokens are multiples of the first where they can be, else of the second, as fragments are. */
enum { TOKEN_TILE = 128, FRAGMENT = 16 };

static bool starts_aligned(const struct linear_job *job)
{
    bool all = (uintptr_t)job->x % 16 == 0 && job->x_stride % 4 == 0;
    for (int i = 0; i < job->k.n_slices; i++)
        all &= job->k.col[i] % 4 == 0;
    return all;
}

struct linear_job linear_job_of(const struct weight *w, struct view x, struct view out)
{
    struct linear_job job = {.n_tokens = x.rows,
                             .n = w->n,
                             .dtype = w->dtype,
                             .w = matrix_of(w),
                             .bias = bias_of(w),
                             .k = w->k_layout,
                             .x = x.reader ? NULL : view_f32(x),
                             .x_stride = (size_t)x.stride,
                             .out = view_f32(out),
                             .out_stride = (size_t)out.stride,
                             .n_heads = 1};
    job.x_aligned = starts_aligned(&job);
    return job;
}

/* Gives the job its places in the scratch memory: how many tokens they hold, 0 for less than it needs. */
static int32_t take_scratch(const struct backend *be, struct linear_job *job)
{
    size_t row = (size_t)job->k.at[job->k.n_slices] * sizeof *job->packed;
    size_t scales = (size_t)job->k.seg[job->k.n_slices] * sizeof *job->unscale;
    size_t sums = linear_sums_bytes(be), tokens = INT32_MAX / 2, heads = (size_t)job->n_heads;
    char *at = be->scratch->data;
    assert(sums < be->scratch->bytes);
    if (row > 0)
        tokens = (be->scratch->bytes - sums) / ((row + scales) * heads);
    if (heads > 1 && tokens < FRAGMENT)
        return 0;
    if (tokens > FRAGMENT)
        tokens -= tokens % (tokens > TOKEN_TILE ? TOKEN_TILE : FRAGMENT);
    job->sums = (float *)(void *)at;
    job->packed = (uint16_t *)(void *)(at + sums);
    job->unscale = (float *)(void *)(at + sums + heads * tokens * row);
    return (int32_t)tokens;
}

static enum status run_packed(struct backend *be, const struct linear_job *job)
{
    bool rows = job->n_tokens <= ROWS_MAX;
    if (job->n_heads > 1) {
        TRY(linear_pack_fragments(be, job));
        return linear_heads_tiles(be, job);
    }
    if (!rows && !(be->lt && job->dtype == DT_BF16 && job->k.at[job->k.n_slices] > 0)) {
        TRY(linear_pack_fragments(be, job));
        return linear_tiles(be, job);
    }
    TRY(linear_pack(be, job));
    return rows ? linear_rows(be, job) : lt_linear(be, be->lt, job);
}

/* In blocks of tokens: rows are alone, so the borders do not show. */
static enum status run_blocks(struct backend *be, struct linear_job job)
{
    int32_t left = job.n_tokens, most = take_scratch(be, &job);
    if (most == 0)
        FAIL(ST_UNSUPPORTED,
             "a product over %d columns: the CUDA backend's scratch memory of %d "
             "MiB holds too few rows",
             job.k.col[job.k.n_slices], (int)(be->scratch->bytes >> 20));
    for (; left > 0; left -= job.n_tokens) {
        job.n_tokens = left < most ? left : most;
        TRY(run_packed(be, &job));
        job.x += (size_t)job.n_tokens * job.x_stride;
        job.out += (size_t)job.n_tokens * job.out_stride;
    }
    return ST_OK;
}

enum status linear_run(struct backend *be, const struct linear_job *job)
{
    if (job->dtype == DT_F32)
        return linear_f32(be, job);
    if (job->n_tokens > ROWS_MAX_X32)
        return run_blocks(be, *job);
    return job->n_heads > 1 ? linear_heads_rows(be, job) : linear_rows_x32(be, job);
}

/* The job's x is an operand. */
static void take_operand(const struct backend *be, struct linear_job *job, const struct weight *w,
                         struct view x)
{
    struct operand o = operand_of(be, x);
    assert(operand_fits(w, x.reader));
    (void)w;
    job->packed = o.packed;
    job->unscale = o.unscale;
    job->sums = (float *)be->scratch->data;
}

static enum status run_operand(struct backend *be, const struct weight *w, struct view x,
                               struct view out)
{
    struct linear_job job = linear_job_of(w, x, out);
    take_operand(be, &job, w, x);
    if (job.n_tokens <= ROWS_MAX)
        return linear_rows(be, &job);
    return be->lt && job.dtype == DT_BF16 ? lt_linear(be, be->lt, &job) : linear_tiles(be, &job);
}

/* Each part's rows of the matrix are columns of out. */
static enum status run_parts(struct backend *be, const struct weight *w, struct view x,
                             struct view out)
{
    for (int32_t i = 0; i < w->n_parts; i++) {
        out.cols = w->part[i]->n;
        TRY(cuda_linear(be, w->part[i], x, out));
        out.off += (size_t)out.cols * sizeof(float);
    }
    return ST_OK;
}

enum status cuda_linear(struct backend *be, const struct weight *w, struct view x, struct view out)
{
    assert(!w->vector && !w->n_stacked && x.cols == w->k && out.cols == w->n && x.rows == out.rows);
    struct linear_job job;
    if (x.rows == 0 || w->n == 0)
        return ST_OK;
    if (x.reader)
        return run_operand(be, w, x, out);
    if (w->n_parts > 0)
        return run_parts(be, w, x, out);
    if (is_quantised(w))
        return cuda_linear_quant(be, w, x, out);
    if (w->scaled.kind != SCALED_NONE)
        return cuda_linear_scaled(be, w, x, out);
    job = linear_job_of(w, x, out);
    return linear_run(be, &job);
}

/* In one kernel: few rows of an operand, and an output of single elements. */
static bool has_hidden_rows(const struct weight *w, struct view x, struct view out)
{
    return x.reader && w->dtype == DT_BF16 && x.rows > 0 && x.rows <= ROWS_MAX && w->n > 0 &&
           (!out.reader || operand_by_element(out.reader));
}

enum status cuda_linear_act_mul(struct backend *be, enum act act, const struct weight *w,
                                struct view x, struct view mid, struct view out)
{
    assert(w->n == 2 * out.cols && mid.cols == w->n && x.cols == w->k);
    assert(mid.rows == x.rows && out.rows == x.rows);
    if (!has_hidden_rows(w, x, out)) {
        TRY(cuda_linear(be, w, x, mid));
        return cuda_act_mul(be, act, mid, out);
    }
    struct operand to = {0};
    struct linear_job job = linear_job_of(w, x, mid);
    take_operand(be, &job, w, x);
    job.out = out.reader ? NULL : view_f32(out);
    job.out_stride = (size_t)out.stride;
    if (out.reader)
        to = operand_of(be, out);
    return linear_hidden_rows(be, &job, act, &to);
}
