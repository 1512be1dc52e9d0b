/* Packed weights in a mapped file: matrices begin in its pages, so that the first answer does not wait
 * for copies.  A thread then copies them one after the other into memory of their own, whose pages are
 * huge and stay: pages of a file are as small as its file system has them, and leave the memory when
 * others want it.  Both have the same bytes, so whoever computes may read either. */
#define _GNU_SOURCE /* setpriority for one thread, madvise */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/cpu/cpu_backend.h"
#include "common/host.h"
#include "common/log.h"
#include "common/thread.h"

enum {
    ALIGN = 64,       /* bytes, of a matrix, as mem_take gives them */
    PIECE = 16 << 10, /* bytes that are copied before the thread looks whether to end */
};

struct weight_mover {
    pthread_t thread;
    int wake[2]; /* a pipe: with a byte in it the delay is over */
    atomic_bool stop;
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

static void wait_for_begin(const struct weight_mover *m)
{
    struct pollfd end = {.fd = m->wake[0], .events = POLLIN};
    while (poll(&end, 1, (int)m->delay_ms) < 0 && errno == EINTR)
        continue;
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

/* Leaves w as it is when the thread is to end. */
static enum status move(struct weight_mover *m, struct weight *w)
{
    struct buf to;
    const char *old = w->data.data;
    size_t bytes = w->data.bytes;
    TRY(mem_take(&to, bytes));
    for (size_t at = 0; at < bytes && !atomic_load(&m->stop); at += PIECE)
        memcpy((char *)to.data + at, old + at, bytes - at < PIECE ? bytes - at : PIECE);
    if (atomic_load(&m->stop)) {
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
    enum status st = ST_OK;
    wait_for_begin(m);
#ifdef __linux__
    (void)setpriority(PRIO_PROCESS, 0, 19); /* this thread's alone */
#endif
    for (struct weight *w = m->first; w && st == ST_OK && !atomic_load(&m->stop);
         w = w->next_mapped)
        st = move(m, w);
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
    if (pipe(m->wake) != 0) {
        free(m);
        FAIL(ST_IO, "cannot make a pipe");
    }
    if (thread_start(&m->thread, move_all, m) != 0) {
        close(m->wake[0]);
        close(m->wake[1]);
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
    atomic_store(&m->stop, stop);
    ssize_t n = write(m->wake[1], "", 1); /* an empty pipe takes it */
    (void)n;
    pthread_join(m->thread, NULL);
    close(m->wake[0]);
    close(m->wake[1]);
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
