#include "worker/model/scratch.h"

struct view scratch_rows(const struct decoder *m, size_t off, int32_t rows, int32_t cols)
{
    return (struct view){
        .buf = m->scratch, .off = off, .rows = rows, .cols = cols, .stride = cols, .dtype = DT_F32};
}

struct scratch scratch_of(const struct decoder *m, int32_t T, int32_t R)
{
    int32_t D = m->mc.hidden, F = m->sh.most_ffn, q = m->sh.n_q * m->mc.d_head;
    int32_t kv = m->sh.n_kv * m->mc.d_head, r = m->mc.kv_rank;
    int32_t values = m->sh.delta.n_v * m->mc.d_delta_v;
    struct view ids = scratch_rows(m, m->at.ids, T, m->mc.top_k);
    struct view both = scratch_rows(m, m->at.out, model_n_out(&m->mc) * T, D), second = both;
    struct view known_ids = scratch_rows(m, m->at.known_ids, T, 1);
    int32_t n = m->mc.n_streams, D_streams = n * D, D_others = n > 1 ? (n - 1) * D : 0;
    known_ids.dtype = ids.dtype = DT_I32;
    second.rows = T;
    second.off += (size_t)T * (size_t)D * sizeof(float);
    return (struct scratch){
        .resid = scratch_rows(m, m->at.resid, T, D),
        .h = scratch_rows(m, m->at.h, T, D),
        .out = scratch_rows(m, m->at.out, T, D),
        .qkv = scratch_rows(m, m->at.qkv, T, q + 2 * kv),
        .q = scratch_rows(m, m->at.q, T, q),
        .att = scratch_rows(m, m->at.att, T, r ? m->sh.n_q * r : q),
        .q_latent = scratch_rows(m, m->at.q_latent, T, m->mc.q_rank),
        .q_normed = scratch_rows(m, m->at.q_normed, T, m->mc.q_rank),
        .q_heads = scratch_rows(m, m->at.q_heads, T, m->sh.n_q * (m->mc.d_nope + m->mc.d_rope)),
        .latent = scratch_rows(m, m->at.latent, T, m->mc.d_head),
        .values = scratch_rows(m, m->at.values, T, m->sh.n_q * m->mc.d_value),
        .both = both,
        .second = second,
        .gate = scratch_rows(m, m->at.gate, T, q),
        .delta_qkv =
            scratch_rows(m, m->at.delta_qkv, T, 2 * m->sh.delta.n_k * m->mc.d_delta_k + values),
        .delta_z = scratch_rows(m, m->at.delta_z, T, m->mc.arch->mamba ? 2 * values : values),
        .delta_squares = scratch_rows(m, m->at.delta_squares, T, m->mc.n_delta_v),
        .delta_ba = scratch_rows(m, m->at.delta_ba, T, 2 * m->sh.delta.n_v),
        .delta_out = scratch_rows(m, m->at.delta_out, T, values),
        .squares = scratch_rows(m, m->at.squares, T, m->mc.n_q + m->mc.n_kv),
        .mid = scratch_rows(m, m->at.mid, T, m->mc.arch->tensor[TN_GATE].name ? 2 * F : F),
        .ffn = scratch_rows(m, m->at.ffn, T, F),
        .last = scratch_rows(m, m->at.last, R, D),
        .logits = scratch_rows(m, m->at.logits, R, m->sh.vocab.n_cols),
        .router = scratch_rows(m, m->at.router, T, m->mc.n_experts),
        .ids = ids,
        .weights = scratch_rows(m, m->at.weights, T, m->mc.top_k),
        .moe = scratch_rows(m, m->at.moe, 1, (int32_t)(m->at.moe_bytes / sizeof(float))),
        .shared_mid = scratch_rows(m, m->at.shared_mid, T, 2 * m->sh.shared.n),
        .shared_ffn = scratch_rows(m, m->at.shared_ffn, T, m->sh.shared.n),
        .shared_scale = scratch_rows(m, m->at.shared_scale, T, 1),
        .inputs = scratch_rows(m, m->at.inputs, T, model_axis(&m->mc, AX_INPUTS)),
        .new_inputs = scratch_rows(m, m->at.new_inputs, T, model_axis(&m->mc, AX_INPUTS)),
        .input_mid = scratch_rows(m, m->at.input_mid, T, 2 * m->mc.d_input),
        .input_act = scratch_rows(m, m->at.input_act, T, m->mc.d_input),
        .known_ids = known_ids,
        .streams = scratch_rows(m, m->at.streams, T, D_streams),
        .others = scratch_rows(m, m->at.others, T, D_others),
        .modes = scratch_rows(m, m->at.modes, T, n),
        .coefs = scratch_rows(m, m->at.coefs, T, n * n),
        .laurel_low = scratch_rows(m, m->at.laurel_low, T, m->mc.laurel_rank),
        .laurel = scratch_rows(m, m->at.laurel, T, D),
        .stats = scratch_rows(m, m->at.stats, T, 3 * shard_all_slices(&m->sh, m->cfg.world)),
    };
}
