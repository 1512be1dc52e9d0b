/* step_check: validates a whole step plan before any of it is carried out.  Called by
 * step_apply. */
#include <math.h>

#include "worker/step/internal.h"

#define ULL(x) ((unsigned long long)(x))

/* off and n lie in an array of total */
static enum status check_span(const char *what, uint64_t seq_id, uint32_t off, uint32_t n,
                              uint32_t total)
{
    if (off > total || n > total - off)
        FAIL(ST_PEER, "sequence %llu: %s [%u, %u + %u) of %u", ULL(seq_id), what, off, off, n,
             total);
    return ST_OK;
}

static enum status check_id(const struct step *s, uint64_t seq_id, const char *what, int32_t id)
{
    int32_t n_types = s->cfg.n_types ? s->cfg.n_types : 1;
    if (id < 0 || id >= s->cfg.vocab * n_types)
        FAIL(ST_PEER, "sequence %llu: %s id %d is outside the vocabulary of %d with %d types",
             ULL(seq_id), what, id, s->cfg.vocab, n_types);
    return ST_OK;
}

/* A token that the step before this one sampled on the device. */
static enum status check_fed(const struct step *s, const struct plan_seq *q, int32_t slot)
{
    if (slot < 0 || s->fed[slot].serial != s->serial - 1)
        FAIL(ST_PEER, "sequence %llu: a token of the last step, which did not sample it",
             ULL(q->seq_id));
    if (!sample_on_device(&s->seqs[slot].sp))
        FAIL(ST_PEER, "sequence %llu: a token of the last step, but the host draws its tokens",
             ULL(q->seq_id));
    if (q->n_tokens != 1)
        FAIL(ST_PEER, "sequence %llu: a token of the last step among %u", ULL(q->seq_id),
             q->n_tokens);
    return ST_OK;
}

static enum status check_closes(struct step *s, const struct step_plan *p)
{
    if (p->n_closes > (uint32_t)s->cfg.max_open)
        FAIL(ST_PEER, "%u sequences are closed, at most %d are open", p->n_closes, s->cfg.max_open);
    for (uint32_t i = 0; i < p->n_closes; i++) {
        int32_t slot = id_map_get(&s->slot_of, p->closes[i]);
        if (slot < 0)
            FAIL(ST_PEER, "sequence %llu is closed and was not open", ULL(p->closes[i]));
        if (s->close_serial[slot] == s->serial)
            FAIL(ST_PEER, "sequence %llu is closed twice", ULL(p->closes[i]));
        s->close_serial[slot] = s->serial;
    }
    return ST_OK;
}

/* Slot of a sequence that stays open, or -1. */
static int32_t staying(const struct step *s, uint64_t seq_id)
{
    int32_t slot = id_map_get(&s->slot_of, seq_id);
    return slot >= 0 && s->close_serial[slot] != s->serial ? slot : -1;
}

static enum status check_open(const struct step *s, const struct step_plan *p,
                              const struct plan_open *o)
{
    if (sample_params_check(&o->sp, NULL) != ST_OK) {
        char why[256];
        int n = 0;
        for (const char *t = status_text(); *t && n < 255; t++)
            why[n++] = *t;
        why[n] = 0;
        FAIL(ST_PEER, "sequence %llu: %s", ULL(o->seq_id), why);
    }
    if (o->n_prompt < 1 || o->n_prompt > (uint32_t)s->cfg.max_ctx)
        FAIL(ST_PEER, "sequence %llu: a prompt of %u tokens, the context is %d", ULL(o->seq_id),
             o->n_prompt, s->cfg.max_ctx);
    TRY(check_span("history", o->seq_id, o->history_off, o->n_history, p->n_history));
    TRY(check_span("stop ids", o->seq_id, o->stop_off, o->n_stop_ids, p->n_stop_ids));
    TRY(check_span("biases", o->seq_id, o->bias_off, o->n_bias, p->n_bias));
    if (o->n_stop_ids > MAX_STOP_IDS || o->n_bias > MAX_LOGIT_BIAS)
        FAIL(ST_PEER, "sequence %llu: %u stop ids and %u biases, at most %d and %d", ULL(o->seq_id),
             o->n_stop_ids, o->n_bias, MAX_STOP_IDS, MAX_LOGIT_BIAS);
    for (uint32_t i = 0; i < o->n_history; i++)
        TRY(check_id(s, o->seq_id, "history", p->history[o->history_off + i]));
    for (uint32_t i = 0; i < o->n_stop_ids; i++)
        TRY(check_id(s, o->seq_id, "stop", p->stop_ids[o->stop_off + i]));
    for (uint32_t i = 0; i < o->n_bias; i++) {
        const struct logit_bias *b = &p->bias[o->bias_off + i];
        TRY(check_id(s, o->seq_id, "bias", b->id));
        if (!(fabsf(b->bias) <= 100.0f))
            FAIL(ST_PEER, "sequence %llu: bias %g of id %d is outside [-100, 100]", ULL(o->seq_id),
                 (double)b->bias, b->id);
    }
    return ST_OK;
}

static enum status check_opens(struct step *s, const struct step_plan *p)
{
    uint32_t room = (uint32_t)s->n_free + p->n_closes;
    if (p->n_opens > room)
        FAIL(ST_PEER, "%u sequences are opened, there is room for %u of %d", p->n_opens, room,
             s->cfg.max_open);
    for (uint32_t i = 0; i < p->n_opens; i++) {
        const struct plan_open *o = &p->opens[i];
        if (o->seq_id == 0)
            FAIL(ST_PEER, "a sequence with id 0 is opened");
        if (staying(s, o->seq_id) >= 0)
            FAIL(ST_PEER, "sequence %llu is opened and was open", ULL(o->seq_id));
        if (id_map_get(&s->fresh, o->seq_id) >= 0)
            FAIL(ST_PEER, "sequence %llu is opened twice", ULL(o->seq_id));
        id_map_put(&s->fresh, o->seq_id, (int32_t)i);
        TRY(check_open(s, p, o));
    }
    return ST_OK;
}

/* A fresh sequence may begin anywhere: what lies before is in blocks that it shares. */
static enum status check_fresh(struct step *s, const struct step_plan *p, const struct plan_seq *q,
                               int32_t i_open, bool *twice)
{
    const struct plan_open *o = &p->opens[i_open];
    bool needs = plan_open_needs_history(o);
    *twice = s->fresh_serial[i_open] == s->serial;
    s->fresh_serial[i_open] = s->serial;
    if (sample_whole(&o->sp) && (q->want != WANT_EMBEDDING || q->pos + q->n_tokens != o->n_prompt))
        FAIL(ST_PEER, "sequence %llu: %u of its %u tokens are in the step, it needs all at once",
             ULL(q->seq_id), q->n_tokens, o->n_prompt);
    if ((o->sp.embed == EMBED_ALL || sample_whole(&o->sp)) && q->pos > 0)
        FAIL(ST_PEER, "sequence %llu: its embedding needs all tokens, position %u is its first",
             ULL(q->seq_id), q->pos);
    if (s->cfg.states && q->pos > 0 && !q->restore)
        FAIL(ST_PEER,
             "sequence %llu: its states begin with its first token or a snapshot, position %u is "
             "its first",
             ULL(q->seq_id), q->pos);
    if (q->restore > (uint32_t)s->cfg.n_snapshots || (q->restore && q->pos == 0))
        FAIL(ST_PEER, "sequence %llu: position %u is its first, with snapshot %u of %d",
             ULL(q->seq_id), q->pos, q->restore, s->cfg.n_snapshots);
    if (needs && o->n_history != q->pos)
        FAIL(ST_PEER, "sequence %llu: a history of %u tokens at position %u", ULL(q->seq_id),
             o->n_history, q->pos);
    return ST_OK;
}

/* What is kept goes to a row of its own. */
static enum status check_keep(struct step *s, const struct plan_seq *q)
{
    if (q->keep > (uint32_t)s->cfg.n_snapshots)
        FAIL(ST_PEER, "sequence %llu: its state goes to snapshot %u of %d", ULL(q->seq_id), q->keep,
             s->cfg.n_snapshots);
    if (q->keep && s->keep_serial[q->keep - 1] == s->serial)
        FAIL(ST_PEER, "sequence %llu: snapshot %u is written twice", ULL(q->seq_id), q->keep);
    if (q->keep)
        s->keep_serial[q->keep - 1] = s->serial;
    return ST_OK;
}

static enum status check_known(struct step *s, const struct plan_seq *q, int32_t slot, bool *twice)
{
    struct step_seq *known = &s->seqs[slot];
    *twice = known->serial == s->serial;
    known->serial = s->serial;
    if (q->restore)
        FAIL(ST_PEER, "sequence %llu is open and begins with snapshot %u", ULL(q->seq_id),
             q->restore);
    if (q->pos != (uint32_t)known->len)
        FAIL(ST_PEER, "sequence %llu: position %u, it has %d tokens", ULL(q->seq_id), q->pos,
             known->len);
    return ST_OK;
}

static enum status check_scores(const struct step *s, const struct step_plan *p,
                                const struct plan_seq *q)
{
    uint32_t most = q->n_tokens - (q->want == WANT_LAST);
    TRY(check_span("scored tokens", q->seq_id, q->score_off, q->n_score, p->n_scores));
    if (q->n_score > most)
        FAIL(ST_PEER, "sequence %llu: %u scored rows of %u", ULL(q->seq_id), q->n_score, most);
    for (uint32_t i = 0; i < q->n_score; i++)
        TRY(check_id(s, q->seq_id, "scored", p->scores[q->score_off + i]));
    return ST_OK;
}

/* sp NULL: the sequence is not known. */
static enum status check_want(const struct plan_seq *q, const struct sample_params *sp)
{
    if (sp && q->want != WANT_NONE && (q->want == WANT_EMBEDDING) != (sp->embed != EMBED_NONE))
        FAIL(ST_PEER, "sequence %llu: %s is wanted, it gives %s", ULL(q->seq_id),
             q->want == WANT_EMBEDDING ? "an embedding" : "a token",
             sp->embed ? "an embedding" : "tokens");
    return ST_OK;
}

static enum status check_seq(struct step *s, const struct step_plan *p, const struct plan_seq *q)
{
    int32_t fresh = id_map_get(&s->fresh, q->seq_id), slot = staying(s, q->seq_id);
    uint64_t len = (uint64_t)q->pos + q->n_tokens;
    bool twice = false;

    TRY(check_span("tokens", q->seq_id, q->token_off, q->n_tokens, p->n_tokens));
    TRY(check_span("blocks", q->seq_id, q->block_off, q->n_blocks, p->n_blocks));
    if (q->n_tokens == 0)
        FAIL(ST_PEER, "sequence %llu: no tokens", ULL(q->seq_id));
    TRY(check_scores(s, p, q));
    if (len > (uint64_t)s->cfg.max_ctx)
        FAIL(ST_PEER, "sequence %llu: position %llu is outside the context of %d", ULL(q->seq_id),
             ULL(len - 1), s->cfg.max_ctx);
    TRY(check_want(q, fresh >= 0 ? &p->opens[fresh].sp : slot >= 0 ? &s->seqs[slot].sp : NULL));
    if (fresh >= 0)
        TRY(check_fresh(s, p, q, fresh, &twice));
    else if (slot >= 0)
        TRY(check_known(s, q, slot, &twice));
    else
        FAIL(ST_PEER, "sequence %llu is not known", ULL(q->seq_id));
    TRY(check_keep(s, q));
    if (twice)
        FAIL(ST_PEER, "sequence %llu is twice in the step", ULL(q->seq_id));
    uint64_t n_blocks = q->n_blocks + (fresh >= 0 ? 0U : (uint64_t)s->seqs[slot].n_blocks);
    if (n_blocks > (uint64_t)s->max_blocks || n_blocks * (uint64_t)s->cfg.block_len < len)
        FAIL(ST_PEER, "sequence %llu: %llu blocks of %d for %llu tokens", ULL(q->seq_id),
             ULL(n_blocks), s->cfg.block_len, ULL(len));
    for (uint32_t i = 0; i < q->n_tokens; i++) {
        int32_t token = p->tokens[q->token_off + i];
        if (token == TOKEN_OF_LAST_STEP)
            TRY(check_fed(s, q, fresh >= 0 ? -1 : slot));
        else
            TRY(check_id(s, q->seq_id, "token", token));
    }
    for (uint32_t i = 0; i < q->n_blocks; i++) {
        int32_t b = p->blocks[q->block_off + i];
        if (b < 0 || b >= s->cfg.n_blocks)
            FAIL(ST_PEER, "sequence %llu: block %d of %d", ULL(q->seq_id), b, s->cfg.n_blocks);
    }
    return ST_OK;
}

static enum status check_seqs(struct step *s, const struct step_plan *p)
{
    uint64_t n_tokens = 0, n_scores = 0;
    if (p->n_seqs > (uint32_t)s->cfg.max_seqs || p->n_tokens > (uint32_t)s->cfg.max_tokens)
        FAIL(ST_PEER, "a step of %u sequences and %u tokens, at most %d and %d", p->n_seqs,
             p->n_tokens, s->cfg.max_seqs, s->cfg.max_tokens);
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        TRY(check_seq(s, p, &p->seqs[i]));
        n_tokens += p->seqs[i].n_tokens;
        n_scores += p->seqs[i].n_score;
    }
    if (n_scores != p->n_scores || n_scores > (uint64_t)s->cfg.max_scored)
        FAIL(ST_PEER, "a step of %u scored tokens, its sequences have %llu; at most %d are scored",
             p->n_scores, ULL(n_scores), s->cfg.max_scored);
    if (n_tokens != p->n_tokens)
        FAIL(ST_PEER, "a step of %u tokens, its sequences have %llu", p->n_tokens, ULL(n_tokens));
    return ST_OK;
}

enum status step_check(struct step *s, const struct step_plan *plan)
{
    s->serial++;
    id_map_clear(&s->fresh);
    TRY(check_closes(s, plan));
    TRY(check_opens(s, plan));
    return check_seqs(s, plan);
}
