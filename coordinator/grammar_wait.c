#include "coordinator/grammar_wait.h"

#include "coordinator/grammars.h"

/* The request that the job is for, if it still waits for it. */
static const struct request *request_of(struct coordinator *co, const struct text_job *job)
{
    const struct request *r = request_of_key(co->requests, job->request);
    return r && r->state == REQ_RESERVED ? r : NULL;
}

bool grammar_wait_begin(struct coordinator *co, struct text_job *job)
{
    const struct request *r = request_of(co, job);
    struct text_job **end = &co->compiling;
    if (!r || job->status != ST_OK || !job->resolved->grammar_kind || !co->shape.masks)
        return false;
    if (grammars_take(co->grammars, job->resolved, &r->owner, &job->compiling) != ST_OK)
        return false; /* the admission will fail as well */
    if (grammars_prepare(co->grammars, co->worker_port, job->compiling)) {
        grammars_release(co->grammars, job->compiling);
        return false;
    }
    while (*end)
        end = &(*end)->next;
    *end = job;
    job->next = NULL;
    return true;
}

static struct text_job *pop(struct coordinator *co)
{
    struct text_job *job = co->compiling;
    co->compiling = job->next;
    job->next = NULL;
    grammars_release(co->grammars, job->compiling);
    return job;
}

struct text_job *grammar_wait_next(struct coordinator *co)
{
    const struct text_job *job = co->compiling;
    if (!job ||
        (request_of(co, job) && !grammars_prepare(co->grammars, co->worker_port, job->compiling)))
        return NULL;
    return pop(co);
}

void grammar_wait_end(struct coordinator *co)
{
    while (co->compiling)
        text_job_free(pop(co));
}
