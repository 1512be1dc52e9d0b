/* What the scheduler's files share.  Nothing outside coordinator/sched includes this.
 * A live sequence sits in one slot and in the tree of waiting ones or the list of running ones, both
 * in rank order.  Running means open on the ranks: it has a block table.  Of its tokens, n_known have values;
 * `ahead` more are being sampled by the steps in flight; pos have been given to the ranks; done of
 * these are confirmed by a commit.  done = pos when nothing of it is in flight. */
#ifndef COORDINATOR_SCHED_INTERNAL_H
#define COORDINATOR_SCHED_INTERNAL_H

#include <assert.h>

#include "coordinator/sched/block_pool.h"
#include "coordinator/sched/cost.h"
#include "coordinator/sched/sched.h"

/* A set of slots in order: a treap (Seidel and Aragon 1996) over one of a sequence's links. */
struct tree_link {
    int32_t left, right;
};

enum { MAX_OPENS = 16 }; /* of a step: a place that has become free is not left empty for long */

enum tree_kind { WAITING, DEADLINES };

struct tree {
    enum tree_kind kind;
    int32_t root; /* -1 = empty */
    uint32_t n;
};

/* The turns of one (tenant, priority): see Order in sched.h. */
struct flow {
    uint64_t tenant;
    int32_t priority;
    uint32_t n_live;     /* sequences; 0 = unused */
    uint64_t next_round; /* the first in which it has a turn left */
    int32_t chain;       /* next in its bucket, or in the list of unused ones */
};

enum seq_state { SEQ_NONE, SEQ_WAITING, SEQ_RUNNING };

struct seq {
    struct sched_req req;
    enum seq_state state;
    bool front;    /* resumed, or returned by a reset: goes before all that are not */
    bool admitted; /* FX_ADMITTED has been told */
    int64_t rank;  /* smaller goes first; ties by round, then by ticket */
    uint64_t arrival;
    uint64_t ticket;     /* its arrival; a pause gives it a new one */
    uint64_t round;      /* of its turn; 0 when planned by tokens */
    uint32_t n_rounds;   /* that its turn uses up */
    int32_t flow;        /* of its tenant and priority; -1 when planned by tokens */
    uint32_t turn_known; /* n_known and pos when it began or went on */
    uint32_t turn_pos;
    uint32_t turn_done;  /* tokens computed in the turn that a pause ended */
    uint64_t moved_step; /* step_id of the plan that opened or paused it last, by time */
    uint32_t n_known, ahead, pos, done;
    uint32_t scored;   /* leading rows of the prompt whose scores came; 0 if it is not scored */
    uint32_t n_end;    /* n_known at which it ends by length */
    uint32_t n_table;  /* blocks it holds */
    int32_t *table;    /* [max_table], while running */
    uint32_t n_hashed; /* leading blocks that are in the hash chain */
    uint64_t chain;    /* prefix_id of block n_hashed - 1 */
    /* States: where the state will be kept, in tokens, 0 = nowhere; rows + 1 of snapshots, 0 = none */
    uint32_t keep_branch, keep_prompt;
    uint32_t restore; /* that it begins with; within a plan only */
    uint32_t
        rolling; /* its last one at a multiple of KEEP_ROLLING blocks, if that is still its own */
    uint64_t last_step; /* step_id in which it was last planned */
    uint64_t last_turn; /* counts every sequence's share: who has waited longest */
    int32_t prev, next; /* in the running list; next also in the list of empty slots */
    struct tree_link in_waiting, in_deadlines;
    int32_t id_next;    /* in its id bucket */
    int32_t group_next; /* in its group bucket; only with a group_id */
};

struct seq_list {
    int32_t head, tail;
    uint32_t n;
};

struct flight_seq { /* one sequence of a step in flight */
    uint64_t seq_id;
    int32_t slot; /* -1: gone since (cancelled, expired, finished) */
    uint32_t n_tokens, n_score;
    bool want;    /* its result has a token, or with `embed` an embedding */
    bool kv_lost; /* preempted since: its token counts, its KV does not */
    bool known;   /* its token came since, forced behind that of the step before */
    bool embed;
    bool rolling;  /* of `keep` */
    uint32_t keep; /* row + 1 of the snapshot that is being taken, 0 = none */
};

struct flight {
    uint64_t step_id;
    struct cost_load load;
    uint32_t n, n_want, n_embed, n_score; /* n_want: n_embed of them give embeddings */
    struct flight_seq *seqs;              /* [max_seqs] */
};

/* Of the last plan, for check_plan.c, until the state changes. */
struct plan_facts {
    bool fresh;
    bool blocks_short;
    bool front; /* it opened a sequence that a reset had returned */
};

struct sched {
    struct sched_config cfg;
    uint32_t max_slots;  /* see create.c */
    uint32_t max_table;  /* blocks that one sequence can need */
    uint32_t max_blocks; /* blocks at create; the pool may be smaller after a reset */
    uint64_t epoch, last_step_id, last_arrival, last_turn;
    struct block_pool pool;
    struct cost_model cost;
    struct plan_facts facts;

    struct seq *seqs; /* [max_slots] */
    int32_t free_slot;
    uint32_t n_id_buckets;          /* power of two */
    int32_t *id_buckets;            /* [n_id_buckets] */
    int32_t *group_buckets;         /* [n_id_buckets] */
    struct tree waiting, deadlines; /* deadlines: of all live sequences that have one */
    struct seq_list running;
    uint64_t waiting_tokens;
    uint32_t n_front;      /* of the waiting ones: the limits of the queue do not count them */
    uint64_t front_tokens; /* theirs, of waiting_tokens */

    struct flow *flows; /* [max_slots] */
    int32_t free_flow;
    int32_t *flow_buckets; /* [n_id_buckets] */
    uint64_t round;        /* the present one */

    int32_t *tables;     /* [max_seqs, max_table] */
    int32_t **free_rows; /* [max_seqs] stack of unused rows of tables */
    uint32_t n_free_rows;

    struct flight flights[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    uint32_t n_flights;
    uint64_t *closes; /* [max_seqs] for the next plan */
    uint32_t n_closes;

    struct step_plan plan; /* its arrays, at their capacity */
    int32_t *picked;       /* [max_seqs] scratch */
    uint32_t *shares;      /* [max_seqs] scratch */
    uint64_t *order;       /* [max_seqs] scratch */
    uint64_t n_preemptions, n_pauses, n_steps, tokens_computed, tokens_cached;
};

struct fx_list {
    struct sched_effect *fx;
    size_t cap, n;
};

/* --- tree.c --- */
bool seq_before(const struct seq *a, const struct seq *b);
bool tree_before(const struct sched *s, const struct tree *t, int32_t a, int32_t b);
void tree_insert(struct sched *s, struct tree *t, int32_t i);
void tree_remove(struct sched *s, struct tree *t, int32_t i);
int32_t tree_first(const struct sched *s, const struct tree *t);
int32_t tree_next(const struct sched *s, const struct tree *t, int32_t i); /* i is in it; or -1 */

/* --- turns.c: rounds over tenants --- */
void turns_reset(struct sched *s);
void turns_join(struct sched *s, struct seq *q);      /* a new sequence: finds or makes its flow */
void turns_leave(struct sched *s, struct seq *q);     /* it is gone */
void turns_queue(struct sched *s, struct seq *q);     /* gives it its next turn's round and rank */
void turns_begin(struct sched *s, struct seq *q);     /* its turn begins */
void turns_give_back(struct sched *s, struct seq *q); /* it ended before its turn */
int64_t turns_rank(const struct sched *s, const struct seq *q, uint64_t round);
uint64_t turns_next_round(const struct sched *s, const struct seq *q);

/* --- seqs.c: slots, ids, lists --- */
int32_t seq_find(const struct sched *s, uint64_t seq_id); /* slot or -1 */
/* The sequences of a group, in no order; -1: no more. */
int32_t seq_first_of_group(const struct sched *s, uint64_t group_id);
int32_t seq_next_of_group(const struct sched *s, int32_t i);
int32_t seq_new(struct sched *s, const struct sched_req *r);
void seq_enqueue(struct sched *s, int32_t i);          /* into waiting, at its rank */
void seq_start(struct sched *s, int32_t i);            /* waiting -> running: gets a table */
void seq_stop(struct sched *s, int32_t i, bool close); /* running -> waiting: loses its blocks */
void seq_drop(struct sched *s, int32_t i);             /* from any state; the slot is empty then */
struct prefix_key seq_key(const struct sched *s,
                          const struct seq *q);              /* of its next unhashed block */
bool seq_fits_blocks(const struct sched *s, uint32_t n_end); /* sched.c */
bool seq_shares(const struct sched *s, const struct seq *q); /* takes part in the prefix cache */

/* Known blocks that a sequence's tokens begin with, up to the one with its last token, or the first one that is to be
 * scored, which must be computed for its logits. */
struct known_prefix {
    uint32_t n;        /* that it can begin with: all, or up to the last one with a snapshot */
    uint32_t n_all;    /* all */
    uint32_t n_idle;   /* of n, those that no sequence holds */
    uint32_t snapshot; /* row + 1 behind the last of n, 0 = none */
};
/* table: NULL, or gets the blocks. */
struct known_prefix seq_known_prefix(const struct sched *s, const struct seq *q, int32_t *table);

/* sched.c: ST_RANGE when r could never be run, whatever the queue holds. */
MUST_CHECK enum status sched_check_req(const struct sched *s, const struct sched_req *r);

/* check.c, check_plan.c: NULL, or the invariant that does not hold. */
MUST_CHECK enum status sched_broken(const struct sched *s, const char **broken);
const char *plan_broken(const struct sched *s);

static inline bool timed(const struct sched *s)
{
    return s->cfg.target_itl_us != 0;
}

/* Tokens that could be computed for q now. */
static inline uint32_t seq_todo(const struct seq *q)
{
    return q->n_known + q->ahead < q->n_end ? q->n_known + q->ahead - q->pos : 0;
}

/* Are the states of sequences kept behind blocks? */
static inline bool keeps_states(const struct sched *s)
{
    return s->cfg.n_snapshots > 0;
}

/* Does the model allow to begin with known blocks? */
static inline bool may_share(const struct sched *s)
{
    return !s->cfg.has_states || keeps_states(s);
}

/* Blocks of the prefix cache that a sequence of these parameters may begin with, of `most`. */
static inline uint32_t blocks_to_share(const struct sched *s, const struct sample_params *sp,
                                       uint32_t most)
{
    return !may_share(s) || sp->embed == EMBED_ALL ? 0 : most;
}

/* Rows of q's prompt that are scored: row i gives token i + 1. */
static inline uint32_t seq_rows_to_score(const struct seq *q)
{
    return q->req.sp.prompt_logprobs ? q->req.n_prompt - 1 : 0;
}

/* How many of rows [pos, pos + n) are still to be scored. */
static inline uint32_t seq_scores(const struct seq *q, uint32_t pos, uint32_t n)
{
    uint32_t end = seq_rows_to_score(q), from = pos > q->scored ? pos : q->scored;
    end = pos + n < end ? pos + n : end;
    return end > from ? end - from : 0;
}

/* The most of the n tokens from pos on of which at most max_scores rows are to be scored. */
static inline uint32_t seq_within_scores(const struct seq *q, uint32_t pos, uint32_t n,
                                         uint32_t max_scores)
{
    if (seq_scores(q, pos, n) <= max_scores)
        return n;
    return (q->scored > pos ? q->scored - pos : 0) + max_scores;
}

/* The most of the n tokens from pos on that one step may have: its state is kept behind them. */
static inline uint32_t seq_within_keeps(const struct seq *q, uint32_t pos, uint32_t n)
{
    if (q->keep_branch > pos && q->keep_branch - pos < n)
        n = q->keep_branch - pos;
    if (q->keep_prompt > pos && q->keep_prompt - pos < n)
        n = q->keep_prompt - pos;
    return n;
}

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
