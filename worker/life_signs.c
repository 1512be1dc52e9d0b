#include "worker/life_signs.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *tell(void *arg)
{
    const struct timespec second = {.tv_sec = 1};
    char line[48];
    snprintf(line, sizeof line, "ingot-worker rank %d lives\n", (int)(intptr_t)arg);
    for (;;) {
        if (write(STDOUT_FILENO, line, strlen(line)) < 0) {
            /* the launcher has ended, or its pipe is full: this sign is lost */
        }
        nanosleep(&second, NULL);
    }
    return NULL;
}

enum status life_signs_begin(int rank)
{
    sigset_t all, before; /* signals are for the main thread */
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&thread, NULL, tell, (void *)(intptr_t)rank);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        FAIL(ST_NOMEM, "cannot start the thread of --signs-of-life");
    pthread_detach(thread);
    return ST_OK;
}
