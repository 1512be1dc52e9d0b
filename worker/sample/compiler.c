#include "worker/sample/compiler.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/thread.h"

struct compile_job {
    struct compile_job *next;
    struct grammar_source source;
    char *text; /* of the source */
    atomic_bool stop;
    bool running, done, dropped;
    struct grammar *grammar;
    enum status status;
    char detail[300]; /* of status */
};

struct compiler {
    pthread_mutex_t lock;
    pthread_cond_t work, ready; /* there is a job, or an end; a job is done */
    pthread_t thread;
    struct compile_job *first, **end; /* jobs that wait; the first of them may be running */
    bool over;
};

static void job_free(struct compile_job *job)
{
    grammar_destroy(job->grammar);
    free(job->text);
    free(job);
}

/* The first job, when there is one; NULL at the end. */
static struct compile_job *next_job(struct compiler *c)
{
    while (!c->first && !c->over)
        pthread_cond_wait(&c->work, &c->lock);
    return c->over ? NULL : c->first;
}

static void unlink_job(struct compiler *c, struct compile_job *job)
{
    struct compile_job **at = &c->first;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (!*at)
        c->end = at;
}

static void *run(void *arg)
{
    struct compiler *c = arg;
    struct compile_job *job;
    pthread_mutex_lock(&c->lock);
    while ((job = next_job(c))) {
        job->running = true;
        pthread_mutex_unlock(&c->lock);
        job->status = grammar_compile(&job->grammar, &job->source, &job->stop);
        if (job->status != ST_OK)
            snprintf(job->detail, sizeof job->detail, "%s", status_text());
        pthread_mutex_lock(&c->lock);
        unlink_job(c, job);
        job->done = true;
        if (job->dropped)
            job_free(job);
        pthread_cond_broadcast(&c->ready);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum status compiler_create(struct compiler **out)
{
    struct compiler *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        FAIL(ST_NOMEM, "no memory for the grammars' thread");
    c->end = &c->first;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->ready, NULL);
    int error = thread_start(&c->thread, run, c);
    if (error) {
        free(c);
        FAIL(ST_NOMEM, "cannot start the grammars' thread: %s", strerror(error));
    }
    *out = c;
    return ST_OK;
}

void compiler_destroy(struct compiler *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->ready);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

enum status compiler_add(struct compiler *c, const struct grammar_source *source,
                         struct compile_job **out)
{
    struct compile_job *job = calloc(1, sizeof *job);
    char *text = malloc(source->n + 1);
    *out = NULL;
    if (!job || !text) {
        free(job);
        free(text);
        FAIL(ST_NOMEM, "no memory for a grammar of %zu bytes", source->n);
    }
    if (source->n) /* the source of any object is empty */
        memcpy(text, source->text, source->n);
    job->text = text;
    job->source = (struct grammar_source){source->kind, text, source->n};
    pthread_mutex_lock(&c->lock);
    *c->end = job;
    c->end = &job->next;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    *out = job;
    return ST_OK;
}

bool compiler_done(struct compiler *c, const struct compile_job *job)
{
    pthread_mutex_lock(&c->lock);
    bool done = job->done;
    pthread_mutex_unlock(&c->lock);
    return done;
}

enum status compiler_take(struct compiler *c, struct compile_job *job, struct grammar **out)
{
    pthread_mutex_lock(&c->lock);
    while (!job->done)
        pthread_cond_wait(&c->ready, &c->lock);
    pthread_mutex_unlock(&c->lock);
    enum status st = job->status == ST_OK
                         ? ST_OK
                         : status_fail(job->status, __FILE__, __LINE__, "%s", job->detail);
    *out = job->grammar;
    job->grammar = NULL;
    job_free(job);
    return st;
}

void compiler_drop(struct compiler *c, struct compile_job *job)
{
    atomic_store(&job->stop, true);
    pthread_mutex_lock(&c->lock);
    job->dropped = true;
    bool mine = job->done || !job->running;
    if (!job->done && !job->running)
        unlink_job(c, job);
    pthread_mutex_unlock(&c->lock);
    if (mine)
        job_free(job);
}
