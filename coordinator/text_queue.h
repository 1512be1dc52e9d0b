/* Jobs that wait for the text thread: a line for each owner, bounded in jobs and bytes, served by deficit round robin
 * over the bytes of the jobs (Shreedhar and Varghese 1995).  So a small job waits for at most one job that runs and for
 * one small job of each other owner, however many large ones wait.  Not locked. */
#ifndef COORDINATOR_TEXT_QUEUE_H
#define COORDINATOR_TEXT_QUEUE_H

#include "coordinator/text_job.h"

struct text_queue_limits {
    uint32_t owner_jobs, jobs;
    size_t owner_bytes, bytes; /* of received messages */
};

struct text_line;

struct text_queue { /* zeros but for limits at the start */
    struct text_queue_limits limits;
    struct text_line *lines; /* those with jobs, the next to be served first */
    uint32_t n_jobs;
    size_t n_bytes;
};

/* Takes the job over.  ST_BUSY: a limit is reached (the text names whose); ST_NOMEM. */
MUST_CHECK enum status text_queue_push(struct text_queue *q, struct text_job **job);
/* NULL: empty. */
struct text_job *text_queue_pop(struct text_queue *q);
/* Did this client ask for the job?  Generates are `request`'s (their request_key) alone, if it is not 0. */
bool text_job_is_of(const struct text_job *job, uint64_t client, uint64_t request);
/* Frees the jobs that this client asked for; those of Generates too if `request` (their request_key) is not 0: then only
 * that one's. */
void text_queue_drop(struct text_queue *q, uint64_t client, uint64_t request);

#endif
