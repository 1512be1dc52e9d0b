#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/rank_step_parts.h"

/* ---- life ---- */

static enum status take_flight(struct rank_step *r, struct flight *f)
{
    const struct backend_ops *ops = backend_ops_of(r->cfg.be);
    f->rows = calloc((size_t)r->cfg.step.max_seqs, sizeof *f->rows);
    if (!f->rows)
        FAIL(ST_NOMEM, "no memory for a step of %d sequences", r->cfg.step.max_seqs);
    if (sizes_back(&r->cfg) == 0)
        return ST_OK;
    TRY(ops->alloc(r->cfg.be, sizes_back(&r->cfg), MEM_PINNED, &f->back));
    f->back_ptr = ops->pinned_ptr(r->cfg.be, f->back);
    return ST_OK;
}

static enum status take_device(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    TRY(ops->alloc(cfg->be, sizes_out(cfg), MEM_DEVICE, &r->out));
    TRY(ops->alloc(cfg->be, FULL_ROWS * sizeof(int32_t), MEM_DEVICE, &r->full_row));
    if (cfg->step.max_scored) {
        TRY(ops->alloc(cfg->be, sizes_pick_row(cfg), MEM_DEVICE, &r->pick_row));
        TRY(ops->alloc(cfg->be, sizes_picked(cfg), MEM_DEVICE, &r->picked));
    }
    return ops->alloc(cfg->be, sizes_full(cfg), MEM_DEVICE, &r->full);
}

static enum status take_host(struct rank_step *r)
{
    size_t max_seqs = (size_t)r->cfg.step.max_seqs, vocab = (size_t)r->cfg.step.vocab;
    for (int i = 0; i < MAX_STEPS_IN_FLIGHT; i++)
        TRY(take_flight(r, &r->flights[i]));
    if (r->cfg.rank != 0)
        return ST_OK;
    r->full_host = malloc(sizes_full(&r->cfg));
    r->row = calloc(vocab, sizeof *r->row);
    r->sorted = calloc(vocab, sizeof *r->sorted);
    r->sorted_id = calloc(vocab, sizeof *r->sorted_id);
    r->sort_scratch = calloc(vocab, 2 * sizeof *r->sort_scratch);
    r->sums = calloc(max_seqs, sizeof *r->sums);
    r->tokens = calloc((size_t)sizes_rows(&r->cfg) + MAX_FORCED_TOKENS, sizeof *r->tokens);
    r->picked_host = malloc(sizes_picked(&r->cfg) + sizeof *r->picked_host);
    if (!r->full_host || !r->row || !r->sorted || !r->sorted_id || !r->sort_scratch || !r->sums ||
        !r->tokens || !r->picked_host)
        FAIL(ST_NOMEM, "no memory for sampling from %zu tokens", vocab);
    return ST_OK;
}

/* What the device drew in the last step. */
static struct view last_ids(const struct rank_step *r)
{
    return packed(r->out, 0, sizes_rows(&r->cfg), 1, DT_I32);
}

static enum status enqueue_ops(void *ctx, const struct step_dev *dev, struct view *logits);
static enum status enqueue_front(void *ctx, const struct step_dev *dev, struct view *logits);

/* Two for each batch: of the whole step, and of the front of one with grammars. */
static enum status record_graphs(struct rank_step *r)
{
    const struct step_config *sc = &r->cfg.step;
    struct graphs_config gc = {.be = r->cfg.be,
                               .step = r->step,
                               .most =
                                   sc->max_seqs < sc->max_tokens ? sc->max_seqs : sc->max_tokens,
                               .enqueue = enqueue_ops,
                               .ctx = r};
    if (!r->cfg.graphs)
        return ST_OK;
    TRY(graphs_create(&r->graphs, &gc));
    gc.enqueue = enqueue_front;
    gc.prepared = true;
    return r->masks ? graphs_create(&r->fronts, &gc) : ST_OK;
}

static enum status take_masks(struct rank_step *r)
{
    struct masks_config mc = sizes_masks(&r->cfg);
    return r->cfg.masks ? masks_create(&r->masks, &mc, r->cfg.be) : ST_OK;
}

static enum status take_pool(struct rank_step *r)
{
    if (!r->cfg.pool || r->cfg.rank != 0)
        return ST_OK;
    r->states = calloc(sizes_states(&r->cfg), sizeof *r->states);
    if (!r->states)
        FAIL(ST_NOMEM, "no memory for %d states", STATE_ROWS);
    for (int i = 0; i < MAX_STEPS_IN_FLIGHT; i++) {
        struct flight *f = &r->flights[i];
        f->embeddings = calloc((size_t)r->cfg.step.max_seqs, sizeof *f->embeddings);
        f->vectors = calloc(sizes_vectors(&r->cfg), sizeof *f->vectors);
        if (!f->embeddings || !f->vectors)
            FAIL(ST_NOMEM, "no memory for the embeddings of %d sequences", r->cfg.step.max_seqs);
    }
    return pooler_create(&r->pooler, r->cfg.pool);
}

static enum status build(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct edits_config ec = {.max_open = cfg->step.max_open,
                              .max_ctx = cfg->step.max_ctx,
                              .vocab = cfg->step.vocab,
                              .max_seqs = sizes_rows(cfg),
                              .max_edits = cfg->step.max_edits,
                              .part = cfg->parts[cfg->rank]};
    r->max_cols = sizes_widest_part(cfg);
    TRY(step_create(&r->step, &cfg->step, cfg->be));
    TRY(edits_create(&r->edits, &ec, cfg->be));
    TRY(take_masks(r));
    TRY(take_device(r));
    TRY(take_host(r));
    TRY(take_pool(r));
    return record_graphs(r);
}

enum status rank_step_create(struct rank_step **out, const struct rank_step_config *cfg)
{
    size_t n_parts = (size_t)cfg->world * sizeof *cfg->parts;
    *out = NULL;
    struct rank_step *r = calloc(1, sizeof *r);
    struct vocab_part *parts = malloc(n_parts);
    if (!r || !parts) {
        free(r);
        free(parts);
        FAIL(ST_NOMEM, "no memory for a rank's step");
    }
    memcpy(parts, cfg->parts, n_parts);
    r->cfg = *cfg;
    r->cfg.parts = r->parts = parts;
    enum status st = build(r);
    if (st != ST_OK) {
        rank_step_destroy(r);
        return st;
    }
    *out = r;
    return ST_OK;
}

void rank_step_destroy(struct rank_step *r)
{
    if (!r)
        return;
    struct buf *bufs[] = {r->out,    r->full_row,        r->full,           r->pick_row,
                          r->picked, r->flights[0].back, r->flights[1].back};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        if (bufs[i])
            backend_ops_of(r->cfg.be)->free(r->cfg.be, bufs[i]);
    for (int i = 0; i < MAX_STEPS_IN_FLIGHT; i++)
        free(r->flights[i].rows);
    for (int i = 0; i < MAX_STEPS_IN_FLIGHT; i++) {
        free(r->flights[i].embeddings);
        free(r->flights[i].vectors);
    }
    pooler_destroy(r->pooler);
    free(r->states);
    graphs_destroy(r->graphs);
    graphs_destroy(r->fronts);
    step_destroy(r->step);
    edits_destroy(r->edits);
    masks_destroy(r->masks);
    free(r->full_host);
    free(r->row);
    free(r->sorted);
    free(r->sorted_id);
    free(r->sort_scratch);
    free(r->sums);
    free(r->picked_host);
    free(r->tokens);
    free(r->parts);
    free(r);
}

void rank_step_reset(struct rank_step *r)
{
    step_reset(r->step);
    if (r->masks)
        masks_reset(r->masks);
    r->n_sampled = r->n_run; /* what still runs is discarded */
    r->waiting_us = 0;
}

struct masks *rank_step_masks(const struct rank_step *r)
{
    return r->masks;
}

int rank_step_n_graphs(const struct rank_step *r)
{
    return graphs_count(r->graphs);
}

/* ---- all ranks ---- */

enum status rank_step_check_deadline(const struct rank_step_config *cfg, uint64_t since_us)
{
    if (cfg->deadline_ms && clock_us() - since_us > cfg->deadline_ms * 1000ULL)
        FAIL(ST_TIMEOUT, "the device has not finished a step within %u ms", cfg->deadline_ms);
    return ST_OK;
}

enum status rank_step_pass(struct rank_step *r, uint64_t i_step)
{
    const struct rank_step_config *cfg = &r->cfg;
    uint64_t begin = clock_us();
    for (bool passed = false;;) {
        TRY(backend_ops_of(cfg->be)->event_wait(cfg->be, flight_of(i_step), 100000, &passed));
        if (passed)
            return ST_OK;
        TRY(rank_step_check_deadline(cfg, begin));
    }
}

static void note_rows(struct rank_step *r, struct flight *f, int32_t batch)
{
    f->batch = batch;
    f->n_rows = step_n_out(r->step);
    f->n_scored = step_n_scored(r->step);
    f->host_draws = f->n_scored > 0; /* their logits are read when the step has ended */
    for (int32_t i = 0; i < f->n_rows; i++) {
        const struct step_seq *seq = step_seq(r->step, step_out_slot(r->step, i));
        f->rows[i] = (struct out_row){.seq_id = seq->seq_id, .sp = seq->sp, .len = seq->len};
        f->host_draws = f->host_draws || !sample_on_device(&seq->sp);
    }
}

/* This rank's candidates of all rows, written to its own part of `out`, then everybody's; then the
 * device draws what it can. */
static enum status draw_rows(struct rank_step *r, struct view logits)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    const struct vocab_part *part = &cfg->parts[cfg->rank];
    int32_t n_rows = logits.rows;
    struct draw_shape shape = sizes_shape(cfg, n_rows);
    struct step_draws draws = step_draws(r->step, n_rows);
    size_t words = draw_words(&shape), top = sizes_ids(cfg), mine = top + (size_t)cfg->rank * words;
    size_t ids = mine + (size_t)n_rows * MAX_CANDIDATES,
           stat = ids + (size_t)n_rows * MAX_CANDIDATES;
    struct view all = packed(r->out, top, cfg->world, (int32_t)words, DT_I32);

    TRY(ops->topk(cfg->be, part, logits, draws.inv_temp,
                  packed(r->out, mine, n_rows, MAX_CANDIDATES, DT_F32),
                  packed(r->out, ids, n_rows, MAX_CANDIDATES, DT_I32),
                  packed(r->out, stat, n_rows, 3 * part->n_slices, DT_F32)));
    if (cfg->world > 1)
        TRY(cfg->co->ops->all_gather(cfg->co, packed(r->out, mine, 1, (int32_t)words, DT_I32),
                                     all));
    return ops->sample(cfg->be, &shape, all, draws.row, packed(r->out, 0, n_rows, 1, DT_I32));
}

/* From the upload to the edited logits.  A padded step is enqueued whole, whatever its rows want, for it may be
 * recorded. */
static enum status enqueue_front(void *ctx, const struct step_dev *dev, struct view *logits)
{
    struct rank_step *r = ctx;
    bool whole = step_padded(r->step);
    if (whole || step_feeds(r->step))
        TRY(backend_ops_of(r->cfg.be)->take_tokens(r->cfg.be, dev->token, dev->from, last_ids(r)));
    TRY(decoder_forward(r->cfg.model, dev, logits));
    if (logits->rows > 0 && (whole || edits_any(r->edits)))
        TRY(edits_apply(r->edits, r->step, *logits));
    return ST_OK;
}

/* All between the upload and the download of a step without grammars. */
static enum status enqueue_ops(void *ctx, const struct step_dev *dev, struct view *logits)
{
    TRY(enqueue_front(ctx, dev, logits));
    return logits->rows > 0 ? draw_rows(ctx, *logits) : ST_OK;
}

static enum status run_front(struct rank_step *r, const struct step_dev *dev)
{
    if (step_padded(r->step) && !edits_many(r->edits))
        return graphs_launch(r->fronts, dev, &r->logits);
    return enqueue_front(r, dev, &r->logits);
}

/* What the device drew in the last step: once that has ended, which is not waited for. */
static enum status last_drawn(struct rank_step *r, const int32_t **last, bool *known)
{
    *known = true;
    *last = NULL;
    if (!masks_need_last(r->masks))
        return ST_OK;
    int flight = flight_of(r->n_run - 1);
    *last = r->flights[flight].back_ptr;
    return backend_ops_of(r->cfg.be)->event_wait(r->cfg.be, flight, 0, known);
}

/* The front of a step with grammars, and its masks.  If the tokens that they follow from are known, a thread of its own
 * makes them meanwhile, for the ops of a CPU compute before they return.  Else a device still computes the step before;
 * the front is enqueued behind that, and the masks are made, when the tokens are drawn, while the device computes it. */
static enum status front_and_masks(struct rank_step *r, const struct step_dev *dev,
                                   const struct step_plan *plan)
{
    const struct backend_ops *ops = backend_ops_of(r->cfg.be);
    int front = MAX_STEPS_IN_FLIGHT + flight_of(r->n_run);
    const int32_t *last;
    bool known, passed;
    TRY(last_drawn(r, &last, &known));
    if (known)
        masks_begin(r->masks, r->step, plan, last);
    enum status st = run_front(r, dev);
    if (st == ST_OK)
        st = ops->event_mark(r->cfg.be, front);
    if (!known && st == ST_OK)
        st = rank_step_pass(r, r->n_run - 1);
    uint64_t begin = clock_us();
    enum status made = known ? masks_end(r->masks)
                             : (st == ST_OK ? masks_make(r->masks, r->step, plan, last) : ST_OK);
    TRY(st);
    TRY(made);
    TRY(ops->event_wait(r->cfg.be, front, 0, &passed));
    if (passed)
        masks_waited(r->masks, clock_us() - begin);
    return ST_OK;
}

/* A step with grammars: its front, which is the most of it, its masks, and the draw. */
static enum status enqueue_masked(struct rank_step *r, const struct step_dev *dev,
                                  const struct step_plan *plan)
{
    TRY(front_and_masks(r, dev, plan));
    if (r->logits.rows == 0)
        return ST_OK;
    if (masks_any(r->masks))
        TRY(masks_apply(r->masks, r->logits));
    return draw_rows(r, r->logits);
}

/* Brings the logits of the scored tokens together.  A logit is a row of one column, and a rank without
 * the token gives any of its own. */
static enum status pick_scored(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    const struct vocab_part *part = &cfg->parts[cfg->rank];
    const struct step_scored *scored = step_scored(r->step);
    int32_t n = step_n_scored(r->step), at[MAX_SCORED_ROWS], stride = (int32_t)r->logits.stride;
    struct view flat = r->logits,
                mine = packed(r->picked, (size_t)cfg->rank * (size_t)n, n, 1, DT_F32);
    flat.rows = (r->logits.rows - 1) * stride + part->n_cols;
    flat.cols = flat.stride = 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t col = scored[i].token - part->first_id, row = step_n_out(r->step) + i;
        at[i] = row * stride + (col >= 0 && col < part->n_cols ? col : 0);
    }
    struct view index = packed(r->pick_row, 0, n, 1, DT_I32);
    TRY(ops->write(cfg->be, index, at));
    TRY(ops->gather(cfg->be, flat, index, mine));
    if (cfg->world == 1)
        return ST_OK;
    mine.rows = 1;
    mine.cols = mine.stride = n;
    return cfg->co->ops->all_gather(cfg->co, mine, packed(r->picked, 0, cfg->world, n, DT_F32));
}

/* Rank 0: takes the states of the sequences that give embeddings, and makes those that are complete.  The
 * reads wait for the device. */
static enum status pool_states(struct rank_step *r, struct flight *f)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct step_embed *e = step_embeds(r->step);
    for (int32_t i = 0; cfg->rank == 0 && i < step_n_embeds(r->step); i++, e++) {
        for (int32_t at = 0; at < e->n; at += STATE_ROWS) {
            struct view rows = decoder_states(cfg->model);
            rows.off += (size_t)(e->row + at) * (size_t)rows.stride * sizeof(float);
            rows.rows = e->n - at < STATE_ROWS ? e->n - at : STATE_ROWS;
            TRY(backend_ops_of(cfg->be)->read(cfg->be, r->states, rows));
            pooler_take(r->pooler, e->slot, e->pos + at, r->states, rows.rows);
        }
        if (!e->ends)
            continue;
        size_t dim = (size_t)cfg->pool->modules->dim;
        float *v = f->vectors + (size_t)f->n_embeddings * dim;
        pooler_finish(r->pooler, e->slot, e->pos + e->n, v);
        f->embeddings[f->n_embeddings++] =
            (struct result_embedding){e->seq_id, embedding_digest(v, dim), v};
    }
    return ST_OK;
}

static enum status copy_states(struct rank_step *r, const struct step_copy *copies, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        TRY(decoder_copy_states(r->cfg.model, copies[i].from, copies[i].to));
    return ST_OK;
}

/* To the host: on rank 0 ids and candidates, on the others the ids that their matchers need. */
static enum status download(struct rank_step *r, const struct flight *f)
{
    const struct rank_step_config *cfg = &r->cfg;
    size_t used = sizes_ids(cfg);
    if (f->batch == 0 || (cfg->rank != 0 && !(r->masks && masks_any(r->masks))))
        return ST_OK;
    if (cfg->rank == 0)
        used += (size_t)cfg->world * sizes_words(cfg, f->batch);
    return backend_ops_of(cfg->be)->copy(cfg->be, packed(f->back, 0, 1, (int32_t)used, DT_I32),
                                         packed(r->out, 0, 1, (int32_t)used, DT_I32));
}

static enum status enqueue(struct rank_step *r, struct flight *f, const struct step_dev *dev,
                           const struct step_plan *plan)
{
    int32_t n_restores, n_keeps;
    const struct step_copy *restores = step_restores(r->step, &n_restores),
                           *keeps = step_keeps(r->step, &n_keeps);
    f->n_embeddings = 0;
    if (dev->n_tokens == 0)
        return ST_OK; /* a plan that only closes */
    TRY(step_upload(r->step));
    TRY(copy_states(r, restores, n_restores));
    if (r->masks && masks_involved(r->masks))
        TRY(enqueue_masked(r, dev, plan));
    else if (step_padded(r->step) && !edits_many(r->edits))
        TRY(graphs_launch(r->graphs, dev, &r->logits));
    else
        TRY(enqueue_ops(r, dev, &r->logits));
    TRY(copy_states(r, keeps, n_keeps));
    TRY(pool_states(r, f));
    if (f->n_scored > 0)
        TRY(pick_scored(r));
    return download(r, f);
}

static enum status check_masks(const struct rank_step *r, const struct step_plan *plan)
{
    if (r->masks)
        return masks_check(r->masks, plan);
    for (uint32_t i = 0; i < plan->n_opens; i++)
        if (plan->opens[i].grammar)
            FAIL(ST_PEER, "sequence %llu has a grammar: this backend cannot mask logits",
                 (unsigned long long)plan->opens[i].seq_id);
    return ST_OK;
}

static enum status check_embeds(const struct rank_step *r, const struct step_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_opens; i++) {
        bool embed = plan->opens[i].sp.embed != EMBED_NONE;
        if (embed ? !r->cfg.pool : r->cfg.headless)
            FAIL(ST_PEER, "sequence %llu wants %s: this model gives none",
                 (unsigned long long)plan->opens[i].seq_id, embed ? "an embedding" : "tokens");
        if (r->cfg.encoder != sample_whole(&plan->opens[i].sp))
            FAIL(ST_PEER, "sequence %llu is %sfor an encoder, the model is %s",
                 (unsigned long long)plan->opens[i].seq_id, r->cfg.encoder ? "not " : "",
                 r->cfg.encoder ? "one" : "none");
    }
    return ST_OK;
}

/* The tokens that grammars force behind those of the step. */
static void note_forced(const struct rank_step *r, struct flight *f)
{
    const struct forced_token *forced = NULL;
    f->n_forced = 0;
    if (r->masks && masks_any(r->masks))
        forced = masks_forced(r->masks, &f->n_forced);
    if (f->n_forced)
        memcpy(f->forced, forced, f->n_forced * sizeof *forced);
}

/* Does row i's grammar allow no token? */
static void note_ending(const struct rank_step *r, struct out_row *row, int32_t i)
{
    row->ending = masks_ending(r->masks, i);
    if (row->ending == TOKEN_GRAMMAR_STUCK)
        snprintf(row->place, sizeof row->place, "%s", masks_place(r->masks, i));
}

int rank_step_n_running(const struct rank_step *r)
{
    return (int)(r->n_run - r->n_sampled);
}

bool rank_step_may_run(const struct rank_step *r)
{
    int n = rank_step_n_running(r);
    return n == 0 || (n < MAX_STEPS_IN_FLIGHT && !r->flights[flight_of(r->n_run - 1)].host_draws);
}

enum status rank_step_run(struct rank_step *r, const struct step_plan *plan)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct flight *f = &r->flights[flight_of(r->n_run)];
    struct step_dev dev;
    assert(cfg->rank != 0 || rank_step_may_run(r));
    if (r->n_run >= MAX_STEPS_IN_FLIGHT) /* its memory is written again */
        TRY(rank_step_pass(r, r->n_run - MAX_STEPS_IN_FLIGHT));
    TRY(check_masks(r, plan));
    TRY(check_embeds(r, plan));
    TRY(step_apply(r->step, plan, &dev));
    if (r->masks)
        TRY(masks_open(r->masks, r->step, plan));
    edits_note(r->edits, r->step, plan);
    edits_place(r->edits, r->step);
    note_rows(r, f, dev.out_row.rows);
    TRY(enqueue(r, f, &dev, plan));
    for (int32_t i = 0; r->masks && i < f->n_rows; i++)
        note_ending(r, &f->rows[i], i);
    note_forced(r, f);
    TRY(backend_ops_of(cfg->be)->event_mark(cfg->be, flight_of(r->n_run)));
    r->n_run++;
    return ST_OK;
}
