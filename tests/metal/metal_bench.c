/* Not a test: times of the Metal kernels and of whole steps of Llama-3.2-1B:
 *   metal_bench [--tiny | --count]
 * --tiny: small shapes, for the double, where times mean nothing.
 * --count: no times, but the dispatches of a decode step with one layer and with two.
 * INGOT_METAL_PRODUCTS=matrices: with products by matrices; facts begin with "matrices.".
 * Times are those of the GPU, medians of SAMPLES.  Facts on stdout, which check.py puts beside what
 * predict.py expects. */
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "common/clock.h"
#include "gpu/bench_shapes.h"
#include "gpu/gpu_step.h"
#include "report.h"

enum { SAMPLES = 5, BLOCK_LEN = 16, MAX_COLS = 1 << 17 };

static unsigned char row_of_all[MAX_COLS * 4]; /* made-up weights: every row of every matrix */
static float ones[MAX_COLS];
static enum dtype made_up_type; /* of matrices */

struct bench {
    struct backend *be;
    const struct backend_ops *op;
    bool tiny;
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "metal_bench: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

/* The source with made-up elements: no file is read, and matrices get the wanted type. */
static struct weight_src made_up(const struct weight_src *src)
{
    struct weight_src s = *src;
    for (int i = 0; i < s.n_parts; i++) {
        struct weight_part *p = &s.part[i];
        if ((size_t)s.cols > MAX_COLS)
            must(ST_RANGE);
        p->dtype = s.vector ? DT_F32 : made_up_type;
        p->data = s.vector ? (const void *)ones : row_of_all;
        p->row_bytes = 0; /* each row is the first */
    }
    return s;
}

static size_t made_up_bytes(struct backend *be, const struct weight_src *src)
{
    struct weight_src s = made_up(src);
    return metal_weight_bytes(be, &s);
}

static enum status load_made_up(struct backend *be, const struct weight_src *src,
                                struct weight **out)
{
    struct weight_src s = made_up(src);
    return metal_load_weight(be, &s, out);
}

/* Of facts: by matrices they have other names. */
static const char *kind(const struct bench *b)
{
    return b->be->matrices ? "matrices." : "";
}

static void open_backend(struct bench *b)
{
    static struct backend_ops ops;
    must(backend_open(&b->be, "metal", &(struct backend_config){0}));
    ops = *backend_ops_of(b->be);
    ops.load_weight = load_made_up;
    ops.weight_bytes = made_up_bytes;
    b->be->base.ops = &ops;
    b->op = &ops;
    for (size_t i = 0; i < sizeof row_of_all; i++) /* small numbers as f16, bf16 and scales */
        row_of_all[i] = (unsigned char)(0x20 + i * 7 % 0x1b);
    for (size_t i = 0; i < MAX_COLS; i++)
        ones[i] = 1.0f;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median milliseconds of what run enqueues. */
static double median_ms(struct bench *b, void (*run)(struct bench *b, void *ctx), void *ctx)
{
    double ms[SAMPLES];
    int n = b->tiny ? 1 : SAMPLES;
    for (int i = b->tiny ? 0 : -1; i < n; i++) {
        uint64_t ns;
        must(b->op->event_mark(b->be, 0));
        run(b, ctx);
        must(b->op->event_mark(b->be, 1));
        must(b->op->event_elapsed(b->be, 0, 1, &ns));
        if (i >= 0)
            ms[i] = (double)ns / 1e6;
    }
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    return ms[n / 2];
}

static struct view take(struct bench *b, int32_t rows, int32_t cols)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = DT_F32};
    must(b->op->alloc(b->be, (size_t)rows * (size_t)cols * sizeof(float), MEM_DEVICE, &v.buf));
    return v;
}

/* ---- what a dispatch and a command buffer cost ---- */

enum { N_SMALL = 1000 };

static void run_small(struct bench *b, void *ctx)
{
    for (int i = 0; i < (b->tiny ? 4 : N_SMALL); i++)
        must(b->op->scale(b->be, *(struct view *)ctx, 1.0f));
}

static void bench_launches(struct bench *b)
{
    struct view v = take(b, 1, 32);
    double ms = median_ms(b, run_small, &v);
    fact("%sdispatch_us %.3f", kind(b), ms * 1e3 / (b->tiny ? 4 : N_SMALL));
    uint64_t from = clock_us(), n = b->tiny ? 1 : 100;
    for (uint64_t i = 0; i < n; i++) {
        must(b->op->scale(b->be, v, 1.0f));
        must(b->op->sync(b->be));
    }
    fact("%scommand_buffer_us %.1f", kind(b), (double)(clock_us() - from) / (double)n);
    b->op->free(b->be, v.buf);
}

struct copy {
    struct view to, from;
};

static void run_copy(struct bench *b, void *ctx)
{
    const struct copy *c = ctx;
    must(b->op->copy(b->be, c->to, c->from));
}

static void bench_copy(struct bench *b)
{
    int32_t rows = b->tiny ? 4 : 4096, cols = b->tiny ? 256 : 1 << 14;
    struct copy c = {take(b, rows, cols), take(b, rows, cols)};
    double ms = median_ms(b, run_copy, &c);
    fact("%scopy_gbs %.2f", kind(b), 2.0 * rows * cols * 4 / ms / 1e6);
    b->op->free(b->be, c.to.buf);
    b->op->free(b->be, c.from.buf);
}

/* ---- products ---- */

static const enum dtype types[] = {
    DT_F32,       DT_F16,           DT_BF16,          DT_Q8_0,       DT_Q4_0,  DT_Q4_K,
    DT_Q5_K,      DT_Q6_K,          DT_IQ4_NL,        DT_IQ4_XS,     DT_MXFP4, DT_E4M3,
    DT_INT4_BF16, DT_INT4_ZERO_F16, DT_INT8_ZERO_F16, DT_INT4_INDEX, DT_NF4,   DT_NVFP4};

/* Of a type with scales beside its elements: columns of a scale, 0: another type. */
static int32_t scale_block(enum dtype t)
{
    return t == DT_E4M3 || is_indexed(t) ? 128 : t == DT_NVFP4 ? 16 : has_levels(t) ? 64 : 0;
}

/* Made-up scales [n, k / block], of which every byte is a small e4m3; freed by the caller. */
static void *add_scales(struct weight_part *p, int32_t k)
{
    static uint16_t index[MAX_COLS];
    p->block = scale_block(p->dtype);
    if (!p->block)
        return NULL;
    p->scale_stride = (size_t)(k / p->block);
    size_t n = (size_t)p->rows * p->scale_stride * sizeof(float);
    unsigned char *scales = malloc(n);
    if (!scales)
        must(ST_NOMEM);
    memset(scales, 0x2c, n);
    for (int32_t i = 0; i < k; i++)
        index[i] = (uint16_t)(i / p->block);
    p->scale = p->min = (const float *)(const void *)scales;
    p->small_scale = scales;
    p->index = index;
    p->factor = p->divisor = 1.0f;
    return scales;
}

struct product {
    struct weight *w;
    struct view x, out;
};

static void run_product(struct bench *b, void *ctx)
{
    const struct product *p = ctx;
    must(b->op->linear(b->be, p->w, p->x, p->out));
}

static void bench_type(struct bench *b, enum dtype t, int32_t n, int32_t k)
{
    struct weight_src src = {.name = "product", .cols = k, .n_parts = 1, .n_slices = 1};
    struct product p;
    made_up_type = t;
    src.slice_end[0] = k;
    src.part[0] = (struct weight_part){.dtype = t, .rows = n};
    void *scales = add_scales(&src.part[0], k);
    double bytes = (double)b->op->weight_bytes(b->be, &src);
    must(b->op->load_weight(b->be, &src, &p.w));
    free(scales);
    for (int32_t rows = 1; rows <= (b->tiny ? 8 : 64); rows *= 8) {
        p.x = take(b, rows, k);
        p.out = take(b, rows, n);
        double ms = median_ms(b, run_product, &p);
        fact("%slinear.%s.rows%d.ms %.4f", kind(b), dtype_name(t), rows, ms);
        fact("%slinear.%s.rows%d.weight_gbs %.2f", kind(b), dtype_name(t), rows, bytes / ms / 1e6);
        b->op->free(b->be, p.x.buf);
        b->op->free(b->be, p.out.buf);
    }
    b->op->free_weight(b->be, p.w);
}

/* ---- attention ---- */

struct attended {
    struct attn_layer al;
    struct kv_layer kv;
    struct gpu_step in;
    struct view q, out;
};

static void run_attention(struct bench *b, void *ctx)
{
    const struct attended *a = ctx;
    must(b->op->attention(b->be, &a->al, &a->in.dev, a->q, a->kv, a->out));
}

/* n tokens behind `past` others of one sequence, 4 heads of d elements to a KV head, as in Llama 3. */
static void bench_attention(struct bench *b, enum dtype t, int32_t d, int32_t n, int32_t past)
{
    int32_t n_kv = b->tiny ? 2 : 8, rows = gpu_step_blocks(1, past + n, BLOCK_LEN) * BLOCK_LEN;
    struct attended a = {
        .al = {.n_q = 4 * n_kv, .n_kv = n_kv, .d_head = d, .q_per_kv = 4, .scale = 0.125f}};
    struct view kv = {.rows = rows, .cols = n_kv * d, .stride = n_kv * d, .dtype = t};
    int32_t *token = calloc((size_t)n, sizeof *token);
    if (!token)
        must(ST_NOMEM);
    a.kv.k = a.kv.v = kv;
    size_t bytes = (size_t)rows * (size_t)kv.cols * dtype_size(t);
    must(b->op->alloc(b->be, bytes, MEM_DEVICE, &a.kv.k.buf));
    must(b->op->alloc(b->be, bytes, MEM_DEVICE, &a.kv.v.buf));
    a.q = take(b, n, 4 * kv.cols);
    a.out = take(b, n, 4 * kv.cols);
    must(gpu_step_init(&a.in, b->be, n, 1, past + n, BLOCK_LEN));
    must(gpu_step_set(&a.in, 1, n, past, past + n, token));
    double ms = median_ms(b, run_attention, &a);
    fact("%sattention.%s.d%d.tokens%d.keys%d.ms %.4f", kind(b), dtype_name(t), d, n, past + n, ms);
    gpu_step_fini(&a.in);
    struct buf *all[] = {a.kv.k.buf, a.kv.v.buf, a.q.buf, a.out.buf};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        b->op->free(b->be, all[i]);
    free(token);
}

static void bench_all_attention(struct bench *b)
{
    static const enum dtype caches[] = {DT_F16, DT_BF16, DT_F32};
    for (size_t i = 0; i < ARRAY_LEN(caches); i++) {
        if (b->tiny) {
            bench_attention(b, caches[i], 32, 3, 40);
            continue;
        }
        for (int32_t d = 64; d <= 256; d *= 2) {
            bench_attention(b, caches[i], d, 1, 4095);
            bench_attention(b, caches[i], d, 512, 0);
        }
    }
}

/* ---- steps ---- */

struct step {
    struct decoder *m;
    struct gpu_step in;
};

static void run_step(struct bench *b, void *ctx)
{
    struct step *s = ctx;
    struct view logits;
    (void)b;
    must(decoder_forward(s->m, &s->in.dev, &logits));
}

static void time_step(struct bench *b, struct step *s, const char *name, int32_t batch, int32_t n,
                      int32_t past)
{
    int32_t *token = calloc((size_t)(batch * n), sizeof *token);
    if (!token)
        must(ST_NOMEM);
    must(gpu_step_set(&s->in, batch, n, past, past + n, token));
    free(token);
    uint64_t before = b->be->n_dispatched;
    run_step(b, s);
    uint64_t dispatches = b->be->n_dispatched - before;
    double ms = median_ms(b, run_step, s);
    fact("%s%s.ms %.3f", kind(b), name, ms);
    fact("%s%s.tokens_per_s %.1f", kind(b), name, batch * n / ms * 1e3);
    fact("%s%s.dispatches %llu", kind(b), name, (unsigned long long)dispatches);
}

static void bench_model(struct bench *b, enum dtype t)
{
    const struct bench_shape *shape = b->tiny ? &bench_tiny_shapes[0] : &bench_shapes[0];
    int32_t ctx = b->tiny ? 32 : 4096, batch = b->tiny ? 2 : 8, prompt = b->tiny ? 16 : 128;
    struct decoder_config cfg = {.world = 1,
                                 .max_tokens = prompt,
                                 .max_seqs = batch,
                                 .max_out = batch,
                                 .n_blocks = gpu_step_blocks(batch, ctx, BLOCK_LEN),
                                 .block_len = BLOCK_LEN,
                                 .max_ctx = ctx,
                                 .kv_dtype = DT_F16};
    struct loader *ld;
    struct step s;
    char name[96];
    made_up_type = t;
    must(bench_shape_open(&ld, shape));
    must(decoder_open(&s.m, loader_config(ld), ld, b->be, NULL, &cfg));
    must(gpu_step_init(&s.in, b->be, prompt, batch, ctx, BLOCK_LEN));
    snprintf(name, sizeof name, "%s.%s.decode", shape->name, dtype_name(t));
    time_step(b, &s, name, 1, 1, b->tiny ? 7 : 127);
    snprintf(name, sizeof name, "%s.%s.decode_at_%d", shape->name, dtype_name(t), ctx);
    time_step(b, &s, name, 1, 1, ctx - 1);
    snprintf(name, sizeof name, "%s.%s.decode_batch_%d", shape->name, dtype_name(t), batch);
    time_step(b, &s, name, batch, 1, b->tiny ? 7 : 127);
    snprintf(name, sizeof name, "%s.%s.prefill_%d", shape->name, dtype_name(t), prompt);
    time_step(b, &s, name, 1, prompt, 0);
    gpu_step_fini(&s.in);
    decoder_close(s.m);
    loader_close(ld);
}

/* Dispatches of a decode step, and of the choice of the best 20 tokens behind it. */
static void count_dispatches(struct bench *b, int32_t n_layers)
{
    struct bench_shape shape = bench_tiny_shapes[0];
    struct decoder_config cfg = {.world = 1,
                                 .max_tokens = 1,
                                 .max_seqs = 1,
                                 .max_out = 1,
                                 .n_blocks = gpu_step_blocks(1, BLOCK_LEN, BLOCK_LEN),
                                 .block_len = BLOCK_LEN,
                                 .max_ctx = BLOCK_LEN,
                                 .kv_dtype = DT_F16};
    struct loader *ld;
    struct step s;
    struct view logits, out[4];
    shape.n_layers = n_layers;
    made_up_type = DT_Q4_K;
    must(bench_shape_open(&ld, &shape));
    must(decoder_open(&s.m, loader_config(ld), ld, b->be, NULL, &cfg));
    must(gpu_step_init(&s.in, b->be, 1, 1, BLOCK_LEN, BLOCK_LEN));
    must(gpu_step_set(&s.in, 1, 1, 0, 1, (const int32_t[]){1}));
    static const int32_t cols[] = {1, 20, 20, 3}; /* temperature, values, ids, sums */
    for (int i = 0; i < 4; i++)
        out[i] = take(b, 1, cols[i]);
    out[2].dtype = DT_I32;
    uint64_t before = b->be->n_dispatched;
    must(decoder_forward(s.m, &s.in.dev, &logits));
    const struct vocab_part part = {
        .n_cols = logits.cols, .n_slices = 1, .slice_end = {logits.cols}};
    must(b->op->topk(b->be, &part, logits, out[0], out[1], out[2], out[3]));
    fact("dispatches.layers%d %llu", n_layers, (unsigned long long)(b->be->n_dispatched - before));
    must(b->op->sync(b->be));
    for (int i = 0; i < 4; i++)
        b->op->free(b->be, out[i].buf);
    gpu_step_fini(&s.in);
    decoder_close(s.m);
    loader_close(ld);
}

int main(int argc, char **argv)
{
    struct bench b = {.tiny = argc == 2 && strcmp(argv[1], "--tiny") == 0};
    struct tap t = {0};
    bool count = argc == 2 && strcmp(argv[1], "--count") == 0;
    if (argc > 1 && !b.tiny && !count) {
        fprintf(stderr, "usage: metal_bench [--tiny | --count]\n");
        return 2;
    }
    open_backend(&b);
    if (count) {
        count_dispatches(&b, 1);
        count_dispatches(&b, 2);
        b.op->close(b.be);
        return 0;
    }
    bench_launches(&b);
    bench_copy(&b);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        bench_type(&b, types[i], b.tiny ? 32 : 1 << 15, b.tiny ? 256 : 4096);
    tap_ok(&t, true, "products");
    bench_all_attention(&b);
    tap_ok(&t, true, "attention");
    bench_model(&b, DT_Q4_K);
    if (!b.tiny) {
        bench_model(&b, DT_Q8_0);
        bench_model(&b, DT_BF16);
    }
    tap_ok(&t, true, "steps");
    b.op->close(b.be);
    return tap_end(&t);
}
