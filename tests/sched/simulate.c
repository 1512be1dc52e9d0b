#include "sched/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { VOCAB = 32000, SLOT_BITS = 20, SLOTS = 1 << SLOT_BITS };

const char *const sim_policy_names[SIM_POLICIES] = {"prefixes and load", "load", "round robin"};

struct live {
    struct load_request r;
    int32_t *tokens; /* [n_prompt + n_new]; NULL: the slot is free */
    uint64_t id;
    uint32_t n; /* tokens known */
};

struct group {
    bool computes;
    uint64_t begin_us, end_us;
    double busy_us;
    struct step_result result;
    struct result_token *tokens; /* [max_seqs] */
};

struct sim {
    struct sim_config cfg;
    struct load_source *source;
    struct fleet *f;
    struct group groups[FLEET_SCHEDS];
    struct live *slots; /* [SLOTS] */
    uint32_t *free_slots, n_free;
    struct sched_effect *fx;
    size_t fx_cap;
    uint64_t now_us, serial, n_live, max_requests;
    uint32_t next_group; /* of round robin: 1.. */
    float *start_s, *first_s;
    struct sim_report *rep;
};

#define REQUIRE(x, text)                                                                           \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "simulate: %s\n", text);                                               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static struct live *live_of(struct sim *s, uint64_t id)
{
    struct live *l = &s->slots[id & (SLOTS - 1)];
    REQUIRE(l->tokens && l->id == id, "an effect for a sequence that is not live");
    return l;
}

static uint64_t number_of(const struct live *l)
{
    return (l->id >> SLOT_BITS) - 1;
}

/* ---- requests ---- */

static void arrive(struct sim *s)
{
    struct load_request r;
    load_source_take(s->source, &r);
    s->now_us = r.arrival_us;
    REQUIRE(s->n_free > 0 && s->serial < s->max_requests, "too many requests");
    uint32_t slot = s->free_slots[--s->n_free];
    struct live *l = &s->slots[slot];
    *l = (struct live){.r = r, .id = (s->serial + 1) << SLOT_BITS | slot, .n = r.n_prompt};
    l->tokens = malloc(((size_t)r.n_prompt + r.n_new) * sizeof *l->tokens);
    REQUIRE(l->tokens, "no memory");
    for (uint32_t i = 0; i < r.n_prompt; i++)
        l->tokens[i] = load_token(&r, i, VOCAB);
    struct sched_req q = {.seq_id = l->id,
                          .tenant = r.tenant,
                          .salt = r.tenant,
                          .tokens = l->tokens,
                          .n_tokens = r.n_prompt,
                          .n_prompt = r.n_prompt,
                          .max_new = r.n_new,
                          .sp = {.top_k = 1, .top_p = 1.0f, .repetition_penalty = 1.0f}};
    enum status st = fleet_submit(s->f, &q);
    if (st != ST_OK) {
        REQUIRE(st == ST_BUSY, status_text());
        s->rep->n_busy++;
        free(l->tokens);
        l->tokens = NULL;
        s->free_slots[s->n_free++] = slot;
        return;
    }
    s->rep->prompt_tokens += r.n_prompt;
    s->serial++;
    s->n_live++;
}

static float since_arrival(const struct sim *s, const struct live *l)
{
    return (float)((double)(s->now_us - l->r.arrival_us) / 1e6);
}

static void take_effects(struct sim *s, size_t n_fx)
{
    for (size_t i = 0; i < n_fx; i++) {
        const struct sched_effect *e = &s->fx[i];
        struct live *l = live_of(s, e->seq_id);
        uint64_t told[] = {s->now_us, e->kind, e->seq_id, e->n};
        s->rep->digest = hash_bytes(s->rep->digest, told, sizeof told);
        if (e->kind == FX_ADMITTED) {
            s->start_s[number_of(l)] = since_arrival(s, l);
            s->rep->cached_tokens += e->n;
        } else if (e->kind == FX_TOKEN) {
            if (l->n++ == l->r.n_prompt)
                s->first_s[number_of(l)] = since_arrival(s, l);
            s->rep->new_tokens++;
        } else if (e->kind == FX_FINISHED) {
            REQUIRE(e->reason == FINISH_LENGTH && l->n == l->r.n_prompt + l->r.n_new,
                    "a request has lost tokens");
            load_source_ended(s->source, &l->r, s->now_us);
            free(l->tokens);
            l->tokens = NULL;
            s->free_slots[s->n_free++] = (uint32_t)(e->seq_id & (SLOTS - 1));
            s->n_live--;
            s->rep->n_requests++;
        }
    }
}

/* ---- placement ---- */

static bool place_by_load(struct sim *s, const struct sched_req *r, struct fleet_move *m)
{
    struct placement_group groups[FLEET_SCHEDS] = {0};
    for (uint32_t g = 1; g <= s->cfg.n_groups; g++) {
        groups[g] = (struct placement_group){.serves = true,
                                             .fits = sched_fits(fleet_sched(s->f, g), r),
                                             .max_seqs = s->cfg.sched.max_seqs};
        sched_load(fleet_sched(s->f, g), r->priority, &groups[g].load);
    }
    int to = placement_choose(groups, FLEET_SCHEDS, r->n_tokens);
    m->to = (uint32_t)to;
    return to > 0 && fleet_move(s->f, m) == ST_OK;
}

/* The next group, or the next one that is not full. */
static bool place_in_turn(struct sim *s, const struct sched_req *r, struct fleet_move *m)
{
    (void)r;
    for (uint32_t i = 0; i < s->cfg.n_groups; i++) {
        m->to = s->next_group;
        s->next_group = s->next_group % s->cfg.n_groups + 1;
        if (fleet_move(s->f, m) == ST_OK)
            return true;
    }
    return false;
}

static void plan_group(struct sim *s, uint32_t g)
{
    struct group *p = &s->groups[g];
    struct step_plan plan;
    size_t n_fx;
    if (p->computes)
        return;
    bool made = fleet_plan(s->f, g, s->now_us, &plan, s->fx, s->fx_cap, &n_fx);
    take_effects(s, n_fx);
    if (!made)
        return;
    double us = s->cfg.step_us;
    p->result =
        (struct step_result){.step_id = plan.step_id, .epoch = plan.epoch, .tokens = p->tokens};
    for (uint32_t i = 0; i < plan.n_seqs; i++) {
        const struct plan_seq *ps = &plan.seqs[i];
        us += ps->n_tokens == 1 ? s->cfg.decode_us : s->cfg.prompt_us * ps->n_tokens;
        if (ps->want == WANT_LAST)
            p->tokens[p->result.n++] = (struct result_token){
                .seq_id = ps->seq_id,
                .token = load_token(&live_of(s, ps->seq_id)->r, ps->pos + ps->n_tokens, VOCAB)};
    }
    p->result.compute_us = (uint32_t)us;
    p->computes = true;
    p->begin_us = s->now_us;
    p->end_us = s->now_us + (uint64_t)us;
}

static void place(struct sim *s)
{
    const struct fleet_move *moves;
    if (s->cfg.policy == SIM_AFFINITY) {
        size_t n = fleet_place(s->f, &moves);
        for (size_t i = 0; i < n; i++)
            plan_group(s, moves[i].to);
        return;
    }
    for (const struct sched_req *r; (r = sched_first(fleet_sched(s->f, FLEET_QUEUE)));) {
        struct fleet_move m = {.seq_id = r->seq_id, .from = FLEET_QUEUE};
        if (!(s->cfg.policy == SIM_LOAD ? place_by_load(s, r, &m) : place_in_turn(s, r, &m)))
            return;
        plan_group(s, m.to);
    }
}

static void commit(struct sim *s, uint32_t g)
{
    struct group *p = &s->groups[g];
    size_t n_fx;
    s->now_us = p->end_us;
    p->computes = false;
    p->busy_us += (double)(p->end_us - p->begin_us);
    REQUIRE(fleet_commit(s->f, g, &p->result, s->fx, s->fx_cap, &n_fx) == ST_OK, status_text());
    take_effects(s, n_fx);
}

/* The group whose step ends first; 0: none computes. */
static uint32_t first_to_end(const struct sim *s)
{
    uint32_t best = 0;
    for (uint32_t g = 1; g <= s->cfg.n_groups; g++)
        if (s->groups[g].computes && (!best || s->groups[g].end_us < s->groups[best].end_us))
            best = g;
    return best;
}

/* ---- the report ---- */

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static struct sim_times times_of(float *v, uint64_t n)
{
    if (n == 0)
        return (struct sim_times){0};
    qsort(v, n, sizeof *v, by_value);
    return (struct sim_times){(double)v[n / 2], (double)v[n * 99 / 100], (double)v[n - 1]};
}

static void sum_up(struct sim *s)
{
    struct sim_report *rep = s->rep;
    REQUIRE(s->n_live == 0 && rep->n_requests == s->serial, "requests do not end");
    rep->start = times_of(s->start_s, rep->n_requests);
    rep->first = times_of(s->first_s, rep->n_requests);
    rep->seconds = (double)s->now_us / 1e6;
    rep->least_busy = 1;
    for (uint32_t g = 1; g <= s->cfg.n_groups; g++) {
        double share = s->groups[g].busy_us / (double)s->now_us;
        rep->busy += share / s->cfg.n_groups;
        rep->least_busy = share < rep->least_busy ? share : rep->least_busy;
        rep->most_busy = share > rep->most_busy ? share : rep->most_busy;
    }
}

static void begin(struct sim *s)
{
    size_t n_fx;
    REQUIRE(s->cfg.n_groups >= 1 && s->cfg.n_groups <= FLEET_GROUPS &&
                s->cfg.sched.max_inflight <= 1,
            "a configuration that is not simulated");
    REQUIRE(fleet_create(&s->f, &s->cfg.sched) == ST_OK, status_text());
    s->fx_cap = fleet_max_fx(&s->cfg.sched);
    s->fx = calloc(s->fx_cap, sizeof *s->fx);
    s->slots = calloc(SLOTS, sizeof *s->slots);
    s->free_slots = calloc(SLOTS, sizeof *s->free_slots);
    s->start_s = calloc(s->max_requests, sizeof *s->start_s);
    s->first_s = calloc(s->max_requests, sizeof *s->first_s);
    REQUIRE(s->fx && s->slots && s->free_slots && s->start_s && s->first_s, "no memory");
    while (s->n_free < SLOTS) {
        s->free_slots[s->n_free] = SLOTS - 1 - s->n_free;
        s->n_free++;
    }
    for (uint32_t g = 1; g <= s->cfg.n_groups; g++) {
        s->groups[g].tokens = calloc(s->cfg.sched.max_seqs, sizeof *s->groups[g].tokens);
        REQUIRE(s->groups[g].tokens, "no memory");
        REQUIRE(fleet_open(s->f, g, s->cfg.sched.n_blocks, s->fx, s->fx_cap, &n_fx) == ST_OK,
                status_text());
    }
}

void simulate(const struct sim_config *cfg, struct load_source *source, uint64_t max_requests,
              struct sim_report *out)
{
    struct sim *s = calloc(1, sizeof *s);
    REQUIRE(s, "no memory");
    memset(out, 0, sizeof *out);
    s->cfg = *cfg;
    s->source = source;
    s->max_requests = max_requests;
    s->next_group = 1;
    s->rep = out;
    begin(s);
    for (;;) {
        uint32_t g = first_to_end(s);
        uint64_t at;
        if (load_source_when(source, &at) && (!g || at <= s->groups[g].end_us)) {
            arrive(s);
            place(s);
        } else if (g) {
            commit(s, g);
            place(s);
            plan_group(s, g);
        } else {
            break;
        }
    }
    sum_up(s);
    for (uint32_t g = 1; g <= cfg->n_groups; g++)
        free(s->groups[g].tokens);
    free(s->first_s);
    free(s->start_s);
    free(s->free_slots);
    free(s->slots);
    free(s->fx);
    fleet_destroy(s->f);
    free(s);
}
