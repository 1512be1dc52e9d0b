#include "coordinator/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/random.h"

enum { SLOT_BITS = 20, SAMPLE_BITS = 4 };
#define NO_ORPHAN UINT32_MAX

static_assert(MAX_SAMPLES <= 1 << SAMPLE_BITS, "a sequence id names its sample");

struct request_table {
    uint32_t max;
    uint64_t next_serial;
    struct request **slot;                    /* [max], NULL = free */
    uint32_t *free_slots, n_free;             /* [max]: the first n_free are free */
    struct request **buckets;                 /* [n_buckets], lists of equal hashes */
    uint32_t n_buckets;                       /* a power of two, at least max */
    uint64_t hash_seed;                       /* random: clients choose ids */
    struct request *first_ended, *last_ended; /* in the order of their ends */
    struct request **orphans;                 /* [max]: a binary heap by orphan_end_us */
    uint32_t n_orphans;
    uint64_t n_probes;
};

enum status request_table_create(struct request_table **out, uint32_t max_requests)
{
    if (max_requests < 1 || max_requests > 1U << SLOT_BITS)
        FAIL(ST_RANGE, "%u requests: between 1 and %u are possible", max_requests, 1U << SLOT_BITS);
    struct request_table *t = calloc(1, sizeof *t);
    if (!t)
        FAIL(ST_NOMEM, "no memory for a table of %u requests", max_requests);
    for (t->n_buckets = 1; t->n_buckets < max_requests;)
        t->n_buckets *= 2;
    t->slot = calloc(max_requests, sizeof(struct request *));
    t->free_slots = calloc(max_requests, sizeof *t->free_slots);
    t->buckets = calloc(t->n_buckets, sizeof(struct request *));
    t->orphans = calloc(max_requests, sizeof(struct request *));
    if (!t->slot || !t->free_slots || !t->buckets || !t->orphans) {
        request_table_destroy(t);
        FAIL(ST_NOMEM, "no memory for a table of %u requests", max_requests);
    }
    t->max = max_requests;
    t->next_serial = 1;
    t->hash_seed = random_u64();
    while (t->n_free < max_requests) {
        t->free_slots[t->n_free] = max_requests - 1 - t->n_free;
        t->n_free++;
    }
    *out = t;
    return ST_OK;
}

static void sample_free(struct sample *s)
{
    free(s->tokens);
    token_facts_fini(&s->facts);
    text_buf_free(&s->text);
}

static void free_samples(struct request *r)
{
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++)
        sample_free(&r->samples[i]);
    free(r->samples);
    r->samples = NULL;
    prompt_scores_destroy(r->scores);
    r->scores = NULL;
    free(r->embedding);
    r->embedding = NULL;
    r->n_embedding = 0;
}

static void request_free(struct request *r)
{
    if (!r)
        return;
    free_samples(r);
    resolved_free(r->ask);
    free(r);
}

void request_table_destroy(struct request_table *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->max; i++)
        request_free(t->slot[i]);
    free(t->slot);
    free(t->free_slots);
    free(t->buckets);
    free(t->orphans);
    free(t);
}

static struct request **bucket_of(struct request_table *t, const struct owner *owner,
                                  const char *id)
{
    uint64_t h = hash_bytes(t->hash_seed, owner->bytes, sizeof owner->bytes);
    return &t->buckets[hash_bytes(h, id, strlen(id)) & (t->n_buckets - 1)];
}

struct request *request_find(struct request_table *t, const struct owner *owner, const char *id)
{
    struct request *r = *bucket_of(t, owner, id);
    for (; r; r = r->next_same_hash) {
        t->n_probes++;
        if (strcmp(r->id, id) == 0 && owner_equal(&r->owner, owner))
            return r;
    }
    return NULL;
}

uint64_t request_probes(const struct request_table *t)
{
    return t->n_probes;
}

uint64_t request_key(const struct request *r)
{
    return r->serial << (SLOT_BITS + SAMPLE_BITS) | (uint64_t)r->slot << SAMPLE_BITS;
}

struct request *request_of_key(struct request_table *t, uint64_t key)
{
    uint32_t slot = (uint32_t)(key >> SAMPLE_BITS) & ((1U << SLOT_BITS) - 1);
    struct request *r = slot < t->max ? t->slot[slot] : NULL;
    return r && r->serial == key >> (SLOT_BITS + SAMPLE_BITS) ? r : NULL;
}

struct request *request_of_seq(struct request_table *t, uint64_t seq_id, struct sample **sample)
{
    struct request *r = request_of_key(t, seq_id);
    uint32_t i = (uint32_t)seq_id & ((1U << SAMPLE_BITS) - 1);
    if (!r || !r->samples || i >= r->n_samples)
        return NULL;
    *sample = &r->samples[i];
    return r;
}

/* nothing is left to send of it, so it may go */
static bool is_over(const struct request *r)
{
    return r->state == REQ_ENDED && r->terminal_sent && !r->dirty;
}

/* there is a free slot afterwards, if need be that of the request that ended first */
static enum status make_room(struct request_table *t)
{
    struct request *r = t->first_ended;
    if (t->n_free)
        return ST_OK;
    while (r && !is_over(r))
        r = r->next_ended;
    if (!r)
        FAIL(ST_BUSY, "%u requests are being served: no more fit", t->max);
    request_remove(t, r);
    return ST_OK;
}

enum status request_reserve(struct request_table *t, const struct owner *owner, const char *id,
                            uint64_t digest, uint64_t now_us, struct request **out)
{
    TRY(make_room(t));
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        FAIL(ST_NOMEM, "no memory for a request");
    size_t n_id = strlen(id);
    memcpy(r->id, id, n_id < sizeof r->id ? n_id : sizeof r->id - 1);
    r->owner = *owner;
    r->digest = digest;
    r->arrived_us = now_us;
    r->orphan_at = NO_ORPHAN;
    r->slot = t->free_slots[--t->n_free];
    r->serial = t->next_serial++;
    t->slot[r->slot] = r;
    struct request **bucket = bucket_of(t, owner, r->id);
    r->next_same_hash = *bucket;
    *bucket = r;
    *out = r;
    return ST_OK;
}

/* ---- clients' lists, and orphans ---- */

static void orphan_put(struct request_table *t, uint32_t at, struct request *r)
{
    t->orphans[at] = r;
    r->orphan_at = at;
}

/* Places r in the heap, where `at` is empty. */
static void orphan_settle(struct request_table *t, uint32_t at, struct request *r)
{
    for (; at > 0 && r->orphan_end_us < t->orphans[(at - 1) / 2]->orphan_end_us; at = (at - 1) / 2)
        orphan_put(t, at, t->orphans[(at - 1) / 2]);
    for (uint32_t child; (child = 2 * at + 1) < t->n_orphans; at = child) {
        if (child + 1 < t->n_orphans &&
            t->orphans[child + 1]->orphan_end_us < t->orphans[child]->orphan_end_us)
            child++;
        if (r->orphan_end_us <= t->orphans[child]->orphan_end_us)
            break;
        orphan_put(t, at, t->orphans[child]);
    }
    orphan_put(t, at, r);
}

static void leave_orphans(struct request_table *t, struct request *r)
{
    uint32_t at = r->orphan_at;
    if (at == NO_ORPHAN)
        return;
    struct request *last = t->orphans[--t->n_orphans];
    if (last != r)
        orphan_settle(t, at, last);
    r->orphan_at = NO_ORPHAN;
}

static void leave_client(struct request *r)
{
    if (r->client_link) {
        *r->client_link = r->next_of_client;
        if (r->next_of_client)
            r->next_of_client->client_link = r->client_link;
    }
    r->client = NULL;
    r->client_link = NULL;
    r->next_of_client = NULL;
}

void request_join(struct request_table *t, struct request *r, struct client *c,
                  struct request **first)
{
    leave_client(r);
    leave_orphans(t, r);
    r->client = c;
    r->client_link = first;
    r->next_of_client = *first;
    if (*first)
        (*first)->client_link = &r->next_of_client;
    *first = r;
}

void request_orphan(struct request_table *t, struct request *r, uint64_t end_us)
{
    leave_client(r);
    leave_orphans(t, r);
    if (r->state == REQ_ENDED)
        return;
    r->orphan_end_us = end_us;
    orphan_settle(t, t->n_orphans++, r);
}

struct request *request_overdue(struct request_table *t, uint64_t now_us)
{
    return t->n_orphans && t->orphans[0]->orphan_end_us < now_us ? t->orphans[0] : NULL;
}

/* ---- ends ---- */

void request_end(struct request_table *t, struct request *r, uint64_t now_us)
{
    leave_orphans(t, r);
    r->state = REQ_ENDED;
    r->ended_us = now_us;
    r->prev_ended = t->last_ended;
    if (t->last_ended)
        t->last_ended->next_ended = r;
    else
        t->first_ended = r;
    t->last_ended = r;
}

static void leave_ended(struct request_table *t, struct request *r)
{
    if (r->prev_ended)
        r->prev_ended->next_ended = r->next_ended;
    else
        t->first_ended = r->next_ended;
    if (r->next_ended)
        r->next_ended->prev_ended = r->prev_ended;
    else
        t->last_ended = r->prev_ended;
}

void request_remove(struct request_table *t, struct request *r)
{
    struct request **at = bucket_of(t, &r->owner, r->id);
    while (*at != r)
        at = &(*at)->next_same_hash;
    *at = r->next_same_hash;
    leave_client(r);
    leave_orphans(t, r);
    if (r->state == REQ_ENDED)
        leave_ended(t, r);
    t->slot[r->slot] = NULL;
    t->free_slots[t->n_free++] = r->slot;
    request_free(r);
}

static uint64_t score_bytes(struct request_table *t)
{
    uint64_t kept = 0;
    uint32_t at = 0;
    const struct request *r;
    while ((r = request_next(t, &at)))
        kept += r->scores ? prompt_scores_bytes(r->ask) : 0;
    return kept;
}

enum status request_score_room(struct request_table *t, const struct resolved *ask, uint64_t max)
{
    uint64_t need = prompt_scores_bytes(ask), kept = score_bytes(t);
    struct request *next, *r = t->first_ended;
    if (need > max)
        FAIL(ST_RANGE,
             "the log probabilities of %u tokens need %llu bytes, and all of them together have "
             "%llu (--prompt-logprob-memory)",
             ask->n_prompt, (unsigned long long)need, (unsigned long long)max);
    for (; r && kept > max - need; r = next) {
        next = r->next_ended;
        if (!r->scores || !is_over(r))
            continue;
        kept -= prompt_scores_bytes(r->ask);
        request_remove(t, r);
    }
    if (kept > max - need)
        FAIL(ST_BUSY,
             "the log probabilities of other prompts take %llu of %llu bytes, and those of %u "
             "tokens need %llu (--prompt-logprob-memory)",
             (unsigned long long)kept, (unsigned long long)max, ask->n_prompt,
             (unsigned long long)need);
    return ST_OK;
}

void request_expire(struct request_table *t, uint64_t now_us, uint64_t keep_us)
{
    struct request *next, *r = t->first_ended;
    for (; r && now_us - r->ended_us > keep_us; r = next) {
        next = r->next_ended;
        if (is_over(r) && now_us > r->keep_until_us)
            request_remove(t, r);
    }
}

uint64_t sample_seed(uint64_t seed, uint32_t i_sample)
{
    return i_sample == 0 ? seed : hash_mix(seed + 0x9e3779b97f4a7c15U * i_sample);
}

static enum status sample_init(struct request *r, uint32_t i, const struct tokenizer *tok)
{
    struct sample *s = &r->samples[i];
    const struct resolved *q = r->ask;
    size_t n = (size_t)q->n_prompt + q->max_new;
    s->seq_id = request_key(r) | i;
    s->tokens = calloc(n, sizeof *s->tokens);
    if (!s->tokens)
        FAIL(ST_NOMEM, "no memory for %zu tokens", n);
    TRY(token_facts_init(&s->facts, q->max_new,
                         (q->sp.logprobs ? FACT_LOGPROBS : 0) |
                             (q->sp.top_logprobs ? FACT_TOP : 0) |
                             (q->want_token_text ? FACT_TEXTS : 0)));
    memcpy(s->tokens, q->prompt, q->n_prompt * sizeof *q->prompt);
    for (uint32_t k = 0; q->types && k < q->n_prompt; k++)
        s->tokens[k] += q->types[k] * q->type_step;
    s->n = q->n_prompt;
    s->stop_id = -1;
    s->matched_stop = -1;
    detok_init(&s->detok, tok, q->skip_special ? TOK_SKIP_SPECIAL : 0);
    s->detok.keep = q->keep;
    s->detok.n_keep = q->n_keep;
    detok_follow(&s->detok, q->prompt, q->n_prompt);
    s->stop = (struct stop_stream){.set = q->stop_set, .include = q->include_stop};
    return ST_OK;
}

enum status request_start(struct request *r, struct resolved **ask, const struct tokenizer *tok)
{
    r->ask = *ask;
    *ask = NULL;
    r->samples = calloc(r->ask->n_samples, sizeof *r->samples);
    if (!r->samples)
        FAIL(ST_NOMEM, "no memory for %u samples", r->ask->n_samples);
    r->n_samples = r->ask->n_samples;
    enum status st = ST_OK;
    for (uint32_t i = 0; i < r->n_samples && st == ST_OK; i++)
        st = sample_init(r, i, tok);
    if (st == ST_OK && r->ask->sp.prompt_logprobs)
        st = prompt_scores_create(&r->scores, r->ask, tok, r->ask->n_scores_received);
    if (st != ST_OK)
        free_samples(r);
    return st;
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

enum status sample_token(struct request *r, struct sample *s, const struct result_token *t,
                         bool *ended)
{
    struct text_buf piece = {0};
    uint32_t i = s->n - r->ask->n_prompt;
    TRY(token_facts_add(&s->facts, i, t, &s->detok));
    s->n++; /* the scheduler has written the token itself */
    s->stop.asleep = s->n - r->ask->n_prompt <= r->ask->sp.min_new;
    enum status st = detok_push(&s->detok, t->token, &piece);
    if (st == ST_OK)
        st = stop_push(&s->stop, piece.data ? piece.data : "", piece.len, &s->text);
    text_buf_free(&piece);
    *ended = s->stop.done;
    return st;
}

void sample_seek(struct sample *s, uint32_t n_tokens, uint64_t n_text)
{
    s->seq = 0;
    s->sent_tokens = n_tokens;
    s->sent_text = (size_t)n_text;
    token_facts_sent(&s->facts, n_tokens);
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
    bool goes_on = r->failed != ST_OK && r->retryable; /* where its client sends it again */
    if (!s->stop.done && !goes_on) {
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
