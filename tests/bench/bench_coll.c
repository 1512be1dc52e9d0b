/* Latencies of the collectives and of the control plane between the ranks of one mpirun:
 *   mpirun -np 2 bench_coll all_reduce [REPEATS]   microseconds by size, mpi and, on one host, shm
 *   mpirun -np 2 bench_coll bcast [SPIN_US]        a step's broadcast: back to back, and after an
 *                                                  idle time
 *   mpirun -np 2 bench_coll idle SECONDS           processor time of waiting in control_bcast */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "coll/host_backend.h"
#include "collectives/coll.h"
#include "collectives/control.h"
#include "collectives/wait.h"
#include "common/clock.h"

static struct control_info info;

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    fprintf(stderr, "bench_coll rank %d: %s\n", info.rank, status_detail());
    control_abort(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* out: the least and the median over batches of the time of one all_reduce. */
static void reduce_us(struct coll *c, struct view x, int repeats, double out[2])
{
    enum { BATCHES = 15 };
    double us[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        must(control_barrier());
        must(c->ops->all_reduce(c, x, REDUCE_SUM));
        double begin = now_us();
        for (int i = 0; i < repeats; i++)
            must(c->ops->all_reduce(c, x, REDUCE_SUM));
        us[b] = (now_us() - begin) / repeats;
    }
    qsort(us, BATCHES, sizeof *us, by_value);
    out[0] = us[0];
    out[1] = us[BATCHES / 2];
}

static void bench_all_reduce(int repeats)
{
    static const char *const names[] = {"mpi", "shm"};
    static const size_t sizes[] = {256,      1 << 10,   4 << 10, 8 << 10, 16 << 10,
                                   64 << 10, 256 << 10, 1 << 20, 4 << 20};
    struct host_backend host;
    struct backend *be = host_backend_init(&host, &host_backend_ops);
    struct coll *c[2];
    int n_colls = info.local_world == info.world ? 2 : 1;
    struct view x = {.rows = 1, .dtype = DT_F32};
    uint64_t session = (uint64_t)getpid() << 20 ^ clock_us();
    size_t len = sizeof session;
    must(control_bcast(&session, sizeof session, &len, 0));
    struct coll_config cfg = {.rank = info.rank,
                              .world = info.world,
                              .be = be,
                              .max_bytes = 4 << 20,
                              .deadline_ms = 10000,
                              .session = session};
    must(host_backend_ops.alloc(be, cfg.max_bytes, MEM_DEVICE, &x.buf));
    for (int i = 0; i < n_colls; i++)
        must(coll_open(&c[i], names[i], &cfg));
    if (info.rank == 0)
        printf("%10s %21s %21s  us, least and median, %d ranks\n", "bytes", names[0],
               n_colls > 1 ? names[1] : "", info.world);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        double us[2][2];
        int n = sizes[i] > 65536 ? repeats / 10 + 1 : repeats;
        x.cols = x.stride = (int32_t)(sizes[i] / sizeof(float));
        for (int k = 0; k < n_colls; k++)
            reduce_us(c[k], x, n, us[k]);
        if (info.rank == 0)
            printf("%10zu", sizes[i]);
        for (int k = 0; k < n_colls && info.rank == 0; k++)
            printf(" %10.2f %10.2f", us[k][0], us[k][1]);
        if (info.rank == 0)
            printf("\n");
    }
    for (int i = 0; i < n_colls; i++)
        c[i]->ops->close(c[i]);
    host_backend_ops.free(be, x.buf);
}

/* Rank 0 broadcasts after idle_us; the time until all have answered. */
static void bench_bcast(size_t bytes, long idle_us, int n)
{
    static char buf[1 << 16];
    double *us = calloc((size_t)n, sizeof *us);
    struct timespec idle = {.tv_nsec = idle_us * 1000};
    if (!us)
        control_abort(1);
    for (int i = 0; i < n; i++) {
        size_t len = bytes;
        if (idle_us && info.rank == 0)
            nanosleep(&idle, NULL);
        double begin = now_us();
        must(control_bcast(buf, sizeof buf, &len, 0));
        must(control_gather(&i, sizeof i, buf));
        us[i] = now_us() - begin;
    }
    qsort(us, (size_t)n, sizeof *us, by_value);
    if (info.rank == 0)
        printf("bcast %zu B + gather, idle %ld us before: p50 %.1f p99 %.1f us\n", bytes, idle_us,
               us[n / 2], us[n * 99 / 100]);
    free(us);
}

static void bench_idle(int seconds)
{
    struct timespec idle = {.tv_sec = seconds};
    struct rusage a, b;
    char byte;
    size_t len = 0;
    must(control_barrier());
    getrusage(RUSAGE_SELF, &a);
    if (info.rank == 0)
        nanosleep(&idle, NULL);
    must(control_bcast(&byte, 1, &len, 0));
    getrusage(RUSAGE_SELF, &b);
    double used =
        (double)(b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec - a.ru_stime.tv_sec) *
            1e6 +
        (double)(b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec - a.ru_stime.tv_usec);
    printf("rank %d: %.3f %% of a core while idle\n", info.rank, used / (seconds * 1e4));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all_reduce";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    must(control_open(&info));
    if (strcmp(what, "bcast") == 0) {
        if (argc > 2)
            control_set_spin((uint32_t)number);
        bench_bcast(512, 0, 20000);
        bench_bcast(8192, 0, 20000);
        bench_bcast(2000, 300, 2000);
        bench_bcast(2000, 20000, 100);
    } else if (strcmp(what, "idle") == 0) {
        bench_idle(number > 0 ? number : 10);
    } else {
        bench_all_reduce(number > 0 ? number : 1000);
    }
    control_close();
    return 0;
}
