/* Which KV blocks belong to which sequence, for engine.h: a free list and one table a sequence,
 * sized at start.  Pure host data; one thread. */
#ifndef WORKER_ENGINE_KV_TABLE_H
#define WORKER_ENGINE_KV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct kv_seq {
    uint64_t id;
    bool open;
    int32_t slot;     /* its index in kv_table.seq */
    int32_t len;      /* tokens in the cache */
    int32_t reserved; /* tokens that keep their blocks whatever len is */
    int32_t n_blocks;
    int32_t *block; /* [max_blocks]; the first n_blocks are held */
};

struct kv_table {
    int32_t n_blocks, block_len, max_seqs;
    int32_t max_len;    /* tokens of one sequence */
    int32_t max_blocks; /* of one sequence */
    struct kv_seq *seq; /* [max_seqs] */
    int32_t *free;      /* stack of n_free blocks */
    int32_t n_free;
    int32_t *blocks; /* what the tables point into */
};

MUST_CHECK enum status kv_table_init(struct kv_table *t, int32_t n_blocks, int32_t block_len,
                                     int32_t max_seqs, int32_t max_ctx);
void kv_table_fini(struct kv_table *t);

/* NULL when there is none. */
struct kv_seq *kv_find(struct kv_table *t, uint64_t id);

/* ST_NOMEM when max_seqs are open; the id must not be. */
MUST_CHECK enum status kv_open(struct kv_table *t, uint64_t id, struct kv_seq **out);
void kv_close(struct kv_table *t, struct kv_seq *s);
void kv_close_all(struct kv_table *t);

/* Blocks that s (NULL: a new sequence) would have to take to hold len tokens. */
int32_t kv_blocks_missing(const struct kv_table *t, const struct kv_seq *s, int32_t len);

/* Room for len tokens; ST_NOMEM names the budget and changes nothing. */
MUST_CHECK enum status kv_reserve(struct kv_table *t, struct kv_seq *s, int32_t len);

/* Gives back the blocks behind len and behind the reservation; len <= s->len. */
void kv_truncate(struct kv_table *t, struct kv_seq *s, int32_t len);

#endif
