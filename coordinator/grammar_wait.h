/* Requests whose grammars the ranks compile: they are admitted when all groups that serve have compiled them, so that no step
 * of other requests waits.  In the order of their arrival; one thread (the loop). */
#ifndef COORDINATOR_GRAMMAR_WAIT_H
#define COORDINATOR_GRAMMAR_WAIT_H

#include "coordinator/coordinator.h"
#include "coordinator/text_job.h"

/* Takes the job of a Generate until its grammar is compiled; false: it need not wait. */
bool grammar_wait_begin(struct coordinator *co, struct text_job *job);
/* The next job whose wait is over, or whose request is gone; NULL: none.  Free it with text_job_free. */
struct text_job *grammar_wait_next(struct coordinator *co);
/* Drops all. */
void grammar_wait_end(struct coordinator *co);

#endif
