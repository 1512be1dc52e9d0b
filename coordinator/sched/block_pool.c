#include "coordinator/sched/block_pool.h"

#include <assert.h>
#include <string.h>

#include "common/hash.h"

void block_pool_reset(struct block_pool *p, uint32_t n_blocks)
{
    p->n_blocks = n_blocks;
    p->n_free = n_blocks;
    p->n_held = 0;
    p->n_cached = 0;
    p->free_head = n_blocks ? 0 : -1;
    p->lru_head = -1;
    p->lru_tail = -1;
    snapshot_pool_reset(&p->snapshots, n_blocks);
    for (uint32_t i = 0; i < n_blocks; i++) {
        p->blocks[i] = (struct block){.prev = -1, .chain = -1};
        p->blocks[i].next = i + 1 < n_blocks ? (int32_t)i + 1 : -1;
    }
    for (uint32_t i = 0; i < p->n_buckets; i++)
        p->buckets[i] = -1;
}

static int32_t *block_tokens(const struct block_pool *p, int32_t b)
{
    return p->tokens + (size_t)b * p->block_len;
}

static void lru_unlink(struct block_pool *p, int32_t b)
{
    struct block *k = &p->blocks[b];
    *(k->prev < 0 ? &p->lru_head : &p->blocks[k->prev].next) = k->next;
    *(k->next < 0 ? &p->lru_tail : &p->blocks[k->next].prev) = k->prev;
    k->next = -1;
    k->prev = -1;
    p->n_cached--;
}

static void lru_append(struct block_pool *p, int32_t b)
{
    struct block *k = &p->blocks[b];
    k->next = -1;
    k->prev = p->lru_tail;
    *(p->lru_tail < 0 ? &p->lru_head : &p->blocks[p->lru_tail].next) = b;
    p->lru_tail = b;
    p->n_cached++;
}

static void forget(struct block_pool *p, int32_t b)
{
    struct block *k = &p->blocks[b];
    int32_t *link = &p->buckets[k->hash & (p->n_buckets - 1)];
    while (*link != b)
        link = &p->blocks[*link].chain;
    *link = k->chain;
    k->chain = -1;
    k->prefix_id = 0;
    snapshot_forget(&p->snapshots, b);
}

int32_t block_pool_take(struct block_pool *p)
{
    int32_t b = p->free_head;
    if (b >= 0) {
        p->free_head = p->blocks[b].next;
        p->blocks[b].next = -1;
        p->n_free--;
    } else {
        b = p->lru_head;
        assert(b >= 0 && "block_pool_take without an available block");
        lru_unlink(p, b);
        forget(p, b);
    }
    assert(p->blocks[b].n_refs == 0 && p->blocks[b].prefix_id == 0);
    p->blocks[b].n_refs = 1;
    p->n_held++;
    return b;
}

void block_pool_share(struct block_pool *p, int32_t b)
{
    struct block *k = &p->blocks[b];
    assert(k->prefix_id != 0 && "only a known block is shared");
    if (k->n_refs++ == 0) {
        lru_unlink(p, b);
        p->n_held++;
    }
}

void block_pool_release(struct block_pool *p, int32_t b)
{
    struct block *k = &p->blocks[b];
    assert(k->n_refs > 0);
    if (--k->n_refs > 0)
        return;
    p->n_held--;
    if (k->prefix_id) {
        lru_append(p, b);
        return;
    }
    k->next = p->free_head;
    p->free_head = b;
    p->n_free++;
}

static uint64_t prefix_hash(const struct prefix_key *key, const int32_t *tokens, uint32_t n)
{
    uint64_t h = hash_mix(key->salt + 0x9e3779b97f4a7c15u);
    h = hash_mix(h ^ key->group);
    h = hash_mix(h ^ key->parent);
    for (uint32_t i = 0; i < n; i++)
        h = hash_mix(h + 0x9e3779b97f4a7c15u + (uint32_t)tokens[i]);
    return h;
}

static bool same_prefix(const struct block_pool *p, int32_t b, const struct prefix_key *key,
                        const int32_t *tokens)
{
    const struct prefix_key *k = &p->blocks[b].key;
    return k->parent == key->parent && k->salt == key->salt && k->group == key->group &&
           memcmp(block_tokens(p, b), tokens, p->block_len * sizeof *tokens) == 0;
}

static int32_t find(const struct block_pool *p, const struct prefix_key *key, const int32_t *tokens,
                    uint64_t hash)
{
    int32_t b = p->buckets[hash & (p->n_buckets - 1)];
    while (b >= 0 && !(p->blocks[b].hash == hash && same_prefix(p, b, key, tokens)))
        b = p->blocks[b].chain;
    return b;
}

int32_t prefix_find(const struct block_pool *p, const struct prefix_key *key, const int32_t *tokens)
{
    return find(p, key, tokens, prefix_hash(key, tokens, p->block_len));
}

static void insert(struct block_pool *p, int32_t b, const struct prefix_key *key, uint64_t hash,
                   uint64_t prefix_id)
{
    struct block *k = &p->blocks[b];
    int32_t *head = &p->buckets[hash & (p->n_buckets - 1)];
    k->hash = hash;
    k->key = *key;
    k->prefix_id = prefix_id;
    k->chain = *head;
    *head = b;
}

uint64_t prefix_add(struct block_pool *p, int32_t b, const struct prefix_key *key,
                    const int32_t *tokens)
{
    assert(p->blocks[b].n_refs > 0 && p->blocks[b].prefix_id == 0);
    uint64_t hash = prefix_hash(key, tokens, p->block_len);
    int32_t old = find(p, key, tokens, hash);
    if (old >= 0)
        return p->blocks[old].prefix_id;
    memcpy(block_tokens(p, b), tokens, p->block_len * sizeof *tokens);
    insert(p, b, key, hash, ++p->last_prefix_id);
    return p->last_prefix_id;
}

bool prefix_restore(struct block_pool *p, int32_t b, const struct prefix_key *key,
                    uint64_t prefix_id)
{
    uint64_t hash = prefix_hash(key, block_tokens(p, b), p->block_len);
    if (find(p, key, block_tokens(p, b), hash) >= 0)
        return false;
    insert(p, b, key, hash, prefix_id);
    return true;
}
