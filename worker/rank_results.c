/* Rank 0 takes what a step gave: tokens, log probabilities, embeddings; all ranks give whole rows of logits.  The
 * second half of rank_step.h. */
#include <assert.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "worker/rank_step_parts.h"

enum status rank_step_done(struct rank_step *r, uint64_t wait_us, bool *done)
{
    const struct rank_step_config *cfg = &r->cfg;
    assert(rank_step_n_running(r) > 0);
    TRY(backend_ops_of(cfg->be)->event_wait(cfg->be, flight_of(r->n_sampled), wait_us, done));
    if (*done)
        return ST_OK;
    if (r->waiting_us == 0)
        r->waiting_us = clock_us();
    return rank_step_check_deadline(cfg, r->waiting_us);
}

/* A row whose logits are not finite numbers, or that allows no token: its sequence alone ends. */
static void break_row(struct rank_step *r, const struct out_row *row, int32_t i)
{
    if (row->ending) {
        r->tokens[i] =
            (struct result_token){.seq_id = row->seq_id, .token = row->ending, .place = row->place};
        return;
    }
    log_line(LOG_WARN, "sequence %llu, position %d: the logits are not finite numbers",
             (unsigned long long)row->seq_id, row->len);
    r->tokens[i] = (struct result_token){.seq_id = row->seq_id, .token = TOKEN_NOT_FINITE};
}

/* The host's draw of row i. */
static enum sample_outcome draw(struct rank_step *r, const struct out_row *row, int32_t i,
                                const struct draw_candidates *c)
{
    r->tokens[i].seq_id = row->seq_id;
    return sampler_draw(&row->sp, c, (uint64_t)row->len, &r->tokens[i]);
}

/* Row i, of which the device has drawn that token. */
static enum status take_drawn(struct rank_step *r, const struct out_row *row, int32_t i,
                              const struct draw_candidates *c, int32_t token)
{
    int32_t at = 0;
    while (at < c->n && c->id[at] != token)
        at++;
    if (at == c->n)
        FAIL(ST_DEVICE, "sequence %llu, position %d: the device drew token %d, no candidate",
             (unsigned long long)row->seq_id, row->len, token);
    r->tokens[i].seq_id = row->seq_id;
    sampler_report(&row->sp, c, at, &r->tokens[i]);
    return ST_OK;
}

/* The rank that has a token's logits. */
static int owner_of(const struct rank_step_config *cfg, int32_t token)
{
    int w = 0;
    while (w + 1 < cfg->world && token >= cfg->parts[w].first_id + cfg->parts[w].n_cols)
        w++;
    return w;
}

static enum status score_rows(struct rank_step *r, const struct flight *f)
{
    const struct rank_step_config *cfg = &r->cfg;
    const int32_t *top = f->back_ptr + sizes_ids(cfg);
    const struct step_scored *scored = step_scored(r->step);
    struct draw_shape shape = sizes_shape(cfg, f->batch);
    if (f->n_scored == 0)
        return ST_OK;
    TRY(backend_ops_of(cfg->be)->read(cfg->be, r->picked_host,
                                      packed(r->picked, 0, cfg->world, f->n_scored, DT_F32)));
    for (int32_t i = 0; i < f->n_scored; i++) {
        const struct out_row row = {.seq_id = scored[i].seq_id};
        int32_t id[MAX_CANDIDATES], token = scored[i].token, i_row = f->n_rows + i;
        float all[MAX_CANDIDATES];
        struct draw_sums sums = draw_row_sums(&shape, top, i_row, 1.0f);
        if (!draw_finite(&sums)) {
            break_row(r, &row, i_row);
            continue;
        }
        struct draw_candidates c = draw_row_candidates(&shape, top, i_row, sums, all, id);
        float logit =
            r->picked_host[(size_t)owner_of(cfg, token) * (size_t)f->n_scored + (size_t)i];
        r->tokens[i_row].seq_id = row.seq_id;
        sampler_score(&c, token, logit, scored[i].n_top, &r->tokens[i_row]);
    }
    return ST_OK;
}

/* The forced tokens go behind all others.  Their log probability is 0: there is no other token. */
static void append_forced(struct rank_step *r, const struct flight *f)
{
    r->n_forced = 0;
    for (uint32_t k = 0; k < f->n_forced; k++) {
        const struct forced_token *t = &f->forced[k];
        const struct out_row *row = &f->rows[t->i_row];
        struct draw_candidates c = {.n = 1,
                                    .logit = (float[]){0.0f},
                                    .id = (int32_t[]){t->id},
                                    .complete = true,
                                    .sums = {.max = 0.0f, .sum = 1.0}};
        if (!draw_finite(&r->sums[t->i_row]))
            continue; /* the sequence ends here */
        struct result_token *out = &r->tokens[f->n_rows + f->n_scored + (int32_t)r->n_forced++];
        out->seq_id = row->seq_id;
        sampler_report(&row->sp, &c, 0, out);
    }
}

enum status rank_step_sample(struct rank_step *r, int32_t *rows, int32_t *n_rows)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct flight *f = &r->flights[flight_of(r->n_sampled)];
    const int32_t *drawn = f->back_ptr, *top = f->back_ptr + sizes_ids(cfg);
    struct draw_shape shape = sizes_shape(cfg, f->batch);
    assert(rank_step_n_running(r) > 0);
    *n_rows = 0;
    TRY(rank_step_pass(r, r->n_sampled++));
    r->waiting_us = 0;
    for (int32_t i = 0; i < f->n_rows; i++) {
        const struct out_row *row = &f->rows[i];
        float logit[MAX_CANDIDATES];
        int32_t id[MAX_CANDIDATES];
        r->sums[i] = draw_row_sums(&shape, top, i, draw_inv_temperature(row->sp.temperature));
        if (!draw_finite(&r->sums[i])) {
            break_row(r, row, i);
            continue;
        }
        struct draw_candidates c = draw_row_candidates(&shape, top, i, r->sums[i], logit, id);
        if (sample_on_device(&row->sp))
            TRY(take_drawn(r, row, i, &c, drawn[i]));
        else if (draw(r, row, i, &c) == NEED_ALL)
            rows[(*n_rows)++] = i;
    }
    append_forced(r, f);
    return score_rows(r, f);
}

struct result_token *rank_step_tokens(const struct rank_step *r, uint32_t *n)
{
    assert(r->n_sampled > 0);
    const struct flight *f = &r->flights[flight_of(r->n_sampled - 1)];
    *n = (uint32_t)(f->n_rows + f->n_scored) + r->n_forced;
    return r->tokens;
}

struct result_embedding *rank_step_embeddings(const struct rank_step *r, uint32_t *n, uint32_t *dim)
{
    assert(r->n_sampled > 0);
    const struct flight *f = &r->flights[flight_of(r->n_sampled - 1)];
    *n = (uint32_t)f->n_embeddings;
    *dim = r->cfg.pool ? (uint32_t)r->cfg.pool->modules->dim : 0;
    return f->embeddings;
}

/* ---- whole rows ---- */

static enum status draw_full(struct rank_step *r, const struct flight *f, const int32_t *rows,
                             int32_t n)
{
    const struct rank_step_config *cfg = &r->cfg;
    size_t per_rank = (size_t)n * (size_t)r->max_cols;
    TRY(backend_ops_of(cfg->be)->read(cfg->be, r->full_host,
                                      packed(r->full, 0, cfg->world * n, r->max_cols, DT_F32)));
    for (int32_t k = 0; k < n; k++) {
        for (int w = 0; w < cfg->world; w++)
            memcpy(r->row + cfg->parts[w].first_id,
                   r->full_host + (size_t)w * per_rank + (size_t)k * (size_t)r->max_cols,
                   (size_t)cfg->parts[w].n_cols * sizeof *r->row);
        sampler_sort(r->row, cfg->step.vocab, r->sorted, r->sorted_id, r->sort_scratch);
        struct draw_candidates c = {.n = cfg->step.vocab,
                                    .logit = r->sorted,
                                    .id = r->sorted_id,
                                    .complete = true,
                                    .sums = r->sums[rows[k]]};
        if (draw(r, &f->rows[rows[k]], rows[k], &c) != SAMPLED)
            FAIL(ST_BUG, "row %d is not decided by all its logits", rows[k]);
    }
    return ST_OK;
}

enum status rank_step_full(struct rank_step *r, const int32_t *rows, int32_t n)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    size_t mine = (size_t)cfg->rank * (size_t)n * (size_t)r->max_cols;
    assert(r->n_run > 0 && (cfg->rank != 0 || r->n_run == r->n_sampled));
    const struct flight *f = &r->flights[flight_of(r->n_run - 1)];
    if (n < 0 || n > FULL_ROWS)
        FAIL(ST_BUG, "%d whole rows at once", n);
    for (int32_t k = 0; k < n; k++)
        if (rows[k] < 0 || rows[k] >= f->n_rows)
            FAIL(ST_BUG, "row %d of %d", rows[k], f->n_rows);
    struct view index = packed(r->full_row, 0, n, 1, DT_I32);
    struct view src = packed(r->full, mine, n, r->max_cols, DT_F32), cut = src;
    cut.cols = cfg->parts[cfg->rank].n_cols; /* what is beyond is padding */
    TRY(ops->write(cfg->be, index, rows));
    TRY(ops->gather(cfg->be, r->logits, index, cut));
    if (cfg->world > 1)
        TRY(cfg->co->ops->all_gather(cfg->co, src,
                                     packed(r->full, 0, cfg->world * n, r->max_cols, DT_F32)));
    return cfg->rank == 0 ? draw_full(r, f, rows, n) : ST_OK;
}
