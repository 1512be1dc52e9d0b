#include "backends/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_US = 60, SPINS_PER_LOOK = 64 };

/* A job is published by adding 1 to generation; left counts the other threads that still work on
 * it. A waiter first raises its flag (sleepers, main_sleeps), then looks again, then sleeps; the
 * waker first changes the state, then looks at the flag.  All of these are sequentially consistent,
 * so one of the two sees the other. */
struct pool {
    int n_parts, n_threads, n_started;
    pool_fn *fn;
    void *ctx;
    atomic_uint generation;
    atomic_int left, sleepers, main_sleeps;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
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

static uint64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000U + (uint64_t)ts.tv_nsec / 1000U;
}

static bool has_work(struct pool *p, unsigned seen)
{
    return atomic_load(&p->generation) != seen || atomic_load(&p->stop);
}

static void wait_for_work(struct pool *p, unsigned seen)
{
    uint64_t until = now_us() + SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (has_work(p, seen))
                return;
            pause_cpu();
        }
    } while (now_us() < until);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_work(p, seen))
        pthread_cond_wait(&p->start, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void wait_for_others(struct pool *p)
{
    uint64_t until = now_us() + SPIN_US;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load(&p->left) == 0)
                return;
            pause_cpu();
        }
    } while (now_us() < until);
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->main_sleeps, 1);
    while (atomic_load(&p->left) != 0)
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->main_sleeps, 0);
    pthread_mutex_unlock(&p->lock);
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
    for (;;) {
        wait_for_work(p, seen);
        if (atomic_load(&p->stop))
            return NULL;
        seen++;
        run_parts(p, t->index);
        if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->main_sleeps)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
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
        atomic_store(&p->left, p->n_threads - 1);
        atomic_fetch_add(&p->generation, 1);
        wake_threads(p);
    }
    run_parts(p, 0);
    if (p->n_threads > 1)
        wait_for_others(p);
}

enum status pool_create(struct pool **out, int n_parts, int n_threads)
{
    if (n_threads > n_parts)
        n_threads = n_parts;
    struct pool *p = calloc(1, sizeof *p + (size_t)n_threads * sizeof p->threads[0]);
    if (!p)
        FAIL(ST_NOMEM, "no memory for a pool of %d threads", n_threads);
    p->n_parts = n_parts;
    p->n_threads = n_threads;
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
