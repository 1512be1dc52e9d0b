/* The prompts of a step that is planned by time, and the turns of running sequences: see sched.h.
 * Called by plan.c. */
#include "coordinator/sched/plan.h"

enum { OLDEST_SHARE = 4 };

int32_t plan_next_ready(const struct sched *s, int32_t i)
{
    for (int k = 0; i >= 0 && k < LOOK_PAST; k++, i = tree_next(s, &s->waiting, i))
        if (!s->seqs[i].ahead && !plan_sibling_computes(s, &s->seqs[i]))
            return i;
    return -1;
}

/* ---- turns ---- */

/* Tokens that are computed again when q goes on and its full blocks are still known. */
static uint32_t lost_by_pause(const struct sched *s, const struct seq *q)
{
    return seq_shares(s, q) ? 0 : q->n_known;
}

static bool turn_is_over(const struct sched *s, const struct seq *q, const struct seq *head,
                         bool blocks_short)
{
    uint32_t least = s->cfg.turn_tokens, lost = blocks_short ? q->n_known : lost_by_pause(s, q);
    if (q->req.priority < head->req.priority)
        return q->pos - q->turn_pos >= least;
    if (seq_todo(q) > 1 || q->n_known + q->ahead >= q->n_end)
        return false;
    return q->n_known - q->turn_known >= (lost > least ? lost : least);
}

/* Would q, in its next turn, come after head? */
static bool yields_to(const struct sched *s, const struct seq *q, const struct seq *head,
                      int64_t *rank)
{
    uint64_t round = turns_next_round(s, q);
    *rank = turns_rank(s, q, round);
    if (head->front || *rank != head->rank)
        return head->front || *rank > head->rank;
    return round >= head->round; /* it would have the later ticket */
}

/* The running sequence that has to make room for head, -1: none.  The last in the order of next
 * turns; of equals the one whose turn is the longest. */
static int32_t who_yields(const struct sched *s, const struct seq *head, bool blocks_short)
{
    int32_t best = -1;
    int64_t best_rank = 0, rank;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next) {
        const struct seq *q = &s->seqs[i];
        if (!turn_is_over(s, q, head, blocks_short) || !yields_to(s, q, head, &rank))
            continue;
        if (best >= 0 && (rank < best_rank ||
                          (rank == best_rank &&
                           q->pos - q->turn_pos <= s->seqs[best].pos - s->seqs[best].turn_pos)))
            continue;
        best = i;
        best_rank = rank;
    }
    return best;
}

static void pause_seq(struct draft *d, int32_t i)
{
    struct sched *s = d->s;
    turns_queue(s, &s->seqs[i]);
    s->seqs[i].ticket = ++s->last_arrival;
    s->seqs[i].turn_done = s->seqs[i].pos - s->seqs[i].turn_pos;
    s->seqs[i].moved_step = d->p->step_id;
    plan_stop(d, i);
    s->n_pauses++;
    d->paused = true;
}

/* Makes room for the blocks of the first waiting sequence; it has a place. */
static void make_room(struct draft *d, int32_t head)
{
    struct sched *s = d->s;
    const struct seq *q = &s->seqs[head];
    struct known_prefix known;
    for (int32_t i; s->running.n > 0; pause_seq(d, i)) {
        i = who_yields(s, q, true);
        if (i < 0 || plan_fits(d, q, plan_demand_running(s), &known))
            return;
    }
}

void plan_turns(struct draft *d)
{
    struct sched *s = d->s;
    uint32_t n_places = s->n_free_rows;
    int32_t first = plan_next_ready(s, tree_first(s, &s->waiting)), w = first;
    if (s->cfg.turn_tokens == 0)
        return;
    for (uint32_t k = 0; w >= 0 && k < MAX_OPENS; k++) {
        if (d->paused && s->seqs[w].moved_step == d->p->step_id)
            break;
        if (n_places > 0) {
            n_places--;
        } else {
            int32_t i = who_yields(s, &s->seqs[w], false);
            if (i < 0)
                break;
            pause_seq(d, i);
        }
        w = plan_next_ready(s, tree_next(s, &s->waiting, w));
    }
    if (first >= 0 && s->n_free_rows > 0)
        make_room(d, first);
}

/* ---- the prompts' time ---- */

/* The decodes' time when all live sequences that have a place decode, with contexts as long as theirs. */
static double cost_of_all(const struct sched *s, const struct cost_load *decodes)
{
    uint32_t n = s->running.n + s->waiting.n;
    struct cost_load all = *decodes;
    n = n < s->cfg.max_seqs ? n : s->cfg.max_seqs;
    if (n > decodes->n_decodes) {
        all.n_decodes = n;
        all.read = decodes->read / decodes->n_decodes * n;
    }
    return cost_of(&s->cost, &all);
}

/* 0: the step has no limit in time. */
static double limit_of(const struct sched *s, const struct cost_load *load)
{
    const struct sched_config *cfg = &s->cfg;
    double decodes = cost_of(&s->cost, load), target = cfg->target_itl_us;
    if (!cost_known(&s->cost))
        return 0.0;
    if (load->n_decodes == 0)
        return cfg->max_step_us == SCHED_AUTO ? 0.0 : cfg->max_step_us;
    if (cfg->target_itl_us == SCHED_AUTO)
        return 2.5 * (cfg->target_of_all ? cost_of_all(s, load) : decodes);
    return target > decodes * 4 / 3 ? target : decodes * 4 / 3;
}

uint32_t plan_most_tokens(const struct sched *s)
{
    uint32_t most = s->cfg.max_step_tokens, n;
    if (s->cfg.max_step_us != SCHED_AUTO || !cost_known(&s->cost))
        return most;
    n = cost_efficient(&s->cost, most, s->cfg.prefill_loss_pct / 100.0);
    n = n < EFFICIENT_TOKENS ? EFFICIENT_TOKENS : n;
    return n < most ? n : most;
}

struct split { /* of the prompts' part of the step */
    struct draft *d;
    double all_us, us; /* of it, and left */
    bool bounded;      /* in time */
    bool alone;        /* nothing decodes */
    uint32_t all_tokens, tokens;
    uint32_t scores;       /* rows that may still be scored */
    uint32_t n, n_running; /* sequences: those that ran before first, each part in rank order */
    int32_t *slots;        /* [n] */
    uint32_t *shares;      /* [n] */
};

/* The most tokens that sequence i could have with us of the time. */
static uint32_t fit(const struct split *p, int32_t i, double us)
{
    const struct sched *s = p->d->s;
    uint32_t todo = seq_todo(&s->seqs[i]);
    uint32_t most = todo < p->tokens ? todo : p->tokens;
    most = seq_within_scores(&s->seqs[i], s->seqs[i].pos, most, p->scores);
    most = seq_within_keeps(&s->seqs[i], s->seqs[i].pos, most);
    return p->bounded ? cost_fit(&s->cost, s->seqs[i].pos, us, most) : most;
}

/* Makes the share of sequence k of the split n tokens. */
static void set_share(struct split *p, uint32_t k, uint32_t n)
{
    const struct sched *s = p->d->s;
    const struct seq *q = &s->seqs[p->slots[k]];
    uint32_t pos = q->pos;
    p->scores += seq_scores(q, pos, p->shares[k]) - seq_scores(q, pos, n);
    p->tokens += p->shares[k] - n;
    p->us += cost_of_prompt(&s->cost, pos, p->shares[k]) - cost_of_prompt(&s->cost, pos, n);
    p->shares[k] = n;
}

static void add(struct split *p, int32_t i, uint32_t n)
{
    p->slots[p->n] = i;
    p->shares[p->n] = 0;
    set_share(p, p->n++, n);
}

/* Opens waiting sequences in order while there are places, blocks and time for a token of each: at
 * most half of the time, so that a quarter each is left for the oldest and for the shortest. */
static void open_waiting(struct split *p)
{
    struct draft *d = p->d;
    struct sched *s = d->s;
    uint64_t demand = plan_demand_running(s);
    struct known_prefix known;
    int32_t w = d->preempted ? -1 : plan_next_ready(s, tree_first(s, &s->waiting));
    for (uint32_t k = 0; w >= 0 && s->n_free_rows > 0 && k < MAX_OPENS; k++) {
        struct seq *q = &s->seqs[w];
        bool room = p->tokens > 1 + p->all_tokens / 2 && (!p->bounded || p->us > p->all_us / 2);
        if ((p->n > 0 && !room) || (d->paused && q->moved_step == d->p->step_id) ||
            !plan_fits(d, q, demand, &known))
            return;
        int32_t next = tree_next(s, &s->waiting, w);
        q->moved_step = d->p->step_id;
        s->facts.front |= q->front;
        plan_open(d, w, &known);
        demand += plan_demand(s, q);
        add(p, w, 1);
        w = next < 0 ? -1 : plan_next_ready(s, next);
    }
}

/* The first in order has its quarter for certain. */
static void serve_oldest(struct split *p)
{
    struct sched *s = p->d->s;
    uint32_t k = 0, n;
    for (uint32_t i = 1; i < p->n; i++)
        if (seq_before(&s->seqs[p->slots[i]], &s->seqs[p->slots[k]]))
            k = i;
    set_share(p, k, 0);
    n = fit(p, p->slots[k], p->all_us / (double)OLDEST_SHARE);
    if (!p->bounded && n > p->all_tokens / OLDEST_SHARE)
        n = p->all_tokens / OLDEST_SHARE;
    set_share(p, k, n > 0 ? n : 1);
}

/* Shell's sort: short lists. */
static void sort(uint64_t *v, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (uint32_t i = gap; i < n; i++) {
            uint64_t x = v[i];
            uint32_t k = i;
            for (; k >= gap && v[k - gap] > x; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
}

/* What is left, to the shortest; to the next when that one is computed to its end.  Where nothing
 * decodes, a step that ends prompts is not filled up with parts of others: see Prompts. */
static void serve_shortest(struct split *p)
{
    const struct sched *s = p->d->s;
    bool ended = false;
    uint64_t *order = s->order;
    for (uint32_t k = 0; k < p->n; k++)
        order[k] = (uint64_t)seq_todo(&s->seqs[p->slots[k]]) << 32 | k;
    sort(order, p->n);
    for (uint32_t i = 0; i < p->n && p->tokens > 0 && (!p->bounded || p->us > 0.0); i++) {
        uint32_t k = (uint32_t)order[i], had = p->shares[k];
        set_share(p, k, 0);
        uint32_t n = fit(p, p->slots[k], p->us), todo = (uint32_t)(order[i] >> 32);
        set_share(p, k, n > had && !(ended && n < todo) ? n : had);
        const struct seq *q = &s->seqs[p->slots[k]];
        if (p->shares[k] == todo)
            ended = p->alone;
        else if (!seq_scores(q, q->pos, todo) && p->shares[k] < seq_within_keeps(q, q->pos, todo))
            return; /* else it lacks scored rows, which others do not need, or ends at a snapshot */
    }
}

void plan_prompts_by_time(struct draft *d)
{
    struct sched *s = d->s;
    double limit = limit_of(s, &d->f->load), us = limit - cost_of(&s->cost, &d->f->load);
    bool alone = d->f->load.n_decodes == 0;
    uint32_t tokens = budget_left(d);
    if (alone && tokens > plan_most_tokens(s))
        tokens = plan_most_tokens(s);
    struct split p = {.d = d,
                      .all_us = us,
                      .us = us,
                      .bounded = limit > 0.0,
                      .alone = alone,
                      .all_tokens = tokens,
                      .tokens = tokens,
                      .scores = MAX_SCORED_ROWS,
                      .slots = s->picked,
                      .shares = s->shares};
    if (p.tokens == 0)
        return;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        if (seq_todo(&s->seqs[i]) > 1 && !planned(d, &s->seqs[i]))
            add(&p, i, 0);
    p.n_running = p.n;
    open_waiting(&p);
    if (p.n == 0)
        return;
    serve_oldest(&p);
    serve_shortest(&p);
    /* those just opened first: their blocks are there, and they cannot be preempted any more */
    for (uint32_t k = p.n_running; k < p.n; k++)
        plan_continue(d, p.slots[k], p.shares[k], true);
    for (uint32_t k = 0; k < p.n_running; k++)
        if (p.shares[k] > 0 && s->seqs[p.slots[k]].state == SEQ_RUNNING)
            plan_continue(d, p.slots[k], p.shares[k], false);
}
