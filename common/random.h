/* Random numbers from the operating system, for ids and default seeds (not for sampling: see
 * rng.h). */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <stdint.h>

/* Never fails: aborts when the system has no entropy source. */
uint64_t random_u64(void);

#endif
