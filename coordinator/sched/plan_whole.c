/* The prompts of a step for an encoder, where each is in one step as a whole: in order, as many as
 * fit; see Whole prompts in sched.h.  Called by plan.c. */
#include "coordinator/sched/plan.h"

/* A model is an encoder or it is none, so that all waiting sequences are alike. */
bool plan_is_whole(const struct sched *s)
{
    int32_t w = tree_first(s, &s->waiting);
    return w >= 0 && sample_whole(&s->seqs[w].req.sp);
}

/* Is the step long enough without the n tokens of another prompt? */
static bool is_full(const struct draft *d, uint32_t n)
{
    const struct sched *s = d->s;
    struct cost_load more = d->f->load;
    if (n > budget_left(d))
        return true;
    if (d->p->n_tokens == 0 || !timed(s) || !cost_known(&s->cost))
        return false;
    if (s->cfg.max_step_us == SCHED_AUTO)
        return d->p->n_tokens + n > plan_most_tokens(s);
    cost_add_prompt(&more, 0, n);
    return s->cfg.max_step_us > 0 && cost_of(&s->cost, &more) > s->cfg.max_step_us;
}

void plan_prompts_whole(struct draft *d)
{
    struct sched *s = d->s;
    uint64_t demand = plan_demand_running(s);
    struct known_prefix known;
    int32_t w = plan_next_ready(s, tree_first(s, &s->waiting));
    while (w >= 0 && s->n_free_rows > 0 && !d->preempted) {
        struct seq *q = &s->seqs[w];
        if (is_full(d, q->n_known) || (d->paused && q->moved_step == d->p->step_id) ||
            !plan_fits(d, q, demand, &known))
            return;
        int32_t next = tree_next(s, &s->waiting, w);
        q->moved_step = d->p->step_id;
        s->facts.front |= q->front;
        plan_open(d, w, &known);
        plan_continue(d, w, q->n_known, true);
        demand += plan_demand(s, q);
        w = next < 0 ? -1 : plan_next_ready(s, next);
    }
}
