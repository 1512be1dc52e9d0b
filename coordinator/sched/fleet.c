#include "coordinator/sched/fleet.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/sched/internal.h"

enum { GROUP_WAITING = 256, MAX_QUEUE_FOR = 65536, MOVES_AT_ONCE = 1024 };

struct fleet {
    struct sched_config group; /* of each group's scheduler */
    struct sched *scheds[FLEET_SCHEDS];
    bool open[FLEET_SCHEDS];
    struct fleet_move moves[MOVES_AT_ONCE];
};

/* ---- life ---- */

static struct sched_config queue_config(const struct sched_config *cfg)
{
    struct sched_config c = *cfg;
    uint64_t n = (uint64_t)FLEET_GROUPS * cfg->max_seqs;
    c.queue_for = n < MAX_QUEUE_FOR ? (uint32_t)n : MAX_QUEUE_FOR;
    return c;
}

/* Few sequences wait in a group, so its tables are small. */
static struct sched_config group_config(const struct sched_config *cfg)
{
    struct sched_config c = *cfg;
    c.queue_for = 0;
    if (c.max_waiting > GROUP_WAITING)
        c.max_waiting = GROUP_WAITING;
    return c;
}

size_t fleet_bytes(const struct sched_config *cfg, uint32_t n_groups)
{
    struct sched_config queue = queue_config(cfg), group = group_config(cfg);
    size_t a = sched_bytes(&queue), b = sched_bytes(&group);
    if (!a || !b || (n_groups && b > (SIZE_MAX - sizeof(struct fleet) - a) / n_groups))
        return 0;
    return sizeof(struct fleet) + a + n_groups * b;
}

size_t fleet_max_fx(const struct sched_config *cfg)
{
    struct sched_config queue = queue_config(cfg), group = group_config(cfg);
    return sched_max_fx(&queue) + sched_max_fx(&group);
}

enum status fleet_create(struct fleet **out, const struct sched_config *cfg)
{
    struct sched_config queue = queue_config(cfg);
    *out = NULL;
    struct fleet *f = calloc(1, sizeof *f);
    if (!f)
        FAIL(ST_NOMEM, "no memory for the schedulers");
    f->group = group_config(cfg);
    enum status st = sched_create(&f->scheds[FLEET_QUEUE], &queue);
    if (st != ST_OK) {
        fleet_destroy(f);
        return st;
    }
    *out = f;
    return ST_OK;
}

void fleet_destroy(struct fleet *f)
{
    for (uint32_t i = 0; f && i < FLEET_SCHEDS; i++)
        sched_destroy(f->scheds[i]);
    free(f);
}

/* ---- groups ---- */

enum status fleet_submit(struct fleet *f, const struct sched_req *r)
{
    for (uint32_t i = 1; i < FLEET_SCHEDS; i++)
        if (f->scheds[i] && seq_find(f->scheds[i], r->seq_id) >= 0)
            FAIL(ST_RANGE, "sequence %llu is live already", (unsigned long long)r->seq_id);
    return sched_submit(f->scheds[FLEET_QUEUE], r);
}

int fleet_cancel(struct fleet *f, uint64_t seq_id)
{
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++) {
        if (!f->scheds[i] || seq_find(f->scheds[i], seq_id) < 0)
            continue;
        sched_cancel(f->scheds[i], seq_id);
        return (int)i;
    }
    return -1;
}

static uint32_t most_blocks(const struct fleet *f)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < FLEET_SCHEDS; i++)
        if (f->open[i] && f->scheds[i]->pool.n_blocks > most)
            most = f->scheds[i]->pool.n_blocks;
    return most;
}

/* The queue takes what fits into the largest open group. */
static void fit_queue(struct fleet *f, struct fx_list *out)
{
    struct sched *q = f->scheds[FLEET_QUEUE];
    uint32_t most = most_blocks(f);
    size_t n = 0;
    if (most && most != q->pool.n_blocks)
        sched_reset(q, most, out->fx + out->n, out->cap - out->n, &n);
    out->n += n;
}

enum status fleet_open(struct fleet *f, uint32_t g, uint32_t n_blocks, struct sched_effect *fx,
                       size_t fx_cap, size_t *n_fx)
{
    struct fx_list out = {.fx = fx, .cap = fx_cap};
    assert(g >= 1 && g < FLEET_SCHEDS && !f->open[g]);
    *n_fx = 0;
    if (!f->scheds[g])
        TRY(sched_create(&f->scheds[g], &f->group));
    sched_reset(f->scheds[g], n_blocks, fx, fx_cap, n_fx); /* it has no sequences: no effects */
    f->open[g] = true;
    fit_queue(f, &out);
    *n_fx = out.n;
    return ST_OK;
}

void fleet_close(struct fleet *f, uint32_t g, struct sched_effect *fx, size_t fx_cap, size_t *n_fx)
{
    struct fx_list out = {.fx = fx, .cap = fx_cap};
    struct sched *s = f->scheds[g];
    size_t n = 0;
    assert(g >= 1 && g < FLEET_SCHEDS && f->open[g]);
    f->open[g] = false;
    sched_reset(s, 0, fx, fx_cap, &n); /* the blocks stay as many: no effects */
    for (const struct sched_req *r; (r = sched_first(s));) {
        uint64_t id = r->seq_id;
        if (sched_move(s, f->scheds[FLEET_QUEUE], id) == ST_OK)
            continue;
        fx_push(&out,
                (struct sched_effect){.kind = FX_FINISHED, .seq_id = id, .reason = FINISH_FAILED});
        sched_cancel(s, id);
    }
    fit_queue(f, &out);
    *n_fx = out.n;
}

bool fleet_is_open(const struct fleet *f, uint32_t g)
{
    return g < FLEET_SCHEDS && f->open[g];
}

uint32_t fleet_n_open(const struct fleet *f)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < FLEET_SCHEDS; i++)
        n += f->open[i];
    return n;
}

/* ---- moves ---- */

enum status fleet_move(struct fleet *f, const struct fleet_move *m)
{
    if (m->from >= FLEET_SCHEDS || m->to >= FLEET_SCHEDS || m->from == m->to ||
        !f->scheds[m->from] || !f->scheds[m->to])
        FAIL(ST_RANGE, "there are no schedulers %u and %u", m->from, m->to);
    return sched_move(f->scheds[m->from], f->scheds[m->to], m->seq_id);
}

static void look(const struct fleet *f, uint32_t i, int32_t priority, struct placement_group *g)
{
    g->serves = f->open[i];
    g->max_seqs = f->group.max_seqs;
    if (g->serves)
        sched_load(f->scheds[i], priority, &g->load);
}

size_t fleet_place(struct fleet *f, const struct fleet_move **moves)
{
    struct placement_group groups[FLEET_SCHEDS] = {0};
    size_t n = 0;
    *moves = f->moves;
    for (const struct sched_req *r;
         n < MOVES_AT_ONCE && (r = sched_first(f->scheds[FLEET_QUEUE]));) {
        for (uint32_t i = 1; i < FLEET_SCHEDS; i++) {
            look(f, i, r->priority, &groups[i]);
            groups[i].fits = groups[i].serves && sched_fits(f->scheds[i], r);
            groups[i].known =
                placement_has_room(&groups[i]) ? sched_known_tokens(f->scheds[i], r) : 0;
        }
        int to = placement_choose(groups, FLEET_SCHEDS, r->n_tokens);
        struct fleet_move m = {.seq_id = r->seq_id, .from = FLEET_QUEUE, .to = (uint32_t)to};
        if (to < 0 || fleet_move(f, &m) != ST_OK)
            break;
        f->moves[n++] = m;
    }
    return n;
}

size_t fleet_balance(struct fleet *f, const struct fleet_move **moves)
{
    struct placement_group groups[FLEET_SCHEDS] = {0};
    uint32_t from, to;
    size_t n = 0;
    *moves = f->moves;
    if (fleet_n_open(f) < 2 || sched_first(f->scheds[FLEET_QUEUE]))
        return 0;
    for (uint32_t i = 1; i < FLEET_SCHEDS; i++)
        look(f, i, 0, &groups[i]);
    uint32_t wanted = placement_balance(groups, FLEET_SCHEDS, &from, &to);
    for (; wanted > 0 && n < MOVES_AT_ONCE; wanted--) {
        struct fleet_move m = {sched_cheapest(f->scheds[from]), from, to};
        if (!m.seq_id || fleet_move(f, &m) != ST_OK)
            break;
        f->moves[n++] = m;
    }
    return n;
}

/* ---- steps ---- */

bool fleet_plan(struct fleet *f, uint32_t g, uint64_t now_us, struct step_plan *out,
                struct sched_effect *fx, size_t fx_cap, size_t *n_fx)
{
    return sched_plan(f->scheds[g], now_us, out, fx, fx_cap, n_fx);
}

enum status fleet_commit(struct fleet *f, uint32_t g, const struct step_result *r,
                         struct sched_effect *fx, size_t fx_cap, size_t *n_fx)
{
    return sched_commit(f->scheds[g], r, fx, fx_cap, n_fx);
}

const struct sched *fleet_sched(const struct fleet *f, uint32_t i)
{
    return i < FLEET_SCHEDS ? f->scheds[i] : NULL;
}

void fleet_stats(const struct fleet *f, struct sched_stats *out)
{
    *out = (struct sched_stats){0};
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++) {
        struct sched_stats s;
        if (!f->scheds[i])
            continue;
        sched_stats(f->scheds[i], &s);
        out->running += s.running;
        out->waiting += s.waiting;
        out->waiting_tokens += s.waiting_tokens;
        out->preemptions += s.preemptions;
        out->pauses += s.pauses;
        out->steps += s.steps;
        out->tokens_computed += s.tokens_computed;
        out->tokens_cached += s.tokens_cached;
        if (!f->open[i])
            continue;
        out->blocks_total += s.blocks_total;
        out->blocks_free += s.blocks_free;
        out->blocks_held += s.blocks_held;
        out->blocks_cached += s.blocks_cached;
        out->snapshots_total += s.snapshots_total;
        out->snapshots_known += s.snapshots_known;
    }
}

enum status fleet_restore(struct fleet *f, uint32_t i, bool open, const struct sched_req *reqs,
                          uint32_t n_reqs, const void *data, size_t n)
{
    if (i >= FLEET_SCHEDS || (i != FLEET_QUEUE && f->scheds[i]) || (i == FLEET_QUEUE && open))
        FAIL(ST_RANGE, "there is no scheduler %u to restore", i);
    if (i != FLEET_QUEUE)
        TRY(sched_create(&f->scheds[i], &f->group));
    TRY(sched_restore(f->scheds[i], reqs, n_reqs, data, n));
    f->open[i] = open;
    return ST_OK;
}

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fleet_check: does not hold: %s\n", what);
    abort();
}

void fleet_check(const struct fleet *f)
{
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++) {
        const struct sched_req *r;
        uint32_t at = 0, n_known, n_homes;
        if (!f->scheds[i])
            continue;
        sched_check(f->scheds[i]);
        require(i == FLEET_QUEUE || f->open[i] || !sched_live(f->scheds[i], &at, &n_known),
                "a closed group has no sequences");
        for (at = 0; (r = sched_live(f->scheds[i], &at, &n_known));) {
            n_homes = 0;
            for (uint32_t k = 0; k < FLEET_SCHEDS; k++)
                n_homes += f->scheds[k] && seq_find(f->scheds[k], r->seq_id) >= 0;
            require(n_homes == 1, "a sequence is in one scheduler");
        }
    }
}
