#include "sched/steps.h"

#include <criterion/criterion.h>

struct sched *s;
struct step_plan plan;
struct sched_effect fx[MAX_FX];
size_t n_fx;
int32_t tokens[40][CTX];
uint64_t now;
uint64_t step_us;
static bool by_time;

struct sched_config config(void)
{
    return (struct sched_config){.max_seqs = 8,
                                 .max_step_tokens = 64,
                                 .max_waiting = 32,
                                 .max_waiting_tokens = 10000,
                                 .max_ctx = CTX,
                                 .n_blocks = 100,
                                 .block_len = 4,
                                 .prefix_cache = true};
}

void start(struct sched_config cfg)
{
    sched_destroy(s);
    now = 0;
    by_time = cfg.target_itl_us != 0;
    cr_assert_eq(sched_create(&s, &cfg), ST_OK, "%s", status_text());
    cr_assert_leq(sched_max_fx(&cfg), (size_t)MAX_FX);
}

/* A request of n tokens first, first + 1, ... */
struct sched_req request(uint64_t id, int32_t first, uint32_t n, uint32_t max_new)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[id][i] = first + (int32_t)i;
    return (struct sched_req){.seq_id = id,
                              .tokens = tokens[id],
                              .n_tokens = n,
                              .n_prompt = n,
                              .max_new = max_new,
                              .sp = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
}

void submit(struct sched_req r)
{
    cr_assert_eq(sched_submit(s, &r), ST_OK, "%s", status_text());
}

void submit_plain(uint64_t id, int32_t first, uint32_t n, uint32_t max_new)
{
    submit(request(id, first, n, max_new));
}

bool make_plan(void)
{
    bool made = sched_plan(s, now, &plan, fx, MAX_FX, &n_fx);
    sched_check(s);
    return made;
}

uint64_t cost_us(void)
{
    uint64_t us = 200;
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        us += plan.seqs[i].n_tokens == 1 ? 40 : 20 * plan.seqs[i].n_tokens;
    return by_time ? us : 0;
}

/* Answers the plan: each wanted token is 1000 + its position. */
void commit(void)
{
    struct result_token t[32];
    struct step_result r = {.step_id = plan.step_id, .epoch = plan.epoch, .tokens = t};
    step_us = r.compute_us = cost_us();
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        if (plan.seqs[i].want == WANT_LAST)
            t[r.n++] = (struct result_token){
                .seq_id = plan.seqs[i].seq_id,
                .token = 1000 + (int32_t)(plan.seqs[i].pos + plan.seqs[i].n_tokens)};
    cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK, "%s", status_text());
    for (size_t i = 0; i < n_fx; i++) {
        if (fx[i].kind != FX_TOKEN)
            continue;
        cr_assert_lt(fx[i].i_result, r.n);
        cr_assert_eq(t[fx[i].i_result].seq_id, fx[i].seq_id, "another sequence's token");
        cr_assert_eq(t[fx[i].i_result].token, fx[i].token);
    }
    sched_check(s);
}

void step(void)
{
    cr_assert(make_plan());
    commit();
}

const struct plan_seq *share_of(uint64_t id)
{
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        if (plan.seqs[i].seq_id == id)
            return &plan.seqs[i];
    return NULL;
}

const struct sched_effect *effect(enum sched_fx kind, uint64_t id)
{
    for (size_t i = 0; i < n_fx; i++)
        if (fx[i].kind == kind && fx[i].seq_id == id)
            return &fx[i];
    return NULL;
}

void finish_all(void)
{
    for (int i = 0; make_plan(); i++) {
        cr_assert_lt(i, 10000);
        commit();
    }
}
