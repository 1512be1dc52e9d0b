/* A control plane among threads: in place of collectives/control.c, for collectives whose ranks are
 * threads of a test. */
#ifndef TESTS_COLL_THREAD_CONTROL_H
#define TESTS_COLL_THREAD_CONTROL_H

#include "collectives/control.h"

/* Before the threads: how many take part.  hook (or NULL) is called by each rank at the beginning of
 * each control_min_u64. */
void thread_control_start(int world, void (*hook)(void));
/* By each thread: its rank. */
void thread_control_join(int rank);

#endif
