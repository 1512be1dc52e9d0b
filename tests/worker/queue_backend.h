/* A backend with a real queue, for tests: ops of the CPU backend are noted when they are called and
 * run when the host waits for them, as late as the contract of backend.h allows; so whatever is
 * overwritten too early shows.  It records graphs.  One at a time in a process. */
#ifndef TESTS_WORKER_QUEUE_BACKEND_H
#define TESTS_WORKER_QUEUE_BACKEND_H

#include "backends/backend.h"

/* Turns a CPU backend that was just opened into one with a queue. */
void queue_backend_wrap(struct backend *be);

/* While it stalls, waiting for an event computes nothing, as on a device that hangs. */
void queue_backend_stall(bool stall);

/* Since queue_backend_wrap: graphs launched, and the most ops that ever waited. */
int queue_backend_launches(void);
size_t queue_backend_depth(void);

#endif
