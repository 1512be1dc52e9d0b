#include "worker/engine/kv_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"

static int32_t blocks_for(const struct kv_table *t, int32_t len)
{
    return (int32_t)(((int64_t)len + t->block_len - 1) / t->block_len);
}

enum status kv_table_init(struct kv_table *t, int32_t n_blocks, int32_t block_len, int32_t max_seqs,
                          int32_t max_ctx)
{
    size_t n;
    memset(t, 0, sizeof *t);
    if (n_blocks < 1 || block_len < 1 || max_seqs < 1 || max_ctx < 1)
        FAIL(ST_RANGE, "%d KV blocks of %d tokens for %d sequences of %d tokens", n_blocks,
             block_len, max_seqs, max_ctx);
    t->n_blocks = n_blocks;
    t->block_len = block_len;
    t->max_seqs = max_seqs;
    int64_t room = (int64_t)n_blocks * block_len;
    t->max_len = room < max_ctx ? (int32_t)room : max_ctx;
    t->max_blocks = blocks_for(t, t->max_len);
    if (!mul_size((size_t)max_seqs, (size_t)t->max_blocks, &n))
        FAIL(ST_RANGE, "%d sequences of %d KV blocks", max_seqs, t->max_blocks);
    t->seq = calloc((size_t)max_seqs, sizeof *t->seq);
    t->free = calloc((size_t)n_blocks, sizeof *t->free);
    t->blocks = calloc(n, sizeof *t->blocks);
    if (!t->seq || !t->free || !t->blocks) {
        kv_table_fini(t);
        FAIL(ST_NOMEM, "no memory for the tables of %d KV blocks", n_blocks);
    }
    for (int32_t i = 0; i < max_seqs; i++)
        t->seq[i].block = t->blocks + (size_t)i * (size_t)t->max_blocks;
    for (int32_t i = 0; i < n_blocks; i++)
        t->free[i] = n_blocks - 1 - i; /* block 0 goes first */
    t->n_free = n_blocks;
    return ST_OK;
}

void kv_table_fini(struct kv_table *t)
{
    free(t->seq);
    free(t->free);
    free(t->blocks);
    memset(t, 0, sizeof *t);
}

struct kv_seq *kv_find(struct kv_table *t, uint64_t id)
{
    for (int32_t i = 0; i < t->max_seqs; i++)
        if (t->seq[i].open && t->seq[i].id == id)
            return &t->seq[i];
    return NULL;
}

enum status kv_open(struct kv_table *t, uint64_t id, struct kv_seq **out)
{
    assert(!kv_find(t, id));
    for (int32_t i = 0; i < t->max_seqs; i++) {
        struct kv_seq *s = &t->seq[i];
        if (!s->open) {
            *s = (struct kv_seq){.id = id, .open = true, .slot = i, .block = s->block};
            *out = s;
            return ST_OK;
        }
    }
    FAIL(ST_NOMEM, "%d sequences are open: no room for another", t->max_seqs);
}

static void give_back(struct kv_table *t, struct kv_seq *s, int32_t keep)
{
    while (s->n_blocks > keep)
        t->free[t->n_free++] = s->block[--s->n_blocks];
}

void kv_close(struct kv_table *t, struct kv_seq *s)
{
    give_back(t, s, 0);
    s->open = false;
}

void kv_close_all(struct kv_table *t)
{
    for (int32_t i = 0; i < t->max_seqs; i++)
        if (t->seq[i].open)
            kv_close(t, &t->seq[i]);
}

int32_t kv_blocks_missing(const struct kv_table *t, const struct kv_seq *s, int32_t len)
{
    int32_t more = blocks_for(t, len) - (s ? s->n_blocks : 0);
    return more > 0 ? more : 0;
}

enum status kv_reserve(struct kv_table *t, struct kv_seq *s, int32_t len)
{
    if (len > t->max_len)
        FAIL(ST_NOMEM, "a sequence of %d tokens is over its KV budget of %d tokens", len,
             t->max_len);
    int32_t more = kv_blocks_missing(t, s, len);
    if (more > t->n_free)
        FAIL(ST_NOMEM,
             "%d KV blocks are needed and %d of the budget of %d (%d tokens each) are free", more,
             t->n_free, t->n_blocks, t->block_len);
    while (more-- > 0)
        s->block[s->n_blocks++] = t->free[--t->n_free];
    return ST_OK;
}

void kv_truncate(struct kv_table *t, struct kv_seq *s, int32_t len)
{
    assert(len >= 0 && len <= s->len);
    s->len = len;
    give_back(t, s, blocks_for(t, len > s->reserved ? len : s->reserved));
}
