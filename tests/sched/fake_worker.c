#include "sched/fake_worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

_Noreturn void require_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "%s:%d: %s is false: ", file, line, cond);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}

/* ---- the model ---- */

struct params { /* of one sequence, as opened */
    struct sample_params sp;
    uint32_t n_prompt, n_stop, n_bias;
    uint64_t grammar;
    int32_t stop[MAX_STOP_IDS];
    struct logit_bias bias[8];
};

static uint64_t attend(uint64_t acc, uint64_t kv)
{
    return hash_mix(acc * 3 + kv);
}

static uint64_t kv_entry(uint64_t acc, int32_t token, uint32_t pos)
{
    return hash_mix(acc ^ hash_mix((uint64_t)(uint32_t)token << 32 | pos));
}

static bool needs_tokens(const struct params *q)
{
    return q->grammar || q->sp.repetition_penalty != 1.0f || q->sp.presence_penalty != 0.0f ||
           q->sp.frequency_penalty != 0.0f;
}

/* A grammar forces some tokens by the one before, if that was drawn too. */
static bool is_forced(const struct params *q, const int32_t *tokens, uint32_t n)
{
    return q->grammar && n > q->n_prompt &&
           hash_mix(q->grammar ^ (uint64_t)tokens[n - 1] << 8) % 3 > 0;
}

/* acc: over the KV entries of all n tokens, unless the token is forced.  tokens: [n], read only where they are needed. */
static int32_t sample(uint64_t acc, const struct params *q, const int32_t *tokens, uint32_t n)
{
    bool forced = is_forced(q, tokens, n);
    uint64_t h = forced ? hash_mix(q->grammar + (uint64_t)tokens[n - 1])
                        : hash_mix(acc ^ hash_mix(q->sp.seed + n));
    if (!forced && needs_tokens(q)) {
        h = hash_bytes(h, tokens, n * sizeof *tokens);
        h = hash_mix(h ^ q->n_prompt);
    }
    for (uint32_t i = 0; i < q->n_bias; i++)
        h = hash_mix(h ^ (uint64_t)q->bias[i].id);
    int32_t token = (int32_t)(h % FAKE_VOCAB);
    if (q->sp.min_new > n - q->n_prompt)
        for (uint32_t i = 0; i < q->n_stop; i++)
            if (q->stop[i] == token) {
                token = (token + 1) % FAKE_VOCAB;
                i = UINT32_MAX; /* from the beginning */
            }
    return token;
}

static void set_params(struct params *q, const struct sample_params *sp, uint64_t grammar,
                       uint32_t n_prompt, const int32_t *stop, uint32_t n_stop,
                       const struct logit_bias *bias, uint32_t n_bias)
{
    REQUIRE(n_stop <= MAX_STOP_IDS && n_bias <= 8, "%u stop ids, %u biases", n_stop, n_bias);
    q->sp = *sp;
    q->grammar = grammar;
    q->n_prompt = n_prompt;
    q->n_stop = n_stop;
    q->n_bias = n_bias;
    if (n_stop)
        memcpy(q->stop, stop, n_stop * sizeof *stop);
    if (n_bias)
        memcpy(q->bias, bias, n_bias * sizeof *bias);
}

uint32_t fake_alone(const struct sched_req *r, uint32_t max_ctx, int32_t *out,
                    enum finish_reason *reason)
{
    struct params q;
    int32_t *all = malloc(((size_t)r->n_tokens + r->max_new) * sizeof *all);
    uint32_t n = 0, n_new = 0;
    uint64_t acc = 0;
    REQUIRE(all, "no memory");
    memcpy(all, r->tokens, r->n_tokens * sizeof *all);
    set_params(&q, &r->sp, r->grammar, r->n_prompt, r->stop_ids, r->n_stop_ids, r->bias, r->n_bias);
    *reason = FINISH_NONE;
    while (*reason == FINISH_NONE) {
        for (; n < r->n_tokens + n_new; n++)
            acc = attend(acc, kv_entry(acc, all[n], n));
        int32_t t = sample(acc, &q, all, n);
        all[n] = t;
        out[n_new++] = t;
        for (uint32_t i = 0; i < r->n_stop_ids; i++)
            if (r->stop_ids[i] == t)
                *reason = FINISH_STOP_ID;
        if (*reason == FINISH_NONE && (n_new == r->max_new || r->n_tokens + n_new == max_ctx))
            *reason = FINISH_LENGTH;
    }
    free(all);
    return n_new;
}

static uint64_t acc_of(const int32_t *tokens, uint32_t n)
{
    uint64_t acc = 0;
    for (uint32_t i = 0; i < n; i++)
        acc = attend(acc, kv_entry(acc, tokens[i], i));
    return acc;
}

uint64_t fake_embedding(const int32_t *tokens, uint32_t n)
{
    return acc_of(tokens, n) | 1;
}

uint32_t fake_score(const int32_t *tokens, uint32_t n)
{
    return (uint32_t)acc_of(tokens, n);
}

/* ---- the ranks ---- */

struct fake_seq {
    uint64_t id; /* 0 = empty place */
    struct params q;
    uint32_t pos, n_table;
    int32_t *table;  /* [max_ctx] */
    int32_t *tokens; /* [max_ctx], from n_history_from on; for penalties and grammars */
    uint32_t n_tokens_from;
    uint64_t last_sample_step;
    int32_t last_sample;
    uint64_t state; /* over the entries of all pos tokens */
};

struct fake_worker {
    struct sched_config cfg;
    uint32_t n_blocks;
    uint64_t epoch, last_step;
    uint64_t *kv;                           /* [n_blocks, block_len] */
    uint64_t *snapshots;                    /* [n_snapshots] states */
    struct fake_seq *seqs;                  /* [max_seqs] */
    struct result_token *results[3];        /* [max_seqs + MAX_SCORED_ROWS + MAX_FORCED_TOKENS] */
    struct result_embedding *embeddings[3]; /* [max_seqs] */
    uint64_t *accs; /* [max_step_tokens]: over the entries up to each row of a share */
    unsigned i_result;
};

struct fake_worker *fake_worker_create(const struct sched_config *cfg)
{
    struct fake_worker *w = calloc(1, sizeof *w);
    REQUIRE(w, "no memory");
    w->cfg = *cfg;
    w->n_blocks = cfg->n_blocks;
    w->epoch = 1;
    w->kv = calloc((size_t)cfg->n_blocks * cfg->block_len, sizeof *w->kv);
    w->seqs = calloc(cfg->max_seqs, sizeof *w->seqs);
    w->accs = calloc(cfg->max_step_tokens, sizeof *w->accs);
    w->snapshots = calloc((size_t)cfg->n_snapshots + 1, sizeof *w->snapshots);
    REQUIRE(w->kv && w->seqs && w->accs && w->snapshots, "no memory");
    for (uint32_t i = 0; i < cfg->max_seqs; i++) {
        w->seqs[i].table = calloc(cfg->max_ctx, sizeof(int32_t));
        w->seqs[i].tokens = calloc((size_t)cfg->max_ctx + 1, sizeof(int32_t));
        REQUIRE(w->seqs[i].table && w->seqs[i].tokens, "no memory");
    }
    for (int i = 0; i < 3; i++) {
        w->results[i] = calloc((size_t)cfg->max_seqs + MAX_SCORED_ROWS + MAX_FORCED_TOKENS,
                               sizeof(struct result_token));
        w->embeddings[i] = calloc(cfg->max_seqs, sizeof *w->embeddings[i]);
        REQUIRE(w->results[i] && w->embeddings[i], "no memory");
    }
    return w;
}

void fake_worker_destroy(struct fake_worker *w)
{
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++) {
        free(w->seqs[i].table);
        free(w->seqs[i].tokens);
    }
    for (int i = 0; i < 3; i++) {
        free(w->results[i]);
        free(w->embeddings[i]);
    }
    free(w->seqs);
    free(w->accs);
    free(w->snapshots);
    free(w->kv);
    free(w);
}

void fake_worker_reset(struct fake_worker *w, uint64_t epoch, uint32_t n_blocks)
{
    w->epoch = epoch;
    w->n_blocks = n_blocks;
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++)
        w->seqs[i].id = 0;
    memset(w->kv, 0xEE, (size_t)w->cfg.n_blocks * w->cfg.block_len * sizeof *w->kv);
}

static struct fake_seq *find(struct fake_worker *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++)
        if (w->seqs[i].id == id)
            return &w->seqs[i];
    return NULL;
}

uint32_t fake_worker_open(const struct fake_worker *w, uint64_t *ids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++)
        if (w->seqs[i].id)
            ids[n++] = w->seqs[i].id;
    return n;
}

static void open_seq(struct fake_worker *w, const struct step_plan *p, const struct plan_open *o)
{
    struct fake_seq *q = find(w, o->seq_id);
    REQUIRE(o->seq_id && !q, "open of %llu, which is open", (unsigned long long)o->seq_id);
    q = find(w, 0);
    REQUIRE(q, "more than %u open sequences", w->cfg.max_seqs);
    REQUIRE(o->history_off + o->n_history <= p->n_history &&
                o->stop_off + o->n_stop_ids <= p->n_stop_ids &&
                o->bias_off + o->n_bias <= p->n_bias,
            "open of %llu reaches outside the plan", (unsigned long long)o->seq_id);
    q->id = o->seq_id;
    set_params(&q->q, &o->sp, o->grammar, o->n_prompt, p->stop_ids + o->stop_off, o->n_stop_ids,
               p->bias + o->bias_off, o->n_bias);
    if (o->n_history)
        memcpy(q->tokens, p->history + o->history_off, o->n_history * sizeof *q->tokens);
    q->n_table = 0;
    q->pos = UINT32_MAX; /* the plan's share says where it begins */
    q->n_tokens_from = o->n_history;
    q->last_sample_step = 0;
}

static uint64_t *kv_at(struct fake_worker *w, const struct fake_seq *q, uint32_t pos)
{
    uint32_t bl = w->cfg.block_len;
    return &w->kv[(size_t)q->table[pos / bl] * bl + pos % bl];
}

/* What is written must belong to no other sequence. */
static void require_alone(const struct fake_worker *w, const struct fake_seq *q, int32_t b)
{
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++) {
        const struct fake_seq *o = &w->seqs[i];
        uint32_t n = 0;
        for (uint32_t k = 0; o->id && k < o->n_table; k++)
            n += o->table[k] == b;
        REQUIRE(n == (o == q), "sequence %llu writes block %d, %llu holds it too",
                (unsigned long long)q->id, b, (unsigned long long)o->id);
    }
}

static int32_t token_value(const struct fake_worker *w, const struct fake_seq *q, int32_t t)
{
    if (t != TOKEN_OF_LAST_STEP) {
        REQUIRE(t >= 0, "token %d", t);
        return t;
    }
    REQUIRE(sample_on_device(&q->q.sp), "sequence %llu: the host draws its tokens",
            (unsigned long long)q->id);
    REQUIRE(w->cfg.max_inflight == 2 && q->last_sample_step + 1 == w->last_step,
            "sequence %llu was not sampled in the step before", (unsigned long long)q->id);
    return q->last_sample;
}

static void take_blocks(struct fake_worker *w, const struct step_plan *p, const struct plan_seq *ps,
                        struct fake_seq *q)
{
    for (uint32_t k = 0; k < ps->n_blocks; k++) {
        int32_t b = p->blocks[ps->block_off + k];
        REQUIRE(b >= 0 && (uint32_t)b < w->n_blocks && q->n_table < w->cfg.max_ctx,
                "block %d of %u", b, w->n_blocks);
        q->table[q->n_table++] = b;
    }
    uint32_t end = ps->pos + ps->n_tokens;
    REQUIRE(q->n_table == (end + w->cfg.block_len - 1) / w->cfg.block_len,
            "%u blocks for %u tokens", q->n_table, end);
}

/* Returns the KV accumulator after the chunk. */
static uint64_t compute(struct fake_worker *w, const struct step_plan *p, const struct plan_seq *ps,
                        struct fake_seq *q)
{
    uint64_t acc = 0;
    for (uint32_t pos = 0; pos < q->pos; pos++)
        acc = attend(acc, *kv_at(w, q, pos));
    REQUIRE(acc == q->state, "sequence %llu: the state before position %u is another's",
            (unsigned long long)q->id, q->pos);
    for (uint32_t k = 0; k < ps->n_tokens; k++, q->pos++) {
        int32_t t = token_value(w, q, p->tokens[ps->token_off + k]);
        if (k == 0 || q->pos % w->cfg.block_len == 0)
            require_alone(w, q, q->table[q->pos / w->cfg.block_len]);
        q->tokens[q->pos] = t;
        *kv_at(w, q, q->pos) = kv_entry(acc, t, q->pos);
        acc = attend(acc, *kv_at(w, q, q->pos));
        w->accs[k] = acc;
    }
    q->state = acc;
    return acc;
}

/* The state that a sequence begins with.  A model without states has what its blocks say. */
static void first_state(struct fake_worker *w, struct fake_seq *q, const struct plan_seq *ps)
{
    bool restores = w->cfg.has_states && ps->pos > 0;
    REQUIRE(restores == (ps->restore > 0) && ps->restore <= w->cfg.n_snapshots,
            "sequence %llu begins at %u with snapshot %u", (unsigned long long)q->id, ps->pos,
            ps->restore);
    q->state = restores ? w->snapshots[ps->restore - 1] : 0;
    for (uint32_t pos = 0; !w->cfg.has_states && pos < ps->pos; pos++)
        q->state = attend(q->state, *kv_at(w, q, pos));
}

static void keep_states(struct fake_worker *w, const struct step_plan *p)
{
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        REQUIRE(p->seqs[i].keep <= w->cfg.n_snapshots, "snapshot %u of %u", p->seqs[i].keep,
                w->cfg.n_snapshots);
        for (uint32_t k = 0; k < i; k++)
            REQUIRE(!p->seqs[i].keep || p->seqs[k].keep != p->seqs[i].keep,
                    "two sequences keep their states in row %u", p->seqs[i].keep);
        if (p->seqs[i].keep)
            w->snapshots[p->seqs[i].keep - 1] = find(w, p->seqs[i].seq_id)->state;
    }
}

static void first_share(struct fake_seq *q, const struct plan_seq *ps)
{
    q->pos = ps->pos;
    REQUIRE(q->q.sp.embed != EMBED_ALL || ps->pos == 0,
            "the embedding of %llu lacks %u rows from the cache", (unsigned long long)q->id,
            ps->pos);
    REQUIRE(!sample_whole(&q->q.sp) || (ps->pos == 0 && ps->want == WANT_EMBEDDING),
            "the prompt of %llu is in parts", (unsigned long long)q->id);
    if (needs_tokens(&q->q))
        REQUIRE(q->n_tokens_from == ps->pos, "history of %u tokens before position %u",
                q->n_tokens_from, ps->pos);
    else
        REQUIRE(q->n_tokens_from == 0, "history of %u tokens for nothing", q->n_tokens_from);
}

/* The scored rows of the share that was computed last. */
static uint32_t score(const struct fake_worker *w, const struct step_plan *p,
                      const struct plan_seq *ps, struct result_token *out)
{
    uint32_t end = ps->n_tokens - (ps->want == WANT_LAST);
    REQUIRE(ps->n_score <= end && ps->score_off + ps->n_score <= p->n_scores,
            "%u scored rows of %u", ps->n_score, end);
    for (uint32_t k = 0; k < ps->n_score; k++)
        out[k] = (struct result_token){.seq_id = ps->seq_id,
                                       .token = p->scores[ps->score_off + k],
                                       .rank = (uint32_t)w->accs[end - ps->n_score + k]};
    return ps->n_score;
}

/* Tokens that are forced behind a forced one; a rank may give any number of them. */
static uint32_t force(const struct fake_worker *w, const struct fake_seq *q, uint32_t most,
                      struct result_token *out)
{
    int32_t *tokens = q->tokens;
    uint32_t n = 0, pos = q->pos;
    if (!is_forced(&q->q, tokens, pos))
        return 0;
    tokens[pos++] = q->last_sample;
    while (n < most && pos < w->cfg.max_ctx && is_forced(&q->q, tokens, pos) &&
           hash_mix(w->last_step + pos) % 5) {
        int32_t t = sample(0, &q->q, tokens, pos);
        tokens[pos++] = t;
        out[n++] = (struct result_token){.seq_id = q->id, .token = t};
    }
    return n;
}

struct step_result fake_worker_step(struct fake_worker *w, const struct step_plan *p)
{
    struct result_embedding *embeddings = w->embeddings[w->i_result % 3];
    struct result_token *out = w->results[w->i_result++ % 3];
    struct result_token forced[MAX_FORCED_TOKENS];
    uint32_t n_forced = 0;
    uint32_t n_embeddings = 0, n_out = 0, n_tokens = 0, n_blocks = 0, n_want = 0, n_scores = 0;
    REQUIRE(p->epoch == w->epoch && p->step_id == w->last_step + 1, "step %llu after %llu",
            (unsigned long long)p->step_id, (unsigned long long)w->last_step);
    REQUIRE(p->n_seqs > 0 && p->n_seqs <= w->cfg.max_seqs, "%u sequences", p->n_seqs);
    REQUIRE(p->n_tokens <= w->cfg.max_step_tokens, "%u tokens", p->n_tokens);
    w->last_step = p->step_id;
    for (uint32_t i = 0; i < p->n_closes; i++) {
        struct fake_seq *q = find(w, p->closes[i]);
        REQUIRE(p->closes[i] && q, "close of %llu, which is not open",
                (unsigned long long)p->closes[i]);
        q->id = 0;
    }
    for (uint32_t i = 0; i < p->n_opens; i++)
        open_seq(w, p, &p->opens[i]);
    for (uint32_t i = 0; i < p->n_seqs; i++) { /* all tables first: a later one must not share */
        const struct plan_seq *ps = &p->seqs[i];
        struct fake_seq *q = find(w, ps->seq_id);
        REQUIRE(ps->seq_id && q, "%llu is not open", (unsigned long long)ps->seq_id);
        bool first = q->pos == UINT32_MAX;
        if (first)
            first_share(q, ps);
        REQUIRE(first || !ps->restore, "sequence %llu is open and begins with snapshot %u",
                (unsigned long long)q->id, ps->restore);
        REQUIRE(q->pos == ps->pos, "sequence %llu at %u, the plan says %u",
                (unsigned long long)q->id, q->pos, ps->pos);
        REQUIRE(ps->n_tokens > 0 && ps->token_off == n_tokens && ps->block_off == n_blocks &&
                    ps->pos + ps->n_tokens < w->cfg.max_ctx,
                "the share of %llu", (unsigned long long)q->id);
        n_tokens += ps->n_tokens;
        n_blocks += ps->n_blocks;
        n_want += ps->want == WANT_LAST;
        take_blocks(w, p, ps, q);
        if (first)
            first_state(w, q, ps);
    }
    REQUIRE(n_tokens == p->n_tokens && n_blocks == p->n_blocks, "%u tokens, %u blocks", n_tokens,
            n_blocks);
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        const struct plan_seq *ps = &p->seqs[i];
        struct fake_seq *q = find(w, ps->seq_id);
        REQUIRE(q->pos == ps->pos, "sequence %llu twice in a plan", (unsigned long long)q->id);
        uint64_t acc = compute(w, p, ps, q);
        n_scores += score(w, p, ps, out + n_want + n_scores);
        REQUIRE(ps->want == WANT_NONE || (ps->want == WANT_EMBEDDING) == (q->q.sp.embed != 0),
                "sequence %llu gives something else", (unsigned long long)q->id);
        if (ps->want == WANT_EMBEDDING)
            embeddings[n_embeddings++] =
                (struct result_embedding){.seq_id = q->id, .digest = acc | 1};
        if (ps->want != WANT_LAST)
            continue;
        q->last_sample = sample(acc, &q->q, q->tokens, q->pos);
        q->last_sample_step = p->step_id;
        out[n_out++] = (struct result_token){.seq_id = q->id, .token = q->last_sample};
        n_forced += force(w, q, MAX_FORCED_TOKENS - n_forced, forced + n_forced);
    }
    memcpy(out + n_out + n_scores, forced, n_forced * sizeof *forced);
    keep_states(w, p);
    for (uint32_t i = 0; i < w->cfg.max_seqs; i++)
        REQUIRE(!w->seqs[i].id || w->seqs[i].pos != UINT32_MAX, "%llu was opened for nothing",
                (unsigned long long)w->seqs[i].id);
    return (struct step_result){.step_id = p->step_id,
                                .epoch = p->epoch,
                                .n = n_out + n_scores + n_forced,
                                .tokens = out,
                                .n_embeddings = n_embeddings,
                                .embeddings = embeddings};
}
