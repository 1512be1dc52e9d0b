#include "coordinator/worker_port.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "common/log.h"
#include "common/wire/sock.h"
#include "coordinator/log_limit.h"

enum {
    PAUSED_US = 1000 * 1000, /* between two polls, which are 200 ms apart at most: an own pause */
    PROBES = 20,             /* of the groups, a millisecond apart, after a connection has ended */
    KEPT_PLACES = 2,         /* for groups with this server's digests */
    GIVEN_UP = 16,           /* epochs that are remembered for watchers who come late */
};

static const char lost_key[] = "its key may not serve any more";

static const uint64_t step_bounds_us[] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000,
};

struct worker_port {
    void *sock, *monitor;    /* monitor: of connections that end */
    uint32_t probes;         /* still to be sent: see PROBES */
    uint64_t polled_us;      /* last call of worker_port_poll; 0: none */
    struct step_clock clock; /* of the group that was lost last */
    bool has_clock;
    uint32_t n_late; /* groups lost in a row by a deadline, without a finished step */
    char endpoint[256];
    struct worker_port_config cfg;
    struct worker_group groups[MAX_WORKER_GROUPS];
    struct worker_port_need need;
    uint64_t next_epoch, beat_us;
    uint64_t given_up[GIVEN_UP]; /* ring: epochs of groups, the last ones */
    uint32_t n_given_up;
    struct wire_mem rx, tx;
    struct log_limit bad; /* of the lines about messages and groups that are refused */
};

enum status worker_port_open(struct worker_port **out, void *zmq_ctx,
                             const struct worker_port_config *cfg)
{
    /* The groups' own heartbeats tell who is silent. */
    struct sock_config sc = {.max_message = (size_t)64 << 20,
                             .linger_ms = 500,
                             .curve = gatekeeper_curve(cfg->keys, DOMAIN_WORKERS)};
    TRY(sock_check_endpoint(cfg->endpoint, true, cfg->allow_remote || cfg->keys));
    struct worker_port *l = calloc(1, sizeof *l);
    if (!l)
        FAIL(ST_NOMEM, "no memory for the worker side");
    l->cfg = *cfg;
    /* epochs go on rising over restarts of the coordinator: an old group can never match */
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    l->next_epoch = (uint64_t)ts.tv_sec * 1000U + (uint64_t)ts.tv_nsec / 1000000U;
    enum status st = wire_mem_init(&l->rx, (size_t)256 << 20);
    if (st == ST_OK)
        st = wire_mem_init(&l->tx, (size_t)256 << 20);
    if (st == ST_OK)
        st = sock_bind_router(&l->sock, zmq_ctx, cfg->endpoint, &sc, l->endpoint,
                              sizeof l->endpoint);
    if (st == ST_OK)
        st = sock_watch_ends(&l->monitor, zmq_ctx, l->sock);
    if (st != ST_OK) {
        worker_port_close(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

void worker_port_close(struct worker_port *l)
{
    if (!l)
        return;
    if (l->sock)
        sock_unlink(l->endpoint);
    sock_close_watched(l->sock, l->monitor);
    wire_mem_fini(&l->rx);
    wire_mem_fini(&l->tx);
    free(l);
}

void *worker_port_socket(struct worker_port *l)
{
    return l->sock;
}

void *worker_port_monitor(struct worker_port *l)
{
    return l->monitor;
}

bool worker_port_urgent(const struct worker_port *l)
{
    return l->probes > 0;
}

const char *worker_port_endpoint(const struct worker_port *l)
{
    return l->endpoint;
}

void worker_port_require(struct worker_port *l, const struct worker_port_need *need)
{
    l->need = *need;
}

struct worker_group *worker_port_group(struct worker_port *l, uint32_t i)
{
    return l->groups[i].used ? &l->groups[i] : NULL;
}

struct worker_group *worker_port_active(struct worker_port *l)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++)
        if (l->groups[i].used && l->groups[i].active)
            return &l->groups[i];
    return NULL;
}

struct worker_group *worker_port_promote(struct worker_port *l, bool known, const uint8_t *weights)
{
    struct worker_group *first = NULL;
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        bool fits = !known || (g->has_weights &&
                               (!weights || memcmp(g->weights, weights, SHA256_BYTES) == 0));
        if (g->used && !g->active && fits && (!first || g->epoch < first->epoch))
            first = g;
    }
    if (first)
        first->active = true;
    return first;
}

static bool send_to(struct worker_port *l, const uint8_t *identity, size_t n_identity,
                    const struct worker_msg *msg)
{
    struct wire_bytes bytes;
    wire_mem_reset(&l->tx);
    enum status st = worker_msg_encode(&bytes, msg, &l->tx);
    if (st != ST_OK) {
        log_failure(LOG_ERROR, st, "a message to a worker group could not be encoded");
        return false;
    }
    return zmq_send(l->sock, identity, n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
           zmq_send(l->sock, bytes.data, bytes.n, ZMQ_DONTWAIT) >= 0;
}

/* Sends to a group; false: it cannot be reached, which worker_port_poll reports. */
static bool send_group(struct worker_port *l, struct worker_group *g, const struct worker_msg *msg)
{
    if (send_to(l, g->identity, g->n_identity, msg))
        return true;
    g->broken = errno == EAGAIN ? "it takes no more messages" : "its connection has ended";
    return false;
}

static void lost(struct worker_port_event *ev, struct worker_group *g, const char *why)
{
    ev->kind = WORKER_PORT_LOST;
    ev->group = g;
    snprintf(ev->why, sizeof ev->why, "%s", why);
}

/* Fences the group: its epoch is never accepted again.  A group that is alive ends with the exit
 * code of a refused one, so that its launcher starts it again.  ev->group stays readable until the
 * slot is used. */
static void fence(struct worker_port *l, struct worker_port_event *ev, struct worker_group *g,
                  const char *why)
{
    char text[600];
    struct worker_msg msg = {.type = WMSG_REFUSED, .u.refused = text};
    snprintf(text, sizeof text, "it was fenced: %s", why);
    send_to(l, g->identity, g->n_identity, &msg); /* best effort: it may be gone */
    lost(ev, g, why);
    g->used = false;
    if (g->clock.n > 0) {
        l->clock = g->clock;
        l->has_clock = true;
    }
}

/* Fences a group that answers no more.  Its launcher is told: the group may not end by itself.  (One whose connection has
 * ended may come back with its weights.) */
static void give_up(struct worker_port *l, struct worker_port_event *ev, struct worker_group *g,
                    const char *why)
{
    struct worker_msg msg = {.type = WMSG_REFUSED, .u.refused = why};
    if (g->n_watcher)
        send_to(l, g->watcher, g->n_watcher, &msg);
    l->given_up[l->n_given_up++ % GIVEN_UP] = g->epoch;
    fence(l, ev, g, why);
}

void worker_port_drop(struct worker_port *l, struct worker_group *g, const char *why,
                      struct worker_port_event *ev)
{
    fence(l, ev, g, why);
}

const char *worker_group_name(const struct worker_group *g, char out[WORKER_GROUP_NAME])
{
    snprintf(out, WORKER_GROUP_NAME, "hosts %.400s%s%s, pid %" PRIu64,
             *g->hosts ? g->hosts : "unknown", *g->address ? ", connected from " : "", g->address,
             g->pid);
    return out;
}

static void log_refused(const struct worker_group *g, const char *why)
{
    char name[WORKER_GROUP_NAME];
    log_line(LOG_WARN, "worker group (%s) refused: %s", worker_group_name(g, name), why);
}

void worker_port_refuse(struct worker_port *l, struct worker_group *g, const char *why)
{
    struct worker_msg msg = {.type = WMSG_REFUSED, .u.refused = why};
    log_refused(g, why);
    send_to(l, g->identity, g->n_identity, &msg);
    g->used = false;
}

/* ---- groups that come ---- */

/* A connection without a key came by ipc, or no keys are asked for. */
static bool may_serve(const struct worker_port *l, const char *key)
{
    const char *name;
    return !*key || (gatekeeper_roles(l->cfg.keys, key, &name) & ROLE_SERVE);
}

static void fill_group(struct worker_group *g, const struct worker_hello *h)
{
    g->launch = h->launch;
    g->pid = h->pid;
    snprintf(g->numerics, sizeof g->numerics, "%s", h->numerics);
    snprintf(g->hosts, sizeof g->hosts, "%s", h->hosts);
    g->has_weights = h->has_weights;
    g->has_text = h->has_text;
    memcpy(g->weights, h->weights, sizeof g->weights);
    memcpy(g->text, h->text, sizeof g->text);
    snprintf(g->model, sizeof g->model, "%s", h->model);
    snprintf(g->backend, sizeof g->backend, "%s", h->backend);
    snprintf(g->coll, sizeof g->coll, "%s", h->coll);
    g->masks = h->masks;
    g->embedding = h->embedding;
    g->headless = h->headless;
    g->world = h->world;
    g->vocab = h->vocab;
    g->max_ctx = h->max_ctx;
    g->block_len = h->block_len;
    g->n_blocks = h->n_blocks;
    g->max_step_tokens = h->max_step_tokens;
    g->max_seqs = h->max_seqs;
    g->n_snapshots = h->n_snapshots;
}

/* Its weights are this server's for certain. */
static bool is_known(const struct worker_port *l, const struct worker_group *g)
{
    return l->need.has_weights && g->has_weights &&
           memcmp(g->weights, l->need.weights, sizeof g->weights) == 0;
}

/* A place for a new group, or NULL.  Groups whose digest is not known leave some to those that have
 * this server's. */
static struct worker_group *free_place(struct worker_port *l, const struct worker_group *new)
{
    struct worker_group *first = NULL;
    int n_free = 0;
    for (int i = MAX_WORKER_GROUPS - 1; i >= 0; i--) {
        if (l->groups[i].used)
            continue;
        first = &l->groups[i];
        n_free++;
    }
    return n_free > KEPT_PLACES || is_known(l, new) ? first : NULL;
}

/* Of the connection that brought a message. */
struct sender {
    const uint8_t *id;
    size_t n_id;
    const char *key, *address; /* "": none */
};

static void on_hello(struct worker_port *l, const struct sender *from, const struct worker_hello *h,
                     uint64_t now_us, struct worker_port_event *ev)
{
    char why[512];
    struct worker_group *g = NULL, new = {.used = true, .heard_us = now_us};
    struct worker_msg reply = {.type = WMSG_REFUSED};
    fill_group(&new, h);
    memcpy(new.key, from->key, strlen(from->key));
    snprintf(new.address, sizeof new.address, "%s", from->address);
    reply.u.refused =
        may_serve(l, from->key) ? group_unfit(&l->need, h, why, sizeof why) : lost_key;
    if (!reply.u.refused)
        g = free_place(l, &new);
    if (!reply.u.refused && !g)
        reply.u.refused = "too many worker groups";
    if (reply.u.refused) {
        uint32_t hidden;
        if (log_limit_take(&l->bad, now_us, &hidden))
            log_refused(&new, reply.u.refused);
        send_to(l, from->id, from->n_id, &reply);
        return;
    }
    histogram_init(&new.step_us, step_bounds_us, ARRAY_LEN(step_bounds_us));
    histogram_init(&new.collective_us, step_bounds_us, ARRAY_LEN(step_bounds_us));
    *g = new;
    g->slot = (uint32_t)(g - l->groups);
    if (l->next_epoch < h->last_epoch) /* of a coordinator whose clock is ahead */
        l->next_epoch = h->last_epoch;
    g->epoch = ++l->next_epoch;
    step_clock_init(&g->clock, l->has_clock ? &l->clock : NULL);
    memcpy(g->identity, from->id, from->n_id);
    g->n_identity = (uint8_t)from->n_id;
    reply.type = WMSG_WELCOME;
    reply.u.welcome = (struct worker_welcome){g->epoch, l->cfg.heartbeat_ms, l->cfg.lease_ms};
    if (!send_to(l, from->id, from->n_id, &reply)) {
        g->used = false;
        return;
    }
    ev->kind = WORKER_PORT_JOINED;
    ev->group = g;
}

/* From now on the group is held to answer its oldest step. */
static void begin_step(const struct worker_port *l, struct worker_group *g, uint64_t now_us)
{
    const struct step_limits limits = {.least_us = 1000U * (uint64_t)l->cfg.step_min_ms,
                                       .first_us = 1000U * (uint64_t)l->cfg.first_step_ms,
                                       .n_late = l->n_late};
    g->sent[0].begin_us = now_us;
    g->sent[0].deadline_us = now_us + step_clock_limit_us(&g->clock, &g->sent[0].load, &limits);
}

static void note_speed(struct worker_group *g, uint64_t us)
{
    step_clock_learn(&g->clock, &g->sent[0].load, us);
    histogram_add(&g->step_us, us);
    g->ring[g->n_ring++ % ARRAY_LEN(g->ring)] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static void on_result(struct worker_port *l, struct worker_group *g, const struct step_result *r,
                      uint64_t now_us, struct worker_port_event *ev)
{
    char why[96];
    if (!g->active || g->n_sent == 0 || r->epoch != g->epoch)
        return; /* of a step that is void */
    if (r->n_embeddings && r->dim != g->embedding) {
        snprintf(why, sizeof why, "its embeddings have %u components, one came with %u",
                 g->embedding, r->dim);
        fence(l, ev, g, why);
        return;
    }
    note_speed(g, now_us - g->sent[0].begin_us);
    l->n_late = 0;
    if (g->world > 1)
        histogram_add(&g->collective_us, r->comm_us);
    g->n_sent--;
    memmove(g->sent, g->sent + 1, g->n_sent * sizeof *g->sent);
    if (g->n_sent > 0)
        begin_step(l, g, now_us);
    ev->kind = WORKER_PORT_RESULT;
    ev->group = g;
    ev->result = *r;
    ev->result.epoch = g->plan_epoch; /* the scheduler counts its own */
}

static void on_weights(const struct worker_weights *w, struct worker_group *g,
                       struct worker_port_event *ev)
{
    if (w->epoch != g->epoch || g->has_weights)
        return;
    g->has_weights = true;
    memcpy(g->weights, w->digest, sizeof g->weights);
    ev->kind = WORKER_PORT_WEIGHTS;
    ev->group = g;
}

static void on_figures(struct worker_port *l, const struct worker_figures *m,
                       struct worker_group *g, struct worker_port_event *ev)
{
    char why[80];
    if (m->epoch != g->epoch)
        return;
    if (m->ranks.n == g->world) {
        group_figures_set(&g->figures, &m->ranks);
        return;
    }
    snprintf(why, sizeof why, "it has %u ranks and sent figures of %u", g->world, m->ranks.n);
    fence(l, ev, g, why);
}

static struct worker_group *group_of(struct worker_port *l, const uint8_t *id, size_t n)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++)
        if (l->groups[i].used && l->groups[i].n_identity == n &&
            memcmp(l->groups[i].identity, id, n) == 0)
            return &l->groups[i];
    return NULL;
}

/* A launcher asks to be told when the group is given up.  It asks again and again: the last one is told. */
static void on_watch(struct worker_port *l, const struct sender *from, uint64_t epoch)
{
    struct worker_msg reply = {.type = WMSG_SHUTDOWN};
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        if (!g->used || g->epoch != epoch || !may_serve(l, from->key))
            continue;
        memcpy(g->watcher, from->id, from->n_id);
        g->n_watcher = (uint8_t)from->n_id;
        return;
    }
    for (uint32_t i = 0; i < GIVEN_UP && i < l->n_given_up; i++)
        if (l->given_up[i] == epoch)
            reply = (struct worker_msg){.type = WMSG_REFUSED, .u.refused = "it was given up"};
    send_to(l, from->id, from->n_id, &reply);
}

static void on_message(struct worker_port *l, const struct sender *from, const void *data, size_t n,
                       uint64_t now_us, struct worker_port_event *ev)
{
    struct worker_msg m;
    char why[400];
    struct worker_group *g = group_of(l, from->id, from->n_id);

    wire_mem_reset(&l->rx);
    enum status st = worker_msg_decode(&m, data, n, &l->rx);
    if (st != ST_OK) {
        uint32_t hidden;
        if (log_limit_take(&l->bad, now_us, &hidden))
            log_line(LOG_WARN, "a worker's message was dropped (and %u more): %s", hidden,
                     status_text());
        if (g) {
            snprintf(why, sizeof why, "it sent a bad message: %.300s", status_text());
            fence(l, ev, g, why);
        }
        return;
    }
    if (m.type == WMSG_HELLO) {
        if (g) /* the same connection says Hello again: its process began anew */
            fence(l, ev, g, "it said Hello again");
        else
            on_hello(l, from, &m.u.hello, now_us, ev);
        return;
    }
    if (!g && m.type == WMSG_WATCH) {
        on_watch(l, from, m.u.beat.epoch);
        return;
    }
    if (!g) {
        struct worker_msg end = {.type = WMSG_SHUTDOWN};
        send_to(l, from->id, from->n_id, &end); /* fenced or of an earlier coordinator */
        return;
    }
    g->heard_us = now_us;
    switch (m.type) {
    case WMSG_STEP_RESULT:
        on_result(l, g, &m.u.result, now_us, ev);
        return;
    case WMSG_WEIGHTS:
        on_weights(&m.u.weights, g, ev);
        return;
    case WMSG_FIGURES:
        on_figures(l, &m.u.figures, g, ev);
        return;
    case WMSG_GRAMMAR_READY:
        if (m.u.ready.epoch == g->epoch) {
            ev->kind = WORKER_PORT_GRAMMAR;
            ev->group = g;
            ev->grammar = m.u.ready.id;
        }
        return;
    case WMSG_FAULT:
        snprintf(why, sizeof why, "rank %u: %.300s", m.u.fault.rank, m.u.fault.detail);
        fence(l, ev, g, why);
        return;
    case WMSG_GOODBYE:
        fence(l, ev, g, "it said goodbye");
        return;
    default:
        return; /* a heartbeat: heard_us says it all */
    }
}

static struct sender sender_of(zmq_msg_t *id, zmq_msg_t *body)
{
    static const char ipc[] = "localhost:"; /* so ZeroMQ names processes of this host */
    const char *key = zmq_msg_gets(body, "User-Id"), *address = zmq_msg_gets(body, "Peer-Address");
    return (struct sender){.id = zmq_msg_data(id),
                           .n_id = zmq_msg_size(id),
                           .key = key && strlen(key) == CURVE_TEXT ? key : "",
                           .address =
                               address && strncmp(address, ipc, strlen(ipc)) != 0 ? address : ""};
}

static bool receive(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    zmq_msg_t id, body;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    bool got = zmq_msg_recv(&id, l->sock, ZMQ_DONTWAIT) >= 0;
    if (got && zmq_msg_more(&id) && zmq_msg_recv(&body, l->sock, ZMQ_DONTWAIT) >= 0 &&
        !zmq_msg_more(&body) && zmq_msg_size(&id) <= 255) {
        struct sender from = sender_of(&id, &body);
        on_message(l, &from, zmq_msg_data(&body), zmq_msg_size(&body), now_us, ev);
    } else
        while (got && zmq_msg_more(&body)) /* not ours: read it to its end */
            got = zmq_msg_recv(&body, l->sock, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return got;
}

static struct worker_hello identity_of(const struct worker_group *g)
{
    struct worker_hello h = {
        .has_weights = g->has_weights, .has_text = g->has_text, .numerics = g->numerics};
    memcpy(h.weights, g->weights, sizeof h.weights);
    memcpy(h.text, g->text, sizeof h.text);
    return h;
}

/* Groups that do not fit any more: what is needed has changed, their digest became known, or their key was removed. */
static bool check_identities(struct worker_port *l, struct worker_port_event *ev)
{
    char why[512];
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        struct worker_hello h = identity_of(g);
        if (!g->used)
            continue;
        const char *unfit =
            may_serve(l, g->key) ? group_other_identity(&l->need, &h, why, sizeof why) : lost_key;
        if (!unfit)
            continue;
        worker_port_refuse(l, g, unfit);
        lost(ev, g, unfit);
        return true;
    }
    return false;
}

static void send_beats(struct worker_port *l)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        struct worker_msg msg = {.type = WMSG_HEARTBEAT, .u.beat = {.epoch = g->epoch}};
        if (g->used && !send_group(l, g, &msg) && errno == EAGAIN)
            g->broken = NULL; /* a lost heartbeat */
    }
}

/* A connection has ended, but whose is not told: heartbeats find out.  The socket may learn of it a
 * moment later than the monitor. */
static void probe(struct worker_port *l)
{
    if (sock_take_ends(l->monitor))
        l->probes = PROBES;
    if (l->probes == 0)
        return;
    l->probes--;
    send_beats(l);
}

/* After an own pause the groups' times begin again: their messages may still be on the way. */
static void forgive_pause(struct worker_port *l, uint64_t now_us)
{
    uint64_t pause = l->polled_us ? now_us - l->polled_us : 0;
    l->polled_us = now_us;
    if (pause <= PAUSED_US)
        return;
    log_line(LOG_WARN, "this process was paused for %" PRIu64 " ms: no group's time counts it",
             pause / 1000);
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        g->heard_us += pause;
        g->sent[0].begin_us += pause;
        g->sent[0].deadline_us += pause;
    }
}

static bool check_clocks(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        if (!g->used)
            continue;
        if (g->broken) {
            fence(l, ev, g, g->broken);
            return true;
        }
        if (g->n_sent > 0 && now_us > g->sent[0].deadline_us) {
            char why[160];
            snprintf(why, sizeof why, "no answer to a step of %u tokens within %llu ms",
                     g->sent[0].n_tokens,
                     (unsigned long long)(now_us - g->sent[0].begin_us) / 1000);
            l->n_late++;
            give_up(l, ev, g, why);
            return true;
        }
        if (g->n_sent == 0 && now_us > g->heard_us + (uint64_t)l->cfg.silence_ms * 1000U) {
            give_up(l, ev, g, "silent for too long");
            return true;
        }
    }
    return false;
}

void worker_port_poll(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    ev->kind = WORKER_PORT_NONE;
    forgive_pause(l, now_us);
    probe(l);
    if (check_identities(l, ev))
        return;
    while (ev->kind == WORKER_PORT_NONE && receive(l, now_us, ev))
        ;
    if (ev->kind == WORKER_PORT_WEIGHTS && check_identities(l, ev))
        return;
    if (ev->kind == WORKER_PORT_NONE)
        check_clocks(l, now_us, ev);
}

enum status worker_port_send_plan(struct worker_port *l, struct worker_group *g,
                                  const struct step_plan *plan, uint64_t now_us)
{
    if (g->n_sent == MAX_STEPS_IN_FLIGHT)
        FAIL(ST_BUG, "%d steps are in flight", MAX_STEPS_IN_FLIGHT);
    struct worker_msg msg = {.type = WMSG_STEP_PLAN};
    msg.u.plan = *plan;
    msg.u.plan.epoch = g->epoch;
    g->plan_epoch = plan->epoch;
    g->sent[g->n_sent++] =
        (struct sent_step){.n_tokens = plan->n_tokens, .load = step_clock_load(plan)};
    if (g->n_sent == 1)
        begin_step(l, g, now_us);
    if (!send_group(l, g, &msg))
        FAIL(ST_PEER, "the worker group cannot be reached: %s", g->broken);
    return ST_OK;
}

enum status worker_port_send(struct worker_port *l, struct worker_group *g,
                             const struct worker_msg *msg)
{
    if (!send_group(l, g, msg))
        FAIL(ST_PEER, "the worker group cannot be reached: %s", g->broken);
    return ST_OK;
}

void worker_port_tend(struct worker_port *l, uint64_t now_us)
{
    if (now_us - l->beat_us < (uint64_t)l->cfg.heartbeat_ms * 1000U)
        return;
    l->beat_us = now_us;
    send_beats(l);
}

void worker_port_shutdown(struct worker_port *l)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        struct worker_msg msg = {.type = WMSG_SHUTDOWN, .u.beat.epoch = g->epoch};
        if (g->used)
            send_to(l, g->identity, g->n_identity, &msg);
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void worker_group_step_percentiles(const struct worker_group *g, uint64_t *p50, uint64_t *p99)
{
    uint32_t sorted[ARRAY_LEN(g->ring)];
    uint32_t n = g->n_ring < ARRAY_LEN(g->ring) ? g->n_ring : (uint32_t)ARRAY_LEN(g->ring);
    *p50 = *p99 = 0;
    if (n == 0)
        return;
    memcpy(sorted, g->ring, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    *p50 = sorted[n / 2];
    *p99 = sorted[n - 1 - n / 100];
}
