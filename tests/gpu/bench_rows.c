/* Each row is one op, or the few that always come together, on random data: a recorded graph of several
 * calls over data that is together larger than the L2 cache where an op's weights, caches or states
 * come from memory in a model. */
#include "gpu/bench_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "common/quant.h"
#include "gpu/gpu_step.h"
#include "quant_blocks.h"

enum {
    SAMPLES = 7,
    WARM_UPS = 3,
    MAX_CALLS = 16,
    MAX_BUFS = 96,
    MAX_WEIGHTS = 24,
    BLOCK_LEN = 16,
    SORTED_GROUP = 128, /* columns of a scale of INT4_INDEX */
    MAX_EXPERTS = 128,
};

enum row_kind {
    ROW_LINEAR,
    ROW_DELTA_CONV,
    ROW_DELTA_RULE,
    ROW_TO_LATENT,
    ROW_LATENT,
    ROW_HEADS,
    ROW_SINKS,
    ROW_EXPERTS,
    ROW_ROUND,
};

/* seqs sequences of `tokens` each, of `keys` where there is a cache; variant: Mamba-2 of a delta net, a
 * window, the grid of inputs. */
struct row {
    char name[48];
    enum row_kind kind;
    enum dtype type;
    int32_t seqs, tokens, keys, variant;
};

/* Sizes of the kinds' shapes, published and for the emulator. */
struct sizes {
    int32_t n, k;                                   /* linear */
    int32_t delta_k, delta_v, d_k, d_v;             /* heads and their sizes, */
    int32_t mamba_k, mamba_v, mamba_d_k, mamba_d_v; /* of Mamba-2 */
    int32_t latent_q, latent, rot, nope; /* heads; elements of a latent, of RoPE, of a head */
    int32_t n_q, n_kv, d, window;        /* attention with sinks */
    int32_t experts[2], top_k[2], hidden[2], ffn[2]; /* with biases; without */
    int32_t round;                                   /* columns */
};
static const struct sizes published = {
    14336, 4096, 16, 32, 128, 128, 8,         128,    128,          64,          16,  512,
    64,    128,  64, 8,  64,  128, {32, 128}, {4, 8}, {2880, 2048}, {2880, 768}, 4096};
static const struct sizes small = {64, 512, 2,      4,      16,         16,         2,  4,
                                   16, 8,   2,      32,     16,         16,         4,  2,
                                   64, 16,  {4, 4}, {2, 2}, {256, 256}, {256, 256}, 256};

/* Vectors of a kind's constants, made once a row. */
struct run {
    struct backend *be;
    const struct backend_ops *op;
    const struct bench_rows_config *cfg;
    const struct row *row;
    const struct sizes *z;
    struct buf *buf[MAX_BUFS];
    struct weight *weight[MAX_WEIGHTS];
    int n_bufs, n_weights, calls;
    struct gpu_step step;
    struct view x, out, aux, ids[MAX_CALLS], weights, scratch;
    struct weight *w[MAX_CALLS];
    struct kv_layer kv[MAX_CALLS];
    struct delta_state state[MAX_CALLS];
    struct delta_layer dl;
    struct attn_layer al;
    struct moe_layer ml;
    struct input_rule rule;
};

/* ---- the rows ---- */

enum { MAX_ROWS = 64 };

static const struct {
    enum dtype type;
    const char *name;
} types[] = {{DT_Q8_0, "q8_0"},
             {DT_Q4_K, "q4_k"},
             {DT_Q6_K, "q6_k"},
             {DT_MXFP4, "mxfp4"},
             {DT_INT4_ZERO_BF16, "int4_zero_bf16"},
             {DT_E4M3, "e4m3"},
             {DT_INT4_INDEX, "int4_index"}};

#define ROW(at, ...)                                                                               \
    do {                                                                                           \
        *(at) = (struct row)__VA_ARGS__;                                                           \
    } while (0)

static size_t make_rows(struct row *out)
{
    static const int32_t few[] = {1, 8, 512}, delta[][2] = {{1, 1}, {64, 1}, {1, 512}};
    static const int32_t sinks[][3] = {{1, 4096, 1}, {64, 1024, 1}, {1, 2048, 2048}};
    static const int32_t latent[] = {1, 32}, ends[] = {1, 512}, heads[] = {1, 64};
    static const int32_t experts[] = {1, 64, 512};
    struct row *r = out;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t j = 0; j < ARRAY_LEN(few); j++, r++) {
            ROW(r, {"", ROW_LINEAR, types[i].type, 1, few[j], 0, 0});
            snprintf(r->name, sizeof r->name, "linear %s %d", types[i].name, few[j]);
        }
    for (int mamba = 0; mamba < 2; mamba++)
        for (size_t j = 0; j < 2 * ARRAY_LEN(delta); j++, r++) {
            const int32_t *d = delta[j / 2];
            ROW(r, {"", j % 2 ? ROW_DELTA_RULE : ROW_DELTA_CONV, DT_F32, d[0], d[1], 0, mamba});
            snprintf(r->name, sizeof r->name, "%s %s %d x %d", mamba ? "mamba2" : "delta net",
                     j % 2 ? "rule" : "conv", d[0], d[1]);
        }
    for (size_t j = 0; j < ARRAY_LEN(ends); j++, r++) {
        ROW(r, {"", ROW_TO_LATENT, DT_BF16, 1, ends[j], ends[j], 0});
        snprintf(r->name, sizeof r->name, "latent to cache %d", ends[j]);
    }
    for (size_t j = 0; j < ARRAY_LEN(latent); j++, r++) {
        ROW(r, {"", ROW_LATENT, DT_BF16, latent[j], 1, 4096, 0});
        snprintf(r->name, sizeof r->name, "latent attention %d x 4096", latent[j]);
    }
    for (size_t j = 0; j < ARRAY_LEN(heads); j++, r++) {
        ROW(r, {"", ROW_HEADS, DT_BF16, 1, heads[j], 0, 0});
        snprintf(r->name, sizeof r->name, "heads linear %d", heads[j]);
    }
    for (int window = 0; window < 2; window++)
        for (size_t j = 0; j < ARRAY_LEN(sinks); j++, r++) {
            const int32_t *s = sinks[j];
            ROW(r, {"", ROW_SINKS, DT_BF16, s[0], s[2], s[1], window});
            snprintf(r->name, sizeof r->name, "sinks %s%d x %d of %d", window ? "window " : "",
                     s[0], s[2], s[1]);
        }
    for (int plain = 0; plain < 2; plain++)
        for (size_t j = 0; j < ARRAY_LEN(experts); j++, r++) {
            ROW(r, {"", ROW_EXPERTS, plain ? DT_BF16 : DT_MXFP4, 1, experts[j], 0, plain});
            snprintf(r->name, sizeof r->name, "experts %s %d", plain ? "bf16" : "mxfp4",
                     experts[j]);
        }
    for (int grid = 0; grid < 2; grid++)
        for (size_t j = 0; j < ARRAY_LEN(ends); j++, r++) {
            ROW(r, {"", ROW_ROUND, DT_F32, 1, ends[j], 0, grid});
            snprintf(r->name, sizeof r->name, "round input %s %d", grid ? "e4m3" : "int8", ends[j]);
        }
    return (size_t)(r - out);
}

/* Bits of a weight in device memory. */
static double bits_of(enum dtype t)
{
    if (t == DT_E4M3)
        return 8 + 32.0 / FP8_BLOCK;
    if (t == DT_INT4_INDEX)
        return 4 + 64.0 / SORTED_GROUP; /* scale and minimum */
    if (t == DT_MXFP4)
        return 4.5; /* the exponent is a bf16 there */
    if (t == DT_INT4_ZERO_BF16)
        return 5; /* the zero point has 16 bits there */
    const struct quant_form *f = quant_form(t);
    return f ? 8.0 * f->n_bytes / f->block : 8.0 * (double)dtype_size(t);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* Bytes that the row has to move at least, and its operations. */
static void work_of(const struct row *r, const struct sizes *z, double *bytes, double *flops)
{
    double t = (double)r->seqs * r->tokens, C, n_k, n_v, d_k, d_v, seen, pairs, d, used;
    int e = r->variant;
    switch (r->kind) {
    case ROW_LINEAR:
        *bytes = (double)z->n * z->k * bits_of(r->type) / 8 + 4 * t * (z->n + z->k);
        *flops = 2 * t * z->n * z->k;
        return;
    case ROW_DELTA_CONV:
    case ROW_DELTA_RULE:
        n_k = e ? z->mamba_k : z->delta_k;
        n_v = e ? z->mamba_v : z->delta_v;
        d_k = e ? z->mamba_d_k : z->d_k;
        d_v = e ? z->mamba_d_v : z->d_v;
        C = 2 * n_k * d_k + n_v * d_v;
        *bytes = r->kind == ROW_DELTA_CONV
                     ? 8 * t * C + 8.0 * r->seqs * 3 * C + 16 * C
                     : 8.0 * r->seqs * n_v * d_k * d_v + 4 * t * (C + n_v * d_v);
        *flops = r->kind == ROW_DELTA_CONV ? 8 * t * C : (e ? 4 : 6) * t * n_v * d_k * d_v;
        return;
    case ROW_TO_LATENT:
        *bytes = t * (6 * (z->latent + z->rot) + 8 * z->latent_q * z->rot);
        *flops = 0;
        return;
    case ROW_LATENT:
        d = z->latent + z->rot;
        *bytes = 2 * t * d * r->keys + 4 * t * z->latent_q * (d + z->latent);
        *flops = 2 * t * z->latent_q * r->keys * (d + z->latent);
        return;
    case ROW_HEADS:
        *bytes = z->latent_q * (2.0 * z->latent * z->nope + 4 * t * (z->latent + z->nope));
        *flops = 2 * t * z->latent_q * z->latent * z->nope;
        return;
    case ROW_SINKS:
        seen = e ? least(z->window, r->keys) : r->keys;
        pairs = t * (r->tokens == 1 || e ? seen : r->tokens / 2.0);
        *bytes = 4.0 * r->seqs * z->n_kv * z->d * (r->tokens > 1 ? r->keys : seen) +
                 8 * t * z->n_q * z->d;
        *flops = 4.0 * z->n_q * z->d * pairs;
        return;
    case ROW_EXPERTS:
        used = least(z->experts[e], t * z->top_k[e]);
        *bytes = used * 3 * z->hidden[e] * z->ffn[e] * bits_of(r->type) / 8 + 8 * t * z->hidden[e];
        *flops = 6 * t * z->top_k[e] * z->hidden[e] * z->ffn[e];
        return;
    case ROW_ROUND:
        *bytes = 8 * t * z->round;
        *flops = 0;
        return;
    }
}

/* ---- data ---- */

static enum status take(struct run *r, int32_t rows, int32_t cols, enum dtype t, struct view *out)
{
    *out = (struct view){.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    if (r->n_bufs == MAX_BUFS)
        FAIL(ST_BUG, "too many buffers of a row");
    TRY(r->op->alloc(r->be, (size_t)rows * (size_t)cols * dtype_size(t), MEM_DEVICE, &out->buf));
    r->buf[r->n_bufs++] = out->buf;
    return ST_OK;
}

/* Numbers in [-1/2, 1/2). */
static enum status take_random(struct run *r, int32_t rows, int32_t cols, struct view *out)
{
    size_t n = (size_t)rows * (size_t)cols;
    uint32_t rng = 7;
    TRY(take(r, rows, cols, DT_F32, out));
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

/* n times `value`. */
static enum status vector(struct run *r, int32_t n, float value, const struct weight **out)
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
    uint16_t *index;
    struct weight_src src;
};

static void matrix_fini(struct host_matrix *m)
{
    free(m->data);
    free(m->scale);
    free(m->min);
    free(m->index);
}

static enum status matrix_init(struct host_matrix *m, enum dtype t, int32_t n, int32_t k,
                               bool sliced)
{
    const struct quant_form *f = quant_form(t);
    size_t count = (size_t)n * (size_t)k, per = t == DT_E4M3 ? FP8_BLOCK : SORTED_GROUP;
    size_t groups = ((size_t)k + per - 1) / per, each = t == DT_BF16 ? 2 : 1;
    uint32_t rng = 11;
    *m = (struct host_matrix){0};
    m->data = f ? quant_random_blocks(t, count, 0.01f, 1) : malloc(count * each);
    m->scale = malloc((size_t)n * groups * sizeof(float));
    m->min = malloc((size_t)n * groups * sizeof(float));
    m->index = malloc((size_t)k * sizeof(uint16_t));
    if (!m->data || !m->scale || !m->min || !m->index) {
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
    }
    for (int32_t i = 0; i < k; i++) /* neighbours are of different groups */
        m->index[i] = (uint16_t)((size_t)i * 7 % groups);
    struct weight_part part = {.data = m->data, .dtype = t, .rows = n};
    part.row_bytes = f ? (size_t)(k / f->block * f->n_bytes) : (size_t)k * each;
    if (t == DT_E4M3 || t == DT_INT4_INDEX) {
        part.scale = m->scale;
        part.min = m->min;
        part.index = m->index;
        part.scale_stride = groups;
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

/* How many copies of `bytes` are together larger than the L2 cache. */
static int copies(const struct run *r, double bytes)
{
    double n = r->cfg->tiny ? 2 : ceil((double)(256 << 20) / bytes);
    return n < 2 ? 2 : n > MAX_CALLS ? MAX_CALLS : (int)n;
}

static enum status make_step(struct run *r)
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

static enum status make_linear(struct run *r)
{
    struct host_matrix m;
    r->calls = copies(r, (double)r->z->n * r->z->k * bits_of(r->row->type) / 8);
    TRY(matrix_init(&m, r->row->type, r->z->n, r->z->k, false));
    enum status st = ST_OK;
    for (int i = 0; st == ST_OK && i < r->calls; i++) {
        struct weight *w = NULL;
        st = r->op->load_weight(r->be, &m.src, &w);
        st = keep(r, st, w, &r->w[i]);
    }
    matrix_fini(&m);
    TRY(st);
    TRY(take_random(r, r->row->tokens, r->z->k, &r->x));
    return take(r, r->row->tokens, r->z->n, DT_F32, &r->out);
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
    TRY(vector(r, 4 * C, 0.25f, &dl->conv));
    TRY(vector(r, dl->n_v, -1.0f, &dl->decay));
    TRY(vector(r, dl->n_v, 0.1f, &dl->dt));
    if (mamba) {
        TRY(vector(r, C, 0.1f, &dl->bias));
        TRY(vector(r, dl->n_v, 1.0f, &dl->skip));
    }
    r->calls = copies(r, 4.0 * r->row->seqs * state);
    for (int i = 0; i < r->calls; i++) {
        TRY(take(r, r->row->seqs, 3 * C, DT_F32, &r->state[i].conv));
        TRY(take(r, r->row->seqs, state, DT_F32, &r->state[i].rule));
    }
    TRY(take_random(r, n, C, &r->x));
    TRY(take_random(r, n, 2 * dl->n_v, &r->aux));
    TRY(take(r, n, dl->n_v * dl->d_v, DT_F32, &r->out));
    return make_step(r);
}

static enum status make_caches(struct run *r, int32_t k_cols, int32_t v_cols)
{
    struct step_dev *st = &r->step.dev;
    int32_t slots = st->block_table.rows * st->block_table.cols * BLOCK_LEN;
    r->calls = copies(r, 2.0 * slots * (k_cols + v_cols));
    for (int i = 0; i < r->calls; i++) {
        TRY(take(r, slots, k_cols, DT_BF16, &r->kv[i].k));
        r->kv[i].v = r->kv[i].k; /* latents: a view of the keys */
        if (v_cols)
            TRY(take(r, slots, v_cols, DT_BF16, &r->kv[i].v));
    }
    return ST_OK;
}

static enum status make_latent(struct run *r)
{
    const struct sizes *z = r->z;
    int32_t n = r->row->seqs * r->row->tokens, d = z->latent + z->rot;
    TRY(make_step(r));
    TRY(make_caches(r, d, 0));
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
    TRY(vector(r, z->latent, 1.0f, &r->al.k_norm));
    TRY(take_random(r, r->step.max_ctx, z->rot / 2, &r->al.cos));
    TRY(take_random(r, r->step.max_ctx, z->rot / 2, &r->al.sin));
    TRY(take_random(r, n, z->latent_q * d, &r->x));
    TRY(take_random(r, n, d, &r->aux));
    return take(r, n, z->latent_q * z->latent, DT_F32, &r->out);
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
    TRY(take_random(r, r->row->tokens, z->latent_q * z->nope, &r->x));
    return take(r, r->row->tokens, z->latent_q * z->latent, DT_F32, &r->out);
}

static enum status make_sinks(struct run *r)
{
    const struct sizes *z = r->z;
    int32_t n = r->row->seqs * r->row->tokens;
    TRY(make_step(r));
    TRY(make_caches(r, z->n_kv * z->d, z->n_kv * z->d));
    r->al = (struct attn_layer){.n_q = z->n_q,
                                .n_kv = z->n_kv,
                                .d_head = z->d,
                                .rot_dim = z->d,
                                .q_per_kv = z->n_q / z->n_kv,
                                .window = r->row->variant ? z->window : 0,
                                .scale = 0.125f};
    TRY(vector(r, z->n_q, 0.5f, &r->al.sinks));
    TRY(take_random(r, n, z->n_q * z->d, &r->x));
    return take(r, n, z->n_q * z->d, DT_F32, &r->out);
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
        TRY(vector(r, E * 2 * F, 0.01f, &ml->gate_up_bias));
        TRY(vector(r, E * D, 0.01f, &ml->down_bias));
    }
    int32_t scratch = (int32_t)(r->op->moe_scratch(r->be, ml, n) / sizeof(float)) + 1;
    TRY(stack(r, r->row->type, E, 2 * F, D, false, &ml->gate_up));
    TRY(stack(r, r->row->type, E, D, F, true, &ml->down));
    TRY(take(r, 1, scratch, DT_F32, &r->scratch));
    TRY(take_random(r, n, D, &r->x));
    TRY(take_random(r, n, E, &r->aux));
    TRY(take_random(r, n, k, &r->weights));
    TRY(take(r, n, D, DT_F32, &r->out));
    TRY(take(r, n, k, DT_I32, &r->ids[MAX_CALLS - 1])); /* of the router, not used further */
    int32_t *host = malloc((size_t)(n * k) * sizeof *host);
    if (!host)
        FAIL(ST_NOMEM, "no memory for %d ids", n * k);
    enum status st = ST_OK;
    r->calls = r->cfg->tiny ? 2 : 8;
    for (int i = 0; st == ST_OK && i < r->calls; i++) { /* each call has other experts */
        for (int32_t j = 0; j < n * k; j++)
            host[j] = (i * k + j) % E;
        st = take(r, n, k, DT_I32, &r->ids[i]);
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
    TRY(take_random(r, r->row->tokens, r->z->round, &r->x));
    return take(r, r->row->tokens, r->z->round, DT_F32, &r->out);
}

static enum status make(struct run *r)
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
    default:
        return make_round(r);
    }
}

/* ---- calls ---- */

static enum status call_experts(struct run *r, int i)
{
    const struct moe_layer *ml = &r->ml;
    TRY(r->op->moe_route(r->be, ml, r->aux, r->ids[MAX_CALLS - 1], r->weights));
    TRY(r->op->moe_ffn(r->be, ml, r->x, r->ids[i], r->weights, r->scratch, r->out));
    return ml->down_bias ? r->op->moe_bias(r->be, ml, r->ids[i], r->weights, r->out) : ST_OK;
}

/* The i-th call of a row. */
static enum status call(struct run *r, int i)
{
    const struct step_dev *st = &r->step.dev;
    switch (r->row->kind) {
    case ROW_LINEAR:
        return r->op->linear(r->be, r->w[i], r->x, r->out);
    case ROW_DELTA_CONV:
        return r->op->delta_conv(r->be, &r->dl, st, r->x, r->state[i]);
    case ROW_DELTA_RULE:
        return r->op->delta_rule(r->be, &r->dl, st, r->x, r->aux, r->state[i], r->out);
    case ROW_TO_LATENT:
        return r->op->latent_to_cache(r->be, &r->al, st, r->aux, r->x, r->kv[i], r->x);
    case ROW_LATENT:
        return r->op->attention(r->be, &r->al, st, r->x, r->kv[i], r->out);
    case ROW_HEADS:
        return r->op->heads_linear(r->be, r->w[i], r->x, r->out);
    case ROW_SINKS:
        return r->op->attention(r->be, &r->al, st, r->x, r->kv[i], r->out);
    case ROW_EXPERTS:
        return call_experts(r, i);
    default:
        return r->op->round_input(r->be, &r->rule, r->x, (struct view){0}, r->out);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one call: the median of SAMPLES graphs. */
static enum status measure(struct run *r, double *us)
{
    double all[SAMPLES];
    int samples = r->cfg->tiny ? 1 : SAMPLES, warm_ups = r->cfg->tiny ? 0 : WARM_UPS;
    struct graph *g;
    TRY(r->op->graph_begin(r->be));
    for (int i = 0; i < r->calls; i++)
        TRY(call(r, i));
    TRY(r->op->graph_end(r->be, &g));
    for (int i = -warm_ups; i < samples; i++) {
        uint64_t ns;
        TRY(r->op->event_mark(r->be, 0));
        TRY(r->op->graph_launch(r->be, g));
        TRY(r->op->event_mark(r->be, 1));
        TRY(r->op->event_elapsed(r->be, 0, 1, &ns));
        if (i >= 0)
            all[i] = (double)ns / 1e3 / r->calls;
    }
    r->op->graph_free(r->be, g);
    qsort(all, (size_t)samples, sizeof *all, by_value);
    *us = all[samples / 2];
    return ST_OK;
}

/* Names of the kernels that a call launches, each once: "a", "b". */
static enum status kernels_of(struct run *r, char *out, size_t size)
{
    uint64_t before = r->be->n_enqueued;
    size_t at = 0;
    TRY(call(r, 0));
    TRY(r->op->sync(r->be));
    out[0] = '\0';
    for (uint64_t i = before; i < r->be->n_enqueued; i++) {
        const char *name = r->be->enqueued[i % N_ENQUEUED];
        char quoted[80];
        name += *name == '(';
        snprintf(quoted, sizeof quoted, "\"%.*s\"", (int)strcspn(name, "<)"), name);
        if (!strstr(out, quoted) && at + strlen(quoted) + 3 < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", quoted);
    }
    return ST_OK;
}

/* Microseconds that the file has for a row; 0: none. */
static double predicted_us(const char *path, const char *name)
{
    char line[4096];
    double us = 0;
    size_t n = strlen(name);
    FILE *f = path ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && line[n] == '\t')
            us = strtod(line + n, NULL);
    if (f)
        fclose(f);
    return us;
}

static enum status run_row(struct run *r, const char *sep)
{
    char kernels[2048];
    double us = 0, bytes, flops, predicted = predicted_us(r->cfg->predicted, r->row->name);
    TRY(make(r));
    TRY(kernels_of(r, kernels, sizeof kernels));
    TRY(measure(r, &us));
    work_of(r->row, r->z, &bytes, &flops);
    printf("row    %-28s %9.1f us (predicted %.1f) %8.0f GB/s %4.0f %% of copy %8.1f TFLOP/s\n",
           r->row->name, us, predicted, bytes / us / 1e3, 100 * bytes / us / 1e3 / r->cfg->copy_gbs,
           flops / us / 1e6);
    if (r->cfg->json)
        fprintf(r->cfg->json,
                "%s\n  {\"name\": \"%s\", \"us\": %.3f, \"predicted_us\": %.1f, \"bytes\": %.0f, "
                "\"flops\": %.0f, \"kernels\": [%s]}",
                sep, r->row->name, us, predicted, bytes, flops, kernels);
    return ST_OK;
}

static void run_fini(struct run *r)
{
    gpu_step_fini(&r->step);
    while (r->n_weights > 0)
        r->op->free_weight(r->be, r->weight[--r->n_weights]);
    while (r->n_bufs > 0)
        r->op->free(r->be, r->buf[--r->n_bufs]);
}

/* As many as keep the kernels: 8 tokens and more than 32 have others. */
static void shrink(struct row *q)
{
    bool few = q->kind == ROW_EXPERTS && q->tokens <= 64;
    q->tokens = q->tokens <= 8 ? q->tokens : few ? 8 : 40;
    q->keys = q->keys > 40 ? 40 : q->keys;
    q->seqs = q->seqs > 3 ? 3 : q->seqs;
}

enum status bench_rows(struct backend *be, const struct bench_rows_config *cfg)
{
    struct row rows[MAX_ROWS];
    size_t n = make_rows(rows);
    for (size_t i = 0; i < n; i++) {
        if (cfg->tiny)
            shrink(&rows[i]);
        struct run r = {.be = be,
                        .op = backend_ops_of(be),
                        .cfg = cfg,
                        .row = &rows[i],
                        .z = cfg->tiny ? &small : &published};
        enum status st = run_row(&r, i ? "," : "");
        run_fini(&r);
        TRY(st);
    }
    return ST_OK;
}

void bench_rows_list(void)
{
    struct row rows[MAX_ROWS];
    double bytes, flops;
    size_t n = make_rows(rows);
    for (size_t i = 0; i < n; i++) {
        work_of(&rows[i], &published, &bytes, &flops);
        printf("%s\t%.0f\t%.0f\n", rows[i].name, bytes, flops);
    }
}
