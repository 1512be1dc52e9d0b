#include "gpu/gpu_step.h"

#include <stdlib.h>

static int32_t blocks_of(int32_t ctx, int32_t block_len)
{
    return (ctx + block_len - 1) / block_len;
}

int32_t gpu_step_blocks(int32_t max_seqs, int32_t max_ctx, int32_t block_len)
{
    return max_seqs * blocks_of(max_ctx, block_len);
}

static struct view next_array(size_t *at, int32_t rows, int32_t cols)
{
    struct view v = {.off = *at, .rows = rows, .cols = cols, .stride = cols, .dtype = DT_I32};
    *at += ((size_t)rows * (size_t)cols * sizeof(int32_t) + 255) & ~(size_t)255;
    return v;
}

enum status gpu_step_init(struct gpu_step *s, struct backend *be, int32_t max_tokens,
                          int32_t max_seqs, int32_t max_ctx, int32_t block_len)
{
    size_t at = 0;
    *s = (struct gpu_step){be, max_tokens, max_seqs, max_ctx, block_len, {0}, NULL, NULL};
    s->dev.block_len = block_len;
    struct view *const views[] = {&s->dev.token,   &s->dev.pos,     &s->dev.slot,
                                  &s->dev.seq,     &s->dev.q_start, &s->dev.kv_len,
                                  &s->dev.out_row, &s->dev.state,   &s->dev.block_table};
    const int32_t rows[] = {max_tokens, max_tokens, max_tokens, max_tokens, max_seqs + 1,
                            max_seqs,   max_seqs,   max_seqs,   max_seqs};
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        *views[i] = next_array(&at, rows[i],
                               views[i] == &s->dev.block_table ? blocks_of(max_ctx, block_len) : 1);
    s->host = calloc(1, at);
    if (!s->host)
        FAIL(ST_NOMEM, "no memory for the arrays of a step");
    TRY(backend_ops_of(be)->alloc(be, at, MEM_DEVICE, &s->buf));
    for (size_t i = 0; i < ARRAY_LEN(views); i++)
        views[i]->buf = s->buf;
    return ST_OK;
}

void gpu_step_fini(struct gpu_step *s)
{
    if (s->buf)
        backend_ops_of(s->be)->free(s->be, s->buf);
    free(s->host);
    *s = (struct gpu_step){0};
}

static int32_t *array(struct gpu_step *s, struct view v)
{
    return s->host + v.off / sizeof(int32_t);
}

static void fill_sequence(struct gpu_step *s, int32_t i, int32_t n, int32_t past,
                          const int32_t *token)
{
    struct step_dev *d = &s->dev;
    int32_t L = s->block_len, per_seq = d->block_table.cols;
    for (int32_t b = 0; b < per_seq; b++)
        array(s, d->block_table)[i * per_seq + b] = i * per_seq + b;
    for (int32_t j = 0; j < n; j++) {
        int32_t t = i * n + j, pos = past + j;
        array(s, d->token)[t] = token[t];
        array(s, d->pos)[t] = pos;
        array(s, d->slot)[t] = (i * per_seq + pos / L) * L + pos % L;
        array(s, d->seq)[t] = i;
    }
    array(s, d->q_start)[i + 1] = (i + 1) * n;
    array(s, d->kv_len)[i] = past + n;
    array(s, d->state)[i] = i;
    array(s, d->out_row)[i] = (i + 1) * n - 1;
}

enum status gpu_step_set(struct gpu_step *s, int32_t batch, int32_t n, int32_t past, int32_t reach,
                         const int32_t *token)
{
    struct step_dev *d = &s->dev;
    if (batch > s->max_seqs || batch * n > s->max_tokens || past + n > reach || reach > s->max_ctx)
        FAIL(ST_RANGE, "a step of %d sequences, %d tokens after %d each", batch, n, past);
    d->n_tokens = batch * n;
    d->n_seqs = batch;
    d->max_q = n;
    d->max_kv = reach;
    d->token.rows = d->pos.rows = d->slot.rows = d->seq.rows = d->n_tokens;
    d->q_start.rows = batch + 1;
    d->kv_len.rows = d->state.rows = d->block_table.rows = d->out_row.rows = batch;
    array(s, d->q_start)[0] = 0;
    for (int32_t i = 0; i < batch; i++)
        fill_sequence(s, i, n, past, token);
    const struct view arrays[] = {d->token,  d->pos,     d->slot,  d->seq,        d->q_start,
                                  d->kv_len, d->out_row, d->state, d->block_table};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        TRY(backend_ops_of(s->be)->write(s->be, arrays[i], array(s, arrays[i])));
    return ST_OK;
}
