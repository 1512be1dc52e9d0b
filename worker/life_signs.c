#include "worker/life_signs.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/thread.h"

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
    pthread_t thread;
    int failed = thread_start(&thread, tell, (void *)(intptr_t)rank);
    if (failed)
        FAIL(ST_NOMEM, "cannot start the thread of --signs-of-life");
    pthread_detach(thread);
    return ST_OK;
}
