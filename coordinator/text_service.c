#include "coordinator/text_service.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/thread.h"

/* What may wait: so many jobs, and the bytes of so many largest messages, of one owner and of all. */
enum { OWNER_JOBS = 4096, ALL_JOBS = 16384, OWNER_MESSAGES = 4, ALL_MESSAGES = 16 };

struct queue {
    struct text_job *head, **tail;
};

/* The text thread does all but grammars; the jobs that have one go on to the compile thread, so that the compile of one
 * request keeps no other from its text. */
enum { TEXT, COMPILE, N_LANES };

struct lane {
    struct text_service *s;
    pthread_t thread;
    bool runs;
    pthread_cond_t wake;
    struct text_queue todo;
    struct text_job *running; /* by the thread; NULL: none */
};

struct text_service {
    const struct model_text *mt;
    struct wire_mem mem;         /* the text thread's */
    struct grammar_check *check; /* the compile thread's */
    struct lane lane[N_LANES];
    pthread_mutex_t lock;
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

static void finish(struct text_service *s, struct text_job *job)
{
    sock_msg_free(job->msg);
    job->msg = NULL;
    if (!s->done.head) {
        ssize_t n = write(s->pipe[1], "x", 1);
        (void)n; /* cannot fail: at most one byte is ever in the pipe */
    }
    queue_push(&s->done, job);
}

/* From the text thread to the compile thread. */
static void pass_on(struct text_service *s, struct text_job *job)
{
    struct lane *to = &s->lane[COMPILE];
    enum status st = text_queue_push(&to->todo, &job);
    if (st == ST_OK) {
        pthread_cond_signal(&to->wake);
        return;
    }
    text_job_fail(job, st, "grammar");
    finish(s, job);
}

static void *run(void *arg)
{
    struct lane *l = arg;
    struct text_service *s = l->s;
    bool text = l == &s->lane[TEXT];
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct text_job *job;
        while (!(job = text_queue_pop(&l->todo)) && !s->stop)
            pthread_cond_wait(&l->wake, &s->lock);
        if (!job)
            break;
        l->running = job;
        pthread_mutex_unlock(&s->lock);
        if (text)
            text_job_do(job, s->mt, &s->mem);
        else
            text_job_compile(job, s->check);
        pthread_mutex_lock(&s->lock);
        l->running = NULL;
        if (text && text_job_has_grammar(job) && !s->stop)
            pass_on(s, job);
        else
            finish(s, job);
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
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < N_LANES; i++) {
        struct lane *l = &s->lane[i];
        l->s = s;
        l->todo.limits = (struct text_queue_limits){.owner_jobs = OWNER_JOBS,
                                                    .jobs = ALL_JOBS,
                                                    .owner_bytes = OWNER_MESSAGES * max_message,
                                                    .bytes = ALL_MESSAGES * max_message};
        pthread_cond_init(&l->wake, NULL);
    }
    s->done.tail = &s->done.head;
    s->pipe[0] = s->pipe[1] = -1;
    enum status st = wire_mem_init(&s->mem, 8 * max_message);
    if (st == ST_OK)
        st = grammar_check_create(&s->check);
    if (st == ST_OK)
        st = open_pipe(s->pipe);
    for (int i = 0; i < N_LANES && st == ST_OK; i++) {
        if (thread_start(&s->lane[i].thread, run, &s->lane[i]) != 0)
            st = status_fail(ST_IO, __FILE__, __LINE__, "cannot start the text threads");
        s->lane[i].runs = st == ST_OK;
    }
    if (st != ST_OK) {
        text_service_stop(s);
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
    for (int i = 0; i < N_LANES; i++) {
        struct lane *l = &s->lane[i];
        while ((job = text_queue_pop(&l->todo)))
            text_job_free(job);
        if (l->running)
            atomic_store(&l->running->stop, true);
        pthread_cond_signal(&l->wake);
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < N_LANES; i++) {
        if (s->lane[i].runs)
            pthread_join(s->lane[i].thread, NULL);
        pthread_cond_destroy(&s->lane[i].wake);
    }
    while ((job = queue_pop(&s->done)))
        text_job_free(job);
    for (int i = 0; i < 2; i++)
        if (s->pipe[i] >= 0)
            close(s->pipe[i]);
    pthread_mutex_destroy(&s->lock);
    grammar_check_destroy(s->check);
    wire_mem_fini(&s->mem);
    free(s);
}

enum status text_service_submit(struct text_service *s, struct text_job **job)
{
    pthread_mutex_lock(&s->lock);
    enum status st = text_queue_push(&s->lane[TEXT].todo, job);
    pthread_cond_signal(&s->lane[TEXT].wake);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void text_service_drop(struct text_service *s, uint64_t client, uint64_t request)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < N_LANES; i++) {
        struct lane *l = &s->lane[i];
        text_queue_drop(&l->todo, client, request);
        if (l->running && text_job_is_of(l->running, client, request))
            atomic_store(&l->running->stop, true);
    }
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
