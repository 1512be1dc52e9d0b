#include "worker/step_draft.h"

#include <criterion/criterion.h>
#include <string.h>

const struct step_config small_step = {.max_tokens = TOKENS,
                                       .max_seqs = SEQS,
                                       .max_open = SEQS,
                                       .max_ctx = CTX,
                                       .n_blocks = N_BLOCKS,
                                       .block_len = BLOCK,
                                       .vocab = VOCAB,
                                       .max_edits = 64};

struct backend *be;
struct step *step;

void set_up_with(const struct step_config *cfg)
{
    struct backend_config bc = {.threads = 1, .isa = "plain"};
    cr_assert_eq(backend_open(&be, "cpu", &bc), ST_OK, "%s", status_text());
    cr_assert_eq(step_create(&step, cfg, be), ST_OK, "%s", status_text());
}

void set_up(void)
{
    set_up_with(&small_step);
}

void tear_down(void)
{
    step_destroy(step);
    backend_ops_of(be)->close(be);
}

void draft_begin(struct draft *d)
{
    memset(d, 0, sizeof *d);
    d->p = (struct step_plan){.step_id = 1,
                              .epoch = 1,
                              .seqs = d->seqs,
                              .opens = d->opens,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .history = d->history,
                              .stop_ids = d->stop_ids,
                              .bias = d->bias,
                              .closes = d->closes};
}

struct draft *fresh(void)
{
    static struct draft d;
    draft_begin(&d);
    return &d;
}

struct plan_open *add_open(struct draft *d, uint64_t id, uint32_t n_prompt)
{
    struct plan_open *o = &d->opens[d->p.n_opens++];
    *o = (struct plan_open){.seq_id = id,
                            .sp = sample_params_default(),
                            .n_prompt = n_prompt,
                            .history_off = d->p.n_history,
                            .stop_off = d->p.n_stop_ids,
                            .bias_off = d->p.n_bias};
    return o;
}

struct plan_seq *add_seq(struct draft *d, uint64_t id, uint32_t pos, uint32_t n, int32_t first,
                         uint32_t n_blocks, int32_t first_block, enum plan_want want)
{
    struct plan_seq *q = &d->seqs[d->p.n_seqs++];
    *q = (struct plan_seq){.seq_id = id,
                           .pos = pos,
                           .n_tokens = n,
                           .token_off = d->p.n_tokens,
                           .n_blocks = n_blocks,
                           .block_off = d->p.n_blocks,
                           .want = want};
    for (uint32_t i = 0; i < n; i++)
        d->tokens[d->p.n_tokens++] = first + (int32_t)i;
    for (uint32_t i = 0; i < n_blocks; i++)
        d->blocks[d->p.n_blocks++] = first_block + (int32_t)i;
    return q;
}

void add_close(struct draft *d, uint64_t id)
{
    d->closes[d->p.n_closes++] = id;
}
