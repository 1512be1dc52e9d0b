#include "coordinator/journal/syncer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/thread.h"

struct syncer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int fd; /* to be synced, owned; -1: none */
    int error;
    bool stop;
};

static void *run(void *arg)
{
    struct syncer *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->fd < 0 && !s->stop)
            pthread_cond_wait(&s->wake, &s->lock);
        if (s->fd < 0)
            break;
        int fd = s->fd;
        pthread_mutex_unlock(&s->lock);
        int error = fsync(fd) == 0 ? 0 : errno;
        close(fd);
        pthread_mutex_lock(&s->lock);
        s->fd = -1;
        if (error && !s->error)
            s->error = error;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum status syncer_start(struct syncer **out)
{
    struct syncer *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "journal: no memory for a thread");
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (thread_start(&s->thread, run, s) != 0) {
        pthread_cond_destroy(&s->wake);
        pthread_mutex_destroy(&s->lock);
        free(s);
        FAIL(ST_IO, "journal: cannot start a thread");
    }
    *out = s;
    return ST_OK;
}

void syncer_stop(struct syncer *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool syncer_ask(struct syncer *s, int fd)
{
    pthread_mutex_lock(&s->lock);
    bool idle = s->fd < 0;
    if (idle) {
        s->fd = dup(fd);
        if (s->fd < 0 && !s->error)
            s->error = errno;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return idle;
}

int syncer_error(struct syncer *s)
{
    pthread_mutex_lock(&s->lock);
    int error = s->error;
    s->error = 0;
    pthread_mutex_unlock(&s->lock);
    return error;
}
