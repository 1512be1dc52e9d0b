/* What follows from a configuration: the sizes of axes, which tensors and biases the model and each of its layers has, and
 * how rows of several tensors are stored in one.  Called by the weight loader, the memory plan and the decoder. */
#include <math.h>

#include "common/formats/model_config.h"

int64_t model_n_tokens(const struct model_config *mc)
{
    return (int64_t)mc->vocab * (mc->n_types > 1 ? mc->n_types : 1);
}

int32_t model_axis(const struct model_config *mc, enum axis ax)
{
    switch (ax) {
    case AX_ONE:
        return 1;
    case AX_HIDDEN:
        return mc->hidden;
    case AX_DHEAD:
        return mc->d_head;
    case AX_Q:
        return mc->n_q * mc->d_head;
    case AX_KV:
        return mc->n_kv * mc->d_head;
    case AX_FFN:
        return mc->ffn;
    case AX_VOCAB:
        return mc->vocab;
    case AX_EXPERTS:
        return mc->n_experts;
    case AX_EXPERT_FFN:
        return mc->expert_ffn;
    case AX_SHARED_FFN:
        return mc->shared_ffn;
    case AX_HEADS:
        return mc->n_q;
    case AX_QUERY:
        return mc->n_q * (mc->d_nope + mc->d_rope);
    case AX_VALUES:
        return mc->n_q * mc->d_value;
    case AX_Q_RANK:
        return mc->q_rank;
    case AX_KV_RANK:
        return mc->kv_rank;
    case AX_LATENT:
        return mc->kv_rank + mc->d_rope;
    case AX_NOPE:
        return mc->d_nope;
    case AX_VALUE:
        return mc->d_value;
    case AX_POSITIONS:
        return mc->n_positions;
    case AX_TYPES:
        return mc->n_types;
    case AX_BUCKETS:
        return REL_BUCKETS;
    case AX_DELTA_KEYS:
        return mc->n_delta_k * mc->d_delta_k;
    case AX_DELTA_VALUES:
        return mc->n_delta_v * mc->d_delta_v;
    case AX_DELTA_HEADS:
        return mc->n_delta_v;
    case AX_DELTA_VALUE:
        return mc->d_delta_v;
    case AX_DELTA_TAPS:
        return mc->delta_taps;
    case AX_GLOBAL_Q:
        return mc->n_q * mc->global_d_head;
    case AX_GLOBAL_KV:
        return mc->global_n_kv * mc->global_d_head;
    case AX_GLOBAL_DHEAD:
        return mc->global_d_head;
    case AX_INPUT:
        return mc->d_input;
    case AX_INPUTS:
        return mc->n_layers * mc->d_input;
    case AX_INPUT_VOCAB:
        return mc->input_vocab;
    case AX_STREAMS:
        return mc->n_streams;
    case AX_STREAM_PAIRS:
        return mc->n_streams * mc->n_streams;
    case AX_LAUREL:
        return mc->laurel_rank;
    case AX_ROW:
    case AX_FLAT_ROW:
        return 1;
    }
    return 0;
}

int32_t model_layer_axis(const struct model_config *mc, enum axis ax, int32_t layer)
{
    return ax == AX_FFN && mc->layer_ffn[layer] ? mc->layer_ffn[layer] : model_axis(mc, ax);
}

void model_set_widths(struct model_config *mc, const int32_t *width)
{
    mc->ffn = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->ffn = width[i] > mc->ffn ? width[i] : mc->ffn;
    for (int32_t i = 0; i < mc->n_layers; i++)
        mc->layer_ffn[i] = width[i] < mc->ffn ? width[i] : 0;
}

int32_t model_n_sparse(const struct model_config *mc)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += mc->sparse[i];
    return n;
}

int32_t model_n_delta(const struct model_config *mc)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += mc->delta[i];
    return n;
}

bool model_attends(const struct model_config *mc, int32_t layer)
{
    return mc->arch->beside || (!mc->delta[layer] && !mc->feeds[layer]);
}

int32_t model_n_attention(const struct model_config *mc)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += model_attends(mc, i);
    return n;
}

static bool of_attention(enum tensor_id id)
{
    return id >= TN_Q && id <= TN_O;
}

static bool of_delta(enum tensor_id id)
{
    return id >= TN_DELTA_Q && id <= TN_DELTA_OUT;
}

static bool of_global(enum tensor_id id)
{
    return id >= TN_GLOBAL_Q && id <= TN_GLOBAL_O;
}

bool model_is_global(const struct model_config *mc, int32_t layer)
{
    return mc->global_d_head > 0 && !mc->windowed[layer];
}

int32_t model_kv_layer(const struct model_config *mc, int32_t layer)
{
    int32_t first = mc->n_layers - mc->n_kv_shared, i = first - 1;
    if (layer < first)
        return layer;
    while (i > 0 && mc->windowed[i] != mc->windowed[layer])
        i--;
    return i;
}

static bool of_kv(enum tensor_id id)
{
    return id == TN_K || id == TN_V || id == TN_K_NORM || id == TN_GLOBAL_K || id == TN_GLOBAL_V ||
           id == TN_GLOBAL_K_NORM;
}

/* Is the layer of the kind of attention, or none, that has this tensor? */
static bool has_kind(const struct model_config *mc, enum tensor_id id, int32_t layer)
{
    if (of_delta(id))
        return mc->delta[layer];
    if (of_global(id))
        return model_is_global(mc, layer);
    return !of_attention(id) || (model_attends(mc, layer) && !model_is_global(mc, layer));
}

static bool any_layer_has_kind(const struct model_config *mc, enum tensor_id id)
{
    bool any = false;
    for (int32_t i = 0; i < mc->n_layers; i++)
        any = any || has_kind(mc, id, i);
    return any;
}

static bool of_experts(enum tensor_id id)
{
    return id >= TN_ROUTER && id <= TN_EXPERT_OUT_NORM;
}

static bool of_shared_expert(enum tensor_id id)
{
    return id >= TN_SHARED_GATE && id <= TN_SHARED_SCALE;
}

static bool of_dense_ffn(enum tensor_id id)
{
    return id == TN_GATE || id == TN_UP || id == TN_DOWN;
}

static bool of_inputs(enum tensor_id id)
{
    return id == TN_INPUT_EMBED || id == TN_INPUT_PROJ || id == TN_INPUT_PROJ_NORM ||
           id == TN_INPUT_GATE || id == TN_INPUT_OUT || id == TN_INPUT_NORM;
}

static bool of_streams(enum tensor_id id)
{
    return id == TN_STREAM_IN || id == TN_STREAM_OUT;
}

int32_t model_n_cut(const struct model_config *mc)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += !isinf(mc->gate_cut[i]);
    return n;
}

bool model_has_dense_beside(const struct model_config *mc)
{
    return mc->n_experts > 0 && mc->arch->experts == EXPERTS_BESIDE;
}

/* Has the layer a dense feed-forward? */
static bool has_dense(const struct model_config *mc, int32_t layer)
{
    if (mc->arch->one_part && !mc->feeds[layer])
        return false;
    return !mc->sparse[layer] || model_has_dense_beside(mc);
}

static bool any_layer_has_dense(const struct model_config *mc)
{
    bool any = false;
    for (int32_t i = 0; i < mc->n_layers; i++)
        any = any || has_dense(mc, i);
    return any;
}

bool model_layer_has(const struct model_config *mc, enum tensor_id id, int32_t layer)
{
    bool shares = model_kv_layer(mc, layer) != layer;
    if (of_experts(id) && !mc->sparse[layer])
        return false;
    if (of_dense_ffn(id) && !has_dense(mc, layer))
        return false;
    if (of_kv(id) && shares)
        return false;
    if (!has_kind(mc, id, layer))
        return false;
    if (id == TN_ATTN_NORM && layer == 0 && mc->arch->encoder && mc->arch->encoder->pre_norm)
        return false;
    return model_has(mc, id);
}

bool model_has(const struct model_config *mc, enum tensor_id id)
{
    if (!mc->arch->tensor[id].name)
        return false;
    if (of_shared_expert(id) && !mc->shared_ffn)
        return false;
    if (of_experts(id))
        return model_n_sparse(mc) > 0;
    if (of_dense_ffn(id))
        return any_layer_has_dense(mc);
    if (of_inputs(id))
        return mc->d_input > 0;
    if (of_streams(id))
        return mc->n_streams > 1;
    if (id == TN_HEAD)
        return !mc->tied && !mc->headless;
    if (id == TN_Q_NORM || id == TN_K_NORM)
        return mc->qk_norm && any_layer_has_kind(mc, id);
    if (!any_layer_has_kind(mc, id))
        return false;
    if (id == TN_DELTA_NORM && mc->arch->mamba)
        return mc->state_norm;
    if (id == TN_GLOBAL_V)
        return !mc->k_eq_v;
    if (id == TN_SINKS)
        return mc->arch->sinks;
    if (id == TN_TYPES)
        return mc->n_types > 0;
    if (id == TN_Q)
        return mc->kv_rank == 0 || mc->q_rank == 0;
    if (id == TN_Q_A || id == TN_Q_A_NORM || id == TN_Q_B)
        return mc->q_rank > 0;
    return true;
}

bool model_has_bias(const struct model_config *mc, enum tensor_id id)
{
    if (!mc->arch->tensor[id].bias)
        return false;
    switch (id) {
    case TN_Q:
    case TN_K:
    case TN_V:
    case TN_Q_A:
    case TN_KV_A:
    case TN_GLOBAL_Q:
    case TN_GLOBAL_K:
    case TN_GLOBAL_V:
        return mc->qkv_bias;
    case TN_O:
    case TN_GLOBAL_O:
        return mc->o_bias;
    case TN_GATE:
    case TN_UP:
    case TN_DOWN:
        return mc->mlp_bias;
    case TN_DELTA_CONV:
        return mc->conv_bias;
    case TN_ROUTER:
    case TN_EXPERT_GATE:
    case TN_EXPERT_UP:
    case TN_EXPERT_DOWN:
        return mc->arch->expert_bias;
    case TN_EMBED_NORM:
    case TN_ATTN_NORM:
    case TN_FFN_NORM:
    case TN_FINAL_NORM:
        return mc->arch->norm_bias;
    default:
        return false;
    }
}

/* Of the matrix that the layer's input meets: z, x, B, C, dt. */
static int32_t mamba_rows(const struct model_config *mc, enum tensor_id id, int32_t *first)
{
    int32_t values = model_axis(mc, AX_DELTA_VALUES), keys = model_axis(mc, AX_DELTA_KEYS);
    *first = id == TN_DELTA_Z   ? 0
             : id == TN_DELTA_V ? values
             : id == TN_DELTA_K ? 2 * values
             : id == TN_DELTA_Q ? 2 * values + keys
                                : 2 * (values + keys);
    return 2 * (values + keys) + mc->n_delta_v;
}

int32_t model_fused_rows(const struct model_config *mc, enum tensor_id id, int32_t layer,
                         int32_t *first)
{
    int32_t q = model_axis(mc, AX_Q), kv = model_axis(mc, AX_KV);
    int32_t own = model_layer_axis(mc, mc->arch->tensor[id].rows, layer);
    *first = 0;
    switch (mc->arch->tensor[id].fused) {
    case FUSED_QKV:
    case TRANSPOSED_QKV:
        *first = id == TN_K ? q : id == TN_V ? q + kv : 0;
        return q + 2 * kv;
    case FUSED_GATE_UP:
    case TRANSPOSED_GATE_UP:
        *first = id == TN_UP || id == TN_EXPERT_UP || id == TN_SHARED_UP ? own : 0;
        return 2 * own;
    case TRANSPOSED_PAIRS:
        *first = id == TN_EXPERT_UP;
        return 2 * own;
    case FUSED_KV_B:
        return mc->n_q * (mc->d_nope + mc->d_value);
    case FUSED_Q_GATE:
        return 2 * own;
    case FUSED_HEADS:
        return 3 * own;
    case FUSED_DELTA_QKVZ:
        return 2 * (model_axis(mc, AX_DELTA_KEYS) + model_axis(mc, AX_DELTA_VALUES));
    case FUSED_DELTA_BA:
        return 2 * own;
    case FUSED_DELTA_QKV:
        own = model_axis(mc, AX_DELTA_KEYS);
        *first = id == TN_DELTA_K ? own : id == TN_DELTA_V ? 2 * own : 0;
        return 2 * own + model_axis(mc, AX_DELTA_VALUES);
    case FUSED_MAMBA:
        return mamba_rows(mc, id, first);
    case TRANSPOSED:
    case EACH_HEAD:
    case FUSED_NO:
        break;
    }
    return own;
}

bool model_row_groups(const struct model_config *mc, enum tensor_id id, struct row_groups *out)
{
    int32_t per = mc->n_delta_k ? mc->n_delta_v / mc->n_delta_k : 0, k = mc->d_delta_k;
    int32_t v = per * mc->d_delta_v;
    switch (mc->arch->tensor[id].fused) {
    case FUSED_HEADS:
        *out = (struct row_groups){3 * mc->d_head,
                                   id == TN_Q   ? 0
                                   : id == TN_K ? mc->d_head
                                                : 2 * mc->d_head,
                                   mc->d_head};
        return true;
    case FUSED_Q_GATE:
        *out = (struct row_groups){2 * mc->d_head, id == TN_Q_GATE ? mc->d_head : 0, mc->d_head};
        return true;
    case FUSED_DELTA_QKVZ:
        *out = (struct row_groups){2 * (k + v),
                                   id == TN_DELTA_Q   ? 0
                                   : id == TN_DELTA_K ? k
                                   : id == TN_DELTA_V ? 2 * k
                                                      : 2 * k + v,
                                   id == TN_DELTA_Q || id == TN_DELTA_K ? k : v};
        return true;
    case FUSED_DELTA_BA:
        *out = (struct row_groups){2 * per, id == TN_DELTA_A ? per : 0, per};
        return true;
    default:
        return false;
    }
}

int32_t model_n_out(const struct model_config *mc)
{
    return mc->parallel || mc->shared_ffn || mc->arch->beside || model_has_dense_beside(mc) ? 2 : 1;
}

const struct rope_config *model_rope(const struct model_config *mc, int32_t layer)
{
    return mc->arch->local_rope && mc->windowed[layer] ? &mc->local_rope : &mc->rope;
}

int32_t model_window(const struct model_config *mc, int32_t layer)
{
    return mc->windowed[layer] && mc->arch->window != WINDOW_CHUNK ? mc->window : 0;
}

int32_t model_chunk(const struct model_config *mc, int32_t layer)
{
    return mc->windowed[layer] && mc->arch->window == WINDOW_CHUNK ? mc->window : 0;
}

bool model_scales_q(const struct model_config *mc, int32_t layer)
{
    return mc->rope.q_beta != 0 && (mc->arch->window != WINDOW_CHUNK || mc->nope[layer]);
}

bool model_whole_pairs(const struct model_config *mc)
{
    return mc->arch->whole_pairs && mc->rope.rot_dim < mc->d_head;
}

bool model_unit_qk(const struct model_config *mc, int32_t layer)
{
    return mc->arch->unit_qk_norm && mc->qk_norm && !mc->nope[layer];
}

const char *rope_type_name(enum rope_type t)
{
    static const char *const names[] = {"default", "linear",   "llama3",
                                        "yarn",    "longrope", "divisors"};
    return names[t];
}
