#include "worker/quantize/pieces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"
#include "worker/load/group_weights.h"
#include "worker/load/weights.h"
#include "worker/model/rope.h"

static size_t row_bytes(enum dtype t, uint64_t n)
{
    const struct quant_form *f = quant_form(t);
    return f ? (size_t)n / (size_t)f->block * (size_t)f->n_bytes : (size_t)n * dtype_size(t);
}

static uint64_t product(const uint64_t *v, int32_t n)
{
    uint64_t p = 1;
    for (int32_t i = 0; i < n; i++)
        p *= v[i];
    return p;
}

/* A new piece without rows.  like: an element type that can be read; its shape is not looked at. */
static enum status begin(struct piece **out, struct pieces *ps, const char *name,
                         const struct stored_tensor *like, int32_t n_dims, const uint64_t *shape,
                         const struct choice *c)
{
    struct piece *p = *out = &ps->v[ps->n];
    bool is_float = like->dtype == DT_F32 || like->dtype == DT_F16 || like->dtype == DT_BF16;
    if (!is_float && !quant_form(like->dtype))
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported", like->name,
             like->type_name);
    if (strlen(name) >= sizeof p->name)
        FAIL(ST_RANGE, "tensor %.60s...: its name is too long", name);
    if (n_dims < 1)
        FAIL(ST_FORMAT, "tensor %s has no dimensions", like->name);
    *p = (struct piece){.n_dims = n_dims, .from = like->dtype, .first_run = ps->n_runs};
    snprintf(p->name, sizeof p->name, "%s", name);
    memcpy(p->shape, shape, sizeof *shape * (size_t)n_dims);
    p->n_rows = product(shape, n_dims - 1);
    p->row_len = shape[n_dims - 1];
    p->type = choice_type(c, name, n_dims, p->row_len, &p->wanted);
    p->to = gguf_dtype(p->type);
    p->from_bytes = row_bytes(p->from, p->row_len);
    p->to_bytes = row_bytes(p->to, p->row_len);
    ps->n++;
    return ST_OK;
}

static void add_run(struct pieces *ps, struct piece *p, const unsigned char *data,
                    uint64_t first_row)
{
    ps->run[ps->n_runs++] = (struct piece_run){data, first_row};
    p->n_runs++;
}

const unsigned char *pieces_row(const struct pieces *ps, const struct piece *p, uint64_t r)
{
    const struct piece_run *run = &ps->run[p->first_run];
    size_t lo = 0, hi = p->n_runs;
    while (hi - lo > 1) { /* the last run that begins at r or before */
        size_t mid = lo + (hi - lo) / 2;
        if (run[mid].first_row <= r)
            lo = mid;
        else
            hi = mid;
    }
    size_t bytes = p->step ? dtype_size(p->from) : p->from_bytes;
    return run[lo].data + (size_t)(r - run[lo].first_row) * bytes;
}

/* A tensor as it is. */
static enum status add_whole(struct pieces *ps, const char *name, const struct stored_tensor *t,
                             const struct choice *c)
{
    struct piece *p;
    TRY(begin(&p, ps, name, t, t->n_dims, t->shape, c));
    add_run(ps, p, t->data, 0);
    return ST_OK;
}

/* ---- from GGUF ---- */

static enum status copy_all(struct pieces *ps, struct loader *ld, const struct choice *c)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        TRY(add_whole(ps, t.name, &t, c));
    }
    return ST_OK;
}

/* ---- from a HuggingFace folder ---- */

struct source {
    struct pieces *ps;
    struct loader *ld;
    const struct model_config *mc;
    const struct arch *to;
    const struct choice *c;
};

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

/* The tensors that are one in the file, id first. */
static int32_t group_of(const struct source *s, enum tensor_id id, enum tensor_id out[3])
{
    out[0] = id;
    switch (s->to->tensor[id].fused) {
    case FUSED_QKV:
        out[1] = TN_K;
        out[2] = TN_V;
        return id == TN_Q ? 3 : 0;
    case FUSED_GATE_UP:
        out[1] = id == TN_EXPERT_GATE ? TN_EXPERT_UP : TN_UP;
        return id == TN_GATE || id == TN_EXPERT_GATE ? 2 : 0;
    case TRANSPOSED: /* in no file of this architecture */
    case TRANSPOSED_QKV:
    case TRANSPOSED_PAIRS:
    case FUSED_HEADS:
    case EACH_HEAD: /* heads of latent attention: families that are refused */
    case FUSED_KV_B:
    case FUSED_Q_GATE: /* nor of gated delta nets */
    case FUSED_DELTA_QKVZ:
    case FUSED_DELTA_BA:
    case FUSED_DELTA_QKV:
    case FUSED_MAMBA: /* nor of Mamba-2 */
    case FUSED_NO:
        break;
    }
    return 1;
}

static bool of_expert(enum tensor_id id)
{
    return id == TN_EXPERT_GATE || id == TN_EXPERT_UP || id == TN_EXPERT_DOWN;
}

/* The rows of id, which are `bytes` apart in the stored tensor, from row *row of the new one on. */
static void add_rows(const struct source *s, struct piece *p, enum tensor_id id,
                     const unsigned char *data, size_t bytes, uint64_t *row)
{
    size_t n = (size_t)model_axis(s->mc, s->mc->arch->tensor[id].rows);
    const struct stored_rows from = share_rows(s->mc, id, 0, (int32_t)n);
    size_t together = from.step == 1 ? n : from.n;
    for (size_t r = 0; r < n; r += together)
        add_run(s->ps, p, data + stored_row(&from, r) * bytes, *row + r);
    *row += n;
}

/* The piece's rows are the columns of t, which has `all` of them. */
static enum status transpose(struct piece *p, const struct stored_tensor *t, uint64_t all)
{
    size_t size = dtype_size(t->dtype);
    if (size < 2)
        FAIL(ST_UNSUPPORTED, "tensor %s: a transposed matrix of type %s is not supported", t->name,
             t->type_name);
    p->step = (size_t)all * size;
    return ST_OK;
}

static bool is_transposed(enum fused f)
{
    return f == TRANSPOSED || f == TRANSPOSED_QKV;
}

static enum status add_matrix(const struct source *s, const enum tensor_id *group, int32_t n_group,
                              int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[group[0]];
    bool experts = of_expert(group[0]), vector = rule->rows == AX_ONE;
    int32_t n_stack = experts ? mc->n_experts : 1, n_dims = experts ? 3 : vector ? 1 : 2;
    uint64_t shape[3] = {(uint64_t)n_stack, 0, (uint64_t)model_axis(mc, rule->cols)}, row = 0;
    struct piece *p = NULL;
    struct stored_tensor t;
    char name[128];
    for (int32_t i = 0; i < n_group; i++)
        shape[1] += (uint64_t)model_axis(mc, mc->arch->tensor[group[i]].rows);
    fill_name(name, sizeof name, s->to->tensor[group[0]].name, layer);
    for (int32_t e = 0; e < n_stack; e++) {
        for (int32_t i = 0; i < n_group; i++) {
            int32_t first;
            TRY(weight_tensor(&t, &first, s->ld, group[i], layer, e));
            if (!p)
                TRY(begin(&p, s->ps, name, &t, n_dims, shape + 3 - n_dims, s->c));
            if (t.dtype != p->from)
                FAIL(ST_UNSUPPORTED, "tensor %s is %s, another part of %s is not", t.name,
                     t.type_name, name);
            if (is_transposed(rule->fused))
                TRY(transpose(p, &t, t.shape[1]));
            add_rows(s, p, group[i], t.data, p->step ? dtype_size(t.dtype) : p->from_bytes, &row);
        }
    }
    p->add = vector && mc->arch->norm_plus_one ? 1.0f : 0.0f;
    p->heads = vector ? 0 : heads_of(s, group[0]);
    return ST_OK;
}

/* Of a norm. */
static enum status add_norm_bias(const struct source *s, enum tensor_id id, int32_t layer,
                                 const char *name)
{
    const struct tensor_rule *rule = &s->mc->arch->tensor[id];
    uint64_t n[1] = {(uint64_t)model_axis(s->mc, rule->cols)};
    struct stored_tensor t;
    struct piece *p;
    TRY(loader_tensor(s->ld, rule->bias, layer, 0, 1, n, &t));
    TRY(begin(&p, s->ps, name, &t, 1, n, s->c));
    add_run(s->ps, p, t.data, 0);
    return ST_OK;
}

/* Of the matrices of a group; its elements are the rows, which move as theirs do. */
static enum status add_bias(const struct source *s, const enum tensor_id *group, int32_t n_group,
                            int32_t layer)
{
    const struct model_config *mc = s->mc;
    const struct tensor_rule *rule = &mc->arch->tensor[group[0]];
    uint64_t n[1] = {0}, row = 0;
    struct stored_tensor t;
    struct piece *p = NULL;
    char name[128];
    if (!s->to->tensor[group[0]].bias)
        FAIL(ST_UNSUPPORTED, "GGUF's %s has no name for %s", s->to->name, rule->bias);
    fill_name(name, sizeof name, s->to->tensor[group[0]].bias, layer);
    if (rule->rows == AX_ONE)
        return add_norm_bias(s, group[0], layer, name);
    for (int32_t i = 0; i < n_group; i++)
        n[0] += (uint64_t)model_axis(mc, mc->arch->tensor[group[i]].rows);
    for (int32_t i = 0; i < n_group; i++) {
        int32_t first;
        uint64_t all[1] = {(uint64_t)model_fused_rows(mc, group[i], &first)};
        TRY(loader_tensor(s->ld, mc->arch->tensor[group[i]].bias, layer, 0, 1, all, &t));
        if (!p)
            TRY(begin(&p, s->ps, name, &t, 1, n, s->c));
        if (t.dtype != p->from)
            FAIL(ST_UNSUPPORTED, "tensor %s is %s, another part of %s is not", t.name, t.type_name,
                 name);
        add_rows(s, p, group[i], t.data, dtype_size(t.dtype), &row);
    }
    p->heads = heads_of(s, group[0]);
    p->n_rows = p->row_len;
    p->row_len = 1;
    p->from_bytes = dtype_size(p->from);
    p->to_bytes = dtype_size(p->to);
    return ST_OK;
}

static enum status add_tensor(const struct source *s, enum tensor_id id, int32_t layer)
{
    enum tensor_id group[3];
    int32_t n = group_of(s, id, group);
    if (!model_layer_has(s->mc, id, layer))
        return ST_OK;
    if (n)
        TRY(add_matrix(s, group, n, layer));
    return n && model_has_bias(s->mc, id) ? add_bias(s, group, n, layer) : ST_OK;
}

static enum status add_vector(const struct source *s, const char *name, float *v, uint64_t n)
{
    struct stored_tensor t = {.name = name,
                              .type_name = "f32",
                              .dtype = DT_F32,
                              .n_dims = 1,
                              .shape = {n},
                              .data = (const unsigned char *)v,
                              .n_bytes = (size_t)n * sizeof *v};
    return add_whole(s->ps, name, &t, s->c);
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
        TRY(add_vector(s, "rope_factors_long.weight", v, n));
        return add_vector(s, "rope_factors_short.weight", v + n, n);
    }
    rope_frequencies(rope, s->mc->max_ctx, frequency);
    for (uint64_t i = 0; i < n; i++)
        v[i] = frequency[i] == 0
                   ? ROPE_NEVER
                   : (float)(pow(rope->theta, -2.0 * (double)i / rope->rot_dim) / frequency[i]);
    return add_vector(s, "rope_freqs.weight", v, n);
}

static enum status rename_all(const struct source *s)
{
    const struct model_config *mc = s->mc;
    if (gguf_arch_interleaved(s->to) && !mc->rope.interleaved && mc->rope.rot_dim != mc->d_head)
        FAIL(ST_UNSUPPORTED, "GGUF's %s rotates whole heads", s->to->name);
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

/* At most as many runs: a fused tensor gives as many as it has parts. */
static size_t max_runs(const struct loader *ld)
{
    const struct model_config *mc = loader_config(ld);
    size_t heads = mc->arch->tensor[TN_Q].fused == FUSED_HEADS
                       ? 6 * (size_t)mc->n_layers * (size_t)mc->n_q /* of matrices and biases */
                       : 0;
    return 3 * (loader_count(ld) + (size_t)model_n_sparse(mc) * (size_t)mc->n_experts) + 2 + heads;
}

enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c)
{
    const struct model_config *mc = loader_config(ld);
    bool is_gguf = strcmp(loader_format(ld), "gguf") == 0;
    *out = (struct pieces){0};
    const struct arch *to = is_gguf ? NULL : gguf_arch_for(mc->arch->model_type);
    if (!is_gguf && !to)
        FAIL(ST_UNSUPPORTED, "%s has no architecture in GGUF", mc->arch->name);
    out->v = calloc(max_runs(ld), sizeof *out->v);
    out->run = calloc(max_runs(ld), sizeof *out->run);
    if (!out->v || !out->run)
        FAIL(ST_NOMEM, "no memory for %zu tensors", loader_count(ld));
    const struct source s = {out, ld, mc, to, c};
    return is_gguf ? copy_all(out, ld, c) : rename_all(&s);
}

void pieces_free(struct pieces *p)
{
    free(p->v);
    free(p->run);
    free(p->divisors);
    *p = (struct pieces){0};
}
