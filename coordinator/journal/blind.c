#include "coordinator/journal/blind.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/random.h"
#include "common/sha256.h"

enum { N_BUCKETS = 4096, KEY_BYTES = 32, CHAIN_BYTES = 16, HASH_BITS = 30 };

struct blind_seq {
    struct blind_seq *next;
    struct sched_req r;         /* its arrays and texts are of this struct */
    uint8_t chain[CHAIN_BYTES]; /* over all tokens so far */
    uint32_t scored;            /* rows of the prompt */
    uint32_t at_score;          /* the same, within a result */
    int32_t *tokens, *stop_ids;
    char *label;
    uint8_t owner[SHA256_BYTES];
};

struct blind {
    struct fleet *fleet; /* or */
    struct sched *sched;
    uint32_t max_ctx;
    uint8_t key[KEY_BYTES];
    struct blind_seq *buckets[N_BUCKETS];
    struct sched_effect *fx;
    size_t fx_cap, n_fx;
    bool *drawn;               /* [max_results]: entries of the result that became tokens */
    struct step_result result; /* its tokens: [max_results], embeddings: [max_seqs] */
    uint32_t max_results, max_seqs;
};

/* ---- hashes ---- */

/* The chain goes on by one token; the token's hash. */
static int32_t next_hash(const struct blind *b, uint8_t chain[CHAIN_BYTES], int32_t token)
{
    uint8_t in[KEY_BYTES + CHAIN_BYTES + sizeof token], out[SHA256_BYTES];
    uint32_t bits;
    memcpy(in, b->key, KEY_BYTES);
    memcpy(in + KEY_BYTES, chain, CHAIN_BYTES);
    memcpy(in + KEY_BYTES + CHAIN_BYTES, &token, sizeof token);
    sha256(in, sizeof in, out);
    memcpy(chain, out, CHAIN_BYTES);
    memcpy(&bits, out + CHAIN_BYTES, sizeof bits);
    return (int32_t)(1U << HASH_BITS | bits >> (32 - HASH_BITS));
}

static void begin_chain(struct blind_seq *q)
{
    memset(q->chain, 0, CHAIN_BYTES);
    memcpy(q->chain, &q->r.salt, sizeof q->r.salt);
}

/* ---- sequences ---- */

static struct blind_seq **find(struct blind *b, uint64_t seq_id)
{
    struct blind_seq **q = &b->buckets[hash_mix(seq_id) % N_BUCKETS];
    while (*q && (*q)->r.seq_id != seq_id)
        q = &(*q)->next;
    return q;
}

static void free_seq(struct blind_seq *q)
{
    if (!q)
        return;
    free(q->tokens);
    free(q->stop_ids);
    free(q->label);
    free(q);
}

static void forget(struct blind *b, uint64_t seq_id)
{
    struct blind_seq **at = find(b, seq_id), *q = *at;
    if (!q)
        return;
    *at = q->next;
    free_seq(q);
}

static void copy_stop_ids(struct blind_seq *q, const struct sched_req *r)
{
    if (r->n_stop_ids)
        memcpy(q->stop_ids, r->stop_ids, r->n_stop_ids * sizeof *r->stop_ids);
    q->r.stop_ids = q->stop_ids;
}

/* r without its content. */
static struct blind_seq *blind_copy(struct blind *b, const struct sched_req *r)
{
    uint64_t n_end = (uint64_t)r->n_tokens + r->max_new;
    struct blind_seq *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->r = *r;
    q->tokens = calloc(n_end < b->max_ctx ? (size_t)n_end : b->max_ctx, sizeof *q->tokens);
    q->stop_ids = calloc((size_t)r->n_stop_ids + 1, sizeof *q->stop_ids);
    q->label = strdup(r->label ? r->label : "");
    if (!q->tokens || !q->stop_ids || !q->label) {
        free_seq(q);
        return NULL;
    }
    begin_chain(q);
    for (uint32_t i = 0; i < r->n_tokens; i++)
        q->tokens[i] = next_hash(b, q->chain, r->tokens[i]);
    copy_stop_ids(q, r);
    if (r->owner)
        memcpy(q->owner, r->owner, sizeof q->owner);
    q->scored = r->n_scored;
    q->r.tokens = q->tokens;
    q->r.label = q->label;
    q->r.owner = q->owner;
    q->r.bias = NULL;
    q->r.n_bias = 0;
    q->r.grammar = r->grammar ? 1 : 0; /* that there is one decides what its tokens may be */
    q->r.grammar_kind = 0;
    q->r.grammar_source = NULL;
    q->r.n_grammar = 0;
    return q;
}

/* ---- what it is made of ---- */

enum status blind_create(struct blind **out, const struct sched_config *cfg, bool fleet)
{
    *out = NULL;
    struct blind *b = calloc(1, sizeof *b);
    if (!b)
        FAIL(ST_NOMEM, "journal: no memory");
    random_bytes(b->key, sizeof b->key);
    b->max_ctx = cfg->max_ctx;
    b->fx_cap = fleet ? fleet_max_fx(cfg) : sched_max_fx(cfg);
    b->max_results = cfg->max_seqs + MAX_SCORED_ROWS + MAX_FORCED_TOKENS;
    b->fx = calloc(b->fx_cap, sizeof *b->fx);
    b->drawn = calloc(b->max_results, sizeof *b->drawn);
    b->result.tokens = calloc(b->max_results, sizeof *b->result.tokens);
    b->result.embeddings = calloc(cfg->max_seqs, sizeof *b->result.embeddings);
    b->max_seqs = cfg->max_seqs;
    enum status st = ST_NOMEM;
    if (b->fx && b->drawn && b->result.tokens && b->result.embeddings)
        st = fleet ? fleet_create(&b->fleet, cfg) : sched_create(&b->sched, cfg);
    else
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "journal: no memory for a scheduler");
    if (st != ST_OK) {
        blind_destroy(b);
        return st;
    }
    *out = b;
    return ST_OK;
}

void blind_destroy(struct blind *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < N_BUCKETS; i++)
        while (b->buckets[i])
            forget(b, b->buckets[i]->r.seq_id);
    fleet_destroy(b->fleet);
    sched_destroy(b->sched);
    free(b->fx);
    free(b->drawn);
    free(b->result.tokens);
    free(b->result.embeddings);
    free(b);
}

const struct fleet *blind_fleet(const struct blind *b)
{
    return b->fleet;
}

const struct sched *blind_sched(const struct blind *b)
{
    return b->sched;
}

/* ---- calls ---- */

/* Sequences that ended are forgotten; the effects must be as many as the real ones. */
static enum status end_call(struct blind *b, size_t n_real, struct blind_effects *fx)
{
    for (size_t i = 0; i < b->n_fx; i++)
        if (b->fx[i].kind == FX_FINISHED)
            forget(b, b->fx[i].seq_id);
    *fx = (struct blind_effects){b->fx, b->n_fx};
    if (b->n_fx != n_real)
        FAIL(ST_BUG, "without content %zu effects come out, with it %zu", b->n_fx, n_real);
    return ST_OK;
}

enum status blind_submit(struct blind *b, const struct sched_req *r, const struct sched_req **out)
{
    struct blind_seq *q = blind_copy(b, r);
    if (!q)
        FAIL(ST_NOMEM, "no memory for a request of %u tokens", r->n_tokens);
    enum status st = b->fleet ? fleet_submit(b->fleet, &q->r) : sched_submit(b->sched, &q->r);
    if (st != ST_OK) {
        free_seq(q);
        return st;
    }
    struct blind_seq **at = find(b, r->seq_id);
    *at = q; /* the end of its list: the id is new */
    *out = &q->r;
    return ST_OK;
}

void blind_cancel(struct blind *b, uint64_t seq_id)
{
    if (b->fleet)
        (void)fleet_cancel(b->fleet, seq_id);
    else
        sched_cancel(b->sched, seq_id);
    forget(b, seq_id);
}

enum status blind_plan(struct blind *b, uint32_t g, uint64_t now_us, bool made,
                       const struct step_plan *real, size_t n_fx, struct step_plan *out,
                       struct blind_effects *fx)
{
    bool now = b->fleet ? fleet_plan(b->fleet, g, now_us, out, b->fx, b->fx_cap, &b->n_fx)
                        : sched_plan(b->sched, now_us, out, b->fx, b->fx_cap, &b->n_fx);
    if (now != made ||
        (made && (out->step_id != real->step_id || out->n_seqs != real->n_seqs ||
                  out->n_tokens != real->n_tokens || out->n_blocks != real->n_blocks)))
        FAIL(ST_BUG, "without content the plan of step %" PRIu64 " is another one", out->step_id);
    return end_call(b, n_fx, fx);
}

static int32_t drawn_token(struct blind *b, struct blind_seq *q, int32_t token)
{
    for (uint32_t i = 0; i < q->r.n_stop_ids; i++)
        if (q->stop_ids[i] == token)
            return token;
    return next_hash(b, q->chain, token);
}

/* Entries without an effect are of sequences that ended, moved or failed: a score must be the prompt's token even so. */
static int32_t blind_token(struct blind *b, struct blind_seq *q, int32_t token, bool drawn)
{
    if (token < 0 || !q)
        return token < 0 ? token : 0;
    if (drawn)
        return drawn_token(b, q, token);
    q->at_score++;
    return q->at_score < q->r.n_prompt ? q->tokens[q->at_score] : 0;
}

/* A vector's digest under the key; 0 says that it is not of finite numbers. */
static uint64_t hidden_digest(const struct blind *b, uint64_t digest)
{
    uint8_t in[KEY_BYTES + sizeof digest], out[SHA256_BYTES];
    uint64_t hidden;
    memcpy(in, b->key, KEY_BYTES);
    memcpy(in + KEY_BYTES, &digest, sizeof digest);
    sha256(in, sizeof in, out);
    memcpy(&hidden, out, sizeof hidden);
    return digest ? hidden | 1 : 0;
}

static void fill_result(struct blind *b, const struct step_result *real,
                        const struct sched_effect *real_fx, size_t n_real_fx)
{
    struct result_token *tokens = b->result.tokens;
    struct result_embedding *embeddings = b->result.embeddings;
    memset(b->drawn, 0, b->max_results * sizeof *b->drawn);
    for (size_t i = 0; i < n_real_fx; i++)
        if (real_fx[i].kind == FX_TOKEN)
            b->drawn[real_fx[i].i_result] = true;
    b->result = *real;
    b->result.tokens = tokens;
    b->result.embeddings = embeddings;
    for (uint32_t i = 0; i < real->n_embeddings; i++)
        embeddings[i] =
            (struct result_embedding){.seq_id = real->embeddings[i].seq_id,
                                      .digest = hidden_digest(b, real->embeddings[i].digest)};
    for (uint32_t i = 0; i < real->n; i++) {
        struct blind_seq *q = *find(b, real->tokens[i].seq_id);
        if (q)
            q->at_score = q->scored;
    }
    for (uint32_t i = 0; i < real->n; i++) {
        const struct result_token *t = &real->tokens[i];
        tokens[i] = (struct result_token){
            .seq_id = t->seq_id,
            .token = blind_token(b, *find(b, t->seq_id), t->token, b->drawn[i]),
            .logprob = NAN};
    }
}

enum status blind_commit(struct blind *b, uint32_t g, const struct step_result *real,
                         const struct sched_effect *real_fx, size_t n_real_fx,
                         const struct step_result **out, struct blind_effects *fx)
{
    if (real->n > b->max_results || real->n_embeddings > b->max_seqs)
        FAIL(ST_BUG, "a result of %u tokens and %u embeddings", real->n, real->n_embeddings);
    fill_result(b, real, real_fx, n_real_fx);
    enum status st = b->fleet ? fleet_commit(b->fleet, g, &b->result, b->fx, b->fx_cap, &b->n_fx)
                              : sched_commit(b->sched, &b->result, b->fx, b->fx_cap, &b->n_fx);
    if (st != ST_OK)
        return st;
    for (size_t i = 0; i < b->n_fx; i++)
        if (b->fx[i].kind == FX_SCORED)
            (*find(b, b->fx[i].seq_id))->scored = b->fx[i].n;
    *out = &b->result;
    return end_call(b, n_real_fx, fx);
}

enum status blind_reset(struct blind *b, uint32_t new_n_blocks, size_t n_fx,
                        struct blind_effects *fx)
{
    sched_reset(b->sched, new_n_blocks, b->fx, b->fx_cap, &b->n_fx);
    return end_call(b, n_fx, fx);
}

enum status blind_open(struct blind *b, uint32_t g, uint32_t n_blocks, size_t n_fx,
                       struct blind_effects *fx)
{
    TRY(fleet_open(b->fleet, g, n_blocks, b->fx, b->fx_cap, &b->n_fx));
    return end_call(b, n_fx, fx);
}

enum status blind_close(struct blind *b, uint32_t g, size_t n_fx, struct blind_effects *fx)
{
    fleet_close(b->fleet, g, b->fx, b->fx_cap, &b->n_fx);
    return end_call(b, n_fx, fx);
}

enum status blind_moves(struct blind *b, const struct fleet_move *moves, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(fleet_move(b->fleet, &moves[i]));
    return ST_OK;
}
