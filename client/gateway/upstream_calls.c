#include "client/gateway/upstream_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/gateway/replay.h"
#include "common/clock.h"

enum { MAX_SHORT = 10 }; /* answers of one request that ended for lack of memory */

/* ---- calls and slots ---- */

static void give(struct upstream_call *call, const struct ingot_event *ev)
{
    if (call->log)
        request_log_event(call->log, ev);
    call->event(call, ev);
}

static void detach(struct upstream_call *call)
{
    call->running = false;
    replay_destroy(call->replay);
    call->replay = NULL;
}

/* The last event of a call that its slot has let go. */
static void end_call(struct upstream_call *call, const struct ingot_event *ev)
{
    if (!call)
        return;
    detach(call);
    give(call, ev);
}

static struct ingot_event failure(enum ingot_code code, const char *detail, const char *field)
{
    return (struct ingot_event){.kind = INGOT_EVENT_ERROR,
                                .code = code,
                                .detail = detail,
                                .field = field,
                                .retryable = code == INGOT_PEER};
}

/* On a connection that has ended meanwhile nothing is sent: the loop finds that out, and the request waits for the next
 * connection. */
static void send_slot(struct upstream *u, struct call_slot *s)
{
    enum ingot_code code = ingot_send_packed(u->client, s->packed);
    s->awaits = true;
    s->unsent = code != INGOT_OK;
    if (code == INGOT_OK || code == INGOT_BUSY || code == INGOT_PEER)
        return;
    const struct ingot_event ev = failure(code, ingot_last_error(), "");
    struct upstream_call *call = s->call;
    call_table_remove(&u->calls, s);
    end_call(call, &ev);
}

/* To a new connection.  An event may end calls, and begin none: there are requests of HTTP for that. */
void upstream_calls_send(struct upstream *u)
{
    for (size_t i = 0; i < u->calls.n; i++)
        if (u->calls.slot[i].packed && u->calls.slot[i].call)
            send_slot(u, &u->calls.slot[i]);
}

/* The call that came last has the request from now on. */
static void take_over(struct call_slot *s)
{
    ingot_packed_free(s->packed);
    s->packed = s->next_packed;
    s->call = s->next;
    s->next = NULL;
    s->next_packed = NULL;
    s->abandoned_us = 0;
}

static void cancel_slot(struct upstream *u, struct call_slot *s)
{
    s->call = NULL;
    s->cancel_unsent = u->client && ingot_cancel_packed(u->client, s->packed) != INGOT_OK;
    if (!s->cancel_unsent)
        call_table_remove(&u->calls, s);
    if (u->client)
        event_active(u->again, EV_TIMEOUT, 0);
}

/* ---- the connection is lost ---- */

void upstream_calls_give_up(struct upstream *u)
{
    const struct ingot_event lost =
        failure(INGOT_PEER, "the connection to the coordinator was lost", "");
    for (size_t i = 0; i < u->calls.n; i++) {
        struct call_slot *s = &u->calls.slot[i];
        struct upstream_call *call = s->call;
        if (!*s->id)
            continue;
        call_table_remove(&u->calls, s);
        end_call(call, &lost);
    }
}

static void lose_slot(struct upstream *u, struct call_slot *s)
{
    const struct ingot_event lost =
        failure(INGOT_PEER, "the connection to the coordinator was lost", "");
    struct upstream_call *call = s->call;
    if (!*s->id)
        return;
    if (s->next) {
        take_over(s);
        end_call(call, &lost);
    } else if (s->query || !call) {
        call_table_remove(&u->calls, s);
        end_call(call, &lost);
    }
    if (*s->id && !s->lost_us)
        s->lost_us = clock_us();
}

void upstream_calls_lose(struct upstream *u)
{
    for (size_t i = 0; i < u->calls.n; i++)
        lose_slot(u, &u->calls.slot[i]);
}

/* ---- events ---- */

/* The coordinator has no memory for more of an answer.  That passes: the next tick sends the request again. */
static bool goes_on(struct upstream *u, struct call_slot *s, const struct ingot_event *ev)
{
    if (ev->kind != INGOT_EVENT_ERROR || ev->rejected || s->awaits || !ev->retryable ||
        ev->code != INGOT_OUT_OF_MEMORY || s->next || u->cfg.resume_grace_ms == 0 ||
        s->n_short == MAX_SHORT)
        return false;
    s->n_short++;
    s->lost_us = clock_us();
    s->unsent = s->awaits = true;
    return true;
}

/* A coordinator that takes no requests now may do so before the grace is over: the next tick sends this one again. */
static bool try_again(struct upstream *u, struct call_slot *s, const struct ingot_event *ev)
{
    uint64_t grace_us = 1000 * (uint64_t)u->cfg.resume_grace_ms;
    if (!ev->rejected || !ev->retryable || !s->lost_us || clock_us() - s->lost_us > grace_us)
        return false;
    s->unsent = true;
    return true;
}

/* The answer of the slot's request.  s is void afterwards: the call may have ended, and others begun. */
static void deliver(struct upstream *u, struct call_slot *s, const struct ingot_event *ev)
{
    bool ends = ev->kind == INGOT_EVENT_FINISH || ev->kind == INGOT_EVENT_ERROR, pass = true;
    struct upstream_call *call = s->call;
    struct ingot_event rest = *ev;
    if (try_again(u, s, ev) || goes_on(u, s, ev))
        return;
    if (ev->kind == INGOT_EVENT_ACCEPTED) {
        s->awaits = false;
        s->lost_us = 0;
        if (call)
            replay_restart(call->replay);
    } else if (s->awaits && !ev->rejected) {
        return; /* of another time */
    }
    if (call && replay_take(call->replay, &rest, &pass) != ST_OK) {
        rest = failure(INGOT_PEER, status_text(), "");
        rest.retryable = false;
        cancel_slot(u, s);
        end_call(call, &rest);
    } else if (ends && s->next) {
        take_over(s);
        s->awaits = true;
        if (ev->rejected) /* perhaps of both: the other one goes its own way */
            send_slot(u, s);
        end_call(call, &rest);
    } else if (ends) {
        call_table_remove(&u->calls, s);
        end_call(call, &rest);
    } else if (call && pass) {
        give(call, &rest);
    }
}

static void drop_next(struct call_slot *s)
{
    ingot_packed_free(s->next_packed);
    s->next_packed = NULL;
    s->next = NULL;
}

/* The repetition is not the same request: the one that runs goes on. */
static void refuse_next(struct call_slot *s, const struct ingot_event *ev)
{
    struct upstream_call *next = s->next;
    drop_next(s);
    if (!s->call && !s->abandoned_us)
        s->abandoned_us = clock_us();
    end_call(next, ev);
}

/* The repetition has the request now, and its answer begins. */
static void hand_over(struct call_slot *s)
{
    const struct ingot_event ev =
        failure(INGOT_PEER, "the request was sent again, and is answered there", "request_id");
    struct upstream_call *call = s->call;
    take_over(s);
    end_call(call, &ev);
}

static bool is_request_id(const char *id)
{
    return *id == 'g' || *id == 'i';
}

/* The server does not know this connection: libzmq has made it again by itself. */
static bool is_stranger(const struct call_slot *s, const struct ingot_event *ev)
{
    return ev->kind == INGOT_EVENT_ERROR && !ev->rejected &&
           (s ? s->awaits && ev->code == INGOT_PEER && !*ev->field
              : !is_request_id(ev->request_id));
}

bool upstream_calls_take(struct upstream *u, const struct ingot_event *ev)
{
    struct call_slot *s = call_table_find(&u->calls, ev->request_id);
    if (is_stranger(s, ev))
        return false;
    if (ev->rejected && ev->draining)
        u->ready = false;
    if (s && s->query) {
        struct upstream_call *call = s->call;
        call_table_remove(&u->calls, s);
        end_call(call, ev);
        return true;
    }
    if (s && s->next && ev->rejected && strcmp(ev->field, "request_id") == 0) {
        refuse_next(s, ev);
        return true;
    }
    if (s && s->next && ev->kind == INGOT_EVENT_ACCEPTED && (ev->attached || !s->call)) {
        hand_over(s);
        s = call_table_find(&u->calls, ev->request_id); /* the event may have changed the table */
    }
    if (s)
        deliver(u, s, ev);
    return true;
}

/* What the connection did not take, and what no client has come back for. */
void upstream_calls_tend(struct upstream *u)
{
    uint64_t grace_us = 1000 * (uint64_t)u->cfg.resume_grace_ms, now = clock_us();
    for (size_t i = 0; i < u->calls.n; i++) {
        struct call_slot *s = &u->calls.slot[i];
        if (s->cancel_unsent || (s->abandoned_us && !s->next && now - s->abandoned_us > grace_us))
            cancel_slot(u, s);
        else if (s->unsent)
            send_slot(u, s);
    }
}

/* ---- what routes call ---- */

static enum status send_packed(struct upstream *u, const struct ingot_packed *packed)
{
    return (enum status)ingot_send_packed(u->client, packed); /* codes are statuses */
}

/* The same request runs already: call waits for its Accepted.  Takes *packed over unless it fails. */
static enum status repeat(struct upstream *u, struct call_slot *s, struct upstream_call *call,
                          struct ingot_packed **packed)
{
    if (s->next || s->cancel_unsent)
        FAIL(ST_BUSY, "this request is being repeated already");
    TRY(send_packed(u, *packed));
    s->next = call;
    s->next_packed = *packed;
    *packed = NULL;
    call->slot = (size_t)(s - u->calls.slot);
    return ST_OK;
}

/* As repeat. */
static enum status begin_call(struct upstream *u, struct upstream_call *call,
                              struct ingot_packed **packed, bool named)
{
    TRY(call_table_add(&u->calls, ingot_packed_id(*packed), &call->slot));
    struct call_slot *s = &u->calls.slot[call->slot];
    s->packed = *packed;
    s->call = call;
    s->named = named;
    s->awaits = true;
    enum status st = send_packed(u, *packed);
    *packed = NULL;
    if (st != ST_OK)
        call_table_remove(&u->calls, s);
    return st;
}

static enum status start_call(struct upstream *u, struct upstream_call *call,
                              const struct ingot_request *r, bool named,
                              struct ingot_packed **packed)
{
    if (!u->client)
        FAIL(ST_PEER, "there is no connection to the coordinator");
    call->replay = replay_create();
    if (!call->replay)
        FAIL(ST_NOMEM, "no memory for a request");
    TRY((enum status)ingot_pack(u->client, r, packed));
    struct call_slot *s = call_table_find(&u->calls, r->request_id);
    return s ? repeat(u, s, call, packed) : begin_call(u, call, packed, named);
}

/* Unique among all gateways: they may act for the same tenants. */
static void choose_id(struct upstream *u, char id[INGOT_ID_SIZE])
{
    snprintf(id, INGOT_ID_SIZE, "g%" PRIu64 "-%016" PRIx64, ++u->serial, u->nonce);
}

enum ingot_code upstream_generate(struct upstream *u, struct upstream_call *call,
                                  const struct ingot_request *request)
{
    struct ingot_request r = *request;
    struct ingot_packed *packed = NULL;
    char id[INGOT_ID_SIZE];
    bool named = request->request_id != NULL;
    if (named)
        snprintf(id, sizeof id, "%s-%zu", request->request_id, call->part);
    else
        choose_id(u, id);
    r.request_id = id;
    enum status st = start_call(u, call, &r, named, &packed);
    if (st != ST_OK) {
        ingot_packed_free(packed);
        detach(call);
        return (enum ingot_code)st;
    }
    call->running = true;
    if (call->log)
        call->log->n_generates++;
    event_active(u->again, EV_TIMEOUT, 0);
    return INGOT_OK;
}

/* ---- queries: one event each; they are not sent again ---- */

static enum status begin_query(struct upstream *u, struct upstream_call *call,
                               char id[INGOT_ID_SIZE])
{
    if (!u->client)
        FAIL(ST_PEER, "there is no connection to the coordinator");
    choose_id(u, id);
    TRY(call_table_add(&u->calls, id, &call->slot));
    struct call_slot *s = &u->calls.slot[call->slot];
    s->call = call;
    s->query = s->awaits = true;
    call->running = true;
    return ST_OK;
}

/* The query was sent, unless code says otherwise. */
static enum ingot_code query_sent(struct upstream *u, struct upstream_call *call,
                                  enum ingot_code code)
{
    event_active(u->again, EV_TIMEOUT, 0);
    if (code != INGOT_OK) {
        detach(call);
        call_table_remove(&u->calls, &u->calls.slot[call->slot]);
    }
    return code;
}

/* The same for a query of a request's turns: *own is it, with that id. */
static enum status begin_turns(struct upstream *u, struct upstream_call *call,
                               const struct ingot_request *request, struct ingot_request *own,
                               char id[INGOT_ID_SIZE])
{
    *own = *request;
    own->request_id = id;
    return begin_query(u, call, id);
}

enum ingot_code upstream_tokenize(struct upstream *u, struct upstream_call *call, const char *text,
                                  size_t n, bool add_special, bool want_token_text)
{
    char id[INGOT_ID_SIZE];
    enum status st = begin_query(u, call, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    return query_sent(u, call,
                      ingot_send_tokenize(u->client, id, text, n, add_special, want_token_text));
}

enum ingot_code upstream_tokenize_chat(struct upstream *u, struct upstream_call *call,
                                       const struct ingot_request *request, bool add_special,
                                       bool want_token_text)
{
    struct ingot_request r;
    char id[INGOT_ID_SIZE];
    enum status st = begin_turns(u, call, request, &r, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    return query_sent(u, call,
                      ingot_send_tokenize_chat(u->client, &r, add_special, want_token_text));
}

enum ingot_code upstream_detokenize(struct upstream *u, struct upstream_call *call,
                                    const int32_t *ids, size_t n)
{
    char id[INGOT_ID_SIZE];
    enum status st = begin_query(u, call, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    return query_sent(u, call, ingot_send_detokenize(u->client, id, ids, n, false));
}

enum ingot_code upstream_apply_template(struct upstream *u, struct upstream_call *call,
                                        const struct ingot_request *request)
{
    struct ingot_request r;
    char id[INGOT_ID_SIZE];
    enum status st = begin_turns(u, call, request, &r, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    return query_sent(u, call, ingot_send_apply_template(u->client, &r));
}

enum ingot_code upstream_stats(struct upstream *u, struct upstream_call *call)
{
    char id[INGOT_ID_SIZE];
    enum status st = begin_query(u, call, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    return query_sent(u, call, ingot_send_stats(u->client, id));
}

static void leave(struct upstream *u, struct upstream_call *call, bool may_go_on)
{
    if (!call->running)
        return;
    struct call_slot *s = &u->calls.slot[call->slot];
    detach(call);
    if (s->next == call)
        drop_next(s); /* the server starts the answer over all the same, for the call before it */
    else
        s->call = NULL;
    if (s->call || s->next)
        return;
    if (s->query)
        call_table_remove(&u->calls, s); /* its end is not waited for */
    else if (may_go_on && s->named && u->client)
        s->abandoned_us = clock_us();
    else
        cancel_slot(u, s);
}

void upstream_cancel(struct upstream *u, struct upstream_call *call)
{
    leave(u, call, false);
}

void upstream_abandon(struct upstream *u, struct upstream_call *call)
{
    leave(u, call, true);
}
