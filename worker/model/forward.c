/* decoder_forward: the layers over the tokens of one step. */
#include <assert.h>
#include <math.h>

#include "worker/model/inputs.h"
#include "worker/model/product.h"
#include "worker/model/streams.h"

/* What the layer before has computed and not yet added to the residual stream. */
struct delta {
    struct view x; /* [T,D], or no buf */
    /* [D] or NULL: of a row-parallel linear, added once, after the sum over the ranks, so that its
     * place in the order of additions is fixed. */
    const struct weight *bias;
};

/* gates [T, this rank's columns of share], in place: those far above the mean of all ranks' columns remain.  Slices are
 * those of the product with down, so that the bits do not depend on the number of ranks. */
static enum status cut_gates(struct decoder *m, const struct ffn_share *share, float factor,
                             struct view gates, const struct scratch *s)
{
    int32_t n = m->sh.n_slices;
    TRY(m->op->zero(m->be, s->stats));
    TRY(m->op->slice_stats(m->be, gates, n, share->slice_end,
                           view_columns(s->stats, 3 * n * m->cfg.rank, 3 * n)));
    TRY(all_reduce(m, s->stats));
    return m->op->cut_gates(m->be, gates, s->stats, factor);
}

/* out: partial [T,D], from in [T,D] */
static enum status dense_ffn(struct decoder *m, const struct layer *l, struct view in,
                             const struct scratch *s, struct view out)
{
    struct view ffn = with_cols(s->ffn, l->ffn.n); /* [T, F] */
    float cut = m->mc.gate_cut[l - m->layer];
    if (l->w[W_UP]) {
        struct view mid = with_cols(s->mid, l->ffn.n); /* [T, F] */
        TRY(product(m, l, W_UP, in, mid));
        TRY(m->op->activate(m->be, m->act, mid, ffn));
    } else {
        struct view mid = with_cols(s->mid, 2 * l->ffn.n); /* [T, 2 F] */
        ffn = input_of(m, l, W_DOWN, OPERAND_ACT_MUL, ffn);
        if (m->mc.factors.gate == 1 && isinf(cut)) {
            TRY(product_act_mul(m, l, W_GATE_UP, in, mid, ffn));
        } else {
            TRY(product(m, l, W_GATE_UP, in, mid));
            TRY(scale(m, view_columns(mid, 0, l->ffn.n), m->mc.factors.gate));
            if (!isinf(cut))
                TRY(cut_gates(m, &l->ffn, cut, view_columns(mid, 0, l->ffn.n), s));
            TRY(m->op->act_mul(m->be, m->act, mid, ffn));
        }
    }
    return product(m, l, W_DOWN, ffn, out);
}

/* s->out: [T,D] summed over the ranks, from in [T,D].  Every rank has the whole router.  The shared
 * expert's output is summed beside that of the others, so that the bits do not depend on the number
 * of ranks. */
static enum status expert_ffn(struct decoder *m, const struct layer *l, struct view in,
                              const struct scratch *s)
{
    TRY(product(m, l, W_ROUTER, in, s->router)); /* [T, E] */
    TRY(m->op->moe_route(m->be, &l->moe, s->router, s->ids, s->weights));
    TRY(experts(m, l, in, s, s->out));
    if (!l->w[W_SHARED_DOWN]) {
        TRY(all_reduce(m, s->out));
        return l->moe.down_bias ? m->op->moe_bias(m->be, &l->moe, s->ids, s->weights, s->out)
                                : ST_OK;
    }
    if (l->w[W_SHARED_UP]) {
        TRY(product(m, l, W_SHARED_UP, in, s->shared_ffn));
        TRY(m->op->activate(m->be, m->act, s->shared_ffn, s->shared_ffn));
    } else {
        TRY(product(m, l, W_SHARED_GATE_UP, in, s->shared_mid));
        TRY(m->op->act_mul(m->be, m->act, s->shared_mid, s->shared_ffn));
    }
    TRY(product(m, l, W_SHARED_DOWN, s->shared_ffn, s->second));
    TRY(all_reduce(m, s->both));
    if (l->w[W_SHARED_SCALE]) {
        TRY(product(m, l, W_SHARED_SCALE, in, s->shared_scale)); /* [T, 1] */
        TRY(m->op->sigmoid_mul(m->be, s->second, s->shared_scale));
    }
    return m->op->add(m->be, s->out, s->second, 1.0f);
}

/* s->out: [T,D], the norm of the dense part plus the norm of the experts', which are summed over the ranks at once.  The
 * dense part, the router and the experts have norms of their own of the residual stream (Gemma 4).  in [T,D]: the dense
 * part's, which is overwritten. */
static enum status beside_ffn(struct decoder *m, const struct layer *l, struct view in,
                              struct scratch *s)
{
    const struct backend_ops *op = m->op;
    struct view none = {0}, dense = s->both, sparse = s->second;
    dense.rows = in.rows;
    TRY(dense_ffn(m, l, in, s, dense));
    s->out = dense; /* whatever post_norm has exchanged */
    s->h = scratch_rows(m, m->at.h, in.rows, m->mc.hidden);
    TRY(op->add_rms_norm(m->be, s->resid, none, NULL, l->w[W_ROUTER_NORM], m->eps, s->h));
    TRY(product(m, l, W_ROUTER, s->h, s->router)); /* [T, E] */
    TRY(op->scale(m->be, s->router, (float)(1.0 / sqrt((double)m->mc.hidden))));
    TRY(op->moe_route(m->be, &l->moe, s->router, s->ids, s->weights));
    TRY(op->add_rms_norm(m->be, s->resid, none, NULL, l->w[W_EXPERT_IN_NORM], m->eps, s->h));
    TRY(experts(m, l, s->h, s, sparse));
    TRY(all_reduce(m, s->both));
    TRY(op->add_rms_norm(m->be, dense, none, NULL, l->w[W_DENSE_OUT_NORM], m->eps, s->h));
    TRY(op->add_rms_norm(m->be, sparse, none, NULL, l->w[W_EXPERT_OUT_NORM], m->eps, dense));
    return op->add(m->be, dense, s->h, 1.0f);
}

/* q and k over all heads at once: each head's sum of squares comes from one rank. */
static enum status wide_norms(struct decoder *m, const struct layer *l, const struct scratch *s)
{
    int32_t d = m->mc.d_head, shared = m->sh.q_offset > 0; /* the first KV head is a lower rank's */
    struct view q = s->qkv, k = s->qkv, q_sums = s->squares, k_sums = s->squares, out = s->squares;
    q.cols = m->sh.n_q * d;
    k.cols = m->sh.n_kv * d;
    k.off += (size_t)q.cols * sizeof(float);
    q_sums.cols = m->mc.n_q;
    k_sums.cols = m->mc.n_kv;
    k_sums.off += (size_t)m->mc.n_q * sizeof(float);
    TRY(m->op->zero(m->be, s->squares));
    out.off += (size_t)m->sh.q_first * sizeof(float);
    out.cols = m->sh.n_q;
    TRY(m->op->head_squares(m->be, q, out));
    struct view own = k;
    own.off += (size_t)(shared * d) * sizeof(float);
    own.cols -= shared * d;
    out.off = k_sums.off + (size_t)(m->sh.kv_first + shared) * sizeof(float);
    out.cols = m->sh.n_kv - shared;
    TRY(m->op->head_squares(m->be, own, out));
    TRY(all_reduce(m, s->squares));
    TRY(m->op->wide_norm(m->be, q, q_sums, d, m->mc.n_q, 0, l->w[W_Q_NORM], m->eps));
    return m->op->wide_norm(m->be, k, k_sums, d, m->mc.n_kv, 0, l->w[W_K_NORM], m->eps);
}

/* *delta: s->out, through the norm with its bias, if the model has one; then h and out change
 * places. */
static enum status post_norm(struct decoder *m, const struct weight *norm,
                             const struct weight *bias, struct scratch *s, struct delta *delta)
{
    struct view raw = s->out;
    *delta = (struct delta){s->out, norm ? NULL : bias};
    if (!norm)
        return ST_OK;
    if (bias)
        TRY(m->op->add_bias(m->be, raw, bias));
    TRY(m->op->add_rms_norm(m->be, raw, (struct view){0}, NULL, norm, m->eps, s->h));
    s->out = delta->x = s->h;
    s->h = raw;
    return ST_OK;
}

/* resid += delta; *in: what the next part reads, the norm of it in h, or resid itself. */
static enum status next_part(struct decoder *m, const struct scratch *s, const struct delta *delta,
                             const struct weight *norm, const struct weight *norm_bias,
                             struct view h, struct view *in)
{
    struct view x = delta->x;
    *in = norm ? h : s->resid;
    bool apart = m->mc.residual_scale != 1 || !norm || m->mc.arch->layer_norm;
    if (x.buf && apart && delta->bias)
        TRY(m->op->add_bias(m->be, x, delta->bias));
    if (x.buf && apart) {
        TRY(m->op->add(m->be, s->resid, x, (float)m->mc.residual_scale));
        x.buf = NULL;
    }
    if (!norm)
        return ST_OK;
    if (m->mc.arch->layer_norm)
        return m->op->layer_norm(m->be, s->resid, norm, norm_bias, m->eps, h);
    return m->op->add_rms_norm(m->be, s->resid, x, x.buf ? delta->bias : NULL, norm, m->eps, h);
}

/* s->q_heads: [T, n_q (d_nope + d_rope)] */
static enum status latent_queries(struct decoder *m, const struct layer *l, struct view in,
                                  const struct scratch *s)
{
    if (l->w[W_Q])
        return product(m, l, W_Q, in, s->q_heads);
    TRY(product(m, l, W_Q_A, in, s->q_latent)); /* [T, q_rank], on every rank */
    TRY(m->op->add_rms_norm(m->be, s->q_latent, (struct view){0}, NULL, l->w[W_Q_A_NORM],
                            (float)LATENT_NORM_EPS, s->q_normed));
    return product(m, l, W_Q_B, s->q_normed, s->q_heads);
}

/* Latent attention in the absorbed form: all query heads read one row a token, the latent beside the
 * rotated part of the key.  The matrix from latents to keys is applied to the query, the one from
 * latents to values to what attention gives.  s->out: partial [T,D]. */
static enum status latent_attention(struct decoder *m, const struct layer *l,
                                    const struct step_dev *st, struct view in,
                                    const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    TRY(latent_queries(m, l, in, s));
    TRY(product(m, l, W_KV_A, in, s->latent)); /* [T, kv_rank + d_rope], on every rank */
    TRY(op->latent_to_cache(m->be, &l->attn, st, s->latent, s->q_heads, l->kv, s->q));
    TRY(op->heads_linear(m->be, l->w[W_K_B], s->q_heads, s->q));  /* [T, n_q (kv_rank + d_rope)] */
    TRY(op->attention(m->be, &l->attn, st, s->q, l->kv, s->att)); /* [T, n_q kv_rank] */
    TRY(op->heads_linear(m->be, l->w[W_V_B], s->att, s->values)); /* [T, n_q d_value] */
    return product(m, l, W_O, s->values, s->out);
}

/* s->out: partial [T,D], from in [T,D] */
static enum status delta_net(struct decoder *m, const struct layer *l, const struct step_dev *st,
                             struct view in, const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    TRY(product(m, l, W_DELTA_QKV, in, s->delta_qkv)); /* [T, 2 n_k d_k + n_v d_v] */
    TRY(product(m, l, W_DELTA_Z, in, s->delta_z));     /* [T, n_v d_v] */
    TRY(product(m, l, W_DELTA_BA, in, s->delta_ba));   /* [T, 2 n_v] */
    TRY(op->delta_conv(m->be, &l->delta, st, s->delta_qkv, l->state));
    TRY(op->delta_rule(m->be, &l->delta, st, s->delta_qkv, s->delta_ba, l->state, s->delta_out));
    TRY(op->gated_norm(m->be, s->delta_out, l->w[W_DELTA_NORM], m->eps, s->delta_z));
    return product(m, l, W_DELTA_OUT, s->delta_out, s->out);
}

/* x: of what a Mamba-2 layer gives, over the groups of heads that share B and C: where ranks share a group, each head's sum
 * of squares comes from one of them. */
static enum status group_norm(struct decoder *m, const struct layer *l, const struct scratch *s,
                              struct view x)
{
    const struct delta_share *sh = &m->sh.delta;
    if (sh->cut_groups)
        TRY(m->op->zero(m->be, s->delta_squares));
    TRY(m->op->head_squares(m->be, x, view_columns(s->delta_squares, sh->v_first, sh->n_v)));
    if (sh->cut_groups)
        TRY(all_reduce(m, s->delta_squares));
    return m->op->wide_norm(m->be, x, s->delta_squares, m->mc.d_delta_v, sh->v_per_k, sh->v_first,
                            l->w[W_DELTA_NORM], m->eps);
}

/* The factors on what the matrix of z, x, B, C and dt gives. */
static enum status scale_mamba(struct decoder *m, const struct scratch *s)
{
    const struct layer_factors *f = &m->mc.factors;
    int32_t values = s->delta_out.cols, n = m->sh.delta.n_v,
            keys = m->sh.delta.n_k * m->mc.d_delta_k;
    TRY(scale(m, view_columns(s->delta_qkv, 0, keys), f->c));
    TRY(scale(m, view_columns(s->delta_qkv, keys, keys), f->b));
    TRY(scale(m, view_columns(s->delta_qkv, 2 * keys, values), f->x));
    TRY(scale(m, view_columns(s->delta_z, 0, values), f->z));
    return scale(m, view_columns(s->delta_ba, n, n), f->dt);
}

/* to: partial [T,D], from in [T,D] */
static enum status mamba(struct decoder *m, const struct layer *l, const struct step_dev *st,
                         struct view in, const struct scratch *s, struct view to)
{
    const struct backend_ops *op = m->op;
    int32_t values = s->delta_out.cols, n = m->sh.delta.n_v;
    struct view z = view_columns(s->delta_z, 0, values),
                y = view_columns(s->delta_z, values, values);
    TRY(product(m, l, W_DELTA_QKV, in, s->delta_qkv)); /* C, B, x */
    TRY(product(m, l, W_DELTA_Z, in, z));
    TRY(product(m, l, W_DELTA_STEP, in, view_columns(s->delta_ba, n, n)));
    TRY(scale_mamba(m, s));
    TRY(op->delta_conv(m->be, &l->delta, st, s->delta_qkv, l->state));
    TRY(op->delta_rule(m->be, &l->delta, st, s->delta_qkv, s->delta_ba, l->state, y));
    if (l->w[W_DELTA_NORM] && m->mc.norm_first)
        TRY(group_norm(m, l, s, y));
    TRY(op->act_mul(m->be, ACT_SILU, s->delta_z, s->delta_out)); /* silu(z) y */
    if (l->w[W_DELTA_NORM] && !m->mc.norm_first)
        TRY(group_norm(m, l, s, s->delta_out));
    return product(m, l, W_DELTA_OUT, s->delta_out, to);
}

static struct view attention_output(const struct decoder *m, const struct layer *l,
                                    enum weight_id id, struct view att)
{
    return l->attn.d_head % 8 ? att : input_of(m, l, id, OPERAND_ATTENTION, att);
}

/* The matrix of queries and what is beside them. */
static enum weight_id global_qkv(const struct attn_layer *al)
{
    return al->q_alone ? W_GLOBAL_Q : al->v_is_k ? W_GLOBAL_QK : W_GLOBAL_QKV;
}

static enum weight_id layer_qkv(const struct attn_layer *al)
{
    return al->q_alone ? W_Q : W_QKV;
}

/* Of a global layer with heads of its own.  s->out: partial [T,D], from in [T,D] */
static enum status global_attention(struct decoder *m, const struct layer *l,
                                    const struct step_dev *st, struct view in,
                                    const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    const struct attn_layer *al = &l->attn;
    struct view qkv = with_cols(s->qkv, attn_qkv_cols(al));
    struct view q = with_cols(s->q, al->n_q * al->d_head), att = with_cols(s->att, q.cols);
    att = attention_output(m, l, W_GLOBAL_O, att);
    TRY(product(m, l, global_qkv(al), in, qkv));
    TRY(op->qkv_to_cache(m->be, al, st, qkv, l->kv, q));
    TRY(op->attention(m->be, al, st, q, l->kv, att));
    return product(m, l, W_GLOBAL_O, att, s->out);
}

static enum status scale_qkv(struct decoder *m, const struct scratch *s)
{
    const struct layer_factors *f = &m->mc.factors;
    int32_t q = s->q.cols, kv = (s->qkv.cols - q) / 2;
    TRY(scale(m, view_columns(s->qkv, 0, q), f->qv));
    TRY(scale(m, view_columns(s->qkv, q, kv), f->k));
    return scale(m, view_columns(s->qkv, q + kv, kv), f->qv);
}

/* s->out: partial [T,D], from in [T,D] */
static enum status attention(struct decoder *m, const struct layer *l, const struct step_dev *st,
                             struct view in, const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    if (l->is_delta && !m->mc.arch->beside)
        return m->mc.arch->mamba ? mamba(m, l, st, in, s, s->out) : delta_net(m, l, st, in, s);
    if (m->mc.kv_rank)
        return latent_attention(m, l, st, in, s);
    if (model_is_global(&m->mc, (int32_t)(l - m->layer)))
        return global_attention(m, l, st, in, s);
    struct view qkv = with_cols(s->qkv, attn_qkv_cols(&l->attn)); /* [T, (n_q + 2 n_kv) d] */
    struct view att = s->att;                                     /* [T, n_q d] */
    if (!l->w[W_Q_GATE])
        att = attention_output(m, l, W_O, att);
    TRY(product(m, l, layer_qkv(&l->attn), in, qkv));
    TRY(scale_qkv(m, s));
    if (m->mc.arch->wide_qk_norm)
        TRY(wide_norms(m, l, s));
    TRY(op->qkv_to_cache(m->be, &l->attn, st, qkv, l->kv, s->q));
    TRY(op->attention(m->be, &l->attn, st, s->q, l->kv, att));
    if (l->w[W_Q_GATE]) {
        TRY(product(m, l, W_Q_GATE, in, s->gate)); /* [T, n_q d] */
        TRY(op->sigmoid_mul(m->be, att, s->gate));
    }
    return product(m, l, W_O, att, s->out);
}

/* Attention and feed-forward side by side: both outputs are summed over the ranks at once. */
static enum status parallel_forward(struct decoder *m, const struct layer *l,
                                    const struct step_dev *st, struct scratch *s,
                                    struct delta *delta)
{
    struct view in;
    TRY(next_part(m, s, delta, l->w[W_ATTN_NORM], l->w[W_ATTN_NORM_BIAS], s->h, &in));
    TRY(attention(m, l, st, in, s));
    if (l->w[W_FFN_NORM]) /* of the same stream: nothing was added yet */
        TRY(m->op->layer_norm(m->be, s->resid, l->w[W_FFN_NORM], l->w[W_FFN_NORM_BIAS], m->eps,
                              s->h));
    TRY(dense_ffn(m, l, l->w[W_FFN_NORM] ? s->h : in, s, s->second));
    TRY(all_reduce(m, s->both));
    if (l->w[W_O_BIAS])
        TRY(m->op->add_bias(m->be, s->out, l->w[W_O_BIAS]));
    TRY(m->op->add(m->be, s->resid, s->out, (float)m->mc.residual_scale));
    *delta = (struct delta){s->second, l->w[W_DOWN_BIAS]};
    return ST_OK;
}

/* *delta: the norm of the product with the layer's input, which the residual stream decides (Gemma 3n, Gemma 4 E2B); the
 * matrices are whole on every rank. */
static enum status layer_input(struct decoder *m, const struct layer *l, struct scratch *s,
                               struct delta *delta)
{
    const struct backend_ops *op = m->op;
    int32_t P = m->mc.d_input, i = (int32_t)(l - m->layer);
    struct view gate = s->input_mid, up = s->input_mid, own = s->inputs; /* [T, P] of wider rows */
    gate.cols = up.cols = own.cols = P;
    up.off += (size_t)P * sizeof(float);
    own.off += (size_t)i * (size_t)P * sizeof(float);
    TRY(product(m, l, W_INPUT_GATE, s->resid, s->input_act));
    TRY(op->copy(m->be, gate, s->input_act));
    TRY(op->copy(m->be, up, own));
    TRY(op->act_mul(m->be, m->act, s->input_mid, s->input_act));
    TRY(product(m, l, W_INPUT_OUT, s->input_act, s->out));
    return post_norm(m, l->w[W_INPUT_NORM], NULL, s, delta);
}

/* resid = (resid + delta) * the layer's factor */
static enum status scale_layer(struct decoder *m, const struct layer *l, const struct scratch *s,
                               struct delta *delta)
{
    TRY(m->op->add(m->be, s->resid, delta->x, 1.0f));
    *delta = (struct delta){0};
    return m->op->scale(m->be, s->resid, l->scale);
}

/* s->out: [T,D] summed over the ranks, from in [T,D]: attention, and Mamba-2 where it is beside it.  Factors come behind the
 * sum, so that the bits do not depend on the number of ranks. */
static enum status mixers(struct decoder *m, const struct layer *l, const struct step_dev *st,
                          struct view in, const struct scratch *s)
{
    TRY(attention(m, l, st, in, s));
    if (!m->mc.arch->beside)
        return all_reduce(m, s->out);
    TRY(mamba(m, l, st, in, s, s->second));
    TRY(all_reduce(m, s->both));
    TRY(scale(m, s->out, m->mc.factors.o));
    TRY(scale(m, s->second, m->mc.factors.ssm));
    return m->op->add(m->be, s->out, s->second, 1.0f);
}

/* s->out: [T,D] summed over the ranks, from in [T,D], which is overwritten */
static enum status feed_forward(struct decoder *m, const struct layer *l, struct view in,
                                struct scratch *s)
{
    if (l->w[W_ROUTER_NORM])
        return beside_ffn(m, l, in, s);
    if (l->sparse)
        return expert_ffn(m, l, in, s);
    TRY(dense_ffn(m, l, in, s, s->out));
    TRY(all_reduce(m, s->out));
    return scale(m, s->out, m->mc.factors.down);
}

/* A layer that is a mixer or a feed-forward (arch->one_part). */
static enum status part_forward(struct decoder *m, const struct layer *l, const struct step_dev *st,
                                struct scratch *s, struct delta *delta)
{
    struct view in;
    TRY(next_part(m, s, delta, l->w[W_ATTN_NORM], NULL, s->h, &in));
    TRY(m->mc.feeds[l - m->layer] ? feed_forward(m, l, in, s) : mixers(m, l, st, in, s));
    *delta = (struct delta){s->out, NULL};
    return ST_OK;
}

/* A layer over several residual streams: it computes the active one as predicted, and its result corrects all; what the
 * layer's input gives is added to all but the first. */
static enum status streams_forward(struct decoder *m, const struct layer *l,
                                   const struct step_dev *st, struct scratch *s)
{
    struct weight *const *w = l->w;
    struct delta delta = {0};
    struct view in;
    TRY(streams_predict(m, l, s)); /* s->resid */
    TRY(next_part(m, s, &delta, w[W_ATTN_NORM], NULL, s->h, &in));
    TRY(streams_laurel(m, l, in, s)); /* s->laurel */
    TRY(mixers(m, l, st, in, s));
    TRY(post_norm(m, w[W_POST_ATTN_NORM], w[W_O_BIAS], s, &delta));
    TRY(m->op->add(m->be, s->resid, delta.x, 1.0f));
    TRY(m->op->add(m->be, s->resid, s->laurel, 1.0f));
    TRY(m->op->scale(m->be, s->resid, (float)sqrt(0.5)));
    delta = (struct delta){0};
    TRY(next_part(m, s, &delta, w[W_FFN_NORM], NULL, s->h, &in));
    TRY(feed_forward(m, l, in, s));
    TRY(post_norm(m, w[W_POST_FFN_NORM], NULL, s, &delta));
    TRY(m->op->add(m->be, s->resid, delta.x, 1.0f));
    TRY(streams_correct(m, l, s)); /* s->resid: the active one, scaled */
    TRY(layer_input(m, l, s, &delta));
    return streams_add(m, delta.x, s);
}

/* s->h for the norm before attention: where one product alone reads it, as that product's operand. */
static struct view attention_input(const struct decoder *m, const struct layer *l,
                                   const struct scratch *s)
{
    bool global = model_is_global(&m->mc, (int32_t)(l - m->layer));
    if (m->mc.arch->layer_norm || m->mc.arch->beside || l->is_delta || m->mc.kv_rank ||
        l->w[W_Q_GATE])
        return s->h;
    return input_of(m, l, global ? global_qkv(&l->attn) : layer_qkv(&l->attn), OPERAND_NORM, s->h);
}

/* The same before a feed-forward. */
static struct view ffn_input(const struct decoder *m, const struct layer *l,
                             const struct scratch *s)
{
    if (m->mc.arch->layer_norm || l->w[W_ROUTER_NORM] || l->sparse)
        return s->h;
    return input_of(m, l, l->w[W_UP] ? W_UP : W_GATE_UP, OPERAND_NORM, s->h);
}

static enum status layer_forward(struct decoder *m, const struct layer *l,
                                 const struct step_dev *st, struct scratch *s, struct delta *delta)
{
    struct weight *const *w = l->w;
    struct view in;
    if (m->mc.parallel)
        return parallel_forward(m, l, st, s, delta);
    if (m->mc.arch->one_part)
        return part_forward(m, l, st, s, delta);
    if (m->mc.n_streams)
        return streams_forward(m, l, st, s);
    TRY(next_part(m, s, delta, w[W_ATTN_NORM], w[W_ATTN_NORM_BIAS], attention_input(m, l, s), &in));
    TRY(mixers(m, l, st, in, s));
    TRY(post_norm(m, w[W_POST_ATTN_NORM], w[W_O_BIAS] ? w[W_O_BIAS] : w[W_GLOBAL_O_BIAS], s,
                  delta));
    TRY(next_part(m, s, delta, w[W_FFN_NORM], w[W_FFN_NORM_BIAS], ffn_input(m, l, s), &in));
    TRY(feed_forward(m, l, in, s));
    TRY(post_norm(m, w[W_POST_FFN_NORM], w[W_DOWN_BIAS], s, delta));
    if (w[W_INPUT_GATE]) {
        TRY(m->op->add(m->be, s->resid, delta->x, 1.0f));
        TRY(layer_input(m, l, s, delta));
    }
    return m->mc.arch->layer_scale ? scale_layer(m, l, s, delta) : ST_OK;
}

/* ---- encoders ---- */

/* resid: the norm of the sum */
static enum status encoder_input(struct decoder *m, const struct step_dev *st, struct scratch *s)
{
    TRY(inputs_embed(m, st, s));
    return m->op->layer_norm(m->be, s->resid, m->w[W_EMBED_NORM], m->w[W_EMBED_NORM_BIAS], m->eps,
                             s->resid);
}

/* resid = norm(resid + out + bias), out summed over the ranks first */
static enum status norm_sum(struct decoder *m, const struct layer *l, enum weight_id bias,
                            enum weight_id norm, enum weight_id norm_bias, const struct scratch *s)
{
    TRY(all_reduce(m, s->out));
    TRY(m->op->add_bias(m->be, s->out, l->w[bias]));
    TRY(m->op->add(m->be, s->resid, s->out, 1.0f));
    return m->op->layer_norm(m->be, s->resid, l->w[norm], l->w[norm_bias], m->eps, s->resid);
}

static enum status encoder_forward(struct decoder *m, const struct step_dev *st, struct scratch *s)
{
    TRY(encoder_input(m, st, s));
    for (int32_t i = 0; i < m->mc.n_layers; i++) {
        const struct layer *l = &m->layer[i];
        TRY(attention(m, l, st, s->resid, s));
        TRY(norm_sum(m, l, W_O_BIAS, W_ATTN_NORM, W_ATTN_NORM_BIAS, s));
        TRY(dense_ffn(m, l, s->resid, s, s->out));
        TRY(norm_sum(m, l, W_DOWN_BIAS, W_FFN_NORM, W_FFN_NORM_BIAS, s));
    }
    m->states = s->resid;
    return ST_OK;
}

enum status decoder_forward(struct decoder *m, const struct step_dev *st, struct view *logits)
{
    const struct backend_ops *op = m->op;
    assert(st->n_tokens <= m->cfg.max_tokens && st->out_row.rows <= m->cfg.max_out);
    assert(st->block_len == m->cfg.block_len && st->max_kv <= m->cfg.max_ctx);
    struct scratch s = scratch_of(m, st->n_tokens, st->out_row.rows);
    struct delta delta = {0};
    *logits = s.logits;
    bool encoder = m->mc.arch->encoder != NULL;
    if (encoder && !m->mc.arch->encoder->pre_norm)
        return encoder_forward(m, st, &s);
    TRY(encoder ? encoder_input(m, st, &s) : inputs_embed(m, st, &s));
    if (m->mc.d_input)
        TRY(inputs_of_layers(m, st, &s));
    if (m->mc.n_streams)
        TRY(streams_begin(m, &s));
    for (int32_t i = 0; i < m->mc.n_layers; i++)
        TRY(layer_forward(m, &m->layer[i], st, &s, &delta));
    if (m->mc.n_streams)
        TRY(streams_end(m, &s));
    TRY(next_part(m, &s, &delta, m->w[W_FINAL_NORM], m->w[W_FINAL_NORM_BIAS], s.h, &m->states));
    if (m->mc.headless) {
        assert(st->out_row.rows == 0);
        return ST_OK;
    }
    TRY(op->gather(m->be, m->states, st->out_row, s.last)); /* [R,D] */
    TRY(scale(m, s.last, m->mc.logit_scale));
    TRY(product_head(m, s.last, s.logits));
    return m->mc.logit_cap > 0 ? op->soft_cap(m->be, s.logits, (float)m->mc.logit_cap) : ST_OK;
}
