/* sched_commit: takes the result of the oldest step in flight, learns its time, appends its tokens, makes full blocks
 * known to the prefix cache and ends sequences.  Called by the loop through sched.h. */
#include "coordinator/sched/internal.h"

/* The scored tokens are those of the prompts. */
static enum status check_scores(const struct sched *s, const struct step_result *r)
{
    const struct flight *f = &s->flights[0];
    const struct result_token *t = r->tokens + f->n_want - f->n_embed;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct flight_seq *fs = &f->seqs[k];
        const struct seq *q = fs->slot < 0 ? NULL : &s->seqs[fs->slot];
        for (uint32_t i = 0; i < fs->n_score; i++, t++)
            if (t->seq_id != fs->seq_id || t->token < TOKEN_NOT_FINITE ||
                (q && t->token != TOKEN_NOT_FINITE && t->token != q->req.tokens[q->scored + 1 + i]))
                FAIL(ST_PEER,
                     "step %llu: the score of token %d of sequence %llu came for another one",
                     (unsigned long long)r->step_id, t->token, (unsigned long long)t->seq_id);
    }
    return ST_OK;
}

/* The forced tokens follow on drawn ones of sequences with grammars, in the same order. */
static enum status check_forced(const struct sched *s, const struct step_result *r)
{
    const struct flight *f = &s->flights[0];
    uint32_t at = f->n_want - f->n_embed + f->n_score, j = 0;
    for (uint32_t k = 0; k < f->n && at < r->n; k++) {
        const struct flight_seq *fs = &f->seqs[k];
        if (!fs->want || fs->embed)
            continue;
        bool may = r->tokens[j++].token >= 0 && (fs->slot < 0 || s->seqs[fs->slot].req.grammar);
        while (may && at < r->n && r->tokens[at].seq_id == fs->seq_id && r->tokens[at].token >= 0)
            at++;
    }
    if (at < r->n)
        FAIL(ST_PEER, "step %llu: forced token %d of sequence %llu came, which cannot be",
             (unsigned long long)r->step_id, r->tokens[at].token,
             (unsigned long long)r->tokens[at].seq_id);
    return ST_OK;
}

static enum status check_embeddings(const struct flight *f, const struct step_result *r)
{
    for (uint32_t k = 0, j = 0; k < f->n; k++)
        if (f->seqs[k].embed && r->embeddings[j++].seq_id != f->seqs[k].seq_id)
            FAIL(ST_PEER, "step %llu: the embedding of sequence %llu came, %llu was asked for",
                 (unsigned long long)r->step_id, (unsigned long long)r->embeddings[j - 1].seq_id,
                 (unsigned long long)f->seqs[k].seq_id);
    return ST_OK;
}

static enum status check_result(const struct sched *s, const struct step_result *r)
{
    if (s->n_flights == 0)
        FAIL(ST_PEER, "a result of step %llu, but no step is in flight",
             (unsigned long long)r->step_id);
    const struct flight *f = &s->flights[0];
    if (r->epoch != s->epoch || r->step_id != f->step_id)
        FAIL(ST_PEER, "a result of step %llu epoch %llu, step %llu epoch %llu is in flight",
             (unsigned long long)r->step_id, (unsigned long long)r->epoch,
             (unsigned long long)f->step_id, (unsigned long long)s->epoch);
    uint32_t n = f->n_want - f->n_embed + f->n_score;
    if (r->n < n || r->n > n + MAX_FORCED_TOKENS || r->n_embeddings != f->n_embed)
        FAIL(ST_PEER, "step %llu: %u tokens and %u embeddings came, %u and %u were asked for",
             (unsigned long long)r->step_id, r->n, r->n_embeddings, n, f->n_embed);
    TRY(check_forced(s, r));
    TRY(check_scores(s, r));
    TRY(check_embeddings(f, r));
    for (uint32_t k = 0, j = 0; k < f->n; k++) {
        if (!f->seqs[k].want || f->seqs[k].embed)
            continue;
        const struct result_token *t = &r->tokens[j++];
        int32_t slot = f->seqs[k].slot; /* -1: it has ended meanwhile */
        bool grammar = slot < 0 || s->seqs[slot].req.grammar;
        if (t->seq_id != f->seqs[k].seq_id ||
            t->token < (grammar ? TOKEN_GRAMMAR_STUCK : TOKEN_NOT_FINITE))
            FAIL(ST_PEER, "step %llu: token %d of sequence %llu came, sequence %llu was asked for",
                 (unsigned long long)r->step_id, t->token, (unsigned long long)t->seq_id,
                 (unsigned long long)f->seqs[k].seq_id);
    }
    return ST_OK;
}

/* What has been computed can be found by others from now on. */
static void publish_blocks(struct sched *s, struct seq *q)
{
    uint32_t bl = s->cfg.block_len;
    if (!seq_shares(s, q))
        return;
    for (; (q->n_hashed + 1) * (uint64_t)bl <= q->done; q->n_hashed++) {
        struct prefix_key key = seq_key(s, q);
        q->chain = prefix_add(&s->pool, q->table[q->n_hashed], &key,
                              q->req.tokens + (size_t)q->n_hashed * bl);
    }
}

/* The known block of q's block k, which is published: its own, or an equal older one. */
static int32_t known_block(const struct sched *s, const struct seq *q, uint32_t k)
{
    uint32_t bl = s->cfg.block_len;
    struct seq at = *q; /* for its chain */
    int32_t b = q->table[k];
    at.chain = 0;
    for (uint32_t i = 0; s->pool.blocks[b].prefix_id == 0 && i <= k; i++) {
        struct prefix_key key = seq_key(s, &at);
        int32_t found = prefix_find(&s->pool, &key, q->req.tokens + (size_t)i * bl);
        if (found < 0)
            return -1;
        at.chain = s->pool.blocks[found].prefix_id;
        if (i == k)
            return found;
    }
    return b;
}

/* The step has written the snapshot of its last state; q: NULL, the state is of no use. */
static void take_snapshot(struct sched *s, struct seq *q, const struct flight_seq *fs)
{
    struct snapshot_pool *p = &s->pool.snapshots;
    int32_t row = (int32_t)fs->keep - 1;
    int32_t b = q ? known_block(s, q, q->done / s->cfg.block_len - 1) : -1;
    if (b < 0) {
        snapshot_free(p, row);
        return;
    }
    row = snapshot_know(p, row, b, fs->rolling ? q->req.seq_id : 0);
    if (!fs->rolling)
        return;
    int32_t old = (int32_t)q->rolling - 1;
    if (old >= 0 && old != row && p->rows[old].block >= 0 && p->rows[old].seq_id == q->req.seq_id)
        snapshot_free(p, old);
    q->rolling = (uint32_t)row + 1;
}

/* The token of the sequence's next step in flight is known before that step ends. */
static void mark_known(struct sched *s, int32_t slot)
{
    const struct flight *f = &s->flights[1];
    for (uint32_t k = 0; k < f->n; k++)
        if (f->seqs[k].slot == slot && f->seqs[k].want)
            f->seqs[k].known = true;
    s->seqs[slot].ahead--;
}

static bool is_stop_id(const struct seq *q, int32_t token)
{
    for (uint32_t i = 0; i < q->req.n_stop_ids; i++)
        if (q->req.stop_ids[i] == token)
            return true;
    return false;
}

static void take_token(struct sched *s, int32_t slot, int32_t token, uint32_t i_result,
                       struct fx_list *out)
{
    struct seq *q = &s->seqs[slot];
    uint64_t id = q->req.seq_id;
    if (token < 0) {
        enum finish_reason reason = token == TOKEN_GRAMMAR_COMPLETE ? FINISH_GRAMMAR_COMPLETE
                                    : token == TOKEN_GRAMMAR_STUCK  ? FINISH_GRAMMAR_STUCK
                                                                    : FINISH_NOT_FINITE;
        fx_push(out, (struct sched_effect){.kind = FX_FINISHED, .seq_id = id, .reason = reason});
        seq_drop(s, slot);
        return;
    }
    q->req.tokens[q->n_known++] = token;
    if (q->state == SEQ_WAITING)
        s->waiting_tokens++;
    fx_push(out, (struct sched_effect){
                     .kind = FX_TOKEN, .seq_id = id, .token = token, .i_result = i_result});

    enum finish_reason why = FINISH_NONE;
    if (is_stop_id(q, token))
        why = FINISH_STOP_ID;
    else if (q->n_known == q->n_end)
        why = FINISH_LENGTH;
    if (why == FINISH_NONE)
        return;
    fx_push(out, (struct sched_effect){.kind = FX_FINISHED, .seq_id = id, .reason = why});
    seq_drop(s, slot);
}

/* The token that the sequence drew, and those that are forced behind it, from entry *i_forced on.  One that a later step
 * in flight draws is not ahead any more. */
static void take_tokens(struct sched *s, int32_t slot, const struct step_result *r,
                        uint32_t i_drawn, uint32_t *i_forced, struct fx_list *out)
{
    uint64_t id = s->seqs[slot].req.seq_id;
    s->seqs[slot].ahead--;
    take_token(s, slot, r->tokens[i_drawn].token, i_drawn, out);
    for (; *i_forced < r->n && r->tokens[*i_forced].seq_id == id; ++*i_forced) {
        if (s->seqs[slot].req.seq_id != id)
            continue; /* it has ended */
        if (s->seqs[slot].ahead > 0)
            mark_known(s, slot);
        take_token(s, slot, r->tokens[*i_forced].token, *i_forced, out);
    }
}

/* Entry i_result of the embeddings ends the sequence. */
static void take_embedding(struct sched *s, int32_t slot, const struct step_result *r,
                           uint32_t i_result, struct fx_list *out)
{
    uint64_t id = s->seqs[slot].req.seq_id;
    bool finite = r->embeddings[i_result].digest != 0;
    if (finite)
        fx_push(out,
                (struct sched_effect){.kind = FX_EMBEDDED, .seq_id = id, .i_result = i_result});
    fx_push(out, (struct sched_effect){.kind = FX_FINISHED,
                                       .seq_id = id,
                                       .reason = finite ? FINISH_EMBEDDED : FINISH_NOT_FINITE});
    seq_drop(s, slot);
}

/* Those behind a token of no use. */
static void skip_forced(const struct step_result *r, uint64_t seq_id, uint32_t *i_forced)
{
    while (*i_forced < r->n && r->tokens[*i_forced].seq_id == seq_id)
        ++*i_forced;
}

/* The scores of sequence k of the step, from entry i_result on. */
static void take_scores(struct sched *s, const struct flight_seq *fs, const struct step_result *r,
                        uint32_t i_result, struct fx_list *out)
{
    struct seq *q = fs->slot < 0 ? NULL : &s->seqs[fs->slot];
    for (uint32_t i = i_result; q && i < i_result + fs->n_score; i++) {
        uint64_t id = q->req.seq_id;
        int32_t token = r->tokens[i].token;
        if (token < 0) {
            fx_push(out, (struct sched_effect){
                             .kind = FX_FINISHED, .seq_id = id, .reason = FINISH_NOT_FINITE});
            seq_drop(s, fs->slot);
            return;
        }
        fx_push(
            out,
            (struct sched_effect){
                .kind = FX_SCORED, .seq_id = id, .token = token, .i_result = i, .n = ++q->scored});
    }
}

enum status sched_commit(struct sched *s, const struct step_result *r, struct sched_effect *fx,
                         size_t fx_cap, size_t *n_fx)
{
    struct fx_list out = {.fx = fx, .cap = fx_cap};
    *n_fx = 0;
    TRY(check_result(s, r));

    struct flight *f = &s->flights[0];
    s->facts.fresh = false;
    if (timed(s))
        cost_learn(&s->cost, &f->load, r->compute_us + r->comm_us);
    for (uint32_t k = 0, j = f->n_want - f->n_embed; k < f->n; j += f->seqs[k++].n_score)
        take_scores(s, &f->seqs[k], r, j, &out);
    uint32_t i_forced = f->n_want - f->n_embed + f->n_score;
    for (uint32_t k = 0, j = 0, i_embedding = 0; k < f->n; k++) {
        struct flight_seq *fs = &f->seqs[k];
        int32_t slot = fs->slot;
        bool token = fs->want && !fs->embed;
        bool broken = token ? !fs->known && r->tokens[j].token < 0
                            : fs->embed && r->embeddings[i_embedding].digest == 0;
        bool computed = slot >= 0 && !fs->kv_lost && !broken;
        if (computed) {
            s->seqs[slot].done += fs->n_tokens;
            publish_blocks(s, &s->seqs[slot]);
        }
        if (fs->keep)
            take_snapshot(s, computed ? &s->seqs[slot] : NULL, fs);
        if (slot >= 0 && token && !fs->known)
            take_tokens(s, slot, r, j, &i_forced, &out);
        else if (token)
            skip_forced(r, fs->seq_id, &i_forced);
        else if (slot >= 0 && fs->embed)
            take_embedding(s, slot, r, i_embedding, &out);
        j += token;
        i_embedding += fs->embed;
    }
    struct flight first = s->flights[0];
    s->flights[0] = s->flights[1];
    s->flights[1] = first; /* its array is used again */
    s->n_flights--;
    *n_fx = out.n;
    return ST_OK;
}
