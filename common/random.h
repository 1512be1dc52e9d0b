/* Random numbers from the operating system, for ids and default seeds (not for sampling: see
 * rng.h). */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Never fail: they abort when the system has no entropy source.  n: at most 256 bytes. */
void random_bytes(void *out, size_t n);
uint64_t random_u64(void);

#endif
