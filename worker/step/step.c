#include "worker/step/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/draw.h"
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
           c->n_blocks <= INT32_MAX / c->block_len - c->pad && c->max_edits >= 1 &&
           c->max_edits <= most && c->n_types >= 0 && c->n_types <= INT32_MAX / c->vocab &&
           c->max_scored >= 0 && c->max_scored <= MAX_SCORED_ROWS && c->n_snapshots >= 0 &&
           c->n_snapshots <= (c->states ? most : 0);
}

/* Sequences that one step can decode. */
static int32_t most_decodes(const struct step_config *c)
{
    return c->max_seqs < c->max_tokens ? c->max_seqs : c->max_tokens;
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
    size_t most_rows = (size_t)c->max_seqs + (size_t)c->max_scored, rows = aligned(most_rows);
    s->max_blocks = blocks_of(c);
    s->at_token = 0;
    s->at_from = tokens;
    s->at_pos = 2 * tokens;
    s->at_slot = 3 * tokens;
    s->at_seq = 4 * tokens;
    s->at_q_start = 5 * tokens;
    s->at_kv_len = s->at_q_start + aligned((size_t)c->max_seqs + 1);
    s->at_state = s->at_kv_len + seqs;
    s->at_out_row = s->at_state + seqs;
    s->at_inv_temp = s->at_out_row + rows;
    s->at_draw = s->at_inv_temp + rows;
    s->at_edit_start = s->at_draw + DRAW_ROW_WORDS * rows;
    s->at_type = s->at_edit_start + aligned(most_rows + 1);
    /* of these two no more is uploaded than the step has: edits, and of the table `width` columns */
    s->at_edit = s->at_type + (c->n_types ? tokens : 0);
    s->at_table = s->at_edit + aligned(EDIT_WORDS * (size_t)c->max_edits);
    s->n_words = s->at_table + (size_t)c->max_seqs * (size_t)s->max_blocks;
    return s->n_words <= INT32_MAX;
}

struct mem_bytes step_bytes(const struct step_config *cfg)
{
    struct step s = {.cfg = *cfg};
    if (!possible(cfg) || !lay_out(&s))
        return (struct mem_bytes){0};
    size_t one = alloc_bytes(s.n_words * sizeof(int32_t)), n_landed = cfg->land ? 2 : 0;
    return (struct mem_bytes){.device = (1 + n_landed) * one, .pinned = ARRAY_LEN(s.image) * one};
}

size_t step_host_bytes(const struct step_config *cfg)
{
    size_t of_open = sizeof(struct fed) + sizeof(struct step_seq) + sizeof(int32_t) +
                     2 * sizeof(uint64_t) + (size_t)blocks_of(cfg) * sizeof(int32_t);
    size_t of_seq = sizeof(int32_t) + sizeof(struct step_embed) + 2 * sizeof(struct step_copy);
    return (size_t)cfg->n_snapshots * sizeof(uint64_t) + (size_t)cfg->max_open * of_open +
           (size_t)cfg->max_seqs * of_seq + (size_t)cfg->max_scored * sizeof(struct step_scored);
}

/* ---- life ---- */

static enum status take_memory(struct step *s)
{
    const struct backend_ops *ops = backend_ops_of(s->be);
    size_t max_open = (size_t)s->cfg.max_open;
    s->fed = calloc(max_open, sizeof *s->fed);
    s->seqs = calloc(max_open, sizeof *s->seqs);
    s->tables = calloc(max_open * (size_t)s->max_blocks, sizeof *s->tables);
    s->free_slots = calloc(max_open, sizeof *s->free_slots);
    s->out_slot = calloc((size_t)s->cfg.max_seqs, sizeof *s->out_slot);
    s->scored = calloc((size_t)s->cfg.max_scored + 1, sizeof *s->scored);
    s->embeds = calloc((size_t)s->cfg.max_seqs, sizeof *s->embeds);
    s->fresh_serial = calloc(max_open, sizeof *s->fresh_serial);
    s->close_serial = calloc(max_open, sizeof *s->close_serial);
    s->restores = calloc((size_t)s->cfg.max_seqs, sizeof *s->restores);
    s->keeps = calloc((size_t)s->cfg.max_seqs, sizeof *s->keeps);
    s->keep_serial = calloc((size_t)s->cfg.n_snapshots + 1, sizeof *s->keep_serial);
    if (!s->fed || !s->seqs || !s->tables || !s->free_slots || !s->out_slot || !s->scored ||
        !s->embeds || !s->fresh_serial || !s->close_serial || !s->restores || !s->keeps ||
        !s->keep_serial)
        FAIL(ST_NOMEM, "no memory for %d sequences of %d blocks", s->cfg.max_open, s->max_blocks);
    TRY(id_map_init(&s->slot_of, max_open));
    TRY(id_map_init(&s->fresh, max_open));
    size_t bytes = s->n_words * sizeof(int32_t);
    for (size_t i = 0; i < ARRAY_LEN(s->image); i++)
        TRY(ops->alloc(s->be, bytes, MEM_PINNED, &s->image[i]));
    for (size_t i = 0; s->cfg.land && i < ARRAY_LEN(s->landed); i++)
        TRY(ops->alloc(s->be, bytes, MEM_DEVICE, &s->landed[i]));
    TRY(ops->alloc(s->be, bytes, MEM_DEVICE, &s->dev));
    return ops->sync(s->be); /* an upload would run beside the zeroing */
}

enum status step_create(struct step **out, const struct step_config *cfg, struct backend *be)
{
    *out = NULL;
    if (step_bytes(cfg).device == 0)
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
    struct buf *bufs[] = {s->dev, s->image[0], s->image[1], s->landed[0], s->landed[1]};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        if (bufs[i])
            backend_ops_of(s->be)->free(s->be, bufs[i]);
    free(s->fed);
    id_map_fini(&s->slot_of);
    id_map_fini(&s->fresh);
    free(s->seqs);
    free(s->tables);
    free(s->free_slots);
    free(s->out_slot);
    free(s->scored);
    free(s->embeds);
    free(s->fresh_serial);
    free(s->close_serial);
    free(s->restores);
    free(s->keeps);
    free(s->keep_serial);
    free(s);
}

void step_reset(struct step *s)
{
    id_map_clear(&s->slot_of);
    s->n_free = 0;
    s->n_out = 0;
    s->n_scored = 0;
    s->n_embeds = 0;
    s->n_restores = s->n_keeps = 0;
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

int32_t step_n_scored(const struct step *s)
{
    return s->n_scored;
}

const struct step_scored *step_scored(const struct step *s)
{
    return s->scored;
}

int32_t step_n_embeds(const struct step *s)
{
    return s->n_embeds;
}

const struct step_embed *step_embeds(const struct step *s)
{
    return s->embeds;
}

const struct step_copy *step_restores(const struct step *s, int32_t *n)
{
    *n = s->n_restores;
    return s->restores;
}

const struct step_copy *step_keeps(const struct step *s, int32_t *n)
{
    *n = s->n_keeps;
    return s->keeps;
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
        s->fed[slot] = (struct fed){0};
        id_map_put(&s->slot_of, o->seq_id, slot);
    }
}

/* Writes the tokens of plan sequence i, the first of them at row `row` of the step. */
static void place_tokens(struct step *s, const struct step_plan *p, int32_t i, int32_t row)
{
    const struct plan_seq *q = &p->seqs[i];
    int32_t slot = id_map_get(&s->slot_of, q->seq_id);
    const int32_t *table = s->tables + (size_t)slot * (size_t)s->max_blocks;
    int32_t len = s->cfg.block_len;
    for (int32_t k = 0; k < (int32_t)q->n_tokens; k++, row++) {
        int32_t pos = (int32_t)q->pos + k, token = p->tokens[q->token_off + (uint32_t)k];
        bool fed = token == TOKEN_OF_LAST_STEP;
        s->feeds = s->feeds || fed;
        if (s->cfg.n_types) {
            s->host[s->at_type + (size_t)row] = token / s->cfg.vocab;
            token %= s->cfg.vocab;
        }
        s->host[s->at_token + (size_t)row] = fed ? 0 : token;
        s->host[s->at_from + (size_t)row] = fed ? s->fed[slot].row : -1;
        s->host[s->at_pos + (size_t)row] = pos;
        s->host[s->at_slot + (size_t)row] = table[pos / len] * len + pos % len;
        s->host[s->at_seq + (size_t)row] = i;
    }
}

/* Row of logits s->n_out is of that slot's sequence. */
static void place_out(struct step *s, int32_t slot, int32_t token_row)
{
    const struct step_seq *seq = &s->seqs[slot];
    const struct sample_params *sp = &seq->sp;
    size_t row = (size_t)s->n_out;
    float inv_temp = draw_inv_temperature(sp->temperature);
    struct draw_row how = {.rule = {sp->temperature, sp->top_p, sp->min_p, sp->top_k},
                           .seed_lo = (uint32_t)sp->seed,
                           .seed_hi = (uint32_t)(sp->seed >> 32),
                           .position = (uint32_t)seq->len,
                           .on_device = sample_on_device(sp)};
    static_assert(sizeof how == DRAW_ROW_WORDS * sizeof(int32_t), "uploaded as words");
    s->host[s->at_out_row + row] = token_row;
    memcpy(s->host + s->at_inv_temp + row, &inv_temp, sizeof inv_temp);
    memcpy(s->host + s->at_draw + row * DRAW_ROW_WORDS, &how, sizeof how);
    s->fed[slot] = (struct fed){.serial = s->serial, .row = s->n_out};
    s->out_slot[s->n_out++] = slot;
}

/* The rows of the step that q's embedding needs, from row on. */
static void place_embed(struct step *s, const struct plan_seq *q, const struct sample_params *sp,
                        int32_t slot, int32_t row)
{
    bool ends = q->want == WANT_EMBEDDING, last = sp->embed == EMBED_LAST;
    int32_t skip = last ? (int32_t)q->n_tokens - 1 : 0;
    if (!sp->embed || (last && !ends))
        return;
    s->embeds[s->n_embeds++] = (struct step_embed){.seq_id = q->seq_id,
                                                   .slot = slot,
                                                   .row = row + skip,
                                                   .n = (int32_t)q->n_tokens - skip,
                                                   .pos = (int32_t)q->pos + skip,
                                                   .ends = ends};
}

/* Snapshots are behind the rows of sequences and of pads. */
static void place_snapshots(struct step *s, const struct plan_seq *q, int32_t slot)
{
    int32_t first = s->cfg.max_open + s->cfg.pad - 1; /* a plan counts from 1 */
    if (q->restore)
        s->restores[s->n_restores++] = (struct step_copy){first + (int32_t)q->restore, slot};
    if (q->keep)
        s->keeps[s->n_keeps++] = (struct step_copy){slot, first + (int32_t)q->keep};
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
    if (seq->n_blocks > s->width)
        s->width = seq->n_blocks;
    seq->serial = s->serial;
    place_tokens(s, p, i, row);
    s->host[s->at_kv_len + (size_t)i] = seq->len;
    s->host[s->at_state + (size_t)i] = slot;
    memcpy(s->host + s->at_table + (size_t)i * (size_t)s->max_blocks, table,
           (size_t)seq->n_blocks * sizeof *table);
    if (q->want == WANT_LAST)
        place_out(s, slot, row + (int32_t)q->n_tokens - 1);
    place_embed(s, q, &seq->sp, slot, row);
    place_snapshots(s, q, slot);
}

/* The scored rows of plan sequence i, behind all rows of logits so far: no edits, temperature 1, and
 * no token is drawn. */
static void place_scored(struct step *s, const struct step_plan *p, int32_t i)
{
    const struct plan_seq *q = &p->seqs[i];
    const float inv_temp = 1.0f;
    int32_t end =
        s->host[s->at_q_start + (size_t)i] + (int32_t)q->n_tokens - (q->want == WANT_LAST);
    const struct step_seq *seq = &s->seqs[id_map_get(&s->slot_of, q->seq_id)];
    for (uint32_t k = 0; k < q->n_score; k++) {
        size_t row = (size_t)(s->n_out + s->n_scored);
        s->host[s->at_out_row + row] = end - (int32_t)q->n_score + (int32_t)k;
        memcpy(s->host + s->at_inv_temp + row, &inv_temp, sizeof inv_temp);
        memset(s->host + s->at_draw + row * DRAW_ROW_WORDS, 0, DRAW_ROW_WORDS * sizeof(int32_t));
        s->scored[s->n_scored++] =
            (struct step_scored){q->seq_id, p->scores[q->score_off + k], seq->sp.prompt_top};
    }
}

static struct view words_in(struct buf *buf, size_t at, int32_t rows, int32_t cols)
{
    return (struct view){.buf = buf,
                         .off = at * sizeof(int32_t),
                         .rows = rows,
                         .cols = cols,
                         .stride = cols,
                         .dtype = DT_I32};
}

static struct view words(const struct step *s, size_t at, int32_t rows, int32_t cols)
{
    return words_in(s->dev, at, rows, cols);
}

struct step_draws step_draws(const struct step *s, int32_t n_rows)
{
    struct step_draws d = {.inv_temp = words(s, s->at_inv_temp, n_rows, 1),
                           .row = words(s, s->at_draw, n_rows, DRAW_ROW_WORDS),
                           .edit_start = words(s, s->at_edit_start, n_rows + 1, 1),
                           .edit_words = words(s, 0, 1, (int32_t)s->n_words)};
    d.inv_temp.dtype = DT_F32;
    return d;
}

bool step_feeds(const struct step *s)
{
    return s->feeds;
}

/* ---- batches of a graph ---- */

int32_t step_batch(int32_t n, int32_t most)
{
    int32_t b = 1;
    while (b < n && b < 16)
        b *= 2;
    while (b < n) /* b is a power of two, or 3/4 of one */
        b += (b & (b - 1)) == 0 ? b / 2 : b / 3;
    return b < most ? b : most;
}

/* Rows of no sequence, [from, to): each a token at position 0 of the pad block. */
static void place_pads(struct step *s, int32_t from, int32_t to)
{
    const float unwanted = -1.0f;
    for (int32_t i = from; i < to; i++) {
        size_t row = (size_t)i;
        s->host[s->at_token + row] = 0;
        s->host[s->at_from + row] = -1;
        s->host[s->at_pos + row] = 0;
        s->host[s->at_slot + row] = s->cfg.n_blocks * s->cfg.block_len;
        s->host[s->at_seq + row] = i;
        s->host[s->at_q_start + row] = i;
        s->host[s->at_kv_len + row] = 1;
        s->host[s->at_state + row] = s->cfg.max_open;
        s->host[s->at_out_row + row] = i;
        s->host[s->at_table + row * (size_t)s->max_blocks] = s->cfg.n_blocks;
        memcpy(s->host + s->at_inv_temp + row, &unwanted, sizeof unwanted);
        memset(s->host + s->at_draw + row * DRAW_ROW_WORDS, 0, DRAW_ROW_WORDS * sizeof(int32_t));
    }
    s->host[s->at_q_start + (size_t)to] = to;
}

/* Does each sequence compute one token and sample? */
static bool only_decodes(const struct step_plan *p)
{
    for (uint32_t i = 0; i < p->n_seqs; i++)
        if (p->seqs[i].n_tokens != 1 || p->seqs[i].want != WANT_LAST || p->seqs[i].n_score)
            return false;
    return p->n_seqs > 0;
}

/* ---- a step ---- */

static void begin(struct step *s)
{
    s->n_out = 0;
    s->n_scored = 0;
    s->n_embeds = 0;
    s->n_restores = s->n_keeps = 0;
    s->width = 1; /* of pads */
    s->feeds = false;
    s->padded = false;
    s->i_image ^= 1;
    s->host = backend_ops_of(s->be)->pinned_ptr(s->be, s->image[s->i_image]);
}

/* Fills the views of `shape`, which has all numbers but theirs. */
static void set_views(struct step *s, const struct step_dev *shape, int32_t n_out,
                      struct step_dev *dev)
{
    int32_t T = shape->n_tokens, n_seqs = shape->n_seqs;
    *dev = *shape;
    dev->block_len = s->cfg.block_len;
    dev->token = words(s, s->at_token, T, 1);
    dev->type = s->cfg.n_types ? words(s, s->at_type, T, 1) : (struct view){0};
    dev->from = words(s, s->at_from, T, 1);
    dev->pos = words(s, s->at_pos, T, 1);
    dev->slot = words(s, s->at_slot, T, 1);
    dev->seq = words(s, s->at_seq, T, 1);
    dev->q_start = words(s, s->at_q_start, n_seqs + 1, 1);
    dev->kv_len = words(s, s->at_kv_len, n_seqs, 1);
    dev->state = words(s, s->at_state, n_seqs, 1);
    dev->block_table = words(s, s->at_table, n_seqs, s->max_blocks);
    dev->out_row = words(s, s->at_out_row, n_out, 1);
    s->n_rows = n_out;
    for (int32_t r = 0; r <= n_out; r++) /* no edits */
        s->host[s->at_edit_start + (size_t)r] = (int32_t)s->at_edit;
    s->n_seqs = n_seqs;
}

struct step_edits step_edits(const struct step *s)
{
    int32_t *start = s->host + s->at_edit_start;
    return (struct step_edits){.n_rows = s->n_rows, .start = start, .words = s->host + start[0]};
}

/* The block table's columns in use. */
static struct view table_in(const struct step *s, struct buf *buf)
{
    return view_columns(words_in(buf, s->at_table, s->n_seqs, s->max_blocks), 0, s->width);
}

/* The table has the stride of --max-ctx, because graphs have fixed addresses: its columns in use are a
 * copy of their own.  On the device all is moved at once. */
enum status step_upload(struct step *s)
{
    const struct backend_ops *ops = backend_ops_of(s->be);
    int32_t used = step_edits(s).start[s->n_rows];
    int32_t all = (int32_t)(s->at_table + (size_t)s->n_seqs * (size_t)s->max_blocks);
    struct buf *image = s->image[s->i_image], *landed = s->landed[s->i_image];
    if (!s->cfg.land) {
        TRY(ops->copy(s->be, words(s, 0, 1, used), words_in(image, 0, 1, used)));
        return ops->copy(s->be, table_in(s, s->dev), table_in(s, image));
    }
    TRY(ops->upload(s->be, words_in(landed, 0, 1, used), words_in(image, 0, 1, used)));
    TRY(ops->upload(s->be, table_in(s, landed), table_in(s, image)));
    return ops->copy(s->be, words(s, 0, 1, all), words_in(landed, 0, 1, all));
}

/* The step of rows [n, batch) of padding behind n decodes. */
static void set_batch(struct step *s, int32_t n, int32_t batch, struct step_dev *dev)
{
    const struct step_dev shape = {
        .n_tokens = batch, .n_seqs = batch, .max_q = 1, .max_kv = s->cfg.max_ctx};
    place_pads(s, n, batch);
    s->padded = true;
    set_views(s, &shape, batch, dev);
}

enum status step_apply(struct step *s, const struct step_plan *plan, struct step_dev *dev)
{
    TRY(step_check(s, plan));
    struct step_dev shape = {.n_seqs = (int32_t)plan->n_seqs};
    begin(s);
    close_and_open(s, plan);
    for (int32_t i = 0; i < shape.n_seqs; i++) {
        int32_t n = (int32_t)plan->seqs[i].n_tokens, kv = (int32_t)plan->seqs[i].pos + n;
        s->host[s->at_q_start + (size_t)i] = shape.n_tokens;
        place_seq(s, plan, i, shape.n_tokens);
        shape.n_tokens += n;
        shape.max_q = n > shape.max_q ? n : shape.max_q;
        shape.max_kv = kv > shape.max_kv ? kv : shape.max_kv;
    }
    s->host[s->at_q_start + (size_t)shape.n_seqs] = shape.n_tokens;
    for (int32_t i = 0; i < shape.n_seqs; i++)
        place_scored(s, plan, i);
    if (s->cfg.pad && only_decodes(plan))
        set_batch(s, shape.n_seqs, step_batch(shape.n_seqs, most_decodes(&s->cfg)), dev);
    else
        set_views(s, &shape, s->n_out + s->n_scored, dev);
    return ST_OK;
}

enum status step_pads(struct step *s, int32_t batch, struct step_dev *dev)
{
    assert(s->cfg.pad && batch >= 1 && batch <= most_decodes(&s->cfg));
    begin(s);
    set_batch(s, 0, batch, dev);
    return step_upload(s);
}

bool step_padded(const struct step *s)
{
    return s->padded;
}
