#include "worker/rank_warm.h"

#include "worker/rank_step_parts.h"

struct draft {
    struct step_plan p;
    struct plan_seq seq;
    struct plan_open open;
    int32_t tokens[WARM_TOKENS], blocks[WARM_TOKENS + 1];
};

static int32_t smaller(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

/* A prompt of n tokens; its blocks have room for n_all. */
static void draft_prompt(struct draft *d, const struct rank_step_config *cfg, int32_t n,
                         int32_t n_all)
{
    const struct step_config *sc = &cfg->step;
    bool embeds = cfg->headless || cfg->encoder;
    d->open =
        (struct plan_open){.seq_id = 1, .sp = sample_params_default(), .n_prompt = (uint32_t)n};
    d->open.sp.temperature = 0.0f;
    if (embeds)
        d->open.sp.embed = sentence_modules_rows(cfg->pool->modules);
    d->seq = (struct plan_seq){.seq_id = 1,
                               .n_tokens = (uint32_t)n,
                               .n_blocks = (uint32_t)((n_all - 1) / sc->block_len + 1),
                               .want = embeds ? WANT_EMBEDDING : WANT_LAST};
    for (int32_t i = 0; i < n; i++)
        d->tokens[i] = i % sc->vocab;
    for (int32_t i = 0; i < (int32_t)d->seq.n_blocks; i++)
        d->blocks[i] = i;
    d->p = (struct step_plan){.n_seqs = 1,
                              .n_tokens = d->seq.n_tokens,
                              .n_blocks = d->seq.n_blocks,
                              .n_opens = 1,
                              .seqs = &d->seq,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .opens = &d->open};
}

static void draft_decode(struct draft *d, int32_t pos)
{
    d->seq = (struct plan_seq){.seq_id = 1, .pos = (uint32_t)pos, .n_tokens = 1, .want = WANT_LAST};
    d->tokens[0] = TOKEN_OF_LAST_STEP;
    d->p.n_tokens = 1;
    d->p.n_blocks = d->p.n_opens = 0;
}

static enum status run_steps(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct step_config *sc = &cfg->step;
    struct draft d;
    /* tokens of the KV cache that one sequence can have */
    int32_t room = smaller(sc->max_ctx, (int64_t)sc->n_blocks * sc->block_len);
    bool decode = !cfg->headless && !cfg->encoder && room > 1;
    int32_t n = smaller(smaller(WARM_TOKENS, sc->max_tokens), room - decode);
    draft_prompt(&d, cfg, n, n + decode);
    TRY(rank_step_run(r, &d.p));
    if (decode) {
        draft_decode(&d, n);
        TRY(rank_step_run(r, &d.p));
    }
    return rank_step_pass(r, r->n_run - 1);
}

enum status rank_warm_up(struct rank_step *r)
{
    enum status st = run_steps(r);
    rank_step_reset(r);
    if (st != ST_OK)
        FAIL(st, "the first steps, before any request: %s", status_text());
    return ST_OK;
}
