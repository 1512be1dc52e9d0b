/* 64-bit hashes of host bytes: names, digests, chains.  Not for adversaries: whoever finds a match
 * by hash compares the bytes.  FNV-1a (Fowler, Noll, Vo) with the finisher of SplitMix64 (Steele et
 * al. 2014). */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t hash_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325U ^ hash_mix(seed);
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3U;
    return hash_mix(h);
}

#endif
