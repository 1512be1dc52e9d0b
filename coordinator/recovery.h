/* The requests of the process before, which the journal had: they are carried on once a worker group computes the same
 * bits, and their clients attach to them later.  One thread (the loop). */
#ifndef COORDINATOR_RECOVERY_H
#define COORDINATOR_RECOVERY_H

#include "coordinator/coordinator.h"

/* How long such a request goes on without its client, and how long its answer is kept. */
#define RECOVERED_KEEP_US (UINT64_C(600) * 1000 * 1000)

/* Gives the requests to the text thread, as soon as a group serves whose weights are known. */
void recovery_tend(struct coordinator *co, uint64_t now_us);
/* Will it be carried on? */
bool recovery_has(const struct coordinator *co, const struct owner *owner, const char *id);
/* May what serves continue r, which the journal had, with the same bits? */
MUST_CHECK enum status recovery_check(struct coordinator *co, struct request *r,
                                      const char **field);

#endif
