/* The tensors of a HuggingFace folder as GGUF's architecture has them: what is done to one follows from its row in the
 * folder's table of tensors and from its row in the architecture's. */
#include "worker/quantize/pieces_make.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/load/group_weights.h"
#include "worker/load/weights.h"
#include "worker/model/rope.h"

struct source {
    struct pieces *ps;
    struct loader *ld;
    const struct model_config *mc;
    const struct arch *to;
    const struct choice *c;
};

/* Tensors that are one in the file, in the order of its rows. */
struct group {
    enum fused fused; /* in the file */
    int32_t n;
    enum tensor_id id[5];
    bool whole; /* the folder has them as one too, in that order */
};

static const struct group groups[] = {
    {FUSED_QKV, 3, {TN_Q, TN_K, TN_V}, false},
    {FUSED_GATE_UP, 2, {TN_GATE, TN_UP}, false},
    {FUSED_GATE_UP, 2, {TN_EXPERT_GATE, TN_EXPERT_UP}, false},
    {FUSED_KV_B, 2, {TN_V_B, TN_K_B}, true},
    {FUSED_Q_GATE, 2, {TN_Q, TN_Q_GATE}, true},
    {FUSED_DELTA_QKV, 3, {TN_DELTA_Q, TN_DELTA_K, TN_DELTA_V}, false},
    {FUSED_DELTA_QKV, 1, {TN_DELTA_CONV}, true},
    {FUSED_DELTA_BA, 2, {TN_DELTA_B, TN_DELTA_A}, true},
    {FUSED_MAMBA,
     5,
     {TN_DELTA_Z, TN_DELTA_V, TN_DELTA_K, TN_DELTA_Q, TN_DELTA_A}, /* z, x, B, C, dt */
     false},
};

/* The group that id is of. */
static struct group group_of(const struct source *s, enum tensor_id id)
{
    enum fused fused = s->to->tensor[id].fused;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++)
        for (int32_t k = 0; groups[i].fused == fused && k < groups[i].n; k++)
            if (groups[i].id[k] == id)
                return groups[i];
    return (struct group){.n = 1, .id = {id}};
}

/* Factors on what a matrix gives, which the file has in the matrix (Falcon-H1). */
static const struct {
    enum tensor_id id;
    size_t at;
} factors[] = {
    {TN_EMBED, offsetof(struct model_config, embed_scale)},
    {TN_HEAD, offsetof(struct model_config, logit_scale)},
    {TN_Q, offsetof(struct model_config, factors.qv)},
    {TN_K, offsetof(struct model_config, factors.k)},
    {TN_V, offsetof(struct model_config, factors.qv)},
    {TN_O, offsetof(struct model_config, factors.o)},
    {TN_DELTA_Z, offsetof(struct model_config, factors.z)},
    {TN_DELTA_V, offsetof(struct model_config, factors.x)},
    {TN_DELTA_K, offsetof(struct model_config, factors.b)},
    {TN_DELTA_Q, offsetof(struct model_config, factors.c)},
    {TN_DELTA_A, offsetof(struct model_config, factors.dt)},
    {TN_DELTA_OUT, offsetof(struct model_config, factors.ssm)},
    {TN_GATE, offsetof(struct model_config, factors.gate)},
    {TN_DOWN, offsetof(struct model_config, factors.down)},
};

static float factor_of(const struct source *s, enum tensor_id id)
{
    double v = 1;
    for (size_t i = 0; s->to->beside && i < ARRAY_LEN(factors); i++)
        if (factors[i].id == id)
            memcpy(&v, (const char *)s->mc + factors[i].at, sizeof v);
    return (float)v;
}

static void fill_name(char *out, size_t size, const char *pattern, int32_t layer)
{
    const char *mark = strchr(pattern, '#');
    if (mark)
        snprintf(out, size, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 1);
    else
        snprintf(out, size, "%s", pattern);
}

/* Heads whose rows go into pairs of neighbours; 0: rows keep their order. */
static int32_t heads_of(const struct source *s, enum tensor_id id)
{
    if (!gguf_arch_interleaved(s->to) || s->mc->rope.interleaved)
        return 0;
    return id == TN_Q ? s->mc->n_q : id == TN_K ? s->mc->n_kv : 0;
}

static bool of_expert(enum tensor_id id)
{
    return id == TN_EXPERT_GATE || id == TN_EXPERT_UP || id == TN_EXPERT_DOWN;
}

/* Matrices that are one tensor, which has another dimension for them; 0: it is a matrix alone. */
static int32_t stack_of(const struct model_config *mc, enum tensor_id id)
{
    if (id == TN_STREAM_IN || id == TN_STREAM_OUT)
        return mc->n_streams - 1;
    return of_expert(id) ? mc->n_experts : 0;
}

static bool of_delta(enum tensor_id id)
{
    return id >= TN_DELTA_Q && id <= TN_DELTA_OUT;
}

/* The order of value heads along an axis that ends with all of them. */
static struct piece_heads heads_along(const struct source *s, enum axis ax)
{
    const struct model_config *mc = s->mc;
    bool tiled = s->to->tiled_heads && mc->n_delta_v > mc->n_delta_k;
    if (!tiled || (ax != AX_DELTA_VALUES && ax != AX_DELTA_HEADS))
        return (struct piece_heads){0};
    return (struct piece_heads){.size = ax == AX_DELTA_VALUES ? mc->d_delta_v : 1,
                                .keys = mc->n_delta_k,
                                .per = mc->n_delta_v / mc->n_delta_k};
}

/* Rows of id in the file. */
static int32_t rows_of(const struct source *s, enum tensor_id id, int32_t layer, bool whole)
{
    int32_t first;
    return whole ? model_fused_rows(s->mc, id, layer, &first)
                 : model_layer_axis(s->mc, s->mc->arch->tensor[id].rows, layer);
}

/* Rows, or elements of a vector, of which the last are value heads. */
struct span {
    size_t n;
    struct stored_rows from;
    struct piece_heads heads;
    float factor;
};

static struct span span_of(const struct source *s, enum tensor_id id, int32_t layer, bool whole)
{
    const struct tensor_rule *rule = &s->mc->arch->tensor[id];
    bool vector = rule->rows == AX_ONE, pairs = rule->fused == TRANSPOSED_PAIRS;
    size_t n = vector ? (size_t)model_layer_axis(s->mc, rule->cols, layer)
                      : (size_t)rows_of(s, id, layer, whole);
    return (struct span){.n = n,
                         .from = vector || whole || pairs
                                     ? stored_neighbours(0)
                                     : share_rows(s->mc, id, layer, 0, (int32_t)n),
                         .heads = heads_along(s, vector ? rule->cols : rule->rows),
                         .factor = factor_of(s, id)};
}

/* They become the piece's from *row on; stored rows are p->row_step apart. */
static enum status add_rows(const struct source *s, struct piece *p, const struct span *span,
                            const unsigned char *data, uint64_t *row)
{
    const struct piece_heads *h = &span->heads;
    size_t n_heads = (size_t)(h->keys * h->per), size = (size_t)h->size;
    size_t plain = span->n - n_heads * size;
    size_t together = span->from.step == 1 ? plain : span->from.n;
    for (size_t r = 0; r < plain; r += together)
        TRY(pieces_add_run(
            s->ps, p,
            (struct piece_run){.data = data + stored_row(&span->from, r) * p->row_step,
                               .first_row = *row + r,
                               .factor = span->factor}));
    for (size_t i = 0; i < n_heads; i++) {
        size_t r = plain + piece_head(h, i) * size;
        TRY(pieces_add_run(
            s->ps, p,
            (struct piece_run){.data = data + stored_row(&span->from, r) * p->row_step,
                               .first_row = *row + plain + i * size,
                               .factor = span->factor}));
    }
    *row += span->n;
    return ST_OK;
}

/* Tensors whose rows are in turn: gate and up of gpt-oss. */
static size_t in_turn(const struct tensor_rule *rule)
{
    return rule->fused == TRANSPOSED_PAIRS ? 2 : 1;
}

static size_t first_of_pair(const struct source *s, enum tensor_id id)
{
    return s->mc->arch->tensor[id].fused == TRANSPOSED_PAIRS && id == TN_EXPERT_UP;
}

static bool is_transposed(enum fused f)
{
    return f == TRANSPOSED || f == TRANSPOSED_QKV || f == TRANSPOSED_PAIRS ||
           f == TRANSPOSED_GATE_UP;
}

/* The piece's rows are columns of t, which has `all` of them: in_turn 2, every second one. */
static enum status transpose(struct piece *p, const struct stored_tensor *t, uint64_t all,
                             size_t in_turn)
{
    size_t size = dtype_size(t->dtype);
    if (size < 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: a transposed matrix of type %s is not supported", t->name,
             t->type_name);
    p->step = (size_t)all * size;
    p->row_step = in_turn * size;
    return ST_OK;
}

static enum status check_alike(const struct stored_tensor *t, const struct piece *p)
{
    if (t->dtype != p->from)
        FAIL(ST_UNSUPPORTED, "tensor %s is %s, another part of %s is not", t->name, t->type_name,
             p->name);
    return ST_OK;
}

/* The convolution has a dimension of 1 in the folder. */
static enum status source_tensor(struct stored_tensor *t, const struct source *s, enum tensor_id id,
                                 int32_t layer, int32_t expert)
{
    int32_t first;
    const struct tensor_rule *rule = &s->mc->arch->tensor[id];
    const uint64_t shape[3] = {(uint64_t)model_fused_rows(s->mc, id, layer, &first), 1,
                               (uint64_t)model_layer_axis(s->mc, rule->cols, layer)};
    return id == TN_DELTA_CONV ? loader_tensor(s->ld, rule->name, layer, 0, 3, shape, t)
                               : weight_tensor(t, &first, s->ld, id, layer, expert);
}

static enum status add_matrix(const struct source *s, const struct group *g, int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[g->id[0]];
    int32_t stack = stack_of(mc, g->id[0]), n_stack = stack ? stack : 1, n_dims = stack ? 3 : 2;
    uint64_t shape[3] = {(uint64_t)n_stack, 0, (uint64_t)model_layer_axis(mc, rule->cols, layer)},
             row = 0;
    int32_t n = g->whole ? 1 : g->n; /* of a whole one the first has all rows */
    struct piece *p = NULL;
    struct stored_tensor t;
    char name[128];
    for (int32_t i = 0; i < n; i++)
        shape[1] += (uint64_t)rows_of(s, g->id[i], layer, g->whole);
    if (g->id[0] == TN_INPUT_EMBED)
        shape[1] = (uint64_t)mc->vocab;
    fill_name(name, sizeof name, s->to->tensor[g->id[0]].name, layer);
    for (int32_t e = 0; e < n_stack; e++) {
        for (int32_t i = 0; i < n; i++) {
            const struct span span = span_of(s, g->id[i], layer, g->whole);
            TRY(source_tensor(&t, s, g->id[i], layer, e));
            if (!p)
                TRY(pieces_begin(&p, s->ps, name, &t, n_dims, shape + 3 - n_dims, s->c));
            TRY(check_alike(&t, p));
            if (is_transposed(rule->fused) && !p->step)
                TRY(transpose(p, &t, t.shape[t.n_dims - 1], in_turn(rule)));
            TRY(add_rows(s, p, &span, t.data + first_of_pair(s, g->id[i]) * dtype_size(t.dtype),
                         &row));
        }
    }
    for (; g->id[0] == TN_INPUT_EMBED && row < shape[1]; row++) /* see input_vocab */
        TRY(pieces_add_run(s->ps, p,
                           (struct piece_run){.data = t.data, .first_row = row, .factor = 1}));
    p->heads = heads_of(s, g->id[0]);
    p->columns = heads_along(s, rule->cols);
    if (p->columns.size && dtype_size(p->from) < 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: columns of type %s in another order are not supported",
             t.name, t.type_name);
    return ST_OK;
}

/* The shape of a vector of Mamba-2: the norm has a row for each group, others one for each head. */
static int32_t vector_shape(const struct source *s, enum tensor_id id, uint64_t n,
                            uint64_t shape[2])
{
    uint64_t groups_n = id == TN_DELTA_NORM ? (uint64_t)s->mc->n_delta_k : n;
    bool matrix =
        s->to->mamba && (id == TN_DELTA_LOG || id == TN_DELTA_SKIP || id == TN_DELTA_NORM);
    shape[0] = matrix ? groups_n : n;
    shape[1] = matrix ? n / groups_n : 1;
    return matrix ? 2 : 1;
}

static enum status add_vector(const struct source *s, enum tensor_id id, int32_t layer)
{
    const struct span span = span_of(s, id, layer, false);
    uint64_t shape[2], row = 0;
    int32_t n_dims = vector_shape(s, id, span.n, shape);
    struct stored_tensor t;
    struct piece *p;
    char name[128];
    fill_name(name, sizeof name, s->to->tensor[id].name, layer);
    TRY(source_tensor(&t, s, id, layer, 0));
    TRY(pieces_begin(&p, s->ps, name, &t, n_dims, shape, s->c));
    if (of_delta(id))
        pieces_as_column(p);
    else
        p->add = s->mc->arch->norm_plus_one ? 1.0f : 0.0f;
    p->decay = id == TN_DELTA_LOG;
    return of_delta(id) ? add_rows(s, p, &span, t.data, &row)
                        : pieces_add_run(s->ps, p, (struct piece_run){.data = t.data, .factor = 1});
}

/* Keys (transposed) and values of latent attention, a matrix for each head, from the one matrix of the folder. */
static enum status add_each_head(const struct source *s, enum tensor_id id, int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    uint64_t shape[3] = {(uint64_t)mc->n_q, (uint64_t)model_layer_axis(mc, rule->rows, layer),
                         (uint64_t)model_layer_axis(mc, rule->cols, layer)};
    struct stored_tensor t;
    struct piece *p;
    char name[128];
    fill_name(name, sizeof name, s->to->tensor[id].name, layer);
    TRY(source_tensor(&t, s, TN_V_B, layer, 0));
    TRY(pieces_begin(&p, s->ps, name, &t, 3, shape, s->c));
    size_t stored = t.n_bytes / (size_t)t.shape[0], before = 0;
    if (id == TN_K_B)
        TRY(transpose(p, &t, t.shape[1], 1));
    else
        before = (size_t)mc->d_nope;
    for (uint64_t h = 0; h < shape[0]; h++)
        TRY(pieces_add_run(
            s->ps, p,
            (struct piece_run){.data = t.data +
                                       (h * (size_t)(mc->d_nope + mc->d_value) + before) * stored,
                               .first_row = h * shape[1],
                               .factor = 1}));
    return ST_OK;
}

/* "NAME_blocks" and "NAME_scales" of all experts: they stay as they are. */
static enum status add_mxfp4(const struct source *s, enum tensor_id id, int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    const size_t experts = (size_t)mc->n_experts, block = 16; /* bytes without the scale */
    int32_t first;
    size_t all = (size_t)model_fused_rows(mc, id, layer, &first);
    size_t row_blocks = (size_t)model_layer_axis(mc, rule->cols, layer) / 32;
    uint64_t stored[4] = {experts, all, row_blocks, block};
    uint64_t shape[3] = {experts, (uint64_t)model_layer_axis(mc, rule->rows, layer),
                         (uint64_t)model_layer_axis(mc, rule->cols, layer)};
    struct stored_tensor blocks, scales;
    struct piece *p;
    char name[256];
    snprintf(name, sizeof name, "%s_blocks", rule->name);
    TRY(loader_parts(s->ld, name, "U8", layer, 0, 4, stored, &blocks));
    snprintf(name, sizeof name, "%s_scales", rule->name);
    TRY(loader_parts(s->ld, name, "U8", layer, 0, 3, stored, &scales));
    blocks.dtype = DT_MXFP4;
    fill_name(name, sizeof name, s->to->tensor[id].name, layer);
    TRY(pieces_begin(&p, s->ps, name, &blocks, 3, shape, s->c));
    p->type = p->wanted = GGML_MXFP4;
    p->to = DT_MXFP4;
    p->to_bytes = p->from_bytes;
    p->scale_step = in_turn(rule) * row_blocks;
    p->row_step = p->scale_step * block;
    for (size_t e = 0; e < experts; e++) {
        size_t at = (e * all + first_of_pair(s, id)) * row_blocks;
        TRY(pieces_add_run(s->ps, p,
                           (struct piece_run){.data = blocks.data + at * block,
                                              .scales = scales.data + at,
                                              .first_row = e * shape[1],
                                              .factor = 1}));
    }
    return ST_OK;
}

/* Of all experts, a row for each. */
static enum status add_expert_bias(const struct source *s, enum tensor_id id, int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    int32_t first;
    uint64_t all = (uint64_t)model_fused_rows(mc, id, layer, &first);
    uint64_t stored[2] = {(uint64_t)mc->n_experts, all};
    uint64_t shape[2] = {(uint64_t)mc->n_experts,
                         (uint64_t)model_layer_axis(mc, rule->rows, layer)};
    struct stored_tensor t;
    struct piece *p;
    char name[128];
    fill_name(name, sizeof name, s->to->tensor[id].bias, layer);
    TRY(loader_tensor(s->ld, rule->bias, layer, 0, 2, stored, &t));
    TRY(pieces_begin(&p, s->ps, name, &t, 2, shape, s->c));
    size_t size = dtype_size(t.dtype);
    TRY(transpose(p, &t, in_turn(rule), all));
    return pieces_add_run(
        s->ps, p, (struct piece_run){.data = t.data + first_of_pair(s, id) * size, .factor = 1});
}

/* Of a norm. */
static enum status add_norm_bias(const struct source *s, enum tensor_id id, int32_t layer,
                                 const char *name)
{
    const struct tensor_rule *rule = &s->mc->arch->tensor[id];
    uint64_t n[1] = {(uint64_t)model_layer_axis(s->mc, rule->cols, layer)};
    struct stored_tensor t;
    struct piece *p;
    TRY(loader_tensor(s->ld, rule->bias, layer, 0, 1, n, &t));
    TRY(pieces_begin(&p, s->ps, name, &t, 1, n, s->c));
    return pieces_add_run(s->ps, p, (struct piece_run){.data = t.data, .factor = 1});
}

/* Of the matrices of a group; its elements are the rows, which move as theirs do. */
static enum status add_bias(const struct source *s, const struct group *g, int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[g->id[0]];
    uint64_t n[1] = {0}, row = 0;
    int32_t n_parts = g->whole ? 1 : g->n;
    struct stored_tensor t;
    struct piece *p = NULL;
    char name[128];
    if (!s->to->tensor[g->id[0]].bias)
        FAIL(ST_UNSUPPORTED, "GGUF's %s has no name for %s", s->to->name, rule->bias);
    fill_name(name, sizeof name, s->to->tensor[g->id[0]].bias, layer);
    if (of_expert(g->id[0]))
        return add_expert_bias(s, g->id[0], layer);
    if (rule->rows == AX_ONE)
        return add_norm_bias(s, g->id[0], layer, name);
    for (int32_t i = 0; i < n_parts; i++)
        n[0] += (uint64_t)rows_of(s, g->id[i], layer, g->whole);
    for (int32_t i = 0; i < n_parts; i++) {
        int32_t first;
        const struct span span = span_of(s, g->id[i], layer, g->whole);
        uint64_t all[1] = {(uint64_t)model_fused_rows(mc, g->id[i], layer, &first)};
        TRY(loader_tensor(s->ld, mc->arch->tensor[g->id[i]].bias, layer, 0, 1, all, &t));
        if (!p) {
            TRY(pieces_begin(&p, s->ps, name, &t, 1, n, s->c));
            pieces_as_column(p);
        }
        TRY(check_alike(&t, p));
        TRY(add_rows(s, p, &span, t.data, &row));
    }
    p->heads = heads_of(s, g->id[0]);
    return ST_OK;
}

static enum status add_tensor(const struct source *s, enum tensor_id id, int32_t layer)
{
    const struct group g = group_of(s, id);
    if (!model_layer_has(s->mc, id, layer) || g.id[0] != id)
        return ST_OK;
    if (s->to->tensor[id].fused == EACH_HEAD)
        TRY(add_each_head(s, id, layer));
    else if (s->mc->mxfp4 && of_expert(id))
        TRY(add_mxfp4(s, id, layer));
    else
        TRY(s->mc->arch->tensor[id].rows == AX_ONE ? add_vector(s, id, layer)
                                                   : add_matrix(s, &g, layer));
    return model_has_bias(s->mc, id) ? add_bias(s, &g, layer) : ST_OK;
}

static enum status add_floats(const struct source *s, const char *name, float *v, uint64_t n)
{
    struct stored_tensor t = {.name = name,
                              .type_name = "f32",
                              .dtype = DT_F32,
                              .n_dims = 1,
                              .shape = {n},
                              .data = (const unsigned char *)v,
                              .n_bytes = (size_t)n * sizeof *v};
    return pieces_add_whole(s->ps, name, &t, s->c);
}

/* What the type of the RoPE does to the frequencies, as divisors; those of LongRoPE as they are. */
static enum status add_divisors(const struct source *s)
{
    const struct rope_config *rope = &s->mc->rope;
    double frequency[MAX_ROPE_PAIRS];
    uint64_t n = (uint64_t)rope->rot_dim / 2;
    if (n > MAX_ROPE_PAIRS)
        FAIL(ST_UNSUPPORTED, "GGUF: divisors of %d rotated elements, at most %d", rope->rot_dim,
             2 * MAX_ROPE_PAIRS);
    float *v = s->ps->divisors = calloc(2 * (size_t)n, sizeof *v);
    if (!v)
        FAIL(ST_NOMEM, "no memory");
    if (rope->type == ROPE_LONGROPE) {
        memcpy(v, rope->long_divisor, (size_t)n * sizeof *v);
        memcpy(v + n, rope->divisor, (size_t)n * sizeof *v);
        TRY(add_floats(s, "rope_factors_long.weight", v, n));
        return add_floats(s, "rope_factors_short.weight", v + n, n);
    }
    rope_frequencies(rope, s->mc->max_ctx, frequency);
    for (uint64_t i = 0; i < n; i++)
        v[i] = frequency[i] == 0
                   ? ROPE_NEVER
                   : (float)(pow(rope->theta, -2.0 * (double)i / rope->rot_dim) / frequency[i]);
    return add_floats(s, "rope_freqs.weight", v, n);
}

static enum status rename_all(const struct source *s)
{
    const struct model_config *mc = s->mc;
    bool all =
        mc->rope.rot_dim == mc->d_head || s->to->one_part /* of these none */ || s->to->whole_pairs;
    if (gguf_arch_interleaved(s->to) && !mc->rope.interleaved && !all)
        FAIL(ST_UNSUPPORTED, "GGUF's %s rotates %s", s->to->name,
             s->to->latent ? "pairs of neighbours: rope_interleave false cannot be said"
                           : "whole heads");
    if (mc->rope.type == ROPE_LLAMA3 || mc->rope.type == ROPE_LONGROPE || s->to->global_heads)
        TRY(add_divisors(s));
    for (int i = 0; i < TN_N; i++) {
        enum tensor_id id = (enum tensor_id)i;
        bool per_layer = mc->arch->tensor[id].name && strchr(mc->arch->tensor[id].name, '#');
        if (!model_has(mc, id))
            continue;
        if (!s->to->tensor[id].name)
            FAIL(ST_UNSUPPORTED, "GGUF's %s has no name for %s", s->to->name,
                 mc->arch->tensor[id].name);
        for (int32_t layer = 0; layer < (per_layer ? mc->n_layers : 1); layer++)
            TRY(add_tensor(s, id, layer));
    }
    return loader_check_used(s->ld);
}

static enum status from_folder(struct pieces *ps, struct loader *ld, const struct choice *c)
{
    const struct model_config *mc = loader_config(ld);
    const struct arch *to = NULL;
    TRY(gguf_arch_for(&to, mc));
    const struct source s = {ps, ld, mc, to, c};
    return rename_all(&s);
}

static enum status copy_all(struct pieces *ps, struct loader *ld, const struct choice *c)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        TRY(pieces_add_whole(ps, t.name, &t, c));
    }
    return ST_OK;
}

enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c)
{
    *out = (struct pieces){0};
    return strcmp(loader_format(ld), "gguf") == 0 ? copy_all(out, ld, c) : from_folder(out, ld, c);
}
