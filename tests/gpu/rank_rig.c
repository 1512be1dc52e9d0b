#include "gpu/rank_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/options.h"
#include "worker/load/pack_cache.h"
#include "worker/rank_warm.h"

enum { SEQS = RIG_SEQS, BLOCK = 8, ROOM = 2 * BLOCK };
static const uint32_t prompts[SEQS] = {5, 3, 8};

/* ---- life ---- */

enum status rank_rig_plan(struct rank_rig *r, struct loader *ld, const char *graphs,
                          const char *numerics)
{
    struct option_result res;
    struct rank_place place = {
        .world = 1, .n_on_host = 1, .n_memory = 1, .n_device = 1, .one_host = true};
    uint64_t blocks;
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%s", graphs);
    snprintf(text[1], sizeof text[1], "%s", numerics);
    char *argv[] = {"rank", "--backend", "cuda",  "--max-seqs",  "3",    "--max-step-tokens",
                    "16",   "--max-ctx", "64",    "--kv-blocks", "24",   "--block-len",
                    "8",    "--graphs",  text[0], "--numerics",  text[1]};
    *r = (struct rank_rig){.ld = ld};
    TRY(worker_options_parse(&r->opt, (int)ARRAY_LEN(argv), argv, &res));
    struct backend_config bc = worker_backend_config(&r->opt.shared, 1, 0);
    TRY(backend_open(&r->be, "cuda", &bc));
    TRY(rank_plan_init(&r->plan, &r->opt.shared, &place, r->be, ld));
    TRY(rank_plan_blocks(&r->plan, &blocks));
    return rank_plan_set_blocks(&r->plan, blocks);
}

static enum status load_model(struct rank_rig *r)
{
    struct pack_cache *cache =
        r->pack_dir ? pack_cache_attach(r->ld, r->path, r->pack_dir, r->be, 0, 1) : NULL;
    enum status st = decoder_open(&r->model, loader_config(r->ld), r->ld, r->be, NULL, &r->plan.dc);
    loader_set_cache(r->ld, NULL);
    pack_cache_close(cache, st == ST_OK);
    return st;
}

enum status rank_rig_load(struct rank_rig *r)
{
    TRY(rank_plan_reserve(&r->plan));
    TRY(load_model(r));
    r->plan.rc.model = r->model;
    backend_part(r->be, PART_STEP);
    TRY(rank_step_create(&r->step, &r->plan.rc));
    return rank_warm_up(r->step);
}

void rank_rig_close(struct rank_rig *r)
{
    rank_step_destroy(r->step);
    decoder_close(r->model);
    rank_plan_fini(&r->plan);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    loader_close(r->ld);
    *r = (struct rank_rig){0};
}

enum status rank_rig_check_plan(const struct rank_rig *r)
{
    struct mem_plan used;
    backend_ops_of(r->be)->used(r->be, &used);
    const struct decoder_memory *m = &r->plan.memory;
    const struct {
        const char *name;
        size_t used, planned;
    } all[] = {{"backend", used.part[PART_OWN], r->plan.own},
               {"collective", used.part[PART_COLL], r->plan.coll},
               {"weights", used.part[PART_WEIGHTS], m->weights},
               {"scratch", used.part[PART_SCRATCH], m->scratch},
               {"KV cache and states", used.part[PART_KV], m->kv + m->states},
               {"tables", used.part[PART_TABLES], m->tables},
               {"step", used.part[PART_STEP], r->plan.step},
               {"pinned", used.pinned, r->plan.pinned}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].used != all[i].planned)
            FAIL(ST_BUG, "%s: %zu bytes are taken, %zu were planned", all[i].name, all[i].used,
                 all[i].planned);
    return ST_OK;
}

/* ---- steps ---- */

struct draft {
    struct step_plan p;
    uint64_t closed;
    struct plan_seq seqs[SEQS];
    struct plan_open opens[SEQS];
    int32_t tokens[SEQS * ROOM], blocks[SEQS * 2];
    struct logit_bias bias[2];
};

/* Greedy, drawn from the top k, with edits; all drawn by the device unless `penalty`. */
static void open_all(struct draft *d, bool penalty)
{
    for (uint32_t i = 0; i < SEQS; i++)
        d->opens[i] = (struct plan_open){
            .seq_id = 1 + i, .sp = sample_params_default(), .n_prompt = prompts[i]};
    d->opens[0].sp.temperature = d->opens[2].sp.temperature = 0.0f;
    d->opens[1].sp.temperature = 0.9f;
    d->opens[1].sp.top_k = 20;
    d->opens[1].sp.seed = 5;
    d->opens[2].sp.repetition_penalty = penalty ? 1.5f : 1.0f;
    d->opens[2].n_bias = d->p.n_bias = 2;
    d->bias[0] = (struct logit_bias){30, 2.0f};
    d->bias[1] = (struct logit_bias){31, -2.0f};
    d->p.n_opens = SEQS;
}

/* Step 0 computes the prompts; each later one a token of every sequence: last[i], NULL: the one
 * that the step before draws.  snapshot: step 0 keeps the last sequence's states there. */
static void make_plan(struct draft *d, uint32_t i_step, const int32_t *last, bool penalty,
                      uint32_t snapshot)
{
    *d = (struct draft){.p = {.seqs = d->seqs,
                              .opens = d->opens,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .bias = d->bias,
                              .n_seqs = SEQS}};
    if (i_step == 0)
        open_all(d, penalty);
    for (uint32_t i = 0; i < SEQS; i++) {
        uint32_t n = i_step == 0 ? prompts[i] : 1, n_blocks = i_step == 0 ? 2 : 0;
        d->seqs[i] = (struct plan_seq){.seq_id = 1 + i,
                                       .pos = i_step == 0 ? 0 : prompts[i] + i_step - 1,
                                       .n_tokens = n,
                                       .token_off = d->p.n_tokens,
                                       .n_blocks = n_blocks,
                                       .block_off = d->p.n_blocks,
                                       .want = WANT_LAST};
        for (uint32_t k = 0; k < n; k++)
            d->tokens[d->p.n_tokens++] = i_step == 0 ? (int32_t)(3 + (7 * i + 11 * k) % 90)
                                         : last      ? last[i]
                                                     : TOKEN_OF_LAST_STEP;
        for (uint32_t b = 0; b < n_blocks; b++)
            d->blocks[d->p.n_blocks++] = (int32_t)(2 * i + b);
    }
    if (i_step == 0)
        d->seqs[SEQS - 1].keep = snapshot;
}

/* Closes the last sequence and opens another with its prompt's block, and of a model with states with
 * the snapshot behind its prompt; step 1, then a token of it alone. */
static void make_reuse_plan(struct draft *d, uint32_t i_step, int32_t token, uint32_t snapshot)
{
    enum { OLD = SEQS, NEW = SEQS + 1 };
    *d = (struct draft){.p = {.seqs = d->seqs,
                              .opens = d->opens,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .bias = d->bias,
                              .closes = &d->closed,
                              .n_seqs = 1,
                              .n_tokens = 1}};
    if (i_step == 1) {
        open_all(d, false);
        d->opens[0] = d->opens[SEQS - 1];
        d->opens[0].seq_id = NEW;
        d->p.n_opens = d->p.n_closes = 1;
        d->closed = OLD;
        d->p.n_blocks = 2;
        d->blocks[0] = 2 * (SEQS - 1); /* the prompt's, which is full */
        d->blocks[1] = 2 * SEQS;
    }
    d->tokens[0] = token;
    d->seqs[0] = (struct plan_seq){.seq_id = NEW,
                                   .pos = prompts[SEQS - 1] + i_step - 1,
                                   .n_tokens = 1,
                                   .n_blocks = d->p.n_blocks,
                                   .want = WANT_LAST,
                                   .restore = i_step == 1 ? snapshot : 0};
}

enum status rank_rig_run(struct rank_rig *r, uint32_t i, const int32_t *last, bool penalty)
{
    static struct draft d;
    make_plan(&d, i, last, penalty, r->plan.dc.n_snapshots > 0);
    enum status st = rank_step_run(r->step, &d.p);
    memset(&d, 0x5a, sizeof d); /* the plan is not looked at again */
    return st;
}

static enum status take_tokens(struct rank_rig *r, uint32_t n_want, struct result_token *got)
{
    int32_t rows[SEQS], n_rows;
    uint32_t n;
    TRY(rank_step_sample(r->step, rows, &n_rows));
    const struct result_token *t = rank_step_tokens(r->step, &n);
    if (n_rows != 0 || n != n_want)
        FAIL(ST_BUG, "%u tokens, %d rows are not decided by their candidates", n, n_rows);
    memcpy(got, t, n * sizeof *got);
    return ST_OK;
}

enum status rank_rig_take(struct rank_rig *r, struct result_token got[SEQS], int32_t last[SEQS])
{
    TRY(take_tokens(r, SEQS, got));
    for (uint32_t i = 0; i < SEQS; i++)
        last[i] = got[i].token;
    return ST_OK;
}

enum status rank_rig_reuse(struct rank_rig *r, struct result_token expected[RIG_NEW][SEQS])
{
    static struct draft d;
    for (uint32_t i = 1; i < RIG_NEW; i++) {
        struct result_token got;
        const struct result_token *want = &expected[i][SEQS - 1];
        make_reuse_plan(&d, i, expected[i - 1][SEQS - 1].token, r->plan.dc.n_snapshots > 0);
        TRY(rank_step_run(r->step, &d.p));
        TRY(take_tokens(r, 1, &got));
        if (got.token != want->token || got.logprob != want->logprob)
            FAIL(ST_BUG, "reused prefix, token %u: %d (%a), expected %d (%a)", i, got.token,
                 (double)got.logprob, want->token, (double)want->logprob);
    }
    return ST_OK;
}

enum status rank_rig_generate(struct rank_rig *r, bool ahead, bool penalty,
                              struct result_token got[RIG_NEW][SEQS])
{
    int32_t last[SEQS];
    uint32_t n_got = 0;
    for (uint32_t i = 0; i < RIG_NEW; i++) {
        TRY(rank_rig_run(r, i, ahead ? NULL : last, penalty));
        if (i > 0 || !ahead)
            TRY(rank_rig_take(r, got[n_got++], last));
    }
    return ahead ? rank_rig_take(r, got[n_got], last) : ST_OK;
}

enum status rank_rig_same(struct result_token got[RIG_NEW][SEQS],
                          struct result_token expected[RIG_NEW][SEQS])
{
    for (int i = 0; i < RIG_NEW; i++)
        for (int k = 0; k < SEQS; k++)
            if (got[i][k].token != expected[i][k].token ||
                got[i][k].logprob != expected[i][k].logprob)
                FAIL(ST_BUG, "step %d, sequence %d: %d (%a), expected %d (%a)", i, k,
                     got[i][k].token, (double)got[i][k].logprob, expected[i][k].token,
                     (double)expected[i][k].logprob);
    return ST_OK;
}
