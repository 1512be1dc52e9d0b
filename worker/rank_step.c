#include "worker/rank_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "worker/sample/edits.h"
#include "worker/sample/sampler.h"

enum { K = MAX_CANDIDATES };

struct rank_step {
    struct rank_step_config cfg;
    struct vocab_part *parts;
    struct step *step;
    struct edits *edits;
    int32_t max_cols;   /* of the widest share of the vocabulary */
    struct view logits; /* [R, n_cols] of the last step */

    /* device */
    struct buf *inv_temp; /* [max_seqs] f32 */
    struct buf *top;      /* [world, words_of(max_seqs)] as struct draw_shape */
    struct buf *full_row; /* [FULL_ROWS] i32 */
    struct buf *full;     /* [world, FULL_ROWS, max_cols] f32 */

    /* host */
    float *inv_temp_host; /* [max_seqs] */
    /* rank 0, host */
    uint32_t *top_host;          /* as top: words whose type depends on the place */
    float *full_host;            /* as full */
    float *row;                  /* [vocab] one whole row, by id */
    float *sorted;               /* [vocab] */
    int32_t *sorted_id;          /* [vocab] */
    uint64_t *sort_scratch;      /* [2 vocab] */
    struct draw_sums *sums;      /* [max_seqs] */
    struct result_token *tokens; /* [max_seqs] */
};

/* ---- sizes ---- */

static struct draw_shape shape_of(const struct rank_step_config *cfg, int32_t n_rows)
{
    return (struct draw_shape){.n_ranks = cfg->world,
                               .n_rows = n_rows,
                               .k = K,
                               .n_slices = cfg->parts[0].n_slices,
                               .vocab = cfg->step.vocab};
}

/* Words that one rank gives for R rows. */
static size_t words_of(const struct rank_step_config *cfg, int32_t n_rows)
{
    struct draw_shape shape = shape_of(cfg, n_rows);
    return draw_words(&shape);
}

static int32_t widest(const struct rank_step_config *cfg)
{
    int32_t most = 1;
    for (int r = 0; r < cfg->world; r++)
        if (cfg->parts[r].n_cols > most)
            most = cfg->parts[r].n_cols;
    return most;
}

static size_t full_bytes(const struct rank_step_config *cfg)
{
    return (size_t)cfg->world * FULL_ROWS * (size_t)widest(cfg) * sizeof(float);
}

static size_t top_bytes(const struct rank_step_config *cfg)
{
    return (size_t)cfg->world * words_of(cfg, cfg->step.max_seqs) * sizeof(int32_t);
}

size_t rank_step_bytes(const struct rank_step_config *cfg)
{
    return step_bytes(&cfg->step) + edits_bytes() + top_bytes(cfg) + full_bytes(cfg) +
           (size_t)cfg->step.max_seqs * sizeof(float) + FULL_ROWS * sizeof(int32_t);
}

size_t rank_step_coll_bytes(const struct rank_step_config *cfg)
{
    return top_bytes(cfg) > full_bytes(cfg) ? top_bytes(cfg) : full_bytes(cfg);
}

/* ---- life ---- */

static enum status take_device(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    size_t max_seqs = (size_t)cfg->step.max_seqs;
    TRY(ops->alloc(cfg->be, max_seqs * sizeof(float), MEM_DEVICE, &r->inv_temp));
    TRY(ops->alloc(cfg->be, top_bytes(cfg), MEM_DEVICE, &r->top));
    TRY(ops->alloc(cfg->be, FULL_ROWS * sizeof(int32_t), MEM_DEVICE, &r->full_row));
    return ops->alloc(cfg->be, full_bytes(cfg), MEM_DEVICE, &r->full);
}

static enum status take_host(struct rank_step *r)
{
    size_t max_seqs = (size_t)r->cfg.step.max_seqs, vocab = (size_t)r->cfg.step.vocab;
    r->inv_temp_host = calloc(max_seqs, sizeof *r->inv_temp_host);
    if (!r->inv_temp_host)
        FAIL(ST_NOMEM, "no memory for a step of %zu sequences", max_seqs);
    if (r->cfg.rank != 0)
        return ST_OK;
    r->top_host = malloc(top_bytes(&r->cfg));
    r->full_host = malloc(full_bytes(&r->cfg));
    r->row = calloc(vocab, sizeof *r->row);
    r->sorted = calloc(vocab, sizeof *r->sorted);
    r->sorted_id = calloc(vocab, sizeof *r->sorted_id);
    r->sort_scratch = calloc(vocab, 2 * sizeof *r->sort_scratch);
    r->sums = calloc(max_seqs, sizeof *r->sums);
    r->tokens = calloc(max_seqs, sizeof *r->tokens);
    if (!r->top_host || !r->full_host || !r->row || !r->sorted || !r->sorted_id ||
        !r->sort_scratch || !r->sums || !r->tokens)
        FAIL(ST_NOMEM, "no memory for sampling from %zu tokens", vocab);
    return ST_OK;
}

static enum status build(struct rank_step *r)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct edits_config ec = {.max_open = cfg->step.max_open,
                              .max_ctx = cfg->step.max_ctx,
                              .vocab = cfg->step.vocab,
                              .part = cfg->parts[cfg->rank]};
    r->max_cols = widest(cfg);
    TRY(step_create(&r->step, &cfg->step, cfg->be));
    TRY(edits_create(&r->edits, &ec, cfg->be));
    TRY(take_device(r));
    return take_host(r);
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
    struct buf *bufs[] = {r->inv_temp, r->top, r->full_row, r->full};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        if (bufs[i])
            backend_ops_of(r->cfg.be)->free(r->cfg.be, bufs[i]);
    step_destroy(r->step);
    edits_destroy(r->edits);
    free(r->inv_temp_host);
    free(r->top_host);
    free(r->full_host);
    free(r->row);
    free(r->sorted);
    free(r->sorted_id);
    free(r->sort_scratch);
    free(r->sums);
    free(r->tokens);
    free(r->parts);
    free(r);
}

void rank_step_reset(struct rank_step *r)
{
    step_reset(r->step);
}

struct result_token *rank_step_tokens(const struct rank_step *r, uint32_t *n)
{
    *n = (uint32_t)step_n_out(r->step);
    return r->tokens;
}

/* ---- all ranks ---- */

static struct view packed(struct buf *b, size_t at_word, int32_t rows, int32_t cols,
                          enum dtype type)
{
    return (struct view){.buf = b,
                         .off = at_word * sizeof(int32_t),
                         .rows = rows,
                         .cols = cols,
                         .stride = cols,
                         .dtype = type};
}

/* This rank's candidates of R rows, written to its own part of `top`, then everybody's. */
static enum status gather_top(struct rank_step *r, int32_t n_rows)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    const struct vocab_part *part = &cfg->parts[cfg->rank];
    size_t words = words_of(cfg, n_rows), mine = (size_t)cfg->rank * words;
    size_t ids = mine + (size_t)n_rows * K, stat = ids + (size_t)n_rows * K;

    for (int32_t i = 0; i < n_rows; i++)
        r->inv_temp_host[i] =
            draw_inv_temperature(step_seq(r->step, step_out_slot(r->step, i))->sp.temperature);
    struct view inv_temp = packed(r->inv_temp, 0, n_rows, 1, DT_F32);
    TRY(ops->write(cfg->be, inv_temp, r->inv_temp_host));
    TRY(ops->topk(cfg->be, part, r->logits, inv_temp, packed(r->top, mine, n_rows, K, DT_F32),
                  packed(r->top, ids, n_rows, K, DT_I32),
                  packed(r->top, stat, n_rows, 3 * part->n_slices, DT_F32)));
    if (cfg->world == 1)
        return ST_OK;
    return cfg->co->ops->all_gather(cfg->co, packed(r->top, mine, 1, (int32_t)words, DT_I32),
                                    packed(r->top, 0, cfg->world, (int32_t)words, DT_I32));
}

enum status rank_step_run(struct rank_step *r, const struct step_plan *plan)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct step_dev dev;
    TRY(step_apply(r->step, plan, &dev));
    edits_note(r->edits, r->step, plan);
    if (dev.n_tokens == 0)
        return ST_OK; /* a plan that only closes */
    TRY(decoder_forward(cfg->model, &dev, &r->logits));
    if (dev.out_row.rows == 0)
        return ST_OK;
    TRY(edits_apply(r->edits, r->step, r->logits));
    return gather_top(r, dev.out_row.rows);
}

/* ---- rank 0 samples ---- */

static enum status broken_row(const struct step_seq *seq)
{
    FAIL(ST_DEVICE, "sequence %llu, position %d: the logits are not finite numbers",
         (unsigned long long)seq->seq_id, seq->len);
}

static enum sample_outcome draw(struct rank_step *r, int32_t i, const struct draw_candidates *c)
{
    const struct step_seq *seq = step_seq(r->step, step_out_slot(r->step, i));
    struct result_token *t = &r->tokens[i];
    t->seq_id = seq->seq_id;
    return sampler_draw(&seq->sp, c, (uint64_t)seq->len, t);
}

enum status rank_step_sample(struct rank_step *r, int32_t *rows, int32_t *n_rows)
{
    const struct rank_step_config *cfg = &r->cfg;
    struct draw_shape shape = shape_of(cfg, step_n_out(r->step));
    *n_rows = 0;
    if (shape.n_rows == 0)
        return ST_OK;
    TRY(backend_ops_of(cfg->be)->read(
        cfg->be, r->top_host, packed(r->top, 0, cfg->world, (int32_t)draw_words(&shape), DT_I32)));
    for (int32_t i = 0; i < shape.n_rows; i++) {
        const struct step_seq *seq = step_seq(r->step, step_out_slot(r->step, i));
        float logit[K];
        int32_t id[K];
        r->sums[i] =
            draw_row_sums(&shape, r->top_host, i, draw_inv_temperature(seq->sp.temperature));
        if (!draw_finite(&r->sums[i]))
            return broken_row(seq);
        struct draw_candidates c =
            draw_row_candidates(&shape, r->top_host, i, r->sums[i], logit, id);
        if (draw(r, i, &c) == NEED_ALL)
            rows[(*n_rows)++] = i;
    }
    return ST_OK;
}

/* ---- whole rows ---- */

static enum status draw_full(struct rank_step *r, const int32_t *rows, int32_t n)
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
        if (draw(r, rows[k], &c) != SAMPLED)
            FAIL(ST_BUG, "row %d is not decided by all its logits", rows[k]);
    }
    return ST_OK;
}

enum status rank_step_full(struct rank_step *r, const int32_t *rows, int32_t n)
{
    const struct rank_step_config *cfg = &r->cfg;
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    size_t mine = (size_t)cfg->rank * (size_t)n * (size_t)r->max_cols;
    if (n < 0 || n > FULL_ROWS)
        FAIL(ST_BUG, "%d whole rows at once", n);
    for (int32_t k = 0; k < n; k++)
        if (rows[k] < 0 || rows[k] >= step_n_out(r->step))
            FAIL(ST_BUG, "row %d of %d", rows[k], step_n_out(r->step));
    struct view index = packed(r->full_row, 0, n, 1, DT_I32);
    struct view src = packed(r->full, mine, n, r->max_cols, DT_F32), cut = src;
    cut.cols = cfg->parts[cfg->rank].n_cols; /* what is beyond is padding */
    TRY(ops->write(cfg->be, index, rows));
    TRY(ops->gather(cfg->be, r->logits, index, cut));
    if (cfg->world > 1)
        TRY(cfg->co->ops->all_gather(cfg->co, src,
                                     packed(r->full, 0, cfg->world * n, r->max_cols, DT_F32)));
    return cfg->rank == 0 ? draw_full(r, rows, n) : ST_OK;
}
