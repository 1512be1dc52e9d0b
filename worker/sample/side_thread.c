#include "worker/sample/side_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/thread.h"

struct side_thread {
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there is a job, or an end; the job is done */
    pthread_t thread;
    side_fn *fn; /* NULL: no job, or it is done */
    void *ctx;
    bool over;
    enum status status; /* of the last job */
    char detail[300];   /* of status */
};

static void *run(void *arg)
{
    struct side_thread *t = arg;
    pthread_mutex_lock(&t->lock);
    while (!t->over) {
        if (!t->fn) {
            pthread_cond_wait(&t->work, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        enum status st = t->fn(t->ctx);
        pthread_mutex_lock(&t->lock);
        t->status = st;
        if (st != ST_OK)
            snprintf(t->detail, sizeof t->detail, "%s", status_text());
        t->fn = NULL;
        pthread_cond_signal(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum status side_thread_create(struct side_thread **out)
{
    struct side_thread *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        FAIL(ST_NOMEM, "no memory for a thread");
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    int error = thread_start(&t->thread, run, t);
    if (error) {
        free(t);
        FAIL(ST_NOMEM, "cannot start a thread: %s", strerror(error));
    }
    *out = t;
    return ST_OK;
}

void side_thread_destroy(struct side_thread *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void side_thread_begin(struct side_thread *t, side_fn *fn, void *ctx)
{
    pthread_mutex_lock(&t->lock);
    t->fn = fn;
    t->ctx = ctx;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
}

enum status side_thread_end(struct side_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->fn)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
    if (t->status != ST_OK)
        return status_fail(t->status, __FILE__, __LINE__, "%s", t->detail);
    return ST_OK;
}
