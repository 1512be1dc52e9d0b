#include "worker/load/group_weights.h"

#include <string.h>

#include "backends/exact_math.h"

/* n neighbours behind `before` others of `all`, from `first` on; behind the last comes the first (tiled heads). */
static struct stored_rows in_turn(int32_t before, int32_t all, int32_t first, int32_t n)
{
    if (first + n > all)
        return (struct stored_rows){(size_t)first, 0, (size_t)before, (size_t)all};
    return stored_neighbours((size_t)(before + first));
}

struct stored_rows share_rows(const struct model_config *mc, enum tensor_id id, int32_t first,
                              int32_t n)
{
    struct row_groups g;
    int32_t before;
    if (model_row_groups(mc, id, &g))
        return (struct stored_rows){(size_t)first, (size_t)g.rows, (size_t)g.at, (size_t)g.n};
    model_fused_rows(mc, id, &before);
    return in_turn(before, model_axis(mc, mc->arch->tensor[id].rows), first, n);
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
    int32_t keys = model_axis(mc, AX_DELTA_KEYS), values = model_axis(mc, AX_DELTA_VALUES);
    int32_t k_first = sh->delta.k_first * mc->d_delta_k, k = sh->delta.n_k * mc->d_delta_k;
    int32_t v_first = sh->delta.v_first * mc->d_delta_v, v = sh->delta.n_v * mc->d_delta_v;
    const int32_t n[] = {k, k, v};
    const struct stored_rows from[] = {in_turn(0, keys, k_first, k),
                                       in_turn(keys, keys, k_first, k),
                                       in_turn(2 * keys, values, v_first, v)};
    size_t taps = (size_t)mc->delta_taps, all = (size_t)(2 * k + v), at = 0;
    uint64_t shape[3] = {(uint64_t)(2 * keys + values), 1, taps};
    struct stored_tensor t;
    float *to;
    if (mc->arch->decay_value)
        shape[1] = taps;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_CONV].name, layer, 0,
                      mc->arch->decay_value ? 2 : 3, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, mc->delta_taps * (2 * k + v), copies, &to));
    *n_bytes += (size_t)out->cols * dtype_size(t.dtype);
    for (size_t i = 0; to && i < ARRAY_LEN(n); i++)
        for (size_t c = 0; c < (size_t)n[i]; c++, at++)
            for (size_t tap = 0; tap < taps; tap++) {
                struct share_cut one = {
                    .first = stored_row(&from[i], c) * taps + tap, .step = 1, .rows = 1};
                derive_floats(t.data, t.dtype, &one, to + tap * all + at);
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
    for (int32_t h = 0; !mc->arch->decay_value && h < sh->delta.n_v; h++)
        to[h] = -exact_exp(to[h]);
    return ST_OK;
}
