#include "bench/ceilings.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "backends/cpu/amx_tiles.h"
#endif

#include "backends/cpu/read_ahead.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { MAX_THREADS = 256, TRIES = 7 };
static const size_t read_bytes = (size_t)512 << 20; /* of all threads */
static const long fma_rounds = 4 * 1000 * 1000;
#if defined(__x86_64__)
static const long tile_rounds = 400 * 1000;
#endif

struct job {
    const char *data;
    size_t n;
    const char *isa;
    bool tiles; /* products by AMX's tiles */
    bool ahead; /* reads with read_ahead */
    struct read_ahead read;
    double result; /* keeps the compiler from dropping the work; FLOPs of fma_work */
};

static clockid_t bench_clock = CLOCK_MONOTONIC;

void bench_use_cpu_time(void)
{
    bench_clock = CLOCK_PROCESS_CPUTIME_ID;
}

uint64_t bench_now_ns(void)
{
    struct timespec ts;
    clock_gettime(bench_clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double read_avx512(const char *p, size_t n, bool ahead,
                                                             struct read_ahead r)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i + 256 <= n; i += 256) {
        if (ahead) {
            read_ahead(r, p + i, 128);
            read_ahead(r, p + i + 128, 128);
        }
        a = _mm512_xor_si512(a, _mm512_loadu_si512(p + i));
        b = _mm512_xor_si512(b, _mm512_loadu_si512(p + i + 64));
        c = _mm512_xor_si512(c, _mm512_loadu_si512(p + i + 128));
        d = _mm512_xor_si512(d, _mm512_loadu_si512(p + i + 192));
    }
    return (double)_mm512_reduce_add_epi32(
        _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
}

__attribute__((target("avx512f"))) static double fma_avx512(double *flops)
{
    __m512 acc[12], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f), sum = x;
    UNROLL
    for (int j = 0; j < 12; j++)
        acc[j] = _mm512_set1_ps((float)j);
    for (long i = 0; i < fma_rounds; i++) {
        UNROLL
        for (int j = 0; j < 12; j++)
            acc[j] = _mm512_fmadd_ps(acc[j], x, y);
    }
    UNROLL
    for (int j = 0; j < 12; j++)
        sum = _mm512_add_ps(sum, acc[j]);
    *flops = (double)fma_rounds * 12 * 16 * 2;
    return (double)_mm512_reduce_add_ps(sum);
}

__attribute__((target("avx512f,avx512bf16"))) static double bf16_avx512(double *flops)
{
    __m512 acc[12], sum = _mm512_set1_ps(0.0f);
    __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    UNROLL
    for (int j = 0; j < 12; j++)
        acc[j] = _mm512_set1_ps((float)j);
    for (long i = 0; i < fma_rounds; i++) {
        UNROLL
        for (int j = 0; j < 12; j++)
            acc[j] = _mm512_dpbf16_ps(acc[j], x, x);
    }
    UNROLL
    for (int j = 0; j < 12; j++)
        sum = _mm512_add_ps(sum, acc[j]);
    *flops = (double)fma_rounds * 12 * 32 * 2;
    return (double)_mm512_reduce_add_ps(sum);
}

static bool has_bf16_tiles(void) /* a virtual machine may have the tiles for bytes alone */
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1U << 22);
}

/* Four products of full tiles at once, of zeros: 16 rows times 16 columns, 64 bytes of each. */
#define AMX_WORK(NAME, PRODUCT, ELEMENTS)                                                          \
    __attribute__((target("amx-tile,amx-int8,amx-bf16"))) static double NAME(double *ops)          \
    {                                                                                              \
        struct tile_config config = {.palette = 1};                                                \
        for (int i = 0; i < 8; i++) {                                                              \
            config.row_bytes[i] = 64;                                                              \
            config.rows[i] = 16;                                                                   \
        }                                                                                          \
        tiles_configure(&config);                                                                  \
        _tile_zero(4);                                                                             \
        _tile_zero(5);                                                                             \
        _tile_zero(6);                                                                             \
        _tile_zero(7);                                                                             \
        for (long i = 0; i < tile_rounds; i++) {                                                   \
            PRODUCT(0, 4, 6);                                                                      \
            PRODUCT(1, 4, 7);                                                                      \
            PRODUCT(2, 5, 6);                                                                      \
            PRODUCT(3, 5, 7);                                                                      \
        }                                                                                          \
        _tile_release();                                                                           \
        *ops = (double)tile_rounds * 4 * 16 * 16 * (ELEMENTS)*2;                                   \
        return 0.0;                                                                                \
    }
AMX_WORK(bf16_tiles, _tile_dpbf16ps, 32)
AMX_WORK(int8_tiles, _tile_dpbuud, 64)

__attribute__((target("avx512f,avx512vnni"))) static double int8_avx512(double *ops)
{
    __m512i acc[12], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5), sum = x;
    UNROLL
    for (int j = 0; j < 12; j++)
        acc[j] = _mm512_set1_epi32(j);
    for (long i = 0; i < fma_rounds; i++) {
        UNROLL
        for (int j = 0; j < 12; j++)
            acc[j] = _mm512_dpbusd_epi32(acc[j], x, y);
    }
    UNROLL
    for (int j = 0; j < 12; j++)
        sum = _mm512_add_epi32(sum, acc[j]);
    *ops = (double)fma_rounds * 12 * 64 * 2;
    return (double)_mm512_reduce_add_epi32(sum);
}

__attribute__((target("avx2"))) static double int8_avx2(double *ops)
{
    __m256i acc[8], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5), one = _mm256_set1_epi16(1);
    int32_t out[8];
    UNROLL
    for (int j = 0; j < 8; j++)
        acc[j] = _mm256_set1_epi32(j);
    for (long i = 0; i < fma_rounds; i++) {
        UNROLL
        for (int j = 0; j < 8; j++) {
            __asm__("" : "+x"(x)); /* the product is the work: it must not leave the loop */
            __m256i pairs = _mm256_maddubs_epi16(x, y);
            acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(pairs, one));
        }
    }
    UNROLL
    for (int j = 1; j < 8; j++)
        acc[0] = _mm256_add_epi32(acc[0], acc[j]);
    _mm256_storeu_si256((__m256i *)(void *)out, acc[0]);
    *ops = (double)fma_rounds * 8 * 32 * 2;
    return (double)out[0];
}

__attribute__((target("avx2,fma"))) static double fma_avx2(double *flops)
{
    __m256 acc[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f), sum = x;
    float out[8];
    UNROLL
    for (int j = 0; j < 12; j++)
        acc[j] = _mm256_set1_ps((float)j);
    for (long i = 0; i < fma_rounds; i++) {
        UNROLL
        for (int j = 0; j < 12; j++)
            acc[j] = _mm256_fmadd_ps(acc[j], x, y);
    }
    UNROLL
    for (int j = 0; j < 12; j++)
        sum = _mm256_add_ps(sum, acc[j]);
    _mm256_storeu_ps(out, sum);
    *flops = (double)fma_rounds * 12 * 8 * 2;
    return (double)out[0];
}
#endif

static double read_plain(const char *p, size_t n, bool ahead, struct read_ahead r)
{
    uint64_t lane[16] = {0}, v[16], all = 0;
    for (size_t i = 0; i + sizeof v <= n; i += sizeof v) {
        if (ahead)
            read_ahead(r, p + i, sizeof v);
        memcpy(v, p + i, sizeof v);
        for (int j = 0; j < 16; j++)
            lane[j] ^= v[j];
    }
    for (int j = 0; j < 16; j++)
        all ^= lane[j];
    return (double)all;
}

static double fma_plain(double *flops)
{
    float acc[16];
    for (int j = 0; j < 16; j++)
        acc[j] = (float)j;
    for (long i = 0; i < fma_rounds / 16; i++)
        for (int j = 0; j < 16; j++)
            acc[j] = fmaf(acc[j], 0.999f, 1e-3f);
    *flops = (double)(fma_rounds / 16) * 16 * 2;
    return (double)(acc[0] + acc[7]);
}

static void *read_work(void *arg)
{
    struct job *j = arg;
#if defined(__x86_64__)
    if (strcmp(j->isa, "avx512") == 0) {
        j->result = read_avx512(j->data, j->n, j->ahead, j->read);
        return NULL;
    }
#endif
    j->result = read_plain(j->data, j->n, j->ahead, j->read);
    return NULL;
}

static void *fma_work(void *arg)
{
    struct job *j = arg;
    volatile double sink;
#if defined(__x86_64__)
    if (strcmp(j->isa, "avx512") == 0) {
        sink = fma_avx512(&j->result);
        return NULL;
    }
    if (strcmp(j->isa, "avx2") == 0) {
        sink = fma_avx2(&j->result);
        return NULL;
    }
#endif
    sink = fma_plain(&j->result);
    (void)sink;
    return NULL;
}

static void *int8_work(void *arg)
{
    struct job *j = arg;
    volatile double sink = 0;
    j->result = 0;
#if defined(__x86_64__)
    if (j->tiles)
        sink = int8_tiles(&j->result);
    else if (strcmp(j->isa, "avx512") == 0 && __builtin_cpu_supports("avx512vnni"))
        sink = int8_avx512(&j->result);
    else if (strcmp(j->isa, "avx512") == 0 || strcmp(j->isa, "avx2") == 0)
        sink = int8_avx2(&j->result);
#endif
    (void)sink;
    return NULL;
}

static void *bf16_work(void *arg)
{
    struct job *j = arg;
    volatile double sink = 0;
    j->result = 0;
#if defined(__x86_64__)
    if (j->tiles && has_bf16_tiles())
        sink = bf16_tiles(&j->result);
    else if (strcmp(j->isa, "avx512") == 0 && __builtin_cpu_supports("avx512bf16"))
        sink = bf16_avx512(&j->result);
#endif
    (void)sink;
    return NULL;
}

/* Seconds of the best try of work on all threads at once. */
static double best_of(void *(*work)(void *), struct job *jobs, int threads)
{
    double best = 1e30;
    for (int try = 0; try < TRIES; try++) {
        pthread_t id[MAX_THREADS];
        bool started[MAX_THREADS] = {false};
        uint64_t t0 = bench_now_ns();
        for (int i = 1; i < threads; i++) {
            started[i] = pthread_create(&id[i], NULL, work, &jobs[i]) == 0;
            if (!started[i])
                work(&jobs[i]);
        }
        work(&jobs[0]);
        for (int i = 1; i < threads; i++)
            if (started[i])
                pthread_join(id[i], NULL);
        double s = (double)(bench_now_ns() - t0) * 1e-9;
        best = s < best ? s : best;
    }
    return best;
}

/* The better of loads alone and loads behind the prefetches that the products use. */
static double read_rate(struct job *jobs, int threads)
{
    double s = best_of(read_work, jobs, threads);
    for (int i = 0; i < threads; i++)
        jobs[i].ahead = true;
    return (double)jobs[0].n * threads / fmin(s, best_of(read_work, jobs, threads)) * 1e-9;
}

struct ceilings ceilings_measure(int threads, const char *isa)
{
    struct ceilings c = {0};
    struct job jobs[MAX_THREADS];
    bool tiles = strcmp(isa, "amx") == 0;
    threads = threads < MAX_THREADS ? threads : MAX_THREADS;
    char *p = mmap(NULL, read_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return c;
#ifdef MADV_HUGEPAGE
    madvise(p, read_bytes, MADV_HUGEPAGE);
#endif
    memset(p, 1, read_bytes);
    size_t each = read_bytes / (size_t)threads;
    for (int i = 0; i < threads; i++)
        jobs[i] = (struct job){.data = p + (size_t)i * each,
                               .n = each,
                               .isa = tiles ? "avx512" : isa,
                               .tiles = tiles,
                               .read = read_ahead_here()};
    c.read_gbs = read_rate(jobs, threads);
    double s = best_of(fma_work, jobs, threads);
    c.fma_gflops = jobs[0].result * threads / s * 1e-9;
    s = best_of(int8_work, jobs, threads);
    c.int8_gops = jobs[0].result * threads / s * 1e-9;
    s = best_of(bf16_work, jobs, threads);
    c.bf16_gflops = jobs[0].result * threads / s * 1e-9;
    munmap(p, read_bytes);
    return c;
}
