#include "coordinator/worker_port.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "common/hex.h"
#include "common/log.h"
#include "common/wire/sock.h"

enum { TRUSTED_STEPS = 3 }; /* of a group, before its speed is believed */

static const uint64_t step_bounds_us[] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000,
};

struct worker_port {
    void *sock;
    char endpoint[256];
    struct worker_port_config cfg;
    struct worker_group groups[MAX_WORKER_GROUPS];
    struct worker_port_need need;
    uint64_t next_epoch, beat_us;
    struct wire_mem rx, tx;
};

enum status worker_port_open(struct worker_port **out, void *zmq_ctx,
                             const struct worker_port_config *cfg)
{
    struct sock_config sc = {.max_message = (size_t)64 << 20, .linger_ms = 500};
    TRY(sock_check_endpoint(cfg->endpoint, true, cfg->allow_remote));
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
    sock_close(l->sock);
    wire_mem_fini(&l->rx);
    wire_mem_fini(&l->tx);
    free(l);
}

void *worker_port_socket(struct worker_port *l)
{
    return l->sock;
}

const char *worker_port_endpoint(const struct worker_port *l)
{
    return l->endpoint;
}

void worker_port_require(struct worker_port *l, const struct worker_port_need *need)
{
    l->need = *need;
}

const struct worker_group *worker_port_group(const struct worker_port *l, int i)
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
        if (g->used && fits && (!first || g->epoch < first->epoch))
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

static void lost(struct worker_port_event *ev, struct worker_group *g, const char *why)
{
    ev->kind = WORKER_PORT_LOST;
    ev->group = g;
    snprintf(ev->why, sizeof ev->why, "%s", why);
}

/* Fences the group: its epoch is never accepted again.  ev->group stays readable until the slot is
 * used. */
static void fence(struct worker_port *l, struct worker_port_event *ev, struct worker_group *g,
                  const char *why)
{
    struct worker_msg msg = {.type = WMSG_SHUTDOWN, .u.beat.epoch = g->epoch};
    send_to(l, g->identity, g->n_identity, &msg); /* best effort: it may be gone */
    lost(ev, g, why);
    g->used = false;
}

void worker_port_drop(struct worker_port *l, struct worker_group *g, const char *why,
                      struct worker_port_event *ev)
{
    fence(l, ev, g, why);
}

void worker_port_refuse(struct worker_port *l, struct worker_group *g, const char *why)
{
    struct worker_msg msg = {.type = WMSG_REFUSED, .u.refused = why};
    log_line(LOG_WARN, "worker group of pid %llu refused: %s", (unsigned long long)g->pid, why);
    send_to(l, g->identity, g->n_identity, &msg);
    g->used = false;
}

/* ---- what a group must fit ---- */

/* Sizes that a Hello may have; a worker's options allow no others. */
static const char *impossible(const struct worker_port *l, const struct worker_hello *h, char *buf,
                              size_t n)
{
    const struct {
        const char *name;
        uint64_t value, least, most;
    } rows[] = {
        {"world", h->world, 1, 1024},
        {"vocab", h->vocab, l->need.model_vocab, l->need.model_vocab},
        {"max_ctx", h->max_ctx, 2, l->need.model_max_ctx},
        {"block_len", h->block_len, 1, 4096},
        {"n_blocks", h->n_blocks, 1, 100000000},
        {"n_blocks * block_len", (uint64_t)h->n_blocks * h->block_len, 1, INT32_MAX},
        {"max_step_tokens", h->max_step_tokens, 1, 65536},
        {"max_seqs", h->max_seqs, 1, 4096},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most) {
            snprintf(buf, n,
                     "its Hello says %s %" PRIu64 ", which must be in [%" PRIu64 ", %" PRIu64 "]",
                     rows[i].name, rows[i].value, rows[i].least, rows[i].most);
            return buf;
        }
    return NULL;
}

static const char *other_shape(const struct worker_port_need *w, const struct worker_hello *h,
                               char *buf, size_t n)
{
    if (h->block_len != w->block_len)
        snprintf(buf, n, "block length %u, this server has %u", h->block_len, w->block_len);
    else if (h->max_ctx < w->max_ctx || h->max_step_tokens < w->max_step_tokens ||
             h->max_seqs < w->max_seqs)
        snprintf(buf, n,
                 "max_ctx %u, max_step_tokens %u, max_seqs %u: this server needs %u, %u, %u",
                 h->max_ctx, h->max_step_tokens, h->max_seqs, w->max_ctx, w->max_step_tokens,
                 w->max_seqs);
    else
        return NULL;
    return buf;
}

static const char *other_digest(const char *name, const uint8_t *its, const uint8_t *ours,
                                const char *from, char *buf, size_t n)
{
    char a[2 * SHA256_BYTES + 1], b[2 * SHA256_BYTES + 1];
    hex_of(its, SHA256_BYTES, a);
    hex_of(ours, SHA256_BYTES, b);
    snprintf(buf, n, "the %s differs: the group has %s, this server %s (%s)", name, a, b, from);
    return buf;
}

/* Why a group with that identity cannot serve here, or NULL. */
static const char *other_identity(const struct worker_port_need *w, const struct worker_group *g,
                                  char *buf, size_t n)
{
    if (w->has_weights && g->has_weights && memcmp(g->weights, w->weights, SHA256_BYTES) != 0)
        return other_digest("weights digest (configuration and weights)", g->weights, w->weights,
                            w->weights_from, buf, n);
    if (w->has_text && g->has_text && memcmp(g->text, w->text, SHA256_BYTES) != 0)
        return other_digest("text digest (tokenizer, templates, end ids, generation defaults)",
                            g->text, w->text, "own", buf, n);
    if (*w->numerics && strcmp(g->numerics, w->numerics) != 0) {
        snprintf(buf, n, "the numerics id differs: the group has %s, this server %s", g->numerics,
                 w->numerics);
        return buf;
    }
    return NULL;
}

/* Why a group cannot serve, or NULL.  g: filled from the Hello. */
static const char *unfit(const struct worker_port *l, const struct worker_hello *h,
                         const struct worker_group *g, char *buf, size_t n)
{
    if (h->wire_version != WORKER_WIRE_VERSION) {
        snprintf(buf, n, "worker protocol %u, this coordinator speaks %d: use one build",
                 h->wire_version, WORKER_WIRE_VERSION);
        return buf;
    }
    const char *why = other_identity(&l->need, g, buf, n);
    if (!why)
        why = impossible(l, h, buf, n);
    if (!why && l->need.has_shape)
        why = other_shape(&l->need, h, buf, n);
    return why;
}

static void fill_group(struct worker_group *g, const struct worker_hello *h)
{
    g->launch = h->launch;
    g->pid = h->pid;
    snprintf(g->numerics, sizeof g->numerics, "%s", h->numerics);
    g->has_weights = h->has_weights;
    g->has_text = h->has_text;
    memcpy(g->weights, h->weights, sizeof g->weights);
    memcpy(g->text, h->text, sizeof g->text);
    snprintf(g->model, sizeof g->model, "%s", h->model);
    snprintf(g->backend, sizeof g->backend, "%s", h->backend);
    snprintf(g->coll, sizeof g->coll, "%s", h->coll);
    g->world = h->world;
    g->vocab = h->vocab;
    g->max_ctx = h->max_ctx;
    g->block_len = h->block_len;
    g->n_blocks = h->n_blocks;
    g->max_step_tokens = h->max_step_tokens;
    g->max_seqs = h->max_seqs;
}

static void on_hello(struct worker_port *l, const uint8_t *id, size_t n_id,
                     const struct worker_hello *h, uint64_t now_us, struct worker_port_event *ev)
{
    char why[512];
    struct worker_group *g = NULL, new = {.used = true, .heard_us = now_us};
    struct worker_msg reply = {.type = WMSG_REFUSED};
    fill_group(&new, h);
    reply.u.refused = unfit(l, h, &new, why, sizeof why);
    for (int i = 0; i < MAX_WORKER_GROUPS && !g; i++)
        if (!l->groups[i].used)
            g = &l->groups[i];
    if (!reply.u.refused && !g)
        reply.u.refused = "too many worker groups";
    if (reply.u.refused) {
        log_line(LOG_WARN, "worker group of pid %llu refused: %s", (unsigned long long)h->pid,
                 reply.u.refused);
        send_to(l, id, n_id, &reply);
        return;
    }
    histogram_init(&new.step_us, step_bounds_us, ARRAY_LEN(step_bounds_us));
    histogram_init(&new.collective_us, step_bounds_us, ARRAY_LEN(step_bounds_us));
    *g = new;
    g->epoch = ++l->next_epoch;
    memcpy(g->identity, id, n_id);
    g->n_identity = (uint8_t)n_id;
    reply.type = WMSG_WELCOME;
    reply.u.welcome = (struct worker_welcome){g->epoch, l->cfg.heartbeat_ms, l->cfg.lease_ms};
    if (!send_to(l, id, n_id, &reply)) {
        g->used = false;
        return;
    }
    ev->kind = WORKER_PORT_JOINED;
    ev->group = g;
}

static uint64_t step_limit_us(const struct worker_port *l, const struct worker_group *g,
                              uint32_t n_tokens)
{
    uint64_t least = (uint64_t)l->cfg.step_min_ms * 1000U;
    if (g->steps < TRUSTED_STEPS)
        return (uint64_t)l->cfg.first_step_ms * 1000U;
    uint64_t guess = 10 * (g->max_step_us + g->max_us_per_token * n_tokens);
    return guess > least ? guess : least;
}

/* From now on the group is held to answer its oldest step. */
static void begin_step(const struct worker_port *l, struct worker_group *g, uint64_t now_us)
{
    g->sent[0].begin_us = now_us;
    g->sent[0].deadline_us = now_us + step_limit_us(l, g, g->sent[0].n_tokens);
}

static void note_speed(struct worker_group *g, uint64_t us, uint32_t n_tokens)
{
    g->steps++;
    histogram_add(&g->step_us, us);
    g->ring[g->n_ring++ % ARRAY_LEN(g->ring)] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
    if (us > g->max_step_us)
        g->max_step_us = us;
    if (us / (n_tokens ? n_tokens : 1) > g->max_us_per_token)
        g->max_us_per_token = us / (n_tokens ? n_tokens : 1);
}

static void on_result(const struct worker_port *l, struct worker_group *g,
                      const struct step_result *r, uint64_t now_us, struct worker_port_event *ev)
{
    if (!g->active || g->n_sent == 0 || r->epoch != g->epoch)
        return; /* of a step that is void */
    note_speed(g, now_us - g->sent[0].begin_us, g->sent[0].n_tokens);
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

static struct worker_group *group_of(struct worker_port *l, const uint8_t *id, size_t n)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++)
        if (l->groups[i].used && l->groups[i].n_identity == n &&
            memcmp(l->groups[i].identity, id, n) == 0)
            return &l->groups[i];
    return NULL;
}

static void on_message(struct worker_port *l, const uint8_t *id, size_t n_id, const void *data,
                       size_t n, uint64_t now_us, struct worker_port_event *ev)
{
    struct worker_msg m;
    char why[400];
    struct worker_group *g = group_of(l, id, n_id);

    wire_mem_reset(&l->rx);
    enum status st = worker_msg_decode(&m, data, n, &l->rx);
    if (st != ST_OK) {
        log_failure(LOG_WARN, st, "a worker's message was dropped");
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
            on_hello(l, id, n_id, &m.u.hello, now_us, ev);
        return;
    }
    if (!g) {
        struct worker_msg end = {.type = WMSG_SHUTDOWN};
        send_to(l, id, n_id, &end); /* fenced or of an earlier coordinator */
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

static bool receive(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    zmq_msg_t id, body;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    bool got = zmq_msg_recv(&id, l->sock, ZMQ_DONTWAIT) >= 0;
    if (got && zmq_msg_more(&id) && zmq_msg_recv(&body, l->sock, ZMQ_DONTWAIT) >= 0 &&
        !zmq_msg_more(&body) && zmq_msg_size(&id) <= 255)
        on_message(l, zmq_msg_data(&id), zmq_msg_size(&id), zmq_msg_data(&body),
                   zmq_msg_size(&body), now_us, ev);
    else
        while (got && zmq_msg_more(&body)) /* not ours: read it to its end */
            got = zmq_msg_recv(&body, l->sock, ZMQ_DONTWAIT) >= 0;
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return got;
}

/* Groups that do not fit any more: what is needed has changed, or their digest became known. */
static bool check_identities(struct worker_port *l, struct worker_port_event *ev)
{
    char why[512];
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        if (!g->used || !other_identity(&l->need, g, why, sizeof why))
            continue;
        worker_port_refuse(l, g, why);
        lost(ev, g, why);
        return true;
    }
    return false;
}

static bool check_clocks(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        if (!g->used)
            continue;
        if (g->n_sent > 0 && now_us > g->sent[0].deadline_us) {
            char why[160];
            snprintf(why, sizeof why, "no answer to a step of %u tokens within %llu ms",
                     g->sent[0].n_tokens,
                     (unsigned long long)(now_us - g->sent[0].begin_us) / 1000);
            fence(l, ev, g, why);
            return true;
        }
        if (g->n_sent == 0 && now_us - g->heard_us > (uint64_t)l->cfg.silence_ms * 1000U) {
            fence(l, ev, g, "silent for too long");
            return true;
        }
    }
    return false;
}

void worker_port_poll(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev)
{
    ev->kind = WORKER_PORT_NONE;
    if (check_identities(l, ev))
        return;
    while (ev->kind == WORKER_PORT_NONE && receive(l, now_us, ev))
        ;
    if (ev->kind == WORKER_PORT_WEIGHTS && check_identities(l, ev))
        return;
    if (ev->kind == WORKER_PORT_NONE)
        check_clocks(l, now_us, ev);
}

enum status worker_port_send_plan(struct worker_port *l, const struct step_plan *plan,
                                  uint64_t now_us)
{
    struct worker_group *g = worker_port_active(l);
    if (!g)
        FAIL(ST_PEER, "no worker group is active");
    if (g->n_sent == MAX_STEPS_IN_FLIGHT)
        FAIL(ST_BUG, "%d steps are in flight", MAX_STEPS_IN_FLIGHT);
    struct worker_msg msg = {.type = WMSG_STEP_PLAN};
    msg.u.plan = *plan;
    msg.u.plan.epoch = g->epoch;
    g->plan_epoch = plan->epoch;
    g->sent[g->n_sent++].n_tokens = plan->n_tokens;
    if (g->n_sent == 1)
        begin_step(l, g, now_us);
    if (!send_to(l, g->identity, g->n_identity, &msg)) {
        g->sent[0].deadline_us = 0; /* worker_port_poll reports the loss at once */
        FAIL(ST_PEER, "the worker group cannot be reached");
    }
    return ST_OK;
}

void worker_port_tend(struct worker_port *l, uint64_t now_us)
{
    if (now_us - l->beat_us < (uint64_t)l->cfg.heartbeat_ms * 1000U)
        return;
    l->beat_us = now_us;
    for (int i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *g = &l->groups[i];
        struct worker_msg msg = {.type = WMSG_HEARTBEAT, .u.beat = {.epoch = g->epoch}};
        if (g->used && !send_to(l, g->identity, g->n_identity, &msg) && errno == EHOSTUNREACH)
            g->heard_us = g->sent[0].deadline_us = 0; /* it is gone: worker_port_poll reports it */
    }
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
