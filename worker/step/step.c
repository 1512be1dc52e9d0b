#include "worker/step/step.h"

#include <stdlib.h>
#include <string.h>

#include "worker/step/internal.h"

/* ---- sizes ---- */

enum { ALIGN_WORDS = 16 }; /* 64 bytes */

static size_t aligned(size_t n)
{
    return (n + ALIGN_WORDS - 1) / ALIGN_WORDS * ALIGN_WORDS;
}

static bool possible(const struct step_config *c)
{
    const int32_t most = 1 << 24;
    return c->max_tokens >= 1 && c->max_tokens <= most && c->max_seqs >= 1 && c->max_seqs <= most &&
           c->max_open >= 1 && c->max_open <= most && c->max_ctx >= 1 && c->max_ctx <= most &&
           c->block_len >= 1 && c->block_len <= most && c->n_blocks >= 1 && c->vocab >= 1 &&
           c->n_blocks <= INT32_MAX / c->block_len;
}

static int32_t blocks_of(const struct step_config *c)
{
    return (c->max_ctx - 1) / c->block_len + 1;
}

/* Places the arrays in the upload buffer; false when they need 2^31 words or more. */
static bool lay_out(struct step *s)
{
    const struct step_config *c = &s->cfg;
    size_t tokens = aligned((size_t)c->max_tokens), seqs = aligned((size_t)c->max_seqs);
    s->max_blocks = blocks_of(c);
    s->at_token = 0;
    s->at_pos = tokens;
    s->at_slot = 2 * tokens;
    s->at_seq = 3 * tokens;
    s->at_q_start = 4 * tokens;
    s->at_kv_len = s->at_q_start + aligned((size_t)c->max_seqs + 1);
    s->at_out_row = s->at_kv_len + seqs;
    s->at_table = s->at_out_row + seqs; /* last: only the rows in use are uploaded */
    s->n_words = s->at_table + (size_t)c->max_seqs * (size_t)s->max_blocks;
    return s->n_words <= INT32_MAX;
}

size_t step_bytes(const struct step_config *cfg)
{
    struct step s = {.cfg = *cfg};
    return possible(cfg) && lay_out(&s) ? s.n_words * sizeof(int32_t) : 0;
}

/* ---- life ---- */

static enum status take_memory(struct step *s)
{
    size_t max_open = (size_t)s->cfg.max_open;
    s->seqs = calloc(max_open, sizeof *s->seqs);
    s->tables = calloc(max_open * (size_t)s->max_blocks, sizeof *s->tables);
    s->free_slots = calloc(max_open, sizeof *s->free_slots);
    s->out_slot = calloc((size_t)s->cfg.max_seqs, sizeof *s->out_slot);
    s->fresh_serial = calloc(max_open, sizeof *s->fresh_serial);
    s->close_serial = calloc(max_open, sizeof *s->close_serial);
    s->host = calloc(s->n_words, sizeof *s->host);
    if (!s->seqs || !s->tables || !s->free_slots || !s->out_slot || !s->fresh_serial ||
        !s->close_serial || !s->host)
        FAIL(ST_NOMEM, "no memory for %d sequences of %d blocks", s->cfg.max_open, s->max_blocks);
    TRY(id_map_init(&s->slot_of, max_open));
    TRY(id_map_init(&s->fresh, max_open));
    return backend_ops_of(s->be)->alloc(s->be, s->n_words * sizeof(int32_t), MEM_DEVICE, &s->dev);
}

enum status step_create(struct step **out, const struct step_config *cfg, struct backend *be)
{
    *out = NULL;
    if (step_bytes(cfg) == 0)
        FAIL(ST_RANGE,
             "step of %d tokens, %d of %d sequences, context %d, %d blocks of %d: out of range",
             cfg->max_tokens, cfg->max_seqs, cfg->max_open, cfg->max_ctx, cfg->n_blocks,
             cfg->block_len);
    struct step *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory for the step");
    s->cfg = *cfg;
    s->be = be;
    lay_out(s);
    enum status st = take_memory(s);
    if (st != ST_OK) {
        step_destroy(s);
        return st;
    }
    step_reset(s);
    *out = s;
    return ST_OK;
}

void step_destroy(struct step *s)
{
    if (!s)
        return;
    if (s->dev)
        backend_ops_of(s->be)->free(s->be, s->dev);
    id_map_fini(&s->slot_of);
    id_map_fini(&s->fresh);
    free(s->seqs);
    free(s->tables);
    free(s->free_slots);
    free(s->out_slot);
    free(s->fresh_serial);
    free(s->close_serial);
    free(s->host);
    free(s);
}

void step_reset(struct step *s)
{
    id_map_clear(&s->slot_of);
    s->n_free = 0;
    s->n_out = 0;
    for (int32_t slot = s->cfg.max_open - 1; slot >= 0; slot--)
        s->free_slots[s->n_free++] = slot;
}

int32_t step_find(const struct step *s, uint64_t seq_id)
{
    return id_map_get(&s->slot_of, seq_id);
}

const struct step_seq *step_seq(const struct step *s, int32_t slot)
{
    return &s->seqs[slot];
}

int32_t step_n_out(const struct step *s)
{
    return s->n_out;
}

int32_t step_out_slot(const struct step *s, int32_t i)
{
    return s->out_slot[i];
}

/* ---- apply ---- */

static void close_and_open(struct step *s, const struct step_plan *p)
{
    for (uint32_t i = 0; i < p->n_closes; i++) {
        s->free_slots[s->n_free++] = id_map_get(&s->slot_of, p->closes[i]);
        id_map_remove(&s->slot_of, p->closes[i]);
    }
    for (uint32_t i = 0; i < p->n_opens; i++) {
        const struct plan_open *o = &p->opens[i];
        int32_t slot = s->free_slots[--s->n_free];
        s->seqs[slot] =
            (struct step_seq){.seq_id = o->seq_id, .sp = o->sp, .n_prompt = (int32_t)o->n_prompt};
        id_map_put(&s->slot_of, o->seq_id, slot);
    }
}

/* Writes the tokens of plan sequence i, the first of them at row `row` of the step. */
static void place_tokens(struct step *s, const struct step_plan *p, int32_t i, int32_t row)
{
    const struct plan_seq *q = &p->seqs[i];
    const int32_t *table =
        s->tables + (size_t)id_map_get(&s->slot_of, q->seq_id) * (size_t)s->max_blocks;
    int32_t len = s->cfg.block_len;
    for (int32_t k = 0; k < (int32_t)q->n_tokens; k++, row++) {
        int32_t pos = (int32_t)q->pos + k;
        s->host[s->at_token + (size_t)row] = p->tokens[q->token_off + (uint32_t)k];
        s->host[s->at_pos + (size_t)row] = pos;
        s->host[s->at_slot + (size_t)row] = table[pos / len] * len + pos % len;
        s->host[s->at_seq + (size_t)row] = i;
    }
}

static void place_seq(struct step *s, const struct step_plan *p, int32_t i, int32_t row)
{
    const struct plan_seq *q = &p->seqs[i];
    int32_t slot = id_map_get(&s->slot_of, q->seq_id);
    struct step_seq *seq = &s->seqs[slot];
    int32_t *table = s->tables + (size_t)slot * (size_t)s->max_blocks;

    if (q->n_blocks)
        memcpy(table + seq->n_blocks, p->blocks + q->block_off, q->n_blocks * sizeof *table);
    seq->n_blocks += (int32_t)q->n_blocks;
    seq->len = (int32_t)(q->pos + q->n_tokens);
    seq->serial = s->serial;
    place_tokens(s, p, i, row);
    s->host[s->at_kv_len + (size_t)i] = seq->len;
    memcpy(s->host + s->at_table + (size_t)i * (size_t)s->max_blocks, table,
           (size_t)seq->n_blocks * sizeof *table);
    if (q->want == WANT_LAST) {
        s->host[s->at_out_row + (size_t)s->n_out] = row + (int32_t)q->n_tokens - 1;
        s->out_slot[s->n_out++] = slot;
    }
}

static struct view words(const struct step *s, size_t at, int32_t rows, int32_t cols)
{
    return (struct view){.buf = s->dev,
                         .off = at * sizeof(int32_t),
                         .rows = rows,
                         .cols = cols,
                         .stride = cols,
                         .dtype = DT_I32};
}

enum status step_apply(struct step *s, const struct step_plan *plan, struct step_dev *dev)
{
    TRY(step_check(s, plan));
    int32_t n_seqs = (int32_t)plan->n_seqs, row = 0, max_q = 0, max_kv = 0;
    s->n_out = 0;
    close_and_open(s, plan);
    for (int32_t i = 0; i < n_seqs; i++) {
        int32_t n = (int32_t)plan->seqs[i].n_tokens, kv = (int32_t)plan->seqs[i].pos + n;
        s->host[s->at_q_start + (size_t)i] = row;
        place_seq(s, plan, i, row);
        row += n;
        max_q = n > max_q ? n : max_q;
        max_kv = kv > max_kv ? kv : max_kv;
    }
    s->host[s->at_q_start + (size_t)n_seqs] = row;
    *dev = (struct step_dev){
        .n_tokens = row,
        .n_seqs = n_seqs,
        .max_q = max_q,
        .max_kv = max_kv,
        .block_len = s->cfg.block_len,
        .token = words(s, s->at_token, row, 1),
        .pos = words(s, s->at_pos, row, 1),
        .slot = words(s, s->at_slot, row, 1),
        .seq = words(s, s->at_seq, row, 1),
        .q_start = words(s, s->at_q_start, n_seqs + 1, 1),
        .kv_len = words(s, s->at_kv_len, n_seqs, 1),
        .block_table = words(s, s->at_table, n_seqs, s->max_blocks),
        .out_row = words(s, s->at_out_row, s->n_out, 1),
    };
    size_t used = s->at_table + (size_t)n_seqs * (size_t)s->max_blocks;
    return backend_ops_of(s->be)->write(s->be, words(s, 0, 1, (int32_t)used), s->host);
}
