/* A sparse feed-forward layer of Qwen3-30B-A3B's sizes (D 2048, F 768, 8 experts a token) beside
 * the machine's limits and beside a dense layer of the same active weights, in the same run.
 *   bench_moe [TYPE [ISA [THREADS]]]     TYPE bf16 (default), q8_0, q4_0, q4_k, ...
 * Tokens choose their experts evenly at random, which is the worst case for reading: a trained
 * router is less even.  Bytes are those of the weight file; each expert that a step uses counts
 * once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "bench/ceilings.h"
#include "common/quant.h"

enum { D = 2048, F = 768, E = 64, K = 8, MAX_T = 512, TRIES = 7 };

struct bench {
    struct backend *be;
    const struct backend_ops *ops;
    struct ceilings top;
    enum dtype type;
    char *data;                  /* of any matrix of D x F elements */
    size_t row_d, row_f, matrix; /* bytes of a row of D, of F elements; of D x F */
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_moe: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

static struct view new_view(struct bench *b, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    size_t n = (size_t)rows * (size_t)cols;
    must(b->ops->alloc(b->be, n * 4, MEM_DEVICE, &v.buf));
    float *x = calloc(n + 1, sizeof *x);
    for (size_t i = 0; t == DT_F32 && i < n; i++)
        x[i] = (float)((i * 2654435761U >> 8) & 0xffff) * 0x1p-16f - 0.5f;
    must(b->ops->write(b->be, v, x));
    free(x);
    return v;
}

static size_t row_bytes(enum dtype t, size_t n)
{
    const struct quant_form *f = quant_form(t);
    return f ? n / (size_t)f->block * (size_t)f->n_bytes : n * dtype_size(t);
}

/* Bytes that are numbers of moderate size in every type: half floats about 2^-7, any integers. */
static void fill(struct bench *b)
{
    b->row_d = row_bytes(b->type, D);
    b->row_f = row_bytes(b->type, F);
    b->matrix = b->row_d * F;
    b->data = malloc(b->matrix * K);
    unsigned high = quant_form(b->type) ? 0x20 : 0x3c;
    for (size_t i = 0; b->data && i < b->matrix * K; i++)
        b->data[i] = (char)(i % 2 ? high : (unsigned)i * 2654435761U >> 13);
}

static struct weight_part part_of(const struct bench *b, int32_t rows, size_t row)
{
    return (struct weight_part){.data = b->data, .row_bytes = row, .dtype = b->type, .rows = rows};
}

/* n experts' columns side by side: one expert, or the dense layer. */
static struct weight_src gate_up_of(const struct bench *b, int32_t n)
{
    struct weight_part p = part_of(b, n * F, b->row_d);
    return (struct weight_src){.name = "gate and up",
                               .cols = D,
                               .n_parts = 2,
                               .part = {p, p},
                               .n_slices = 1,
                               .slice_end = {D}};
}

static struct weight_src down_of(const struct bench *b, int32_t n)
{
    struct weight_src src = {.name = "down", .cols = n * F, .n_parts = 1, .n_slices = N_SLICES};
    const struct quant_form *f = quant_form(b->type);
    int32_t unit = f ? f->block : 1;
    src.part[0] = part_of(b, D, (size_t)n * b->row_f);
    for (int32_t i = 0; i < N_SLICES; i++)
        src.slice_end[i] = n * F / unit * (i + 1) / N_SLICES * unit;
    return src;
}

/* Distinct experts for every token; returns how many are used at all. */
static int choose(int32_t *ids, int32_t T)
{
    bool used[E] = {false};
    int n = 0;
    uint32_t rng = 12345;
    for (int32_t t = 0; t < T; t++)
        for (int32_t i = 0; i < K;) {
            rng = rng * 1664525U + 1013904223U;
            int32_t e = (int32_t)(rng >> 16) % E, k = 0;
            while (k < i && ids[t * K + k] != e)
                k++;
            if (k < i)
                continue;
            ids[t * K + i++] = e;
            n += !used[e];
            used[e] = true;
        }
    return n;
}

static void report(const struct bench *b, const char *what, int32_t T, double ns, double bytes)
{
    double gbs = bytes / ns, gflops = 6.0 * D * F * K * T / ns;
    printf("%-7s T %4d %10.1f us %8.2f GB/s %4.0f %% of reading %9.1f GFLOP/s\n", what, T,
           ns * 1e-3, gbs, gbs / b->top.read_gbs * 100, gflops);
}

/* Several layers, so that no cache holds their weights, unless a step uses most experts anyway. */
static double run_sparse(struct bench *b, const struct moe_layer *ml, int32_t T, int *n_used)
{
    static int32_t ids[MAX_T * K];
    struct view x = new_view(b, T, D, DT_F32), out = new_view(b, T, D, DT_F32);
    struct view weights = new_view(b, T, K, DT_F32), vi = new_view(b, T, K, DT_I32);
    int32_t floats = (int32_t)(b->ops->moe_scratch(b->be, ml, T) / sizeof(float));
    struct view scratch = new_view(b, 1, floats, DT_F32);
    double best = INFINITY;
    *n_used = choose(ids, T);
    for (int try = 0; try < TRIES; try++) {
        int rounds = T == 1 ? E / K : 1;
        uint64_t ns = 0;
        for (int r = 0; r < rounds; r++) { /* one token: other experts each time */
            for (int32_t i = 0; T == 1 && i < K; i++)
                ids[i] = r * K + i;
            must(b->ops->write(b->be, vi, ids));
            uint64_t t0 = bench_now_ns();
            must(b->ops->moe_ffn(b->be, ml, x, vi, weights, scratch, out));
            ns += bench_now_ns() - t0;
        }
        best = fmin(best, (double)ns / rounds);
    }
    struct buf *bufs[] = {x.buf, out.buf, weights.buf, vi.buf, scratch.buf};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        b->ops->free(b->be, bufs[i]);
    return best;
}

static double run_dense(struct bench *b, struct weight **w, int copies, int32_t T)
{
    struct view x = new_view(b, T, D, DT_F32), out = new_view(b, T, D, DT_F32);
    struct view mid = new_view(b, T, 2 * K * F, DT_F32), h = new_view(b, T, K * F, DT_F32);
    double best = INFINITY;
    for (int try = 0; try < TRIES; try++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < copies; i++) {
            must(b->ops->linear(b->be, w[2 * i], x, mid));
            must(b->ops->act_mul(b->be, ACT_SILU, mid, h));
            must(b->ops->linear(b->be, w[2 * i + 1], h, out));
        }
        best = fmin(best, (double)(bench_now_ns() - t0) / copies);
    }
    struct buf *bufs[] = {x.buf, out.buf, mid.buf, h.buf};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        b->ops->free(b->be, bufs[i]);
    return best;
}

static bool find_type(const char *name, enum dtype *out)
{
    for (int t = 0; t < DT_N; t++) {
        *out = (enum dtype)t;
        bool matrix = *out == DT_F32 || *out == DT_F16 || *out == DT_BF16 || quant_form(*out);
        if (matrix && strcmp(dtype_name(*out), name) == 0)
            return true;
    }
    return false;
}

static int usage(int rc)
{
    fputs("usage: bench_moe [TYPE [ISA [THREADS]]]\n"
          "TYPE of the weights: bf16 (default), f16, f32, q8_0, q4_0, q4_k, ...; ISA: auto or an "
          "instruction\n"
          "set's name, as bench_step --help lists them; THREADS: 0 shares the processors.  Each "
          "line: tokens\n"
          "of a step, time, bytes of the experts that it uses in a second and their share of the "
          "memory's\n"
          "limit; dense: a layer of the same active weights.\n",
          rc ? stderr : stdout);
    return rc;
}

int main(int argc, char **argv)
{
    enum { COPIES = 4 };
    static const int32_t steps[] = {1, 4, 16, 64, MAX_T};
    struct bench b = {.type = DT_BF16};
    struct backend_config cfg = {.isa = argc > 2 ? argv[2] : "auto",
                                 .threads = argc > 3 ? atoi(argv[3]) : 0};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(0);
    if (argc > 1 && !find_type(argv[1], &b.type))
        return usage(2);
    must(backend_open(&b.be, "cpu", &cfg));
    b.ops = backend_ops_of(b.be);
    fill(&b);
    struct backend_info info;
    b.ops->info(b.be, &info);
    const char *comma = strrchr(info.device, ',');
    bool avx512 = strstr(info.device, "amx") || strstr(info.device, "avx512");
    b.top = ceilings_measure(comma ? atoi(comma + 1) : 1, avx512 ? "avx512" : "plain");
    printf("%s, %s: reading %.2f GB/s\n", info.device, dtype_name(b.type), b.top.read_gbs);

    struct weight_src gate_up[E], down[E], src;
    struct weight *stack[2], *dense[2 * COPIES];
    for (int32_t e = 0; e < E; e++) {
        gate_up[e] = gate_up_of(&b, 1);
        down[e] = down_of(&b, 1);
    }
    must(b.ops->load_stack(b.be, gate_up, E, &stack[0]));
    must(b.ops->load_stack(b.be, down, E, &stack[1]));
    for (int i = 0; i < COPIES; i++) {
        src = gate_up_of(&b, K);
        must(b.ops->load_weight(b.be, &src, &dense[2 * i]));
        src = down_of(&b, K);
        must(b.ops->load_weight(b.be, &src, &dense[2 * i + 1]));
    }
    struct moe_layer ml = {.n_experts = E,
                           .top_k = K,
                           .hidden = D,
                           .ffn = F,
                           .scale = 1,
                           .act = ACT_SILU,
                           .gate_up = stack[0],
                           .down = stack[1]};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int n_used;
        double ns = run_sparse(&b, &ml, steps[i], &n_used);
        report(&b, "sparse", steps[i], ns, 3.0 * (double)b.matrix * n_used);
        ns = run_dense(&b, dense, COPIES, steps[i]);
        report(&b, "dense", steps[i], ns, 3.0 * (double)b.matrix * K);
    }
    b.ops->free_weight(b.be, stack[0]);
    b.ops->free_weight(b.be, stack[1]);
    for (int i = 0; i < 2 * COPIES; i++)
        b.ops->free_weight(b.be, dense[i]);
    free(b.data);
    b.ops->close(b.be);
    return 0;
}
