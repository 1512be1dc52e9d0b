#include "worker/sample/edits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16384 }; /* edits uploaded at once */
enum { COL_ROW, COL_ID, COL_MUL, COL_ADD, N_COLS };

struct slot {
    bool history; /* tokens are kept */
    int32_t n_tokens, n_stop, n_bias;
    int32_t stop[MAX_STOP_IDS];
    struct logit_bias bias[MAX_LOGIT_BIAS];
};

/* One id of the row at hand. */
struct edit {
    int32_t id;
    uint32_t n_output; /* occurrences in the output */
    float mul, add;
};

struct edits {
    struct edits_config cfg;
    struct backend *be;
    struct slot *slots; /* [max_open] */
    int32_t
        *tokens; /* [max_open, max_ctx]; pages of sequences without penalties are never touched */
    uint64_t *seen_row; /* [vocab] number of the row that last touched the id */
    int32_t *edit_of;   /* [vocab] its index in list then */
    uint64_t row_number;
    struct edit *list; /* [vocab] of the row at hand */
    int32_t n_list;
    int32_t *row, *id; /* [BATCH] to be uploaded */
    float *mul, *add;  /* [BATCH] */
    int32_t n_batch;
    struct buf *dev; /* [N_COLS, BATCH] */
};

size_t edits_bytes(void)
{
    return alloc_bytes((size_t)N_COLS * BATCH * sizeof(int32_t));
}

static enum status take_memory(struct edits *e)
{
    size_t vocab = (size_t)e->cfg.vocab, max_open = (size_t)e->cfg.max_open, n_tokens;
    if (__builtin_mul_overflow(max_open, (size_t)e->cfg.max_ctx, &n_tokens))
        FAIL(ST_RANGE, "%zu sequences of %d tokens", max_open, e->cfg.max_ctx);
    e->slots = calloc(max_open, sizeof *e->slots);
    e->tokens = calloc(n_tokens, sizeof *e->tokens);
    e->seen_row = calloc(vocab, sizeof *e->seen_row);
    e->edit_of = calloc(vocab, sizeof *e->edit_of);
    e->list = calloc(vocab, sizeof *e->list);
    e->row = calloc(BATCH, sizeof *e->row);
    e->id = calloc(BATCH, sizeof *e->id);
    e->mul = calloc(BATCH, sizeof *e->mul);
    e->add = calloc(BATCH, sizeof *e->add);
    if (!e->slots || !e->tokens || !e->seen_row || !e->edit_of || !e->list || !e->row || !e->id ||
        !e->mul || !e->add)
        FAIL(ST_NOMEM, "no memory for the penalties of %zu sequences", max_open);
    return backend_ops_of(e->be)->alloc(e->be, edits_bytes(), MEM_DEVICE, &e->dev);
}

enum status edits_create(struct edits **out, const struct edits_config *cfg, struct backend *be)
{
    *out = NULL;
    struct edits *e = calloc(1, sizeof *e);
    if (!e)
        FAIL(ST_NOMEM, "no memory for the penalties");
    e->cfg = *cfg;
    e->be = be;
    enum status st = take_memory(e);
    if (st != ST_OK) {
        edits_destroy(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

void edits_destroy(struct edits *e)
{
    if (!e)
        return;
    if (e->dev)
        backend_ops_of(e->be)->free(e->be, e->dev);
    free(e->slots);
    free(e->tokens);
    free(e->seen_row);
    free(e->edit_of);
    free(e->list);
    free(e->row);
    free(e->id);
    free(e->mul);
    free(e->add);
    free(e);
}

/* ---- what is remembered ---- */

static int32_t *tokens_of(const struct edits *e, int32_t slot)
{
    return e->tokens + (size_t)slot * (size_t)e->cfg.max_ctx;
}

void edits_note(struct edits *e, const struct step *s, const struct step_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_opens; i++) {
        const struct plan_open *o = &plan->opens[i];
        int32_t slot = step_find(s, o->seq_id);
        struct slot *t = &e->slots[slot];
        t->history = sample_params_need_history(&o->sp);
        t->n_tokens = t->history ? (int32_t)o->n_history : 0;
        t->n_stop = (int32_t)o->n_stop_ids;
        t->n_bias = (int32_t)o->n_bias;
        for (int32_t k = 0; k < t->n_tokens; k++)
            tokens_of(e, slot)[k] = plan->history[o->history_off + (uint32_t)k];
        for (int32_t k = 0; k < t->n_stop; k++)
            t->stop[k] = plan->stop_ids[o->stop_off + (uint32_t)k];
        for (int32_t k = 0; k < t->n_bias; k++)
            t->bias[k] = plan->bias[o->bias_off + (uint32_t)k];
    }
    for (uint32_t i = 0; i < plan->n_seqs; i++) {
        const struct plan_seq *q = &plan->seqs[i];
        int32_t slot = step_find(s, q->seq_id);
        struct slot *t = &e->slots[slot];
        if (!t->history)
            continue;
        memcpy(tokens_of(e, slot) + t->n_tokens, plan->tokens + q->token_off,
               q->n_tokens * sizeof(int32_t));
        t->n_tokens += (int32_t)q->n_tokens;
    }
}

/* ---- the edits of one row ---- */

/* The row's edit of that id, NULL when another rank has the id. */
static struct edit *touch(struct edits *e, int32_t id)
{
    const struct vocab_part *p = &e->cfg.part;
    if (id < p->first_id || id - p->first_id >= p->n_cols)
        return NULL;
    if (e->seen_row[id] != e->row_number) {
        e->seen_row[id] = e->row_number;
        e->edit_of[id] = e->n_list;
        e->list[e->n_list++] = (struct edit){.id = id, .mul = 1.0f};
    }
    return &e->list[e->edit_of[id]];
}

static void list_row(struct edits *e, const struct step_seq *seq, int32_t slot)
{
    const struct slot *t = &e->slots[slot];
    const struct sample_params *sp = &seq->sp;
    const int32_t *tokens = tokens_of(e, slot);
    e->row_number++;
    e->n_list = 0;
    for (int32_t k = 0; k < t->n_tokens; k++) {
        struct edit *d = touch(e, tokens[k]);
        if (!d)
            continue;
        d->mul = sp->repetition_penalty;
        d->n_output += k >= seq->n_prompt;
    }
    for (int32_t i = 0; i < e->n_list; i++) {
        struct edit *d = &e->list[i];
        if (d->n_output)
            d->add = -(sp->presence_penalty + sp->frequency_penalty * (float)d->n_output);
    }
    for (int32_t k = 0; k < t->n_bias; k++) {
        struct edit *d = touch(e, t->bias[k].id);
        if (d)
            d->add += t->bias[k].bias;
    }
    if (seq->len - seq->n_prompt >= (int64_t)sp->min_new)
        return;
    for (int32_t k = 0; k < t->n_stop; k++) {
        struct edit *d = touch(e, t->stop[k]);
        if (d)
            d->add = -INFINITY;
    }
}

static struct view column(const struct edits *e, int col, enum dtype type)
{
    return (struct view){.buf = e->dev,
                         .off = (size_t)col * BATCH * sizeof(int32_t),
                         .rows = e->n_batch,
                         .cols = 1,
                         .stride = 1,
                         .dtype = type};
}

static enum status flush(struct edits *e, struct view logits)
{
    const struct backend_ops *ops = backend_ops_of(e->be);
    struct view row = column(e, COL_ROW, DT_I32), id = column(e, COL_ID, DT_I32);
    struct view mul = column(e, COL_MUL, DT_F32), add = column(e, COL_ADD, DT_F32);
    if (e->n_batch == 0)
        return ST_OK;
    TRY(ops->write(e->be, row, e->row));
    TRY(ops->write(e->be, id, e->id));
    TRY(ops->write(e->be, mul, e->mul));
    TRY(ops->write(e->be, add, e->add));
    TRY(ops->edit_logits(e->be, &e->cfg.part, logits, row, id, mul, add));
    e->n_batch = 0;
    return ST_OK;
}

enum status edits_apply(struct edits *e, const struct step *s, struct view logits)
{
    for (int32_t i = 0; i < step_n_out(s); i++) {
        int32_t slot = step_out_slot(s, i);
        list_row(e, step_seq(s, slot), slot);
        for (int32_t k = 0; k < e->n_list; k++) {
            if (e->n_batch == BATCH) {
                TRY(flush(e, logits));
                TRY(backend_ops_of(e->be)->sync(e->be)); /* the columns are filled again */
            }
            e->row[e->n_batch] = i;
            e->id[e->n_batch] = e->list[k].id;
            e->mul[e->n_batch] = e->list[k].mul;
            e->add[e->n_batch++] = e->list[k].add;
        }
    }
    return flush(e, logits);
}
