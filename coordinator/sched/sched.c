#include "coordinator/sched/sched.h"

#include <string.h>

#include "coordinator/sched/internal.h"

/* The last token of a sequence is never put into the cache. */
bool seq_fits_blocks(const struct sched *s, uint32_t n_end)
{
    return blocks_for(s, n_end - 1) <= s->pool.n_blocks;
}

enum status sched_check_req(const struct sched *s, const struct sched_req *r)
{
    unsigned long long id = r->seq_id;
    if (id == 0)
        FAIL(ST_RANGE, "sequence id 0 is not allowed");
    if (seq_find(s, id) >= 0)
        FAIL(ST_RANGE, "sequence %llu is live already", id);
    if (r->n_tokens == 0 || !r->tokens)
        FAIL(ST_RANGE, "sequence %llu has no tokens", id);
    if (r->n_prompt == 0 || r->n_prompt > r->n_tokens)
        FAIL(ST_RANGE, "sequence %llu: n_prompt %u is outside 1..%u", id, r->n_prompt, r->n_tokens);
    if (r->max_new == 0)
        FAIL(ST_RANGE, "sequence %llu: max_new is 0", id);
    if (r->n_scored > (r->sp.prompt_logprobs ? r->n_prompt - 1 : 0))
        FAIL(ST_RANGE, "sequence %llu: %u scored rows of a prompt of %u", id, r->n_scored,
             r->n_prompt);
    if (r->sp.embed && (r->n_tokens > r->n_prompt || r->max_new != 1))
        FAIL(ST_RANGE, "sequence %llu gives an embedding: it has %u tokens behind its prompt", id,
             r->n_tokens - r->n_prompt + r->max_new - 1);
    if (sample_whole(&r->sp) && r->n_tokens > s->cfg.max_step_tokens)
        FAIL(ST_RANGE,
             "the prompt has %u tokens: the model takes a text in one step, and a step of this "
             "server has at most %u (--max-step-tokens)",
             r->n_tokens, s->cfg.max_step_tokens);
    if (r->sp.prompt_logprobs && r->n_tokens > r->n_prompt && r->n_scored < r->n_prompt - 1)
        FAIL(ST_RANGE, "sequence %llu has new tokens, but only %u scored rows", id, r->n_scored);
    if (r->n_tokens >= s->cfg.max_ctx)
        FAIL(ST_RANGE, "the prompt has %u tokens, the context is %u", r->n_tokens, s->cfg.max_ctx);
    if (r->n_stop_ids > MAX_STOP_IDS || (r->n_stop_ids && !r->stop_ids))
        FAIL(ST_RANGE, "%u stop ids, at most %d are allowed", r->n_stop_ids, MAX_STOP_IDS);
    if (r->n_bias > MAX_LOGIT_BIAS || (r->n_bias && !r->bias))
        FAIL(ST_RANGE, "%u logit biases, at most %d are allowed", r->n_bias, MAX_LOGIT_BIAS);
    for (uint32_t i = 0; i < r->n_tokens; i++)
        if (r->tokens[i] < 0)
            FAIL(ST_RANGE, "token %u of sequence %llu is negative: %d", i, id, r->tokens[i]);
    return ST_OK;
}

/* The limits of the queue: those count that have never run. */
static enum status check_queue(const struct sched *s, const struct sched_req *r)
{
    uint32_t n = s->waiting.n - s->n_front;
    uint64_t n_tokens = s->waiting_tokens - s->front_tokens;
    if (n >= s->cfg.max_waiting)
        FAIL(ST_BUSY, "the queue is full: %u sequences wait", n);
    if (n_tokens + r->n_tokens > s->cfg.max_waiting_tokens)
        FAIL(ST_BUSY, "the queue is full: %llu tokens wait, %u more do not fit",
             (unsigned long long)n_tokens, r->n_tokens);
    return ST_OK;
}

enum status sched_submit(struct sched *s, const struct sched_req *r)
{
    TRY(sched_check_req(s, r));
    uint64_t n_end = (uint64_t)r->n_tokens + r->max_new;
    if (n_end > s->cfg.max_ctx)
        n_end = s->cfg.max_ctx;
    if (!seq_fits_blocks(s, (uint32_t)n_end))
        FAIL(ST_RANGE, "%llu tokens need %u cache blocks, there are %u", (unsigned long long)n_end,
             blocks_for(s, (uint32_t)n_end - 1), s->pool.n_blocks);
    if (!r->resumed && r->n_tokens > s->cfg.max_waiting_tokens)
        FAIL(ST_RANGE, "%u tokens exceed the queue's bound of %llu", r->n_tokens,
             (unsigned long long)s->cfg.max_waiting_tokens);
    if (!r->resumed)
        TRY(check_queue(s, r));
    if (s->free_slot < 0)
        FAIL(ST_BUSY, "%u sequences are live: no more fit", s->waiting.n + s->running.n);

    int32_t i = seq_new(s, r);
    turns_queue(s, &s->seqs[i]);
    seq_enqueue(s, i);
    s->facts.fresh = false;
    return ST_OK;
}

void sched_cancel(struct sched *s, uint64_t seq_id)
{
    int32_t i = seq_find(s, seq_id);
    s->facts.fresh = false;
    if (i >= 0)
        seq_drop(s, i);
}

void sched_reset(struct sched *s, uint32_t new_n_blocks, struct sched_effect *fx, size_t fx_cap,
                 size_t *n_fx)
{
    struct fx_list out = {.fx = fx, .cap = fx_cap};
    while (s->running.tail >= 0) {
        int32_t i = s->running.tail;
        s->seqs[i].front = true;
        seq_stop(s, i, false);
    }
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i))
        s->seqs[i].ahead = 0;
    s->n_flights = 0;
    s->n_closes = 0;
    s->facts.fresh = false;
    s->epoch++;
    if (new_n_blocks == 0)
        new_n_blocks = s->pool.n_blocks;
    block_pool_reset(&s->pool, new_n_blocks < s->max_blocks ? new_n_blocks : s->max_blocks);

    for (int32_t next, i = tree_first(s, &s->waiting); i >= 0; i = next) {
        struct seq *q = &s->seqs[i];
        next = tree_next(s, &s->waiting, i);
        if (seq_fits_blocks(s, q->n_end))
            continue;
        fx_push(&out, (struct sched_effect){
                          .kind = FX_FINISHED, .seq_id = q->req.seq_id, .reason = FINISH_FAILED});
        seq_drop(s, i);
    }
    *n_fx = out.n;
}

uint64_t sched_epoch(const struct sched *s)
{
    return s->epoch;
}

void sched_stats(const struct sched *s, struct sched_stats *out)
{
    *out = (struct sched_stats){
        .running = s->running.n,
        .waiting = s->waiting.n,
        .waiting_tokens = s->waiting_tokens,
        .blocks_total = s->pool.n_blocks,
        .blocks_free = s->pool.n_free,
        .blocks_held = s->pool.n_held,
        .blocks_cached = s->pool.n_cached,
        .snapshots_total = s->pool.snapshots.n_rows,
        .snapshots_known = s->pool.snapshots.n_known,
        .preemptions = s->n_preemptions,
        .pauses = s->n_pauses,
        .steps = s->n_steps,
        .tokens_computed = s->tokens_computed,
        .tokens_cached = s->tokens_cached,
    };
}
