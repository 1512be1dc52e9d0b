#include "backends/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/host.h"
#include "common/clock.h"

enum { SPIN_US = 60, SPINS_PER_LOOK = 64, LINE = 64, FAN = 4 };

/* A node of the tree in which threads report that they are done, one per thread, on a cache line of
 * its own.  Node i waits for its own thread and for its children, nodes FAN * i + 1 to FAN * i +
 * FAN; the root is the caller's count of reports.  Whoever comes last at a node goes on to the one
 * above, so nobody waits on the way and no line is written by more than FAN + 1 threads. */
struct pool_node {
    _Alignas(LINE) atomic_int missing;
    int n; /* missing when a job begins */
};

/* A job is published by adding 1 to generation; its end is reports at target.  A waiter
 * first raises its flag (sleepers, main_sleeps), then looks again, then sleeps; the waker first
 * changes the state, then looks at the flag.  All of these are sequentially consistent, so one of
 * the two sees the other.  What caller and threads tell each other is on one line: three lines cost
 * two threads 240 ns for an empty job, one costs 130.  More threads report through the tree. */
struct pool {
    int n_parts, n_threads, n_started;
    bool pin;
    _Alignas(LINE) atomic_uint generation;
    atomic_bool stop;
    pool_fn *fn;
    void *ctx;
    unsigned target;
    atomic_uint reports; /* of the root's children, ever */
    atomic_int sleepers;
    atomic_int main_sleeps;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    struct pool_node *nodes; /* [n_threads] */
    struct pool_thread {
        struct pool *pool;
        int index;
        pthread_t id;
    } threads[];
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_work(struct pool *p, unsigned seen)
{
    return atomic_load(&p->generation) != seen || atomic_load(&p->stop);
}

static void wait_for_work(struct pool *p, unsigned seen)
{
    uint64_t until = clock_us() + SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (has_work(p, seen))
                return;
            pause_cpu();
        }
    } while (clock_us() < until);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_work(p, seen))
        pthread_cond_wait(&p->start, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static bool is_finished(struct pool *p)
{
    return atomic_load(&p->reports) == p->target;
}

static void wait_for_others(struct pool *p)
{
    uint64_t until = clock_us() + SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (is_finished(p))
                return;
            pause_cpu();
        }
    } while (clock_us() < until);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->main_sleeps, 1);
    while (!is_finished(p))
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->main_sleeps, 0);
    pthread_mutex_unlock(&p->lock);
}

/* Thread i, not the caller's, is done with its parts. */
static void report(struct pool *p, int i)
{
    for (; i != 0; i = (i - 1) / FAN) {
        struct pool_node *n = &p->nodes[i];
        if (n->n == 1) /* no thread but its own */
            continue;
        if (atomic_fetch_sub(&n->missing, 1) != 1)
            return;
        /* nobody comes here again before the next job, which follows what is done below */
        atomic_store_explicit(&n->missing, n->n, memory_order_relaxed);
    }
    atomic_fetch_add(&p->reports, 1);
    if (atomic_load(&p->main_sleeps)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
}

static void run_parts(struct pool *p, int thread)
{
    for (int part = thread; part < p->n_parts; part += p->n_threads)
        p->fn(p->ctx, part, p->n_parts);
}

static void *thread_main(void *arg)
{
    struct pool_thread *t = arg;
    struct pool *p = t->pool;
    unsigned seen = 0;
    if (p->pin)
        host_bind_thread(t->index);
    for (;;) {
        wait_for_work(p, seen);
        if (atomic_load(&p->stop))
            return NULL;
        seen++;
        run_parts(p, t->index);
        report(p, t->index);
    }
}

static void wake_threads(struct pool *p)
{
    if (atomic_load(&p->sleepers) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    if (p->n_threads > 1) {
        p->target += (unsigned)p->nodes[0].n;
        atomic_fetch_add(&p->generation, 1);
        wake_threads(p);
    }
    run_parts(p, 0);
    if (p->n_threads > 1)
        wait_for_others(p);
}

/* Children of node i among n. */
static int n_children(int i, int n)
{
    int first = FAN * i + 1, end = first + FAN < n ? first + FAN : n;
    return end > first ? end - first : 0;
}

static void *aligned_zeros(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, LINE, bytes) != 0)
        return NULL;
    return memset(p, 0, bytes);
}

enum status pool_create(struct pool **out, int n_parts, int n_threads, bool pin)
{
    if (n_threads > n_parts)
        n_threads = n_parts;
    size_t n = (size_t)n_threads;
    struct pool *p = aligned_zeros(sizeof *p + n * sizeof p->threads[0]);
    struct pool_node *nodes = aligned_zeros(n * sizeof *nodes);
    if (!p || !nodes) {
        free(p);
        free(nodes);
        FAIL(ST_NOMEM, "no memory for a pool of %d threads", n_threads);
    }
    p->nodes = nodes;
    for (int i = 0; i < n_threads; i++) {
        nodes[i].n = n_children(i, n_threads) + (i > 0);
        atomic_init(&nodes[i].missing, nodes[i].n);
    }
    p->n_parts = n_parts;
    p->n_threads = n_threads;
    p->pin = pin;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 1; i < n_threads; i++) {
        p->threads[i] = (struct pool_thread){.pool = p, .index = i};
        int err = pthread_create(&p->threads[i].id, NULL, thread_main, &p->threads[i]);
        if (err) {
            pool_destroy(p);
            FAIL(ST_IO, "cannot start thread %d of %d: %s", i + 1, n_threads, strerror(err));
        }
        p->n_started = i;
    }
    *out = p;
    return ST_OK;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    wake_threads(p);
    for (int i = 1; i <= p->n_started; i++)
        pthread_join(p->threads[i].id, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    free(p->nodes);
    free(p);
}

int pool_parts(const struct pool *p)
{
    return p->n_parts;
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}
