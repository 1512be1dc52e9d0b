/* The bounds of a step that was planned by time, read again from the plan and the state after it.
 * Called by check.c right after sched_plan, before anything else changes. */
#include <math.h>

#include "coordinator/sched/internal.h"

struct share { /* a prompt's part of the step */
    const struct seq *q;
    uint32_t pos, todo, n; /* pos and todo before the step */
    bool opened;
};

struct view_of_plan {
    const struct sched *s;
    const struct flight *f;
    struct cost_load decodes; /* those before the first prompt */
    double limit_us, prompt_us;
    uint32_t most_tokens, tokens; /* of prompts: at most, and in the plan */
    const struct seq *oldest;
    double
        used_us; /* of the prompts, without the first token of each and the context that it reads */
};

static struct share share_of(const struct sched *s, const struct flight *f, uint32_t k)
{
    const struct flight_seq *fs = &f->seqs[k];
    const struct seq *q = &s->seqs[fs->slot];
    return (struct share){.q = q,
                          .pos = q->pos - fs->n_tokens,
                          .todo = q->n_known + q->ahead - fs->want - (q->pos - fs->n_tokens),
                          .n = fs->n_tokens,
                          .opened = q->moved_step == f->step_id};
}

static bool is_prompt(const struct share *x)
{
    return x->opened || x->todo > 1;
}

static double limit_of(const struct sched *s, const struct cost_load *decodes)
{
    double d = cost_of(&s->cost, decodes);
    if (!cost_known(&s->cost))
        return 0.0;
    if (decodes->n_decodes == 0)
        return s->cfg.max_step_us == SCHED_AUTO ? 0.0 : s->cfg.max_step_us;
    if (s->cfg.target_itl_us != SCHED_AUTO)
        return fmax(s->cfg.target_itl_us, d * 4 / 3);
    uint32_t live = s->running.n + s->waiting.n,
             n = live < s->cfg.max_seqs ? live : s->cfg.max_seqs;
    if (!s->cfg.target_of_all || n <= decodes->n_decodes)
        return 2.5 * d;
    struct cost_load all = {.n_decodes = n,
                            .n_prompt = decodes->n_prompt,
                            .read = decodes->read / decodes->n_decodes * n,
                            .prompt_ctx = decodes->prompt_ctx};
    return 2.5 * cost_of(&s->cost, &all);
}

/* Prompt tokens of the step. */
static uint32_t most_tokens(const struct sched *s, const struct cost_load *decodes)
{
    uint32_t most = s->cfg.max_step_tokens - decodes->n_decodes, n;
    if (decodes->n_decodes > 0 || s->cfg.max_step_us != SCHED_AUTO || !cost_known(&s->cost))
        return most;
    n = cost_efficient(&s->cost, most, s->cfg.prefill_loss_pct / 100.0);
    n = n < EFFICIENT_TOKENS ? EFFICIENT_TOKENS : n;
    return n < most ? n : most;
}

static void take_older(struct view_of_plan *v, const struct seq *q)
{
    if (!v->oldest || seq_before(q, v->oldest))
        v->oldest = q;
}

/* Prompts that the step leaves out. */
static bool left_out(const struct view_of_plan *v, const struct seq *q)
{
    return q->last_step != v->f->step_id && seq_todo(q) > 1;
}

static void read_plan(struct view_of_plan *v)
{
    const struct sched *s = v->s;
    uint32_t k = 0;
    for (; k < v->f->n; k++) {
        struct share x = share_of(s, v->f, k);
        if (is_prompt(&x))
            break;
        cost_add_decode(&v->decodes, x.pos);
    }
    v->limit_us = limit_of(s, &v->decodes);
    v->prompt_us = v->limit_us - cost_of(&s->cost, &v->decodes);
    v->most_tokens = most_tokens(s, &v->decodes);
    for (; k < v->f->n; k++) {
        struct share x = share_of(s, v->f, k);
        if (!is_prompt(&x))
            continue;
        take_older(v, x.q);
        v->tokens += x.n;
        v->used_us += cost_of_prompt(&s->cost, x.pos, x.n) - cost_of_prompt(&s->cost, x.pos, 1);
    }
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        if (left_out(v, &s->seqs[i]))
            take_older(v, &s->seqs[i]);
}

static const char *check_oldest(const struct view_of_plan *v, const struct share *x)
{
    const struct sched *s = v->s;
    uint32_t least = x->todo;
    if (v->limit_us > 0.0)
        least = cost_fit(&s->cost, x->pos, v->prompt_us / 4, x->todo);
    if (least > v->most_tokens / 4)
        least = v->most_tokens / 4;
    /* a scored prompt: what the rows of those just opened leave */
    least = seq_within_scores(x->q, x->pos, least, MAX_SCORED_ROWS - MAX_OPENS);
    least = seq_within_keeps(x->q, x->pos, least);
    return x->n >= least ? NULL : "the first prompt in order has its quarter of the step";
}

/* Does what is left of the prompt need scored rows?  It may lack these, so others pass it. */
static bool is_scored(const struct seq *q, uint32_t pos, uint32_t todo)
{
    return seq_scores(q, pos, todo) > 0;
}

/* x has more than it must have: no shorter prompt may want tokens. */
static const char *check_shortest(const struct view_of_plan *v, const struct share *x)
{
    const struct sched *s = v->s;
    const char *broken = "a prompt goes on only when no shorter one could";
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        if (left_out(v, &s->seqs[i]) && seq_todo(&s->seqs[i]) < x->todo &&
            !is_scored(&s->seqs[i], s->seqs[i].pos, seq_todo(&s->seqs[i])))
            return broken;
    for (uint32_t k = 0; k < v->f->n; k++) {
        struct share y = share_of(s, v->f, k);
        if (is_prompt(&y) && y.q != v->oldest && y.todo < x->todo &&
            y.n < seq_within_keeps(y.q, y.pos, y.todo) && !is_scored(y.q, y.pos, y.todo))
            return broken;
    }
    return NULL;
}

static const char *check_shares(const struct view_of_plan *v)
{
    bool oldest_served = v->oldest == NULL;
    for (uint32_t k = 0; k < v->f->n; k++) {
        struct share x = share_of(v->s, v->f, k);
        const char *broken = NULL;
        if (!is_prompt(&x))
            continue;
        if (x.q == v->oldest) {
            oldest_served = true;
            broken = check_oldest(v, &x);
        } else if (x.n > 1 || !x.opened) {
            broken = check_shortest(v, &x);
        }
        if (broken)
            return broken;
    }
    if (!oldest_served && v->decodes.n_decodes < v->s->cfg.max_step_tokens)
        return "the first prompt in order always goes on";
    return NULL;
}

/* Nothing is let in past one that could be; nothing is paused within its turn. */
static const char *check_order(const struct view_of_plan *v)
{
    const struct sched *s = v->s;
    int32_t w = tree_first(s, &s->waiting);
    for (uint32_t k = 0; k < v->f->n; k++) {
        struct share x = share_of(s, v->f, k);
        if (!x.opened)
            continue;
        for (int32_t i = w, n = 0; i >= 0 && n < LOOK_PAST; i = tree_next(s, &s->waiting, i), n++) {
            const struct seq *q = &s->seqs[i];
            if (q->moved_step != v->f->step_id && !q->ahead && q->req.group_id == 0 &&
                seq_before(q, x.q))
                return "none is let in past one that waits";
        }
    }
    return NULL;
}

static const char *check_turns(const struct view_of_plan *v)
{
    const struct sched *s = v->s;
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i)) {
        const struct seq *q = &s->seqs[i];
        if (q->moved_step == v->f->step_id && q->turn_done < s->cfg.turn_tokens)
            return "no sequence is paused before turn_tokens";
    }
    return NULL;
}

/* A step of whole prompts; see Whole prompts in sched.h. */
static const char *check_whole(const struct view_of_plan *v)
{
    const struct sched *s = v->s;
    struct cost_load load = {0};
    for (uint32_t k = 0; k < v->f->n; k++) {
        struct share x = share_of(s, v->f, k);
        if (!sample_whole(&x.q->req.sp) || x.pos != 0 || x.n != x.q->n_known)
            return "a whole prompt is in one step";
        cost_add_prompt(&load, 0, x.n);
    }
    if (v->tokens > s->cfg.max_step_tokens || (v->f->n > 1 && v->tokens > v->most_tokens))
        return "several whole prompts are within the step's tokens";
    if (v->f->n > 1 && v->limit_us > 0.0 && cost_of(&s->cost, &load) > v->limit_us * (1 + 1e-6))
        return "several whole prompts are within the step's time";
    return s->facts.front ? NULL : check_order(v);
}

const char *plan_broken(const struct sched *s)
{
    struct view_of_plan v = {.s = s, .f = &s->flights[s->n_flights - 1]};
    const char *broken;
    read_plan(&v);
    if (sample_whole(&s->seqs[v.f->seqs[0].slot].req.sp))
        return check_whole(&v);
    if ((broken = check_turns(&v)) || s->facts.blocks_short)
        return broken; /* where blocks are short, shares are cut to them */
    double most = fmax(v.prompt_us, 0.0) + 1e-6 * v.limit_us;
    if (v.tokens > v.most_tokens)
        return "the prompts' part of a step is within its tokens";
    if (v.limit_us > 0.0 && v.used_us > most)
        return "the prompts' part of a step is within its time";
    if ((broken = check_shares(&v)))
        return broken;
    return s->facts.front ? NULL : check_order(&v);
}
