#include "worker/peer_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/thread.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { REPORT_MS = 80 }; /* how long the socket is waited for, and the message's leaving */

/* Where a rank's process is found. */
struct peer_place {
    uint64_t table; /* of processes: the kernel's boot and the PID namespace; 0: not known */
    int64_t pid;
};

struct peer_watch {
    int rank, world, exit_code;
    struct peer_place *places; /* [world] */
    struct pollfd *fds;        /* [n_fds]; first the end of the watch, then processes */
    int *rank_of;              /* [n_fds] */
    nfds_t n_fds;
    int end[2];                    /* pipe: closing end[1] ends the watch */
    pthread_mutex_t lock;          /* of port: held while a loss is reported */
    struct coordinator_port *port; /* NULL: nothing to report to */
    pthread_t thread;
    bool runs;
};

/* ---- where the ranks are ---- */

static uint64_t process_table(void)
{
    char boot[64] = "";
    struct stat ns;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f)
        return 0;
    size_t n = fread(boot, 1, sizeof boot, f);
    fclose(f);
    if (n == 0 || stat("/proc/self/ns/pid", &ns) != 0)
        return 0;
    uint64_t inode = (uint64_t)ns.st_ino;
    return hash_bytes(hash_bytes(0, boot, n), &inode, sizeof inode);
}

static enum status exchange(struct peer_watch *w)
{
    struct peer_place mine = {process_table(), (int64_t)getpid()};
    size_t n = (size_t)w->world * sizeof *w->places;
    TRY(control_gather(&mine, sizeof mine, w->places));
    return control_bcast(w->places, n, &n, 0);
}

/* ---- a loss ---- */

/* Never returns: the other ranks' states are lost with the rank that ended. */
static _Noreturn void leave(struct peer_watch *w, int rank)
{
    char why[96];
    snprintf(why, sizeof why, "the process of rank %d (pid %lld) has ended", rank,
             (long long)w->places[rank].pid);
    log_line(LOG_ERROR, "%s: this rank ends too", why);
    pthread_mutex_lock(&w->lock);
    if (w->port)
        coordinator_port_last_words(w->port, (uint32_t)rank, ST_PEER, why, REPORT_MS);
    _Exit(w->exit_code);
}

static void *watch(void *arg)
{
    struct peer_watch *w = arg;
    for (;;) {
        if (poll(w->fds, w->n_fds, -1) < 0 && errno != EINTR)
            return NULL;
        if (w->fds[0].revents)
            return NULL;
        for (nfds_t i = 1; i < w->n_fds; i++)
            if (w->fds[i].revents)
                leave(w, w->rank_of[i]);
    }
}

/* ---- life ---- */

static int open_process(int64_t pid)
{
#if defined(__linux__) && defined(SYS_pidfd_open)
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

/* The ranks of this process table.  One that has ended already is a loss too. */
static void open_processes(struct peer_watch *w)
{
    const struct peer_place *mine = &w->places[w->rank];
    for (int r = 0; r < w->world; r++) {
        if (r == w->rank || !mine->table || w->places[r].table != mine->table)
            continue;
        int fd = open_process(w->places[r].pid);
        if (fd < 0 && errno == ESRCH)
            leave(w, r);
        if (fd < 0) {
            log_line(LOG_INFO,
                     "this system gives no descriptor of rank %d's process (%s): its end is "
                     "noticed late",
                     r, strerror(errno));
            continue;
        }
        w->fds[w->n_fds] = (struct pollfd){.fd = fd, .events = POLLIN};
        w->rank_of[w->n_fds++] = r;
    }
}

static enum status start(struct peer_watch *w)
{
    TRY(exchange(w));
    if (pipe(w->end) != 0) {
        w->end[0] = w->end[1] = -1;
        FAIL(ST_IO, "cannot make a pipe");
    }
    w->fds[w->n_fds++] = (struct pollfd){.fd = w->end[0], .events = POLLIN};
    open_processes(w);
    w->runs = thread_start(&w->thread, watch, w) == 0;
    if (!w->runs)
        FAIL(ST_NOMEM, "cannot start the thread that watches the other ranks");
    return ST_OK;
}

enum status peer_watch_open(struct peer_watch **out, const struct control_info *ci, int exit_code)
{
    *out = NULL;
    if (ci->world == 1)
        return ST_OK;
    struct peer_watch *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory to watch %d ranks", ci->world);
    w->rank = ci->rank;
    w->world = ci->world;
    w->exit_code = exit_code;
    w->end[0] = w->end[1] = -1;
    pthread_mutex_init(&w->lock, NULL);
    w->places = calloc((size_t)ci->world, sizeof *w->places);
    w->fds = calloc((size_t)ci->world, sizeof *w->fds);
    w->rank_of = calloc((size_t)ci->world, sizeof *w->rank_of);
    enum status st =
        w->places && w->fds && w->rank_of
            ? start(w)
            : status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory to watch %d ranks", ci->world);
    if (st != ST_OK) {
        peer_watch_close(w);
        return st;
    }
    *out = w;
    return ST_OK;
}

void peer_watch_report_to(struct peer_watch *w, struct coordinator_port *port)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->port = port;
    pthread_mutex_unlock(&w->lock);
}

void peer_watch_close(struct peer_watch *w)
{
    if (!w)
        return;
    if (w->end[1] >= 0)
        close(w->end[1]);
    if (w->runs)
        pthread_join(w->thread, NULL);
    for (nfds_t i = 0; i < w->n_fds; i++)
        close(w->fds[i].fd);
    pthread_mutex_destroy(&w->lock);
    free(w->places);
    free(w->fds);
    free(w->rank_of);
    free(w);
}
