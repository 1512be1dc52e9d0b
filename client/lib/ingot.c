#include "client/lib/internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hex.h"
#include "common/random.h"
#include "common/wire/sock.h"

static_assert((int)INGOT_NOT_FOUND == (int)ST_NOT_FOUND, "codes are statuses");
static_assert((int)INGOT_TENANT_SIZE == (int)MAX_TENANT, "a tenant fits");
static_assert((int)INGOT_TOKEN_SIZE == (int)MAX_TOKEN, "a token fits");
static_assert(INGOT_ID_SIZE == MAX_REQUEST_ID + 1, "a request id and its NUL");

enum { MIN_SILENCE_US = 5 * 1000 * 1000, WATCH_MS = 500, OWN_PAUSE_US = 1500 * 1000 };
enum { ASK_TIMEOUT_MS = 60000 };

/* an event that came while the client was waiting for a reply to something else */
struct kept {
    struct kept *next;
    zmq_msg_t frame;
};

struct query { /* sent without waiting for its reply */
    struct query *next;
    char id[INGOT_ID_SIZE];
};

/* ---- errors ---- */

const char *ingot_code_name(enum ingot_code code)
{
    return status_name((enum status)code);
}

const char *ingot_reason_name(enum ingot_reason reason)
{
    return msg_reason_name((enum msg_reason)reason);
}

const char *ingot_last_error(void)
{
    return status_text();
}

const char *ingot_version(void)
{
    return INGOT_VERSION;
}

/* ---- sending and receiving ---- */

/* Has the connection ended?  ZeroMQ makes a new one, but the server does not know that one. */
static bool is_broken(struct ingot_client *c)
{
    enum sock_refusal why;
    bool ended = sock_take_refusal(c->link_ends, &why);
    if (why != SOCK_REFUSED_NOT)
        c->refusal = why;
    if (c->open && ended)
        c->broken = true;
    return c->broken;
}

static enum status connection_ended(void)
{
    FAIL(ST_PEER, "the connection to the server has ended");
}

enum status client_send(struct ingot_client *c, const struct client_msg *msg)
{
    struct wire_bytes bytes;
    wire_mem_reset(&c->tx);
    TRY(client_msg_encode_request(&bytes, msg, &c->tx));
    return client_send_bytes(c, bytes);
}

enum status client_send_bytes(struct ingot_client *c, struct wire_bytes bytes)
{
    if (c->server.max_message_bytes && bytes.n > c->server.max_message_bytes)
        FAIL(ST_RANGE, "the request has %zu bytes; the server takes at most %" PRIu64, bytes.n,
             c->server.max_message_bytes);
    if (!c->sock || is_broken(c))
        return connection_ended();
    if (zmq_send(c->sock, bytes.data, bytes.n, ZMQ_DONTWAIT) < 0)
        FAIL(errno == EAGAIN ? ST_BUSY : ST_IO, "cannot send to the server: %s",
             zmq_strerror(errno));
    return ST_OK;
}

void client_drop_frame(struct ingot_client *c)
{
    if (c->has_frame)
        zmq_msg_close(&c->frame);
    c->has_frame = false;
}

static enum status decode_frame(struct ingot_client *c, struct client_msg *m)
{
    wire_mem_reset(&c->rx);
    return client_msg_decode_reply(m, zmq_msg_data(&c->frame), zmq_msg_size(&c->frame), &c->rx);
}

/* a server with requests of this client speaks once a heartbeat at least */
static uint64_t silence_us(const struct ingot_client *c)
{
    uint64_t us = 20000U * (uint64_t)c->heartbeat_ms;
    return us > MIN_SILENCE_US ? us : MIN_SILENCE_US;
}

/* A message that has come already, into c->frame; false: none. */
static bool take_frame(struct ingot_client *c)
{
    zmq_msg_t next;
    zmq_msg_init(&next);
    if (zmq_msg_recv(&next, c->sock, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&next);
        return false;
    }
    client_drop_frame(c);
    zmq_msg_init(&c->frame);
    zmq_msg_move(&c->frame, &next);
    zmq_msg_close(&next);
    c->has_frame = true;
    c->heard_us = clock_us();
    return true;
}

/* Nothing is there to read: is anything still to come?  Time in which this process did not look, because it
 * was stopped or busy, is no silence of the server. */
static enum status check_server(struct ingot_client *c, bool watch)
{
    uint64_t now = clock_us();
    if (now - c->looked_us > OWN_PAUSE_US)
        c->heard_us = now;
    c->looked_us = now;
    if (watch && now - c->heard_us > silence_us(c))
        FAIL(ST_PEER, "the server has been silent for %" PRIu64 " s: it seems to be gone",
             (now - c->heard_us) / 1000000);
    return ST_OK;
}

enum status client_receive(struct ingot_client *c, struct client_msg *m, bool watch,
                           uint64_t deadline_us)
{
    zmq_pollitem_t items[] = {{.socket = c->sock, .events = ZMQ_POLLIN},
                              {.socket = c->link_ends, .events = ZMQ_POLLIN}};
    if (!c->sock || c->deaf)
        return connection_ended();
    for (;;) {
        bool broken = is_broken(c); /* what came before the end is read first */
        if (take_frame(c)) {
            TRY(decode_frame(c, m));
            if (m->type == MSG_PONG && !*m->u.pong.request_id)
                continue;
            return ST_OK;
        }
        if (broken)
            return connection_ended();
        if (!c->open && (c->refusal == SOCK_REFUSED_KEY || c->refusal == SOCK_REFUSED_MECHANISM))
            FAIL(ST_PEER, "%s: %s", c->endpoints[c->endpoint], sock_refusal_text(c->refusal));
        TRY(check_server(c, watch));
        uint64_t now = clock_us();
        long left = deadline_us > now ? (long)((deadline_us - now + 999) / 1000) : 0;
        if (left == 0)
            FAIL(ST_TIMEOUT, "the server did not answer in time");
        if (left > WATCH_MS)
            left = WATCH_MS;
        if (zmq_poll(items, 2, left) < 0)
            FAIL(errno == EINTR ? ST_CANCELED : ST_IO, "waiting for the server: %s",
                 zmq_strerror(errno));
    }
}

/* ---- queries without waiting ---- */

static struct query **find_query(struct ingot_client *c, const char *id)
{
    struct query **at = &c->queries;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

enum status client_begin_query(struct ingot_client *c, const char *id)
{
    if (!id || !*id || strlen(id) >= INGOT_ID_SIZE)
        FAIL(ST_RANGE, "request_id: 1 to %d bytes", INGOT_ID_SIZE - 1);
    if (*find_query(c, id))
        FAIL(ST_RANGE, "request_id: a query of that id runs");
    struct query *q = calloc(1, sizeof *q);
    if (!q)
        FAIL(ST_NOMEM, "no memory for a query");
    memcpy(q->id, id, strlen(id));
    q->next = c->queries;
    c->queries = q;
    return ST_OK;
}

bool client_end_query(struct ingot_client *c, const char *id)
{
    struct query **at = find_query(c, id), *q = *at;
    if (!q)
        return false;
    *at = q->next;
    free(q);
    return true;
}

static void drop_queries(struct query **list)
{
    for (struct query *q; (q = *list);) {
        *list = q->next;
        free(q);
    }
}

void client_drop_queries(struct ingot_client *c)
{
    drop_queries(&c->queries);
    drop_queries(&c->lost);
}

void client_lose_queries(struct ingot_client *c)
{
    for (struct query *q; c->reconnect_ms && (q = c->queries);) {
        c->queries = q->next;
        q->next = c->lost;
        c->lost = q;
    }
    drop_queries(&c->queries);
}

bool client_take_lost(struct ingot_client *c, struct ingot_event *ev)
{
    struct query *q = c->lost;
    if (!q)
        return false;
    c->lost = q->next;
    memcpy(c->lost_id, q->id, sizeof c->lost_id);
    free(q);
    *ev = (struct ingot_event){.kind = INGOT_EVENT_ERROR,
                               .request_id = c->lost_id,
                               .code = INGOT_PEER,
                               .detail = "the connection was lost before the reply came",
                               .field = "",
                               .retryable = true};
    return true;
}

/* ---- events that come during a question ---- */

bool client_is_event(struct ingot_client *c, const struct client_msg *m)
{
    if (m->type == MSG_PONG)
        return *c->probe && strcmp(m->u.pong.request_id, c->probe) == 0;
    if (m->type == MSG_TOKENS || m->type == MSG_TEXT || m->type == MSG_STATS_REPLY)
        return *find_query(c, m->u.simple.request_id) != NULL;
    if (m->type == MSG_ERROR) /* 0: a server of minor version 0 */
        return !m->u.error.request || m->u.error.request == MSG_GENERATE ||
               *find_query(c, m->u.error.request_id) != NULL;
    return m->type == MSG_ACCEPTED || m->type == MSG_DELTA || m->type == MSG_FINISH ||
           m->type == MSG_REJECTED;
}

static enum status keep(struct ingot_client *c)
{
    struct kept *k = calloc(1, sizeof *k);
    if (!k)
        FAIL(ST_NOMEM, "no memory for an event");
    zmq_msg_init(&k->frame);
    zmq_msg_move(&k->frame, &c->frame);
    *c->kept_end = k;
    c->kept_end = &k->next;
    return ST_OK;
}

void client_drop_kept(struct ingot_client *c)
{
    while (c->kept) {
        struct kept *k = c->kept;
        c->kept = k->next;
        zmq_msg_close(&k->frame);
        free(k);
    }
    c->kept_end = &c->kept;
}

enum status client_take_kept(struct ingot_client *c, struct client_msg *m)
{
    struct kept *k = c->kept;
    c->kept = k->next;
    if (!c->kept)
        c->kept_end = &c->kept;
    client_drop_frame(c);
    zmq_msg_init(&c->frame);
    zmq_msg_move(&c->frame, &k->frame);
    c->has_frame = true;
    zmq_msg_close(&k->frame);
    free(k);
    return decode_frame(c, m);
}

void client_lose_message(struct ingot_client *c)
{
    client_drop_kept(c);
    c->broken = c->deaf = true;
}

enum status client_ask(struct ingot_client *c, const struct client_msg *question, const char *id,
                       enum msg_type want, struct client_msg *reply)
{
    uint64_t deadline = clock_us() + 1000U * (uint64_t)ASK_TIMEOUT_MS;
    TRY(client_send(c, question));
    for (;;) {
        TRY(client_receive(c, reply, false, deadline));
        if (reply->type == want && (!*id || strcmp(reply->u.simple.request_id, id) == 0))
            return ST_OK;
        if (reply->type == MSG_ERROR && strcmp(reply->u.error.request_id, id) == 0)
            FAIL(reply->u.error.code == ST_OK ? ST_PEER : reply->u.error.code, "%s",
                 reply->u.error.detail);
        enum status st = client_is_event(c, reply) ? keep(c) : ST_OK;
        if (st != ST_OK) {
            client_lose_message(c);
            return st;
        }
    }
}

void client_make_id(struct ingot_client *c, char id[INGOT_ID_SIZE])
{
    snprintf(id, INGOT_ID_SIZE, "%016" PRIx64 "-%" PRIu64, random_u64(), ++c->next_id);
}

/* ---- questions ---- */

static bool fits(struct wire_text t, size_t size)
{
    return t.n > 0 && t.n < size && !memchr(t.data, 0, t.n);
}

/* name stays in the message's memory */
static struct ingot_model model_of(const struct msg_model *w)
{
    struct ingot_model m = {.name = w->name,
                            .vocab = w->vocab,
                            .max_ctx = w->max_ctx,
                            .world = w->world,
                            .chat = w->chat,
                            .embedding = w->embedding,
                            .rerank = w->rerank};
    snprintf(m.weights_from, sizeof m.weights_from, "%s", w->weights_from);
    snprintf(m.tool_format, sizeof m.tool_format, "%s", w->tool_format ? w->tool_format : "");
    if (fits(w->think_open, sizeof m.think_open) && fits(w->think_close, sizeof m.think_close)) {
        memcpy(m.think_open, w->think_open.data, w->think_open.n);
        memcpy(m.think_close, w->think_close.data, w->think_close.n);
    }
    if (w->has_weights)
        hex_of(w->weights, sizeof w->weights, m.weights_digest);
    if (w->has_text)
        hex_of(w->text, sizeof w->text, m.text_digest);
    return m;
}

void client_take_model(struct ingot_client *c, const struct msg_model *m)
{
    snprintf(c->model_name, sizeof c->model_name, "%s", m->name);
    c->server.model = model_of(m);
    c->server.model.name = c->model_name;
}

enum ingot_code ingot_models(struct ingot_client *c, const struct ingot_model **models, size_t *n)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m = {.type = MSG_MODELS}, reply;
    client_make_id(c, id);
    m.u.simple = (struct msg_simple){id, 0};
    enum status st = client_ask(c, &m, id, MSG_MODEL_LIST, &reply);
    if (st != ST_OK)
        return (enum ingot_code)st;
    *n = reply.u.model_list.n_models < MAX_MODELS ? reply.u.model_list.n_models : MAX_MODELS;
    for (size_t i = 0; i < *n; i++)
        c->models[i] = model_of(&reply.u.model_list.models[i]);
    *models = c->models;
    return INGOT_OK;
}

enum ingot_code ingot_stats(struct ingot_client *c, struct ingot_stats *out)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m = {.type = MSG_STATS}, reply;
    client_make_id(c, id);
    m.u.simple = (struct msg_simple){id, 0};
    enum status st = client_ask(c, &m, id, MSG_STATS_REPLY, &reply);
    if (st != ST_OK)
        return (enum ingot_code)st;
    client_fill_stats(out, &reply.u.stats);
    return INGOT_OK;
}

enum ingot_code ingot_ping(struct ingot_client *c, struct ingot_pong *out)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m = {.type = MSG_PING}, reply;
    client_make_id(c, id);
    m.u.simple = (struct msg_simple){id, 0};
    enum status st = client_ask(c, &m, id, MSG_PONG, &reply);
    if (st != ST_OK)
        return (enum ingot_code)st;
    const struct msg_pong *p = &reply.u.pong;
    *out = (struct ingot_pong){.steps = p->steps,
                               .last_step_age_us = p->last_step_age_us,
                               .epoch = p->epoch,
                               .running = p->running,
                               .waiting = p->waiting,
                               .ready = p->ready,
                               .draining = p->draining};
    return INGOT_OK;
}

enum ingot_code ingot_drain(struct ingot_client *c, uint32_t timeout_ms, uint32_t *running)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m = {.type = MSG_DRAIN}, reply;
    client_make_id(c, id);
    m.u.simple = (struct msg_simple){id, timeout_ms};
    enum status st = client_ask(c, &m, id, MSG_DRAINING, &reply);
    if (st == ST_OK && running)
        *running = reply.u.simple.value;
    return (enum ingot_code)st;
}
