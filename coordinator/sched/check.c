#include <assert.h>
#include <stdlib.h>

#include "coordinator/sched/internal.h"

static uint32_t check_list(const struct sched *s, const struct seq_list *l, enum seq_state state)
{
    uint32_t n = 0;
    int32_t before = -1;
    for (int32_t i = l->head; i >= 0; before = i, i = s->seqs[i].next, n++) {
        assert(n < s->max_slots);
        assert(s->seqs[i].state == state);
        assert(s->seqs[i].prev == before);
        assert(before < 0 || seq_before(&s->seqs[before], &s->seqs[i]));
        assert(seq_find(s, s->seqs[i].req.seq_id) == i);
    }
    assert(l->tail == before && l->n == n);
    return n;
}

static void check_slots(const struct sched *s)
{
    uint64_t tokens = 0;
    uint32_t n = check_list(s, &s->waiting, SEQ_WAITING) + check_list(s, &s->running, SEQ_RUNNING);
    for (int32_t i = s->free_slot; i >= 0; i = s->seqs[i].next, n++)
        assert(n < s->max_slots && s->seqs[i].state == SEQ_NONE);
    assert(n == s->max_slots);
    for (int32_t i = s->waiting.head; i >= 0; i = s->seqs[i].next)
        tokens += s->seqs[i].n_known;
    assert(tokens == s->waiting_tokens);
    assert(s->running.n + s->n_free_rows == s->cfg.max_seqs);
    assert(s->n_closes <= s->cfg.max_seqs);
}

static void check_seq(const struct sched *s, const struct seq *q)
{
    uint32_t bl = s->cfg.block_len;
    assert(q->n_known < q->n_end && q->n_end <= s->cfg.max_ctx);
    assert(q->n_known + q->ahead <= q->n_end && q->ahead <= s->cfg.max_inflight);
    assert(blocks_for(s, q->n_end - 1) <= s->pool.n_blocks);
    if (q->state == SEQ_WAITING) {
        assert(q->n_table == 0 && q->pos == 0 && q->done == 0 && !q->table);
        return;
    }
    assert(!q->front);
    assert(q->done <= q->pos);
    assert(q->ahead ? q->pos == q->n_known + q->ahead - 1 : q->pos < q->n_known);
    assert(q->n_table == blocks_for(s, q->pos) && q->n_table <= s->max_table);
    assert(q->n_hashed == (seq_shares(s, q) ? q->done / bl : 0));
    for (uint32_t k = 0; k < q->n_table; k++) {
        const struct block *b = &s->pool.blocks[q->table[k]];
        assert(b->n_refs > 0);
        if (k >= q->n_hashed) /* it is or may be written */
            assert(b->n_refs == 1 && b->prefix_id == 0);
    }
}

static void check_flights(const struct sched *s)
{
    assert(s->n_flights <= s->cfg.max_inflight);
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next) {
        uint32_t n = 0, want = 0;
        for (uint32_t f = 0; f < s->n_flights; f++)
            for (uint32_t k = 0; k < s->flights[f].n; k++) {
                const struct flight_seq *fs = &s->flights[f].seqs[k];
                if (fs->slot != i)
                    continue;
                assert(fs->seq_id == s->seqs[i].req.seq_id);
                n += fs->kv_lost ? 0 : fs->n_tokens;
                want += fs->want;
            }
        assert(n == s->seqs[i].pos - s->seqs[i].done);
        assert(want == s->seqs[i].ahead);
    }
    for (uint32_t f = 0; f < s->n_flights; f++) {
        uint64_t n = 0;
        for (uint32_t k = 0; k < s->flights[f].n; k++)
            n += s->flights[f].seqs[k].n_tokens;
        assert(n > 0 && n <= s->cfg.max_step_tokens);
    }
}

static void check_pool(const struct sched *s)
{
    const struct block_pool *p = &s->pool;
    uint32_t *holders = calloc((size_t)p->n_blocks + 1, sizeof *holders);
    uint32_t n_free = 0, n_held = 0, n_cached = 0, n_known = 0, n_found = 0;
    assert(holders);
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        for (uint32_t k = 0; k < s->seqs[i].n_table; k++)
            holders[s->seqs[i].table[k]]++;
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        assert(p->blocks[b].n_refs == holders[b]);
        n_held += holders[b] > 0;
        n_known += p->blocks[b].prefix_id != 0;
    }
    free(holders);
    for (int32_t b = p->free_head; b >= 0; b = p->blocks[b].next, n_free++)
        assert(n_free < p->n_blocks && p->blocks[b].n_refs == 0 && p->blocks[b].prefix_id == 0);
    for (int32_t b = p->lru_head; b >= 0; b = p->blocks[b].next, n_cached++)
        assert(n_cached < p->n_blocks && p->blocks[b].n_refs == 0 && p->blocks[b].prefix_id != 0);
    for (uint32_t k = 0; k < p->n_buckets; k++)
        for (int32_t b = p->buckets[k]; b >= 0; b = p->blocks[b].chain, n_found++) {
            const struct block *o = &p->blocks[b];
            assert(n_found < p->n_blocks && o->prefix_id != 0);
            assert(prefix_find(p, &o->key, p->tokens + (size_t)b * p->block_len) == b);
        }
    assert(n_found == n_known);
    assert(n_free == p->n_free && n_held == p->n_held && n_cached == p->n_cached);
    assert(n_free + n_held + n_cached == p->n_blocks);
}

void sched_check(const struct sched *s)
{
    check_slots(s);
    for (uint32_t i = 0; i < s->max_slots; i++)
        if (s->seqs[i].state != SEQ_NONE)
            check_seq(s, &s->seqs[i]);
    check_flights(s);
    check_pool(s);
}
