#include "bench/step_cost.h"

#include <math.h>

struct count {
    struct backend *be;
    const struct model_config *mc;
    struct model_cost *out;
};

static void add_stack(struct count *c, enum weight_id id, const struct weight_src *src, int32_t n)
{
    double macs = 0;
    for (int32_t i = 0; i < src->n_parts; i++)
        macs += (double)src->part[i].rows * src->cols;
    if (id == W_K_B || id == W_V_B) { /* a matrix for each head, all of them for every token */
        c->out->layer_macs += macs * n;
        c->out->layer_bytes += (double)backend_ops_of(c->be)->stack_bytes(c->be, src, n);
        return;
    }
    c->out->layer_macs += macs * c->mc->top_k;
    c->out->expert_bytes += (double)backend_ops_of(c->be)->stack_bytes(c->be, src, n);
}

static enum status add_weight(void *ctx, enum weight_id id, int32_t layer,
                              const struct weight_src *src, int32_t n, size_t n_bytes)
{
    struct count *c = ctx;
    double macs = 0;
    bool head = id == W_HEAD || (id == W_EMBED && c->mc->tied);
    (void)layer;
    (void)n_bytes;
    if (id == W_EMBED && !head) /* a few rows of it */
        return ST_OK;
    if (weight_is_stack(id)) {
        add_stack(c, id, src, n);
        return ST_OK;
    }
    for (int32_t i = 0; i < src->n_parts && !src->vector; i++)
        macs += (double)src->part[i].rows * src->cols;
    *(head ? &c->out->head_bytes : &c->out->layer_bytes) +=
        (double)backend_ops_of(c->be)->weight_bytes(c->be, src);
    *(head ? &c->out->head_macs : &c->out->layer_macs) += macs;
    return ST_OK;
}

enum status model_cost(struct model_cost *out, struct loader *ld, struct backend *be, int world,
                       enum dtype kv_dtype)
{
    const struct model_config *mc = loader_config(ld);
    bool scaled = kv_dtype == DT_I8 || kv_dtype == DT_E4M3;
    double entry = (double)dtype_size(kv_dtype) * mc->d_head + (scaled ? sizeof(float) : 0);
    double entries = mc->kv_rank ? 1 : 2; /* latent attention: values are a part of the keys */
    double value = mc->kv_rank ? mc->kv_rank : mc->d_head;
    double layers = model_n_attention(mc), deltas = model_n_delta(mc);
    double state = deltas * mc->n_delta_v * mc->d_delta_k * mc->d_delta_v;
    *out =
        (struct model_cost){.kv_bytes = entries * layers * mc->n_kv * entry,
                            .unchosen = mc->n_experts ? 1 - (double)mc->top_k / mc->n_experts : 0,
                            .attn_macs = layers * mc->n_q * (mc->d_head + value),
                            .state_bytes = 2 * sizeof(float) * state,
                            .layer_macs = (mc->arch->mamba ? 3 : 4) * state};
    for (int r = 0; r < world; r++) {
        struct shard sh;
        TRY(shard_plan(&sh, mc, r, world));
        TRY(weights_each(ld, &sh, add_weight, &(struct count){be, mc, out}, true));
    }
    return ST_OK;
}

static void add_step(struct step_cost *c, const struct model_cost *m, double seqs, double tokens,
                     double rows, double keys_read, double pairs)
{
    c->weight_bytes += m->layer_bytes + (rows > 0 ? m->head_bytes : 0);
    c->weight_bytes += m->expert_bytes * (1 - pow(m->unchosen, tokens));
    c->kv_bytes += keys_read * m->kv_bytes + seqs * m->state_bytes;
    c->ops += 2 * (tokens * m->layer_macs + rows * m->head_macs + pairs * m->attn_macs);
}

struct step_cost prefill_cost(const struct model_cost *m, int32_t n, int32_t context, int32_t chunk)
{
    struct step_cost c = {0};
    for (int32_t at = 0, k; at < n; at += k) {
        k = n - at < chunk ? n - at : chunk;
        double before = (double)context + at; /* token i of the chunk sees before + i + 1 keys */
        add_step(&c, m, 1, k, at + k == n, before + k, k * before + 0.5 * k * (k + 1.0));
    }
    return c;
}

struct step_cost decode_cost(const struct model_cost *m, int32_t n, int32_t seqs, int32_t context)
{
    struct step_cost c = {0};
    for (int32_t i = 0; i < n; i++) {
        double keys = (double)seqs * ((double)context + i + 1);
        add_step(&c, m, seqs, seqs, seqs, keys, keys);
    }
    return c;
}
