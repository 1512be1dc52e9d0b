#include "collectives/wait.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { KEEP_US = 50, SLEEP_MIN_US = 50, SLEEP_MAX_US = 1000 };

static struct timespec timespec_of_us(uint64_t us)
{
    return (struct timespec){.tv_sec = (time_t)(us / 1000000U),
                             .tv_nsec = (long)(us % 1000000U) * 1000L};
}

static void sleep_us(uint64_t us)
{
    struct timespec t = timespec_of_us(us);
    nanosleep(&t, NULL);
}

uint32_t wait_keep_us(int local_world)
{
    return local_world <= sysconf(_SC_NPROCESSORS_ONLN) ? KEEP_US : 0;
}

void backoff_start(struct backoff *b, uint32_t keep_us, uint32_t spin_us)
{
    *b = (struct backoff){.start_us = clock_us(),
                          .keep_us = keep_us < spin_us ? keep_us : spin_us,
                          .spin_us = spin_us,
                          .sleep_us = SLEEP_MIN_US};
}

uint64_t backoff_pause(struct backoff *b)
{
    uint64_t waited = clock_us() - b->start_us;
    if (waited < b->spin_us) {
        if (waited < b->keep_us)
            wait_relax();
        else
            sched_yield();
        return waited;
    }
    sleep_us(b->sleep_us);
    b->sleep_us += b->sleep_us / 2;
    if (b->sleep_us > SLEEP_MAX_US)
        b->sleep_us = SLEEP_MAX_US;
    return clock_us() - b->start_us;
}

#ifdef __linux__
void word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_us)
{
    struct timespec t = timespec_of_us(timeout_us);
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void word_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
#else
void word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_us)
{
    if (atomic_load(word) == seen)
        sleep_us(timeout_us < 200 ? timeout_us : 200);
}

void word_wake_all(_Atomic uint32_t *word)
{
    (void)word; /* waiters look again by themselves */
}
#endif
