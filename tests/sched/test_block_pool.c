/* The block pool and the exactness of its prefix table. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/hash.h"
#include "coordinator/sched/block_pool.h"

enum { N = 6 };

static struct block blocks[N];
static int32_t tokens[N * 4];
static int32_t buckets[8];
static struct block_pool pool;

static void start(uint32_t block_len)
{
    pool = (struct block_pool){.block_len = block_len,
                               .n_buckets = 8,
                               .blocks = blocks,
                               .tokens = tokens,
                               .buckets = buckets};
    block_pool_reset(&pool, N);
}

Test(block_pool, counts)
{
    int32_t taken[N];
    start(1);
    for (int32_t t = 0; t < N; t++) {
        struct prefix_key key = {.parent = 0};
        taken[t] = block_pool_take(&pool);
        if (t < 3)
            prefix_add(&pool, taken[t], &key, &t);
    }
    cr_assert_eq(block_pool_available(&pool), 0u);
    for (int t = 0; t < N; t++)
        block_pool_release(&pool, taken[t]);
    cr_assert_eq(pool.n_cached, 3u);
    cr_assert_eq(pool.n_free, 3u);
    cr_assert_eq(pool.n_held, 0u);
}

/* Free blocks go first, then the cached one that was released longest ago. */
Test(block_pool, evicts_the_least_recently_released)
{
    struct prefix_key key = {.parent = 0};
    int32_t b[N];
    start(1);
    for (int32_t t = 0; t < N; t++) {
        b[t] = block_pool_take(&pool);
        prefix_add(&pool, b[t], &key, &t);
    }
    const int order[N] = {3, 0, 5, 1, 2, 4};
    for (int i = 0; i < N; i++)
        block_pool_release(&pool, b[order[i]]);
    block_pool_share(&pool, b[3]); /* used again: now the last to go */
    block_pool_release(&pool, b[3]);
    for (int i = 1; i < N; i++) {
        int32_t t = order[i];
        cr_assert_eq(block_pool_take(&pool), b[t]);
        cr_assert_eq(prefix_find(&pool, &key, &t), -1, "an evicted block is still found");
    }
    int32_t three = 3;
    cr_assert_eq(prefix_find(&pool, &key, &three), b[3]);
}

/* The same prefix in two blocks: one is known, both continue to the same successor. */
Test(block_pool, twins_have_one_prefix)
{
    struct prefix_key root = {.salt = 9};
    int32_t t[2] = {1, 2}, u[2] = {3, 4};
    start(2);
    int32_t a = block_pool_take(&pool), b = block_pool_take(&pool), c = block_pool_take(&pool);
    uint64_t id = prefix_add(&pool, a, &root, t);
    cr_assert_eq(prefix_add(&pool, b, &root, t), id);
    cr_assert_eq(blocks[b].prefix_id, 0u);
    struct prefix_key next = {.salt = 9, .parent = id};
    prefix_add(&pool, c, &next, u);
    cr_assert_eq(prefix_find(&pool, &root, t), a);
    cr_assert_eq(prefix_find(&pool, &next, u), c);
}

/* x with hash_mix(x) = y. */
static uint64_t unmix(uint64_t y)
{
    y ^= y >> 31 ^ y >> 62;
    y *= 0x319642b2d24d8ec3U; /* inverse of 0x94d049bb133111eb modulo 2^64 */
    y ^= y >> 27 ^ y >> 54;
    y *= 0x96de1b173f119089U; /* inverse of 0xbf58476d1ce4e5b9 */
    return y ^ y >> 30 ^ y >> 60;
}

/* Keys with the same 64-bit hash that differ in one part each: never taken for each other. */
Test(block_pool, hash_collisions_do_not_hit)
{
    const uint64_t c = 0x9e3779b97f4a7c15U;
    struct prefix_key key = {.salt = 5, .group = 6, .parent = 7};
    int32_t t = 40, u = 41;
    start(1);
    cr_assert_eq(unmix(hash_mix(1234567891011U)), 1234567891011U);
    int32_t b = block_pool_take(&pool);
    prefix_add(&pool, b, &key, &t);
    cr_assert_eq(prefix_find(&pool, &key, &t), b);

    uint64_t h0 = hash_mix(key.salt + c), h1 = hash_mix(h0 ^ key.group);
    uint64_t h2 = hash_mix(h1 ^ key.parent);
    /* another token, and a parent that makes up for it */
    struct prefix_key other_token = key;
    other_token.parent = unmix(h2 - 1) ^ h1;
    cr_assert_eq(hash_mix(hash_mix(h1 ^ other_token.parent) + c + (uint32_t)u), blocks[b].hash);
    cr_assert_eq(prefix_find(&pool, &other_token, &u), -1, "parent is not compared");
    blocks[b].key.parent = other_token.parent; /* the token is the only difference left */
    cr_assert_eq(prefix_find(&pool, &other_token, &u), -1, "tokens are not compared");
    blocks[b].key.parent = key.parent;
    /* another salt, and a group that makes up for it */
    struct prefix_key other_salt = {.salt = 8, .parent = 7};
    other_salt.group = hash_mix(other_salt.salt + c) ^ h0 ^ key.group;
    cr_assert_eq(hash_mix(hash_mix(8 + c) ^ other_salt.group), h1);
    cr_assert_eq(prefix_find(&pool, &other_salt, &t), -1, "salt and group are not compared");
    blocks[b].key.group = other_salt.group;
    cr_assert_eq(prefix_find(&pool, &other_salt, &t), -1, "salt is not compared");
    blocks[b].key = key;
    blocks[b].key.salt = other_salt.salt;
    cr_assert_eq(prefix_find(&pool, &other_salt, &t), -1, "group is not compared");
    /* another group, and a parent that makes up for it */
    struct prefix_key other_parent = {.salt = 5, .group = 1};
    other_parent.parent = hash_mix(h0 ^ other_parent.group) ^ h1 ^ key.parent;
    blocks[b].key = key;
    cr_assert_eq(prefix_find(&pool, &key, &t), b);
    blocks[b].key.group = other_parent.group;
    cr_assert_eq(prefix_find(&pool, &other_parent, &t), -1, "parent is not compared");
    blocks[b].key.parent = other_parent.parent;
    cr_assert_eq(prefix_find(&pool, &other_parent, &t), b, "the keys do not collide");
}
