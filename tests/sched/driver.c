#include "sched/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "sched/fake_worker.h"

enum { MAX_TOKENS = 160, MAX_GROUP = 5, NEVER = -1 };

struct client { /* one live sequence as its client sees it */
    struct sched_req r;
    int32_t tokens[MAX_TOKENS];   /* the scheduler appends here */
    int32_t expected[MAX_TOKENS]; /* new tokens, by the oracle */
    uint32_t n_expected, n_got;
    enum finish_reason reason;
    uint32_t n_scored;
    bool admitted;
    bool front; /* waits before all that were neither resumed nor returned by a reset */
    char label[32];
    int32_t stop_ids[3];
    struct logit_bias bias[2];
    uint64_t arrival;
    uint32_t n_missed; /* plans without it while it was the first of the running */
    uint32_t n_front;  /* starts of the front of the queue in those plans */
};

struct driver {
    struct sched_config cfg;
    struct dice *dice;
    struct driver_options opts;
    struct journal *journal;
    struct sched *s;
    struct fake_worker *w;
    struct client *clients; /* [max_clients]; seq_id 0 = empty */
    uint32_t max_clients, n_clients;
    struct sched_effect *fx;
    size_t fx_cap;
    struct step_result results[2]; /* of the steps in flight */
    uint32_t n_results, n_empty;
    uint64_t now_us, next_id, next_group, reused_id, n_arrivals;
    uint32_t n_blocks;
    struct driver_report *rep;
};

/* ---- decisions ---- */

static uint32_t roll(struct driver *d, uint32_t n)
{
    struct dice *x = d->dice;
    if (x->data) {
        uint32_t v = x->n_data ? *x->data : 0;
        if (x->n_data) {
            x->data++;
            x->n_data--;
        }
        return v % n;
    }
    x->state += 0x9e3779b97f4a7c15U;
    return (uint32_t)(hash_mix(x->state) >> 33) % n;
}

static bool one_in(struct driver *d, uint32_t n)
{
    return roll(d, n) == n - 1;
}

static uint32_t between(struct driver *d, uint32_t a, uint32_t b)
{
    return a + roll(d, b - a + 1);
}

/* ---- clients ---- */

static struct client *client_of(struct driver *d, uint64_t id)
{
    for (uint32_t i = 0; i < d->max_clients; i++)
        if (d->clients[i].r.seq_id == id)
            return &d->clients[i];
    return NULL;
}

/* A prompt from one of a few families, so that prefixes meet, with a tail of its own. */
static void make_prompt(struct driver *d, struct client *c, uint32_t n)
{
    uint32_t family = roll(d, 4), n_common = roll(d, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t h = hash_mix(i < n_common ? family * 1000 + i : roll(d, 250) * 77 + i);
        c->tokens[i] = (int32_t)(h % FAKE_VOCAB);
    }
}

/* The request gives the embedding of its prompt. */
static void make_embed(struct client *c, enum embed_rows rows)
{
    c->r.sp = (struct sample_params){.top_p = 1.0f, .repetition_penalty = 1.0f};
    c->r.sp.embed = rows;
    c->r.max_new = 1;
    c->r.n_scored = c->n_scored = 0;
}

static void make_request(struct driver *d, struct client *c)
{
    struct sched_req *r = &c->r;
    uint32_t most = d->cfg.max_ctx - 1 < MAX_TOKENS / 2 ? d->cfg.max_ctx - 1 : MAX_TOKENS / 2;
    memset(c, 0, sizeof *c);
    r->tokens = c->tokens;
    r->n_tokens = between(d, 1, one_in(d, 4) ? most : most / 3 + 1);
    r->n_prompt = one_in(d, 5) ? between(d, 1, r->n_tokens) : r->n_tokens;
    r->resumed = one_in(d, 9);
    r->max_new = between(d, 1, one_in(d, 4) ? MAX_TOKENS / 2 : 12);
    r->salt = one_in(d, 8);
    r->tenant = d->cfg.target_itl_us ? roll(d, 4) : 0;
    r->priority = one_in(d, 3) ? (int32_t)roll(d, 5) - 2 : 0;
    r->deadline_us = one_in(d, 10) ? d->now_us + between(d, 1, 200) : 0;
    make_prompt(d, c, r->n_tokens);

    /* one whose tokens the host draws keeps all of them from running ahead */
    uint32_t penalties = d->cfg.max_inflight > 1 ? 24 : 4;
    r->sp.temperature = one_in(d, 2) ? 1.0f : 0.0f;
    r->sp.top_k = one_in(d, penalties) ? 0 : 40;
    r->sp.top_p = 1.0f;
    r->sp.repetition_penalty = one_in(d, penalties) ? 1.5f : 1.0f;
    r->sp.presence_penalty = one_in(d, penalties) ? 0.5f : 0.0f;
    r->sp.seed = roll(d, 3);
    r->sp.prompt_logprobs = r->n_prompt == r->n_tokens && one_in(d, 4);
    if (r->sp.prompt_logprobs && one_in(d, 4))
        r->n_scored = c->n_scored = roll(d, r->n_prompt);
    if (d->opts.whole) {
        r->n_prompt = r->n_tokens;
        make_embed(c, EMBED_WHOLE);
    } else if (r->n_prompt == r->n_tokens && one_in(d, 10)) {
        make_embed(c, one_in(d, 2) ? EMBED_ALL : EMBED_LAST);
    }
    if (!r->sp.embed && hash_mix((uint64_t)r->tokens[0] + r->n_tokens) % 3 == 0)
        r->grammar = 1 + r->sp.seed;
    r->sp.min_new = one_in(d, 3) ? roll(d, 6) : 0;
    r->n_stop_ids = roll(d, 4);
    r->stop_ids = c->stop_ids;
    for (uint32_t i = 0; i < r->n_stop_ids; i++)
        c->stop_ids[i] = (int32_t)roll(d, FAKE_VOCAB);
    r->n_bias = one_in(d, 6) ? 2 : 0;
    r->bias = c->bias;
    c->bias[0].id = (int32_t)roll(d, 9);
}

static void submit_one(struct driver *d, const struct client *proto, uint64_t group)
{
    struct client *c = client_of(d, 0);
    if (!c)
        return; /* as many as the scheduler can hold */
    *c = *proto;
    c->r.tokens = c->tokens;
    c->r.stop_ids = c->stop_ids;
    c->r.bias = c->bias;
    c->r.group_id = group;
    c->r.seq_id = 0;
    uint64_t id = d->reused_id && one_in(d, 2) ? d->reused_id : ++d->next_id;
    c->r.seq_id = client_of(d, id) ? ++d->next_id : id;
    c->r.sp.seed += d->next_id * (group != 0);
    snprintf(c->label, sizeof c->label, "request-%llu", (unsigned long long)c->r.seq_id);
    c->r.label = c->label;
    c->reason = FINISH_EMBEDDED;
    c->n_expected = c->r.sp.embed ? 0 : fake_alone(&c->r, d->cfg.max_ctx, c->expected, &c->reason);

    enum status st = sched_submit(d->s, &c->r);
    uint64_t n_end = c->r.n_tokens + c->r.max_new;
    n_end = n_end < d->cfg.max_ctx ? n_end : d->cfg.max_ctx;
    bool fits = n_end - 1 <= (uint64_t)d->n_blocks * d->cfg.block_len &&
                (c->r.resumed || c->r.n_tokens <= d->cfg.max_waiting_tokens);
    REQUIRE((st == ST_RANGE) == !fits, "submit gave %s: %s", status_name(st), status_text());
    REQUIRE(st == ST_OK || st == ST_RANGE || st == ST_BUSY, "submit gave %s", status_name(st));
    d->rep->n_refused += st == ST_RANGE;
    d->rep->n_busy += st == ST_BUSY;
    if (st != ST_OK) {
        memset(c, 0, sizeof *c);
        return;
    }
    journal_submit(d->journal, &c->r);
    c->arrival = ++d->n_arrivals;
    c->front = c->r.resumed;
    d->n_clients++;
    d->rep->n_submitted++;
}

static void do_submit(struct driver *d)
{
    static struct client c; /* large; every byte is set by make_request */
    make_request(d, &c);
    uint32_t n = one_in(d, 6) ? between(d, 2, MAX_GROUP) : 1;
    uint64_t group = n > 1 ? ++d->next_group : 0;
    for (uint32_t i = 0; i < n; i++)
        submit_one(d, &c, group);
}

static void do_bad_submit(struct driver *d)
{
    static struct client c;
    make_request(d, &c);
    c.r.seq_id = d->next_id + 1;
    switch (roll(d, 7)) {
    case 0:
        c.r.seq_id = 0;
        break;
    case 1:
        c.r.n_tokens = 0;
        break;
    case 2:
        c.r.n_prompt = c.r.n_tokens + 1;
        break;
    case 3:
        c.r.max_new = 0;
        break;
    case 4:
        c.r.n_tokens = d->cfg.max_ctx;
        c.r.n_prompt = 1;
        break;
    case 5:
        c.tokens[0] = -1;
        break;
    default:
        c.r.n_stop_ids = MAX_STOP_IDS + 1;
    }
    enum status st = sched_submit(d->s, &c.r);
    REQUIRE(st == ST_RANGE, "a bad request gave %s", status_name(st));
}

static void forget_client(struct driver *d, struct client *c)
{
    d->reused_id = c->r.seq_id;
    memset(c, 0, sizeof *c);
    d->n_clients--;
}

static void do_cancel(struct driver *d)
{
    struct client *c = &d->clients[roll(d, d->max_clients)];
    sched_cancel(d->s, c->r.seq_id ? c->r.seq_id : 1ull << 60);
    if (c->r.seq_id) {
        journal_cancel(d->journal, c->r.seq_id, FINISH_CANCELLED);
        forget_client(d, c);
        d->rep->n_cancelled++;
    }
}

/* ---- effects ---- */

static void note(struct driver *d, const void *data, size_t n)
{
    if (n)
        d->rep->digest = hash_bytes(d->rep->digest, data, n);
}

static void finish_client(struct driver *d, struct client *c, enum finish_reason why)
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
    forget_client(d, c);
}

static void take_effects(struct driver *d, size_t n_fx, const struct step_result *r)
{
    REQUIRE(n_fx <= d->fx_cap, "%zu effects", n_fx);
    for (size_t i = 0; i < n_fx; i++) {
        const struct sched_effect *e = &d->fx[i];
        struct client *c = client_of(d, e->seq_id);
        uint64_t told[] = {e->kind, e->seq_id, (uint64_t)e->token, e->i_result, e->reason, e->n};
        note(d, told, sizeof told);
        REQUIRE(e->seq_id && c, "effect %d for %llu, which is not live", (int)e->kind,
                (unsigned long long)e->seq_id);
        switch (e->kind) {
        case FX_ADMITTED:
            REQUIRE(!c->admitted && e->n <= c->r.n_prompt && e->n < c->r.n_tokens, "admitted");
            c->admitted = true;
            break;
        case FX_TOKEN:
            REQUIRE(c->admitted && c->n_got < c->n_expected, "token %u of %u", c->n_got,
                    c->n_expected);
            REQUIRE(!c->r.sp.prompt_logprobs || c->n_scored == c->r.n_prompt - 1,
                    "a token of %llu after %u scores", (unsigned long long)e->seq_id, c->n_scored);
            REQUIRE(e->token == c->expected[c->n_got], "sequence %llu, new token %u is %d, not %d",
                    (unsigned long long)e->seq_id, c->n_got, e->token, c->expected[c->n_got]);
            REQUIRE(c->tokens[c->r.n_tokens + c->n_got] == e->token, "the array lacks it");
            REQUIRE(r && e->i_result < r->n && r->tokens[e->i_result].seq_id == e->seq_id,
                    "i_result %u", e->i_result);
            c->n_got++;
            d->rep->n_tokens++;
            if (i > 0 && d->fx[i - 1].kind == FX_TOKEN && d->fx[i - 1].seq_id == e->seq_id)
                d->rep->n_forced++;
            break;
        case FX_SCORED:
            REQUIRE(c->r.sp.prompt_logprobs && e->n == ++c->n_scored && e->n < c->r.n_prompt &&
                        e->token == c->tokens[e->n],
                    "sequence %llu: a score of token %u", (unsigned long long)e->seq_id, e->n);
            REQUIRE(r && r->tokens[e->i_result].rank == fake_score(c->tokens, e->n),
                    "sequence %llu: the score of token %u", (unsigned long long)e->seq_id, e->n);
            d->rep->n_scored++;
            break;
        case FX_EMBEDDED:
            REQUIRE(c->r.sp.embed && r && e->i_result < r->n_embeddings &&
                        r->embeddings[e->i_result].digest ==
                            fake_embedding(c->tokens, c->r.n_tokens),
                    "sequence %llu: the embedding", (unsigned long long)e->seq_id);
            d->rep->n_embedded++;
            break;
        case FX_PREEMPTED:
            REQUIRE(c->admitted, "preempted before it was admitted");
            break;
        case FX_FINISHED:
            finish_client(d, c, e->reason);
            break;
        }
    }
}

/* ---- steps ---- */

static void note_plan(struct driver *d, const struct step_plan *p)
{
    for (uint32_t i = 0; i < p->n_tokens; i++)
        d->rep->n_fed += p->tokens[i] == TOKEN_OF_LAST_STEP;
    note(d, &p->step_id, sizeof p->step_id);
    note(d, &p->epoch, sizeof p->epoch);
    note(d, p->seqs, p->n_seqs * sizeof *p->seqs);
    note(d, p->tokens, p->n_tokens * sizeof *p->tokens);
    note(d, p->blocks, p->n_blocks * sizeof *p->blocks);
    note(d, p->opens, p->n_opens * sizeof *p->opens);
    note(d, p->closes, p->n_closes * sizeof *p->closes);
    note(d, p->history, p->n_history * sizeof *p->history);
    note(d, p->stop_ids, p->n_stop_ids * sizeof *p->stop_ids);
    note(d, p->bias, p->n_bias * sizeof *p->bias);
    note(d, p->scores, p->n_scores * sizeof *p->scores);
}

/* A measured time that is roughly linear; one in 16 steps was delayed, one in 32 not measured. */
static uint64_t time_of(struct driver *d, const struct step_plan *p)
{
    uint64_t us = 150;
    for (uint32_t i = 0; i < p->n_seqs; i++)
        us += (p->seqs[i].n_tokens == 1 ? 40 : 25) * p->seqs[i].n_tokens + p->seqs[i].pos / 4;
    us += us * roll(d, 20) / 100;
    return one_in(d, 32) ? 0 : one_in(d, 16) ? 20 * us : us;
}

/* The first in order of what runs, by this file's own reading of sched.h: planned by tokens. */
static struct client *first_running(struct driver *d)
{
    uint64_t ids[64];
    struct client *first = NULL;
    uint32_t n = fake_worker_open(d->w, ids);
    for (uint32_t i = 0; i < n; i++) {
        struct client *c = client_of(d, ids[i]);
        int64_t level = d->cfg.overtake, by;
        if (!c)
            continue;
        if (!first) {
            first = c;
            continue;
        }
        by = level ? ((int64_t)c->arrival - level * c->r.priority) -
                         ((int64_t)first->arrival - level * first->r.priority)
                   : first->r.priority - c->r.priority;
        if (by < 0 || (by == 0 && c->arrival < first->arrival))
            first = c;
    }
    return first;
}

/* How many sequences that were resumed or returned by a reset does the plan start? */
static uint32_t starts_of_front(struct driver *d, const struct step_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_opens; i++) {
        struct client *c = client_of(d, p->opens[i].seq_id);
        n += c->front;
        c->front = false;
    }
    return n;
}

/* The first in order is computed at least every so many plans, whatever else there is but starts of
 * the front of the queue: each takes up the prompts' share of a step, which comes every fourth step
 * when max_step_tokens is under 4. */
static void require_progress(struct driver *d, const struct step_plan *p, struct client *first)
{
    uint32_t most =
        4 * ((d->cfg.max_seqs + d->cfg.max_step_tokens - 1) / d->cfg.max_step_tokens) + 8;
    uint32_t n_starts = starts_of_front(d, p);
    if (!first)
        return;
    for (uint32_t i = 0; i < p->n_seqs; i++)
        if (p->seqs[i].seq_id == first->r.seq_id) {
            first->n_missed = first->n_front = 0;
            return;
        }
    first->n_front += n_starts;
    REQUIRE(++first->n_missed <= most + 4 * first->n_front,
            "the first in order was left out of %u plans", first->n_missed);
}

/* Whoever is preempted is neither the first in order nor let in again by the same plan. */
static void require_fair_preemption(const struct driver *d, size_t n_fx, uint64_t first_id,
                                    const struct step_plan *p)
{
    for (size_t i = 0; i < n_fx; i++) {
        if (d->fx[i].kind != FX_PREEMPTED)
            continue;
        REQUIRE(d->fx[i].seq_id != first_id, "the first in order was preempted");
        for (uint32_t k = 0; k < p->n_opens; k++)
            REQUIRE(p->opens[k].seq_id != d->fx[i].seq_id, "preempted and opened at once");
    }
}

static bool do_plan(struct driver *d)
{
    struct step_plan p;
    size_t n_fx;
    struct client *first = d->cfg.target_itl_us ? NULL : first_running(d);
    uint64_t first_id = first ? first->r.seq_id : 0;
    bool made = sched_plan(d->s, d->now_us, &p, d->fx, d->fx_cap, &n_fx);
    journal_plan(d->journal, 0, d->now_us, made, &p, d->fx, n_fx);
    require_fair_preemption(d, n_fx, first_id, &p);
    take_effects(d, n_fx, NULL);
    REQUIRE(made == (p.n_seqs > 0), "plan says %d with %u sequences", made, p.n_seqs);
    REQUIRE(made || d->n_results > 0 || d->n_clients == 0, "%u live, but the plan is empty",
            d->n_clients);
    if (!made)
        return false;
    REQUIRE(d->n_results < d->cfg.max_inflight, "a plan too many in flight");
    require_progress(d, &p, first_id ? client_of(d, first_id) : NULL);
    note_plan(d, &p);
    d->results[d->n_results] = fake_worker_step(d->w, &p);
    if (d->cfg.target_itl_us)
        d->results[d->n_results].compute_us = time_of(d, &p);
    d->n_results++;
    return true;
}

static void do_commit(struct driver *d)
{
    size_t n_fx;
    struct step_result r = d->results[0];
    if (d->n_results == 0) {
        struct step_result none = {.step_id = 1, .epoch = 1};
        REQUIRE(sched_commit(d->s, &none, d->fx, d->fx_cap, &n_fx) == ST_PEER && n_fx == 0,
                "a commit of nothing was taken");
        return;
    }
    enum status st = sched_commit(d->s, &r, d->fx, d->fx_cap, &n_fx);
    REQUIRE(st == ST_OK, "commit: %s", status_text());
    journal_commit(d->journal, 0, &r, d->fx, n_fx);
    take_effects(d, n_fx, &r);
    d->results[0] = d->results[1];
    d->n_results--;
}

/* A sequence that no forced token may be of: the last of the result if that has no grammar, else none.  One without
 * tokens may have the id of another one, which has ended. */
static uint64_t of_no_grammar(struct driver *d, const struct step_result *r)
{
    struct client *c = r->n ? client_of(d, r->tokens[r->n - 1].seq_id) : NULL;
    return c && !c->r.grammar && c->n_got ? c->r.seq_id : 0;
}

static void do_bad_commit(struct driver *d)
{
    size_t n_fx;
    struct step_result r = d->results[0];
    struct result_token wrong[64 + MAX_SCORED_ROWS + MAX_FORCED_TOKENS + 1];
    if (d->n_results == 0)
        return;
    if (r.n)
        memcpy(wrong, r.tokens, r.n * sizeof *wrong);
    r.tokens = wrong;
    uint32_t kind = roll(d, r.n ? 5 : 3);
    if (kind == 0)
        r.step_id++;
    else if (kind == 1)
        r.epoch++;
    else if (kind == 2)
        wrong[r.n++] = (struct result_token){.seq_id = of_no_grammar(d, &d->results[0])};
    else if (kind == 3)
        wrong[r.n - 1].seq_id += 1000;
    else
        wrong[r.n - 1].token = TOKEN_GRAMMAR_STUCK - 1;
    enum status st = sched_commit(d->s, &r, d->fx, d->fx_cap, &n_fx);
    REQUIRE(st == ST_PEER && n_fx == 0, "a wrong result gave %s", status_name(st));
}

static void do_reset(struct driver *d)
{
    size_t n_fx;
    uint32_t n = one_in(d, 2) ? between(d, 1, d->cfg.n_blocks + 2) : d->cfg.n_blocks;
    if (one_in(d, 3))
        n = 0;
    if (n)
        d->n_blocks = n < d->cfg.n_blocks ? n : d->cfg.n_blocks;
    sched_reset(d->s, n, d->fx, d->fx_cap, &n_fx);
    journal_reset(d->journal, n, d->fx, n_fx);
    take_effects(d, n_fx, NULL);
    uint64_t ids[64];
    uint32_t n_open = fake_worker_open(d->w, ids);
    for (uint32_t i = 0; i < n_open; i++)
        if (client_of(d, ids[i]))
            client_of(d, ids[i])->front = true;
    fake_worker_reset(d->w, sched_epoch(d->s), d->n_blocks);
    d->n_results = 0;
    d->rep->n_resets++;
}

/* Saves, restores into a new scheduler and goes on with that one. */
static void do_move(struct driver *d)
{
    struct sched *moved;
    struct sched_req reqs[256];
    uint32_t n = 0, at = 0, n_known;
    size_t size = sched_save(d->s, NULL, 0);
    unsigned char *bytes = malloc(size), *again = malloc(size);
    REQUIRE(bytes && again && sched_save(d->s, bytes, size) == size, "save");
    for (const struct sched_req *r; (r = sched_live(d->s, &at, &n_known)); n++)
        reqs[n] = *r;
    REQUIRE(sched_create(&moved, &d->cfg) == ST_OK, "create: %s", status_text());
    enum status st = sched_restore(moved, reqs, n, bytes, size);
    REQUIRE(st == ST_OK, "restore: %s", status_text());
    REQUIRE(sched_save(moved, again, size) == size && memcmp(bytes, again, size) == 0,
            "a restored scheduler saves something else");
    free(bytes);
    free(again);
    sched_destroy(d->s);
    d->s = moved;
}

static void do_call(struct driver *d)
{
    uint32_t k = roll(d, 200);
    d->now_us += roll(d, 3);
    if (k < 30)
        do_submit(d);
    else if (k < 36)
        do_cancel(d);
    else if (k < 37)
        do_reset(d);
    else if (k < 38 && !d->opts.no_moves)
        do_move(d);
    else if (k < 38)
        return;
    else if (k < 40)
        do_bad_submit(d);
    else if (k < 43)
        do_bad_commit(d);
    else if (k < 122)
        do_plan(d);
    else
        do_commit(d);
}

static void drain(struct driver *d)
{
    uint64_t n = 0, most = 1000 + (uint64_t)d->max_clients * MAX_TOKENS * 40;
    while (d->n_clients > 0) {
        REQUIRE(n++ < most, "%u sequences do not end", d->n_clients);
        do_plan(d);
        sched_check(d->s);
        if (d->n_results)
            do_commit(d);
        sched_check(d->s);
        d->rep->n_calls += 2;
    }
    while (d->n_results)
        do_commit(d);
}

static void open_journal(struct driver *d, const struct sched_config *cfg)
{
    if (d->opts.journal)
        REQUIRE(journal_open(&d->journal, d->opts.journal) == ST_OK &&
                    journal_begin(d->journal, &(struct journal_source){.sched = d->s}, cfg,
                                  d->now_us) == ST_OK,
                "journal: %s", status_text());
}

static void flush_journal(struct driver *d)
{
    REQUIRE(journal_flush(d->journal, &(struct journal_source){.sched = d->s}, d->now_us),
            "nothing was admitted");
}

void driver_run(const struct sched_config *cfg, struct dice *dice, uint64_t n_calls,
                const struct driver_options *opts, struct driver_report *out)
{
    struct driver d = {.cfg = *cfg, .dice = dice, .rep = out, .n_blocks = cfg->n_blocks};
    memset(out, 0, sizeof *out);
    if (opts)
        d.opts = *opts;
    REQUIRE(cfg->max_seqs + cfg->max_waiting <= 256 && cfg->max_seqs <= 64 &&
                cfg->max_ctx <= MAX_TOKENS,
            "driver limits");
    REQUIRE(sched_create(&d.s, cfg) == ST_OK, "create: %s", status_text());
    d.w = fake_worker_create(cfg);
    d.max_clients = 2 * (cfg->max_seqs + cfg->max_waiting);
    d.clients = calloc(d.max_clients, sizeof *d.clients);
    d.fx_cap = sched_max_fx(cfg);
    d.fx = calloc(d.fx_cap, sizeof *d.fx);
    REQUIRE(d.clients && d.fx, "no memory");
    open_journal(&d, cfg);
    if (d.cfg.max_inflight == 0)
        d.cfg.max_inflight = 1;

    for (; out->n_calls < n_calls && !(dice->data && dice->n_data == 0); out->n_calls++) {
        do_call(&d);
        sched_check(d.s);
        flush_journal(&d);
    }
    drain(&d);
    flush_journal(&d);
    journal_stats(d.journal, &out->journal);
    journal_close(d.journal);
    sched_stats(d.s, &out->stats);
    REQUIRE(out->stats.running == 0 && out->stats.waiting == 0 && out->stats.blocks_held == 0,
            "something is left");
    REQUIRE(out->n_submitted == out->n_finished + out->n_cancelled + out->n_expired + out->n_failed,
            "a request was lost");
    free(d.fx);
    free(d.clients);
    fake_worker_destroy(d.w);
    sched_destroy(d.s);
}
