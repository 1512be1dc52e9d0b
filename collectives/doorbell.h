/* How rank 0 wakes the sleeping ranks of its host: a word that counts its rings, in a segment that
 * they share.  Rings are counted by the listeners too, so none is missed. */
#ifndef COLLECTIVES_DOORBELL_H
#define COLLECTIVES_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct doorbell { /* zero at first */
    _Atomic uint32_t rung, sleepers;
};

void doorbell_ring(struct doorbell *d);

/* Has it been rung more than `heard` times? */
bool doorbell_rung(struct doorbell *d, uint32_t heard);

/* Sleeps while it has not, at most timeout_us; may wake without cause. */
void doorbell_wait(struct doorbell *d, uint32_t heard, uint64_t timeout_us);

#endif
