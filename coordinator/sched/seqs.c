/* The scheduler's sequences: slots, the hash by id, the tree of waiting and the list of running
 * ones.  Called by the other files of this folder. */
#include "coordinator/sched/internal.h"

#include <assert.h>

/* Of a sequence's or group's id. */
static uint32_t id_bucket(const struct sched *s, uint64_t id)
{
    uint64_t h = id * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio (Knuth, Fibonacci hashing) */
    return (uint32_t)(h >> 32) & (s->n_id_buckets - 1);
}

int32_t seq_find(const struct sched *s, uint64_t seq_id)
{
    int32_t i = s->id_buckets[id_bucket(s, seq_id)];
    while (i >= 0 && s->seqs[i].req.seq_id != seq_id)
        i = s->seqs[i].id_next;
    return i;
}

/* The first of the bucket's sequences from i on that is of the group. */
static int32_t of_group(const struct sched *s, int32_t i, uint64_t group_id)
{
    while (i >= 0 && s->seqs[i].req.group_id != group_id)
        i = s->seqs[i].group_next;
    return i;
}

int32_t seq_first_of_group(const struct sched *s, uint64_t group_id)
{
    int32_t i = s->group_buckets[id_bucket(s, group_id)];
    return of_group(s, i, group_id);
}

int32_t seq_next_of_group(const struct sched *s, int32_t i)
{
    return of_group(s, s->seqs[i].group_next, s->seqs[i].req.group_id);
}

static void join_group(struct sched *s, int32_t i)
{
    if (s->seqs[i].req.group_id == 0)
        return;
    int32_t *bucket = &s->group_buckets[id_bucket(s, s->seqs[i].req.group_id)];
    s->seqs[i].group_next = *bucket;
    *bucket = i;
}

static void leave_group(struct sched *s, int32_t i)
{
    if (s->seqs[i].req.group_id == 0)
        return;
    int32_t *link = &s->group_buckets[id_bucket(s, s->seqs[i].req.group_id)];
    while (*link != i)
        link = &s->seqs[*link].group_next;
    *link = s->seqs[i].group_next;
}

/* New entries mostly belong at the end, so the place is sought from there. */
static void list_insert(struct sched *s, struct seq_list *l, int32_t i)
{
    struct seq *q = &s->seqs[i];
    int32_t after = l->tail;
    while (after >= 0 && seq_before(q, &s->seqs[after]))
        after = s->seqs[after].prev;
    q->prev = after;
    q->next = after < 0 ? l->head : s->seqs[after].next;
    *(q->prev < 0 ? &l->head : &s->seqs[q->prev].next) = i;
    *(q->next < 0 ? &l->tail : &s->seqs[q->next].prev) = i;
    l->n++;
}

static void list_remove(struct sched *s, struct seq_list *l, int32_t i)
{
    struct seq *q = &s->seqs[i];
    *(q->prev < 0 ? &l->head : &s->seqs[q->prev].next) = q->next;
    *(q->next < 0 ? &l->tail : &s->seqs[q->next].prev) = q->prev;
    q->prev = -1;
    q->next = -1;
    l->n--;
}

int32_t seq_new(struct sched *s, const struct sched_req *r)
{
    int32_t i = s->free_slot;
    assert(i >= 0 && "submit checks the bounds of the queue");
    struct seq *q = &s->seqs[i];
    s->free_slot = q->next;

    uint64_t n_end = (uint64_t)r->n_tokens + r->max_new;
    *q = (struct seq){
        .req = *r,
        .front = r->resumed,
        .n_known = r->n_tokens,
        .scored = r->n_scored,
        .n_end = n_end < s->cfg.max_ctx ? (uint32_t)n_end : s->cfg.max_ctx,
        .prev = -1,
        .next = -1,
    };
    q->arrival = q->ticket = ++s->last_arrival;
    turns_join(s, q);
    if (r->deadline_us)
        tree_insert(s, &s->deadlines, i);
    int32_t *bucket = &s->id_buckets[id_bucket(s, r->seq_id)];
    q->id_next = *bucket;
    *bucket = i;
    join_group(s, i);
    return i;
}

void seq_enqueue(struct sched *s, int32_t i)
{
    struct seq *q = &s->seqs[i];
    q->state = SEQ_WAITING;
    s->waiting_tokens += q->n_known;
    if (q->front) {
        s->n_front++;
        s->front_tokens += q->n_known;
    }
    tree_insert(s, &s->waiting, i);
}

static void leave_waiting(struct sched *s, int32_t i)
{
    const struct seq *q = &s->seqs[i];
    tree_remove(s, &s->waiting, i);
    s->waiting_tokens -= q->n_known;
    if (q->front) {
        s->n_front--;
        s->front_tokens -= q->n_known;
    }
}

void seq_start(struct sched *s, int32_t i)
{
    struct seq *q = &s->seqs[i];
    assert(q->state == SEQ_WAITING && s->n_free_rows > 0);
    leave_waiting(s, i);
    q->state = SEQ_RUNNING;
    q->front = false;
    turns_begin(s, q);
    q->table = s->free_rows[--s->n_free_rows];
    list_insert(s, &s->running, i);
}

/* Takes the blocks and the table of a running sequence; the ranks hear of it with the next plan.
 * The last block goes first: in the LRU order a prefix outlives what follows it. */
static void leave_ranks(struct sched *s, struct seq *q, bool close)
{
    for (uint32_t k = q->n_table; k-- > 0;)
        block_pool_release(&s->pool, q->table[k]);
    s->free_rows[s->n_free_rows++] = q->table;
    q->table = NULL;
    q->n_table = 0;
    q->n_hashed = 0;
    q->chain = 0;
    q->pos = 0;
    q->done = 0;
    q->keep_branch = 0;
    q->keep_prompt = 0;
    if (close) {
        assert(s->n_closes < s->cfg.max_seqs);
        s->closes[s->n_closes++] = q->req.seq_id;
    }
}

static void mark_flights(struct sched *s, int32_t i, bool gone)
{
    for (uint32_t f = 0; f < s->n_flights; f++)
        for (uint32_t k = 0; k < s->flights[f].n; k++) {
            struct flight_seq *fs = &s->flights[f].seqs[k];
            if (fs->slot != i)
                continue;
            fs->kv_lost = true;
            if (gone)
                fs->slot = -1;
        }
}

void seq_stop(struct sched *s, int32_t i, bool close)
{
    struct seq *q = &s->seqs[i];
    assert(q->state == SEQ_RUNNING);
    list_remove(s, &s->running, i);
    leave_ranks(s, q, close);
    mark_flights(s, i, false);
    seq_enqueue(s, i);
}

void seq_drop(struct sched *s, int32_t i)
{
    struct seq *q = &s->seqs[i];
    if (q->state == SEQ_RUNNING) {
        list_remove(s, &s->running, i);
        leave_ranks(s, q, true);
    } else {
        leave_waiting(s, i);
        turns_give_back(s, q);
    }
    if (q->req.deadline_us)
        tree_remove(s, &s->deadlines, i);
    turns_leave(s, q);
    leave_group(s, i);
    mark_flights(s, i, true);

    int32_t *link = &s->id_buckets[id_bucket(s, q->req.seq_id)];
    while (*link != i)
        link = &s->seqs[*link].id_next;
    *link = q->id_next;
    *q = (struct seq){.state = SEQ_NONE, .prev = -1, .next = s->free_slot, .id_next = -1};
    s->free_slot = i;
}

bool seq_shares(const struct sched *s, const struct seq *q)
{
    return !sample_whole(&q->req.sp) && may_share(s) &&
           (s->cfg.prefix_cache || q->req.group_id != 0);
}

struct prefix_key seq_key(const struct sched *s, const struct seq *q)
{
    return (struct prefix_key){
        .salt = q->req.salt,
        .group = s->cfg.prefix_cache ? 0 : q->req.group_id,
        .parent = q->chain,
    };
}

struct known_prefix seq_known_prefix(const struct sched *s, const struct seq *q, int32_t *table)
{
    struct known_prefix k = {0};
    struct seq at = *q; /* for its chain */
    uint32_t bl = s->cfg.block_len, n_idle = 0,
             most = blocks_to_share(s, &q->req.sp, (q->n_known - 1) / bl);
    if (q->scored < seq_rows_to_score(q) && most > q->scored / bl)
        most = q->scored / bl;
    at.chain = 0;
    while (seq_shares(s, q) && k.n_all < most) {
        struct prefix_key key = seq_key(s, &at);
        int32_t b = prefix_find(&s->pool, &key, q->req.tokens + (size_t)k.n_all * bl);
        if (b < 0)
            break;
        if (table)
            table[k.n_all] = b;
        n_idle += s->pool.blocks[b].n_refs == 0;
        at.chain = s->pool.blocks[b].prefix_id;
        k.n_all++;
        int32_t row = snapshot_find(&s->pool.snapshots, b);
        if (s->cfg.has_states && row < 0)
            continue;
        k.n = k.n_all;
        k.n_idle = n_idle;
        k.snapshot = (uint32_t)(row + 1);
    }
    return k;
}
