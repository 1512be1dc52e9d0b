#include "client/pull/stop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"

static volatile sig_atomic_t asked;

static void on_signal(int sig)
{
    (void)sig;
    asked = 1;
}

void stop_catch(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a failed write */
}

bool stop_asked(void)
{
    return asked;
}

enum status stop_check(void)
{
    if (asked)
        FAIL(ST_CANCELED, "interrupted; the same command goes on where this one ended");
    return ST_OK;
}

void stop_say_wait(uint64_t us, const char *subject)
{
    fprintf(stderr, "%s: the hub's rate limit is reached; going on in %" PRIu64 " s\n", subject,
            (us + 999999) / 1000000);
}

enum status stop_sleep(uint64_t us, const char *subject)
{
    uint64_t until = clock_us() + us;
    if (subject)
        stop_say_wait(us, subject);
    while (!asked && clock_us() < until)
        usleep(20000);
    return stop_check();
}
