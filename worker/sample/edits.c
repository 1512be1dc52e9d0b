#include "worker/sample/edits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    float bias, mul, add;
};

struct edits {
    struct edits_config cfg;
    struct backend *be;
    struct slot *slots; /* [max_open] */
    int32_t *tokens;    /* [max_open, max_ctx]; untouched for sequences without penalties */
    uint64_t *seen_row; /* [vocab] number of the row that last touched the id */
    int32_t *edit_of;   /* [vocab] its index in list then */
    uint64_t row_number;
    struct edit *list; /* [vocab] of the row at hand */
    int32_t n_list;
    int64_t n_all; /* edits of the step that was placed last */
    /* Those that its upload has no room for, a part after the other. */
    int32_t *more_start; /* [max_seqs + 1] */
    int32_t *more_words; /* [max_edits * EDIT_WORDS] */
};

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
    e->more_start = calloc((size_t)e->cfg.max_seqs + 1, sizeof *e->more_start);
    e->more_words = calloc((size_t)e->cfg.max_edits, EDIT_WORDS * sizeof *e->more_words);
    if (!e->slots || !e->tokens || !e->seen_row || !e->edit_of || !e->list || !e->more_start ||
        !e->more_words)
        FAIL(ST_NOMEM, "no memory for the penalties of %zu sequences", max_open);
    return ST_OK;
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
    free(e->slots);
    free(e->tokens);
    free(e->seen_row);
    free(e->edit_of);
    free(e->list);
    free(e->more_start);
    free(e->more_words);
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
        t->n_stop = o->grammar ? 0 : (int32_t)o->n_stop_ids; /* the mask has them */
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
            d->bias += t->bias[k].bias;
    }
    if (seq->len - seq->n_prompt >= (int64_t)sp->min_new)
        return;
    for (int32_t k = 0; k < t->n_stop; k++) {
        struct edit *d = touch(e, t->stop[k]);
        if (d)
            d->add = -INFINITY;
    }
}

/* ---- a step ---- */

/* Writes edits [first, first + max_edits) of the step; returns how many there are. */
static int64_t list(struct edits *e, const struct step *s, int64_t first, struct step_edits to)
{
    int64_t n = 0, end = first + e->cfg.max_edits;
    int32_t used = 0;
    for (int32_t r = 0; r < step_n_out(s); r++) {
        int32_t slot = step_out_slot(s, r);
        list_row(e, step_seq(s, slot), slot);
        for (int32_t k = 0; k < e->n_list; k++, n++) {
            const struct edit *d = &e->list[k];
            struct logit_edit edit = {d->id, d->bias, d->mul, d->add};
            _Static_assert(sizeof edit == EDIT_WORDS * sizeof(int32_t), "uploaded as words");
            if (n < first || n >= end)
                continue;
            memcpy(to.words + used, &edit, sizeof edit);
            used += EDIT_WORDS;
        }
        to.start[r + 1] = to.start[0] + used;
    }
    for (int32_t r = step_n_out(s); r < to.n_rows; r++) /* pads have none */
        to.start[r + 1] = to.start[0] + used;
    return n;
}

void edits_place(struct edits *e, const struct step *s)
{
    e->n_all = list(e, s, 0, step_edits(s));
}

bool edits_any(const struct edits *e)
{
    return e->n_all > 0;
}

bool edits_many(const struct edits *e)
{
    return e->n_all > e->cfg.max_edits;
}

/* Edits [first, ...) take the place of those before on the device, and are applied. */
static enum status apply_more(struct edits *e, const struct step *s, int64_t first,
                              const struct step_draws *dev, struct view logits)
{
    const struct backend_ops *ops = backend_ops_of(e->be);
    struct step_edits more = {logits.rows, e->more_start, e->more_words};
    more.start[0] = step_edits(s).start[0];
    list(e, s, first, more);
    struct view words = dev->edit_words;
    words.off += (size_t)more.start[0] * sizeof(int32_t);
    words.cols = words.stride = more.start[more.n_rows] - more.start[0];
    TRY(ops->write(e->be, words, more.words));
    TRY(ops->write(e->be, dev->edit_start, more.start));
    return ops->edit_logits(e->be, &e->cfg.part, logits, dev->edit_start, dev->edit_words);
}

enum status edits_apply(struct edits *e, const struct step *s, struct view logits)
{
    struct step_draws dev = step_draws(s, logits.rows);
    TRY(backend_ops_of(e->be)->edit_logits(e->be, &e->cfg.part, logits, dev.edit_start,
                                           dev.edit_words));
    for (int64_t first = e->cfg.max_edits; first < e->n_all; first += e->cfg.max_edits)
        TRY(apply_more(e, s, first, &dev, logits));
    return ST_OK;
}
