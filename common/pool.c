#include "common/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/host.h"
#include "common/thread.h"

enum {
    SPIN_US = 60,
    SPINS_PER_LOOK = 64,
    LINE = 64,
    FAN = 4,
    ITEM_BITS = 28,
    NEIGHBOURS = 4, /* that a thread without items asks: all would be too many lines to read */
};

/* A node of the tree in which threads report that they are done, one per thread, on a cache line of
 * its own.  Node i waits for its own thread and for its children, nodes FAN * i + 1 to FAN * i +
 * FAN; the root is the caller's count of reports.  Whoever comes last at a node goes on to the one
 * above, so no thread waits on the way and no line is written by more than FAN + 1 threads. */
struct pool_node {
    _Alignas(LINE) atomic_int missing;
    int n;                                 /* missing when a job begins */
    _Alignas(LINE) _Atomic uint64_t items; /* of the thread, see left_of */
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
    unsigned item_jobs;      /* ever */
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
        /* no thread comes here again before the next job, which follows what is done below */
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

struct item_job {
    struct pool *pool;
    pool_item_fn *fn;
    void *ctx;
    long n;
    uint64_t tag; /* of this job, differs from the one before */
};

static uint64_t word_of(const struct item_job *j, long next, long end)
{
    return j->tag << 2 * ITEM_BITS | (uint64_t)next << ITEM_BITS | (uint64_t)end;
}

/* Items [*next, *end) that thread i has left, and the word that says so.  A word of the job before
 * says that the thread's share has not been touched yet, so that none is written for a thread that
 * sleeps, and its neighbours may do all of it. */
static uint64_t left_of(const struct item_job *j, int i, long *next, long *end)
{
    const uint64_t mask = ((uint64_t)1 << ITEM_BITS) - 1;
    uint64_t word = atomic_load_explicit(&j->pool->nodes[i].items, memory_order_relaxed);
    if (word >> 2 * ITEM_BITS != j->tag) {
        pool_share(j->n, i, j->pool->n_threads, next, end);
    } else {
        *next = (long)(word >> ITEM_BITS & mask);
        *end = (long)(word & mask);
    }
    return word;
}

/* Thread i's items become [next, end) if they are still what `word` says. */
static bool leave(const struct item_job *j, int i, uint64_t word, long next, long end)
{
    return atomic_compare_exchange_strong_explicit(&j->pool->nodes[i].items, &word,
                                                   word_of(j, next, end), memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* The first quarter of thread i's items, [*from, *to): a locked instruction also waits for what the
 * processor has begun before it, so not one for each item.  Without items, too, its word becomes
 * one of this job: later it could be taken for one, when tags have gone round. */
static bool take_quarter(const struct item_job *j, int i, long *from, long *to)
{
    long end;
    uint64_t word;
    do {
        word = left_of(j, i, from, &end);
        *to = *from + (end - *from + 3) / 4;
    } while (!leave(j, i, word, *to, end));
    return *from < *to;
}

/* The later half of what thread `from` has left becomes thread i's, which has nothing. */
static bool take_half(const struct item_job *j, int i, int from)
{
    long next, end, middle;
    uint64_t word;
    do {
        word = left_of(j, from, &next, &end);
        if (next >= end)
            return false;
        middle = next + (end - next) / 2;
    } while (!leave(j, from, word, next, middle));
    atomic_store_explicit(&j->pool->nodes[i].items, word_of(j, middle, end), memory_order_relaxed);
    return true;
}

static bool take_from_neighbours(const struct item_job *j, int i)
{
    int n = j->pool->n_threads;
    for (int k = 1; k <= NEIGHBOURS && k < n; k++)
        if (take_half(j, i, (i + k) % n))
            return true;
    return false;
}

static void run_items(void *ctx, int part, int n_parts)
{
    struct item_job *j = ctx;
    long from, to;
    (void)n_parts;
    if (part >= j->pool->n_threads)
        return;
    do
        while (take_quarter(j, part, &from, &to))
            for (long item = from; item < to; item++)
                j->fn(j->ctx, item, part);
    while (take_from_neighbours(j, part));
}

void pool_run_items(struct pool *p, long n, pool_item_fn *fn, void *ctx)
{
    assert(n < 1L << ITEM_BITS);
    struct item_job j = {p, fn, ctx, n, ++p->item_jobs & 0xff};
    pool_run(p, run_items, &j);
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
        int err = thread_start(&p->threads[i].id, thread_main, &p->threads[i]);
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
