/* Threads beside a program's main thread. */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

/* pthread_create of a thread that takes no signals: they are for the main thread, whose waiting they end.
 * Signals that its own faults raise still reach it.  0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
