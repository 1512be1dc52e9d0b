#include "worker/load/head_weights.h"

#include "worker/load/derive_fp4.h"
#include "worker/load/derive_fp8.h"
#include "worker/load/derive_ints.h"

/* Rows `first` and on of a stored matrix. */
static void take_rows(struct weight_part *p, const struct stored_tensor *t, size_t row_bytes,
                      size_t first)
{
    p->dtype = t->dtype;
    p->row_bytes = row_bytes;
    p->data = t->data + first * row_bytes;
}

/* A head's rows of the matrix from latents to keys and values: keys first. */
static enum status cut_kv_b(struct weight_part *p, struct loader *ld, enum tensor_id id,
                            int32_t layer, int32_t head, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    int32_t before;
    uint64_t shape[2] = {(uint64_t)model_fused_rows(mc, id, layer, &before), (uint64_t)mc->kv_rank};
    size_t first = (size_t)head * (size_t)(mc->d_nope + mc->d_value), rank = (size_t)mc->kv_rank;
    struct stored_tensor t;
    struct ints m;
    struct fp4 f;
    const struct share_cut cut = {
        .step = 1, .rows = rank, .col = first, .cols = (size_t)mc->d_nope};
    const struct stored_rows values = stored_neighbours(first + (size_t)mc->d_nope);
    if (ints_stored(ld, mc->arch->tensor[id].name, layer, 0)) {
        TRY(ints_open(&m, ld, mc->arch->tensor[id].name, layer, 0, (size_t)shape[0], rank));
        return id == TN_V_B ? derive_ints(copies, &m, mc->exact_inputs, &values, 0, rank, p)
                            : derive_ints_transposed(copies, &m, &cut, p);
    }
    if (fp4_stored(ld, mc->arch->tensor[id].name, layer, 0)) {
        TRY(fp4_open(&f, ld, mc->arch->tensor[id].name, layer, 0, (size_t)shape[0], rank));
        return id == TN_V_B ? derive_fp4(copies, &f, &values, 0, rank, p)
                            : derive_fp4_transposed(copies, &f, &cut, p);
    }
    TRY(loader_tensor(ld, mc->arch->tensor[id].name, layer, 0, 2, shape, &t));
    size_t row_bytes = t.n_bytes / shape[0]; /* shape times type is the tensor's checked size */
    if (id == TN_V_B) {
        take_rows(p, &t, row_bytes, values.first);
        return t.dtype == DT_E4M3 ? derive_fp8(copies, ld, &t, &values, 0, rank, p) : ST_OK;
    }
    p->dtype = t.dtype;
    if (t.dtype == DT_E4M3)
        return derive_fp8_transposed(copies, ld, &t, &cut, p);
    return dtype_size(t.dtype) ? derive_transposed(copies, t.data, rank, &cut, p)
                               : derive_dequantised(copies, t.data, rank, &cut, p);
}

enum status cut_head(struct weight_part *p, size_t *n_bytes, struct loader *ld, enum tensor_id id,
                     int32_t layer, int32_t head, struct copies *copies)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    p->rows = model_axis(mc, rule->rows);
    if (rule->fused == FUSED_KV_B) {
        TRY(cut_kv_b(p, ld, id, layer, head, copies));
    } else {
        uint64_t shape[3] = {(uint64_t)mc->n_q, (uint64_t)p->rows,
                             (uint64_t)model_axis(mc, rule->cols)};
        struct stored_tensor t;
        TRY(loader_tensor(ld, rule->name, layer, 0, 3, shape, &t));
        take_rows(p, &t, t.n_bytes / (size_t)(shape[0] * shape[1]), (size_t)head * shape[1]);
    }
    *n_bytes += (size_t)p->rows * p->row_bytes;
    return ST_OK;
}
