/* The requests that the journal has of the process before.  They are read at the start, and carried on once a worker
 * group computes the same bits; their clients attach to them later.  One thread (the loop). */
#ifndef COORDINATOR_RECOVERY_H
#define COORDINATOR_RECOVERY_H

#include "coordinator/coordinator.h"

/* How long such a request goes on without its client, and how long its answer is kept. */
#define RECOVERED_KEEP_US (UINT64_C(600) * 1000 * 1000)

/* Opens the journal and reads it.  ST_RANGE, ST_NOMEM, ST_IO: the server must not start. */
MUST_CHECK enum status recovery_open(struct coordinator *co);
void recovery_close(struct coordinator *co);
/* Gives the requests to the text thread, as soon as a group serves whose weights are known. */
void recovery_tend(struct coordinator *co, uint64_t now_us);
/* Will it be carried on? */
bool recovery_has(const struct coordinator *co, const struct owner *owner, const char *id);
/* Writes r, which is about to be submitted, to the journal.  request: its Generate (text_job.h).  ST_NOMEM. */
MUST_CHECK enum status recovery_admit(struct coordinator *co, struct request *r,
                                      struct wire_bytes request, uint64_t now_us);
/* May what serves continue r, which the journal had, with the same bits? */
MUST_CHECK enum status recovery_check(struct coordinator *co, struct request *r,
                                      const char **field);
/* The journal did not take what was admitted in this turn: these requests are refused. */
void recovery_refuse(struct coordinator *co, uint64_t now_us);
/* What computes from now on, for the journal. */
void recovery_served(struct coordinator *co);

#endif
