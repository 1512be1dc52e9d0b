#include "collectives/doorbell.h"

#include "collectives/wait.h"

/* Sequentially consistent throughout: either the ringer sees the sleeper, or the sleeper (the
 * kernel, in word_wait) sees the ring. */
void doorbell_ring(struct doorbell *d)
{
    atomic_fetch_add(&d->rung, 1);
    if (atomic_load(&d->sleepers) > 0)
        word_wake_all(&d->rung);
}

bool doorbell_rung(struct doorbell *d, uint32_t heard)
{
    return atomic_load(&d->rung) != heard;
}

void doorbell_wait(struct doorbell *d, uint32_t heard, uint64_t timeout_us)
{
    atomic_fetch_add(&d->sleepers, 1);
    word_wait(&d->rung, heard, timeout_us);
    atomic_fetch_sub(&d->sleepers, 1);
}
