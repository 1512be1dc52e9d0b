/* The plan being made: what plan.c, plan_share.c, plan_tokens.c and plan_time.c share. */
#ifndef COORDINATOR_SCHED_PLAN_H
#define COORDINATOR_SCHED_PLAN_H

#include "coordinator/sched/internal.h"

struct draft {
    struct sched *s;
    struct step_plan *p;
    struct flight *f;
    struct fx_list *out;
    uint32_t n_hit_blocks; /* cached blocks given to opens so far */
    bool preempted;        /* a sequence was preempted: none is admitted */
    bool blocks_short;     /* so, or a share was cut to the blocks there are */
    bool paused;           /* by this plan: moved_step tells which */
};

static inline bool planned(const struct draft *d, const struct seq *q)
{
    return q->last_step == d->p->step_id;
}

static inline uint32_t budget_left(const struct draft *d)
{
    return d->s->cfg.max_step_tokens - d->p->n_tokens;
}

static inline uint32_t scores_left(const struct draft *d)
{
    return MAX_SCORED_ROWS - d->p->n_scores;
}

/* --- plan_share.c --- */

/* Blocks that q still needs for its known tokens and one more. */
uint32_t plan_demand(const struct sched *s, const struct seq *q);
/* demand of all that run */
uint64_t plan_demand_running(const struct sched *s);
/* Do q's known tokens and one more fit beside what the running sequences need?  known: the blocks that it begins
 * with, written to the table that seq_start will give it.  Needs a free row. */
bool plan_fits(const struct draft *d, const struct seq *q, uint64_t demand,
               struct known_prefix *known);
/* Opens waiting sequence i, which fits; a share of at least one token must follow. */
void plan_open(struct draft *d, int32_t i, const struct known_prefix *known);
/* Gives running sequence i its next n tokens, or fewer where blocks or scored rows are short or its state is kept.  When not even one
 * fits, others are preempted, or i itself when it is the one to go. */
void plan_continue(struct draft *d, int32_t i, uint32_t n, bool opening);
/* A sample waits while a sibling computes the prompt blocks that it will share. */
bool plan_sibling_computes(const struct sched *s, const struct seq *q);
/* Running sequence i returns to the queue. */
void plan_stop(struct draft *d, int32_t i);

/* --- plan_tokens.c, plan_time.c: the prompts of the step; decodes are planned already --- */
void plan_prompts_by_tokens(struct draft *d);
void plan_prompts_by_time(struct draft *d);
/* plan_time.c: the prompt tokens of a step without decodes, by time */
uint32_t plan_most_tokens(const struct sched *s);
/* plan_time.c: the next waiting sequence from i on that does not wait for its sibling or for its own
 * token in flight; -1: none within LOOK_PAST */
int32_t plan_next_ready(const struct sched *s, int32_t i);
/* --- plan_whole.c: in place of both, where the sequences are of an encoder --- */
bool plan_is_whole(const struct sched *s);
void plan_prompts_whole(struct draft *d);
/* plan_time.c: pauses sequences whose turn is over for those that wait; before all else */
void plan_turns(struct draft *d);

#endif
