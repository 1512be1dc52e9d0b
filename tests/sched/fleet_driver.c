#include "sched/fleet_driver.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "sched/fake_worker.h"

enum { MAX_TOKENS = 160, MAX_CLIENTS = 512 };

struct client {
    struct sched_req r;
    int32_t tokens[MAX_TOKENS], expected[MAX_TOKENS];
    uint32_t n_expected, n_got;
    enum finish_reason reason;
    bool admitted;
    int32_t stop_ids[2];
};

struct group {
    struct fake_worker *w; /* NULL: it was never opened */
    struct step_result results[MAX_STEPS_IN_FLIGHT];
    uint32_t n_results, n_blocks;
};

struct driver {
    struct sched_config cfg;
    struct dice *dice;
    struct fleet *f;
    struct journal *journal;
    struct group groups[1 + FLEET_DRIVER_GROUPS]; /* by the number of its scheduler */
    struct client *clients;                       /* [MAX_CLIENTS]; seq_id 0 = empty */
    uint32_t n_clients;
    struct sched_effect *fx;
    size_t fx_cap;
    uint64_t now_us, next_id, next_group;
    struct fleet_report *rep;
};

static uint32_t roll(struct driver *d, uint32_t n)
{
    struct dice *x = d->dice;
    if (x->data) {
        uint32_t v = x->n_data ? *x->data : 0;
        x->data += x->n_data > 0;
        x->n_data -= x->n_data > 0;
        return v % n;
    }
    x->state += 0x9e3779b97f4a7c15U;
    return (uint32_t)(hash_mix(x->state) >> 33) % n;
}

static void note(struct driver *d, const void *data, size_t n)
{
    if (n)
        d->rep->digest = hash_bytes(d->rep->digest, data, n);
}

static struct client *client_of(struct driver *d, uint64_t id)
{
    for (uint32_t i = 0; i < MAX_CLIENTS; i++)
        if (d->clients[i].r.seq_id == id)
            return &d->clients[i];
    return NULL;
}

static void forget(struct driver *d, struct client *c)
{
    memset(c, 0, sizeof *c);
    d->n_clients--;
}

/* ---- requests ---- */

static void make_request(struct driver *d, struct client *c)
{
    uint32_t most = d->cfg.max_ctx - 1 < MAX_TOKENS / 2 ? d->cfg.max_ctx - 1 : MAX_TOKENS / 2;
    uint32_t family = roll(d, 3), n_common;
    memset(c, 0, sizeof *c);
    c->r = (struct sched_req){.tokens = c->tokens,
                              .n_tokens = 1 + roll(d, most),
                              .max_new = 1 + roll(d, 30),
                              .salt = roll(d, 8) == 0,
                              .tenant = roll(d, 3),
                              .priority = roll(d, 4) ? 0 : (int32_t)roll(d, 5) - 2,
                              .stop_ids = c->stop_ids,
                              .n_stop_ids = roll(d, 3)};
    c->r.n_prompt = c->r.n_tokens;
    c->r.deadline_us = roll(d, 12) ? 0 : d->now_us + 1 + roll(d, 300);
    n_common = roll(d, c->r.n_tokens + 1);
    for (uint32_t i = 0; i < c->r.n_tokens; i++)
        c->tokens[i] =
            (int32_t)(hash_mix(i < n_common ? family * 1000 + i : roll(d, 250) * 77 + i) %
                      FAKE_VOCAB);
    c->r.sp.temperature = 1.0f;
    c->r.sp.top_k = roll(d, 10) ? 40 : 0;
    c->r.sp.top_p = c->r.sp.repetition_penalty = 1.0f;
    c->r.sp.seed = roll(d, 3);
    if (hash_mix((uint64_t)c->tokens[0] + c->r.n_tokens) % 3 == 0)
        c->r.grammar = 1 + c->r.sp.seed;
    for (uint32_t i = 0; i < c->r.n_stop_ids; i++)
        c->stop_ids[i] = (int32_t)roll(d, FAKE_VOCAB);
}

static void submit_one(struct driver *d, const struct client *proto, uint64_t group)
{
    struct client *c = client_of(d, 0);
    if (!c)
        return;
    *c = *proto;
    c->r.tokens = c->tokens;
    c->r.stop_ids = c->stop_ids;
    c->r.group_id = group;
    c->r.seq_id = ++d->next_id;
    c->r.sp.seed += group ? d->next_id : 0;
    c->n_expected = fake_alone(&c->r, d->cfg.max_ctx, c->expected, &c->reason);
    enum status st = fleet_submit(d->f, &c->r);
    REQUIRE(st == ST_OK || st == ST_BUSY || st == ST_RANGE, "submit: %s", status_text());
    if (st != ST_OK) {
        memset(c, 0, sizeof *c);
        return;
    }
    journal_submit(d->journal, &c->r);
    REQUIRE(fleet_submit(d->f, &c->r) == ST_RANGE, "a sequence is taken twice");
    d->n_clients++;
    d->rep->n_submitted++;
}

static void do_submit(struct driver *d)
{
    static struct client c; /* every byte is set by make_request */
    make_request(d, &c);
    uint32_t n = roll(d, 6) ? 1 : 2 + roll(d, 3);
    uint64_t group = n > 1 ? ++d->next_group : 0;
    while (n-- > 0)
        submit_one(d, &c, group);
}

static void do_cancel(struct driver *d)
{
    struct client *c = &d->clients[roll(d, MAX_CLIENTS / 8)];
    uint64_t id = c->r.seq_id;
    int where = fleet_cancel(d->f, id ? id : 1ull << 60);
    REQUIRE((where >= 0) == (id != 0), "cancel of %llu found it in %d", (unsigned long long)id,
            where);
    if (!id)
        return;
    journal_cancel(d->journal, id, FINISH_CANCELLED);
    d->rep->n_cancelled++;
    forget(d, c);
}

/* ---- effects ---- */

static void finish(struct driver *d, struct client *c, enum finish_reason why)
{
    if (why == FINISH_DEADLINE) {
        REQUIRE(c->r.deadline_us && c->r.deadline_us <= d->now_us, "expired early");
        d->rep->n_expired++;
    } else if (why == FINISH_FAILED) {
        d->rep->n_failed++;
    } else {
        REQUIRE(why == c->reason && c->n_got == c->n_expected, "ended by %d after %u of %u tokens",
                (int)why, c->n_got, c->n_expected);
        d->rep->n_finished++;
    }
    forget(d, c);
}

static void take_effects(struct driver *d, size_t n_fx)
{
    REQUIRE(n_fx <= d->fx_cap, "%zu effects", n_fx);
    for (size_t i = 0; i < n_fx; i++) {
        const struct sched_effect *e = &d->fx[i];
        struct client *c = client_of(d, e->seq_id);
        uint64_t told[] = {e->kind, e->seq_id, (uint64_t)e->token, e->reason, e->n};
        note(d, told, sizeof told);
        REQUIRE(e->seq_id && c, "effect %d for a sequence that is not live", (int)e->kind);
        if (e->kind == FX_ADMITTED) {
            REQUIRE(!c->admitted && e->n < c->r.n_tokens, "admitted twice");
            c->admitted = true;
        } else if (e->kind == FX_TOKEN) {
            REQUIRE(c->admitted && c->n_got < c->n_expected && e->token == c->expected[c->n_got] &&
                        c->tokens[c->r.n_tokens + c->n_got] == e->token,
                    "sequence %llu: token %u is %d", (unsigned long long)e->seq_id, c->n_got,
                    e->token);
            c->n_got++;
            d->rep->n_tokens++;
        } else if (e->kind == FX_FINISHED) {
            finish(d, c, e->reason);
        }
    }
}

/* ---- groups ---- */

static void do_open(struct driver *d, uint32_t g)
{
    struct group *p = &d->groups[g];
    size_t n_fx;
    if (fleet_is_open(d->f, g))
        return;
    p->n_blocks = roll(d, 4) ? d->cfg.n_blocks : 1 + roll(d, d->cfg.n_blocks);
    REQUIRE(fleet_open(d->f, g, p->n_blocks, d->fx, d->fx_cap, &n_fx) == ST_OK, "open: %s",
            status_text());
    journal_open_group(d->journal, g, p->n_blocks, d->fx, n_fx);
    take_effects(d, n_fx);
    if (!p->w)
        p->w = fake_worker_create(&d->cfg);
    fake_worker_reset(p->w, sched_epoch(fleet_sched(d->f, g)), p->n_blocks);
    p->n_results = 0;
    d->rep->n_opened++;
}

static void do_close(struct driver *d, uint32_t g)
{
    size_t n_fx;
    if (!fleet_is_open(d->f, g))
        return;
    fleet_close(d->f, g, d->fx, d->fx_cap, &n_fx);
    journal_close_group(d->journal, g, d->fx, n_fx);
    take_effects(d, n_fx);
    d->groups[g].n_results = 0;
    d->rep->n_lost++;
}

static uint32_t live_of(const struct driver *d, uint32_t g)
{
    struct sched_load l;
    sched_load(fleet_sched(d->f, g), 0, &l);
    return l.live;
}

/* The promise of placement.h, after a call that moved or had nothing to move. */
static void require_balance(const struct driver *d)
{
    uint32_t most = 0, fewest = UINT32_MAX;
    for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++) {
        if (!fleet_is_open(d->f, g))
            continue;
        uint32_t n = live_of(d, g);
        most = n > most ? n : most;
        fewest = n < fewest ? n : fewest;
    }
    REQUIRE(fewest == UINT32_MAX || most < 2 * fewest + 2, "%u and %u sequences", most, fewest);
}

static void do_moves(struct driver *d, bool balance)
{
    const struct fleet_move *moves;
    size_t n = balance ? fleet_balance(d->f, &moves) : fleet_place(d->f, &moves);
    for (size_t i = 0; i < n; i++)
        REQUIRE(fleet_is_open(d->f, moves[i].to) && client_of(d, moves[i].seq_id), "a move");
    note(d, moves, n * sizeof *moves);
    journal_moves(d->journal, moves, n);
    *(balance ? &d->rep->n_balanced : &d->rep->n_placed) += n;
}

/* Balances until nothing moves; equal groups need one call for each pair. */
static void do_balance(struct driver *d)
{
    uint64_t before;
    if (sched_first(fleet_sched(d->f, FLEET_QUEUE)))
        return;
    do {
        before = d->rep->n_balanced;
        do_moves(d, true);
    } while (d->rep->n_balanced > before);
    for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++)
        if (fleet_is_open(d->f, g) && d->groups[g].n_blocks < d->cfg.n_blocks)
            return; /* what does not fit stays */
    require_balance(d);
}

/* ---- steps ---- */

static void note_plan(struct driver *d, const struct step_plan *p)
{
    note(d, p->seqs, p->n_seqs * sizeof *p->seqs);
    note(d, p->tokens, p->n_tokens * sizeof *p->tokens);
    note(d, p->blocks, p->n_blocks * sizeof *p->blocks);
}

static void do_plan(struct driver *d, uint32_t g)
{
    struct step_plan p;
    size_t n_fx;
    if (g != FLEET_QUEUE && !fleet_is_open(d->f, g))
        return;
    bool made = fleet_plan(d->f, g, d->now_us, &p, d->fx, d->fx_cap, &n_fx);
    journal_plan(d->journal, g, d->now_us, made, &p, d->fx, n_fx);
    take_effects(d, n_fx);
    REQUIRE(!made || g != FLEET_QUEUE, "the queue has planned a step");
    if (!made)
        return;
    struct group *s = &d->groups[g];
    note_plan(d, &p);
    s->results[s->n_results] = fake_worker_step(s->w, &p);
    s->results[s->n_results].compute_us = d->cfg.target_itl_us ? 100 + 10 * p.n_tokens : 0;
    s->n_results++;
    d->rep->tokens[g - 1] += p.n_tokens;
}

static void do_commit(struct driver *d, uint32_t g)
{
    struct group *s = &d->groups[g];
    size_t n_fx;
    if (!fleet_is_open(d->f, g) || s->n_results == 0)
        return;
    enum status st = fleet_commit(d->f, g, &s->results[0], d->fx, d->fx_cap, &n_fx);
    REQUIRE(st == ST_OK, "commit: %s", status_text());
    journal_commit(d->journal, g, &s->results[0], d->fx, n_fx);
    take_effects(d, n_fx);
    s->results[0] = s->results[1];
    s->n_results--;
}

static void do_call(struct driver *d)
{
    uint32_t k = roll(d, 200), g = 1 + roll(d, FLEET_DRIVER_GROUPS);
    d->now_us += roll(d, 3);
    if (k < 12 && (d->n_clients < 24 || roll(d, 8) == 0))
        do_submit(d);
    else if (k < 12)
        do_moves(d, false);
    else if (k < 14)
        do_cancel(d);
    else if (k < 16)
        do_open(d, g);
    else if (k < 17)
        do_close(d, g);
    else if (k < 20)
        do_plan(d, FLEET_QUEUE);
    else if (k < 26)
        do_balance(d);
    else if (k < 60)
        do_moves(d, false);
    else if (k < 130)
        do_plan(d, g);
    else
        do_commit(d, g);
}

static void check(struct driver *d)
{
    fleet_check(d->f);
    REQUIRE(journal_flush(d->journal, &(struct journal_source){.fleet = d->f}, d->now_us),
            "nothing was admitted");
}

static void drain(struct driver *d)
{
    uint64_t n = 0;
    for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++)
        do_open(d, g);
    do_close(d, 2);
    d->groups[1].n_blocks = 0;
    do_close(d, 1);
    do_open(d, 1);
    while (d->n_clients > 0) {
        REQUIRE(n++ < 100000, "%u sequences do not end", d->n_clients);
        d->now_us++;
        do_plan(d, FLEET_QUEUE);
        do_moves(d, false);
        for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++) {
            do_plan(d, g);
            do_commit(d, g);
        }
        check(d);
    }
    for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++)
        while (fleet_is_open(d->f, g) && d->groups[g].n_results)
            do_commit(d, g);
}

void fleet_driver_run(const struct sched_config *cfg, struct dice *dice, uint64_t n_calls,
                      const struct journal_config *jc, struct fleet_report *out)
{
    struct driver d = {.cfg = *cfg, .dice = dice, .rep = out};
    struct sched_config marked = *cfg;
    struct sched_stats stats;
    memset(out, 0, sizeof *out);
    marked.queue_for = 1;
    REQUIRE(cfg->max_ctx <= MAX_TOKENS, "driver limits");
    REQUIRE(fleet_create(&d.f, cfg) == ST_OK, "create: %s", status_text());
    d.clients = calloc(MAX_CLIENTS, sizeof *d.clients);
    d.fx_cap = fleet_max_fx(cfg);
    d.fx = calloc(d.fx_cap, sizeof *d.fx);
    REQUIRE(d.clients && d.fx, "no memory");
    if (jc)
        REQUIRE(journal_open(&d.journal, jc) == ST_OK &&
                    journal_begin(d.journal, &(struct journal_source){.fleet = d.f}, &marked, 0) ==
                        ST_OK,
                "journal: %s", status_text());
    for (uint64_t i = 0; i < n_calls && !(dice->data && dice->n_data == 0); i++) {
        do_call(&d);
        check(&d);
    }
    drain(&d);
    journal_close(d.journal);
    fleet_stats(d.f, &stats);
    REQUIRE(stats.running == 0 && stats.waiting == 0 && stats.blocks_held == 0,
            "something is left");
    REQUIRE(out->n_submitted == out->n_finished + out->n_cancelled + out->n_expired + out->n_failed,
            "a request was lost");
    for (uint32_t g = 1; g <= FLEET_DRIVER_GROUPS; g++)
        fake_worker_destroy(d.groups[g].w);
    free(d.fx);
    free(d.clients);
    fleet_destroy(d.f);
}
