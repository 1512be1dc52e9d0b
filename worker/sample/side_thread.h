/* A thread beside the rank's main thread that does one job at a time.  Called by the main thread. */
#ifndef WORKER_SAMPLE_SIDE_THREAD_H
#define WORKER_SAMPLE_SIDE_THREAD_H

#include "common/status.h"

struct side_thread;

typedef enum status side_fn(void *ctx);

/* ST_NOMEM. */
MUST_CHECK enum status side_thread_create(struct side_thread **out);
/* When no job is under way.  NULL is fine. */
void side_thread_destroy(struct side_thread *t);

/* Starts fn(ctx); each start is followed by one end. */
void side_thread_begin(struct side_thread *t, side_fn *fn, void *ctx);
/* Waits for the job: its status, with its text. */
MUST_CHECK enum status side_thread_end(struct side_thread *t);

#endif
