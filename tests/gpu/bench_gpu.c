/* Not a test: whole steps of Llama-3.2-1B and 3.1-8B in bf16 on GPU 0, layers and head, without
 * sampling:
 *   bench_gpu [--json FILE] [--tiny] [--rows [--predicted FILE]]
 *   bench_gpu --list
 * --rows: in place of the models the ops of bench_rows.c, beside the times that predicted_rows.txt has
 * for them; --list: their names, bytes and operations, without a GPU.  --tiny: a small shape, for the emulator: shows that it runs, its times mean nothing.
 *
 * The device's own ceilings come from the same run: read and copy of 1 GiB, and an 8192^3 product
 * through cuBLASLt ("fast" linear, its packing of x included).  A step's floor is the greater of
 * its bytes at the copy's rate and its operations at the product's; README.md has the arithmetic
 * and says where the expected times come from.
 * Medians of SAMPLES after WARM_UPS (--tiny: one). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "gpu/bench_rows.h"
#include "gpu/bench_shapes.h"
#include "gpu/gpu_step.h"
#include "gpu/random_weights.h"
#include "gpu/read_ceiling.h"

enum { SAMPLES = 7, WARM_UPS = 3, BLOCK_LEN = 16 };

struct measure {
    bool prefill, graph;
    int32_t batch, tokens,
        ctx;       /* prefill: tokens of one sequence; decode: KV length with its own */
    bool fast_too; /* small batches: the same kernels as strict */
    /* Milliseconds on an H200, [1B, 8B][strict, fast]; 0: nothing is expected. */
    double expected_ms[2][2];
};

static const struct measure measures[] = {
    {false, true, 1, 1, 128, false, {{0.87}, {4.65}}},
    {false, false, 1, 1, 128, false, {{1.1}, {4.9}}},
    {false, true, 1, 1, 4096, false, {{0.95}, {4.9}}},
    {false, true, 8, 1, 128, false, {{0.95}, {4.9}}},
    {false, true, 64, 1, 128, true, {{1.7, 1.3}, {8.5, 6.5}}},
    {false, true, 256, 1, 128, true, {{3.2, 2.5}, {15, 11}}},
    {true, false, 1, 512, 512, true, {{5, 2.5}, {30, 15}}},
    {true, false, 1, 2048, 2048, true, {{20, 9}, {110, 55}}},
    {true, false, 1, 8192, 8192, true, {{95, 45}, {560, 270}}},
};
static const struct measure tiny_measures[] = {
    {false, true, 1, 1, 12, true, {{1, 1}}},
    {false, false, 2, 1, 12, false, {{0}}},
    {true, false, 1, 24, 24, true, {{1, 1}}},
};

struct bench {
    struct backend *be;
    const struct backend_ops *op;
    struct loader *ld;
    struct decoder *m;
    struct gpu_step wide, deep; /* many short sequences, one long one */
    const struct bench_shape *shape;
    int i_shape;
    enum numerics numerics;
    double read_gbs, copy_gbs, gemm_tflops; /* gemm 0: there is no cuBLASLt */
    FILE *json;
    const char *sep;
    bool tiny;
    int samples, warm_ups; /* samples <= SAMPLES, odd */
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_gpu: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds, ascending, of b->samples launches of g, or forwards where g is NULL. */
static void sample(struct bench *b, struct graph *g, const struct step_dev *dev, double *ms)
{
    struct view logits;
    for (int i = -b->warm_ups; i < b->samples; i++) {
        uint64_t ns;
        must(b->op->event_mark(b->be, 0));
        must(g ? b->op->graph_launch(b->be, g) : decoder_forward(b->m, dev, &logits));
        must(b->op->event_mark(b->be, 1));
        must(b->op->event_elapsed(b->be, 0, 1, &ns));
        if (i >= 0)
            ms[i] = (double)ns / 1e6;
    }
    qsort(ms, (size_t)b->samples, sizeof *ms, by_value);
}

/* ---- ceilings ---- */

static struct view take(struct bench *b, int32_t rows, int32_t cols)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = DT_F32};
    must(b->op->alloc(b->be, (size_t)rows * (size_t)cols * sizeof(float), MEM_DEVICE, &v.buf));
    return v;
}

static double time_recorded(struct bench *b)
{
    double ms[SAMPLES];
    struct graph *g;
    must(b->op->graph_end(b->be, &g));
    sample(b, g, NULL, ms);
    b->op->graph_free(b->be, g);
    return ms[b->samples / 2];
}

static void measure_memory(struct bench *b)
{
    int32_t cols = 1 << 16, rows = b->tiny ? 8 : 4096;
    struct view from = take(b, rows, cols), to = take(b, rows, cols);
    struct view out = take(b, 1, (int32_t)(read_ceiling_out_bytes(b->be) / sizeof(float)));
    double bytes = (double)rows * cols * sizeof(float);
    must(b->op->graph_begin(b->be));
    must(read_ceiling(b->be, from, out));
    b->read_gbs = bytes / time_recorded(b) / 1e6;
    must(b->op->graph_begin(b->be));
    must(b->op->copy(b->be, to, from));
    b->copy_gbs = 2 * bytes / time_recorded(b) / 1e6;
    b->op->free(b->be, from.buf);
    b->op->free(b->be, to.buf);
    b->op->free(b->be, out.buf);
}

/* Random numbers on both sides: zeros would be faster. */
static void measure_product(struct bench *b)
{
    int32_t n = b->tiny ? 64 : 8192;
    struct weight_src src = {.name = "product", .cols = n, .n_parts = 1, .n_slices = 1};
    struct weight *w;
    struct view x = take(b, n, n), out = take(b, n, n);
    float *host = malloc((size_t)n * (size_t)n * sizeof *host);
    uint64_t state = 7;
    if (!host)
        abort();
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        host[i] = (float)((int32_t)(state >> 40) - (1 << 23)) * 0x1p-23f;
    }
    must(b->op->write(b->be, x, host));
    free(host);
    src.slice_end[0] = n;
    src.part[0] = (struct weight_part){.data = "", .dtype = DT_BF16, .rows = n};
    must(b->op->load_weight(b->be, &src, &w));
    must(b->op->linear(b->be, w, x, out)); /* cuBLASLt is asked before the recording */
    must(b->op->sync(b->be));
    must(b->op->graph_begin(b->be));
    must(b->op->linear(b->be, w, x, out));
    b->gemm_tflops = 2.0 * n * n * n / time_recorded(b) / 1e9;
    b->op->free_weight(b->be, w);
    b->op->free(b->be, x.buf);
    b->op->free(b->be, out.buf);
}

static void open_backend(struct bench *b, enum numerics numerics, enum status *st)
{
    struct backend_config cfg = {.numerics = numerics, .activations = ACTIVATIONS_AUTO};
    *st = backend_open(&b->be, "cuda", &cfg);
    if (*st != ST_OK)
        return;
    random_weights(b->be);
    b->op = backend_ops_of(b->be);
    b->numerics = numerics;
}

static const char *numerics_name(const struct bench *b)
{
    return b->numerics == NUMERICS_FAST ? "fast" : "strict";
}

/* ---- steps ---- */

/* Bytes and operations of one step, from the shape alone. */
static double linear_params(const struct bench_shape *s)
{
    double q = (double)s->n_q * s->d_head, kv = (double)s->n_kv * s->d_head;
    return s->n_layers * (s->hidden * (2 * q + 2 * kv) + 3.0 * s->hidden * s->ffn);
}

static double step_bytes(const struct bench_shape *s, const struct measure *q)
{
    double weights = 2 * (linear_params(s) + (double)s->vocab * s->hidden);
    double kv = 2.0 * 2 * s->n_layers * s->n_kv * s->d_head * q->ctx * q->batch;
    return weights + kv;
}

static double step_flops(const struct bench_shape *s, const struct measure *q)
{
    double seen = q->prefill ? q->tokens / 2.0 : q->ctx; /* of the cache by a token, on average */
    return q->batch *
           (q->tokens * (2 * linear_params(s) + 4.0 * s->n_layers * s->n_q * s->d_head * seen) +
            2.0 * s->vocab * s->hidden);
}

static void report(struct bench *b, const struct measure *q, const double *ms, uint64_t kernels)
{
    const char *kind = q->prefill ? "prefill" : "decode", *mode = q->graph ? "graph" : "eager";
    double median = ms[b->samples / 2], bytes = step_bytes(b->shape, q);
    double flops = step_flops(b->shape, q), floor = bytes / b->copy_gbs / 1e6;
    double math = b->gemm_tflops > 0 ? flops / b->gemm_tflops / 1e9 : 0;
    double roofline = 100 * (math > floor ? math : floor) / median, copy = 100 * floor / median;
    double tok_s = q->batch * q->tokens / median * 1e3;
    double expected = q->expected_ms[b->i_shape][b->numerics == NUMERICS_FAST];
    char beside[32] = "-";
    if (expected > 0)
        snprintf(beside, sizeof beside, "%.2f", expected);
    printf("ingot  %-13s %-8s %-6s %-6s batch %-4d tokens %-5d ctx %-5d %9.3f ms (%.3f-%.3f; "
           "expected %s) %10.1f tok/s %5.1f %% of copy %5.1f %% of roofline, %llu kernels\n",
           b->shape->name, kind, mode, numerics_name(b), q->batch, q->tokens, q->ctx, median, ms[0],
           ms[b->samples - 1], beside, tok_s, copy, roofline, (unsigned long long)kernels);
    if (!b->json)
        return;
    fprintf(b->json,
            "%s\n  {\"engine\": \"ingot\", \"model\": \"%s\", \"kind\": \"%s\", \"numerics\": "
            "\"%s\", \"mode\": \"%s\", \"batch\": %d, \"tokens\": %d, \"ctx\": %d, \"ms\": %.4f, "
            "\"min_ms\": %.4f, \"max_ms\": %.4f, \"expected_ms\": %s, \"tok_s\": %.1f, "
            "\"bytes\": %.0f, \"flops\": %.0f, \"copy_pct\": %.1f, \"roofline_pct\": %.1f, "
            "\"kernels\": %llu}",
            b->sep, b->shape->name, kind, numerics_name(b), mode, q->batch, q->tokens, q->ctx,
            median, ms[0], ms[b->samples - 1], expected > 0 ? beside : "null", tok_s, bytes, flops,
            copy, roofline, (unsigned long long)kernels);
    b->sep = ",";
}

static void run_measure(struct bench *b, const struct measure *q)
{
    struct gpu_step *step = q->batch > 1 ? &b->wide : &b->deep;
    int32_t n = q->batch * q->tokens, past = q->prefill ? 0 : q->ctx - 1;
    int32_t *token = calloc((size_t)n, sizeof *token);
    struct graph *g = NULL;
    struct view logits;
    double ms[SAMPLES];
    if (!token)
        abort();
    for (int32_t i = 0; i < n; i++)
        token[i] = (int32_t)((uint32_t)i * 2654435761U % (uint32_t)b->shape->vocab);
    must(gpu_step_set(step, q->batch, q->tokens, past, past + q->tokens, token));
    must(decoder_forward(b->m, &step->dev, &logits)); /* prepares what is not recorded */
    must(b->op->sync(b->be));
    uint64_t before = b->be->n_launched;
    if (q->graph)
        must(b->op->graph_begin(b->be));
    must(decoder_forward(b->m, &step->dev, &logits));
    uint64_t kernels = b->be->n_launched - before;
    if (q->graph)
        must(b->op->graph_end(b->be, &g));
    sample(b, g, &step->dev, ms);
    report(b, q, ms, kernels);
    if (g)
        b->op->graph_free(b->be, g);
    free(token);
}

static void open_model(struct bench *b)
{
    int32_t max_batch = b->tiny ? 2 : 256, short_ctx = b->tiny ? 16 : 144;
    int32_t long_ctx = b->tiny ? 48 : 8192;
    int32_t wide = gpu_step_blocks(max_batch, short_ctx, BLOCK_LEN);
    int32_t deep = gpu_step_blocks(1, long_ctx, BLOCK_LEN);
    struct decoder_config cfg = {.world = 1,
                                 .max_tokens = long_ctx,
                                 .max_seqs = max_batch,
                                 .max_out = max_batch,
                                 .n_blocks = wide > deep ? wide : deep,
                                 .block_len = BLOCK_LEN,
                                 .max_ctx = long_ctx,
                                 .kv_dtype = DT_BF16};
    must(bench_shape_open(&b->ld, b->shape));
    must(decoder_open(&b->m, loader_config(b->ld), b->ld, b->be, NULL, &cfg));
    must(gpu_step_init(&b->wide, b->be, max_batch, max_batch, short_ctx, BLOCK_LEN));
    must(gpu_step_init(&b->deep, b->be, long_ctx, 1, long_ctx, BLOCK_LEN));
}

static void bench_model(struct bench *b, bool fast)
{
    const struct measure *all = b->tiny ? tiny_measures : measures;
    size_t n = b->tiny ? ARRAY_LEN(tiny_measures) : ARRAY_LEN(measures);
    struct backend_info info;
    open_model(b);
    b->op->info(b->be, &info);
    printf("# %s, %s: %.1f GB of the device's memory in use\n", b->shape->name, numerics_name(b),
           (double)(info.mem_total - info.mem_free) / 1e9);
    for (size_t i = 0; i < n; i++)
        if (!fast || all[i].fast_too)
            run_measure(b, &all[i]);
    gpu_step_fini(&b->wide);
    gpu_step_fini(&b->deep);
    decoder_close(b->m);
    loader_close(b->ld);
}

static void bench_numerics(struct bench *b, enum numerics numerics)
{
    const struct bench_shape *all = b->tiny ? bench_tiny_shapes : bench_shapes;
    size_t n = b->tiny ? n_bench_tiny_shapes : n_bench_shapes;
    enum status st;
    open_backend(b, numerics, &st);
    must(st);
    for (size_t i = 0; i < n; i++) {
        b->shape = &all[i];
        b->i_shape = (int)i;
        bench_model(b, numerics == NUMERICS_FAST);
    }
    b->op->close(b->be);
}

/* The ceilings; false: no cuBLASLt on this machine, so no fast numerics. */
static bool measure_ceilings(struct bench *b)
{
    struct backend_info info;
    enum status st;
    open_backend(b, NUMERICS_FAST, &st);
    bool fast = st == ST_OK;
    if (!fast) {
        printf("# no fast numerics: %s\n", status_detail());
        open_backend(b, NUMERICS_STRICT, &st);
        must(st);
    }
    b->op->info(b->be, &info);
    measure_memory(b);
    if (fast)
        measure_product(b);
    printf("# %s: read %.0f GB/s, copy %.0f GB/s, bf16 8192^3 %.0f TFLOP/s\n", info.device,
           b->read_gbs, b->copy_gbs, b->gemm_tflops);
    if (b->json)
        fprintf(b->json,
                "{\"engine\": \"ingot\", \"device\": \"%s\", \"ceilings\": {\"read_gbs\": %.6g, "
                "\"copy_gbs\": %.6g, \"gemm_tflops\": %.6g}, \"runs\": [",
                info.device, b->read_gbs, b->copy_gbs, b->gemm_tflops);
    b->op->close(b->be);
    return fast;
}

static void bench_ops(struct bench *b, const char *predicted)
{
    struct bench_rows_config cfg = {
        .tiny = b->tiny, .copy_gbs = b->copy_gbs, .predicted = predicted, .json = b->json};
    struct backend_config strict = {.numerics = NUMERICS_STRICT, .activations = ACTIVATIONS_AUTO};
    must(backend_open(&b->be, "cuda", &strict));
    must(bench_rows(b->be, &cfg));
    backend_ops_of(b->be)->close(b->be);
}

int main(int argc, char **argv)
{
    struct bench b = {.sep = "", .samples = SAMPLES, .warm_ups = WARM_UPS};
    const char *path = NULL, *predicted = NULL;
    bool rows = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tiny") == 0) {
            b.tiny = true;
            b.samples = 1;
            b.warm_ups = 0;
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            path = argv[++i];
        } else if (strcmp(argv[i], "--predicted") == 0 && i + 1 < argc) {
            predicted = argv[++i];
        } else if (strcmp(argv[i], "--rows") == 0) {
            rows = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            bench_rows_list();
            return 0;
        } else {
            fprintf(stderr, "usage: bench_gpu [--json FILE] [--tiny] [--rows [--predicted FILE]] | "
                            "--list\n");
            return 2;
        }
    }
    if (path && !(b.json = fopen(path, "w"))) {
        fprintf(stderr, "bench_gpu: cannot write %s\n", path);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool fast = measure_ceilings(&b);
    if (rows)
        bench_ops(&b, predicted);
    else
        bench_numerics(&b, NUMERICS_STRICT);
    if (fast && !rows)
        bench_numerics(&b, NUMERICS_FAST);
    if (b.json) {
        fprintf(b.json, "\n]}\n");
        if (fclose(b.json) != 0) {
            fprintf(stderr, "bench_gpu: cannot write %s\n", path);
            return 1;
        }
    }
    return 0;
}
