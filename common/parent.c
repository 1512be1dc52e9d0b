#include "common/parent.h"

#include <signal.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>

enum status die_with_parent_across_exec(void)
{
    pid_t parent = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        FAIL(ST_IO, "cannot bind this process's life to its parent's");
    if (getppid() != parent)
        FAIL(ST_PEER, "the parent process has died");
    return ST_OK;
}

enum status die_with_parent(void)
{
    return die_with_parent_across_exec();
}
#else
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "common/thread.h"

enum status die_with_parent_across_exec(void)
{
    FAIL(ST_UNSUPPORTED, "ending with the parent process across exec needs Linux");
}

/* A process whose parent has ended gets another. */
static void *watch_parent(void *arg)
{
    pid_t parent = (pid_t)(intptr_t)arg;
    const struct timespec pause = {.tv_nsec = 100000000};
    while (getppid() == parent)
        nanosleep(&pause, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

enum status die_with_parent(void)
{
    pthread_t thread;
    pid_t parent = getppid();
    if (parent == 1)
        FAIL(ST_PEER, "the parent process has died");
    int e = thread_start(&thread, watch_parent, (void *)(intptr_t)parent);
    if (e != 0)
        FAIL(ST_IO, "cannot bind this process's life to its parent's");
    pthread_detach(thread);
    return ST_OK;
}
#endif
