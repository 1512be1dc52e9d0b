/* Not a test: linear of the CUDA backend over the shapes of Llama-3.2-1B and 3.1-8B, bf16, strict
 * and fast, beside what the device reads and copies in the same run.
 *
 *   bench_linear           on GPU 0
 *   bench_linear --tiny    small shapes, for the emulator: shows that it runs; the times have no
 *                          meaning
 *
 * A sample is one recorded graph over several copies of the matrix, together larger than the L2
 * cache, so that every product reads its matrix from memory.  The median of SAMPLES is printed.
 * GB/s counts w, x and out once each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "gpu/read_ceiling.h"

enum { SAMPLES = 7, MAX_COPIES = 32 };

struct shape {
    const char *name;
    int32_t n, k, n_slices;
};

static const struct shape shapes[] = {
    {"1B qkv", 3072, 2048, 1},    {"1B out", 2048, 2048, 8},      {"1B gate+up", 16384, 2048, 1},
    {"1B down", 2048, 8192, 8},   {"1B head", 128256, 2048, 1},   {"8B qkv", 6144, 4096, 1},
    {"8B out", 4096, 4096, 8},    {"8B gate+up", 28672, 4096, 1}, {"8B down", 4096, 14336, 8},
    {"8B head", 128256, 4096, 1},
};
static const struct shape tiny_shapes[] = {{"tiny", 48, 300, 1}, {"tiny slices", 40, 512, 8}};
static const int32_t batches[] = {1, 4, 16, 64, 256, 2048};

struct bench {
    struct backend *be;
    const struct backend_ops *ops;
    size_t reuse_bytes; /* copies of a matrix are together larger than this */
    bool tiny;
    double read_gbs;
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_linear: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

static struct view take(struct bench *b, int32_t rows, int32_t cols)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = DT_F32};
    must(b->ops->alloc(b->be, (size_t)rows * (size_t)cols * sizeof(float), MEM_DEVICE, &v.buf));
    return v;
}

/* Bits of a linear congruential generator. */
static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Values in +-[2^-6, 2^-5): nothing is zero, sums stay small. */
static uint16_t random_bf16(uint64_t *state)
{
    uint32_t r = next(state);
    return (uint16_t)(0x3c80U | (r & 0x7fU) | (r & 0x80U) << 8);
}

static struct view random_rows(struct bench *b, int32_t rows, int32_t cols)
{
    struct view v = take(b, rows, cols);
    size_t n = (size_t)rows * (size_t)cols;
    float *host = malloc(n * sizeof *host);
    uint64_t state = 7;
    for (size_t i = 0; i < n; i++)
        host[i] = f32_of_bf16(random_bf16(&state));
    must(b->ops->write(b->be, v, host));
    must(b->ops->sync(b->be));
    free(host);
    return v;
}

/* Rows overlap in host memory, 514 bytes apart, so that a matrix of 1 GB needs 66 MB there. */
static struct weight *load(struct bench *b, const struct shape *s)
{
    enum { ROW_BYTES = 514 };
    size_t n = (size_t)s->n * ROW_BYTES / 2 + (size_t)s->k;
    uint16_t *host = malloc(n * sizeof *host);
    uint64_t state = 11;
    struct weight *w;
    struct weight_src src = {.name = s->name, .cols = s->k, .n_parts = 1, .n_slices = s->n_slices};
    for (size_t i = 0; i < n; i++)
        host[i] = random_bf16(&state);
    for (int i = 0; i < s->n_slices; i++)
        src.slice_end[i] = (int32_t)((int64_t)s->k * (i + 1) / s->n_slices);
    src.part[0] =
        (struct weight_part){.data = host, .row_bytes = ROW_BYTES, .dtype = DT_BF16, .rows = s->n};
    must(b->ops->load_weight(b->be, &src, &w));
    must(b->ops->sync(b->be));
    free(host);
    return w;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median nanoseconds of one launch; one more comes first. */
static double time_graph(struct bench *b, struct graph *g)
{
    double ns[SAMPLES];
    must(b->ops->graph_launch(b->be, g));
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t t;
        must(b->ops->event_mark(b->be, 0));
        must(b->ops->graph_launch(b->be, g));
        must(b->ops->event_mark(b->be, 1));
        must(b->ops->event_elapsed(b->be, 0, 1, &t));
        ns[i] = (double)t;
    }
    qsort(ns, SAMPLES, sizeof *ns, by_value);
    return ns[SAMPLES / 2];
}

/* Nanoseconds of one product. */
static double time_linear(struct bench *b, struct weight *const *w, int n, struct view x,
                          struct view out)
{
    struct graph *g;
    must(b->ops->linear(b->be, w[0], x, out)); /* fast: asks cuBLASLt now, not while recording */
    must(b->ops->graph_begin(b->be));
    for (int i = 0; i < n; i++)
        must(b->ops->linear(b->be, w[i], x, out));
    must(b->ops->graph_end(b->be, &g));
    double ns = time_graph(b, g) / n;
    b->ops->graph_free(b->be, g);
    return ns;
}

static void bench_shape(struct bench *b, const struct shape *s, const char *numerics)
{
    struct weight *w[MAX_COPIES];
    size_t bytes = (size_t)s->n * (size_t)s->k * 2;
    int n = 0;
    while (n < MAX_COPIES && (n == 0 || (size_t)n * bytes < b->reuse_bytes))
        w[n++] = load(b, s);
    for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
        int32_t m = batches[i];
        if (m > (b->tiny ? 64 : s->n > 100000 ? 256 : INT32_MAX))
            continue; /* a head: a prompt wants the logits of its last token only */
        struct view x = random_rows(b, m, s->k), out = take(b, m, s->n);
        double ns = time_linear(b, w, n, x, out);
        double moved = (double)bytes + ((double)s->k + s->n) * m * sizeof(float);
        printf("%-12s %6d x %-6d M %-5d %-6s %9.1f us %8.0f GB/s %4.0f %% of read %8.1f TFLOP/s\n",
               s->name, s->n, s->k, m, numerics, ns / 1e3, moved / ns,
               100 * moved / ns / b->read_gbs, 2.0 * s->n * s->k * m / ns / 1e3);
        b->ops->free(b->be, x.buf);
        b->ops->free(b->be, out.buf);
    }
    while (n > 0)
        b->ops->free_weight(b->be, w[--n]);
}

/* What the device reads and copies, from memory beyond its caches. */
static void measure_ceilings(struct bench *b)
{
    int32_t cols = 1 << 16, rows = b->tiny ? 8 : 4096; /* 1 GiB */
    struct view from = take(b, rows, cols), to = take(b, rows, cols), out;
    double bytes = (double)rows * cols * sizeof(float);
    struct graph *g;
    out = take(b, 1, (int32_t)(read_ceiling_out_bytes(b->be) / sizeof(float)));
    must(b->ops->graph_begin(b->be));
    must(read_ceiling(b->be, from, out));
    must(b->ops->graph_end(b->be, &g));
    b->read_gbs = bytes / time_graph(b, g);
    b->ops->graph_free(b->be, g);
    must(b->ops->graph_begin(b->be));
    must(b->ops->copy(b->be, to, from));
    must(b->ops->graph_end(b->be, &g));
    printf("memory: read %.0f GB/s, copy %.0f GB/s (read + written)\n", b->read_gbs,
           2 * bytes / time_graph(b, g));
    b->ops->graph_free(b->be, g);
    struct view views[] = {from, to, out};
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        b->ops->free(b->be, views[i].buf);
}

static void run(bool tiny, enum numerics numerics)
{
    struct bench b = {.tiny = tiny, .reuse_bytes = tiny ? 1 : (size_t)256 << 20};
    struct backend_config cfg = {.numerics = numerics};
    struct backend_info info;
    const struct shape *all = tiny ? tiny_shapes : shapes;
    size_t n = tiny ? ARRAY_LEN(tiny_shapes) : ARRAY_LEN(shapes);
    enum status st = backend_open(&b.be, "cuda", &cfg);
    if (st == ST_UNSUPPORTED && numerics == NUMERICS_FAST) {
        printf("no fast numerics: %s\n", status_detail());
        return;
    }
    must(st);
    b.ops = backend_ops_of(b.be);
    b.ops->info(b.be, &info);
    printf("%s\n", info.device);
    measure_ceilings(&b);
    for (size_t i = 0; i < n; i++)
        bench_shape(&b, &all[i], numerics == NUMERICS_FAST ? "fast" : "strict");
    b.ops->close(b.be);
}

int main(int argc, char **argv)
{
    bool tiny = argc == 2 && strcmp(argv[1], "--tiny") == 0;
    if (argc > 1 && !tiny) {
        fprintf(stderr, "usage: bench_linear [--tiny]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    run(tiny, NUMERICS_STRICT);
    run(tiny, NUMERICS_FAST);
    return 0;
}
