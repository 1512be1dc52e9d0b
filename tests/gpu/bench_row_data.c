/* Random data of a row: weights, caches, states, rows of activations.  Data that comes from memory in a model is there as
 * often as it takes to be larger than the L2 cache. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"
#include "gpu/bench_row.h"
#include "quant_blocks.h"

enum {
    BLOCK_LEN = 16,
    MAX_EXPERTS = 128,
};

enum status row_take(struct run *r, int32_t rows, int32_t cols, enum dtype t, struct view *out)
{
    *out = (struct view){.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    if (r->n_bufs == MAX_BUFS)
        FAIL(ST_BUG, "too many buffers of a row");
    TRY(r->op->alloc(r->be, (size_t)rows * (size_t)cols * dtype_size(t), MEM_DEVICE, &out->buf));
    r->buf[r->n_bufs++] = out->buf;
    return ST_OK;
}

enum status row_take_random(struct run *r, int32_t rows, int32_t cols, struct view *out)
{
    size_t n = (size_t)rows * (size_t)cols;
    uint32_t rng = 7;
    TRY(row_take(r, rows, cols, DT_F32, out));
    float *host = malloc(n * sizeof *host);
    if (!host)
        FAIL(ST_NOMEM, "no memory for %zu numbers", n);
    for (size_t i = 0; i < n; i++)
        host[i] = (float)quant_draw(&rng) * 0x1p-24f - 0.5f;
    enum status st = r->op->write(r->be, *out, host);
    free(host);
    return st;
}

static enum status keep(struct run *r, enum status st, struct weight *w, struct weight **out)
{
    TRY(st);
    if (r->n_weights == MAX_WEIGHTS)
        FAIL(ST_BUG, "too many weights of a row");
    *out = r->weight[r->n_weights++] = w;
    return ST_OK;
}

enum status row_vector(struct run *r, int32_t n, float value, const struct weight **out)
{
    struct weight *w = NULL;
    float *host = malloc((size_t)n * sizeof *host);
    if (!host)
        FAIL(ST_NOMEM, "no memory for %d numbers", n);
    for (int32_t i = 0; i < n; i++)
        host[i] = value;
    struct weight_src src = {.name = "bench",
                             .vector = true,
                             .cols = n,
                             .n_parts = 1,
                             .part = {{.data = host, .dtype = DT_F32, .rows = 1}},
                             .n_slices = 1,
                             .slice_end = {n}};
    src.part[0].row_bytes = (size_t)n * sizeof *host;
    enum status st = r->op->load_weight(r->be, &src, &w);
    free(host);
    TRY(keep(r, st, w, &w));
    *out = w;
    return ST_OK;
}

/* A matrix of any type, in host memory. */
struct host_matrix {
    unsigned char *data;
    float *scale, *min;
    int8_t *zero;
    uint16_t *index;
    struct weight_src src;
};

static void matrix_fini(struct host_matrix *m)
{
    free(m->data);
    free(m->scale);
    free(m->min);
    free(m->zero);
    free(m->index);
}

static enum status matrix_init(struct host_matrix *m, enum dtype t, int32_t n, int32_t k,
                               bool sliced)
{
    const struct quant_form *f = quant_form(t);
    size_t count = (size_t)n * (size_t)k, per = INDEX_GROUP;
    size_t each = t == DT_BF16 ? 2 : 1;
    if (t == DT_E4M3 || t == DT_NF4)
        per = t == DT_E4M3 ? FP8_BLOCK : LEVEL_BLOCK;
    size_t groups = ((size_t)k + per - 1) / per;
    uint32_t rng = 11;
    *m = (struct host_matrix){0};
    m->data = f ? quant_random_blocks(t, count, 0.01f, 1) : malloc(count * each);
    m->scale = malloc((size_t)n * groups * sizeof(float));
    m->min = malloc((size_t)n * groups * sizeof(float));
    m->zero = malloc((size_t)n * groups);
    m->index = malloc((size_t)k * sizeof(uint16_t));
    if (!m->data || !m->scale || !m->min || !m->zero || !m->index) {
        matrix_fini(m);
        FAIL(ST_NOMEM, "no memory for a matrix of %d x %d", n, k);
    }
    for (size_t i = 0; !f && i < count; i++) {
        uint32_t v = quant_draw(&rng);
        uint16_t h = (uint16_t)(0x3c80U | (v & 0x80ffU)); /* +-[2^-6, 2^-5) */
        if (t == DT_BF16)
            memcpy(m->data + 2 * i, &h, 2);
        else
            m->data[i] = (unsigned char)(t == DT_E4M3 ? (v & 128) | v % 64 : v & 15);
    }
    for (size_t i = 0; i < (size_t)n * groups; i++) {
        m->scale[i] = 0.01f;
        m->min[i] = -0.08f;
        m->zero[i] = 8;
    }
    for (int32_t i = 0; i < k; i++) /* neighbours are of different groups */
        m->index[i] = (uint16_t)((size_t)i * 7 % groups);
    struct weight_part part = {.data = m->data, .dtype = t, .rows = n};
    part.row_bytes = f ? (size_t)(k / f->block * f->n_bytes) : (size_t)k * each;
    if (t == DT_E4M3 || t == DT_NF4 || is_indexed(t)) {
        part.scale = m->scale;
        part.min = m->min;
        part.zero = m->zero;
        part.index = m->index;
        part.scale_stride = groups;
        part.block = t == DT_NF4 ? LEVEL_BLOCK : 0;
    }
    m->src = (struct weight_src){.name = "bench", .cols = k, .n_parts = 1, .n_slices = 1};
    m->src.part[0] = part;
    m->src.n_slices = sliced ? N_SLICES : 1;
    int32_t unit = f ? f->block : 1;
    for (int32_t i = 0; i < m->src.n_slices; i++)
        m->src.slice_end[i] = (int32_t)((int64_t)(i + 1) * (k / unit) / m->src.n_slices) * unit;
    return ST_OK;
}

/* Every matrix of a stack has the same elements. */
static enum status stack(struct run *r, enum dtype t, int32_t count, int32_t n, int32_t k,
                         bool sliced, const struct weight **out)
{
    struct host_matrix m;
    struct weight *w = NULL;
    struct weight_src src[MAX_EXPERTS];
    TRY(matrix_init(&m, t, n, k, sliced));
    for (int32_t i = 0; i < count; i++)
        src[i] = m.src;
    enum status st = r->op->load_stack(r->be, src, count, &w);
    matrix_fini(&m);
    TRY(keep(r, st, w, &w));
    *out = w;
    return ST_OK;
}

int row_copies(const struct run *r, double bytes)
{
    double n = r->cfg->tiny ? 2 : ceil((double)(256 << 20) / bytes);
    return n < 2 ? 2 : n > MAX_CALLS ? MAX_CALLS : (int)n;
}

enum status row_step(struct run *r)
{
    const struct row *q = r->row;
    int32_t n = q->seqs * q->tokens, reach = q->keys > q->tokens ? q->keys : q->tokens + 4;
    /* a prompt from its begin, else a sequence's last token */
    int32_t past = q->tokens > 1 ? 0 : (q->keys > 1 ? q->keys : 5) - 1;
    int32_t *token = calloc((size_t)n, sizeof *token);
    if (!token)
        FAIL(ST_NOMEM, "no memory for %d tokens", n);
    enum status st = gpu_step_init(&r->step, r->be, n, q->seqs, reach, BLOCK_LEN);
    if (st == ST_OK)
        st = gpu_step_set(&r->step, q->seqs, q->tokens, past, reach, token);
    free(token);
    return st;
}

enum status row_matrices(struct run *r, enum dtype t, int32_t n, int32_t k, bool sliced,
                         struct weight **w)
{
    struct host_matrix m;
    TRY(matrix_init(&m, t, n, k, sliced));
    enum status st = ST_OK;
    for (int i = 0; st == ST_OK && i < r->calls; i++) {
        struct weight *one = NULL;
        st = r->op->load_weight(r->be, &m.src, &one);
        st = keep(r, st, one, &w[i]);
    }
    matrix_fini(&m);
    return st;
}

static enum status make_linear(struct run *r)
{
    r->calls = row_copies(r, (double)r->z->n * r->z->k * row_bits_of(r->row->type) / 8);
    TRY(row_matrices(r, r->row->type, r->z->n, r->z->k, false, r->w));
    TRY(row_take_random(r, r->row->tokens, r->z->k, &r->x));
    return row_take(r, r->row->tokens, r->z->n, DT_F32, &r->out);
}

static enum status make_delta(struct run *r)
{
    const struct sizes *z = r->z;
    bool mamba = r->row->variant != 0;
    int32_t n = r->row->seqs * r->row->tokens;
    struct delta_layer *dl = &r->dl;
    *dl = (struct delta_layer){.n_k = mamba ? z->mamba_k : z->delta_k,
                               .n_v = mamba ? z->mamba_v : z->delta_v,
                               .d_k = mamba ? z->mamba_d_k : z->d_k,
                               .d_v = mamba ? z->mamba_d_v : z->d_v,
                               .taps = 4,
                               .dt_max = INFINITY};
    dl->v_per_k = dl->n_v / dl->n_k;
    int32_t C = delta_channels(dl), state = dl->n_v * dl->d_k * dl->d_v;
    TRY(row_vector(r, 4 * C, 0.25f, &dl->conv));
    TRY(row_vector(r, dl->n_v, -1.0f, &dl->decay));
    TRY(row_vector(r, dl->n_v, 0.1f, &dl->dt));
    if (mamba) {
        TRY(row_vector(r, C, 0.1f, &dl->bias));
        TRY(row_vector(r, dl->n_v, 1.0f, &dl->skip));
    }
    r->calls = row_copies(r, 4.0 * r->row->seqs * state);
    for (int i = 0; i < r->calls; i++) {
        TRY(row_take(r, r->row->seqs, 3 * C, DT_F32, &r->state[i].conv));
        TRY(row_take(r, r->row->seqs, state, DT_F32, &r->state[i].rule));
    }
    TRY(row_take_random(r, n, C, &r->x));
    TRY(row_take_random(r, n, 2 * dl->n_v, &r->aux));
    TRY(row_take(r, n, dl->n_v * dl->d_v, DT_F32, &r->out));
    return row_step(r);
}

static int32_t slots_of(const struct run *r)
{
    return r->step.dev.block_table.rows * r->step.dev.block_table.cols * BLOCK_LEN;
}

enum status row_caches(struct run *r, int32_t k_cols, int32_t v_cols)
{
    int32_t slots = slots_of(r);
    for (int i = 0; i < r->calls; i++) {
        TRY(row_take(r, slots, k_cols, DT_BF16, &r->kv[i].k));
        r->kv[i].v = r->kv[i].k; /* latents: a view of the keys */
        if (v_cols)
            TRY(row_take(r, slots, v_cols, DT_BF16, &r->kv[i].v));
    }
    return ST_OK;
}

static enum status make_latent(struct run *r)
{
    const struct sizes *z = r->z;
    int32_t n = r->row->seqs * r->row->tokens, d = z->latent + z->rot;
    TRY(row_step(r));
    r->calls = row_copies(r, 2.0 * slots_of(r) * d);
    TRY(row_caches(r, d, 0));
    for (int i = 0; i < r->calls; i++)
        r->kv[i].v.cols = z->latent;
    r->al = (struct attn_layer){.n_q = z->latent_q,
                                .n_kv = 1,
                                .d_head = d,
                                .d_value = z->latent,
                                .rot_dim = z->rot,
                                .q_per_kv = z->latent_q,
                                .scale = 0.05f,
                                .eps = 1e-6f};
    TRY(row_vector(r, z->latent, 1.0f, &r->al.k_norm));
    TRY(row_take_random(r, r->step.max_ctx, z->rot / 2, &r->al.cos));
    TRY(row_take_random(r, r->step.max_ctx, z->rot / 2, &r->al.sin));
    TRY(row_take_random(r, n, z->latent_q * d, &r->x));
    TRY(row_take_random(r, n, d, &r->aux));
    return row_take(r, n, z->latent_q * z->latent, DT_F32, &r->out);
}

static enum status make_heads(struct run *r)
{
    const struct sizes *z = r->z;
    const struct weight *w;
    r->calls = 8;
    for (int i = 0; i < r->calls; i++) {
        TRY(stack(r, DT_BF16, z->latent_q, z->latent, z->nope, false, &w));
        r->w[i] = r->weight[r->n_weights - 1];
    }
    TRY(row_take_random(r, r->row->tokens, z->latent_q * z->nope, &r->x));
    return row_take(r, r->row->tokens, z->latent_q * z->latent, DT_F32, &r->out);
}

static enum status make_sinks(struct run *r)
{
    const struct sizes *z = r->z;
    int32_t n = r->row->seqs * r->row->tokens;
    TRY(row_step(r));
    r->calls = row_copies(r, 4.0 * slots_of(r) * z->n_kv * z->d);
    TRY(row_caches(r, z->n_kv * z->d, z->n_kv * z->d));
    r->al = (struct attn_layer){.n_q = z->n_q,
                                .n_kv = z->n_kv,
                                .d_head = z->d,
                                .rot_dim = z->d,
                                .q_per_kv = z->n_q / z->n_kv,
                                .window = r->row->variant ? z->window : 0,
                                .scale = 0.125f};
    TRY(row_vector(r, z->n_q, 0.5f, &r->al.sinks));
    TRY(row_take_random(r, n, z->n_q * z->d, &r->x));
    return row_take(r, n, z->n_q * z->d, DT_F32, &r->out);
}

static enum status make_experts(struct run *r)
{
    const struct sizes *z = r->z;
    int e = r->row->variant;
    int32_t n = r->row->tokens, E = z->experts[e], k = z->top_k[e], D = z->hidden[e], F = z->ffn[e];
    struct moe_layer *ml = &r->ml;
    *ml = (struct moe_layer){.n_experts = E,
                             .top_k = k,
                             .hidden = D,
                             .ffn = F,
                             .renormalise = true,
                             .scale = 1.0f,
                             .act = ACT_SILU};
    if (!e) {
        ml->glu_limit = 7.0f;
        ml->glu_alpha = 1.702f;
        TRY(row_vector(r, E * 2 * F, 0.01f, &ml->gate_up_bias));
        TRY(row_vector(r, E * D, 0.01f, &ml->down_bias));
    }
    int32_t scratch = (int32_t)(r->op->moe_scratch(r->be, ml, n) / sizeof(float)) + 1;
    TRY(stack(r, r->row->type, E, 2 * F, D, false, &ml->gate_up));
    TRY(stack(r, r->row->type, E, D, F, true, &ml->down));
    TRY(row_take(r, 1, scratch, DT_F32, &r->scratch));
    TRY(row_take_random(r, n, D, &r->x));
    TRY(row_take_random(r, n, E, &r->aux));
    TRY(row_take_random(r, n, k, &r->weights));
    TRY(row_take(r, n, D, DT_F32, &r->out));
    TRY(row_take(r, n, k, DT_I32, &r->ids[MAX_CALLS - 1])); /* of the router, not used further */
    int32_t *host = malloc((size_t)(n * k) * sizeof *host);
    if (!host)
        FAIL(ST_NOMEM, "no memory for %d ids", n * k);
    enum status st = ST_OK;
    r->calls = r->cfg->tiny ? 2 : 8;
    for (int i = 0; st == ST_OK && i < r->calls; i++) { /* each call has other experts */
        for (int32_t j = 0; j < n * k; j++)
            host[j] = (i * k + j) % E;
        st = row_take(r, n, k, DT_I32, &r->ids[i]);
        if (st == ST_OK)
            st = r->op->write(r->be, r->ids[i], host);
    }
    free(host);
    return st;
}

static enum status make_round(struct run *r)
{
    bool groups = r->row->variant != 0;
    r->rule = (struct input_rule){
        .grid = groups ? GRID_E4M3 : GRID_INT8, .group = groups ? 128 : 0, .all = r->z->round};
    r->calls = r->cfg->tiny ? 2 : MAX_CALLS;
    TRY(row_take_random(r, r->row->tokens, r->z->round, &r->x));
    return row_take(r, r->row->tokens, r->z->round, DT_F32, &r->out);
}

enum status row_make(struct run *r)
{
    switch (r->row->kind) {
    case ROW_LINEAR:
        return make_linear(r);
    case ROW_DELTA_CONV:
    case ROW_DELTA_RULE:
        return make_delta(r);
    case ROW_TO_LATENT:
    case ROW_LATENT:
        return make_latent(r);
    case ROW_HEADS:
        return make_heads(r);
    case ROW_SINKS:
        return make_sinks(r);
    case ROW_EXPERTS:
        return make_experts(r);
    case ROW_DENSE:
        return dense_make(r);
    default:
        return make_round(r);
    }
}
