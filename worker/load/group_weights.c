#include "worker/load/group_weights.h"

#include <string.h>

#include "backends/exact_math.h"

/* n neighbours behind `before` others of `all`, from `first` on; behind the last comes the first (tiled heads). */
static struct stored_rows in_turn(int32_t before, int32_t all, int32_t first, int32_t n)
{
    if (first + n > all)
        return (struct stored_rows){(size_t)first, 0, (size_t)before, (size_t)all, 0};
    return stored_neighbours((size_t)(before + first));
}

struct stored_rows share_rows(const struct model_config *mc, enum tensor_id id, int32_t layer,
                              int32_t first, int32_t n)
{
    struct row_groups g;
    int32_t before;
    if (model_row_groups(mc, id, &g))
        return (struct stored_rows){(size_t)first, (size_t)g.rows, (size_t)g.at, (size_t)g.n, 0};
    model_fused_rows(mc, id, layer, &before);
    if (model_whole_pairs(mc) && (id == TN_Q || id == TN_K))
        return (struct stored_rows){
            .first = (size_t)first, .step = 1, .n = 1, .paired = (size_t)mc->d_head};
    return in_turn(before, model_layer_axis(mc, mc->arch->tensor[id].rows, layer), first, n);
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

/* This rank's channels of q, k and v, in that order, among the stored ones; a Mamba-2 file has x (v), B (k), C (q). */
struct channels {
    int32_t n[3], all; /* all: of the model */
    struct stored_rows from[3];
};

static struct channels own_channels(const struct model_config *mc, const struct shard *sh)
{
    int32_t keys = model_axis(mc, AX_DELTA_KEYS), values = model_axis(mc, AX_DELTA_VALUES);
    int32_t k_first = sh->delta.k_first * mc->d_delta_k, k = sh->delta.n_k * mc->d_delta_k;
    int32_t v_first = sh->delta.v_first * mc->d_delta_v, v = sh->delta.n_v * mc->d_delta_v;
    bool mamba = mc->arch->mamba;
    return (struct channels){.n = {k, k, v},
                             .all = 2 * keys + values,
                             .from = {in_turn(mamba ? values + keys : 0, keys, k_first, k),
                                      in_turn(mamba ? values : keys, keys, k_first, k),
                                      in_turn(mamba ? 0 : 2 * keys, values, v_first, v)}};
}

/* to: [elements][channels of the share] of the stored [channels][elements]. */
static void copy_channels(const struct stored_tensor *t, const struct channels *c, size_t elements,
                          float *to)
{
    size_t all = (size_t)c->n[0] + (size_t)c->n[1] + (size_t)c->n[2], at = 0;
    for (size_t i = 0; i < ARRAY_LEN(c->n); i++)
        for (size_t k = 0; k < (size_t)c->n[i]; k++, at++)
            for (size_t e = 0; e < elements; e++) {
                struct share_cut one = {
                    .first = stored_row(&c->from[i], k) * elements + e, .step = 1, .rows = 1};
                derive_floats(t->data, t->dtype, &one, to + e * all + at);
            }
}

enum status cut_conv(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                     const struct shard *sh, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct channels c = own_channels(mc, sh);
    uint64_t taps = (uint64_t)mc->delta_taps, shape[3] = {(uint64_t)c.all, 1, taps};
    struct stored_tensor t;
    float *to;
    if (mc->arch->decay_value)
        shape[1] = taps;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_CONV].name, layer, 0,
                      mc->arch->decay_value ? 2 : 3, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, mc->delta_taps * (c.n[0] + c.n[1] + c.n[2]), copies, &to));
    *n_bytes += (size_t)out->cols * dtype_size(t.dtype);
    if (to)
        copy_channels(&t, &c, (size_t)taps, to);
    return ST_OK;
}

enum status cut_conv_bias(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                          const struct shard *sh, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct channels c = own_channels(mc, sh);
    uint64_t shape[1] = {(uint64_t)c.all};
    struct stored_tensor t;
    float *to;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_CONV].bias, layer, 0, 1, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, c.n[0] + c.n[1] + c.n[2], copies, &to));
    *n_bytes += (size_t)out->cols * dtype_size(t.dtype);
    if (to)
        copy_channels(&t, &c, 1, to);
    return ST_OK;
}

float decay_of_log(float a_log)
{
    return -exact_exp(a_log);
}

enum status cut_decay(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                      const struct shard *sh, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    uint64_t shape[2] = {(uint64_t)mc->n_delta_v, 1};
    int32_t n_dims = mc->arch->mamba && mc->arch->decay_value ? 2 : 1;
    struct share_cut cut = {
        .first = (size_t)sh->delta.v_first, .step = 1, .rows = (size_t)sh->delta.n_v};
    struct stored_tensor t;
    float *to;
    TRY(loader_tensor(ld, mc->arch->tensor[TN_DELTA_LOG].name, layer, 0, n_dims, shape, &t));
    TRY(check_floats(&t));
    TRY(begin_vector(out, sh->delta.n_v, copies, &to));
    *n_bytes += (size_t)sh->delta.n_v * dtype_size(t.dtype);
    if (!to)
        return ST_OK;
    derive_floats(t.data, t.dtype, &cut, to);
    for (int32_t h = 0; !mc->arch->decay_value && h < sh->delta.n_v; h++)
        to[h] = decay_of_log(to[h]);
    return ST_OK;
}
