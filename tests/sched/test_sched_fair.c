/* A simulation of load, counted in steps: with room in the cache and in the batch, every decode
 * gets its next token and every prompt its first within bounds that follow from the rules in
 * sched.h. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "coordinator/sched/sched.h"

enum { MAX_LIVE = 48, MAX_TOKENS = 400, BUDGET = 24, N_REQUESTS = 20000, MAX_FX = 200 };

struct user {
    int32_t tokens[MAX_TOKENS];
    uint64_t seq_id; /* 0 = empty */
    uint32_t n_prompt;
    uint64_t last_step; /* of its last token, or of its arrival */
    uint64_t first_due; /* step by which its first token must be there */
    uint32_t n_tokens;  /* new ones */
};

static struct user users[MAX_LIVE];
static uint64_t dice = 99;

static uint32_t roll(uint32_t n)
{
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(dice >> 33) % n;
}

static struct user *user_of(uint64_t id)
{
    for (int i = 0; i < MAX_LIVE; i++)
        if (users[i].seq_id == id)
            return &users[i];
    return NULL;
}

/* A quarter of the budget is always there for prompts, oldest first; the last token of a prompt may
 * have to take its turn among the decodes. */
static uint64_t first_token_bound(uint32_t n_own)
{
    uint64_t ahead = n_own;
    for (int i = 0; i < MAX_LIVE; i++)
        if (users[i].seq_id && users[i].n_tokens == 0)
            ahead += users[i].n_prompt;
    return (ahead + BUDGET / 4 - 1) / (BUDGET / 4) + MAX_LIVE / (BUDGET - BUDGET / 4) + 2;
}

static void arrive(struct sched *s, uint64_t id, uint64_t step)
{
    struct user *u = user_of(0);
    uint32_t n = 1 + (roll(8) ? roll(30) : roll(300));
    if (!u)
        return;
    *u = (struct user){.seq_id = id, .n_prompt = n, .last_step = step};
    for (uint32_t i = 0; i < n; i++)
        u->tokens[i] = (int32_t)roll(50000);
    u->seq_id = 0;
    u->first_due = step + first_token_bound(n);
    u->seq_id = id;
    struct sched_req r = {.seq_id = id,
                          .tokens = u->tokens,
                          .n_tokens = n,
                          .n_prompt = n,
                          .max_new = 1 + roll(80),
                          .sp = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
    cr_assert_eq(sched_submit(s, &r), ST_OK, "%s", status_text());
}

static void account(const struct sched_effect *fx, size_t n_fx, uint64_t step)
{
    const uint64_t gap = (MAX_LIVE + (BUDGET - BUDGET / 4) - 1) / (BUDGET - BUDGET / 4);
    for (size_t i = 0; i < n_fx; i++) {
        struct user *u = user_of(fx[i].seq_id);
        cr_assert_not_null(u);
        if (fx[i].kind == FX_FINISHED) {
            u->seq_id = 0;
            continue;
        }
        cr_assert_eq(fx[i].kind, FX_TOKEN);
        if (u->n_tokens++ == 0)
            cr_assert_leq(step, u->first_due, "the first token comes %d steps late",
                          (int)(step - u->first_due));
        else
            cr_assert_leq(step - u->last_step, gap, "a token after %d steps",
                          (int)(step - u->last_step));
        u->last_step = step;
    }
}

Test(sched_fair, load)
{
    static struct sched_effect fx[MAX_FX];
    static struct result_token results[MAX_LIVE];
    struct sched_config cfg = {.max_seqs = MAX_LIVE,
                               .max_step_tokens = BUDGET,
                               .max_waiting = MAX_LIVE,
                               .max_waiting_tokens = 1 << 20,
                               .max_ctx = MAX_TOKENS,
                               .n_blocks = MAX_LIVE * MAX_TOKENS / 8 + 100,
                               .block_len = 8,
                               .prefix_cache = true};
    struct sched *s;
    struct step_plan p;
    size_t n_fx;
    uint64_t id = 0, n_full = 0, step = 0;
    cr_assert_eq(sched_create(&s, &cfg), ST_OK);
    for (; id < N_REQUESTS; step++) {
        for (uint32_t n = roll(40) ? roll(2) : 10; n > 0 && user_of(0); n--) /* bursts, too */
            arrive(s, ++id, step);
        if (!sched_plan(s, step, &p, fx, MAX_FX, &n_fx))
            continue;
        n_full += p.n_tokens == BUDGET;
        struct step_result r = {.step_id = p.step_id, .epoch = p.epoch, .tokens = results};
        for (uint32_t i = 0; i < p.n_seqs; i++)
            if (p.seqs[i].want == WANT_LAST)
                results[r.n++] = (struct result_token){.seq_id = p.seqs[i].seq_id, .token = 7};
        cr_assert_eq(sched_commit(s, &r, fx, MAX_FX, &n_fx), ST_OK);
        account(fx, n_fx, step);
    }
    cr_assert_gt(n_full, step / 2, "no load: %d of %d steps were full", (int)n_full, (int)step);
    sched_destroy(s);
}
