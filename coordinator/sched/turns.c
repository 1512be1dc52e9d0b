/* Turns over tenants: the round of each sequence's turn, and its rank.  See Order and Turns in
 * sched.h.  When a step is planned by tokens there are no turns: the rank follows the arrival. */
#include "common/hash.h"
#include "coordinator/sched/internal.h"

static int32_t *bucket_of(struct sched *s, uint64_t tenant, int32_t priority)
{
    uint64_t h = hash_mix(hash_mix(tenant) + (uint32_t)priority);
    return &s->flow_buckets[h & (s->n_id_buckets - 1)];
}

void turns_reset(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_id_buckets; i++)
        s->flow_buckets[i] = -1;
    for (uint32_t i = 0; i < s->max_slots; i++)
        s->flows[i] = (struct flow){.chain = i + 1 < s->max_slots ? (int32_t)i + 1 : -1};
    s->free_flow = 0;
}

static struct flow *find(struct sched *s, uint64_t tenant, int32_t priority)
{
    int32_t f = *bucket_of(s, tenant, priority);
    while (f >= 0 && (s->flows[f].tenant != tenant || s->flows[f].priority != priority))
        f = s->flows[f].chain;
    return f < 0 ? NULL : &s->flows[f];
}

/* As many flows as slots: each live sequence is in one. */
void turns_join(struct sched *s, struct seq *q)
{
    q->flow = -1;
    if (!timed(s))
        return;
    struct flow *f = find(s, q->req.tenant, q->req.priority);
    if (!f) {
        assert(s->free_flow >= 0 && "there are as many flows as sequences");
        f = &s->flows[s->free_flow];
        s->free_flow = f->chain;
        int32_t *bucket = bucket_of(s, q->req.tenant, q->req.priority);
        *f = (struct flow){.tenant = q->req.tenant, .priority = q->req.priority, .chain = *bucket};
        *bucket = (int32_t)(f - s->flows);
    }
    f->n_live++;
    q->flow = (int32_t)(f - s->flows);
}

void turns_leave(struct sched *s, struct seq *q)
{
    if (q->flow < 0 || --s->flows[q->flow].n_live > 0)
        return;
    int32_t *at = bucket_of(s, q->req.tenant, q->req.priority);
    while (*at != q->flow)
        at = &s->flows[*at].chain;
    *at = s->flows[q->flow].chain;
    s->flows[q->flow].chain = s->free_flow;
    s->free_flow = q->flow;
}

int64_t turns_rank(const struct sched *s, const struct seq *q, uint64_t round)
{
    int64_t priority = q->req.priority;
    uint64_t place = timed(s) ? round : q->arrival;
    return s->cfg.overtake ? (int64_t)(place & (INT64_MAX >> 1)) - priority * s->cfg.overtake
                           : -priority;
}

uint64_t turns_next_round(const struct sched *s, const struct seq *q)
{
    uint64_t next = s->flows[q->flow].next_round;
    return next > s->round ? next : s->round + 1;
}

/* A new sequence has its prompt to compute; one that goes on at most a turn. */
void turns_queue(struct sched *s, struct seq *q)
{
    if (timed(s)) {
        uint32_t n = q->admitted ? s->cfg.turn_tokens : q->n_known;
        q->round = turns_next_round(s, q);
        q->n_rounds = 1 + (n ? n - 1 : 0) / QUANTUM_TOKENS;
        s->flows[q->flow].next_round = q->round + q->n_rounds;
    }
    q->rank = turns_rank(s, q, q->round);
}

void turns_begin(struct sched *s, struct seq *q)
{
    if (q->round > s->round)
        s->round = q->round;
    q->n_rounds = 0;
}

void turns_give_back(struct sched *s, struct seq *q)
{
    if (q->flow >= 0)
        s->flows[q->flow].next_round -= q->n_rounds;
}
