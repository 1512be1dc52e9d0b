/* What becomes of requests in the journal (journal/journal.h): each is written before its client is told that it was
 * accepted.  One thread (the loop). */
#ifndef COORDINATOR_ADMISSIONS_H
#define COORDINATOR_ADMISSIONS_H

#include "coordinator/coordinator.h"

/* Opens the journal and reads what the process before has left (co->recovered).  ST_RANGE, ST_NOMEM, ST_IO: the server
 * must not start. */
MUST_CHECK enum status admissions_open(struct coordinator *co);
void admissions_close(struct coordinator *co);
/* Writes r, which is about to be submitted.  request: its Generate (text_job.h).  ST_NOMEM. */
MUST_CHECK enum status admissions_add(struct coordinator *co, struct request *r,
                                      struct wire_bytes request, uint64_t now_us);
/* The journal did not take what was added in this turn of the loop: these requests are refused. */
void admissions_refuse(struct coordinator *co, uint64_t now_us);
/* What computes from now on. */
void admissions_served(struct coordinator *co);

#endif
