#include "worker/model/memory.h"

#include <string.h>

#include "common/checked.h"
#include "worker/load/input_rules.h"
#include "worker/load/weights.h"

static enum status check_experts(const struct model_config *mc, struct backend *be,
                                 const struct backend_info *info)
{
    if (!info->experts)
        FAIL(ST_UNSUPPORTED,
             "the backend %s (%s) has no mixtures of experts, and %s has %d experts a layer",
             backend_ops_of(be)->name, info->device, mc->arch->name, mc->n_experts);
    if (mc->n_experts > MOE_MAX_EXPERTS || mc->top_k > MOE_MAX_TOP_K)
        FAIL(ST_UNSUPPORTED, "%d experts, %d of them for a token: at most %d and %d are supported",
             mc->n_experts, mc->top_k, MOE_MAX_EXPERTS, MOE_MAX_TOP_K);
    if (mc->input_scales && mc->hidden > MOE_SCALED_COLUMNS)
        FAIL(ST_UNSUPPORTED,
             "--activations checkpoint: experts with scales of their inputs, of %d elements: at "
             "most %d are supported",
             mc->hidden, MOE_SCALED_COLUMNS);
    return ST_OK;
}

/* May inputs of experts have scales of their own, or groups that ranks share? */
static bool rounds_experts_apart(const struct decoder_config *cfg, const struct model_config *mc)
{
    return mc->inputs != INPUTS_FLOAT && mc->n_experts > 0 &&
           (mc->input_scales || inputs_shared(mc, cfg->world, AX_EXPERT_FFN, 0));
}

static enum status check_features(const struct decoder_config *cfg, const struct model_config *mc,
                                  struct backend *be, const struct backend_info *info)
{
    const struct arch *a = mc->arch;
    const struct {
        bool needed;
        enum backend_feature feature;
        const char *name;
    } rows[] = {
        {mc->kv_rank > 0, FEATURE_LATENT, "latent attention"},
        {model_n_delta(mc) > 0 && !a->mamba, FEATURE_DELTA, "gated delta-net layers"},
        {model_n_delta(mc) > 0 && a->mamba, FEATURE_MAMBA, "Mamba-2 layers"},
        {a->value_norm || mc->k_eq_v, FEATURE_VALUES, "norms of values"},
        {mc->n_kv_shared > 0, FEATURE_Q_ALONE, "layers that share keys and values"},
        {model_has(mc, TN_EXPERT_SCALE), FEATURE_EXPERT_SCALE, "factors of experts"},
        {mc->n_experts && (mc->sigmoid_scores || mc->n_groups > 1), FEATURE_ROUTES,
         "sigmoid or grouped routing of experts"},
        {model_has(mc, TN_SHARED_SCALE) || model_has(mc, TN_Q_GATE), FEATURE_SIGMOID_MUL, "gates"},
        {(a->layer_norm || a->tensor[TN_POST_ATTN_NORM].name || !a->tensor[TN_FFN_NORM].name ||
          mc->residual_scale != 1) &&
             (mc->o_bias || mc->mlp_bias),
         FEATURE_ADD_BIAS, "biases before norms"},
        {mc->act == MODEL_RELU2, FEATURE_RELU2, "squared ReLU"},
        {mc->n_experts && !a->tensor[TN_EXPERT_GATE].name, FEATURE_EXPERT_UP,
         "experts without gates"},
        {a->sinks, FEATURE_SINKS, "attention sinks"},
        {a->expert_bias, FEATURE_EXPERT_BIAS, "biases of experts"},
        {a->wide_qk_norm, FEATURE_WIDE_NORM, "norms over all heads at once"},
        {a->encoder != NULL, FEATURE_FULL, "attention that is not causal"},
        {model_has(mc, TN_REL_BIAS), FEATURE_REL_BIAS, "attention with biases of distances"},
        {mc->n_streams > 0, FEATURE_STREAMS, "AltUp"},
        {mc->n_streams > 1, FEATURE_LATENT, "matrices of residual streams"},
        {model_n_cut(mc) > 0, FEATURE_GATE_CUT, "gates cut by the statistics of their row"},
        {a->window == WINDOW_CHUNK && mc->window > 0, FEATURE_CHUNK, "attention in chunks"},
        {a->unit_qk_norm && mc->qk_norm, FEATURE_UNIT_QK, "norms of q and k behind RoPE"},
        {a->experts == EXPERTS_STEP && mc->n_experts > 0, FEATURE_WEIGH_INPUT,
         "factors on the inputs of experts"},
        {mc->inputs != INPUTS_FLOAT, FEATURE_ROUND_INPUTS,
         "rounding of inputs (--activations checkpoint)"},
        {rounds_experts_apart(cfg, mc), FEATURE_ROUND_EXPERTS,
         "rounding of experts' inputs by scales of their own, or of groups that ranks share "
         "(--activations checkpoint)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].needed && !(info->features & 1U << rows[i].feature))
            FAIL(ST_UNSUPPORTED, "the backend %s (%s) has no %s, which %s needs",
                 backend_ops_of(be)->name, info->device, rows[i].name, a->name);
    return ST_OK;
}

enum status decoder_config_check(const struct decoder_config *cfg, const struct model_config *mc,
                                 struct backend *be)
{
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    if (cfg->max_tokens < 1 || cfg->max_tokens > 1 << 20)
        FAIL(ST_RANGE, "a step of %d tokens: it must be 1 to %d", cfg->max_tokens, 1 << 20);
    if (cfg->max_out < 1 || cfg->max_out > cfg->max_tokens)
        FAIL(ST_RANGE, "%d rows of logits in a step of %d tokens", cfg->max_out, cfg->max_tokens);
    if (cfg->max_ctx < 1 || cfg->max_ctx > mc->max_ctx)
        FAIL(ST_RANGE, "a context of %d tokens: the model was made for %d at most", cfg->max_ctx,
             mc->max_ctx);
    if (cfg->block_len < 1 || cfg->n_blocks < 1 ||
        ((int64_t)cfg->n_blocks + cfg->n_pad_blocks) * cfg->block_len > INT32_MAX)
        FAIL(ST_RANGE, "%d KV blocks of %d tokens: there must be 1 to %d tokens in all",
             cfg->n_blocks, cfg->block_len, INT32_MAX);
    if (cfg->kv_dtype < 0 || cfg->kv_dtype >= DT_N || !(info.kv_types & 1U << cfg->kv_dtype))
        FAIL(ST_UNSUPPORTED, "a KV cache of %s is not supported by the backend (%s)",
             dtype_name(cfg->kv_dtype), info.device);
    int32_t d = mc->global_d_head > mc->d_head ? mc->global_d_head : mc->d_head;
    if (info.max_head && d > info.max_head)
        FAIL(ST_UNSUPPORTED, "heads of %d elements: the backend (%s) takes up to %d", d,
             info.device, info.max_head);
    TRY(check_features(cfg, mc, be, &info));
    return mc->n_experts ? check_experts(mc, be, &info) : ST_OK;
}

/* Takes rows * cols f32 at a 64-byte boundary. */
static bool take(size_t *at, size_t *offset, int32_t rows, int32_t cols)
{
    size_t n, start = *at;
    *offset = start;
    return mul_size((size_t)rows, (size_t)cols, &n) && mul_size(n, sizeof(float), &n) &&
           add_size(n, 63, &n) && add_size(start, n & ~(size_t)63, at);
}

struct moe_layer moe_facts(const struct model_config *mc, const struct shard *sh)
{
    return (struct moe_layer){.n_experts = mc->n_experts,
                              .top_k = mc->top_k,
                              .hidden = mc->hidden,
                              .ffn = sh->expert.n,
                              .up_alone = mc->n_experts && !mc->arch->tensor[TN_EXPERT_GATE].name,
                              .weigh_input = mc->arch->experts == EXPERTS_STEP,
                              .renormalise = mc->renormalise,
                              .sigmoid = mc->sigmoid_scores,
                              .n_groups = mc->n_groups,
                              .top_groups = mc->top_groups,
                              .glu_limit = (float)mc->glu_limit,
                              .glu_alpha = (float)mc->glu_alpha,
                              .scale = (float)mc->route_scale};
}

/* From *at on; moves it behind them. */
static bool take_experts(size_t *at, struct scratch_layout *out, const struct model_config *mc,
                         const struct shard *sh, struct backend *be, int32_t T)
{
    struct moe_layer ml = moe_facts(mc, sh);
    if (!mc->n_experts)
        return true;
    out->moe_bytes = backend_ops_of(be)->moe_scratch(be, &ml, T);
    return take(at, &out->router, T, mc->n_experts) && take(at, &out->ids, T, mc->top_k) &&
           take(at, &out->weights, T, mc->top_k) && out->moe_bytes / sizeof(float) <= INT32_MAX &&
           take(at, &out->moe, 1, (int32_t)(out->moe_bytes / sizeof(float))) &&
           take(at, &out->shared_mid, T, 2 * sh->shared.n) &&
           take(at, &out->shared_ffn, T, sh->shared.n) && take(at, &out->shared_scale, T, 1);
}

/* From *at on; moves it behind them. */
static bool take_latent(size_t *at, struct scratch_layout *out, const struct model_config *mc,
                        const struct shard *sh, int32_t T)
{
    return take(at, &out->q_latent, T, mc->q_rank) && take(at, &out->q_normed, T, mc->q_rank) &&
           take(at, &out->q_heads, T, sh->n_q * (mc->d_nope + mc->d_rope)) &&
           take(at, &out->latent, T, mc->kv_rank + mc->d_rope) &&
           take(at, &out->values, T, sh->n_q * mc->d_value);
}

/* From *at on; moves it behind them. */
static bool take_delta(size_t *at, struct scratch_layout *out, const struct model_config *mc,
                       const struct shard *sh, int32_t T)
{
    int32_t values = sh->delta.n_v * mc->d_delta_v;
    return take(at, &out->delta_qkv, T, 2 * sh->delta.n_k * mc->d_delta_k + values) &&
           take(at, &out->delta_z, T, mc->arch->mamba ? 2 * values : values) &&
           take(at, &out->delta_ba, T, 2 * sh->delta.n_v) && take(at, &out->delta_out, T, values) &&
           take(at, &out->delta_squares, T, mc->arch->mamba ? mc->n_delta_v : 0);
}

/* Of several residual streams, what a layer needs no longer than its prediction, its correction or LAuReL takes.  From
 * *at on; moves it behind them. */
static bool take_streams(size_t *at, struct scratch_layout *out, const struct model_config *mc,
                         int32_t T)
{
    int32_t n = mc->n_streams;
    return take(at, &out->others, T, n > 1 ? (n - 1) * mc->hidden : 0) &&
           take(at, &out->modes, T, n) && take(at, &out->coefs, T, n * n) &&
           take(at, &out->laurel_low, T, mc->laurel_rank);
}

static int32_t greater(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

int32_t peak_columns(const struct model_config *mc)
{
    static const enum axis cut[] = {AX_Q,   AX_VALUES,     AX_GLOBAL_Q,
                                    AX_FFN, AX_SHARED_FFN, AX_DELTA_VALUES};
    int32_t all = 1;
    if (mc->inputs == INPUTS_FLOAT)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(cut); i++)
        all = greater(all, model_axis(mc, cut[i]));
    int32_t experts = mc->n_experts ? model_axis(mc, AX_EXPERT_FFN) : 0;
    if (mc->input_group == 0)
        return greater(1, mc->top_k);
    return greater((all + mc->input_group - 1) / mc->input_group,
                   mc->top_k * ((experts + mc->input_group - 1) / mc->input_group));
}

/* Of inputs that are rounded.  From *at on; moves it behind them. */
static bool take_rounded(size_t *at, struct scratch_layout *out, const struct model_config *mc,
                         const struct shard *sh, int32_t T)
{
    int32_t q = sh->n_q * greater(mc->d_head, greater(mc->global_d_head, mc->d_value));
    int32_t values = sh->delta.n_v * mc->d_delta_v, keys = sh->delta.n_k * mc->d_delta_k;
    int32_t ffn = greater(sh->most_ffn, sh->shared.n);
    int32_t kv =
        greater(sh->n_kv * mc->d_head, sh->global.n * greater(mc->global_d_head, mc->d_head));
    int32_t in = greater(greater(mc->hidden, mc->q_rank), greater(q, greater(values, ffn)));
    bool rounds = mc->inputs != INPUTS_FLOAT;
    out->apart_cols =
        greater(greater(q + 2 * kv, 2 * ffn), greater(2 * keys + values, 2 * sh->delta.n_v));
    return take(at, &out->rounded, T, rounds ? in : 0) &&
           take(at, &out->peaks, T, peak_columns(mc)) &&
           take(at, &out->apart, T, rounds ? out->apart_cols : 0);
}

enum status scratch_plan(struct scratch_layout *out, const struct model_config *mc,
                         const struct shard *sh, struct backend *be,
                         const struct decoder_config *cfg)
{
    int32_t T = cfg->max_tokens, R = cfg->max_out;
    int32_t q = greater(sh->n_q * mc->d_head, sh->n_q * mc->global_d_head);
    int32_t kv = greater(sh->n_kv * mc->d_head, sh->global.n * mc->global_d_head);
    size_t at = 0;
    bool ok = take(&at, &out->resid, T, mc->hidden) && take(&at, &out->h, T, mc->hidden) &&
              take(&at, &out->out, T, model_n_out(mc) * mc->hidden);
    ok = ok && take(&at, &out->inputs, T, model_axis(mc, AX_INPUTS)) &&
         take(&at, &out->streams, T, mc->n_streams * mc->hidden) &&
         take(&at, &out->laurel, T, mc->n_streams ? mc->hidden : 0);
    ok = ok && take_rounded(&at, out, mc, sh, T);
    size_t attention = at, delta = at, ffn = at, inputs = at, streams = at;
    out->moe_bytes = 0;
    ok = ok && take(&attention, &out->q, T, q) &&
         take(&attention, &out->att, T, mc->kv_rank ? sh->n_q * mc->kv_rank : q) &&
         (mc->kv_rank ? take_latent(&attention, out, mc, sh, T)
                      : take(&attention, &out->qkv, T, q + 2 * kv)) &&
         take(&attention, &out->squares, T, mc->arch->wide_qk_norm ? mc->n_q + mc->n_kv : 0) &&
         take(&attention, &out->gate, T, model_has(mc, TN_Q_GATE) ? q : 0) &&
         take_delta(&delta, out, mc, sh, T) && take(&ffn, &out->mid, T, 2 * sh->most_ffn) &&
         take(&ffn, &out->ffn, T, sh->most_ffn) &&
         take(&ffn, &out->stats, T, model_n_cut(mc) ? 3 * shard_all_slices(sh, cfg->world) : 0);
    size_t experts = at;
    ok = ok && take_experts(&experts, out, mc, sh, be, T) &&
         take(&inputs, &out->new_inputs, T, model_axis(mc, AX_INPUTS)) &&
         take(&inputs, &out->known_ids, T, mc->d_input > 0 && mc->input_vocab < mc->vocab) &&
         take_streams(&streams, out, mc, T);
    size_t input = at; /* of one layer, behind its feed-forward */
    ok = ok && take(&input, &out->input_mid, T, 2 * mc->d_input) &&
         take(&input, &out->input_act, T, mc->d_input);
    at = attention > ffn ? attention : ffn;
    at = at > delta ? at : delta;
    at = at > experts ? at : experts;
    at = at > inputs ? at : inputs;
    at = at > input ? at : input;
    at = at > streams ? at : streams;
    ok = ok && take(&at, &out->last, R, mc->hidden) && take(&at, &out->logits, R, sh->vocab.n_cols);
    out->total = at;
    if (!ok)
        FAIL(ST_RANGE, "the activations of a step of %d tokens do not fit into memory", T);
    return ST_OK;
}

int32_t state_rows(const struct decoder_config *cfg)
{
    return cfg->max_seqs + (cfg->n_pad_blocks > 0) + cfg->n_snapshots;
}

/* Of one gated delta net. */
static enum status plan_states(struct kv_layout *out, const struct model_config *mc,
                               const struct shard *sh, const struct decoder_config *cfg)
{
    size_t rows = (size_t)state_rows(cfg), all;
    size_t values = (size_t)sh->delta.n_v * (size_t)mc->d_delta_v;
    size_t channels = 2 * (size_t)(sh->delta.n_k * mc->d_delta_k) + values;
    out->conv_bytes = out->rule_bytes = 0;
    if (!model_n_delta(mc))
        return ST_OK;
    if (!mul_size(rows, channels * (size_t)(mc->delta_taps - 1) * sizeof(float),
                  &out->conv_bytes) ||
        !mul_size(rows, values * (size_t)mc->d_delta_k * sizeof(float), &out->rule_bytes) ||
        !add_size(out->conv_bytes, out->rule_bytes, &all) ||
        !mul_size(all, (size_t)model_n_delta(mc), &all))
        FAIL(ST_RANGE, "%zu states of sequences do not fit into memory", rows);
    return ST_OK;
}

/* Adds the bytes of its layers to *all. */
static bool plan_kind(struct kv_kind *k, const struct decoder_config *cfg, int n_entries,
                      size_t *all)
{
    size_t rows = (size_t)(cfg->n_blocks + cfg->n_pad_blocks) * (size_t)cfg->block_len, each;
    bool scaled = cfg->kv_dtype == DT_I8 || cfg->kv_dtype == DT_E4M3;
    k->scale_bytes = 0;
    return mul_size(rows, (size_t)k->cols, &k->entry_bytes) &&
           mul_size(k->entry_bytes, dtype_size(cfg->kv_dtype), &k->entry_bytes) &&
           (!scaled || mul_size(rows, (size_t)k->n_kv * sizeof(float), &k->scale_bytes)) &&
           add_size(k->entry_bytes, k->scale_bytes, &each) &&
           mul_size(each, (size_t)n_entries * (size_t)k->n_layers, &each) &&
           add_size(*all, each, all);
}

enum status kv_plan(struct kv_layout *out, const struct model_config *mc, const struct shard *sh,
                    const struct decoder_config *cfg)
{
    int32_t n[KV_KINDS] = {0};
    size_t all = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n[model_is_global(mc, i)] += model_attends(mc, i) && model_kv_layer(mc, i) == i;
    out->n_entries = mc->kv_rank ? 1 : 2;
    out->kind[0] = (struct kv_kind){
        .cols = sh->n_kv * mc->d_head, .n_kv = sh->n_kv, .n_layers = mc->arch->encoder ? 1 : n[0]};
    out->kind[1] = (struct kv_kind){
        .cols = sh->global.n * mc->global_d_head, .n_kv = sh->global.n, .n_layers = n[1]};
    for (int i = 0; i < KV_KINDS; i++)
        if (!plan_kind(&out->kind[i], cfg, out->n_entries, &all))
            FAIL(ST_RANGE, "%d KV blocks of %d tokens do not fit into memory", cfg->n_blocks,
                 cfg->block_len);
    return plan_states(out, mc, sh, cfg);
}

size_t rope_table_bytes(const struct rope_config *rc, const struct decoder_config *cfg)
{
    return (size_t)cfg->max_ctx * (size_t)(rc->rot_dim / 2) * sizeof(float);
}

size_t q_scale_bytes(const struct model_config *mc, const struct decoder_config *cfg)
{
    return mc->rope.q_beta != 0 ? (size_t)cfg->max_ctx * sizeof(float) : 0;
}

struct sum {
    struct backend *be;
    struct decoder_memory *out;
};

static enum status add_weight(void *ctx, enum weight_id id, int32_t layer,
                              const struct weight_src *src, int32_t n, size_t n_bytes)
{
    struct sum *s = ctx;
    const struct backend_ops *op = backend_ops_of(s->be);
    (void)layer;
    s->out->file_bytes += n_bytes;
    if (id == W_LAYER_SCALE) /* a number of the host */
        return ST_OK;
    size_t work = op->linear_bytes && !weight_is_stack(id) ? op->linear_bytes(s->be, src) : 0;
    s->out->linear = work > s->out->linear ? work : s->out->linear;
    s->out->weights +=
        weight_is_stack(id) ? op->stack_bytes(s->be, src, n) : op->weight_bytes(s->be, src);
    return ST_OK;
}

enum status decoder_plan_memory(struct decoder_memory *out, const struct model_config *mc,
                                struct loader *ld, struct backend *be,
                                const struct decoder_config *cfg)
{
    struct sum sum = {be, out};
    struct scratch_layout scratch;
    struct kv_layout kv;
    struct shard sh;
    memset(out, 0, sizeof *out);
    TRY(shard_plan(&sh, mc, cfg->rank, cfg->world));
    TRY(decoder_config_check(cfg, mc, be));
    TRY(weights_each(ld, &sh, add_weight, &sum, true));
    TRY(loader_check_used(ld));
    TRY(scratch_plan(&scratch, mc, &sh, be, cfg));
    TRY(kv_plan(&kv, mc, &sh, cfg));
    size_t n_blocks = (size_t)(cfg->n_blocks + cfg->n_pad_blocks);
    out->scratch = alloc_bytes(scratch.total);
    out->tables = 2 * alloc_bytes(rope_table_bytes(&mc->rope, cfg));
    if (mc->arch->local_rope)
        out->tables += 2 * alloc_bytes(rope_table_bytes(&mc->local_rope, cfg));
    if (q_scale_bytes(mc, cfg))
        out->tables += alloc_bytes(q_scale_bytes(mc, cfg));
    for (int i = 0; i < KV_KINDS; i++) {
        const struct kv_kind *k = &kv.kind[i];
        size_t n_bufs = (size_t)kv.n_entries * (size_t)k->n_layers;
        out->kv += n_bufs * (alloc_bytes(k->entry_bytes) + alloc_bytes(k->scale_bytes));
        out->kv_per_block += n_bufs * (k->entry_bytes + k->scale_bytes) / n_blocks;
    }
    out->states =
        (size_t)model_n_delta(mc) * (alloc_bytes(kv.conv_bytes) + alloc_bytes(kv.rule_bytes));
    out->states_per_seq =
        (size_t)model_n_delta(mc) * (kv.conv_bytes + kv.rule_bytes) / (size_t)state_rows(cfg);
    return ST_OK;
}
