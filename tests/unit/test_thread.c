/* Threads beside the main thread take no signals of the process. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "common/status.h"
#include "common/thread.h"

TestSuite(thread, .timeout = 60);

static pthread_t main_thread;
static volatile sig_atomic_t seen; /* 1: by the main thread, 2: by another */

static void on_signal(int signal)
{
    (void)signal;
    seen = pthread_equal(pthread_self(), main_thread) ? 1 : 2;
}

static void *take_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return arg;
}

/* Sends the process a signal when there is a byte in the pipe. */
static void *send_signal(void *arg)
{
    char byte;
    const int *pipe_end = arg;
    if (read(*pipe_end, &byte, 1) == 1)
        kill(getpid(), SIGUSR1);
    return NULL;
}

Test(thread, only_faults_reach_it)
{
    static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM, SIGPIPE},
                     faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    pthread_t t;
    sigset_t in_thread, before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    cr_assert_eq(thread_start(&t, take_mask, &in_thread), 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < ARRAY_LEN(blocked); i++) {
        cr_expect(sigismember(&in_thread, blocked[i]), "signal %d", blocked[i]);
        cr_expect_eq(sigismember(&before, blocked[i]), sigismember(&after, blocked[i]),
                     "the caller's signal %d", blocked[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(faults); i++)
        cr_expect(!sigismember(&in_thread, faults[i]), "signal %d", faults[i]);
}

/* A thread that may take the signal would: the main thread blocks it meanwhile. */
Test(thread, a_signal_waits_for_the_main_thread)
{
    pthread_t t;
    int pipe_ends[2];
    sigset_t usr1;
    struct sigaction on = {.sa_handler = on_signal};
    main_thread = pthread_self();
    cr_assert_eq(pipe(pipe_ends), 0);
    cr_assert_eq(sigaction(SIGUSR1, &on, NULL), 0);
    cr_assert_eq(thread_start(&t, send_signal, &pipe_ends[0]), 0);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    cr_assert_eq(write(pipe_ends[1], "x", 1), 1);
    cr_assert_eq(pthread_join(t, NULL), 0);
    cr_expect_eq(seen, 0, "the thread took it");
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    cr_expect_eq(seen, 1);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}
