#include "coordinator/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/hash.h"

enum { SLOT_BITS = 16, SAMPLE_BITS = 4 };

static_assert(MAX_SAMPLES <= 1 << SAMPLE_BITS, "a sequence id names its sample");

struct request_table {
    uint32_t max;
    uint64_t next_serial;
    struct request **slot; /* [max], NULL = free */
};

enum status request_table_create(struct request_table **out, uint32_t max_requests)
{
    if (max_requests < 1 || max_requests > 1U << SLOT_BITS)
        FAIL(ST_RANGE, "%u requests: between 1 and %u are possible", max_requests, 1U << SLOT_BITS);
    struct request_table *t = calloc(1, sizeof *t);
    if (t)
        t->slot = calloc(max_requests, sizeof(struct request *));
    if (!t || !t->slot) {
        free(t);
        FAIL(ST_NOMEM, "no memory for a table of %u requests", max_requests);
    }
    t->max = max_requests;
    t->next_serial = 1;
    *out = t;
    return ST_OK;
}

static void sample_free(struct sample *s)
{
    free(s->tokens);
    free(s->logprobs);
    free(s->n_top);
    free(s->top);
    text_buf_free(&s->text);
}

static void request_free(struct request *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++)
        sample_free(&r->samples[i]);
    free(r->samples);
    free(r->stop_ids);
    free(r->bias);
    for (uint32_t i = 0; r->stops && i < r->n_stops; i++)
        free((void *)(uintptr_t)r->stops[i].data);
    free(r->stops);
    stop_set_destroy(r->stop_set);
    free(r);
}

void request_table_destroy(struct request_table *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->max; i++)
        request_free(t->slot[i]);
    free(t->slot);
    free(t);
}

struct request *request_find(struct request_table *t, const char *id)
{
    for (uint32_t i = 0; i < t->max; i++)
        if (t->slot[i] && strcmp(t->slot[i]->id, id) == 0)
            return t->slot[i];
    return NULL;
}

uint64_t request_group(const struct request *r)
{
    return r->serial << (SLOT_BITS + SAMPLE_BITS) | (uint64_t)r->slot << SAMPLE_BITS;
}

struct request *request_of_seq(struct request_table *t, uint64_t seq_id, struct sample **sample)
{
    uint32_t slot = (uint32_t)(seq_id >> SAMPLE_BITS) & ((1U << SLOT_BITS) - 1);
    uint32_t i = (uint32_t)seq_id & ((1U << SAMPLE_BITS) - 1);
    struct request *r = slot < t->max ? t->slot[slot] : NULL;
    if (!r || r->serial != seq_id >> (SLOT_BITS + SAMPLE_BITS) || !r->samples || i >= r->n_samples)
        return NULL;
    *sample = &r->samples[i];
    return r;
}

/* a free slot, if need be that of the request that ended first */
static enum status take_slot(struct request_table *t, uint32_t *slot)
{
    uint32_t oldest = t->max;
    for (uint32_t i = 0; i < t->max; i++) {
        struct request *r = t->slot[i];
        if (!r) {
            *slot = i;
            return ST_OK;
        }
        if (r->state == REQ_ENDED && r->terminal_sent &&
            (oldest == t->max || r->ended_us < t->slot[oldest]->ended_us))
            oldest = i;
    }
    if (oldest == t->max)
        FAIL(ST_BUSY, "%u requests are being served: no more fit", t->max);
    request_remove(t, t->slot[oldest]);
    *slot = oldest;
    return ST_OK;
}

static void *copy_array(const void *from, size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (p && n)
        memcpy(p, from, n * size);
    return p;
}

static enum status copy_stops(struct request *r, const struct msg_generate *g)
{
    struct tok_text strings[MAX_STOPS];
    if (g->n_stops == 0)
        return ST_OK;
    r->stops = calloc(g->n_stops, sizeof *r->stops);
    if (!r->stops)
        FAIL(ST_NOMEM, "no memory for a request");
    for (uint32_t i = 0; i < g->n_stops; i++) {
        char *p = copy_array(g->stops[i].data, g->stops[i].n, 1);
        if (!p)
            FAIL(ST_NOMEM, "no memory for a request");
        r->stops[i] = (struct wire_text){p, g->stops[i].n};
        strings[i] = (struct tok_text){p, g->stops[i].n};
        r->n_stops = i + 1;
    }
    return stop_set_create(&r->stop_set, strings, r->n_stops);
}

static enum status copy_generate(struct request *r, const struct msg_generate *g,
                                 const int32_t *eos, uint32_t n_eos)
{
    uint32_t n_model = g->ignore_eos ? 0 : n_eos;
    r->sp = g->sp;
    r->n_samples = g->n;
    r->max_new = g->max_tokens;
    r->include_stop = g->include_stop;
    r->skip_special = g->skip_special;
    r->priority = g->priority;
    r->deadline_ms = g->deadline_ms;
    r->stop_ids = calloc((size_t)n_model + g->n_stop_ids + 1, sizeof *r->stop_ids);
    r->bias = copy_array(g->bias, g->n_bias, sizeof *r->bias);
    if (!r->stop_ids || !r->bias)
        FAIL(ST_NOMEM, "no memory for a request");
    for (uint32_t i = 0; i < n_model; i++)
        r->stop_ids[r->n_stop_ids++] = eos[i];
    for (uint32_t i = 0; i < g->n_stop_ids; i++)
        r->stop_ids[r->n_stop_ids++] = g->stop_ids[i];
    r->n_bias = g->n_bias;
    return copy_stops(r, g);
}

enum status request_add(struct request_table *t, const struct msg_generate *g, uint64_t digest,
                        const int32_t *eos, uint32_t n_eos, uint64_t now_us, struct request **out)
{
    uint32_t slot = 0;
    TRY(take_slot(t, &slot));
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        FAIL(ST_NOMEM, "no memory for a request");
    size_t n_id = strlen(g->request_id);
    memcpy(r->id, g->request_id, n_id < sizeof r->id ? n_id : sizeof r->id - 1);
    r->digest = digest;
    r->arrived_us = now_us;
    enum status st = copy_generate(r, g, eos, n_eos);
    if (st != ST_OK) {
        request_free(r);
        return st;
    }
    r->slot = slot;
    r->serial = t->next_serial++;
    t->slot[slot] = r;
    *out = r;
    return ST_OK;
}

uint64_t sample_seed(uint64_t seed, uint32_t i_sample)
{
    return i_sample == 0 ? seed : hash_mix(seed + 0x9e3779b97f4a7c15U * i_sample);
}

static enum status sample_init(struct request *r, uint32_t i, const int32_t *prompt,
                               const struct tokenizer *tok)
{
    struct sample *s = &r->samples[i];
    size_t n = (size_t)r->n_prompt + r->max_new;
    s->seq_id = request_group(r) | i;
    s->tokens = calloc(n, sizeof *s->tokens);
    if (r->sp.logprobs)
        s->logprobs = calloc(r->max_new, sizeof *s->logprobs);
    if (r->sp.top_logprobs)
        s->n_top = calloc(r->max_new, sizeof *s->n_top);
    if (!s->tokens || (r->sp.logprobs && !s->logprobs) || (r->sp.top_logprobs && !s->n_top))
        FAIL(ST_NOMEM, "no memory for %zu tokens", n);
    memcpy(s->tokens, prompt, r->n_prompt * sizeof *prompt);
    s->n = r->n_prompt;
    s->stop_id = -1;
    s->matched_stop = -1;
    detok_init(&s->detok, tok, r->skip_special ? TOK_SKIP_SPECIAL : 0);
    s->stop = (struct stop_stream){.set = r->stop_set, .include = r->include_stop};
    return ST_OK;
}

enum status request_start(struct request *r, const int32_t *prompt, uint32_t n_prompt,
                          uint32_t max_new, const struct tokenizer *tok)
{
    r->n_prompt = n_prompt;
    r->max_new = max_new;
    r->samples = calloc(r->n_samples, sizeof *r->samples);
    if (!r->samples)
        FAIL(ST_NOMEM, "no memory for %u samples", r->n_samples);
    for (uint32_t i = 0; i < r->n_samples; i++)
        TRY(sample_init(r, i, prompt, tok));
    return ST_OK;
}

void request_remove(struct request_table *t, struct request *r)
{
    t->slot[r->slot] = NULL;
    request_free(r);
}

void request_expire(struct request_table *t, uint64_t now_us, uint64_t keep_us)
{
    for (uint32_t i = 0; i < t->max; i++) {
        struct request *r = t->slot[i];
        if (r && r->state == REQ_ENDED && r->terminal_sent && !r->dirty &&
            now_us - r->ended_us > keep_us)
            request_remove(t, r);
    }
}

uint32_t request_count(const struct request_table *t, enum request_state state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->max; i++)
        n += t->slot[i] && t->slot[i]->state == state;
    return n;
}

struct request *request_next(struct request_table *t, uint32_t *at)
{
    while (*at < t->max) {
        struct request *r = t->slot[(*at)++];
        if (r)
            return r;
    }
    return NULL;
}

static enum status keep_top(struct sample *s, uint32_t i, const struct result_token *t)
{
    if (s->n_top_all + t->n_top > s->cap_top) {
        uint32_t cap = (s->cap_top + t->n_top) * 2;
        struct token_logprob *p = realloc(s->top, cap * sizeof *p);
        if (!p)
            FAIL(ST_NOMEM, "no memory for %u logprobs", cap);
        s->top = p;
        s->cap_top = cap;
    }
    memcpy(s->top + s->n_top_all, t->top, t->n_top * sizeof *t->top);
    s->n_top[i] = t->n_top;
    s->n_top_all += t->n_top;
    return ST_OK;
}

enum status sample_token(struct request *r, struct sample *s, const struct result_token *t,
                         bool *ended)
{
    struct text_buf piece = {0};
    uint32_t i = s->n - r->n_prompt;
    if (s->logprobs)
        s->logprobs[i] = t->logprob;
    if (s->n_top)
        TRY(keep_top(s, i, t));
    s->n++; /* the scheduler has written the token itself */
    enum status st = detok_push(&s->detok, t->token, &piece);
    if (st == ST_OK)
        st = stop_push(&s->stop, piece.data ? piece.data : "", piece.len, &s->text);
    text_buf_free(&piece);
    *ended = s->stop.done;
    return st;
}

enum status sample_end(struct request *r, struct sample *s, enum msg_reason reason)
{
    struct text_buf rest = {0};
    enum status st = ST_OK;
    if (s->done)
        return ST_OK;
    s->done = true;
    s->reason = reason;
    r->n_done++;
    if (!s->stop.done) {
        st = detok_flush(&s->detok, &rest);
        if (st == ST_OK)
            st = stop_push(&s->stop, rest.data ? rest.data : "", rest.len, &s->text);
        if (st == ST_OK)
            st = stop_flush(&s->stop, &s->text);
        text_buf_free(&rest);
    }
    if (s->stop.done) { /* perhaps only the last held-back text completed it */
        s->matched_stop = s->stop.matched;
        s->reason = REASON_STOP;
    }
    return st;
}
