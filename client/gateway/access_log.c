#include "client/gateway/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

enum { CLOSE_US = 1000 * 1000, POLL_MS = 100, TELL_US = 10 * 1000 * 1000 };

struct access_log {
    const char *path;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t more;
    char *waiting,
        *writing; /* [ACCESS_LOG_BUFFER] each; `writing` is the thread's without the lock */
    size_t n_waiting;
    uint64_t dropped, told, told_us;
    uint64_t close_us; /* not 0: the thread is to end, at that time at the latest */
    bool reopen;
    /* the thread's own */
    int fd;
    bool torn; /* the last line in the file is not whole */
};

static int open_path(const char *path)
{
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

static void close_fd(struct access_log *l)
{
    if (l->fd > STDOUT_FILENO)
        close(l->fd);
}

static uint64_t lines_in(const char *p, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    return lines;
}

/* ---- the thread ---- */

static bool is_late(struct access_log *l)
{
    pthread_mutex_lock(&l->lock);
    bool late = l->close_us && clock_us() > l->close_us;
    pthread_mutex_unlock(&l->lock);
    return late;
}

/* Waits until a write does not wait: of a pipe then PIPE_BUF bytes fit.  false: it is given up. */
static bool wait_writable(struct access_log *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLOUT};
    while (poll(&p, 1, POLL_MS) == 0)
        if (is_late(l))
            return false;
    return !(p.revents & POLLERR);
}

/* Returns the bytes that were written. */
static size_t write_all(struct access_log *l, const char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        size_t piece = n - done < PIPE_BUF ? n - done : PIPE_BUF;
        if (!wait_writable(l))
            break;
        ssize_t got = write(l->fd, p + done, piece);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

static void write_lines(struct access_log *l, size_t n)
{
    if (l->torn && write_all(l, "\n", 1) != 1) {
        pthread_mutex_lock(&l->lock);
        l->dropped += lines_in(l->writing, n);
        pthread_mutex_unlock(&l->lock);
        return;
    }
    size_t done = write_all(l, l->writing, n);
    l->torn = done > 0 ? l->writing[done - 1] != '\n' : false;
    pthread_mutex_lock(&l->lock);
    l->dropped += lines_in(l->writing + done, n - done);
    pthread_mutex_unlock(&l->lock);
}

static void open_again(struct access_log *l)
{
    int fd = open_path(l->path);
    if (fd < 0) {
        log_line(LOG_WARN, "%s: %s; the access log goes on in the file of before", l->path,
                 strerror(errno));
        return;
    }
    close_fd(l);
    l->fd = fd;
    l->torn = false;
}

/* with the lock */
static void tell_dropped(struct access_log *l)
{
    uint64_t now = clock_us();
    if (l->dropped == l->told || (l->told_us && now - l->told_us < TELL_US))
        return;
    log_line(LOG_WARN, "%s: %llu lines of the access log could not be written", l->path,
             (unsigned long long)(l->dropped - l->told));
    l->told = l->dropped;
    l->told_us = now;
}

static void *run(void *ctx)
{
    struct access_log *l = ctx;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->n_waiting && !l->reopen && !l->close_us)
            pthread_cond_wait(&l->more, &l->lock);
        bool again = l->reopen;
        size_t n = l->n_waiting;
        if (!n && !again)
            break;
        char *lines = l->waiting;
        l->waiting = l->writing;
        l->writing = lines;
        l->n_waiting = 0;
        l->reopen = false;
        pthread_mutex_unlock(&l->lock);
        if (n)
            write_lines(l, n);
        if (again)
            open_again(l);
        pthread_mutex_lock(&l->lock);
        tell_dropped(l);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the loop's side ---- */

void access_log_write(struct access_log *l, const char *lines, size_t n)
{
    pthread_mutex_lock(&l->lock);
    if (n > ACCESS_LOG_BUFFER - l->n_waiting) {
        l->dropped += lines_in(lines, n);
    } else {
        memcpy(l->waiting + l->n_waiting, lines, n);
        l->n_waiting += n;
        pthread_cond_signal(&l->more);
    }
    pthread_mutex_unlock(&l->lock);
}

void access_log_reopen(struct access_log *l)
{
    pthread_mutex_lock(&l->lock);
    l->reopen = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
}

uint64_t access_log_dropped(struct access_log *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t n = l->dropped;
    pthread_mutex_unlock(&l->lock);
    return n;
}

static void release(struct access_log *l)
{
    free(l->waiting);
    free(l->writing);
    free(l);
}

enum status access_log_open(struct access_log **out, const char *path)
{
    struct access_log *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        FAIL(ST_NOMEM, "no memory for the access log");
    l->path = path;
    l->waiting = malloc(ACCESS_LOG_BUFFER);
    l->writing = malloc(ACCESS_LOG_BUFFER);
    l->fd = l->waiting && l->writing ? open_path(path) : -1;
    if (l->fd < 0) {
        bool memory = !l->waiting || !l->writing;
        int error = errno;
        release(l);
        if (memory)
            FAIL(ST_NOMEM, "no memory for the access log");
        FAIL(ST_IO, "--access-log %s: %s", path, strerror(error));
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->more, NULL);
    if (thread_start(&l->thread, run, l) != 0) {
        close_fd(l);
        release(l);
        FAIL(ST_NOMEM, "no thread for the access log");
    }
    *out = l;
    return ST_OK;
}

void access_log_close(struct access_log *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->close_us = clock_us() + CLOSE_US;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    close_fd(l);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->more);
    release(l);
}
