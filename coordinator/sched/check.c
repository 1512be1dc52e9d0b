/* sched_check: every invariant of the scheduler's state; prints the first that does not hold and
 * aborts.  Called by tests. */
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/sched/internal.h"

/* Returns the text of what does not hold. */
#define HOLDS(x)                                                                                   \
    do {                                                                                           \
        if (!(x))                                                                                  \
            return #x;                                                                             \
    } while (0)
#define PART(x)                                                                                    \
    do {                                                                                           \
        const char *broken_ = (x);                                                                 \
        if (broken_)                                                                               \
            return broken_;                                                                        \
    } while (0)

static const char *check_running(const struct sched *s)
{
    const struct seq_list *l = &s->running;
    uint32_t n = 0;
    int32_t before = -1;
    for (int32_t i = l->head; i >= 0; before = i, i = s->seqs[i].next, n++) {
        HOLDS(n < s->max_slots);
        HOLDS(s->seqs[i].state == SEQ_RUNNING);
        HOLDS(s->seqs[i].prev == before);
        HOLDS(before < 0 || seq_before(&s->seqs[before], &s->seqs[i]));
        HOLDS(seq_find(s, s->seqs[i].req.seq_id) == i);
    }
    HOLDS(l->tail == before && l->n == n);
    return NULL;
}

static const char *check_tree(const struct sched *s, const struct tree *t)
{
    uint32_t n = 0;
    int32_t before = -1;
    for (int32_t i = tree_first(s, t); i >= 0; before = i, i = tree_next(s, t, i), n++) {
        HOLDS(n < s->max_slots);
        HOLDS(t->kind == DEADLINES ? s->seqs[i].req.deadline_us != 0
                                   : s->seqs[i].state == SEQ_WAITING);
        HOLDS(before < 0 || tree_before(s, t, before, i));
        HOLDS(seq_find(s, s->seqs[i].req.seq_id) == i);
    }
    HOLDS(t->n == n);
    return NULL;
}

static const char *check_flows(const struct sched *s)
{
    uint32_t n = 0, n_live = 0;
    for (int32_t f = s->free_flow; f >= 0; f = s->flows[f].chain, n++)
        HOLDS(n < s->max_slots && s->flows[f].n_live == 0);
    for (uint32_t f = 0; f < s->max_slots; f++) {
        n += s->flows[f].n_live > 0;
        n_live += s->flows[f].n_live;
    }
    HOLDS(n == s->max_slots);
    HOLDS(n_live == (timed(s) ? s->waiting.n + s->running.n : 0));
    return NULL;
}

static const char *check_slots(const struct sched *s)
{
    uint64_t tokens = 0, front_tokens = 0;
    uint32_t n = s->waiting.n + s->running.n, n_deadlines = 0, n_front = 0;
    PART(check_tree(s, &s->waiting));
    PART(check_tree(s, &s->deadlines));
    PART(check_running(s));
    PART(check_flows(s));
    for (int32_t i = s->free_slot; i >= 0; i = s->seqs[i].next, n++)
        HOLDS(n < s->max_slots && s->seqs[i].state == SEQ_NONE);
    HOLDS(n == s->max_slots);
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i)) {
        tokens += s->seqs[i].n_known;
        n_front += s->seqs[i].front;
        front_tokens += s->seqs[i].front ? s->seqs[i].n_known : 0;
    }
    for (uint32_t i = 0; i < s->max_slots; i++)
        n_deadlines += s->seqs[i].state != SEQ_NONE && s->seqs[i].req.deadline_us;
    HOLDS(n_deadlines == s->deadlines.n);
    HOLDS(tokens == s->waiting_tokens);
    HOLDS(n_front == s->n_front && front_tokens == s->front_tokens);
    HOLDS(s->running.n + s->n_free_rows == s->cfg.max_seqs);
    HOLDS(s->running.n + s->n_closes <= s->cfg.max_seqs);
    return NULL;
}

static const char *check_seq(const struct sched *s, const struct seq *q)
{
    uint32_t bl = s->cfg.block_len;
    HOLDS(q->n_known < q->n_end && q->n_end <= s->cfg.max_ctx);
    HOLDS(q->n_known >= q->req.n_tokens && q->req.n_tokens >= q->req.n_prompt);
    HOLDS(q->ahead <= s->cfg.max_inflight && q->n_known + q->ahead <= q->n_end);
    HOLDS(blocks_for(s, q->n_end - 1) <= s->pool.n_blocks);
    HOLDS(q->last_step <= s->last_step_id && q->last_turn <= s->last_turn);
    HOLDS(q->arrival <= s->last_arrival);
    HOLDS(q->scored <= seq_rows_to_score(q));
    HOLDS(q->rank == turns_rank(s, q, q->round));
    if (timed(s)) {
        const struct flow *f = &s->flows[q->flow];
        HOLDS(f->tenant == q->req.tenant && f->priority == q->req.priority);
        HOLDS(q->state == SEQ_WAITING || (q->round <= s->round && q->n_rounds == 0));
        HOLDS(q->turn_known <= q->n_known && (q->state == SEQ_WAITING || q->turn_pos <= q->pos));
    }
    if (q->state == SEQ_WAITING) {
        HOLDS(q->n_table == 0 && q->pos == 0 && q->done == 0 && !q->table);
        HOLDS(q->keep_branch == 0 && q->keep_prompt == 0);
        return NULL;
    }
    HOLDS(!q->front && q->admitted);
    HOLDS(q->restore == 0 && q->rolling <= s->pool.snapshots.n_rows);
    HOLDS(q->keep_branch % bl == 0 && q->keep_prompt % bl == 0);
    HOLDS(q->done <= q->scored || q->scored == seq_rows_to_score(q));
    HOLDS(q->done <= q->pos);
    HOLDS(q->ahead ? q->pos == q->n_known + q->ahead - 1 : q->pos < q->n_known);
    HOLDS(q->n_table == blocks_for(s, q->pos) && q->n_table <= s->max_table);
    HOLDS(q->n_hashed == (seq_shares(s, q) ? q->done / bl : 0));
    for (uint32_t k = 0; k < q->n_table; k++) {
        const struct block *b = &s->pool.blocks[q->table[k]];
        HOLDS(b->n_refs > 0);
        if (k >= q->n_hashed) /* it is or may be written */
            HOLDS(b->n_refs == 1 && b->prefix_id == 0);
    }
    return NULL;
}

static const char *check_seq_flights(const struct sched *s, int32_t i)
{
    uint32_t n = 0, want = 0;
    for (uint32_t f = 0; f < s->n_flights; f++)
        for (uint32_t k = 0; k < s->flights[f].n; k++) {
            const struct flight_seq *fs = &s->flights[f].seqs[k];
            if (fs->slot != i)
                continue;
            HOLDS(fs->seq_id == s->seqs[i].req.seq_id);
            n += fs->kv_lost ? 0 : fs->n_tokens;
            want += fs->want && !fs->known;
        }
    HOLDS(n == s->seqs[i].pos - s->seqs[i].done);
    HOLDS(want == s->seqs[i].ahead);
    return NULL;
}

static const char *check_flights(const struct sched *s)
{
    HOLDS(s->n_flights <= s->cfg.max_inflight);
    for (uint32_t f = 0; f < s->n_flights; f++) {
        uint64_t n = 0;
        uint32_t want = 0, embed = 0, score = 0;
        for (uint32_t k = 0; k < s->flights[f].n; k++) {
            score += s->flights[f].seqs[k].n_score;
            n += s->flights[f].seqs[k].n_tokens;
            want += s->flights[f].seqs[k].want;
            embed += s->flights[f].seqs[k].want && s->flights[f].seqs[k].embed;
        }
        HOLDS(n > 0 && n <= s->cfg.max_step_tokens);
        HOLDS(want == s->flights[f].n_want && embed == s->flights[f].n_embed);
        HOLDS(score == s->flights[f].n_score && score <= MAX_SCORED_ROWS);
        HOLDS(score == 0 || f + 1 == s->n_flights); /* no step is behind it */
    }
    return NULL;
}

/* holders: [n_blocks] zeros */
static const char *check_refs(const struct sched *s, uint32_t *holders)
{
    const struct block_pool *p = &s->pool;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        for (uint32_t k = 0; k < s->seqs[i].n_table; k++)
            holders[s->seqs[i].table[k]]++;
    for (uint32_t b = 0; b < p->n_blocks; b++)
        HOLDS(p->blocks[b].n_refs == holders[b]);
    return NULL;
}

static const char *check_pool(const struct sched *s, uint32_t *holders)
{
    const struct block_pool *p = &s->pool;
    uint32_t n_free = 0, n_held = 0, n_cached = 0, n_known = 0, n_found = 0;
    PART(check_refs(s, holders));
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        n_held += p->blocks[b].n_refs > 0;
        n_known += p->blocks[b].prefix_id != 0;
        HOLDS(p->blocks[b].prefix_id <= p->last_prefix_id);
    }
    for (int32_t b = p->free_head; b >= 0; b = p->blocks[b].next, n_free++)
        HOLDS(n_free < p->n_blocks && p->blocks[b].n_refs == 0 && p->blocks[b].prefix_id == 0);
    for (int32_t b = p->lru_head; b >= 0; b = p->blocks[b].next, n_cached++)
        HOLDS(n_cached < p->n_blocks && p->blocks[b].n_refs == 0 && p->blocks[b].prefix_id != 0);
    for (uint32_t k = 0; k < p->n_buckets; k++)
        for (int32_t b = p->buckets[k]; b >= 0; b = p->blocks[b].chain, n_found++) {
            const struct block *o = &p->blocks[b];
            HOLDS(n_found < p->n_blocks && o->prefix_id != 0);
            HOLDS(prefix_find(p, &o->key, p->tokens + (size_t)b * p->block_len) == b);
        }
    HOLDS(n_found == n_known);
    HOLDS(n_free == p->n_free && n_held == p->n_held && n_cached == p->n_cached);
    HOLDS(n_free + n_held + n_cached == p->n_blocks);
    return NULL;
}

/* Steps in flight that write that row. */
static uint32_t n_taking(const struct sched *s, uint32_t row)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < s->n_flights; f++)
        for (uint32_t k = 0; k < s->flights[f].n; k++)
            n += s->flights[f].seqs[k].keep == row + 1;
    return n;
}

static const char *check_snapshots(const struct sched *s)
{
    const struct snapshot_pool *p = &s->pool.snapshots;
    uint32_t n_free = 0, n_known = 0, n_of_block = 0, n_taken = 0;
    HOLDS(p->n_rows == s->cfg.n_snapshots);
    for (int32_t i = p->free_head; i >= 0; i = p->rows[i].next, n_free++)
        HOLDS(n_free < p->n_rows && p->rows[i].block < 0 && n_taking(s, (uint32_t)i) == 0);
    for (int32_t i = p->known_head; i >= 0; i = p->rows[i].next, n_known++) {
        HOLDS(n_known < p->n_rows && p->rows[i].block >= 0 && n_taking(s, (uint32_t)i) == 0);
        HOLDS(s->pool.blocks[p->rows[i].block].prefix_id != 0);
        HOLDS(p->of_block[p->rows[i].block] == i);
        HOLDS(p->rows[i].next < 0 ? p->known_tail == i : p->rows[p->rows[i].next].prev == i);
    }
    for (uint32_t b = 0; p->n_rows && b < s->pool.n_blocks; b++)
        n_of_block += p->of_block[b] >= 0;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        n_taken += n_taking(s, i);
        HOLDS(n_taking(s, i) <= 1);
    }
    HOLDS(n_of_block == n_known && n_known == p->n_known && n_free == p->n_free);
    HOLDS(n_free + n_known + n_taken == p->n_rows);
    return NULL;
}

static const char *find_broken(const struct sched *s, uint32_t *holders)
{
    PART(check_slots(s));
    for (uint32_t i = 0; i < s->max_slots; i++) {
        if (s->seqs[i].state == SEQ_NONE)
            continue;
        PART(check_seq(s, &s->seqs[i]));
        PART(check_seq_flights(s, (int32_t)i));
    }
    PART(check_flights(s));
    PART(check_pool(s, holders));
    PART(check_snapshots(s));
    return s->facts.fresh ? plan_broken(s) : NULL;
}

enum status sched_broken(const struct sched *s, const char **broken)
{
    uint32_t *holders = calloc((size_t)s->pool.n_blocks + 1, sizeof *holders);
    if (!holders)
        FAIL(ST_NOMEM, "no memory to check %u blocks", s->pool.n_blocks);
    *broken = find_broken(s, holders);
    free(holders);
    return ST_OK;
}

void sched_check(const struct sched *s)
{
    const char *broken;
    enum status st = sched_broken(s, &broken);
    if (st == ST_OK && !broken)
        return;
    fprintf(stderr, "sched_check: does not hold: %s\n", st == ST_OK ? broken : status_text());
    abort();
}
