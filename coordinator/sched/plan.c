/* sched_plan: chooses the next step: decodes first, then prompts (plan_tokens.c or plan_time.c).
 * Called by the loop through sched.h. */
#include "coordinator/sched/plan.h"

#include <string.h>

/* ---- decodes ---- */

/* Those that wait for one token and are not in the step yet: in rank order, and when there are more
 * than `limit` the ones first that were left out longest. */
static uint32_t pick_decodes(const struct draft *d, uint32_t limit)
{
    const struct sched *s = d->s;
    uint32_t n = 0;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        if (seq_todo(&s->seqs[i]) == 1 && !planned(d, &s->seqs[i]))
            s->picked[n++] = i;
    if (n <= limit)
        return n;
    for (uint32_t k = 1; k < n; k++) { /* stable; two sorted runs in the usual case */
        int32_t i = s->picked[k];
        uint32_t j = k;
        for (; j > 0 && s->seqs[s->picked[j - 1]].last_turn > s->seqs[i].last_turn; j--)
            s->picked[j] = s->picked[j - 1];
        s->picked[j] = i;
    }
    return n;
}

static void plan_decodes(struct draft *d, uint32_t limit)
{
    const struct sched *s = d->s;
    uint32_t n = pick_decodes(d, limit - d->p->n_tokens);
    for (uint32_t k = 0; k < n && d->p->n_tokens < limit; k++)
        if (s->seqs[s->picked[k]].state == SEQ_RUNNING) /* not preempted meanwhile */
            plan_continue(d, s->picked[k], 1, false);
}

/* Decodes come before prompts and take what blocks there are.  When the first in order has a part of
 * a prompt, or forced tokens, and no block for it, it comes before them: another one gives its blocks. */
static void plan_first(struct draft *d, uint32_t limit)
{
    const struct sched *s = d->s;
    int32_t i = s->running.head;
    if (i < 0 || plan_is_whole(s) || seq_todo(&s->seqs[i]) < 2)
        return;
    const struct seq *q = &s->seqs[i];
    uint32_t n = seq_todo(q) < limit ? seq_todo(q) : limit;
    if (block_pool_available(&s->pool) == 0 && q->pos == q->n_table * s->cfg.block_len)
        plan_continue(d, i, n < s->cfg.block_len ? n : s->cfg.block_len, false);
}

/* ---- the step ---- */

static bool prefill_waits(const struct draft *d)
{
    const struct sched *s = d->s;
    if (s->waiting.n > 0 && s->n_free_rows > 0)
        return true;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        if (seq_todo(&s->seqs[i]) > 1)
            return true;
    return false;
}

static void end_by_deadline(struct sched *s, int32_t i, struct fx_list *out)
{
    fx_push(out, (struct sched_effect){.kind = FX_FINISHED,
                                       .seq_id = s->seqs[i].req.seq_id,
                                       .reason = FINISH_DEADLINE});
    seq_drop(s, i);
}

static bool overdue(const struct sched *s, int32_t i, uint64_t now_us)
{
    uint64_t at = i < 0 ? 0 : s->seqs[i].req.deadline_us;
    return at != 0 && at <= now_us;
}

/* Planned by time, in the order of the deadlines; by tokens, in that of the sequences. */
static void expire(struct sched *s, uint64_t now_us, struct fx_list *out)
{
    int32_t i, next;
    if (timed(s)) {
        while (overdue(s, i = tree_first(s, &s->deadlines), now_us))
            end_by_deadline(s, i, out);
        return;
    }
    if (!overdue(s, tree_first(s, &s->deadlines), now_us))
        return;
    for (i = s->running.head; i >= 0; i = next) {
        next = s->seqs[i].next;
        if (overdue(s, i, now_us))
            end_by_deadline(s, i, out);
    }
    for (i = tree_first(s, &s->waiting); i >= 0; i = next) {
        next = tree_next(s, &s->waiting, i);
        if (overdue(s, i, now_us))
            end_by_deadline(s, i, out);
    }
}

/* A long step of inner parts of prompts alone: to wait for its end costs about c0, and whoever comes
 * meanwhile is in the next step. */
static bool is_long(const struct sched *s, const struct flight *f)
{
    const struct cost_load nothing = {0};
    return f->load.n_decodes == 0 && f->n_want == 0 && cost_known(&s->cost) &&
           cost_of(&s->cost, &f->load) >= (double)LONG_STEP * cost_of(&s->cost, &nothing);
}

/* Does the step in flight score a prompt, or sample a token that no device can feed to the next step?  A step planned
 * now would leave that sequence out, and every other step after it: half a batch each. */
static bool must_wait(const struct sched *s)
{
    if (s->n_flights == 0)
        return false;
    if (s->flights[s->n_flights - 1].n_score > 0)
        return true;
    if (timed(s) && is_long(s, &s->flights[s->n_flights - 1]))
        return true;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next) {
        const struct seq *q = &s->seqs[i];
        if (q->ahead > 0 && seq_todo(q) > 0 && !sample_on_device(&q->req.sp))
            return true;
    }
    return false;
}

bool sched_plan(struct sched *s, uint64_t now_us, struct step_plan *out, struct sched_effect *fx,
                size_t fx_cap, size_t *n_fx)
{
    struct fx_list effects = {.fx = fx, .cap = fx_cap};
    struct step_plan p = s->plan; /* for its arrays: the counts are 0 */
    struct draft d = {.s = s, .p = &p, .f = &s->flights[s->n_flights], .out = &effects};
    *n_fx = 0;
    *out = p;
    s->facts = (struct plan_facts){0};
    expire(s, now_us, &effects);
    *n_fx = effects.n;
    if (s->cfg.queue_for || s->n_flights >= s->cfg.max_inflight || must_wait(s))
        return false;

    p.step_id = s->last_step_id + 1;
    p.epoch = s->epoch;
    d.f->step_id = p.step_id;
    d.f->n = 0;
    d.f->n_want = d.f->n_embed = 0;
    d.f->n_score = 0;
    d.f->load = (struct cost_load){0};
    if (timed(s))
        plan_turns(&d);
    /* a quarter on average, also of a budget under 4 */
    uint32_t kept = (s->cfg.max_step_tokens + (uint32_t)(p.step_id % 4)) / 4;
    if (!prefill_waits(&d))
        kept = 0;
    plan_first(&d, s->cfg.max_step_tokens - kept);
    plan_decodes(&d, s->cfg.max_step_tokens - kept);
    if (plan_is_whole(s))
        plan_prompts_whole(&d);
    else
        (timed(s) ? plan_prompts_by_time : plan_prompts_by_tokens)(&d);
    plan_decodes(&d, s->cfg.max_step_tokens);

    *n_fx = effects.n;
    if (p.n_seqs == 0)
        return false;
    s->facts.fresh = timed(s);
    s->facts.blocks_short = d.blocks_short;
    memcpy(p.closes, s->closes, s->n_closes * sizeof *p.closes);
    p.n_closes = s->n_closes;
    s->n_closes = 0;
    s->last_step_id++;
    s->n_flights++;
    s->n_steps++;
    s->tokens_computed += p.n_tokens;
    *out = p;
    return true;
}
