#include "worker/model/decoder_parts.h"

#include <math.h>
#include <stdlib.h>

#include "worker/load/derive.h"
#include "worker/load/pack_cache.h"
#include "worker/model/rope.h"

struct loading {
    struct decoder *m;
    struct loader *ld;
};

/* A weight, or a stack of n, from the packed weights where they have it, else from the model's
 * files. */
static enum status load_one(struct loading *loading, enum weight_id id, int32_t layer,
                            const struct weight_src *src, int32_t n_src, struct weight **to)
{
    const struct backend_ops *op = loading->m->op;
    struct backend *be = loading->m->be;
    struct pack_cache *cache = src->vector ? NULL : loader_cache(loading->ld);
    const void *data;
    size_t n;
    bool stack = weight_is_stack(id);
    if (cache && pack_cache_find(cache, (int32_t)id, layer, &data, &n))
        return stack ? op->load_packed_stack(be, src, n_src, data, n, to)
                     : op->load_packed(be, src, data, n, to);
    for (int32_t i = 0; i < n_src; i++)
        weight_will_read(&src[i]);
    TRY(stack ? op->load_stack(be, src, n_src, to) : op->load_weight(be, src, to));
    if (cache) {
        data = op->packed(be, *to, &n);
        pack_cache_add(cache, (int32_t)id, layer, data, n);
    }
    return ST_OK;
}

static bool same_rule(const struct input_rule *a, const struct input_rule *b)
{
    return a->grid == b->grid && bits_of_f32(a->scale) == bits_of_f32(b->scale);
}

/* A stack's matrices have the same rules. */
static void set_input(struct decoder *m, enum weight_id id, int32_t layer,
                      const struct weight_src *src)
{
    struct matrix_input *to = id == W_HEAD ? &m->head_input : &m->layer[layer].input[id];
    bool alike = true, any = false;
    for (int32_t i = 0; i < src->n_parts; i++) {
        to->rows[i] = src->part[i].rows;
        to->rule[i] = src->part[i].input;
        alike = alike && same_rule(&to->rule[i], &to->rule[0]);
        any = any || to->rule[i].grid != GRID_NONE;
    }
    to->n = !any ? 0 : alike ? 1 : src->n_parts;
}

/* The scales of the inputs of a stack's matrices, where the file has them. */
static enum status set_expert_scales(struct layer *l, enum weight_id id,
                                     const struct weight_src *src, int32_t n)
{
    bool up = id == W_EXPERTS_GATE_UP || id == W_EXPERTS_UP;
    if ((!up && id != W_EXPERTS_DOWN) || !(src->part[0].input.scale > 0))
        return ST_OK;
    float *scale = malloc((size_t)n * sizeof *scale);
    if (!scale)
        FAIL(ST_NOMEM, "no memory for the scales of %d experts", n);
    for (int32_t e = 0; e < n; e++)
        scale[e] = src[e].part[0].input.scale;
    *(up ? &l->input_scale : &l->hidden_scale) = scale;
    return ST_OK;
}

static enum status load_weight(void *ctx, enum weight_id id, int32_t layer,
                               const struct weight_src *src, int32_t n, size_t n_bytes)
{
    struct loading *loading = ctx;
    struct decoder *m = loading->m;
    struct weight **to = weight_per_layer(id) ? &m->layer[layer].w[id] : &m->w[id];
    if (id == W_LAYER_SCALE)
        derive_floats(src->part[0].data, src->part[0].dtype,
                      &(struct share_cut){.step = 1, .rows = 1}, &m->layer[layer].scale);
    else
        TRY(load_one(loading, id, layer, src, n, to));
    if (weight_per_layer(id) || id == W_HEAD)
        set_input(m, id, layer, src);
    if (weight_per_layer(id))
        TRY(set_expert_scales(&m->layer[layer], id, src, n));
    m->loaded += n_bytes;
    loader_report(loading->ld, m->loaded, m->to_load);
    return ST_OK;
}

/* The states of a gated delta net, see state_rows. */
static enum status take_states(struct decoder *m, struct layer *l, const struct kv_layout *kv)
{
    int32_t rows = state_rows(&m->cfg), channels = delta_channels(&l->delta);
    int32_t conv = (l->delta.taps - 1) * channels;
    int32_t rule = l->delta.n_v * l->delta.d_k * l->delta.d_v;
    TRY(m->op->alloc(m->be, kv->conv_bytes, MEM_DEVICE, &l->conv_state));
    TRY(m->op->alloc(m->be, kv->rule_bytes, MEM_DEVICE, &l->rule_state));
    l->state.conv = (struct view){
        .buf = l->conv_state, .rows = rows, .cols = conv, .stride = conv, .dtype = DT_F32};
    l->state.rule = (struct view){
        .buf = l->rule_state, .rows = rows, .cols = rule, .stride = rule, .dtype = DT_F32};
    return ST_OK;
}

static enum status take_kv(struct decoder *m)
{
    struct kv_layout kv;
    TRY(kv_plan(&kv, &m->mc, &m->sh, &m->cfg));
    int32_t rows = (m->cfg.n_blocks + m->cfg.n_pad_blocks) * m->cfg.block_len;
    for (int32_t i = 0; i < m->mc.n_layers; i++) {
        struct layer *l = &m->layer[i];
        if (l->is_delta) {
            TRY(take_states(m, l, &kv));
        }
        if (!model_attends(&m->mc, i))
            continue;
        /* an encoder's layers share the first one's */
        int32_t from = m->mc.arch->encoder ? 0 : model_kv_layer(&m->mc, i);
        bool own = i == from;
        struct buf **bufs = m->layer[from].kv_buf;
        const struct kv_kind *k = &kv.kind[model_is_global(&m->mc, i)];
        int32_t cols = k->cols;
        for (int b = 0; own && b < KV_BUFS; b++) {
            size_t bytes = b < 2 ? k->entry_bytes : k->scale_bytes;
            if (bytes && b % 2 < kv.n_entries)
                TRY(m->op->alloc(m->be, bytes, MEM_DEVICE, &bufs[b]));
        }
        struct view entry = {.rows = rows, .cols = cols, .stride = cols, .dtype = m->cfg.kv_dtype};
        struct view value = entry;
        value.cols = m->mc.kv_rank ? m->mc.kv_rank : cols;
        struct view scale = {.rows = rows, .cols = k->n_kv, .stride = k->n_kv, .dtype = DT_F32};
        l->kv = (struct kv_layer){entry, value, scale, scale};
        l->kv.k.buf = bufs[0];
        l->kv.v.buf = bufs[kv.n_entries - 1];
        l->kv.k_scale.buf = bufs[2]; /* NULL where the type has no scales */
        l->kv.v_scale.buf = bufs[2 + kv.n_entries - 1];
    }
    return ST_OK;
}

static struct view rope_table(const struct rope_tables *t, struct buf *buf, int32_t first,
                              int32_t rows)
{
    int32_t half = t->rc->rot_dim / 2;
    return (struct view){.buf = buf,
                         .off = (size_t)first * (size_t)half * sizeof(float),
                         .rows = rows,
                         .cols = half,
                         .stride = half,
                         .dtype = DT_F32};
}

static struct view q_scales(const struct decoder *m, int32_t first, int32_t rows)
{
    return (struct view){.buf = m->q_scale,
                         .off = (size_t)first * sizeof(float),
                         .rows = rows,
                         .cols = 1,
                         .stride = 1,
                         .dtype = DT_F32};
}

/* Fills both tables through a small host buffer. */
static enum status write_rope(struct decoder *m, const struct rope_tables *t, double *frequency,
                              float *rows, int32_t n_rows)
{
    int32_t half = t->rc->rot_dim / 2;
    rope_frequencies(t->rc, m->cfg.max_ctx, frequency);
    for (int32_t first = 0; first < m->cfg.max_ctx; first += n_rows) {
        int32_t n = m->cfg.max_ctx - first < n_rows ? m->cfg.max_ctx - first : n_rows;
        float *sines = rows + (size_t)n * (size_t)half;
        rope_rows(t->rc, frequency, first, n, rows, sines);
        TRY(m->op->write(m->be, rope_table(t, t->cos, first, n), rows));
        TRY(m->op->write(m->be, rope_table(t, t->sin, first, n), sines));
        TRY(m->op->sync(m->be)); /* rows are written again */
    }
    return ST_OK;
}

static enum status take_rope(struct decoder *m, struct rope_tables *t)
{
    enum { ROWS = 1024 };
    size_t half = (size_t)t->rc->rot_dim / 2, bytes = rope_table_bytes(t->rc, &m->cfg);
    TRY(m->op->alloc(m->be, bytes, MEM_DEVICE, &t->cos));
    TRY(m->op->alloc(m->be, bytes, MEM_DEVICE, &t->sin));
    double *frequency = malloc(half * sizeof *frequency);
    float *rows = malloc(2 * ROWS * half * sizeof *rows);
    enum status st = frequency && rows
                         ? write_rope(m, t, frequency, rows, ROWS)
                         : status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for RoPE tables");
    free(frequency);
    free(rows);
    return st;
}

static enum status take_q_scales(struct decoder *m)
{
    enum { ROWS = 1024 };
    float rows[ROWS];
    size_t bytes = q_scale_bytes(&m->mc, &m->cfg);
    if (!bytes)
        return ST_OK;
    TRY(m->op->alloc(m->be, bytes, MEM_DEVICE, &m->q_scale));
    for (int32_t first = 0; first < m->cfg.max_ctx; first += ROWS) {
        int32_t n = m->cfg.max_ctx - first < ROWS ? m->cfg.max_ctx - first : ROWS;
        rope_q_scales(&m->mc.rope, first, n, rows);
        TRY(m->op->write(m->be, q_scales(m, first, n), rows));
        TRY(m->op->sync(m->be));
    }
    return ST_OK;
}

static enum status take_tables(struct decoder *m)
{
    m->rope[0].rc = &m->mc.rope;
    m->rope[1].rc = &m->mc.local_rope;
    if (m->mc.rope.rot_dim > 0)
        TRY(take_rope(m, &m->rope[0]));
    if (m->mc.arch->local_rope)
        TRY(take_rope(m, &m->rope[1]));
    return take_q_scales(m);
}

static void set_delta(struct decoder *m, struct layer *l, bool is_delta)
{
    const struct delta_share *sh = &m->sh.delta;
    l->is_delta = is_delta;
    l->delta = (struct delta_layer){.n_k = sh->n_k,
                                    .n_v = sh->n_v,
                                    .d_k = m->mc.d_delta_k,
                                    .d_v = m->mc.d_delta_v,
                                    .v_per_k = sh->v_per_k,
                                    .v_offset = sh->v_offset,
                                    .taps = m->mc.delta_taps,
                                    .conv = l->w[W_DELTA_CONV],
                                    .decay = l->w[W_DELTA_DECAY],
                                    .dt = l->w[W_DELTA_DT],
                                    .bias = l->w[W_DELTA_CONV_BIAS],
                                    .skip = l->w[W_DELTA_SKIP],
                                    .dt_min = (float)m->mc.dt_min,
                                    .dt_max = (float)m->mc.dt_max};
}

static void set_layers(struct decoder *m)
{
    const struct view none = {0};
    for (int32_t i = 0; i < m->mc.n_layers; i++) {
        struct layer *l = &m->layer[i];
        const struct rope_tables *t = &m->rope[model_rope(&m->mc, i) == m->rope[1].rc];
        double scale = m->mc.attn_scale;
        struct kv_share kv = shard_kv(&m->sh, &m->mc, i);
        bool global = model_is_global(&m->mc, i);
        l->attn = (struct attn_layer){
            .n_q = m->sh.n_q,
            .n_kv = kv.n,
            .d_head = global ? m->mc.global_d_head : m->mc.d_head,
            .d_value = m->mc.kv_rank,
            .rot_dim = m->mc.nope[i] ? 0 : t->rc->rot_dim,
            .q_per_kv = kv.q_per_kv,
            .q_offset = kv.q_offset,
            .window = model_window(&m->mc, i),
            .chunk = model_chunk(&m->mc, i),
            .full = m->mc.arch->encoder != NULL,
            .scale = (float)(scale > 0 ? scale : 1.0 / sqrt((double)m->mc.d_head)),
            .cap = (float)m->mc.attn_cap,
            .eps = m->mc.kv_rank ? (float)LATENT_NORM_EPS : m->eps,
            .rope_interleaved = t->rc->interleaved,
            .q_norm = m->mc.arch->wide_qk_norm ? NULL
                      : global                 ? l->w[W_GLOBAL_Q_NORM]
                                               : l->w[W_Q_NORM],
            .k_norm = m->mc.kv_rank              ? l->w[W_KV_A_NORM]
                      : m->mc.arch->wide_qk_norm ? NULL
                      : global                   ? l->w[W_GLOBAL_K_NORM]
                                                 : l->w[W_K_NORM],
            .qk_unit = model_unit_qk(&m->mc, i),
            .v_norm = m->mc.arch->value_norm,
            .v_is_k = global && m->mc.k_eq_v,
            .q_alone = model_kv_layer(&m->mc, i) != i,
            .cos = rope_table(t, t->cos, 0, m->cfg.max_ctx),
            .sin = rope_table(t, t->sin, 0, m->cfg.max_ctx),
            .q_scale = model_scales_q(&m->mc, i) ? q_scales(m, 0, m->cfg.max_ctx) : none,
            .sinks = l->w[W_SINKS],
            .rel_bias = m->w[W_REL_BIAS],
            .round_latent = l->input[W_V_B].rule[0],
        };
        l->sparse = m->mc.sparse[i];
        l->ffn = shard_ffn(&m->sh, &m->mc, i);
        set_delta(m, l, m->mc.delta[i]);
        l->moe = moe_facts(&m->mc, &m->sh);
        l->moe.act = m->act;
        l->moe.gate_up = l->w[l->moe.up_alone ? W_EXPERTS_UP : W_EXPERTS_GATE_UP];
        l->moe.down = l->w[W_EXPERTS_DOWN];
        l->moe.route_bias = l->w[W_ROUTER_BIAS];
        l->moe.expert_scale = l->w[W_EXPERT_SCALE];
        l->moe.gate_up_bias = l->w[W_EXPERTS_BIAS];
        l->moe.down_bias = l->w[W_EXPERTS_DOWN_BIAS];
        l->moe.round_hidden = l->input[W_EXPERTS_DOWN].rule[0];
        l->moe.round_input = l->input[l->moe.up_alone ? W_EXPERTS_UP : W_EXPERTS_GATE_UP].rule[0];
        l->moe.input_scale = l->input_scale;
        l->moe.hidden_scale = l->hidden_scale;
    }
}

static enum act act_of(enum model_act a)
{
    switch (a) {
    case MODEL_GELU:
        return ACT_GELU;
    case MODEL_GELU_TANH:
        return ACT_GELU_TANH;
    case MODEL_RELU:
        return ACT_RELU;
    case MODEL_RELU2:
        return ACT_RELU2;
    default:
        return ACT_SILU;
    }
}

static enum status open_parts(struct decoder *m, struct loader *ld)
{
    struct decoder_memory plan;
    TRY(decoder_plan_memory(&plan, &m->mc, ld, m->be, &m->cfg));
    TRY(shard_plan(&m->sh, &m->mc, m->cfg.rank, m->cfg.world));
    TRY(scratch_plan(&m->at, &m->mc, &m->sh, m->be, &m->cfg));
    m->to_load = plan.file_bytes;
    m->layer = calloc((size_t)m->mc.n_layers, sizeof *m->layer);
    if (!m->layer)
        FAIL(ST_NOMEM, "no memory for %d layers", m->mc.n_layers);
    backend_part(m->be, PART_WEIGHTS);
    TRY(weights_each(ld, &m->sh, load_weight, &(struct loading){m, ld}, false));
    if (m->op->prepare) {
        const struct model_config *mc = &m->mc;
        const struct backend_use use = {.kv = m->cfg.kv_dtype,
                                        .d_head = {mc->d_head, mc->global_d_head},
                                        .n_heads = mc->global_d_head > 0 ? 2 : 1,
                                        .rounds_inputs = mc->inputs != INPUTS_FLOAT};
        TRY(m->op->prepare(m->be, &use));
    }
    backend_part(m->be, PART_SCRATCH);
    TRY(m->op->alloc(m->be, m->at.total, MEM_DEVICE, &m->scratch));
    backend_part(m->be, PART_TABLES);
    TRY(take_tables(m));
    set_layers(m);
    backend_part(m->be, PART_KV);
    return take_kv(m);
}

enum status decoder_open(struct decoder **out, const struct model_config *mc, struct loader *ld,
                         struct backend *be, struct coll *co, const struct decoder_config *cfg)
{
    *out = NULL;
    if (cfg->world > 1 && (!co || co->world != cfg->world || co->rank != cfg->rank))
        FAIL(ST_BUG, "rank %d of %d needs a collective of that size", cfg->rank, cfg->world);
    struct decoder *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory");
    m->mc = *mc;
    m->cfg = *cfg;
    m->be = be;
    m->op = backend_ops_of(be);
    m->co = cfg->world > 1 ? co : NULL;
    m->act = act_of(mc->act);
    m->eps = (float)mc->eps;
    enum status st = open_parts(m, ld);
    if (st != ST_OK) {
        decoder_close(m);
        return st;
    }
    *out = m;
    return ST_OK;
}

static void free_weights(struct decoder *m, struct weight **w)
{
    for (int id = 0; id < W_N; id++)
        if (w[id])
            m->op->free_weight(m->be, w[id]);
}

static void free_buf(struct decoder *m, struct buf *b)
{
    if (b)
        m->op->free(m->be, b);
}

void decoder_close(struct decoder *m)
{
    if (!m)
        return;
    for (int32_t i = 0; m->layer && i < m->mc.n_layers; i++) {
        free_weights(m, m->layer[i].w);
        for (int b = 0; b < KV_BUFS; b++)
            free_buf(m, m->layer[i].kv_buf[b]);
        free_buf(m, m->layer[i].conv_state);
        free_buf(m, m->layer[i].rule_state);
        free(m->layer[i].input_scale);
        free(m->layer[i].hidden_scale);
    }
    free_weights(m, m->w);
    free_buf(m, m->scratch);
    for (int i = 0; i < 2; i++) {
        free_buf(m, m->rope[i].cos);
        free_buf(m, m->rope[i].sin);
    }
    free_buf(m, m->q_scale);
    free(m->layer);
    free(m);
}

const struct model_config *decoder_model(const struct decoder *m)
{
    return &m->mc;
}

const struct shard *decoder_shard(const struct decoder *m)
{
    return &m->sh;
}

struct view decoder_states(const struct decoder *m)
{
    return m->states;
}

static enum status copy_row(struct decoder *m, struct view states, int32_t from, int32_t to)
{
    struct view src = states, dst = states;
    size_t bytes = (size_t)states.stride * sizeof(float);
    src.rows = dst.rows = 1;
    src.off += (size_t)from * bytes;
    dst.off += (size_t)to * bytes;
    return m->op->copy(m->be, dst, src);
}

enum status decoder_copy_states(struct decoder *m, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < m->mc.n_layers; i++) {
        const struct layer *l = &m->layer[i];
        if (!l->is_delta)
            continue;
        TRY(copy_row(m, l->state.conv, from, to));
        TRY(copy_row(m, l->state.rule, from, to));
    }
    return ST_OK;
}

struct delta_state decoder_state(const struct decoder *m, int32_t layer)
{
    return m->layer[layer].state;
}

struct kv_layer decoder_kv(const struct decoder *m, int32_t layer)
{
    return m->layer[layer].kv;
}

size_t decoder_coll_bytes(const struct model_config *mc, const struct decoder_config *cfg)
{
    size_t out = (size_t)model_n_out(mc) * (size_t)mc->hidden;
    size_t heads = mc->arch->wide_qk_norm ? (size_t)(mc->n_q + mc->n_kv) : 0;
    if (mc->arch->mamba && (size_t)mc->n_delta_v > heads)
        heads = (size_t)mc->n_delta_v;
    size_t slices = (size_t)(cfg->world > N_SLICES ? cfg->world : N_SLICES);
    if (model_n_cut(mc) && 3 * slices > heads)
        heads = 3 * slices;
    if ((size_t)peak_columns(mc) > heads)
        heads = (size_t)peak_columns(mc);
    size_t most = (size_t)cfg->max_tokens * (out > heads ? out : heads);
    size_t inputs = (size_t)model_axis(mc, AX_INPUTS); /* of one token: see layers_inputs */
    return (most > inputs ? most : inputs) * sizeof(float);
}
