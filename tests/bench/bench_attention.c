/* How close attention over the KV cache comes to the machine's limits, measured in the same run.
 *   bench_attention [ISA [THREADS [decode|hot|prefill|small] [cpu-time]]]
 *   decode   one token over a long context, all layers' KV larger than the processor's caches;
 *            bound by memory
 *   hot      the same with KV in the processor's caches; bound by arithmetic
 *   prefill  a chunk of 512 tokens; bound by arithmetic
 *   small    many short sequences of a tiny model; bound by overhead
 *   cpu-time the processor time of one thread, for a machine with other work (hot, prefill) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "bench/ceilings.h"

enum { MAX_LAYERS = 64, TRIES = 9, BLOCK = 16 };

struct bench {
    struct backend *be;
    const struct backend_ops *ops;
    struct ceilings top;
};

struct shape {
    int32_t n_q, n_kv, d;
    int32_t seqs, t, kv; /* sequences, new tokens and keys of each */
    enum dtype dtype;
    bool hot; /* one layer again and again: the cache lies in the processor's */
};

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_attention: %s: %s\n", status_name(st), status_detail());
    exit(1);
}

static struct view new_view(struct bench *b, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    must(b->ops->alloc(b->be, (size_t)rows * (size_t)cols * dtype_size(t), MEM_DEVICE, &v.buf));
    return v;
}

/* Numbers of moderate size in any type. */
static struct view new_random(struct bench *b, int32_t rows, int32_t cols, enum dtype t)
{
    struct view v = new_view(b, rows, cols, t);
    size_t n = (size_t)rows * (size_t)cols;
    char *data = malloc(n * 4);
    for (size_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)(i * 2654435761U) >> 8;
        float f = (float)(r & 0xffff) * 0x1p-16f - 0.5f;
        uint16_t h = t == DT_F16 ? f16_of_f32(f) : bf16_of_f32(f);
        uint8_t byte = (uint8_t)(r & 0xbfU); /* e4m3 below 2 */
        memcpy(data + i * dtype_size(t),
               t == DT_F32          ? (void *)&f
               : dtype_size(t) == 2 ? (void *)&h
                                    : (void *)&byte,
               dtype_size(t));
    }
    must(b->ops->write(b->be, v, data));
    free(data);
    return v;
}

static struct view new_ints(struct bench *b, int32_t rows, int32_t cols, const int32_t *data)
{
    struct view v = new_view(b, rows, cols, DT_I32);
    must(b->ops->write(b->be, v, data));
    return v;
}

static struct step_dev new_step(struct bench *b, const struct shape *s)
{
    int32_t n = s->seqs * s->t, per = (s->kv + BLOCK - 1) / BLOCK;
    size_t most = (size_t)(n + s->seqs * per + s->seqs + 1);
    int32_t *pos = malloc(most * 4), *start = malloc(most * 4), *len = malloc(most * 4),
            *table = malloc(most * 4);
    for (int32_t i = 0; i < n; i++)
        pos[i] = s->kv - s->t + i % s->t;
    for (int32_t i = 0; i <= s->seqs; i++) {
        start[i] = i * s->t;
        len[i] = s->kv;
    }
    for (int32_t i = 0; i < s->seqs * per; i++)
        table[i] = i;
    struct step_dev st = {.n_tokens = n,
                          .n_seqs = s->seqs,
                          .max_q = s->t,
                          .max_kv = s->kv,
                          .block_len = BLOCK,
                          .pos = new_ints(b, n, 1, pos),
                          .q_start = new_ints(b, s->seqs + 1, 1, start),
                          .kv_len = new_ints(b, s->seqs, 1, len),
                          .block_table = new_ints(b, s->seqs, per, table)};
    free(pos);
    free(start);
    free(len);
    free(table);
    return st;
}

static struct kv_layer new_layer(struct bench *b, const struct shape *s, int32_t rows)
{
    struct kv_layer l = {.k = new_random(b, rows, s->n_kv * s->d, s->dtype),
                         .v = new_random(b, rows, s->n_kv * s->d, s->dtype)};
    if (s->dtype == DT_I8 || s->dtype == DT_E4M3) {
        l.k_scale = new_random(b, rows, s->n_kv, DT_F32);
        l.v_scale = new_random(b, rows, s->n_kv, DT_F32);
    }
    return l;
}

/* Bytes of the cache that one call must read. */
static double cache_bytes(const struct shape *s)
{
    bool scaled = s->dtype == DT_I8 || s->dtype == DT_E4M3;
    double head = (double)s->d * (double)dtype_size(s->dtype) + (scaled ? 4 : 0);
    return 2.0 * s->seqs * s->kv * s->n_kv * head;
}

/* Best of TRIES passes over layers enough for 256 MiB of cache, when the limit is memory. */
static void measure(struct bench *b, struct shape s)
{
    struct kv_layer layer[MAX_LAYERS];
    struct attn_layer al = {.n_q = s.n_q,
                            .n_kv = s.n_kv,
                            .d_head = s.d,
                            .q_per_kv = s.n_q / s.n_kv,
                            .scale = 1.0f / sqrtf((float)s.d)};
    struct step_dev st = new_step(b, &s);
    int32_t rows = s.seqs * ((s.kv + BLOCK - 1) / BLOCK) * BLOCK, n = s.seqs * s.t;
    int layers = s.t > 8 || s.seqs > 1 || s.hot ? 1 : (int)(256e6 / cache_bytes(&s)) + 1;
    struct view q = new_random(b, n, s.n_q * s.d, DT_F32), out = new_view(b, n, q.cols, DT_F32);
    double best = INFINITY, pairs = (double)s.t * (s.kv - s.t) + 0.5 * s.t * (s.t + 1.0);
    layers = layers < MAX_LAYERS ? layers : MAX_LAYERS;
    int calls = s.hot ? 50 : layers;
    for (int i = 0; i < layers; i++)
        layer[i] = new_layer(b, &s, rows);
    for (int try = 0; try < TRIES; try++) {
        uint64_t t0 = bench_now_ns();
        for (int i = 0; i < calls; i++)
            must(b->ops->attention(b->be, &al, &st, q, layer[i % layers], out));
        best = fmin(best, (double)(bench_now_ns() - t0) / calls);
    }
    double gbs = cache_bytes(&s) / best, gflops = 4.0 * pairs * s.seqs * s.n_q * s.d / best;
    printf("%2d x T %3d KV %5d, %2d/%d x %-3d %-4s %10.1f us %7.2f GB/s %4.0f %% %8.1f GFLOP/s "
           "%3.0f %%\n",
           s.seqs, s.t, s.kv, s.n_q, s.n_kv, s.d, dtype_name(s.dtype), best * 1e-3, gbs,
           gbs / b->top.read_gbs * 100, gflops, gflops / b->top.fma_gflops * 100);
    for (int i = 0; i < layers; i++) {
        struct view views[] = {layer[i].k, layer[i].v, layer[i].k_scale, layer[i].v_scale};
        for (size_t j = 0; j < ARRAY_LEN(views); j++)
            b->ops->free(b->be, views[j].buf);
    }
    struct view views[] = {q, out, st.pos, st.q_start, st.kv_len, st.block_table};
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        b->ops->free(b->be, views[i].buf);
}

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};

static void decode(struct bench *b)
{
    const int32_t lengths[] = {512, 8192, 32768};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t j = 0; j < ARRAY_LEN(lengths); j++)
            measure(b, (struct shape){32, 8, 64, 1, 1, lengths[j], types[i], false});
    measure(b, (struct shape){8, 8, 64, 1, 1, 8192, DT_F16, false});
    measure(b, (struct shape){32, 8, 128, 1, 1, 8192, DT_F16, false});
    measure(b, (struct shape){64, 8, 128, 1, 1, 8192, DT_F16, false});
    measure(b, (struct shape){32, 8, 80, 1, 1, 8192, DT_BF16, false});
    measure(b, (struct shape){64, 8, 96, 1, 1, 8192, DT_BF16, false});
}

static void hot(struct bench *b)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (int32_t per = 1; per <= 8; per *= 2)
            measure(b, (struct shape){4 * per, 4, 64, 1, 1, 512, types[i], true});
    measure(b, (struct shape){16, 4, 128, 1, 1, 512, DT_I8, true});
}

static void prefill(struct bench *b)
{
    const int32_t lengths[] = {512, 2048, 8192};
    for (size_t j = 0; j < ARRAY_LEN(lengths); j++)
        measure(b, (struct shape){32, 8, 64, 1, 512, lengths[j], DT_F16, false});
    measure(b, (struct shape){32, 8, 64, 1, 512, 2048, DT_BF16, false});
    measure(b, (struct shape){32, 8, 64, 1, 512, 2048, DT_I8, false});
    measure(b, (struct shape){32, 8, 128, 1, 512, 2048, DT_F16, false});
}

static void small(struct bench *b)
{
    measure(b, (struct shape){8, 4, 8, 64, 1, 256, DT_F32, false});
    measure(b, (struct shape){8, 4, 8, 1, 1, 256, DT_F32, false});
    measure(b, (struct shape){8, 4, 64, 64, 1, 256, DT_F16, false});
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-') {
        puts("usage: bench_attention [ISA [THREADS [decode|hot|prefill|small] [cpu-time]]]\n"
             "ISA: auto or an instruction set's name, as bench_step --help lists them; THREADS: 0 "
             "shares\n"
             "the processors.  Each line: time, share of the memory's and of the arithmetic's "
             "limit.  cpu-time: the processor time of one thread, which other work on the machine "
             "changes\nless, for the parts in the processor's caches.");
        return strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ? 0 : 2;
    }
    struct backend_config cfg = {.isa = argc > 1 ? argv[1] : "auto",
                                 .threads = argc > 2 ? atoi(argv[2]) : 0};
    struct bench b;
    struct backend_info info;
    const char *part = "";
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "cpu-time") == 0)
            bench_use_cpu_time();
        else
            part = argv[i];
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line as soon as it is known, also into a pipe */
    must(backend_open(&b.be, "cpu", &cfg));
    b.ops = backend_ops_of(b.be);
    b.ops->info(b.be, &info);
    const char *isa = strstr(info.device, "avx2") ? "avx2" : "avx512";
    const char *comma = strrchr(info.device, ',');
    b.top = ceilings_measure(comma ? atoi(comma + 1) : 1, isa);
    printf("%s\nmemory read %.1f GB/s, fp32 FMA %.0f GFLOP/s (best of several)\n", info.device,
           b.top.read_gbs, b.top.fma_gflops);
    if (!*part || strcmp(part, "decode") == 0)
        decode(&b);
    if (!*part || strcmp(part, "hot") == 0)
        hot(&b);
    if (!*part || strcmp(part, "prefill") == 0)
        prefill(&b);
    if (!*part || strcmp(part, "small") == 0)
        small(&b);
    b.ops->close(b.be);
    return 0;
}
