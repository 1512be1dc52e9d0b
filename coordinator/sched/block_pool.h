/* The KV blocks and the prefix cache over them.  Bookkeeping only: the contents are on the ranks.
 *
 * A block is free, held (n_refs > 0) or cached (n_refs 0, contents known, can be found).  A full
 * block becomes known under the key (salt, group, parent, tokens), where parent is the prefix_id of
 * the block before it.  Ids are never reused and the tokens are compared, so a find is exact and
 * does not depend on hashes.  Two sequences that computed the same prefix at the same time have two
 * blocks for it but one prefix_id, so both continue the same chain of keys.
 *
 * Part of the scheduler's single allocation; asserts on misuse; one thread. */
#ifndef COORDINATOR_SCHED_BLOCK_POOL_H
#define COORDINATOR_SCHED_BLOCK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/sched/snapshot_pool.h"

struct prefix_key {
    uint64_t salt, group;
    uint64_t parent; /* prefix_id of the block before, 0 = first block */
};

struct block {
    uint32_t n_refs;
    int32_t next,
        prev;      /* in the free list (next only) or the LRU list of cached blocks; -1 = end */
    int32_t chain; /* next in the bucket */
    uint64_t prefix_id; /* 0 = not known */
    uint64_t hash;
    struct prefix_key key;
};

struct block_pool {
    uint32_t n_blocks, block_len;
    uint32_t n_free, n_held, n_cached;     /* together n_blocks */
    int32_t free_head, lru_head, lru_tail; /* lru_head is the next to be evicted */
    uint32_t n_buckets;                    /* power of two */
    uint64_t last_prefix_id;
    struct block *blocks;           /* [n_blocks] */
    int32_t *tokens;                /* [n_blocks, block_len], valid while the block is known */
    int32_t *buckets;               /* [n_buckets] first block or -1 */
    struct snapshot_pool snapshots; /* of states behind known blocks */
};

/* Makes n_blocks free blocks; forgets everything.  The arrays must be there and large enough. */
void block_pool_reset(struct block_pool *p, uint32_t n_blocks);

/* How many take() calls will succeed. */
static inline uint32_t block_pool_available(const struct block_pool *p)
{
    return p->n_free + p->n_cached;
}

/* A block with one reference and unknown contents; evicts the least recently released cached block
 * when none is free.  Needs block_pool_available() > 0. */
int32_t block_pool_take(struct block_pool *p);

/* One more holder of a known block. */
void block_pool_share(struct block_pool *p, int32_t b);

/* One holder less.  At none the block is cached when known, else free. */
void block_pool_release(struct block_pool *p, int32_t b);

/* The known block of that key and those block_len tokens, or -1. */
int32_t prefix_find(const struct block_pool *p, const struct prefix_key *key,
                    const int32_t *tokens);

/* Says that held block b now contains those block_len tokens.  Returns the prefix_id, which is an
 * older block's when the same prefix is known already (b then stays unknown). */
uint64_t prefix_add(struct block_pool *p, int32_t b, const struct prefix_key *key,
                    const int32_t *tokens);

/* Makes block b known as it was when it had that prefix_id (save.c).  False when another block
 * has the same key and tokens already.  The tokens are in place. */
bool prefix_restore(struct block_pool *p, int32_t b, const struct prefix_key *key,
                    uint64_t prefix_id);

#endif
