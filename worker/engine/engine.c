#include "worker/engine/engine.h"

#include <stdlib.h>

#include "common/checked.h"
#include "worker/engine/engine_step.h"

struct engine {
    struct decoder *decoder;
    struct decoder_config cfg;
    struct kv_table kv;
    struct engine_step step;
    struct engine_chunk *batch; /* [max_seqs] */
};

static enum status create_parts(struct engine *e, struct loader *ld, struct backend *be,
                                struct coll *co)
{
    if (loader_config(ld)->headless)
        FAIL(ST_UNSUPPORTED, "the model's files have no head: it gives embeddings alone");
    TRY(decoder_open(&e->decoder, loader_config(ld), ld, be, co, &e->cfg));
    TRY(kv_table_init(&e->kv, e->cfg.n_blocks, e->cfg.block_len, e->cfg.max_seqs, e->cfg.max_ctx));
    e->batch = calloc((size_t)e->cfg.max_seqs, sizeof *e->batch);
    if (!e->batch)
        FAIL(ST_NOMEM, "no memory for batches of %d", e->cfg.max_seqs);
    return engine_step_init(&e->step, e->decoder, be, co, &e->cfg, e->kv.max_blocks);
}

enum status engine_create(struct engine **out, struct loader *ld, struct backend *be,
                          struct coll *co, const struct decoder_config *cfg)
{
    *out = NULL;
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        FAIL(ST_NOMEM, "no memory");
    e->cfg = *cfg;
    enum status st = create_parts(e, ld, be, co);
    if (st != ST_OK) {
        engine_destroy(e);
        return st;
    }
    *out = e;
    return ST_OK;
}

void engine_destroy(struct engine *e)
{
    if (!e)
        return;
    engine_step_fini(&e->step);
    free(e->batch);
    decoder_close(e->decoder);
    kv_table_fini(&e->kv);
    free(e);
}

enum status engine_coll_bytes(size_t *out, const struct model_config *mc,
                              const struct decoder_config *cfg)
{
    int32_t widest;
    size_t n;
    TRY(widest_vocab(&widest, mc, cfg->world));
    if (!mul_size((size_t)cfg->world * (size_t)cfg->max_out, (size_t)widest * sizeof(float), &n))
        FAIL(ST_RANGE, "%d rows of logits", cfg->max_out);
    size_t layers = decoder_coll_bytes(mc, cfg);
    *out = n > layers ? n : layers;
    return ST_OK;
}

const struct model_config *engine_config(const struct engine *e)
{
    return decoder_model(e->decoder);
}

int32_t engine_kv_capacity(const struct engine *e)
{
    return e->kv.max_len;
}

const char *engine_name(const struct engine *e)
{
    return e->step.op->name;
}

bool engine_has_kv_cache(struct engine *e, uint64_t seq)
{
    return kv_find(&e->kv, seq) != NULL;
}

int32_t engine_kv_len(struct engine *e, uint64_t seq)
{
    const struct kv_seq *s = kv_find(&e->kv, seq);
    return s ? s->len : -1;
}

void engine_release(struct engine *e, uint64_t seq)
{
    struct kv_seq *s = kv_find(&e->kv, seq);
    if (s)
        kv_close(&e->kv, s);
}

void engine_reset(struct engine *e)
{
    kv_close_all(&e->kv);
}

/* The sequence, opened if it is new and may be, with room for len tokens.  On failure as before. */
static enum status open_for(struct engine *e, uint64_t seq, int32_t len, struct kv_seq **out)
{
    bool is_new = !(*out = kv_find(&e->kv, seq));
    if (is_new)
        TRY(kv_open(&e->kv, seq, out));
    enum status st = kv_reserve(&e->kv, *out, len);
    if (st != ST_OK && is_new)
        kv_close(&e->kv, *out);
    return st;
}

static enum status find_open(struct engine *e, uint64_t seq, struct kv_seq **out)
{
    *out = kv_find(&e->kv, seq);
    if (!*out)
        FAIL(ST_NOT_FOUND, "there is no sequence %llu", (unsigned long long)seq);
    return ST_OK;
}

/* May n tokens follow the len that a sequence has? */
static enum status check_tokens(const struct engine *e, int32_t len, const int32_t *tokens,
                                int32_t n)
{
    if (n < 1)
        FAIL(ST_RANGE, "%d tokens: there must be at least one", n);
    if (n > e->kv.max_len - len)
        FAIL(ST_NOMEM, "%d tokens after %d are over the KV budget of %d tokens a sequence", n, len,
             e->kv.max_len);
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= e->step.vocab)
            FAIL(ST_RANGE, "token %d is not in the vocabulary of %d", tokens[i], e->step.vocab);
    return ST_OK;
}

enum status engine_prepare(struct engine *e, uint64_t seq, int32_t max_tokens)
{
    struct kv_seq *s;
    if (max_tokens < 0)
        FAIL(ST_RANGE, "room for %d tokens", max_tokens);
    TRY(open_for(e, seq, max_tokens, &s));
    if (max_tokens > s->reserved)
        s->reserved = max_tokens;
    return ST_OK;
}

/* Appends tokens, for which there are blocks, in as many forwards as they need.  ROWS_LAST: logits
 * [V] of the last; ROWS_ALL: logits [n, V]. */
static enum status append(struct engine *e, struct kv_seq *s, const int32_t *tokens, int32_t n,
                          enum step_rows rows, float *logits)
{
    int32_t most = rows == ROWS_ALL ? e->cfg.max_out : e->cfg.max_tokens;
    for (int32_t at = 0, m; at < n; at += m) {
        m = n - at < most ? n - at : most;
        bool last = at + m == n;
        engine_step_begin(&e->step);
        engine_step_add(&e->step, s, tokens + at, m, rows == ROWS_LAST && !last ? ROWS_NONE : rows);
        TRY(engine_step_run(&e->step, rows == ROWS_ALL ? logits + (size_t)at * (size_t)e->step.vocab
                                                       : logits));
        s->len += m;
    }
    return ST_OK;
}

enum status engine_prefill(struct engine *e, uint64_t seq, const int32_t *tokens, int32_t n,
                           float *logits)
{
    struct kv_seq *s = kv_find(&e->kv, seq);
    int32_t len = s ? s->len : 0;
    TRY(check_tokens(e, len, tokens, n));
    TRY(open_for(e, seq, len + n, &s));
    return append(e, s, tokens, n, ROWS_LAST, logits);
}

enum status engine_forward_verify(struct engine *e, uint64_t seq, const int32_t *tokens, int32_t n,
                                  float *logits)
{
    struct kv_seq *s;
    TRY(find_open(e, seq, &s));
    TRY(check_tokens(e, s->len, tokens, n));
    TRY(kv_reserve(&e->kv, s, s->len + n));
    return append(e, s, tokens, n, ROWS_ALL, logits);
}

/* May this chunk follow what the sequence has? */
static enum status check_chunk(struct engine *e, const struct engine_chunk *c, bool may_open)
{
    const struct kv_seq *s = kv_find(&e->kv, c->seq);
    if (!s && (!may_open || c->pos != 0))
        FAIL(ST_NOT_FOUND, "there is no sequence %llu", (unsigned long long)c->seq);
    if (s && c->pos != s->len)
        FAIL(ST_RANGE, "sequence %llu has %d tokens: the next cannot be at %d",
             (unsigned long long)c->seq, s->len, c->pos);
    return check_tokens(e, c->pos, c->tokens, c->n);
}

/* Everything that a batch needs, before anything is changed. */
static enum status check_chunks(struct engine *e, const struct engine_chunk *chunks, int32_t n,
                                bool may_open)
{
    int64_t n_tokens = 0, n_blocks = 0, n_final = 0, n_new = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct engine_chunk *c = &chunks[i];
        const struct kv_seq *s = kv_find(&e->kv, c->seq);
        TRY(check_chunk(e, c, may_open));
        for (int32_t j = 0; j < i; j++)
            if (chunks[j].seq == c->seq)
                FAIL(ST_RANGE, "sequence %llu stands twice in a batch", (unsigned long long)c->seq);
        n_tokens += c->n;
        n_final += c->final;
        n_new += !s;
        n_blocks += kv_blocks_missing(&e->kv, s, c->pos + c->n);
    }
    for (int32_t i = 0; i < e->kv.max_seqs; i++)
        n_new += e->kv.seq[i].open;
    if (n > e->cfg.max_seqs || n_tokens > e->cfg.max_tokens || n_final > e->cfg.max_out)
        FAIL(ST_RANGE,
             "%d sequences, %lld tokens and %lld rows of logits in one step: %d, %d and %d "
             "are the most",
             n, (long long)n_tokens, (long long)n_final, e->cfg.max_seqs, e->cfg.max_tokens,
             e->cfg.max_out);
    if (n_new > e->kv.max_seqs)
        FAIL(ST_NOMEM, "%lld sequences would be open: %d is the most", (long long)n_new,
             e->kv.max_seqs);
    if (n_blocks > e->kv.n_free)
        FAIL(ST_NOMEM, "the batch needs %lld KV blocks and %d of the budget of %d are free",
             (long long)n_blocks, e->kv.n_free, e->kv.n_blocks);
    return ST_OK;
}

static enum status run_chunks(struct engine *e, const struct engine_chunk *chunks, int32_t n,
                              bool may_open, float *logits)
{
    TRY(check_chunks(e, chunks, n, may_open));
    engine_step_begin(&e->step);
    for (int32_t i = 0; i < n; i++) {
        const struct engine_chunk *c = &chunks[i];
        struct kv_seq *s;
        TRY(open_for(e, c->seq, c->pos + c->n, &s));
        engine_step_add(&e->step, s, c->tokens, c->n, c->final ? ROWS_LAST : ROWS_NONE);
    }
    TRY(engine_step_run(&e->step, logits));
    for (int32_t i = 0; i < n; i++)
        kv_find(&e->kv, chunks[i].seq)->len += chunks[i].n;
    return ST_OK;
}

enum status engine_unified_forward(struct engine *e, const struct engine_chunk *chunks, int32_t n,
                                   float *logits)
{
    return run_chunks(e, chunks, n, true, logits);
}

enum status engine_decode(struct engine *e, uint64_t seq, int32_t token, int32_t pos, float *logits)
{
    struct engine_chunk c = {.seq = seq, .tokens = &token, .n = 1, .pos = pos, .final = true};
    return run_chunks(e, &c, 1, false, logits);
}

enum status engine_decode_batch(struct engine *e, const struct engine_token *batch, int32_t n,
                                float *logits)
{
    if (n < 0 || n > e->cfg.max_seqs)
        FAIL(ST_RANGE, "a batch of %d sequences: %d is the most", n, e->cfg.max_seqs);
    for (int32_t i = 0; i < n; i++)
        e->batch[i] = (struct engine_chunk){.seq = batch[i].seq,
                                            .tokens = &batch[i].token,
                                            .n = 1,
                                            .pos = batch[i].pos,
                                            .final = true};
    return run_chunks(e, e->batch, n, false, logits);
}

enum status engine_truncate_kv(struct engine *e, uint64_t seq, int32_t new_len)
{
    struct kv_seq *s;
    TRY(find_open(e, seq, &s));
    if (new_len < 0 || new_len > s->len)
        FAIL(ST_RANGE, "sequence %llu has %d tokens: it cannot be cut to %d",
             (unsigned long long)seq, s->len, new_len);
    if (new_len > 0 && new_len < s->len && model_n_delta(engine_config(e)))
        FAIL(ST_UNSUPPORTED,
             "sequence %llu cannot be cut to %d of its %d tokens: gated delta-net layers keep one "
             "state, which is that of all of them",
             (unsigned long long)seq, new_len, s->len);
    kv_truncate(&e->kv, s, new_len);
    return ST_OK;
}

/* ---- a KV cache from elsewhere ---- */

size_t engine_kv_row_bytes(const struct engine *e)
{
    const struct shard *sh = decoder_shard(e->decoder);
    size_t cols = (size_t)sh->n_kv * (size_t)engine_config(e)->d_head;
    size_t global = (size_t)sh->global.n * (size_t)engine_config(e)->global_d_head;
    return (cols > global ? cols : global) * dtype_size(e->cfg.kv_dtype);
}

void engine_state_sizes(const struct engine *e, size_t *conv, size_t *rule)
{
    *conv = *rule = 0;
    for (int32_t i = 0; i < engine_config(e)->n_layers; i++) {
        struct delta_state state = decoder_state(e->decoder, i);
        if (!state.conv.buf)
            continue;
        *conv = (size_t)state.conv.cols;
        *rule = (size_t)state.rule.cols;
    }
}

/* Moves the rows of one block between the cache and packed host rows. */
static enum status move_rows(struct engine *e, struct view cache, int32_t row, int32_t n,
                             void *host, int32_t at, bool to_host)
{
    size_t row_bytes = (size_t)cache.cols * dtype_size(cache.dtype);
    if (!cache.buf) /* this cache has none */
        return ST_OK;
    cache.off += (size_t)row * (size_t)cache.stride * dtype_size(cache.dtype);
    cache.rows = n;
    char *rows = (char *)host + (size_t)at * row_bytes;
    return to_host ? e->step.op->read(e->step.be, rows, cache)
                   : e->step.op->write(e->step.be, cache, rows);
}

/* The states behind the last token; without tokens they are zeros, which the first step begins with. */
static enum status move_state(struct engine *e, int32_t layer, int32_t slot,
                              const struct engine_kv *host, bool to_host)
{
    struct delta_state state = decoder_state(e->decoder, layer);
    TRY(move_rows(e, state.conv, slot, 1, host->conv, 0, to_host));
    return move_rows(e, state.rule, slot, 1, host->rule, 0, to_host);
}

static enum status move_kv(struct engine *e, const struct kv_seq *s, int32_t len,
                           const struct engine_kv *layers, bool to_host)
{
    int32_t L = e->cfg.block_len;
    for (int32_t i = 0; i < engine_config(e)->n_layers; i++) {
        struct kv_layer kv = decoder_kv(e->decoder, i);
        if (len > 0)
            TRY(move_state(e, i, s->slot, &layers[i], to_host));
        for (int32_t at = 0; at < len; at += L) {
            int32_t n = len - at < L ? len - at : L, row = s->block[at / L] * L;
            TRY(move_rows(e, kv.k, row, n, layers[i].k, at, to_host));
            if (kv.v.buf == kv.k.buf) /* latent attention: part of k */
                kv.v.buf = kv.v_scale.buf = NULL;
            TRY(move_rows(e, kv.v, row, n, layers[i].v, at, to_host));
            TRY(move_rows(e, kv.k_scale, row, n, layers[i].k_scale, at, to_host));
            TRY(move_rows(e, kv.v_scale, row, n, layers[i].v_scale, at, to_host));
        }
    }
    return e->step.op->sync(e->step.be);
}

enum status engine_init_kv_cache(struct engine *e, uint64_t seq, const struct engine_kv *layers,
                                 int32_t len)
{
    struct kv_seq *s;
    if (len < 0)
        FAIL(ST_RANGE, "a KV cache of %d tokens", len);
    if (kv_find(&e->kv, seq))
        FAIL(ST_RANGE, "sequence %llu has a KV cache already", (unsigned long long)seq);
    TRY(open_for(e, seq, len, &s));
    enum status st = move_kv(e, s, len, layers, false);
    if (st != ST_OK)
        kv_close(&e->kv, s);
    else
        s->len = len;
    return st;
}

enum status engine_export_kv(struct engine *e, uint64_t seq, const struct engine_kv *layers)
{
    struct kv_seq *s;
    TRY(find_open(e, seq, &s));
    return move_kv(e, s, s->len, layers, true);
}
