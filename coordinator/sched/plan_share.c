/* One sequence's share of a step: its tokens and blocks in the plan, and the preemption of others when
 * blocks are short.  Called by the other files that make a plan. */
#include <string.h>

#include "coordinator/sched/plan.h"

uint32_t plan_demand(const struct sched *s, const struct seq *q)
{
    uint32_t n = q->n_known + q->ahead + 1;
    if (n > q->n_end - 1)
        n = q->n_end - 1;
    uint32_t need = blocks_for(s, n);
    return need > q->n_table ? need - q->n_table : 0;
}

uint64_t plan_demand_running(const struct sched *s)
{
    uint64_t n = 0;
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        n += plan_demand(s, &s->seqs[i]);
    return n;
}

/* ---- one sequence's share of the step ---- */

static void add_open(struct draft *d, const struct seq *q)
{
    struct step_plan *p = d->p;
    const struct sched_req *r = &q->req;
    const struct sample_params *sp = &r->sp;
    struct plan_open *o = &p->opens[p->n_opens++];
    memset(o, 0, sizeof *o);
    o->seq_id = r->seq_id;
    o->sp = *sp;
    o->n_prompt = r->n_prompt;
    o->history_off = p->n_history;
    o->stop_off = p->n_stop_ids;
    o->bias_off = p->n_bias;
    o->grammar = r->grammar;
    if (plan_open_needs_history(o)) {
        o->n_history = q->pos;
        memcpy(p->history + p->n_history, r->tokens, q->pos * sizeof *r->tokens);
        p->n_history += q->pos;
    }
    if (r->n_stop_ids && sp->min_new > q->n_known - r->n_prompt) {
        o->n_stop_ids = r->n_stop_ids;
        memcpy(p->stop_ids + p->n_stop_ids, r->stop_ids, r->n_stop_ids * sizeof *r->stop_ids);
        p->n_stop_ids += r->n_stop_ids;
    }
    if (r->n_bias) {
        o->n_bias = r->n_bias;
        memcpy(p->bias + p->n_bias, r->bias, r->n_bias * sizeof *r->bias);
        p->n_bias += r->n_bias;
    }
}

/* Which of the n tokens' rows are scored. */
static void add_scores(struct draft *d, const struct seq *q, struct plan_seq *ps)
{
    struct step_plan *p = d->p;
    uint32_t n = seq_scores(q, ps->pos, ps->n_tokens);
    uint32_t first = ps->pos > q->scored ? ps->pos : q->scored;
    ps->n_score = n;
    ps->score_off = p->n_scores;
    if (n)
        memcpy(p->scores + p->n_scores, q->req.tokens + first + 1, n * sizeof *p->scores);
    p->n_scores += n;
    d->f->n_score += n;
}

/* The state behind the share's tokens, where it is kept: see States in sched.h. */
static void add_keep(struct draft *d, const struct seq *q, struct plan_seq *ps,
                     struct flight_seq *fs)
{
    struct sched *s = d->s;
    uint32_t bl = s->cfg.block_len, end = ps->pos + ps->n_tokens;
    bool asked = end == q->keep_branch || end == q->keep_prompt;
    if (!keeps_states(s) || !seq_shares(s, q) || (!asked && end % (KEEP_ROLLING * bl)))
        return;
    int32_t row = snapshot_take(&s->pool.snapshots, (int32_t)q->rolling - 1, q->req.seq_id);
    ps->keep = fs->keep = (uint32_t)(row + 1);
    fs->rolling = !asked;
}

/* Gives q its next n tokens in this step; the blocks for them are available.  first_block: from
 * there on the ranks do not know its table. */
static void add_seq(struct draft *d, int32_t i, uint32_t n, uint32_t first_block)
{
    struct sched *s = d->s;
    struct step_plan *p = d->p;
    struct seq *q = &s->seqs[i];
    while (q->n_table < blocks_for(s, q->pos + n))
        q->table[q->n_table++] = block_pool_take(&s->pool);

    struct plan_seq *ps = &p->seqs[p->n_seqs++];
    memset(ps, 0, sizeof *ps);
    ps->seq_id = q->req.seq_id;
    ps->pos = q->pos;
    ps->n_tokens = n;
    ps->token_off = p->n_tokens;
    ps->n_blocks = q->n_table - first_block;
    ps->block_off = p->n_blocks;
    ps->want = n < seq_todo(q) ? WANT_NONE : q->req.sp.embed ? WANT_EMBEDDING : WANT_LAST;
    memcpy(p->blocks + p->n_blocks, q->table + first_block, ps->n_blocks * sizeof *p->blocks);
    p->n_blocks += ps->n_blocks;
    uint32_t n_values = q->pos + n <= q->n_known ? n : n - 1;
    memcpy(p->tokens + p->n_tokens, q->req.tokens + q->pos, n_values * sizeof *p->tokens);
    if (n_values < n)
        p->tokens[p->n_tokens + n_values] = TOKEN_OF_LAST_STEP;
    p->n_tokens += n;
    add_scores(d, q, ps);

    if (n == 1)
        cost_add_decode(&d->f->load, q->pos);
    else
        cost_add_prompt(&d->f->load, q->pos, n);
    d->f->seqs[d->f->n++] = (struct flight_seq){.seq_id = q->req.seq_id,
                                                .slot = i,
                                                .n_tokens = n,
                                                .n_score = ps->n_score,
                                                .want = ps->want != WANT_NONE,
                                                .embed = ps->want == WANT_EMBEDDING};
    add_keep(d, q, ps, &d->f->seqs[d->f->n - 1]);
    ps->restore = q->restore;
    q->restore = 0;
    q->pos += n;
    q->last_step = p->step_id;
    q->last_turn = ++s->last_turn;
    if (ps->want != WANT_NONE) {
        q->ahead++;
        d->f->n_want++;
        d->f->n_embed += ps->want == WANT_EMBEDDING;
    }
}

/* ---- blocks ---- */

/* Among the lowest priority the one with the least computed, then the youngest; never the first in
 * rank order, nor one that this step computes.  -1: none. */
static int32_t choose_victim(const struct draft *d)
{
    const struct sched *s = d->s;
    int32_t best = -1;
    for (int32_t i = s->running.tail; i >= 0 && i != s->running.head; i = s->seqs[i].prev) {
        const struct seq *q = &s->seqs[i], *b = best < 0 ? NULL : &s->seqs[best];
        if (planned(d, q))
            continue;
        if (!b || q->req.priority < b->req.priority ||
            (q->req.priority == b->req.priority && q->pos < b->pos))
            best = i;
    }
    return best;
}

void plan_stop(struct draft *d, int32_t i)
{
    fx_push(d->out,
            (struct sched_effect){.kind = FX_PREEMPTED, .seq_id = d->s->seqs[i].req.seq_id});
    seq_stop(d->s, i, true);
}

/* How many of the n tokens that running sequence i wants there are blocks for.  When not even for
 * one, others are preempted, or i itself when it is the one to go: 0. */
static uint32_t secure(struct draft *d, int32_t i, uint32_t n)
{
    struct sched *s = d->s;
    const struct seq *q = &s->seqs[i];
    for (;;) {
        uint64_t room = (uint64_t)q->n_table + block_pool_available(&s->pool);
        room = room * s->cfg.block_len - q->pos;
        d->blocks_short |= room < n;
        if (room > 0)
            return room < n ? (uint32_t)room : n;
        int32_t victim = choose_victim(d);
        if (victim < 0)
            return 0;
        plan_stop(d, victim);
        s->n_preemptions++;
        d->preempted = true;
        if (victim == i)
            return 0;
    }
}

void plan_continue(struct draft *d, int32_t i, uint32_t n, bool opening)
{
    const struct seq *q = &d->s->seqs[i];
    uint32_t first_block = opening ? 0 : q->n_table;
    n = seq_within_scores(q, q->pos, n, scores_left(d));
    n = seq_within_keeps(q, q->pos, n);
    if (n > 0)
        n = secure(d, i, n);
    if (n > 0)
        add_seq(d, i, n, first_block);
}

/* ---- prompts ---- */

bool plan_sibling_computes(const struct sched *s, const struct seq *q)
{
    uint32_t shared = (q->req.n_prompt - 1) / s->cfg.block_len * s->cfg.block_len;
    if (!may_share(s) || q->req.group_id == 0 || shared == 0)
        return false;
    int32_t i = seq_first_of_group(s, q->req.group_id);
    for (; i >= 0; i = seq_next_of_group(s, i)) {
        const struct seq *o = &s->seqs[i];
        if (o->state == SEQ_RUNNING && o->done < shared && o->n_known >= shared)
            return true;
    }
    return false;
}

bool plan_fits(const struct draft *d, const struct seq *q, uint64_t demand,
               struct known_prefix *known)
{
    const struct sched *s = d->s;
    *known = seq_known_prefix(s, q, s->free_rows[s->n_free_rows - 1]);
    if ((uint64_t)d->n_hit_blocks + known->n > s->max_blocks)
        return false; /* the plan's arrays; the next step has room */
    return demand + plan_demand(s, q) - known->n + known->n_idle <= block_pool_available(&s->pool);
}

static bool has_siblings(const struct sched *s, const struct seq *q)
{
    int32_t i = q->req.group_id ? seq_first_of_group(s, q->req.group_id) : -1;
    return i >= 0 && (&s->seqs[i] != q || seq_next_of_group(s, i) >= 0);
}

/* Where the state of a sequence that begins with those blocks will be kept: see States in sched.h. */
static void choose_keeps(const struct sched *s, struct seq *q, const struct known_prefix *known)
{
    uint32_t bl = s->cfg.block_len, end = (q->n_known - 1) / bl;
    if (!keeps_states(s) || !seq_shares(s, q))
        return;
    if (known->n_all >= known->n + KEEP_BRANCH)
        q->keep_branch = known->n_all * bl;
    if (end >= known->n + KEEP_PROMPT || (end > known->n && has_siblings(s, q)))
        q->keep_prompt = end * bl;
}

void plan_open(struct draft *d, int32_t i, const struct known_prefix *known)
{
    struct sched *s = d->s;
    struct seq *q = &s->seqs[i];
    uint32_t n_hits = known->n;
    seq_start(s, i);
    for (uint32_t k = 0; k < n_hits; k++)
        block_pool_share(&s->pool, q->table[k]);
    q->n_table = n_hits;
    q->n_hashed = n_hits;
    q->chain = n_hits ? s->pool.blocks[q->table[n_hits - 1]].prefix_id : 0;
    q->pos = n_hits * s->cfg.block_len;
    q->done = q->pos;
    q->turn_known = q->n_known;
    q->turn_pos = q->pos;
    choose_keeps(s, q, known);
    q->restore = known->snapshot;
    if (q->restore)
        snapshot_use(&s->pool.snapshots, (int32_t)q->restore - 1);
    d->n_hit_blocks += n_hits;
    s->tokens_cached += q->pos;
    if (!q->admitted)
        fx_push(d->out,
                (struct sched_effect){.kind = FX_ADMITTED,
                                      .seq_id = q->req.seq_id,
                                      .n = q->pos < q->req.n_prompt ? q->pos : q->req.n_prompt});
    q->admitted = true;
    add_open(d, q);
}
