/* How a rank waits for another: first by spinning, then by giving its core away, then asleep.  Used
 * by all collectives and the control plane; no state outside the caller's. */
#ifndef COLLECTIVES_WAIT_H
#define COLLECTIVES_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/* A hint to the core that it spins. */
static inline void wait_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ __volatile__("pause");
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* How long a rank among `local_world` on this host keeps its core to itself while it waits: 50 us,
 * or 0 with more ranks than cores, where the one waited for may need this core.  Afterwards it
 * yields, which on a busy machine costs it a time slice. */
uint32_t wait_keep_us(int local_world);

/* Polling with growing pauses: keeps the core for keep_us, yields until spin_us, then sleeps 50 us
 * growing to 1 ms. */
struct backoff {
    uint64_t start_us;
    uint32_t keep_us, spin_us, sleep_us;
};

void backoff_start(struct backoff *b, uint32_t keep_us, uint32_t spin_us);

/* One pause.  Returns the microseconds since backoff_start. */
uint64_t backoff_pause(struct backoff *b);

/* Sleeps while *word == seen, until woken, at most timeout_us; may wake without cause.  The word
 * may lie in memory that processes share.  Where the system has no such wait it sleeps at most 200
 * us. */
void word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_us);
void word_wake_all(_Atomic uint32_t *word);

#endif
