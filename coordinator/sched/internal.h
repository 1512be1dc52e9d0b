/* What the scheduler's files share.  Nothing outside coordinator/sched includes this.
 * A live sequence sits in one slot and in one of two lists, both in rank order: waiting or running.
 * Running means open on the ranks: it has a block table.  Of its tokens, n_known have values;
 * `ahead` more are being sampled by the steps in flight; pos have been given to the ranks; done of
 * these are confirmed by a commit.  done = pos when nothing of it is in flight. */
#ifndef COORDINATOR_SCHED_INTERNAL_H
#define COORDINATOR_SCHED_INTERNAL_H

#include <assert.h>

#include "coordinator/sched/block_pool.h"
#include "coordinator/sched/sched.h"

enum seq_state { SEQ_NONE, SEQ_WAITING, SEQ_RUNNING };

struct seq {
    struct sched_req req;
    enum seq_state state;
    bool front;    /* returned by a reset: goes before all that are not */
    bool admitted; /* FX_ADMITTED has been told */
    int64_t rank;  /* smaller goes first; ties by arrival */
    uint64_t arrival;
    uint32_t n_known, ahead, pos, done;
    uint32_t n_end;     /* n_known at which it ends by length */
    uint32_t n_table;   /* blocks it holds */
    int32_t *table;     /* [max_table], while running */
    uint32_t n_hashed;  /* leading blocks that are in the hash chain */
    uint64_t chain;     /* prefix_id of block n_hashed - 1 */
    uint64_t last_step; /* step_id in which it was last planned */
    uint64_t last_turn; /* counts every sequence's share: who has waited longest */
    int32_t prev, next; /* in its list; next also in the list of empty slots */
    int32_t id_next;    /* in its id bucket */
};

struct seq_list {
    int32_t head, tail;
    uint32_t n;
};

struct flight_seq { /* one sequence of a step in flight */
    uint64_t seq_id;
    int32_t slot; /* -1: gone since (cancelled, expired, finished) */
    uint32_t n_tokens;
    bool want;
    bool kv_lost; /* preempted since: its token counts, its KV does not */
};

struct flight {
    uint64_t step_id;
    uint32_t n, n_want;
    struct flight_seq *seqs; /* [max_seqs] */
};

struct sched {
    struct sched_config cfg;
    uint32_t max_slots;  /* max_seqs + max_waiting */
    uint32_t max_table;  /* blocks that one sequence can need */
    uint32_t max_blocks; /* blocks at create; the pool may be smaller after a reset */
    uint64_t epoch, last_step_id, last_arrival, last_turn, next_deadline_us;
    struct block_pool pool;

    struct seq *seqs; /* [max_slots] */
    int32_t free_slot;
    uint32_t n_id_buckets; /* power of two */
    int32_t *id_buckets;   /* [n_id_buckets] */
    struct seq_list waiting, running;
    uint64_t waiting_tokens;

    int32_t *tables;     /* [max_seqs, max_table] */
    int32_t **free_rows; /* [max_seqs] stack of unused rows of tables */
    uint32_t n_free_rows;

    struct flight flights[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    uint32_t n_flights;
    uint64_t *closes; /* [max_seqs] for the next plan */
    uint32_t n_closes;

    struct step_plan plan; /* its arrays, at their capacity */
    int32_t *picked;       /* [max_seqs] scratch */
    uint64_t n_preemptions, n_steps, tokens_computed, tokens_cached;
};

struct fx_list {
    struct sched_effect *fx;
    size_t cap, n;
};

/* --- seqs.c: slots, ids, lists --- */
int32_t seq_find(const struct sched *s, uint64_t seq_id); /* slot or -1 */
int32_t seq_new(struct sched *s, const struct sched_req *r);
void seq_set_arrival(const struct sched *s, struct seq *q, uint64_t arrival);
bool seq_before(const struct seq *a, const struct seq *b);
void seq_enqueue(struct sched *s, int32_t i);          /* into waiting */
void seq_start(struct sched *s, int32_t i);            /* waiting -> running: gets a table */
void seq_stop(struct sched *s, int32_t i, bool close); /* running -> waiting: loses its blocks */
void seq_drop(struct sched *s, int32_t i);             /* from any state; the slot is empty then */
struct prefix_key seq_key(const struct sched *s,
                          const struct seq *q);              /* of its next unhashed block */
bool seq_shares(const struct sched *s, const struct seq *q); /* takes part in the prefix cache */

/* sched.c: ST_RANGE when r could never be run, whatever the queue holds. */
MUST_CHECK enum status sched_check_req(const struct sched *s, const struct sched_req *r);

/* check.c: NULL, or the invariant that does not hold. */
const char *sched_broken(const struct sched *s);

static inline uint32_t blocks_for(const struct sched *s, uint32_t n_tokens)
{
    return n_tokens / s->cfg.block_len + (n_tokens % s->cfg.block_len != 0);
}

static inline void fx_push(struct fx_list *l, struct sched_effect e)
{
    assert(l->n < l->cap && "the caller gives room for sched_max_fx() effects");
    l->fx[l->n++] = e;
}

#endif
