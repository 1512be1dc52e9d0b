/* A deadline for the first contact between ranks.  MPI waits for ever when the ranks try to reach
 * each other over a network that does not connect them (equal addresses of bridges, a firewall).
 *
 * A thread waits; when start_watch_end was not called in time it logs the cause and ends the
 * process. */
#ifndef WORKER_START_WATCH_H
#define WORKER_START_WATCH_H

#include <stdint.h>

#include "common/status.h"

struct start_watch;

/* Begins: after ms milliseconds the process exits with exit_code. */
MUST_CHECK enum status start_watch_begin(struct start_watch **out, uint32_t ms, int exit_code);
/* The ranks have reached each other; w may be NULL. */
void start_watch_end(struct start_watch *w);

#endif
