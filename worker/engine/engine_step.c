#include "worker/engine/engine_step.h"

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"

enum status widest_vocab(int32_t *out, const struct model_config *mc, int world)
{
    struct shard sh;
    *out = 0;
    for (int r = 0; r < world; r++) {
        TRY(shard_plan(&sh, mc, r, world));
        if (sh.vocab.n_cols > *out)
            *out = sh.vocab.n_cols;
    }
    return ST_OK;
}

/* The next n int32 of the step's buffer, as a view [rows, cols]. */
static struct view next_array(size_t *at, int32_t rows, int32_t cols)
{
    struct view v = {.off = *at, .rows = rows, .cols = cols, .stride = cols, .dtype = DT_I32};
    *at += ((size_t)rows * (size_t)cols * sizeof(int32_t) + 63) & ~(size_t)63;
    return v;
}

static enum status take_arrays(struct engine_step *s)
{
    int32_t T = s->cfg.max_tokens, S = s->cfg.max_seqs;
    size_t at = 0, table;
    if (!mul_size((size_t)S, (size_t)s->max_blocks * sizeof(int32_t), &table))
        FAIL(ST_RANGE, "%d sequences of %d KV blocks", S, s->max_blocks);
    s->dev = (struct step_dev){.block_len = s->cfg.block_len,
                               .token = next_array(&at, T, 1),
                               .pos = next_array(&at, T, 1),
                               .slot = next_array(&at, T, 1),
                               .seq = next_array(&at, T, 1),
                               .q_start = next_array(&at, S + 1, 1),
                               .kv_len = next_array(&at, S, 1),
                               .state = next_array(&at, S, 1),
                               .out_row = next_array(&at, s->cfg.max_out, 1),
                               .block_table = next_array(&at, S, s->max_blocks)};
    s->host = calloc(1, at);
    if (!s->host)
        FAIL(ST_NOMEM, "no memory for the arrays of a step (%zu bytes)", at);
    TRY(s->op->alloc(s->be, at, MEM_DEVICE, &s->dev_buf));
    struct view *const views[] = {&s->dev.token,   &s->dev.pos,         &s->dev.slot,
                                  &s->dev.seq,     &s->dev.q_start,     &s->dev.kv_len,
                                  &s->dev.out_row, &s->dev.block_table, &s->dev.state};
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        views[i]->buf = s->dev_buf;
    return ST_OK;
}

/* Only several ranks have to bring logits together. */
static enum status take_gather(struct engine_step *s)
{
    if (!s->co)
        return ST_OK;
    TRY(widest_vocab(&s->widest, decoder_model(s->decoder), s->cfg.world));
    size_t bytes = (size_t)s->cfg.max_out * (size_t)s->widest * sizeof(float), all;
    if (!mul_size(bytes, (size_t)s->cfg.world, &all))
        FAIL(ST_RANGE, "%d rows of logits", s->cfg.max_out);
    s->gathered_host = malloc(all);
    if (!s->gathered_host)
        FAIL(ST_NOMEM, "no memory for logits (%zu bytes)", all);
    TRY(s->op->alloc(s->be, bytes, MEM_DEVICE, &s->padded));
    return s->op->alloc(s->be, all, MEM_DEVICE, &s->gathered);
}

enum status engine_step_init(struct engine_step *s, struct decoder *decoder, struct backend *be,
                             struct coll *co, const struct decoder_config *cfg, int32_t max_blocks)
{
    *s = (struct engine_step){.decoder = decoder,
                              .be = be,
                              .op = backend_ops_of(be),
                              .co = cfg->world > 1 ? co : NULL,
                              .cfg = *cfg,
                              .vocab = decoder_model(decoder)->vocab,
                              .max_blocks = max_blocks};
    TRY(take_arrays(s));
    return take_gather(s);
}

void engine_step_fini(struct engine_step *s)
{
    struct buf *bufs[] = {s->dev_buf, s->padded, s->gathered};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        if (bufs[i])
            s->op->free(s->be, bufs[i]);
    free(s->host);
    free(s->gathered_host);
    memset(s, 0, sizeof *s);
}

static int32_t *host_array(const struct engine_step *s, struct view v)
{
    return s->host + v.off / sizeof(int32_t);
}

void engine_step_begin(struct engine_step *s)
{
    s->dev.n_tokens = s->dev.n_seqs = s->dev.max_q = s->dev.max_kv = 0;
    s->dev.out_row.rows = 0;
    host_array(s, s->dev.q_start)[0] = 0;
}

void engine_step_add(struct engine_step *s, const struct kv_seq *kv, const int32_t *tokens,
                     int32_t n, enum step_rows rows)
{
    struct step_dev *d = &s->dev;
    int32_t first = d->n_tokens, i_seq = d->n_seqs++, len = kv->len + n;
    memcpy(host_array(s, d->block_table) + (size_t)i_seq * (size_t)s->max_blocks, kv->block,
           (size_t)kv->n_blocks * sizeof(int32_t));
    for (int32_t i = 0; i < n; i++) {
        int32_t pos = kv->len + i, t = first + i;
        host_array(s, d->token)[t] = tokens[i];
        host_array(s, d->pos)[t] = pos;
        host_array(s, d->slot)[t] =
            kv->block[pos / s->cfg.block_len] * s->cfg.block_len + pos % s->cfg.block_len;
        host_array(s, d->seq)[t] = i_seq;
        if (rows == ROWS_ALL || (rows == ROWS_LAST && i == n - 1))
            host_array(s, d->out_row)[d->out_row.rows++] = t;
    }
    d->n_tokens += n;
    host_array(s, d->q_start)[i_seq + 1] = d->n_tokens;
    host_array(s, d->kv_len)[i_seq] = len;
    host_array(s, d->state)[i_seq] = kv->slot;
    d->max_q = n > d->max_q ? n : d->max_q;
    d->max_kv = len > d->max_kv ? len : d->max_kv;
}

/* Logits of this rank's columns, with those of the others, in the order of the vocabulary. */
static enum status gather_logits(struct engine_step *s, struct view mine, float *logits)
{
    int32_t rows = mine.rows, world = s->cfg.world;
    struct view src = {
        .buf = s->padded, .rows = rows, .cols = s->widest, .stride = s->widest, .dtype = DT_F32};
    struct view dst = src, window = src;
    dst.buf = s->gathered;
    dst.rows = world * rows;
    window.cols = mine.cols;
    TRY(s->op->copy(s->be, window, mine));
    TRY(s->co->ops->all_gather(s->co, src, dst));
    TRY(s->op->read(s->be, s->gathered_host, dst));
    for (int r = 0; r < world; r++) {
        struct shard sh;
        TRY(shard_plan(&sh, decoder_model(s->decoder), r, world));
        for (int32_t i = 0; i < rows; i++)
            memcpy(logits + (size_t)i * (size_t)s->vocab + sh.vocab.first_id,
                   s->gathered_host + ((size_t)r * (size_t)rows + (size_t)i) * (size_t)s->widest,
                   (size_t)sh.vocab.n_cols * sizeof(float));
    }
    return ST_OK;
}

enum status engine_step_run(struct engine_step *s, float *logits)
{
    struct step_dev d = s->dev;
    struct view out;
    d.token.rows = d.pos.rows = d.slot.rows = d.seq.rows = d.n_tokens;
    d.q_start.rows = d.n_seqs + 1;
    d.kv_len.rows = d.state.rows = d.block_table.rows = d.n_seqs;
    const struct view arrays[] = {d.token,  d.pos,         d.slot,    d.seq,  d.q_start,
                                  d.kv_len, d.block_table, d.out_row, d.state};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        if (arrays[i].rows)
            TRY(s->op->write(s->be, arrays[i], host_array(s, arrays[i])));
    TRY(decoder_forward(s->decoder, &d, &out));
    if (out.rows == 0)
        return s->op->sync(s->be);
    return s->co ? gather_logits(s, out, logits) : s->op->read(s->be, logits, out);
}
