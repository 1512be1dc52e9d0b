/* The masks of a step's rows: which tokens each sequence's grammar allows next, and which it forces behind them. */
#include <string.h>

#include "worker/sample/mask_parts.h"

enum status slot_feed(struct masks *m, struct slot *t, int32_t token)
{
    bool ok = true;
    const struct thinking_rule *rule = grammar_thinking(t->entry->grammar);
    if (token < 0 || token >= m->cfg.vocab)
        return ST_OK; /* a row that ended has no token */
    const uint8_t *bytes = m->trie->bytes + m->trie->off[token];
    uint32_t n = m->trie->off[token + 1] - m->trie->off[token];
    if (rule)
        thinking_token(rule, &t->thinking, token, bytes, n);
    if (!t->matcher)
        return ST_OK;
    TRY(matcher_consume(t->matcher, bytes, n, &ok));
    t->broken = t->broken || !ok;
    grammar_memory_used(&m->memory, &t->entry->share, t->entry->grammar);
    return ST_OK;
}

/* ---- one mask ---- */

/* Why a row allows no token. */
enum row_end { ROW_GOES_ON, ROW_COMPLETE, ROW_STUCK, ROW_DEAR };

static bool has_other(const uint32_t *mask, int32_t n_words)
{
    for (int32_t w = 0; w < n_words; w++)
        if (mask[w])
            return true;
    return false;
}

/* Takes the stop ids out, unless they are all that is possible. */
static void without_stops(const struct masks *m, const struct slot *t, uint32_t *mask)
{
    uint32_t had[MAX_STOP_IDS];
    for (int32_t i = 0; i < t->n_stop; i++) {
        had[i] = mask[t->stop[i] / 32] & 1U << (t->stop[i] % 32);
        mask[t->stop[i] / 32] &= ~had[i];
    }
    if (has_other(mask, m->n_words))
        return;
    for (int32_t i = 0; i < t->n_stop; i++)
        mask[t->stop[i] / 32] |= had[i];
}

/* Thinking must be closed: its token alone, if the row allows it. */
static void close_thinking(const struct masks *m, const struct slot *t, uint32_t *mask)
{
    const struct thinking_rule *rule = grammar_thinking(t->entry->grammar);
    int32_t id = rule ? thinking_forced(rule, &t->thinking) : -1;
    if (id < 0 || !(mask[id / 32] >> (id % 32) & 1))
        return;
    memset(mask, 0, (size_t)m->n_words * sizeof *mask);
    mask[id / 32] = 1U << (id % 32);
}

/* What the matcher and the end of the text allow. */
static enum status mask_text(struct masks *m, struct slot *t, uint32_t *mask, enum row_end *end)
{
    uint32_t n = 0;
    int32_t only;
    bool accepts = false, cached;
    memset(mask, 0, (size_t)m->n_words * sizeof *mask);
    if (!t->broken) {
        enum status st = matcher_mask(t->matcher, m->trie, mask, &n, &only, &cached);
        if (st == ST_RANGE) { /* no part of it is used */
            *end = ROW_DEAR;
            return ST_OK;
        }
        TRY(st);
        m->stats.masks++;
        m->stats.cached += cached;
        accepts = matcher_accepts(t->matcher);
        grammar_memory_used(&m->memory, &t->entry->share, t->entry->grammar);
    }
    for (uint32_t i = 0; accepts && i < m->n_end; i++)
        mask[m->end[i] / 32] |= 1U << (m->end[i] % 32);
    if (n == 0 && !(accepts && m->n_end))
        *end = accepts ? ROW_COMPLETE : ROW_STUCK;
    return ST_OK;
}

/* The tokens that may come at a place at which the text of a sequence is.  early: it has fewer than min_new tokens. */
static enum status make_mask(struct masks *m, struct slot *t, bool early, uint32_t *mask,
                             enum row_end *end)
{
    *end = ROW_GOES_ON;
    if (t->matcher)
        TRY(mask_text(m, t, mask, end));
    else
        memset(mask, 0xff, (size_t)m->n_words * sizeof *mask);
    if (*end == ROW_DEAR)
        return ST_OK;
    if (early)
        without_stops(m, t, mask);
    close_thinking(m, t, mask);
    return ST_OK;
}

/* ---- forced tokens ---- */

/* The only token of the mask, -1: there are more or none. */
static int32_t only_token(const struct masks *m, const uint32_t *mask)
{
    int32_t id = -1;
    for (int32_t w = 0; w < m->n_words; w++) {
        if (!mask[w])
            continue;
        if (id >= 0 || (mask[w] & (mask[w] - 1)))
            return -1;
        id = 32 * w + __builtin_ctz(mask[w]);
    }
    return id;
}

static bool is_end(const struct masks *m, int32_t id)
{
    for (uint32_t i = 0; i < m->n_end; i++)
        if (m->end[i] == id)
            return true;
    return false;
}

static bool is_early(const struct step_seq *seq, uint32_t n_ahead)
{
    return seq->len - seq->n_prompt + (int64_t)n_ahead < (int64_t)seq->sp.min_new;
}

/* Feeds the text with the row's only token and notes the next one if that is the only one too, and so on. */
static enum status note_forced(struct masks *m, const struct step_seq *seq, struct slot *t,
                               int32_t id, int32_t i_row)
{
    for (uint32_t n = 1; id >= 0 && !is_end(m, id) && m->n_forced < MAX_FORCED_TOKENS; n++) {
        enum row_end end;
        TRY(slot_feed(m, t, id));
        TRY(make_mask(m, t, is_early(seq, n), m->ahead_row, &end));
        id = end == ROW_GOES_ON ? only_token(m, m->ahead_row) : -1;
        if (id >= 0)
            m->forced[m->n_forced++] = (struct forced_token){i_row, id};
    }
    return ST_OK;
}

/* The tokens that are forced behind the row's; the sequence's text stays where it is. */
static enum status look_ahead(struct masks *m, const struct step_seq *seq, struct slot *t,
                              const uint32_t *mask, int32_t i_row)
{
    int32_t id = only_token(m, mask);
    if (id < 0)
        return ST_OK;
    struct thinking_state thinking = t->thinking;
    bool broken = t->broken;
    size_t n_bytes = t->matcher ? matcher_n_bytes(t->matcher) : 0;
    enum status st = note_forced(m, seq, t, id, i_row);
    if (t->matcher)
        matcher_rollback(t->matcher, matcher_n_bytes(t->matcher) - n_bytes);
    t->thinking = thinking;
    t->broken = broken;
    return st;
}

/* ---- the rows of a step ---- */

static enum status mask_row(struct masks *m, const struct step_seq *seq, struct slot *t,
                            uint32_t *mask, int32_t i_row)
{
    enum row_end end;
    TRY(make_mask(m, t, is_early(seq, 0), mask, &end));
    if (end == ROW_GOES_ON)
        return m->cfg.forced ? look_ahead(m, seq, t, mask, i_row) : ST_OK;
    m->endings[i_row] = end == ROW_COMPLETE ? TOKEN_GRAMMAR_COMPLETE : TOKEN_GRAMMAR_STUCK;
    m->places[i_row] = matcher_place(t->matcher);
    m->dear[i_row] = end == ROW_DEAR;
    return ST_OK;
}

enum status mask_rows(struct masks *m, const struct step *s)
{
    m->i_image ^= 1;
    m->rows = backend_ops_of(m->be)->pinned_ptr(m->be, m->image[m->i_image]);
    for (int32_t i = 0; i < step_edits(s).n_rows; i++) { /* with pads */
        uint32_t *mask = m->rows + (size_t)i * (size_t)m->n_words;
        struct slot *t = i < step_n_out(s) ? &m->slots[step_out_slot(s, i)] : NULL;
        m->endings[i] = 0;
        if (t && t->entry)
            TRY(mask_row(m, step_seq(s, step_out_slot(s, i)), t, mask, i));
        else
            memset(mask, 0xff, (size_t)m->n_words * sizeof *mask);
    }
    return ST_OK;
}
