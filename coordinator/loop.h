/* The coordinator's loop over its sockets, the text service and the signals.  Called by main. */
#ifndef COORDINATOR_LOOP_H
#define COORDINATOR_LOOP_H

#include "coordinator/coordinator.h"

enum {
    COORDINATOR_UNFINISHED = 4 /* exit code: requests failed because the drain's time ran out */
};

MUST_CHECK enum status coordinator_open(struct coordinator *co,
                                        const struct coordinator_config *cfg);
void coordinator_close(struct coordinator *co);

/* Runs until drained.  stop_fd becomes readable when the process was asked to end (once: drain;
 * twice: end now).  Returns the exit code. */
int coordinator_run(struct coordinator *co, int stop_fd);

#endif
