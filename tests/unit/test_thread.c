/* Threads beside the main thread take no signals of the process. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

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

static void *send_and_wait(void *arg)
{
    (void)arg;
    kill(getpid(), SIGUSR1);
    while (!seen)
        usleep(1000);
    return NULL;
}

Test(thread, only_faults_reach_it)
{
    static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM, SIGPIPE},
                     faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    pthread_t t;
    sigset_t in_thread, before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    cr_assert_eq(thread_start(&t, take_mask, &in_thread), 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
        cr_expect(sigismember(&in_thread, blocked[i]), "signal %d", blocked[i]);
        cr_expect_eq(sigismember(&before, blocked[i]), sigismember(&after, blocked[i]),
                     "the caller's signal %d", blocked[i]);
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        cr_expect(!sigismember(&in_thread, faults[i]), "signal %d", faults[i]);
}

Test(thread, the_main_thread_takes_a_signal_that_another_sends)
{
    pthread_t t;
    struct sigaction on = {.sa_handler = on_signal};
    main_thread = pthread_self();
    cr_assert_eq(sigaction(SIGUSR1, &on, NULL), 0);
    cr_assert_eq(thread_start(&t, send_and_wait, NULL), 0);
    cr_assert_eq(pthread_join(t, NULL), 0);
    cr_expect_eq(seen, 1, "the signal went to the other thread");
}
