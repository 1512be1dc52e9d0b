#include "worker/load/axis_share.h"

struct axis_range axis_share(const struct model_config *mc, const struct shard *sh, enum axis ax,
                             int32_t layer)
{
    struct ffn_share ffn;
    int32_t d;
    switch (ax) {
    case AX_Q:
        return (struct axis_range){sh->q_first * mc->d_head, sh->n_q * mc->d_head};
    case AX_KV:
        return (struct axis_range){sh->kv_first * mc->d_head, sh->n_kv * mc->d_head};
    case AX_GLOBAL_Q:
        return (struct axis_range){sh->q_first * mc->global_d_head, sh->n_q * mc->global_d_head};
    case AX_GLOBAL_KV:
        return (struct axis_range){sh->global.first * mc->global_d_head,
                                   sh->global.n * mc->global_d_head};
    case AX_FFN:
        ffn = shard_ffn(sh, mc, layer);
        return (struct axis_range){ffn.first, ffn.n};
    case AX_EXPERT_FFN:
        return (struct axis_range){sh->expert.first, sh->expert.n};
    case AX_SHARED_FFN:
        return (struct axis_range){sh->shared.first, sh->shared.n};
    case AX_VOCAB:
        return (struct axis_range){sh->vocab.first_id, sh->vocab.n_cols};
    case AX_INPUT_VOCAB:
        return (struct axis_range){sh->input_first, sh->n_inputs};
    case AX_HEADS:
        return (struct axis_range){sh->q_first, sh->n_q};
    case AX_DELTA_KEYS:
        return (struct axis_range){sh->delta.k_first * mc->d_delta_k,
                                   sh->delta.n_k * mc->d_delta_k};
    case AX_DELTA_VALUES:
        return (struct axis_range){sh->delta.v_first * mc->d_delta_v,
                                   sh->delta.n_v * mc->d_delta_v};
    case AX_DELTA_HEADS:
        return (struct axis_range){sh->delta.v_first, sh->delta.n_v};
    case AX_QUERY:
    case AX_VALUES:
        d = model_axis(mc, ax) / mc->n_q;
        return (struct axis_range){sh->q_first * d, sh->n_q * d};
    default:
        return (struct axis_range){0, model_axis(mc, ax)};
    }
}
