#include "worker/quantize/pieces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"
#include "worker/model/rope.h"

static size_t row_bytes(enum dtype t, uint64_t n)
{
    const struct quant_form *f = quant_form(t);
    return f ? (size_t)n / (size_t)f->block * (size_t)f->n_bytes : (size_t)n * dtype_size(t);
}

static enum status add(struct pieces *p, const struct choice *c, const char *name,
                       const struct stored_tensor *t, int32_t heads)
{
    struct piece *o = &p->v[p->n];
    bool is_float = t->dtype == DT_F32 || t->dtype == DT_F16 || t->dtype == DT_BF16;
    if (!is_float && !quant_form(t->dtype))
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported", t->name, t->type_name);
    if (strlen(name) >= sizeof o->name)
        FAIL(ST_RANGE, "tensor %.60s...: its name is too long", name);
    if (t->n_dims < 1)
        FAIL(ST_FORMAT, "tensor %s has no dimensions", t->name);
    *o = (struct piece){
        .n_dims = t->n_dims, .n_rows = 1, .data = t->data, .from = t->dtype, .heads = heads};
    snprintf(o->name, sizeof o->name, "%s", name);
    memcpy(o->shape, t->shape, sizeof o->shape);
    for (int32_t i = 0; i + 1 < t->n_dims; i++)
        o->n_rows *= t->shape[i];
    o->row_len = t->shape[t->n_dims - 1];
    o->type = choice_type(c, name, t->n_dims, o->row_len, &o->wanted);
    o->to = gguf_dtype(o->type);
    o->from_bytes = row_bytes(o->from, o->row_len);
    o->to_bytes = row_bytes(o->to, o->row_len);
    if (heads && t->n_dims == 1) { /* a bias: its elements are the rows that move */
        o->n_rows = o->row_len;
        o->row_len = 1;
        o->from_bytes = dtype_size(o->from);
        o->to_bytes = dtype_size(o->to);
    }
    p->n++;
    return ST_OK;
}

/* ---- from GGUF ---- */

static enum status copy_all(struct pieces *p, struct loader *ld, const struct choice *c)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        TRY(add(p, c, t.name, &t, 0));
    }
    return ST_OK;
}

/* ---- from a HuggingFace folder ---- */

static void fill_name(char *out, size_t size, const char *pattern, int32_t layer)
{
    const char *mark = strchr(pattern, '#');
    if (mark)
        snprintf(out, size, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 1);
    else
        snprintf(out, size, "%s", pattern);
}

static int32_t heads_of(const struct model_config *mc, const struct arch *to, enum tensor_id id)
{
    if (!gguf_arch_interleaved(to))
        return 0;
    return id == TN_Q ? mc->n_q : id == TN_K ? mc->n_kv : 0;
}

static enum status add_tensor(struct pieces *p, struct loader *ld, const struct choice *c,
                              const struct arch *to, enum tensor_id id, int32_t layer)
{
    const struct model_config *mc = loader_config(ld);
    const struct tensor_rule *rule = &mc->arch->tensor[id];
    uint64_t shape[2] = {(uint64_t)model_axis(mc, rule->rows),
                         (uint64_t)model_axis(mc, rule->cols)};
    bool vector = rule->rows == AX_ONE;
    struct stored_tensor t;
    char name[128];
    TRY(loader_tensor(ld, rule->name, layer, 0, vector ? 1 : 2, vector ? shape + 1 : shape, &t));
    fill_name(name, sizeof name, to->tensor[id].name, layer);
    TRY(add(p, c, name, &t, vector ? 0 : heads_of(mc, to, id)));
    if (!model_has_bias(mc, id))
        return ST_OK;
    TRY(loader_tensor(ld, rule->bias, layer, 0, 1, shape, &t));
    fill_name(name, sizeof name, to->tensor[id].bias, layer);
    return add(p, c, name, &t, heads_of(mc, to, id));
}

/* What Llama 3's rule does to the frequencies, as divisors. */
static enum status add_divisors(struct pieces *p, const struct model_config *mc,
                                const struct choice *c)
{
    double frequency[MAX_ROPE_PAIRS];
    uint64_t n = (uint64_t)mc->rope.rot_dim / 2;
    p->divisors = calloc((size_t)n, sizeof *p->divisors);
    if (!p->divisors)
        FAIL(ST_NOMEM, "no memory");
    rope_frequencies(&mc->rope, mc->max_ctx, frequency);
    for (uint64_t i = 0; i < n; i++)
        p->divisors[i] =
            (float)(pow(mc->rope.theta, -2.0 * (double)i / mc->rope.rot_dim) / frequency[i]);
    struct stored_tensor t = {.name = "rope_freqs.weight",
                              .type_name = "f32",
                              .dtype = DT_F32,
                              .n_dims = 1,
                              .shape = {n},
                              .data = (const unsigned char *)p->divisors,
                              .n_bytes = (size_t)n * sizeof *p->divisors};
    return add(p, c, t.name, &t, 0);
}

static enum status rename_all(struct pieces *p, struct loader *ld, const struct choice *c,
                              const struct arch *to)
{
    const struct model_config *mc = loader_config(ld);
    for (int i = 0; i < TN_N; i++) {
        enum tensor_id id = (enum tensor_id)i;
        bool per_layer = mc->arch->tensor[id].name && strchr(mc->arch->tensor[id].name, '#');
        if (!model_has(mc, id))
            continue;
        if (!to->tensor[id].name)
            FAIL(ST_UNSUPPORTED, "GGUF has no name for %s", mc->arch->tensor[id].name);
        for (int32_t layer = 0; layer < (per_layer ? mc->n_layers : 1); layer++)
            TRY(add_tensor(p, ld, c, to, id, layer));
    }
    if (mc->rope.type == ROPE_LLAMA3)
        TRY(add_divisors(p, mc, c));
    return loader_check_used(ld);
}

enum status pieces_make(struct pieces *out, struct loader *ld, const struct choice *c)
{
    const struct model_config *mc = loader_config(ld);
    bool is_gguf = strcmp(loader_format(ld), "gguf") == 0;
    *out = (struct pieces){.v = calloc(loader_count(ld) + 1, sizeof *out->v)};
    if (!out->v)
        FAIL(ST_NOMEM, "no memory for %zu tensors", loader_count(ld));
    if (!is_gguf && model_n_sparse(mc))
        FAIL(ST_UNSUPPORTED, "a mixture of experts is read from a GGUF file only");
    const struct arch *to = is_gguf ? NULL : gguf_arch_for(mc->arch->model_type);
    if (!is_gguf && !to)
        FAIL(ST_UNSUPPORTED, "%s cannot be written as GGUF yet", mc->arch->name);
    return is_gguf ? copy_all(out, ld, c) : rename_all(out, ld, c, to);
}

void pieces_free(struct pieces *p)
{
    free(p->v);
    free(p->divisors);
    *p = (struct pieces){0};
}
