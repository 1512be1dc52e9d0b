#include "worker/load/shard.h"

#include <string.h>

/* Cuts n units: this rank's first one, how many, and the ends of its slices, counted from its
 * first. */
static void cut(int32_t n, int rank, int world, int32_t n_slices, bool even, int32_t *first,
                int32_t *count, int32_t *slice_end)
{
    int64_t pieces = even ? N_SLICES : world; /* over the whole model */
    int64_t at = (int64_t)rank * n_slices;    /* this rank's first piece */
    *first = (int32_t)(at * n / pieces);
    for (int32_t i = 0; i < n_slices; i++)
        slice_end[i] = (int32_t)((at + i + 1) * n / pieces) - *first;
    *count = slice_end[n_slices - 1];
}

/* The slices have equal borders whatever the world. */
static bool is_even(int world)
{
    return world <= N_SLICES && (world & (world - 1)) == 0;
}

/* The greatest number of columns that divides both. */
static int32_t common_unit(int32_t width, int32_t unit)
{
    while (unit > 0) {
        int32_t rest = width % unit;
        width = unit;
        unit = rest;
    }
    return width;
}

/* In units that the width is a multiple of; where that is less than `unit`, blocks are smaller, too: they divide both. */
static struct ffn_share share_of(const struct shard *sh, int32_t width, int32_t unit)
{
    struct ffn_share s = {0};
    unit = common_unit(width, unit);
    cut(width / unit, sh->rank, sh->world, sh->n_slices, is_even(sh->world), &s.first, &s.n,
        s.slice_end);
    s.first *= unit;
    s.n *= unit;
    for (int32_t i = 0; i < sh->n_slices; i++)
        s.slice_end[i] *= unit;
    return s;
}

static enum status cut_ffn(struct ffn_share *out, const struct shard *sh, int32_t width,
                           int32_t unit)
{
    int32_t own = common_unit(width, unit);
    if (sh->world > width / own)
        FAIL(ST_RANGE, "%d ranks are too many for a feed-forward width of %d in units of %d",
             sh->world, width, own);
    *out = share_of(sh, width, unit);
    return ST_OK;
}

static enum status cut_dense(struct shard *sh, const struct model_config *mc)
{
    struct ffn_share s;
    TRY(cut_ffn(&sh->ffn, sh, mc->ffn, mc->ffn_unit));
    for (int32_t i = 0; i < mc->n_layers; i++) {
        TRY(cut_ffn(&s, sh, model_layer_axis(mc, AX_FFN, i), mc->ffn_unit));
        sh->most_ffn = s.n > sh->most_ffn ? s.n : sh->most_ffn;
    }
    return ST_OK;
}

struct ffn_share shard_ffn(const struct shard *sh, const struct model_config *mc, int32_t layer)
{
    return share_of(sh, model_layer_axis(mc, AX_FFN, layer), mc->ffn_unit);
}

/* Value heads, with the key heads that they read. */
static void cut_delta(struct delta_share *out, const struct model_config *mc, int rank, int world,
                      int32_t n_slices, bool even)
{
    cut(mc->n_delta_v, rank, world, n_slices, even, &out->v_first, &out->n_v, out->slice_end);
    if (mc->arch->tiled_heads) {
        out->k_first = out->v_first % mc->n_delta_k;
        out->n_k = out->n_v < mc->n_delta_k ? out->n_v : mc->n_delta_k;
        out->v_per_k = 1;
        return;
    }
    out->v_per_k = mc->n_delta_v / mc->n_delta_k;
    for (int r = 1; r < world; r++) {
        int32_t first, n, ends[N_SLICES];
        cut(mc->n_delta_v, r, world, n_slices, even, &first, &n, ends);
        out->cut_groups = out->cut_groups || first % out->v_per_k != 0;
    }
    out->k_first = out->v_first / out->v_per_k;
    out->v_offset = out->v_first % out->v_per_k;
    out->n_k = (out->v_first + out->n_v - 1) / out->v_per_k - out->k_first + 1;
}

/* The key/value heads that these query heads read; ranks whose query heads share one both hold it. */
static struct kv_share kv_of(const struct shard *sh, int32_t q_per_kv)
{
    int32_t first = sh->q_first / q_per_kv;
    return (struct kv_share){.first = first,
                             .n = (sh->q_first + sh->n_q - 1) / q_per_kv - first + 1,
                             .q_per_kv = q_per_kv,
                             .q_offset = sh->q_first % q_per_kv};
}

enum status shard_plan(struct shard *out, const struct model_config *mc, int rank, int world)
{
    if (world < 1 || rank < 0 || rank >= world)
        FAIL(ST_RANGE, "rank %d of %d ranks", rank, world);
    if (world > mc->vocab)
        FAIL(ST_RANGE, "%d ranks are too many for a vocabulary of %d", world, mc->vocab);
    if (mc->input_vocab && world > mc->input_vocab)
        FAIL(ST_RANGE, "%d ranks are too many for layers' inputs of %d tokens", world,
             mc->input_vocab);
    if (world > mc->n_q)
        FAIL(ST_RANGE, "%d ranks are too many for %d attention heads", world, mc->n_q);
    if (mc->n_delta_v && world > mc->n_delta_v)
        FAIL(ST_RANGE, "%d ranks are too many for %d value heads of gated delta nets", world,
             mc->n_delta_v);
    bool even = is_even(world);
    memset(out, 0, sizeof *out);
    out->rank = rank;
    out->world = world;
    out->n_slices = even ? N_SLICES / world : 1;
    out->vocab.n_slices = out->n_slices;
    cut(mc->n_q, rank, world, out->n_slices, even, &out->q_first, &out->n_q, out->attn_slice_end);
    if (model_n_sparse(mc) < mc->n_layers || model_has_dense_beside(mc))
        TRY(cut_dense(out, mc));
    if (model_n_sparse(mc) > 0)
        TRY(cut_ffn(&out->expert, out, mc->expert_ffn, mc->expert_unit));
    if (mc->shared_ffn)
        TRY(cut_ffn(&out->shared, out, mc->shared_ffn, mc->shared_unit));
    if (mc->n_delta_v)
        cut_delta(&out->delta, mc, rank, world, out->n_slices, even);
    cut(mc->vocab, rank, world, out->n_slices, even, &out->vocab.first_id, &out->vocab.n_cols,
        out->vocab.slice_end);
    if (mc->input_vocab) {
        int32_t ends[N_SLICES];
        cut(mc->input_vocab, rank, world, out->n_slices, even, &out->input_first, &out->n_inputs,
            ends);
    }

    struct kv_share kv = kv_of(out, mc->n_q / mc->n_kv);
    out->q_per_kv = kv.q_per_kv;
    out->kv_first = kv.first;
    out->q_offset = kv.q_offset;
    out->n_kv = kv.n;
    if (mc->global_d_head > 0)
        out->global = kv_of(out, mc->n_q / mc->global_n_kv);
    return ST_OK;
}

struct kv_share shard_kv(const struct shard *sh, const struct model_config *mc, int32_t layer)
{
    if (model_is_global(mc, layer))
        return sh->global;
    return (struct kv_share){sh->kv_first, sh->n_kv, sh->q_per_kv, sh->q_offset};
}
