/* How close the CPU backend's ops come to the machine's limits, measured in the same run.
 *   bench_ops [ISA [THREADS [cpu-time] [f32] [read-ahead] [WORD]]]
 * Only lines that contain WORD.  f32: activations meet BF16 weights as they are.  read-ahead: one row
 * with each of eight patterns of read_ahead.h in turns, instead of everything else.
 * Bytes and operations are counted here, from the shapes: weights read once a call; a multiply-add
 * is 2. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/cpu/cpu_backend.h"
#include "bench/ceilings.h"
#include "quant_blocks.h"

enum { MAX_COPIES = 64, TRIES = 9, CACHED_N = 256, CACHED_CALLS = 200 };

struct bench {
    struct backend *be;
    const struct backend_ops *ops;
    struct ceilings top;
    const char *only; /* NULL: everything */
    bool patterns;    /* read-ahead */
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_ops: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

static struct view new_view(struct bench *b, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    size_t bytes = (size_t)rows * (size_t)cols * dtype_size(t);
    must(b->ops->alloc(b->be, bytes, MEM_DEVICE, &v.buf));
    char *data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes / 4; i++) {
        float f = (float)((i * 2654435761U >> 8) & 0xffff) * 0x1p-16f - 0.5f;
        memcpy(data + 4 * i, &f, 4);
    }
    if (t != DT_F32) /* any bits with a small exponent */
        for (size_t i = 0; i < bytes / 2; i++) {
            uint16_t h = (uint16_t)(0x3000U | ((i * 40503U) & 0x83ffU));
            memcpy(data + 2 * i, &h, 2);
        }
    must(b->ops->write(b->be, v, data));
    free(data);
    return v;
}

static void *random_rows(size_t n, enum dtype t)
{
    if (quant_form(t))
        return quant_random_blocks(t, n, 0.01f, 1);
    char *data = malloc(n * (is_sorted(t) ? 1 : dtype_size(t)));
    for (size_t i = 0; is_sorted(t) && i < n; i++)
        data[i] = (char)(i * 2654435761U >> 8 & 15);
    if (is_sorted(t))
        return data;
    for (size_t i = 0; i < n; i++) {
        float f = (float)((i * 2654435761U >> 8) & 0xffff) * 0x1p-16f - 0.5f;
        uint16_t h = t == DT_F16 ? f16_of_f32(f) : bf16_of_f32(f);
        memcpy(data + i * dtype_size(t), t == DT_F32 ? (void *)&f : (void *)&h, dtype_size(t));
    }
    return data;
}

/* Columns of groups of SORTED_GROUP in any order, and, where K is long, row-parallel ones. */
enum { SORTED_GROUP = 128, MAX_K = 8192 };
static struct weight_src sorted_source(const void *data, int32_t n, int32_t k, enum dtype t)
{
    static uint16_t index[MAX_K];
    static float scale[8192 * (MAX_K / SORTED_GROUP)];
    static int8_t zero[sizeof scale / sizeof scale[0]];
    uint32_t rng = 1;
    for (int32_t i = 0; i < k; i++)
        index[i] = (uint16_t)(i / SORTED_GROUP);
    for (int32_t i = k - 1; i > 0; i--) {
        rng = rng * 1664525U + 1013904223U;
        int32_t j = (int32_t)((rng >> 8) % (uint32_t)(i + 1));
        uint16_t own = index[i];
        index[i] = index[j];
        index[j] = own;
    }
    for (size_t i = 0; i < ARRAY_LEN(scale); i++) {
        scale[i] = 0.01f;
        zero[i] = 8;
    }
    struct weight_src src = {.name = "bench",
                             .cols = k,
                             .n_parts = 1,
                             .part = {{.data = data,
                                       .row_bytes = (size_t)k,
                                       .dtype = t,
                                       .rows = n,
                                       .index = index,
                                       .scale = scale,
                                       .zero = zero,
                                       .scale_stride = (size_t)(k / SORTED_GROUP)}},
                             .n_slices = k == MAX_K ? N_SLICES : 1,
                             .slice_end = {k}};
    for (int i = 0; i < src.n_slices; i++)
        src.slice_end[i] = k / src.n_slices * (i + 1);
    return src;
}

static struct weight_src source(const void *data, int32_t n, int32_t k, enum dtype t)
{
    if (is_sorted(t))
        return sorted_source(data, n, k, t);
    const struct quant_form *f = quant_form(t);
    size_t row = f ? (size_t)(k / f->block) * (size_t)f->n_bytes : (size_t)k * dtype_size(t);
    return (struct weight_src){.name = "bench",
                               .cols = k,
                               .n_parts = 1,
                               .part = {{.data = data, .row_bytes = row, .dtype = t, .rows = n}},
                               .n_slices = 1,
                               .slice_end = {k}};
}

/* bytes and flops of one call; the smaller limit is the one that binds */
static void report(const struct bench *b, const char *what, double ns, double bytes, double flops,
                   double top_flops)
{
    double gbs = bytes / ns, gflops = flops / ns;
    double of_mem = gbs / b->top.read_gbs, of_top = gflops / top_flops;
    printf("%-44s %9.1f us %8.2f GB/s %4.0f %% %9.1f GFLOP/s %4.0f %%\n", what, ns * 1e-3, gbs,
           of_mem * 100, gflops, of_top * 100);
}

static bool wanted(const struct bench *b, const char *what)
{
    return !b->only || strstr(what, b->only);
}

/* Compared on each processor that gets a row in read_ahead.c; the first is the default's. */
static const struct read_ahead patterns[] = {{24 << 10, 3, 3}, {24 << 10, 8, 8}, {8 << 10, 3, 3},
                                             {8 << 10, 8, 8},  {4 << 10, 8, 8},  {2 << 10, 8, 8},
                                             {1 << 10, 8, 8},  {0, 0, 8}};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_patterns(const char *device)
{
    printf("%s\nGB/s; KiB ahead/eighths of a page, 8: every line, 0: none:\n%-36s", device, "");
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        printf("      %2d/%d", (int)patterns[i].bytes >> 10, patterns[i].eighths);
    puts("");
}

/* Medians over turns in which all patterns run, so that a neighbour of the machine slows all. */
static void compare_patterns(struct bench *b, const char *what, struct weight *const *w, int copies,
                             size_t bytes, struct view x, struct view out)
{
    enum { N = ARRAY_LEN(patterns), TURNS = 21 };
    double gbs[N][TURNS];
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < N; i++) {
            b->be->read = patterns[i];
            uint64_t t0 = bench_now_ns();
            for (int c = 0; c < copies; c++)
                must(b->ops->linear(b->be, w[c], x, out));
            gbs[i][turn] = (double)bytes * copies / (double)(bench_now_ns() - t0);
        }
    printf("%-36s", what);
    for (int i = 0; i < N; i++) {
        qsort(gbs[i], TURNS, sizeof gbs[i][0], by_value);
        printf(" %9.1f", gbs[i][TURNS / 2]);
    }
    puts("");
}

/* Enough copies of the weight that a pass reads 512 MiB, so that no cache holds them; n <= CACHED_N:
 * one copy, which stays in the caches over the calls of a pass. */
static void bench_linear(struct bench *b, int32_t m, int32_t n, int32_t k, enum dtype t)
{
    char what[80];
    bool cached = n <= CACHED_N;
    snprintf(what, sizeof what, "linear M %d N %d K %d %s%s", m, n, k, dtype_name(t),
             cached ? " cached" : "");
    if (!wanted(b, what))
        return;
    struct weight *w[MAX_COPIES];
    void *data = random_rows((size_t)n * (size_t)k, t);
    struct weight_src src = source(data, n, k, t);
    size_t bytes = b->ops->weight_bytes(b->be, &src);
    int copies = m >= 64 || cached ? 1 : (int)(((size_t)512 << 20) / bytes) + 1;
    int calls = cached ? CACHED_CALLS : 1;
    copies = copies < MAX_COPIES ? copies : MAX_COPIES;
    for (int i = 0; i < copies; i++)
        must(b->ops->load_weight(b->be, &src, &w[i]));
    free(data);
    struct view x = new_view(b, m, k, DT_F32), out = new_view(b, m, n, DT_F32);
    double best = INFINITY;
    if (b->patterns)
        compare_patterns(b, what, w, copies, bytes, x, out);
    for (int try = 0; try < TRIES && !b->patterns; try++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < copies * calls; i++)
            must(b->ops->linear(b->be, w[i % copies], x, out));
        best = fmin(best, (double)(bench_now_ns() - t0) / (copies * calls));
    }
    if (!b->patterns)
        report(b, what, best, (double)bytes, 2.0 * m * n * k,
               quant_form(t) || is_sorted(t) ? b->top.int8_gops : b->top.fma_gflops);
    for (int i = 0; i < copies; i++)
        b->ops->free_weight(b->be, w[i]);
    b->ops->free(b->be, x.buf);
    b->ops->free(b->be, out.buf);
}

/* Rows of a file to panels, on the backend's threads: what a cold start does. */
static void bench_pack(struct bench *b, int32_t n, int32_t k, enum dtype t)
{
    char what[80];
    snprintf(what, sizeof what, "pack N %d K %d %s", n, k, dtype_name(t));
    if (!wanted(b, what))
        return;
    void *data = random_rows((size_t)n * (size_t)k, t);
    struct weight_src src = source(data, n, k, t);
    double best = INFINITY;
    for (int try = 0; try < TRIES; try++) {
        struct weight *w;
        uint64_t t0 = bench_now_ns();
        must(b->ops->load_weight(b->be, &src, &w));
        best = fmin(best, (double)(bench_now_ns() - t0));
        b->ops->free_weight(b->be, w);
    }
    free(data);
    report(b, what, best, (double)n * (double)src.part[0].row_bytes, 0, b->top.fma_gflops);
}

static void bench_rows(struct bench *b, int32_t t, int32_t cols)
{
    char what[80];
    snprintf(what, sizeof what, "act_mul silu T %d F %d", t, cols);
    if (!wanted(b, what))
        return;
    struct view x = new_view(b, t, 2 * cols, DT_F32), out = new_view(b, t, cols, DT_F32);
    double best = INFINITY;
    for (int try = 0; try < 50; try++) {
        uint64_t t0 = bench_now_ns();
        must(b->ops->act_mul(b->be, ACT_SILU, x, out));
        best = fmin(best, (double)(bench_now_ns() - t0));
    }
    report(b, what, best, (double)t * cols * 12, 0, b->top.fma_gflops);
    b->ops->free(b->be, x.buf);
    b->ops->free(b->be, out.buf);
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        puts("usage: bench_ops [ISA [THREADS [cpu-time] [f32] [read-ahead] [WORD]]]\n"
             "ISA: auto or an instruction set's name, as bench_step --help lists them; THREADS: 0 "
             "shares\n"
             "the processors.  Each line: time, share of the memory's and of the arithmetic's "
             "limit.\nread-ahead: GB/s of one row with eight patterns of reading ahead instead.");
        return strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ? 0 : 2;
    }
    struct backend_config cfg = {.isa = argc > 1 ? argv[1] : "auto",
                                 .threads = argc > 2 ? atoi(argv[2]) : 0,
                                 .activations = ACTIVATIONS_AUTO};
    struct bench b = {0};
    struct backend_info info;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line as soon as it is known, also into a pipe */
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "f32") == 0)
            cfg.activations = ACTIVATIONS_F32;
    must(backend_open(&b.be, "cpu", &cfg));
    b.ops = backend_ops_of(b.be);
    b.ops->info(b.be, &info);
    const char *comma = strrchr(info.device, ',');
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "cpu-time") == 0)
            bench_use_cpu_time();
        else if (strcmp(argv[i], "read-ahead") == 0)
            b.patterns = true;
        else if (strcmp(argv[i], "f32") != 0)
            b.only = argv[i];
    }
    const char *isa = strstr(info.device, "amx")      ? "amx"
                      : strstr(info.device, "avx512") ? "avx512"
                      : strstr(info.device, "avx")    ? "avx2"
                                                      : "";
    if (!b.patterns)
        b.top = ceilings_measure(comma ? atoi(comma + 1) : 1, isa);
    if (b.patterns)
        print_patterns(info.device);
    else
        printf(
            "%s\nmemory read %.1f GB/s, fp32 FMA %.0f GFLOP/s, int8 %.0f GOP/s (best of several)\n",
            info.device, b.top.read_gbs, b.top.fma_gflops, b.top.int8_gops);
    const enum dtype types[] = {DT_Q8_0, DT_Q4_0, DT_Q4_K,   DT_Q6_K,  DT_Q5_K,
                                DT_Q2_K, DT_Q3_K, DT_IQ4_XS, DT_MXFP4, DT_INT4_SORTED,
                                DT_BF16, DT_F16,  DT_F32};
    const int32_t several[] = {2, 3, 4, 6, 8, 16, 32, 64}; /* rows */
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        bench_linear(&b, 1, 8192, 2048, types[i]);
        if (b.patterns)
            continue;
        bench_pack(&b, 8192, 2048, types[i]);
        bench_linear(&b, 1, CACHED_N, 2048, types[i]);
        if (types[i] == DT_Q4_0 || is_sorted(types[i])) {
            bench_linear(&b, 1, CACHED_N / 2, 8192, types[i]);
            bench_linear(&b, 256, CACHED_N, 2048, types[i]);
            bench_linear(&b, 256, CACHED_N / 2, 8192, types[i]);
        }
        bench_linear(&b, 1, 2048, 8192, types[i]);
        for (size_t j = 0; j < ARRAY_LEN(several) && (quant_form(types[i]) || types[i] == DT_BF16);
             j++)
            bench_linear(&b, several[j], 8192, 2048, types[i]);
        bench_linear(&b, 512, 8192, 2048, types[i]);
        bench_linear(&b, 512, 2048, 8192, types[i]);
    }
    if (b.patterns) {
        b.ops->close(b.be);
        return 0;
    }
    bench_rows(&b, 512, 8192);
    bench_rows(&b, 1, 8192);
    b.ops->close(b.be);
    return 0;
}
