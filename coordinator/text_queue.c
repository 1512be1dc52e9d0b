#include "coordinator/text_queue.h"

#include <stdlib.h>

enum { QUANTUM = 64 << 10 /* bytes of jobs that a line gains each time that it is passed */ };

struct text_line {
    struct text_line *next;
    struct owner owner;
    struct text_job *head, **tail;
    uint32_t n_jobs;
    size_t n_bytes, deficit;
};

static size_t bytes_of(const struct text_job *job)
{
    return job->recovered ? job->recovered->a.n_request : sock_msg_size(job->msg);
}

static struct text_line **line_of(struct text_queue *q, const struct owner *owner)
{
    struct text_line **at = &q->lines;
    while (*at && !owner_equal(&(*at)->owner, owner))
        at = &(*at)->next;
    return at;
}

static enum status check_room(const struct text_queue *q, const struct text_line *line, size_t n)
{
    const struct text_queue_limits *max = &q->limits;
    if (q->n_jobs >= max->jobs || q->n_bytes + n > max->bytes)
        FAIL(ST_BUSY, "%u messages of %zu MiB wait to be tokenized: no more fit", q->n_jobs,
             q->n_bytes >> 20);
    if (line && (line->n_jobs >= max->owner_jobs || line->n_bytes + n > max->owner_bytes))
        FAIL(ST_BUSY, "%u messages of this tenant, %zu MiB, wait to be tokenized: no more may",
             line->n_jobs, line->n_bytes >> 20);
    return ST_OK;
}

enum status text_queue_push(struct text_queue *q, struct text_job **job)
{
    size_t n = bytes_of(*job);
    struct text_line **at = line_of(q, &(*job)->owner), *line = *at;
    TRY(check_room(q, line, n));
    if (!line) {
        line = calloc(1, sizeof *line);
        if (!line)
            FAIL(ST_NOMEM, "no memory for a line of jobs");
        line->owner = (*job)->owner;
        line->tail = &line->head;
        *at = line;
    }
    (*job)->next = NULL;
    *line->tail = *job;
    line->tail = &(*job)->next;
    line->n_jobs++;
    line->n_bytes += n;
    q->n_jobs++;
    q->n_bytes += n;
    *job = NULL;
    return ST_OK;
}

/* Takes *at out of its line; the caller has it then. */
static struct text_job *take(struct text_queue *q, struct text_line *line, struct text_job **at)
{
    struct text_job *job = *at;
    *at = job->next;
    if (!job->next)
        line->tail = at;
    line->n_jobs--;
    line->n_bytes -= bytes_of(job);
    q->n_jobs--;
    q->n_bytes -= bytes_of(job);
    job->next = NULL;
    return job;
}

static void remove_empty(struct text_queue *q)
{
    for (struct text_line **at = &q->lines; *at;) {
        struct text_line *line = *at;
        if (line->head) {
            at = &line->next;
            continue;
        }
        *at = line->next;
        free(line);
    }
}

static void move_to_end(struct text_queue *q)
{
    struct text_line *line = q->lines, **end = &q->lines;
    q->lines = line->next;
    line->next = NULL;
    while (*end)
        end = &(*end)->next;
    *end = line;
}

struct text_job *text_queue_pop(struct text_queue *q)
{
    if (!q->lines)
        return NULL;
    for (;;) { /* ends: each round every deficit grows */
        struct text_line *line = q->lines;
        line->deficit += QUANTUM;
        size_t n = bytes_of(line->head);
        if (n > line->deficit) {
            move_to_end(q);
            continue;
        }
        line->deficit = line->deficit - n < QUANTUM ? line->deficit - n : QUANTUM;
        struct text_job *job = take(q, line, &line->head);
        move_to_end(q);
        remove_empty(q);
        return job;
    }
}

bool text_job_is_of(const struct text_job *job, uint64_t client, uint64_t request)
{
    return job->type == MSG_GENERATE ? request && job->request == request
                                     : !request && job->client == client;
}

void text_queue_drop(struct text_queue *q, uint64_t client, uint64_t request)
{
    for (struct text_line *line = q->lines; line; line = line->next)
        for (struct text_job **at = &line->head; *at;) {
            if (text_job_is_of(*at, client, request))
                text_job_free(take(q, line, at));
            else
                at = &(*at)->next;
        }
    remove_empty(q);
}
