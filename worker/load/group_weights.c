#include "worker/load/group_weights.h"

#include <string.h>

#include "backends/exact_math.h"

struct stored_rows share_rows(const struct model_config *mc, enum tensor_id id, int32_t first)
{
    struct row_groups g;
    int32_t before;
    if (model_row_groups(mc, id, &g))
        return (struct stored_rows){(size_t)first, (size_t)g.rows, (size_t)g.at, (size_t)g.n};
    model_fused_rows(mc, id, &before);
    return stored_neighbours((size_t)(before + first));
}

enum status copy_rows(struct copies *copies, const unsigned char *stored,
                      const struct stored_rows *rows, struct weight_part *p)
{
    void *to;
    if (copies->sizes_only)
        return ST_OK;
    TRY(copies_take(copies, (size_t)p->rows * p->row_bytes, &to));
    for (size_t r = 0; r < (size_t)p->rows; r++)
        memcpy((unsigned char *)to + r * p->row_bytes, stored + stored_row(rows, r) * p->row_bytes,
               p->row_bytes);
    p->data = to;
    return ST_OK;
}

/* A vector of n floats, in copies; *to is NULL where sizes alone are wanted. */
static enum status begin_vector(struct weight_src *out, int32_t n, struct copies *copies,
                                float **to)
{
    void *data = NULL;
    if (!copies->sizes_only)
        TRY(copies_take(copies, (size_t)n * sizeof(float), &data));
    *to = data;
    out->vector = true;
    out->n_parts = 1;
    out->cols = n;
    out->n_slices = 1;
    out->slice_end[0] = n;
    out->part[0] = (struct weight_part){
        .data = data, .row_bytes = (size_t)n * sizeof(float), .dtype = DT_F32, .rows = 1};
    return ST_OK;
}

static enum status check_floats(const struct stored_tensor *t)
{
    if (dtype_size(t->dtype) < 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported here", t->name, t->type_name);
    return ST_OK;
}

enum status cut_conv(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                     const struct shard *sh, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    int32_t keys = model_axis(mc, AX_DELTA_KEYS), taps = mc->delta_taps, at = 0;
    int32_t k_first = sh->delta.k_first * mc->d_delta_k, k = sh->delta.n_k * mc->d_delta_k;
    int32_t v_first = sh->delta.v_first * mc->d_delta_v, v = sh->delta.n_v * mc->d_delta_v;
    const int32_t first[] = {k_first, keys + k_first, 2 * keys + v_first}, n[] = {k, k, v};
    uint64_t shape[3] = {(uint64_t)(2 * keys + model_axis(mc, AX_DELTA_VALUES)), 1, (uint64_t)taps};
    struct stored_tensor t;
    float *to;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_CONV].name, layer, 0, 3, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, taps * (2 * k + v), copies, &to));
    *n_bytes += (size_t)out->cols * dtype_size(t.dtype);
    for (size_t i = 0; to && i < ARRAY_LEN(n); at += n[i++])
        for (int32_t tap = 0; tap < taps; tap++) {
            struct share_cut cut = {.first = (size_t)(first[i] * taps + tap),
                                    .step = (size_t)taps,
                                    .rows = (size_t)n[i]};
            derive_floats(t.data, t.dtype, &cut, to + (size_t)tap * (size_t)(2 * k + v) + at);
        }
    return ST_OK;
}

enum status cut_decay(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                      const struct shard *sh, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    uint64_t shape[1] = {(uint64_t)mc->n_delta_v};
    struct share_cut cut = {
        .first = (size_t)sh->delta.v_first, .step = 1, .rows = (size_t)sh->delta.n_v};
    struct stored_tensor t;
    float *to;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_LOG].name, layer, 0, 1, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, sh->delta.n_v, copies, &to));
    *n_bytes += (size_t)sh->delta.n_v * dtype_size(t.dtype);
    if (!to)
        return ST_OK;
    derive_floats(t.data, t.dtype, &cut, to);
    for (int32_t h = 0; h < sh->delta.n_v; h++)
        to[h] = -exact_exp(to[h]);
    return ST_OK;
}
