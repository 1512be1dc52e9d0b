#include "worker/load/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"
#include "worker/load/axis_share.h"
#include "worker/load/derive.h"
#include "worker/load/derive_fp4.h"
#include "worker/load/derive_fp8.h"
#include "worker/load/derive_ints.h"
#include "worker/load/group_weights.h"
#include "worker/load/head_weights.h"
#include "worker/load/input_rules.h"
#include "worker/load/rel_bias.h"

static const struct weight_rule {
    const char *name;
    bool per_layer, is_bias; /* is_bias: the tensor's bias, as a vector of its own */
    bool is_stack;           /* one for each expert, query head, or residual stream but the first */
    int32_t n_parts;
    enum tensor_id part[3];
} rules[W_N] = {
    [W_EMBED] = {"embedding", false, false, false, 1, {TN_EMBED}},
    [W_ATTN_NORM] = {"attention norm", true, false, false, 1, {TN_ATTN_NORM}},
    [W_QKV] = {"qkv", true, false, false, 3, {TN_Q, TN_K, TN_V}},
    [W_Q_NORM] = {"q norm", true, false, false, 1, {TN_Q_NORM}},
    [W_K_NORM] = {"k norm", true, false, false, 1, {TN_K_NORM}},
    [W_O] = {"attention output", true, false, false, 1, {TN_O}},
    [W_O_BIAS] = {"attention output bias", true, true, false, 1, {TN_O}},
    [W_POST_ATTN_NORM] = {"norm behind attention", true, false, false, 1, {TN_POST_ATTN_NORM}},
    [W_FFN_NORM] = {"feed-forward norm", true, false, false, 1, {TN_FFN_NORM}},
    [W_GATE_UP] = {"gate and up", true, false, false, 2, {TN_GATE, TN_UP}},
    [W_DOWN] = {"down", true, false, false, 1, {TN_DOWN}},
    [W_DOWN_BIAS] = {"down bias", true, true, false, 1, {TN_DOWN}},
    [W_ROUTER] = {"router", true, false, false, 1, {TN_ROUTER}},
    [W_EXPERTS_GATE_UP] =
        {"experts' gate and up", true, false, true, 2, {TN_EXPERT_GATE, TN_EXPERT_UP}},
    [W_EXPERTS_DOWN] = {"experts' down", true, false, true, 1, {TN_EXPERT_DOWN}},
    [W_POST_FFN_NORM] = {"norm behind the feed-forward", true, false, false, 1, {TN_POST_FFN_NORM}},
    [W_FINAL_NORM] = {"final norm", false, false, false, 1, {TN_FINAL_NORM}},
    [W_HEAD] = {"head", false, false, false, 1, {TN_HEAD}},
    [W_ATTN_NORM_BIAS] = {"attention norm's bias", true, true, false, 1, {TN_ATTN_NORM}},
    [W_FFN_NORM_BIAS] = {"feed-forward norm's bias", true, true, false, 1, {TN_FFN_NORM}},
    [W_FINAL_NORM_BIAS] = {"final norm's bias", false, true, false, 1, {TN_FINAL_NORM}},
    [W_UP] = {"up", true, false, false, 1, {TN_UP}},
    [W_ROUTER_BIAS] = {"router's bias", true, false, false, 1, {TN_ROUTER_BIAS}},
    [W_SHARED_GATE_UP] =
        {"shared expert's gate and up", true, false, false, 2, {TN_SHARED_GATE, TN_SHARED_UP}},
    [W_SHARED_DOWN] = {"shared expert's down", true, false, false, 1, {TN_SHARED_DOWN}},
    [W_SHARED_SCALE] = {"shared expert's weight", true, false, false, 1, {TN_SHARED_SCALE}},
    [W_SINKS] = {"sinks", true, false, false, 1, {TN_SINKS}},
    [W_REL_BIAS] = {"biases of distances", false, false, false, 1, {TN_REL_BIAS}},
    [W_EXPERTS_BIAS] = {"experts' biases", true, true, false, 2, {TN_EXPERT_GATE, TN_EXPERT_UP}},
    [W_EXPERTS_DOWN_BIAS] = {"experts' biases behind down", true, true, false, 1, {TN_EXPERT_DOWN}},
    [W_Q] = {"queries", true, false, false, 1, {TN_Q}},
    [W_Q_A] = {"queries' latent", true, false, false, 1, {TN_Q_A}},
    [W_Q_A_NORM] = {"norm of the queries' latent", true, false, false, 1, {TN_Q_A_NORM}},
    [W_Q_B] = {"queries of their latent", true, false, false, 1, {TN_Q_B}},
    [W_KV_A] = {"latent of keys and values", true, false, false, 1, {TN_KV_A}},
    [W_KV_A_NORM] = {"norm of the latent", true, false, false, 1, {TN_KV_A_NORM}},
    [W_K_B] = {"keys of the latent", true, false, true, 1, {TN_K_B}},
    [W_V_B] = {"values of the latent", true, false, true, 1, {TN_V_B}},
    [W_TYPES] = {"token types", false, false, false, 1, {TN_TYPES}},
    [W_POSITIONS] = {"positions", false, false, false, 1, {TN_POSITIONS}},
    [W_EMBED_NORM] = {"embedding's norm", false, false, false, 1, {TN_EMBED_NORM}},
    [W_EMBED_NORM_BIAS] = {"embedding norm's bias", false, true, false, 1, {TN_EMBED_NORM}},
    [W_Q_GATE] = {"attention's gates", true, false, false, 1, {TN_Q_GATE}},
    [W_DELTA_QKV] =
        {"delta net's qkv", true, false, false, 3, {TN_DELTA_Q, TN_DELTA_K, TN_DELTA_V}},
    [W_DELTA_Z] = {"delta net's gates", true, false, false, 1, {TN_DELTA_Z}},
    [W_DELTA_BA] = {"delta net's b and a", true, false, false, 2, {TN_DELTA_B, TN_DELTA_A}},
    [W_DELTA_CONV] = {"delta net's convolution", true, false, false, 1, {TN_DELTA_CONV}},
    [W_DELTA_DECAY] = {"delta net's decay", true, false, false, 1, {TN_DELTA_LOG}},
    [W_DELTA_DT] = {"delta net's dt", true, false, false, 1, {TN_DELTA_DT}},
    [W_DELTA_NORM] = {"delta net's norm", true, false, false, 1, {TN_DELTA_NORM}},
    [W_DELTA_OUT] = {"delta net's output", true, false, false, 1, {TN_DELTA_OUT}},
    [W_DELTA_STEP] = {"Mamba's steps", true, false, false, 1, {TN_DELTA_A}},
    [W_DELTA_CONV_BIAS] = {"convolution's bias", true, true, false, 1, {TN_DELTA_CONV}},
    [W_DELTA_SKIP] = {"Mamba's D", true, false, false, 1, {TN_DELTA_SKIP}},
    [W_GLOBAL_QKV] = {"global qkv", true, false, false, 3, {TN_GLOBAL_Q, TN_GLOBAL_K, TN_GLOBAL_V}},
    [W_GLOBAL_QK] = {"global q and k", true, false, false, 2, {TN_GLOBAL_Q, TN_GLOBAL_K}},
    [W_GLOBAL_Q_NORM] = {"global q norm", true, false, false, 1, {TN_GLOBAL_Q_NORM}},
    [W_GLOBAL_K_NORM] = {"global k norm", true, false, false, 1, {TN_GLOBAL_K_NORM}},
    [W_GLOBAL_O] = {"global attention output", true, false, false, 1, {TN_GLOBAL_O}},
    [W_GLOBAL_O_BIAS] = {"global attention output bias", true, true, false, 1, {TN_GLOBAL_O}},
    [W_LAYER_SCALE] = {"layer's factor", true, false, false, 1, {TN_LAYER_SCALE}},
    [W_GLOBAL_Q] = {"global queries", true, false, false, 1, {TN_GLOBAL_Q}},
    [W_INPUT_EMBED] = {"layers' inputs", false, false, false, 1, {TN_INPUT_EMBED}},
    [W_INPUT_PROJ] = {"layers' inputs of the embedding", false, false, false, 1, {TN_INPUT_PROJ}},
    [W_INPUT_PROJ_NORM] = {"norm of these", false, false, false, 1, {TN_INPUT_PROJ_NORM}},
    [W_INPUT_GATE] = {"gate of the layer's input", true, false, false, 1, {TN_INPUT_GATE}},
    [W_INPUT_OUT] = {"output of the layer's input", true, false, false, 1, {TN_INPUT_OUT}},
    [W_INPUT_NORM] = {"norm behind it", true, false, false, 1, {TN_INPUT_NORM}},
    [W_ROUTER_NORM] = {"router's norm", true, false, false, 1, {TN_ROUTER_NORM}},
    [W_EXPERT_SCALE] = {"experts' factors", true, false, false, 1, {TN_EXPERT_SCALE}},
    [W_EXPERT_IN_NORM] = {"norm before the experts", true, false, false, 1, {TN_EXPERT_IN_NORM}},
    [W_DENSE_OUT_NORM] = {"norm behind the dense part", true, false, false, 1, {TN_DENSE_OUT_NORM}},
    [W_EXPERT_OUT_NORM] = {"norm behind the experts", true, false, false, 1, {TN_EXPERT_OUT_NORM}},
    [W_EXPERTS_UP] = {"experts' up", true, false, true, 1, {TN_EXPERT_UP}},
    [W_SHARED_UP] = {"shared expert's up", true, false, false, 1, {TN_SHARED_UP}},
    [W_STREAM_IN] = {"residual streams of the embedding", false, false, true, 1, {TN_STREAM_IN}},
    [W_STREAM_OUT] = {"outputs of residual streams", false, false, true, 1, {TN_STREAM_OUT}},
    [W_STREAM_NORM] =
        {"norm before the router of streams", true, false, false, 1, {TN_STREAM_NORM}},
    [W_STREAM_ROUTER] = {"router of streams", true, false, false, 1, {TN_STREAM_ROUTER}},
    [W_STREAM_PREDICT] = {"prediction of streams", true, false, false, 1, {TN_STREAM_PREDICT}},
    [W_STREAM_CORRECT] = {"correction of streams", true, false, false, 1, {TN_STREAM_CORRECT}},
    [W_STREAM_SCALE] = {"factors of the active stream", true, false, false, 1, {TN_STREAM_SCALE}},
    [W_LAUREL_LEFT] = {"LAuReL's left", true, false, false, 1, {TN_LAUREL_LEFT}},
    [W_LAUREL_RIGHT] = {"LAuReL's right", true, false, false, 1, {TN_LAUREL_RIGHT}},
    [W_LAUREL_NORM] = {"norm behind LAuReL", true, false, false, 1, {TN_LAUREL_NORM}},
};

static bool in_layer(const struct model_config *mc, enum weight_id id, int32_t layer)
{
    const struct weight_rule *r = &rules[id];
    if ((id == W_UP && mc->arch->tensor[TN_GATE].name) ||
        (id == W_EXPERTS_UP && mc->arch->tensor[TN_EXPERT_GATE].name) ||
        (id == W_SHARED_UP && mc->arch->tensor[TN_SHARED_GATE].name))
        return false; /* beside the gate */
    bool q_alone = mc->kv_rank > 0 || model_kv_layer(mc, layer) != layer;
    if (id == W_DELTA_STEP && !mc->arch->mamba)
        return false;
    if ((id == W_GLOBAL_QKV && mc->k_eq_v) || (id == W_GLOBAL_QK && !mc->k_eq_v))
        return false;
    if ((id == W_Q || id == W_GLOBAL_Q) && !q_alone)
        return false;
    if ((id == W_QKV || id == W_GLOBAL_QKV || id == W_GLOBAL_QK) && q_alone)
        return false;
    return model_layer_has(mc, r->part[0], layer) &&
           (!r->is_bias || model_has_bias(mc, r->part[0]));
}

/* It is used before the first layer. */
static bool of_input(enum weight_id id)
{
    return id == W_EMBED || id == W_TYPES || id == W_POSITIONS || id == W_EMBED_NORM ||
           id == W_EMBED_NORM_BIAS || id == W_INPUT_EMBED || id == W_INPUT_PROJ ||
           id == W_INPUT_PROJ_NORM || id == W_STREAM_IN;
}

bool weight_per_layer(enum weight_id id)
{
    return rules[id].per_layer;
}

bool weight_is_stack(enum weight_id id)
{
    return rules[id].is_stack;
}

/* The slices of K: those of the axis where ranks share it, else one. */
static void set_slices(struct weight_src *w, const struct model_config *mc, const struct shard *sh,
                       enum axis cols, int32_t layer)
{
    bool delta = cols == AX_DELTA_VALUES;
    bool heads = cols == AX_Q || cols == AX_VALUES || cols == AX_GLOBAL_Q || delta;
    int32_t d = delta ? mc->d_delta_v : heads ? model_axis(mc, cols) / mc->n_q : 0;
    const int32_t *head_end = delta ? sh->delta.slice_end : sh->attn_slice_end;
    w->n_slices = 1;
    w->slice_end[0] = w->cols;
    if (w->vector || (!heads && cols != AX_FFN && cols != AX_EXPERT_FFN && cols != AX_SHARED_FFN))
        return;
    const struct ffn_share ffn = cols == AX_FFN          ? shard_ffn(sh, mc, layer)
                                 : cols == AX_EXPERT_FFN ? sh->expert
                                                         : sh->shared;
    w->n_slices = sh->n_slices;
    for (int32_t i = 0; i < sh->n_slices; i++)
        w->slice_end[i] = heads ? head_end[i] * d : ffn.slice_end[i];
}

/* A bias has an element for each row of a matrix, or of a norm. */
static int32_t bias_size(const struct model_config *mc, const struct tensor_rule *rule,
                         int32_t layer)
{
    return model_layer_axis(mc, rule->rows == AX_ONE ? rule->cols : rule->rows, layer);
}

/* The elements that belong to those rows, which lie in the stored bias as the rows do in the matrix. */
static enum status cut_bias(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                            enum tensor_id id, int32_t layer, struct axis_range rows,
                            struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    int32_t before;
    bool vector = rule->rows == AX_ONE;
    uint64_t shape[1] = {
        (uint64_t)(vector ? bias_size(mc, rule, layer) : model_fused_rows(mc, id, layer, &before))};
    const struct stored_rows from = vector ? stored_neighbours((size_t)rows.first)
                                           : share_rows(mc, id, layer, rows.first, rows.n);
    struct stored_tensor t;
    TRY(loader_tensor(ld, rule->bias, layer, 0, 1, shape, &t));
    size_t size = dtype_size(t.dtype);
    p->bias = t.data + stored_row(&from, 0) * size;
    p->bias_dtype = t.dtype;
    *n_bytes += (size_t)rows.n * size;
    if (stored_in_order(&from))
        return ST_OK;
    struct weight_part one = {.rows = rows.n, .row_bytes = size, .data = p->bias};
    TRY(copy_rows(copies, t.data, &from, &one));
    p->bias = one.data;
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
    size_t skip = p->dtype == DT_E4M3 ? 0 : (size_t)p->skip;
    if (is_indexed(p->dtype) || has_levels(p->dtype))
        return p->row_bytes; /* a byte for each element */
    return cols ? (skip + (size_t)cols + u.elements - 1) / u.elements * u.bytes : 0;
}

static bool is_transposed(enum fused fused)
{
    return fused == TRANSPOSED || fused == TRANSPOSED_QKV || fused == TRANSPOSED_PAIRS ||
           fused == TRANSPOSED_GATE_UP;
}

/* A vector of a Mamba-2 layer that GGUF files have as a matrix: the norm with a row for each group, others with one for
 * each head. */
static enum status flat_matrix(struct stored_tensor *t, struct loader *ld, enum tensor_id id,
                               int32_t layer)
{
    const struct model_config *mc = loader_config(ld);
    uint64_t n = (uint64_t)model_layer_axis(mc, mc->arch->tensor[id].cols, layer);
    uint64_t rows = id == TN_DELTA_NORM ? (uint64_t)mc->n_delta_k : n;
    uint64_t shape[2] = {rows, rows ? n / rows : 0};
    TRY(loader_tensor(ld, mc->arch->tensor[id].name, layer, 0, 2, shape, t));
    if (dtype_size(t->dtype) < 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported here", t->name, t->type_name);
    return ST_OK;
}

enum status weight_tensor(struct stored_tensor *t, int32_t *first_row, struct loader *ld,
                          enum tensor_id id, int32_t layer, int32_t expert)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    bool streams = id == TN_STREAM_IN || id == TN_STREAM_OUT;
    int32_t n_stack = streams ? mc->n_streams - 1 : mc->n_experts;
    uint64_t shape[3] = {(uint64_t)n_stack, (uint64_t)model_fused_rows(mc, id, layer, first_row),
                         (uint64_t)model_layer_axis(mc, rule->cols, layer)};
    bool joined = (streams || rule->rows == AX_EXPERT_FFN || rule->cols == AX_EXPERT_FFN) &&
                  !strchr(rule->name, '@');
    if (is_transposed(rule->fused)) {
        uint64_t rows = shape[1];
        shape[1] = shape[2];
        shape[2] = rows;
    }
    bool flat = rule->rows == AX_ONE; /* files have a single row as a vector or as a matrix */
    if (flat && mc->arch->mamba && loader_has(ld, rule->name, layer, expert, t) && t->n_dims == 2)
        return flat_matrix(t, ld, id, layer);
    if (rule->rows == AX_FLAT_ROW && loader_has(ld, rule->name, layer, expert, t))
        flat = t->n_dims == 1;
    int32_t n_dims = flat ? 1 : joined ? 3 : 2;
    TRY(loader_tensor(ld, rule->name, layer, expert, n_dims, shape + 3 - n_dims, t));
    if (joined) {
        t->n_bytes /= (size_t)n_stack;
        t->data += (size_t)expert * t->n_bytes;
    }
    return ST_OK;
}

/* The rows and columns of a share of a transposed tensor; before: model_fused_rows's. */
static struct share_cut transposed_cut(int32_t before, enum fused fused, struct axis_range rows,
                                       struct axis_range cols)
{
    size_t step = fused == TRANSPOSED_PAIRS ? 2 : 1;
    return (struct share_cut){.first = (size_t)rows.first * step + (size_t)before,
                              .step = step,
                              .rows = (size_t)rows.n,
                              .col = (size_t)cols.first,
                              .cols = (size_t)cols.n};
}

/* "NAME_blocks" and "NAME_scales" of the experts. */
static enum status cut_mxfp4(struct weight_part *p, struct loader *ld, enum tensor_id id,
                             int32_t layer, int32_t expert, const struct share_cut *cut,
                             struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    struct stored_tensor blocks, scales;
    char name[256];
    int32_t first;
    size_t row_blocks = (size_t)model_layer_axis(mc, rule->cols, layer) / 32;
    size_t n = (size_t)model_fused_rows(mc, id, layer, &first) * row_blocks; /* of an expert */
    uint64_t shape[4] = {(uint64_t)mc->n_experts, n / row_blocks, row_blocks, 16};
    snprintf(name, sizeof name, "%s_blocks", rule->name);
    TRY(loader_parts(ld, name, "U8", layer, 0, 4, shape, &blocks));
    snprintf(name, sizeof name, "%s_scales", rule->name);
    TRY(loader_parts(ld, name, "U8", layer, 0, 3, shape, &scales));
    return derive_mxfp4(copies, blocks.data + (size_t)expert * n * 16,
                        scales.data + (size_t)expert * n, row_blocks, cut, p);
}

/* A share of a matrix that is not stored in rows. */
static enum status cut_derived(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                               enum tensor_id id, int32_t layer, int32_t expert,
                               struct axis_range rows, struct axis_range cols,
                               struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    struct stored_tensor t;
    int32_t before, all = model_fused_rows(mc, id, layer, &before);
    const struct share_cut cut = transposed_cut(before, mc->arch->tensor[id].fused, rows, cols);
    p->rows = rows.n;
    if (mc->mxfp4) {
        TRY(cut_mxfp4(p, ld, id, layer, expert, &cut, copies));
    } else {
        TRY(weight_tensor(&t, &before, ld, id, layer, expert));
        bool fp8 = t.dtype == DT_E4M3 && t.n_dims == 3;
        if (dtype_size(t.dtype) < 2 && !fp8)
            FAIL(ST_UNSUPPORTED, "tensor %s: a transposed matrix of type %s is not supported",
                 t.name, t.type_name);
        p->dtype = t.dtype;
        TRY(derive_transposed(copies, t.data, (size_t)all, &cut, p));
        if (fp8)
            TRY(derive_fp8_columns(copies, ld, &t, (size_t)expert, &cut, p));
    }
    *n_bytes += (size_t)rows.n * p->row_bytes;
    return ST_OK;
}

/* The biases of all experts, [E][parts][rows of the share], as one vector of f32. */
static enum status cut_expert_biases(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                     const struct shard *sh, const struct weight_rule *r,
                                     int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[r->part[0]];
    struct axis_range rows = axis_share(mc, sh, rule->rows, layer);
    size_t each = (size_t)r->n_parts * (size_t)rows.n, n = (size_t)mc->n_experts * each;
    void *to = NULL;
    if (!copies->sizes_only)
        TRY(copies_take(copies, n * sizeof(float), &to));
    for (int32_t i = 0; i < r->n_parts; i++) {
        int32_t before;
        uint64_t all = (uint64_t)model_fused_rows(mc, r->part[i], layer, &before);
        uint64_t shape[2] = {(uint64_t)mc->n_experts, all};
        struct share_cut cut = transposed_cut(before, rule->fused, rows, (struct axis_range){0, 1});
        struct stored_tensor t;
        TRY(loader_tensor(ld, mc->arch->tensor[r->part[i]].bias, layer, 0, 2, shape, &t));
        if (dtype_size(t.dtype) == 0)
            FAIL(ST_UNSUPPORTED, "tensor %s: biases of type %s are not supported", t.name,
                 t.type_name);
        for (size_t e = 0; to && e < (size_t)mc->n_experts; e++)
            derive_floats(t.data + e * (size_t)all * dtype_size(t.dtype), t.dtype, &cut,
                          (float *)to + e * each + (size_t)i * (size_t)rows.n);
        *n_bytes += (size_t)mc->n_experts * (size_t)rows.n * dtype_size(t.dtype);
    }
    out->vector = true;
    out->n_parts = 1;
    out->cols = (int32_t)n;
    out->n_slices = 1;
    out->slice_end[0] = out->cols;
    out->part[0] = (struct weight_part){
        .data = to, .row_bytes = n * sizeof(float), .dtype = DT_F32, .rows = 1};
    return ST_OK;
}

/* For each head of the rank a row by distance, as one vector of f32. */
static enum status cut_rel_bias(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                const struct shard *sh, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[TN_REL_BIAS];
    struct axis_range heads = axis_share(mc, sh, rule->cols, 0);
    size_t all = (size_t)model_axis(mc, rule->cols);
    uint64_t shape[2] = {REL_BUCKETS, all};
    struct stored_tensor t;
    TRY(loader_tensor(ld, rule->name, 0, 0, 2, shape, &t));
    out->vector = true;
    out->cols = heads.n * REL_COLS;
    out->n_slices = 1;
    out->slice_end[0] = out->cols;
    *n_bytes += (size_t)REL_BUCKETS * (size_t)heads.n * dtype_size(t.dtype);
    return derive_rel_bias(copies, &t, (size_t)heads.first, (size_t)heads.n, all, &out->part[0]);
}

/* A share of a matrix of integers, or of 4-bit floats. */
static enum status cut_packed(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                              enum tensor_id id, int32_t layer, int32_t expert,
                              struct axis_range rows, struct axis_range cols, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    struct ints m;
    struct fp4 f;
    int32_t before;
    size_t all = (size_t)model_fused_rows(mc, id, layer, &before),
           k = (size_t)model_layer_axis(mc, rule->cols, layer);
    size_t first = (size_t)cols.first, n = (size_t)cols.n;
    const struct stored_rows from = share_rows(mc, id, layer, rows.first, rows.n);
    p->rows = rows.n;
    if (mc->fp4 != FP4_NONE) {
        TRY(fp4_open(&f, ld, rule->name, layer, expert, all, k));
        TRY(derive_fp4(copies, &f, &from, first, n, p));
    } else {
        TRY(ints_open(&m, ld, rule->name, layer, expert, all, k));
        TRY(derive_ints(copies, &m, mc->exact_inputs, &from, first, n, p));
    }
    *n_bytes += (size_t)rows.n * p->row_bytes;
    return ST_OK;
}

static enum status cut_matrix(struct weight_part *p, size_t *n_bytes, struct loader *ld,
                              enum tensor_id id, int32_t layer, int32_t expert,
                              struct axis_range rows, struct axis_range cols, struct copies *copies)
{
    struct stored_tensor t;
    int32_t before;
    enum fused fused = loader_config(ld)->arch->tensor[id].fused;
    if (is_transposed(fused))
        return cut_derived(p, n_bytes, ld, id, layer, expert, rows, cols, copies);
    const char *name = loader_config(ld)->arch->tensor[id].name;
    if (ints_stored(ld, name, layer, expert) || fp4_stored(ld, name, layer, expert))
        return cut_packed(p, n_bytes, ld, id, layer, expert, rows, cols, copies);
    TRY(weight_tensor(&t, &before, ld, id, layer, expert));
    const struct stored_rows from = share_rows(loader_config(ld), id, layer, rows.first, rows.n);
    const struct unit u = unit_of(t.dtype);
    size_t first = (size_t)cols.first / u.elements;
    size_t all_rows = (size_t)model_fused_rows(loader_config(ld), id, layer, &before);
    p->row_bytes = t.n_bytes / all_rows; /* shape times type is the tensor's checked size */
    p->data = t.data + stored_row(&from, 0) * p->row_bytes + first * u.bytes;
    p->skip = (int32_t)((size_t)cols.first % u.elements);
    p->dtype = t.dtype;
    p->rows = rows.n;
    *n_bytes += (size_t)rows.n * span_bytes(p, cols.n);
    if (!stored_in_order(&from))
        TRY(copy_rows(copies, t.data, &from, p));
    if (t.dtype != DT_E4M3)
        return ST_OK;
    bool embedding = id == TN_EMBED || id == TN_INPUT_EMBED;
    if (embedding || t.n_dims != 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: %s of type %s is not supported", t.name,
             embedding ? "an embedding" : "a stack", t.type_name);
    return derive_fp8(copies, ld, &t, &from, (size_t)cols.first, (size_t)cols.n, p);
}

/* The bias of a row-parallel matrix or of a norm: a whole vector [D] on every rank. */
static enum status cut_bias_vector(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                                   enum tensor_id id, int32_t layer, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    struct weight_part *p = &out->part[0];
    out->vector = true;
    out->cols = bias_size(mc, &mc->arch->tensor[id], layer);
    out->n_slices = 1;
    out->slice_end[0] = out->cols;
    TRY(cut_bias(p, n_bytes, ld, id, layer, (struct axis_range){0, out->cols}, copies));
    *p = (struct weight_part){.data = p->bias,
                              .dtype = p->bias_dtype,
                              .rows = 1,
                              .row_bytes = (size_t)out->cols * dtype_size(p->bias_dtype)};
    return ST_OK;
}

/* Where norm weights are stored less 1: is that vector one of them? */
static bool less_one(enum weight_id id)
{
    return id != W_LAYER_SCALE && id != W_EXPERT_SCALE && id != W_ROUTER_BIAS && id != W_SINKS &&
           id != W_DELTA_DT && id != W_DELTA_NORM && id != W_DELTA_SKIP;
}

/* expert: of a stack, or this rank's query head. */
static enum status cut(struct weight_src *out, size_t *n_bytes, struct loader *ld,
                       const struct shard *sh, enum weight_id id, int32_t layer, int32_t expert,
                       struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct weight_rule *r = &rules[id];
    const struct tensor_rule *first = &mc->arch->tensor[r->part[0]];
    memset(out, 0, sizeof *out);
    out->name = r->name;
    out->n_parts = r->n_parts;
    if (id == W_EXPERTS_BIAS || id == W_EXPERTS_DOWN_BIAS)
        return cut_expert_biases(out, n_bytes, ld, sh, r, layer, copies);
    if (id == W_REL_BIAS)
        return cut_rel_bias(out, n_bytes, ld, sh, copies);
    if (id == W_DELTA_CONV)
        return cut_conv(out, n_bytes, ld, sh, layer, copies);
    if (id == W_DELTA_CONV_BIAS)
        return cut_conv_bias(out, n_bytes, ld, sh, layer, copies);
    if (id == W_DELTA_DECAY)
        return cut_decay(out, n_bytes, ld, sh, layer, copies);
    if (r->is_bias)
        return cut_bias_vector(out, n_bytes, ld, r->part[0], layer, copies);

    struct axis_range cols = axis_share(mc, sh, first->cols, layer);
    out->vector = first->rows == AX_ONE;
    out->add = out->vector && mc->arch->norm_plus_one && less_one(id) ? 1.0f : 0.0f;
    out->cols = cols.n;
    set_slices(out, mc, sh, first->cols, layer);
    if (mc->inputs != INPUTS_FLOAT)
        TRY(input_rules(out, &(struct input_site){ld, sh, id, r->is_stack, layer, expert},
                        r->part));
    if (id == W_K_B || id == W_V_B)
        return cut_head(&out->part[0], n_bytes, ld, r->part[0], layer, sh->q_first + expert,
                        copies);
    for (int32_t i = 0; i < r->n_parts; i++) {
        enum tensor_id tn = r->part[i];
        const struct tensor_rule *rule = &mc->arch->tensor[tn];
        struct axis_range rows = axis_share(mc, sh, rule->rows, layer);
        TRY(cut_matrix(&out->part[i], n_bytes, ld, tn, layer, expert, rows, cols, copies));
        /* a bias along a cut axis belongs to the rows; one along D is added once, see W_O_BIAS */
        if (model_has_bias(mc, tn) && rule->rows != AX_HIDDEN && !out->vector && !r->is_stack)
            TRY(cut_bias(&out->part[i], n_bytes, ld, tn, layer, rows, copies));
    }
    return ST_OK;
}

static int32_t stack_size(const struct model_config *mc, const struct shard *sh, enum weight_id id)
{
    if (!rules[id].is_stack)
        return 1;
    if (id == W_STREAM_IN || id == W_STREAM_OUT)
        return mc->n_streams - 1;
    return id == W_K_B || id == W_V_B ? sh->n_q : mc->n_experts;
}

static enum status each(struct loader *ld, const struct shard *sh, struct weight_src *src,
                        enum status (*visit)(void *ctx, enum weight_id id, int32_t layer,
                                             const struct weight_src *src, int32_t n,
                                             size_t n_bytes),
                        void *ctx, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    for (int32_t layer = 0; layer < mc->n_layers; layer++) {
        for (int i = 0; i < W_N; i++) {
            enum weight_id id = (enum weight_id)i;
            int32_t at = of_input(id) ? 0 : mc->n_layers - 1;
            int32_t n = stack_size(mc, sh, id);
            size_t n_bytes = 0;
            if (!in_layer(mc, id, layer) || (!rules[id].per_layer && layer != at))
                continue;
            for (int32_t e = 0; e < n; e++)
                TRY(cut(&src[e], &n_bytes, ld, sh, id, layer, e, copies));
            TRY(visit(ctx, id, layer, src, n, n_bytes));
            copies_free(copies);
        }
    }
    return ST_OK;
}

enum status weights_each(struct loader *ld, const struct shard *sh,
                         enum status (*visit)(void *ctx, enum weight_id id, int32_t layer,
                                              const struct weight_src *src, int32_t n,
                                              size_t n_bytes),
                         void *ctx, bool sizes_only)
{
    size_t most = (size_t)loader_config(ld)->n_experts;
    most = most > (size_t)sh->n_q ? most : (size_t)sh->n_q;
    most = most > MAX_STREAMS ? most : MAX_STREAMS;
    struct weight_src *src = calloc(most, sizeof *src);
    if (!src)
        FAIL(ST_NOMEM, "no memory for the descriptions of %zu matrices", most);
    struct copies copies = {.sizes_only = sizes_only};
    enum status st = each(ld, sh, src, visit, ctx, &copies);
    copies_free(&copies);
    free(src);
    return st;
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
