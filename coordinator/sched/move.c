/* Several schedulers with a queue in front of them: moving a sequence, and what a placement needs to know
 * (coordinator/placement.h). */
#include "coordinator/sched/internal.h"

static uint32_t end_of(const struct sched *s, const struct sched_req *r)
{
    uint64_t n_end = (uint64_t)r->n_tokens + r->max_new;
    return n_end < s->cfg.max_ctx ? (uint32_t)n_end : s->cfg.max_ctx;
}

enum status sched_move(struct sched *from, struct sched *to, uint64_t seq_id)
{
    unsigned long long id = seq_id;
    int32_t i = seq_find(from, seq_id);
    if (i < 0)
        FAIL(ST_RANGE, "sequence %llu is not there", id);
    if (seq_find(to, seq_id) >= 0)
        FAIL(ST_RANGE, "sequence %llu is there already", id);
    struct seq *q = &from->seqs[i];
    if (q->n_end > to->cfg.max_ctx || !seq_fits_blocks(to, q->n_end))
        FAIL(ST_RANGE, "sequence %llu: %u tokens do not fit", id, q->n_end);
    if (to->free_slot < 0)
        FAIL(ST_BUSY, "%u sequences are live: no more fit", to->waiting.n + to->running.n);

    struct sched_req r = q->req;
    bool admitted = q->admitted;
    r.n_tokens = q->n_known;
    r.max_new = q->n_end - q->n_known;
    r.n_scored = q->scored;
    r.resumed = q->front || admitted;
    if (from->cfg.queue_for)
        turns_begin(from, q);
    seq_drop(from, i);
    from->facts.fresh = false;

    i = seq_new(to, &r);
    to->seqs[i].admitted = admitted;
    turns_queue(to, &to->seqs[i]);
    seq_enqueue(to, i);
    to->facts.fresh = false;
    return ST_OK;
}

bool sched_has(const struct sched *s, uint64_t seq_id)
{
    return seq_find(s, seq_id) >= 0;
}

const struct sched_req *sched_first(const struct sched *s)
{
    int32_t i = tree_first(s, &s->waiting);
    return i < 0 ? NULL : &s->seqs[i].req;
}

bool sched_fits(const struct sched *s, const struct sched_req *r)
{
    return seq_fits_blocks(s, end_of(s, r));
}

uint32_t sched_known_tokens(const struct sched *s, const struct sched_req *r)
{
    struct seq q = {.req = *r, .n_known = r->n_tokens, .scored = r->n_scored};
    uint32_t bl = s->cfg.block_len, most = blocks_to_share(s, &r->sp, (r->n_tokens - 1) / bl);
    if (most && r->group_id && seq_first_of_group(s, r->group_id) >= 0)
        return (r->n_prompt - 1) / bl * bl;
    return seq_known_prefix(s, &q, NULL).n * bl;
}

static void add_load(const struct seq *q, int32_t priority, struct sched_load *out)
{
    out->live++;
    out->fresh +=
        q->state == SEQ_WAITING && (!q->admitted || q->front) && q->req.priority >= priority;
    out->todo += q->n_known > q->pos ? q->n_known - q->pos : 0;
}

void sched_load(const struct sched *s, int32_t priority, struct sched_load *out)
{
    *out = (struct sched_load){0};
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        add_load(&s->seqs[i], priority, out);
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i))
        add_load(&s->seqs[i], priority, out);
}

/* The better of slot best and slot i. */
static int32_t cheaper(const struct sched *s, int32_t best, int32_t i)
{
    const struct seq *q = &s->seqs[i];
    if (q->scored < seq_rows_to_score(q))
        return best;
    return best < 0 || q->n_known < s->seqs[best].n_known ? i : best;
}

uint64_t sched_cheapest(const struct sched *s)
{
    int32_t best = -1;
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i))
        best = cheaper(s, best, i);
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        best = cheaper(s, best, i);
    return best < 0 ? 0 : s->seqs[best].req.seq_id;
}
