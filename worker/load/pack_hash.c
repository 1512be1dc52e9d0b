#include "worker/load/pack_hash.h"

#include <stdatomic.h>
#include <string.h>

#include "common/hash.h"

uint64_t pack_hash_piece(const void *data, size_t n)
{
    uint64_t lane[4] = {1, 2, 3, 4}, word[4];
    const char *p = data;
    size_t at = 0;
    for (; at + sizeof word <= n; at += sizeof word) {
        memcpy(word, p + at, sizeof word);
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word[i]) * 0x9e3779b97f4a7c15U;
            lane[i] ^= lane[i] >> 32;
        }
    }
    uint64_t h = hash_bytes(n, p + at, n - at);
    for (int i = 0; i < 4; i++)
        h = hash_mix(h ^ lane[i]) + (uint64_t)i;
    return h;
}

struct hash_job {
    const char *data;
    size_t n;
    _Atomic uint64_t sum;
};

static void add_piece(void *ctx, long i, int part)
{
    struct hash_job *job = ctx;
    size_t at = (size_t)i * PACK_HASH_PIECE,
           n = job->n - at < PACK_HASH_PIECE ? job->n - at : PACK_HASH_PIECE;
    (void)part;
    uint64_t number = hash_mix((uint64_t)i + 1);
    atomic_fetch_add(&job->sum, hash_mix(pack_hash_piece(job->data + at, n) + number));
}

uint64_t pack_hash(struct pool *pool, const void *data, size_t n)
{
    struct hash_job job = {.data = data, .n = n};
    pool_run_items(pool, (long)((n + PACK_HASH_PIECE - 1) / PACK_HASH_PIECE), add_piece, &job);
    return hash_mix(n) + atomic_load(&job.sum);
}
