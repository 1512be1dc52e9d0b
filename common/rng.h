/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers:
 * As Easy as 1, 2, 3, SC 2011).  The same (key, counter) gives the same words everywhere; there is
 * no state, so a draw can be repeated on any rank, in any batch, after any crash.  C and CUDA C++.
 */
#ifndef COMMON_RNG_H
#define COMMON_RNG_H

#include <stdint.h>

#include "common/dtype.h"

struct philox {
    uint32_t word[4];
};

NUMBER_FN struct philox philox4x32_10(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0, p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    struct philox out = {{c0, c1, c2, c3}};
    return out;
}

/* Uniform in [0, 1), a multiple of 2^-53; word 0 is the high one. */
NUMBER_FN double rng_uniform(uint64_t seed, uint64_t position)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    struct philox r = philox4x32_10(counter, key);
    return (double)(((uint64_t)r.word[0] << 32 | r.word[1]) >> 11) * 0x1p-53;
}

#endif
