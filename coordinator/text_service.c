#include "coordinator/text_service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What may wait: so many jobs, and the bytes of so many largest messages, of one owner and of all. */
enum { OWNER_JOBS = 4096, ALL_JOBS = 16384, OWNER_MESSAGES = 4, ALL_MESSAGES = 16 };

struct queue {
    struct text_job *head, **tail;
};

struct text_service {
    const struct model_text *mt;
    struct wire_mem mem;         /* the thread's */
    struct grammar_check *check; /* too */
    struct text_job *running;    /* by the thread; NULL: none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct text_queue todo;
    struct queue done;
    bool stop;
    int pipe[2]; /* one byte while done is not empty */
};

static void queue_push(struct queue *q, struct text_job *job)
{
    job->next = NULL;
    *q->tail = job;
    q->tail = &job->next;
}

static struct text_job *queue_pop(struct queue *q)
{
    struct text_job *job = q->head;
    if (!job)
        return NULL;
    q->head = job->next;
    if (!q->head)
        q->tail = &q->head;
    return job;
}

static void *run(void *arg)
{
    struct text_service *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct text_job *job;
        while (!(job = text_queue_pop(&s->todo)) && !s->stop)
            pthread_cond_wait(&s->wake, &s->lock);
        if (!job)
            break;
        s->running = job;
        pthread_mutex_unlock(&s->lock);
        text_job_do(job, s->mt, s->check, &s->mem);
        pthread_mutex_lock(&s->lock);
        s->running = NULL;
        if (!s->done.head) {
            ssize_t n = write(s->pipe[1], "x", 1);
            (void)n; /* cannot fail: at most one byte is ever in the pipe */
        }
        queue_push(&s->done, job);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static enum status open_pipe(int fd[2])
{
    if (pipe(fd) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fcntl(fd[i], F_SETFD, FD_CLOEXEC);
        fcntl(fd[i], F_SETFL, O_NONBLOCK);
    }
    return ST_OK;
}

enum status text_service_start(struct text_service **out, const struct model_text *mt,
                               size_t max_message)
{
    struct text_service *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory for the text service");
    s->mt = mt;
    s->todo.limits = (struct text_queue_limits){.owner_jobs = OWNER_JOBS,
                                                .jobs = ALL_JOBS,
                                                .owner_bytes = OWNER_MESSAGES * max_message,
                                                .bytes = ALL_MESSAGES * max_message};
    s->done.tail = &s->done.head;
    s->pipe[0] = s->pipe[1] = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    enum status st = wire_mem_init(&s->mem, 8 * max_message);
    if (st == ST_OK)
        st = grammar_check_create(&s->check);
    if (st == ST_OK)
        st = open_pipe(s->pipe);
    if (st == ST_OK && pthread_create(&s->thread, NULL, run, s) != 0)
        st = status_fail(ST_IO, __FILE__, __LINE__, "cannot start the text thread");
    if (st != ST_OK) {
        if (s->pipe[0] >= 0) {
            close(s->pipe[0]);
            close(s->pipe[1]);
        }
        grammar_check_destroy(s->check);
        wire_mem_fini(&s->mem);
        free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void text_service_stop(struct text_service *s)
{
    struct text_job *job;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    while ((job = text_queue_pop(&s->todo)))
        text_job_free(job);
    if (s->running)
        atomic_store(&s->running->stop, true);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    while ((job = queue_pop(&s->done)))
        text_job_free(job);
    close(s->pipe[0]);
    close(s->pipe[1]);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    grammar_check_destroy(s->check);
    wire_mem_fini(&s->mem);
    free(s);
}

enum status text_service_submit(struct text_service *s, struct text_job **job)
{
    pthread_mutex_lock(&s->lock);
    enum status st = text_queue_push(&s->todo, job);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void text_service_drop(struct text_service *s, uint64_t client, uint64_t request)
{
    pthread_mutex_lock(&s->lock);
    text_queue_drop(&s->todo, client, request);
    if (s->running && text_job_is_of(s->running, client, request))
        atomic_store(&s->running->stop, true);
    pthread_mutex_unlock(&s->lock);
}

struct text_job *text_service_take(struct text_service *s)
{
    char byte;
    pthread_mutex_lock(&s->lock);
    struct text_job *job = queue_pop(&s->done);
    if (job && !s->done.head) {
        ssize_t n = read(s->pipe[0], &byte, 1);
        (void)n;
    }
    pthread_mutex_unlock(&s->lock);
    return job;
}

int text_service_fd(const struct text_service *s)
{
    return s->pipe[0];
}
