/* linear and embed of quantised matrices: jobs, and their room in the scratch memory. */
#include "backends/cuda/quant_kernels.h"

#include <string.h>

static struct quant_matrix matrix_of_sorted(const struct weight *w)
{
    const unsigned char *head = matrix_of(w);
    return (struct quant_matrix){.w = head ? head + w->sorted.head_bytes : NULL,
                                 .head = head,
                                 .sorted = w->sorted,
                                 .panel_bytes = w->sorted.panel_bytes,
                                 .form = w->sorted.bits + QUANT_SORTED,
                                 .halves = 1,
                                 .n = w->n,
                                 .k = w->k};
}

static struct quant_matrix matrix_of_quant(const struct weight *w)
{
    const struct quant_type *q = w->quant;
    if (w->sorted.bits)
        return matrix_of_sorted(w);
    struct quant_matrix m = {.w = matrix_of(w),
                             .at = w->place,
                             .panel_bytes = w->place.panel_bytes,
                             .form = q->bits,
                             .halves = q->halves,
                             .low = q->low,
                             .bf16 = q->bf16,
                             .minimum = q->minimum,
                             .sub = q->sub,
                             .has_values = q->values != NULL,
                             .n = w->n,
                             .k = w->k};
    if (q->values)
        memcpy(m.values, q->values, sizeof m.values);
    return m;
}

static struct quant_slices slices_of(const struct weight *w)
{
    const struct k_layout *k = &w->k_layout;
    struct quant_slices s = {.n_slices = k->n_slices, .skip = w->skip % QUANT_GROUP};
    if (w->sorted.bits) {
        s.x_at[k->n_slices] = w->sorted.n_chunks;
        return s;
    }
    for (int i = 0; i < k->n_slices; i++) {
        int32_t begin = k->col[i], end = k->col[i + 1];
        int32_t first = (int32_t)(((int64_t)begin + s.skip) / QUANT_GROUP);
        int32_t last = (int32_t)(((int64_t)end + s.skip - 1) / QUANT_GROUP);
        s.end[i] = end;
        s.first[i] = first;
        s.x_at[i + 1] = s.x_at[i] + (begin < end ? last + 1 - first : 0);
    }
    return s;
}

struct quant_job quant_job_of(const struct weight *w, struct view x, struct view out)
{
    return (struct quant_job){.m = matrix_of_quant(w),
                              .s = slices_of(w),
                              .n_tokens = x.rows,
                              .bias = bias_of(w),
                              .x = view_f32(x),
                              .x_stride = (size_t)x.stride,
                              .out = view_f32(out),
                              .out_stride = (size_t)out.stride};
}

static enum status run(struct backend *be, const struct quant_job *job)
{
    TRY(quant_pack(be, job));
    return job->n_tokens <= QUANT_ROWS_MAX ? quant_rows(be, job) : quant_tiles(be, job);
}

enum status cuda_linear_quant(struct backend *be, const struct weight *w, struct view x,
                              struct view out)
{
    struct quant_job job = quant_job_of(w, x, out);
    job.packed = be->scratch->data;
    size_t row = (size_t)job.s.x_at[job.s.n_slices] * QUANT_RECORD;
    int32_t most = x.rows;
    if (row > 0 && be->scratch->bytes / row < (size_t)most)
        most = (int32_t)(be->scratch->bytes / row);
    if (most == 0)
        FAIL(ST_UNSUPPORTED,
             "a product over %d columns: the CUDA backend's scratch memory of %d MiB holds no row",
             w->k, (int)(be->scratch->bytes >> 20));
    for (int32_t left = x.rows; left > 0; left -= job.n_tokens) {
        job.n_tokens = left < most ? left : most;
        TRY(run(be, &job));
        job.x += (size_t)job.n_tokens * job.x_stride;
        job.out += (size_t)job.n_tokens * job.out_stride;
    }
    return ST_OK;
}

enum status cuda_embed_quant(struct backend *be, const struct weight *table, int32_t first_id,
                             struct view ids, struct view out)
{
    struct quant_matrix m = matrix_of_quant(table);
    return quant_embed(be, &m, table->skip % QUANT_GROUP, first_id, ids, out);
}
