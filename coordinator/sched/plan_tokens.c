/* The prompts of a step that is planned by tokens: running prompts and waiting sequences in one rank
 * order share what the decodes leave of max_step_tokens.  Called by plan.c. */
#include "coordinator/sched/plan.h"

static void continue_prompt(struct draft *d, int32_t i, bool opening)
{
    uint32_t n = seq_todo(&d->s->seqs[i]);
    plan_continue(d, i, n < budget_left(d) ? n : budget_left(d), opening);
}

/* Opens waiting sequence i when there is room for its known tokens and one more beside what the
 * running ones need for theirs: so that letting it in does not push others out at once. */
static bool admit(struct draft *d, int32_t i)
{
    struct sched *s = d->s;
    struct known_prefix known;
    if (d->preempted || s->n_free_rows == 0 || scores_left(d) == 0 ||
        !plan_fits(d, &s->seqs[i], plan_demand_running(s), &known))
        return false;
    plan_open(d, i, &known);
    continue_prompt(d, i, true);
    return true;
}

/* No sequence passes a waiting one that does not fit, except over one that waits for its sibling or
 * for its own token in flight. */
void plan_prompts_by_tokens(struct draft *d)
{
    struct sched *s = d->s;
    int32_t r = s->running.head, w = tree_first(s, &s->waiting);
    while (budget_left(d) > 0) {
        while (r >= 0 && (seq_todo(&s->seqs[r]) < 2 || planned(d, &s->seqs[r])))
            r = s->seqs[r].next;
        while (w >= 0 && (s->seqs[w].ahead || plan_sibling_computes(s, &s->seqs[w])))
            w = tree_next(s, &s->waiting, w);
        if (r < 0 && w < 0)
            return;
        if (w < 0 || (r >= 0 && seq_before(&s->seqs[r], &s->seqs[w]))) {
            continue_prompt(d, r, false);
            bool stayed = s->seqs[r].state == SEQ_RUNNING;
            r = stayed ? s->seqs[r].next : s->running.head;
            continue;
        }
        int32_t next = tree_next(s, &s->waiting, w);
        w = admit(d, w) ? next : -1;
    }
}
