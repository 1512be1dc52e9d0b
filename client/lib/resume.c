/* Running requests of a client that connects again by itself: what was received of each, and how it goes on over the
 * next connection. */
#include <stdlib.h>

#include "client/lib/internal.h"
#include "common/clock.h"
#include "common/hash.h"

enum { MIN_RETRY_MS = 20, MAX_RETRY_MS = 500, MOVE_US = 1000 * 1000 };

struct received {
    int32_t *ids; /* [n], room for cap */
    uint32_t n, cap;
    uint64_t n_text;   /* bytes */
    uint32_t seq;      /* deltas */
    uint32_t n_scores; /* log probabilities of the prompt */
};

struct running {
    struct running **list, *prev, *next; /* in *list, a ring of the set */
    struct running *next_same_hash;
    char id[INGOT_ID_SIZE];
    uint8_t *bytes; /* [n_bytes] the message */
    size_t n_bytes;
    uint64_t began_us,
        give_up_us;    /* give_up: when refusals are not repeated any more; 0: never were */
    uint64_t retry_us; /* of a refused one: when it is sent again */
    uint64_t n_failed; /* deltas that had come when the server ran out of memory last */
    uint32_t n_empty;  /* servers without groups that have refused it before any had accepted it */
    bool cancelled;
    bool taken;        /* Accepted has come over this connection */
    uint8_t *accepted; /* [n_accepted] the message; n_accepted 0: it has not come */
    size_t n_accepted;
    uint32_t deadline_ms, n_samples;
    struct received samples[MAX_SAMPLES];
};

enum { FIRST_BUCKETS = 16 };

static uint32_t bucket_of(const struct running_set *s, const char *id)
{
    return (uint32_t)hash_bytes(0, id, strlen(id)) & (s->n_buckets - 1);
}

static struct running *find(const struct running_set *s, const char *id)
{
    struct running *r = s->n_buckets ? s->buckets[bucket_of(s, id)] : NULL;
    while (r && strcmp(r->id, id) != 0)
        r = r->next_same_hash;
    return r;
}

static void leave_list(struct running *r)
{
    if (*r->list == r)
        *r->list = r->next != r ? r->next : NULL;
    r->prev->next = r->next;
    r->next->prev = r->prev;
}

/* r becomes the last of that list. */
static void join_list(struct running **list, struct running *r)
{
    struct running *first = *list ? *list : r;
    r->list = list;
    r->prev = *list ? first->prev : r;
    r->next = first;
    r->prev->next = first->prev = r;
    *list = first;
}

static void move(struct running **list, struct running *r)
{
    leave_list(r);
    join_list(list, r);
}

/* Twice as many buckets, or the first ones. */
static enum status more_buckets(struct running_set *s)
{
    struct running_set more = *s;
    more.n_buckets = s->n_buckets ? 2 * s->n_buckets : FIRST_BUCKETS;
    more.buckets = calloc(more.n_buckets, sizeof(struct running *));
    if (!more.buckets)
        FAIL(ST_NOMEM, "no memory for %u requests", more.n_buckets);
    for (uint32_t i = 0; i < s->n_buckets; i++)
        for (struct running *r = s->buckets[i], *next; r; r = next) {
            next = r->next_same_hash;
            struct running **at = &more.buckets[bucket_of(&more, r->id)];
            r->next_same_hash = *at;
            *at = r;
        }
    free(s->buckets);
    *s = more;
    return ST_OK;
}

void running_free(struct running *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->n_samples; i++)
        free(r->samples[i].ids);
    free(r->bytes);
    free(r->accepted);
    free(r);
}

static void forget(struct running_set *s, struct running *r)
{
    struct running **at = &s->buckets[bucket_of(s, r->id)];
    while (*at != r)
        at = &(*at)->next_same_hash;
    *at = r->next_same_hash;
    leave_list(r);
    s->n--;
    running_free(r);
}

void running_forget_all(struct ingot_client *c)
{
    struct running_set *s = &c->running;
    while (s->sent)
        forget(s, s->sent);
    while (s->refused)
        forget(s, s->refused);
    free(s->buckets);
    *s = (struct running_set){0};
}

enum status running_create(struct ingot_client *c, struct running **out,
                           const struct msg_generate *g, struct wire_bytes bytes)
{
    if (c->running.n == c->running.n_buckets)
        TRY(more_buckets(&c->running));
    struct running *r = calloc(1, sizeof *r);
    uint8_t *copy = malloc(bytes.n);
    if (!r || !copy) {
        free(r);
        free(copy);
        FAIL(ST_NOMEM, "no memory for a request of %zu bytes", bytes.n);
    }
    memcpy(copy, bytes.data, bytes.n);
    memcpy(r->id, g->request_id, strlen(g->request_id) + 1);
    r->bytes = copy;
    r->n_bytes = bytes.n;
    r->began_us = clock_us();
    r->deadline_ms = g->deadline_ms;
    r->n_samples = g->n <= MAX_SAMPLES ? g->n : MAX_SAMPLES;
    *out = r;
    return ST_OK;
}

void running_enter(struct ingot_client *c, struct running **created)
{
    struct running_set *s = &c->running;
    struct running *r = *created, *before = find(s, r->id);
    if (before)
        forget(s, before); /* sent again by the program: it begins anew */
    struct running **at = &s->buckets[bucket_of(s, r->id)];
    r->next_same_hash = *at;
    *at = r;
    join_list(&s->sent, r);
    s->n++;
    *created = NULL;
}

void running_cancel(struct ingot_client *c, const char *id)
{
    struct running *r = find(&c->running, id);
    if (r)
        r->cancelled = true;
}

/* ---- what has come ---- */

static enum status keep_accepted(struct ingot_client *c, struct running *r)
{
    size_t n = zmq_msg_size(&c->frame);
    uint8_t *accepted = malloc(n);
    if (!accepted)
        FAIL(ST_NOMEM, "no memory for %zu bytes", n);
    memcpy(accepted, zmq_msg_data(&c->frame), n);
    free(r->accepted);
    r->accepted = accepted;
    r->n_accepted = n;
    return ST_OK;
}

/* Has a part of its answer come? */
static bool has_begun(const struct running *r)
{
    for (uint32_t i = 0; i < r->n_samples; i++)
        if (r->samples[i].n || r->samples[i].n_text || r->samples[i].n_scores)
            return true;
    return false;
}

static enum status keep_delta(struct running *r, struct msg_delta *d)
{
    if (d->sample >= r->n_samples)
        FAIL(ST_PEER, "the server sent a Delta of sample %u of %u", d->sample, r->n_samples);
    struct received *s = &r->samples[d->sample];
    if (s->n + d->n > s->cap) {
        uint32_t cap = (s->n + d->n) * 2;
        int32_t *ids = realloc(s->ids, cap * sizeof *ids);
        if (!ids)
            FAIL(ST_NOMEM, "no memory for %u tokens", cap);
        s->ids = ids;
        s->cap = cap;
    }
    if (d->n)
        memcpy(s->ids + s->n, d->ids, d->n * sizeof *d->ids);
    s->n += d->n;
    s->n_text += d->text.n;
    s->n_scores += d->prompt.n;
    d->seq = s->seq++; /* the server counts anew on each connection */
    return ST_OK;
}

/* A new request, refused by a server without groups: every other one of the list is asked once. */
static bool try_elsewhere(struct ingot_client *c, struct running *r)
{
    if (!servers_other_may_have_groups(c) || ++r->n_empty >= c->n_endpoints)
        return false;
    move(&c->running.refused, r);
    servers_leave(c);
    return true;
}

/* A refusal that passes, of a request that another connection had before: it is sent again a little later. */
static bool retry_later(struct ingot_client *c, struct running *r, const struct msg_error *e)
{
    uint64_t now = clock_us();
    uint32_t ms = e->retry_after_ms;
    if (e->retryable && !r->give_up_us)
        return try_elsewhere(c, r);
    if (!e->retryable || now >= r->give_up_us)
        return false;
    ms = ms < MIN_RETRY_MS ? MIN_RETRY_MS : ms > MAX_RETRY_MS ? MAX_RETRY_MS : ms;
    r->retry_us = now + 1000U * (uint64_t)ms;
    move(&c->running.refused, r);
    if (c->n_endpoints > 1 &&
        now - c->tried_us > MOVE_US) /* the worker groups may be at another server */
        servers_leave(c);
    return true;
}

static uint64_t n_deltas(const struct running *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->n_samples; i++)
        n += r->samples[i].seq;
    return n;
}

static void set_give_up(const struct ingot_client *c, struct running *r, uint64_t now_us)
{
    r->give_up_us = r->deadline_ms ? r->began_us + 1000U * (uint64_t)r->deadline_ms
                                   : now_us + 1000U * (uint64_t)c->reconnect_ms;
}

/* The server has no memory for more of the answer.  That passes: the request goes on with what has come, and while it
 * progresses it has the time of a lost connection again. */
static bool go_on_later(struct ingot_client *c, struct running *r, const struct msg_error *e)
{
    uint64_t n = n_deltas(r);
    if (e->code != ST_NOMEM || !e->retryable || !r->taken)
        return false;
    if (!r->give_up_us || n > r->n_failed)
        set_give_up(c, r, clock_us());
    r->n_failed = n;
    return retry_later(c, r, e);
}

enum status running_take(struct ingot_client *c, struct client_msg *m, bool *swallow)
{
    *swallow = false;
    if (m->type != MSG_ACCEPTED && m->type != MSG_DELTA && m->type != MSG_FINISH &&
        m->type != MSG_REJECTED && m->type != MSG_ERROR)
        return ST_OK;
    struct running *r = find(&c->running, m->u.simple.request_id);
    if (!r)
        return ST_OK;
    switch (m->type) {
    case MSG_ACCEPTED:
        r->taken = true;
        r->n_empty = 0;
        *swallow = r->n_accepted;
        /* a later one may know more of what computes */
        return !m->u.accepted.prompt_digest || (*swallow && has_begun(r)) ? ST_OK
                                                                          : keep_accepted(c, r);
    case MSG_DELTA:
        return keep_delta(r, &m->u.delta);
    case MSG_REJECTED:
        *swallow = retry_later(c, r, &m->u.error);
        break;
    case MSG_ERROR:
        if (m->u.error.request && m->u.error.request != MSG_GENERATE)
            return ST_OK;
        *swallow = !r->taken && m->u.error.code == ST_PEER;
        if (*swallow) /* ZeroMQ has sent it to the next server, which has had no Hello */
            c->broken = true;
        else
            *swallow = go_on_later(c, r, &m->u.error);
        break;
    default:
        break;
    }
    if (!*swallow)
        forget(&c->running, r);
    return ST_OK;
}

/* ---- sending again ---- */

static enum status send_resumed(struct ingot_client *c, const struct running *r)
{
    struct client_msg generate, accepted;
    struct msg_resumed_sample samples[MAX_SAMPLES];
    const char *field;
    wire_mem_reset(&c->rx);
    TRY(client_msg_decode_request(&generate, r->bytes, r->n_bytes, &c->rx, NULL, &field));
    TRY(client_msg_decode_reply(&accepted, r->accepted, r->n_accepted, &c->rx));
    struct msg_accepted *a = &accepted.u.accepted;
    a->n_prompt_ids = 0; /* the server makes them */
    a->prompt_text = (struct wire_text){NULL, 0};
    for (uint32_t i = 0; i < r->n_samples; i++)
        samples[i] = (struct msg_resumed_sample){r->samples[i].n, r->samples[i].ids,
                                                 r->samples[i].n_text, r->samples[i].n_scores};
    uint64_t elapsed_ms = (clock_us() - r->began_us) / 1000;
    struct msg_resume resume = {
        a, r->n_samples, elapsed_ms < UINT32_MAX ? (uint32_t)elapsed_ms : UINT32_MAX, samples};
    generate.u.generate.resume = &resume;
    return client_send(c, &generate);
}

/* ST_BUSY: the connection takes nothing now. */
static enum status send_again(struct ingot_client *c, struct running *r)
{
    struct client_msg cancel = {.type = MSG_CANCEL, .u.cancel = {.request_id = r->id}};
    TRY(r->n_accepted ? send_resumed(c, r)
                      : client_send_bytes(c, (struct wire_bytes){r->bytes, r->n_bytes}));
    r->taken = false;
    move(&c->running.sent, r);
    if (r->cancelled && client_send(c, &cancel) != ST_OK)
        c->broken = true; /* the request was sent: both are again over the next connection */
    return ST_OK;
}

void running_resume(struct ingot_client *c)
{
    struct running_set *s = &c->running;
    uint64_t now = clock_us();
    while (s->refused)
        move(&s->sent, s->refused);
    for (uint32_t i = 0; i < s->n; i++) { /* each becomes the last, so their order stays */
        struct running *r = s->sent;
        if (!r->n_empty)
            set_give_up(c, r, now);
        r->retry_us = now;
        move(&s->refused, r);
    }
}

enum status running_retry(struct ingot_client *c, uint64_t *next_us)
{
    struct running_set *s = &c->running;
    uint64_t now = clock_us();
    *next_us = UINT64_MAX;
    for (struct running *r = s->refused, *next; r; r = next) {
        next = r->next != s->refused ? r->next : NULL;
        if (r->retry_us > now) {
            *next_us = r->retry_us < *next_us ? r->retry_us : *next_us;
            continue;
        }
        enum status st = send_again(c, r);
        if (st == ST_BUSY) {
            *next_us = now + 1000U * (uint64_t)MIN_RETRY_MS;
            return ST_OK;
        }
        TRY(st);
    }
    return ST_OK;
}
