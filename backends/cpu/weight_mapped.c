/* Packed weights in a mapped file: matrices begin in its pages, so that the first answer does not wait
 * for copies.  A thread then copies them one after the other into memory of their own, whose pages are
 * huge and stay: pages of a file are as small as its file system has them, and leave the memory when
 * others want it.  Both have the same bytes, so whoever computes may read either. */
#define _GNU_SOURCE /* setpriority for one thread, madvise */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/cpu_backend.h"
#include "common/host.h"
#include "common/log.h"

enum {
    ALIGN = 64,       /* bytes, of a matrix, as mem_take gives them */
    PIECE = 16 << 10, /* bytes that are copied before the thread looks whether to end */
};

struct weight_mover {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, now;    /* under lock; now: the delay is over */
    uint32_t delay_ms; /* before the first copy */
    struct weight *first;
};

/* The pages of a file are on the node whose process read or wrote them first, which may be another one
 * than this rank's: there, copies are made at once and placed. */
enum status cpu_map_packed(struct backend *be, struct mapped_file *file,
                           const struct packed_range *range, size_t n)
{
    (void)range;
    (void)n;
    if (be->packed.size > 0)
        FAIL(ST_BUG, "packed weights are mapped once");
    if (!host_has_one_node(HOST_NODES))
        FAIL(ST_UNSUPPORTED, "this host has several nodes of memory");
    be->packed = *file;
    *file = (struct mapped_file){.data = (const unsigned char *)""};
    return ST_OK;
}

/* Kernels do not write to weights. */
bool weight_borrow(struct backend *be, struct weight *w, size_t bytes, const void *packed)
{
    uintptr_t at = (uintptr_t)packed, first = (uintptr_t)be->packed.data;
    if (at < first || bytes > be->packed.size || at - first > be->packed.size - bytes ||
        at % ALIGN != 0 || bytes == 0)
        return false;
    w->data = (struct buf){.data = (void *)at, .bytes = bytes};
    w->next_mapped = be->mapped;
    be->mapped = w;
    return true;
}

/* ---- the thread ---- */

/* Waits for the delay's end, or *stop. */
static void wait_for_begin(struct weight_mover *m, bool *stop)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += m->delay_ms / 1000;
    until.tv_nsec += (long)(m->delay_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&m->lock);
    while (!m->stop && !m->now && pthread_cond_timedwait(&m->wake, &m->lock, &until) == 0)
        continue;
    *stop = m->stop;
    pthread_mutex_unlock(&m->lock);
}

static bool is_stopped(struct weight_mover *m)
{
    pthread_mutex_lock(&m->lock);
    bool stop = m->stop;
    pthread_mutex_unlock(&m->lock);
    return stop;
}

/* What this process no longer needs of the file; where it is read after all, it comes back. */
static void drop_pages(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (end > at)
        (void)madvise((void *)at, end - at, MADV_DONTNEED);
}

/* Whoever computes with w meanwhile reads the old or the new address. */
static void publish(struct weight *w, const struct buf *to)
{
    const char *old = w->data.data;
    for (int32_t i = 0; i < w->n_mat * w->n_slices; i++) {
        struct weight *m = &w->mat[i];
        char *data = (char *)to->data + ((const char *)m->data.data - old);
        __atomic_store_n(&m->data.data, (void *)data, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&w->data.data, to->data, __ATOMIC_RELEASE);
    w->data.held = to->held;
}

/* *stop: the thread is to end. */
static enum status move(struct weight_mover *m, struct weight *w, bool *stop)
{
    struct buf to;
    const char *old = w->data.data;
    size_t bytes = w->data.bytes;
    TRY(mem_take(&to, bytes));
    for (size_t at = 0; at < bytes && !*stop; at += PIECE) {
        memcpy((char *)to.data + at, old + at, bytes - at < PIECE ? bytes - at : PIECE);
        *stop = is_stopped(m);
    }
    if (*stop) {
        mem_give(&to);
        return ST_OK;
    }
    publish(w, &to);
    drop_pages(old, bytes);
    return ST_OK;
}

static void *move_all(void *arg)
{
    struct weight_mover *m = arg;
    bool stop;
    enum status st = ST_OK;
    wait_for_begin(m, &stop);
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, 0, 19); /* this thread's alone */
#endif
    for (struct weight *w = m->first; w && !stop && st == ST_OK; w = w->next_mapped)
        st = move(m, w, &stop);
    if (st != ST_OK)
        log_failure(LOG_WARN, st, "packed weights stay in their file's pages");
    return NULL;
}

/* ---- life ---- */

enum status weights_move(struct backend *be, uint32_t delay_ms)
{
    if (!be->mapped || be->mover)
        return ST_OK;
    struct weight_mover *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for a thread that moves weights");
    m->delay_ms = delay_ms;
    m->first = be->mapped;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, NULL);
    sigset_t all, before; /* signals are for the main thread, whose waiting they end */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool runs = pthread_create(&m->thread, NULL, move_all, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!runs) {
        free(m);
        FAIL(ST_NOMEM, "cannot start the thread that moves weights");
    }
    be->mover = m;
    return ST_OK;
}

/* stop: else all is moved, from now on. */
static void end_mover(struct backend *be, bool stop)
{
    struct weight_mover *m = be->mover;
    pthread_mutex_lock(&m->lock);
    m->now = true;
    m->stop = stop;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->wake);
    free(m);
    be->mover = NULL;
    be->mapped = NULL;
}

void weights_move_end(struct backend *be)
{
    if (be->mover)
        end_mover(be, false);
}

void weights_stay(struct backend *be)
{
    if (be->mover)
        end_mover(be, true);
    be->mapped = NULL;
}

enum status cpu_prepare(struct backend *be, const struct backend_use *use)
{
    enum { DELAY_MS = 1000 }; /* the first answers need the cores */
    (void)use;
    return weights_move(be, DELAY_MS);
}
