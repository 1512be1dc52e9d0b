#include "worker/load/weights.h"

#include <string.h>

#include "common/quant.h"

static const struct weight_rule {
    const char *name;
    bool per_layer, is_bias; /* is_bias: the tensor's bias, as a vector of its own */
    int32_t n_parts;
    enum tensor_id part[3];
} rules[W_N] = {
    [W_EMBED] = {"embedding", false, false, 1, {TN_EMBED}},
    [W_ATTN_NORM] = {"attention norm", true, false, 1, {TN_ATTN_NORM}},
    [W_QKV] = {"qkv", true, false, 3, {TN_Q, TN_K, TN_V}},
    [W_Q_NORM] = {"q norm", true, false, 1, {TN_Q_NORM}},
    [W_K_NORM] = {"k norm", true, false, 1, {TN_K_NORM}},
    [W_O] = {"attention output", true, false, 1, {TN_O}},
    [W_O_BIAS] = {"attention output bias", true, true, 1, {TN_O}},
    [W_FFN_NORM] = {"feed-forward norm", true, false, 1, {TN_FFN_NORM}},
    [W_GATE_UP] = {"gate and up", true, false, 2, {TN_GATE, TN_UP}},
    [W_DOWN] = {"down", true, false, 1, {TN_DOWN}},
    [W_DOWN_BIAS] = {"down bias", true, true, 1, {TN_DOWN}},
    [W_FINAL_NORM] = {"final norm", false, false, 1, {TN_FINAL_NORM}},
    [W_HEAD] = {"head", false, false, 1, {TN_HEAD}},
};

struct range {
    int32_t first, n;
};

/* This rank's part of an axis. */
static struct range share(const struct model_config *mc, const struct shard *sh, enum axis ax)
{
    switch (ax) {
    case AX_Q:
        return (struct range){sh->q_first * mc->d_head, sh->n_q * mc->d_head};
    case AX_KV:
        return (struct range){sh->kv_first * mc->d_head, sh->n_kv * mc->d_head};
    case AX_FFN:
        return (struct range){sh->ffn_first, sh->n_ffn};
    case AX_VOCAB:
        return (struct range){sh->vocab.first_id, sh->vocab.n_cols};
    default:
        return (struct range){0, model_axis(mc, ax)};
    }
}

bool weight_in_model(const struct model_config *mc, enum weight_id id)
{
    const struct weight_rule *r = &rules[id];
    return r->is_bias ? model_has_bias(mc, r->part[0]) : model_has(mc, r->part[0]);
}

bool weight_per_layer(enum weight_id id)
{
    return rules[id].per_layer;
}

/* The slices of K: those of the axis where ranks share it, else one. */
static void set_slices(struct weight_src *w, const struct shard *sh, enum axis cols, int32_t d_head)
{
    w->n_slices = 1;
    w->slice_end[0] = w->cols;
    if (cols != AX_Q && cols != AX_FFN)
        return;
    w->n_slices = sh->n_slices;
    for (int32_t i = 0; i < sh->n_slices; i++)
        w->slice_end[i] = cols == AX_Q ? sh->attn_slice_end[i] * d_head : sh->ffn_slice_end[i];
}

static enum status cut_bias(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                            const struct tensor_rule *rule, int32_t layer, struct range rows)
{
    uint64_t shape[1] = {(uint64_t)model_axis(loader_config(ld), rule->rows)};
    struct stored_tensor t;
    TRY(loader_tensor(ld, rule->bias, layer, 1, shape, &t));
    p->bias = t.data + (size_t)rows.first * dtype_size(t.dtype);
    p->bias_dtype = t.dtype;
    *n_bytes += (size_t)rows.n * dtype_size(t.dtype);
    return ST_OK;
}

/* What a row is made of: an element, or a block of them. */
struct unit {
    size_t elements, bytes;
};

static struct unit unit_of(enum dtype t)
{
    const struct quant_form *f = quant_form(t);
    return f ? (struct unit){(size_t)f->block, (size_t)f->n_bytes}
             : (struct unit){1, dtype_size(t)};
}

/* Bytes of a row's whole units that hold the part's columns. */
static size_t span_bytes(const struct weight_part *p, int32_t cols)
{
    const struct unit u = unit_of(p->dtype);
    return cols ? ((size_t)p->skip + (size_t)cols + u.elements - 1) / u.elements * u.bytes : 0;
}

static enum status cut_matrix(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                              const struct tensor_rule *rule, int32_t layer, struct range rows,
                              struct range cols)
{
    const struct model_config *mc = loader_config(ld);
    uint64_t shape[2] = {(uint64_t)model_axis(mc, rule->rows),
                         (uint64_t)model_axis(mc, rule->cols)};
    bool vector = rule->rows == AX_ONE;
    struct stored_tensor t;
    TRY(loader_tensor(ld, rule->name, layer, vector ? 1 : 2, vector ? shape + 1 : shape, &t));
    const struct unit u = unit_of(t.dtype);
    size_t first = (size_t)cols.first / u.elements;
    p->row_bytes = t.n_bytes / (size_t)shape[0]; /* shape times type is the tensor's checked size */
    p->data = t.data + (size_t)rows.first * p->row_bytes + first * u.bytes;
    p->skip = (int32_t)((size_t)cols.first % u.elements);
    p->dtype = t.dtype;
    p->rows = rows.n;
    *n_bytes += (size_t)rows.n * span_bytes(p, cols.n);
    return ST_OK;
}

/* The bias of a row-parallel matrix: a whole vector [D] on every rank. */
static enum status cut_bias_vector(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                   const struct tensor_rule *rule, int32_t layer)
{
    struct weight_part *p = &out->part[0];
    out->vector = true;
    out->cols = model_axis(loader_config(ld), rule->rows);
    out->n_slices = 1;
    out->slice_end[0] = out->cols;
    TRY(cut_bias(p, n_bytes, ld, rule, layer, (struct range){0, out->cols}));
    *p = (struct weight_part){.data = p->bias,
                              .dtype = p->bias_dtype,
                              .rows = 1,
                              .row_bytes = (size_t)out->cols * dtype_size(p->bias_dtype)};
    return ST_OK;
}

enum status weight_cut(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                       const struct shard *sh, enum weight_id id, int32_t layer)
{
    const struct model_config *mc = loader_config(ld);
    const struct weight_rule *r = &rules[id];
    const struct tensor_rule *first = &mc->arch->tensor[r->part[0]];
    memset(out, 0, sizeof *out);
    *n_bytes = 0;
    out->name = r->name;
    out->n_parts = r->n_parts;
    if (r->is_bias)
        return cut_bias_vector(out, n_bytes, ld, first, layer);

    struct range cols = share(mc, sh, first->cols);
    out->vector = first->rows == AX_ONE;
    out->cols = cols.n;
    set_slices(out, sh, first->cols, mc->d_head);
    for (int32_t i = 0; i < r->n_parts; i++) {
        enum tensor_id tn = r->part[i];
        const struct tensor_rule *rule = &mc->arch->tensor[tn];
        struct range rows = share(mc, sh, rule->rows);
        TRY(cut_matrix(&out->part[i], n_bytes, ld, rule, layer, rows, cols));
        /* a bias along a cut axis belongs to the rows; one along D is added once, see W_O_BIAS */
        if (model_has_bias(mc, tn) && rule->rows != AX_HIDDEN)
            TRY(cut_bias(&out->part[i], n_bytes, ld, rule, layer, rows));
    }
    return ST_OK;
}

enum status weights_each(struct loader *ld, const struct shard *sh,
                         enum status (*visit)(void *ctx, enum weight_id id, int32_t layer,
                                              const struct weight_src *src, size_t n_bytes),
                         void *ctx)
{
    const struct model_config *mc = loader_config(ld);
    for (int32_t layer = 0; layer < mc->n_layers; layer++) {
        for (int i = 0; i < W_N; i++) {
            enum weight_id id = (enum weight_id)i;
            int32_t at = id == W_EMBED ? 0 : mc->n_layers - 1;
            struct weight_src src;
            size_t n_bytes;
            if (!weight_in_model(mc, id) || (!rules[id].per_layer && layer != at))
                continue;
            TRY(weight_cut(&src, &n_bytes, ld, sh, id, layer));
            TRY(visit(ctx, id, layer, &src, n_bytes));
        }
    }
    return ST_OK;
}

void weight_will_read(const struct weight_src *src)
{
    for (int32_t i = 0; i < src->n_parts; i++) {
        const struct weight_part *p = &src->part[i];
        if (p->rows > 0 && src->cols > 0)
            loader_will_read(p->data,
                             (size_t)(p->rows - 1) * p->row_bytes + span_bytes(p, src->cols));
    }
}
