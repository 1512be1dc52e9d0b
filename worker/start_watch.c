#include "worker/start_watch.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

struct start_watch {
    uint32_t ms;
    int exit_code;
    int end[2]; /* pipe: closing the writing end ends the thread */
    pthread_t thread;
};

static void *watch(void *arg)
{
    const struct start_watch *w = arg;
    uint64_t until = clock_us() + (uint64_t)w->ms * 1000U;
    char host[64] = "";
    struct pollfd end = {.fd = w->end[0], .events = POLLIN};
    for (;;) {
        uint64_t now = clock_us();
        if (now >= until)
            break;
        if (poll(&end, 1, (int)((until - now) / 1000U) + 1) > 0)
            return NULL;
    }
    gethostname(host, sizeof host - 1);
    log_line(LOG_ERROR,
             "the ranks have not reached each other within %u ms (this is host %s): if hosts have "
             "several networks, name one that connects them (mpirun --mca btl_tcp_if_include "
             "10.0.0.0/24 --mca oob_tcp_if_include 10.0.0.0/24); a firewall must let the ranks "
             "connect",
             w->ms, host);
    _Exit(w->exit_code);
}

enum status start_watch_begin(struct start_watch **out, uint32_t ms, int exit_code)
{
    *out = NULL;
    struct start_watch *w = malloc(sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for the watch of the start");
    *w = (struct start_watch){.ms = ms, .exit_code = exit_code};
    if (pipe(w->end) != 0) {
        free(w);
        FAIL(ST_IO, "cannot make a pipe");
    }
    int failed = thread_start(&w->thread, watch, w);
    if (failed) {
        close(w->end[0]);
        close(w->end[1]);
        free(w);
        FAIL(ST_NOMEM, "cannot start the watch of the start");
    }
    *out = w;
    return ST_OK;
}

void start_watch_end(struct start_watch *w)
{
    if (!w)
        return;
    close(w->end[1]);
    pthread_join(w->thread, NULL);
    close(w->end[0]);
    free(w);
}
