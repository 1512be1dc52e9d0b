#include "coordinator/client_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#include "common/log.h"

enum { MAX_OUTBOX = 64, PROBE_ALL_US = 10 * 1000 * 1000, REVOKED_US = 200 * 1000 };

struct out_msg {
    struct out_msg *next;
    size_t n;
    uint8_t data[];
};

struct client_port {
    void *sock;
    char endpoint[256];
    char bound[1024]; /* all of them, each ended by a NUL, then an empty one */
    size_t n_bound;
    const struct gatekeeper *keys;
    struct client *clients;
    uint32_t n_clients, max_clients, peer_clients;
    bool crowded; /* one was refused since the last probes: have others gone? */
    uint64_t next_id;
    struct wire_mem mem; /* for encoding */
    zmq_msg_t identity, body;
    bool holds;  /* identity and body hold a received message */
    void *guard; /* tells of new connections */
    int max_fd;  /* greater descriptors are kept for workers and files */
    struct log_limit too_many;
    uint64_t now_us; /* of the last call of client_port_tend */
};

/* Where processes of this user find the server to operate it, beside the TCP port where they ask: the kernel tells
 * whose they are.  An abstract name (Linux) needs no file. */
static void bind_control(struct client_port *f, const struct sock_config *sc)
{
    char control[SOCK_CONTROL_SIZE];
    if (!sock_control_endpoint(control, f->endpoint))
        return;
    enum status st = sock_bind_more(f->sock, control, sc);
    if (st != ST_OK)
        log_failure(LOG_WARN, st, "`ingot drain` needs an ipc endpoint or a key");
}

static enum status bind_all(struct client_port *f, void *ctx, const struct client_port_config *cfg)
{
    struct sock_config sc = {.max_message = 2 * cfg->max_message, /* to be answered, not read */
                             .linger_ms = 1000,
                             .curve = gatekeeper_curve(cfg->keys, DOMAIN_CLIENTS)};
    char list[1024], *save = NULL;
    if (strlen(cfg->endpoints) >= sizeof list)
        FAIL(ST_RANGE, "the list of endpoints is longer than %zu bytes", sizeof list - 1);
    memcpy(list, cfg->endpoints, strlen(cfg->endpoints) + 1);
    for (char *e = strtok_r(list, ",", &save); e; e = strtok_r(NULL, ",", &save)) {
        TRY(sock_check_endpoint(e, true, cfg->allow_remote || cfg->keys));
        if (!f->sock)
            TRY(sock_bind_router(&f->sock, ctx, e, &sc, f->endpoint, sizeof f->endpoint));
        else
            TRY(sock_bind_more(f->sock, e, &sc));
        memcpy(f->bound + f->n_bound, e, strlen(e) + 1);
        f->n_bound += strlen(e) + 1;
    }
    if (!f->sock)
        FAIL(ST_RANGE, "no endpoint to listen on");
    bind_control(f, &sc);
    return ST_OK;
}

enum status client_port_open(struct client_port **out, void *zmq_ctx,
                             const struct client_port_config *cfg)
{
    struct client_port *f = calloc(1, sizeof *f);
    if (!f)
        FAIL(ST_NOMEM, "no memory for the client side");
    f->max_clients = cfg->max_clients;
    f->peer_clients = cfg->peer_clients;
    f->keys = cfg->keys;
    f->next_id = 1;
    enum status st = wire_mem_init(&f->mem, MAX_REPLY);
    f->max_fd = cfg->max_fd;
    if (st == ST_OK)
        st = bind_all(f, zmq_ctx, cfg);
    if (st == ST_OK && f->max_fd > 0)
        st = sock_guard_open(&f->guard, zmq_ctx, f->sock);
    if (st != ST_OK) {
        client_port_close(f);
        return st;
    }
    *out = f;
    return ST_OK;
}

static void drop_outbox(struct client *c)
{
    while (c->outbox) {
        struct out_msg *m = c->outbox;
        c->outbox = m->next;
        free(m);
    }
    c->n_outbox = 0;
}

static void release(struct client_port *f)
{
    if (f->holds) {
        zmq_msg_close(&f->identity);
        zmq_msg_close(&f->body);
        f->holds = false;
    }
}

void client_port_close(struct client_port *f)
{
    if (!f)
        return;
    release(f);
    while (f->clients) {
        struct client *c = f->clients;
        f->clients = c->next;
        drop_outbox(c);
        free(c);
    }
    sock_close_watched(f->sock, f->guard);
    for (size_t at = 0; at < f->n_bound; at += strlen(f->bound + at) + 1)
        sock_unlink(f->bound + at);
    wire_mem_fini(&f->mem);
    free(f);
}

void *client_port_socket(struct client_port *f)
{
    return f->sock;
}

void *client_port_guard(struct client_port *f)
{
    return f->guard;
}

void client_port_shed(struct client_port *f, uint64_t now_us)
{
    uint32_t n_closed = sock_guard_close(f->guard, f->max_fd), hidden;
    if (n_closed && log_limit_take(&f->too_many, now_us, &hidden))
        log_line(LOG_WARN, "%u connections were closed: the descriptors up to %d are used",
                 n_closed, f->max_fd);
}

const char *client_port_endpoint(const struct client_port *f)
{
    return f->endpoint;
}

uint32_t client_port_clients(const struct client_port *f)
{
    return f->n_clients;
}

struct client *client_port_find(struct client_port *f, uint64_t id)
{
    for (struct client *c = f->clients; c; c = c->next)
        if (c->id == id)
            return c->gone ? NULL : c;
    return NULL;
}

/* Asks a connection to end: ZeroMQ closes it when its descriptor reads as ended. */
static void hang_up(struct client *c)
{
    if (c->rights.fd >= 0)
        shutdown(c->rights.fd, SHUT_RDWR);
}

static uint32_t clients_of_peer(const struct client_port *f, const char *peer)
{
    uint32_t n = 0;
    for (const struct client *c = f->clients; c; c = c->next)
        n += !c->gone && strcmp(c->rights.peer, peer) == 0;
    return n;
}

/* NULL: there is no room for one more, *why says which bound is reached. */
static struct client *client_of(struct client_port *f, const void *identity, size_t n,
                                const char **why)
{
    for (struct client *c = f->clients; c; c = c->next)
        if (!c->gone && c->n_identity == n && memcmp(c->identity, identity, n) == 0)
            return c;
    struct client_rights rights = client_rights_of(f->keys, &f->body);
    *why = NULL;
    if (f->n_clients >= f->max_clients || n > 255)
        *why = "too many clients are connected (--max-clients)";
    else if (f->peer_clients && clients_of_peer(f, rights.peer) >= f->peer_clients)
        *why = "too many clients of this key, user or address are connected (--tenant-clients)";
    f->crowded = f->crowded || *why;
    struct client *c = *why ? NULL : calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->id = f->next_id++;
    c->rights = rights;
    memcpy(c->identity, identity, n);
    c->n_identity = (uint8_t)n;
    c->next = f->clients;
    f->clients = c;
    f->n_clients++;
    return c;
}

/* the last of the parts must be the body; anything longer is not ours */
static bool receive_parts(struct client_port *f)
{
    zmq_msg_init(&f->identity);
    zmq_msg_init(&f->body);
    f->holds = true;
    if (zmq_msg_recv(&f->identity, f->sock, ZMQ_DONTWAIT) < 0) {
        release(f);
        return false;
    }
    bool good = zmq_msg_more(&f->identity) && zmq_msg_recv(&f->body, f->sock, ZMQ_DONTWAIT) >= 0;
    bool more = good && zmq_msg_more(&f->body);
    while (more) { /* too many parts: read them all, keep none, so that the body is not a frame */
        zmq_msg_t extra;
        zmq_msg_init(&extra);
        more = zmq_msg_recv(&extra, f->sock, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&extra);
        zmq_msg_close(&extra);
        zmq_msg_close(&f->body);
        zmq_msg_init(&f->body);
    }
    return true;
}

/* Answers the message at hand, of a connection beyond a limit. */
static void refuse_client(struct client_port *f, const char *why)
{
    const struct client_msg m = {
        .type = MSG_ERROR,
        .u.error = {.code = ST_BUSY,
                    .retryable = true,
                    .detail = why ? why : "no memory for one more client"}};
    struct wire_bytes bytes;
    uint32_t hidden;
    if (log_limit_take(&f->too_many, f->now_us, &hidden))
        log_line(LOG_WARN, "a client is refused (and %u more messages): %s", hidden,
                 m.u.error.detail);
    wire_mem_reset(&f->mem);
    if (client_msg_encode_reply(&bytes, &m, &f->mem) == ST_OK &&
        zmq_send(f->sock, zmq_msg_data(&f->identity), zmq_msg_size(&f->identity),
                 ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(f->sock, bytes.data, bytes.n, ZMQ_DONTWAIT);
}

bool client_port_receive(struct client_port *f, struct client **from, const void **data, size_t *n)
{
    for (;;) {
        release(f);
        if (!receive_parts(f))
            return false;
        const char *why;
        *from = client_of(f, zmq_msg_data(&f->identity), zmq_msg_size(&f->identity), &why);
        if (*from)
            break;
        refuse_client(f, why);
    }
    *data = zmq_msg_data(&f->body);
    *n = zmq_msg_size(&f->body);
    return true;
}

enum status client_port_take(struct client_port *f, struct sock_msg **out)
{
    return sock_msg_take(out, &f->body);
}

static enum send_result send_bytes(struct client_port *f, struct client *c, const void *data,
                                   size_t n, uint64_t now_us)
{
    if (c->gone)
        return SEND_GONE;
    if (zmq_send(f->sock, c->identity, c->n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN) {
            if (!c->blocked_us)
                c->blocked_us = now_us;
            return SEND_BLOCKED;
        }
        c->gone = true;
        return SEND_GONE;
    }
    if (zmq_send(f->sock, data, n, ZMQ_DONTWAIT) < 0) {
        c->gone = true; /* the peer left between the two parts */
        return SEND_GONE;
    }
    c->blocked_us = 0;
    c->last_sent_us = now_us;
    return SEND_OK;
}

static enum send_result send_outbox(struct client_port *f, struct client *c, uint64_t now_us)
{
    while (c->outbox) {
        struct out_msg *m = c->outbox;
        enum send_result r = send_bytes(f, c, m->data, m->n, now_us);
        if (r != SEND_OK)
            return r;
        c->outbox = m->next;
        c->n_outbox--;
        free(m);
    }
    return SEND_OK;
}

/* A reply to a query that is too large for its client becomes an Error.  A stream's messages keep far below the bound:
 * with one beyond it the client would miss a part. */
static enum status encode(struct client_port *f, const struct client_msg *msg,
                          struct wire_bytes *out)
{
    char why[160];
    wire_mem_reset(&f->mem);
    enum status st = client_msg_encode_reply(out, msg, &f->mem);
    if (st != ST_NOMEM || (msg->type != MSG_TOKENS && msg->type != MSG_TEXT))
        return st;
    struct client_msg error = {.type = MSG_ERROR};
    snprintf(why, sizeof why, "the reply is larger than %d MiB: ask for less at once",
             MAX_REPLY >> 20);
    error.u.error = (struct msg_error){
        .request_id = msg->type == MSG_TOKENS ? msg->u.tokens.request_id : msg->u.text.request_id,
        .request = msg->type == MSG_TOKENS ? MSG_TOKENIZE : 0,
        .code = ST_RANGE,
        .detail = why};
    wire_mem_reset(&f->mem);
    return client_msg_encode_reply(out, &error, &f->mem);
}

enum send_result client_port_send(struct client_port *f, struct client *c,
                                  const struct client_msg *msg, uint64_t now_us)
{
    struct wire_bytes bytes;
    enum send_result r = send_outbox(f, c, now_us); /* order is kept */
    if (r != SEND_OK)
        return r;
    enum status st = encode(f, msg, &bytes);
    if (st != ST_OK) {
        log_failure(LOG_ERROR, st, "a reply could not be encoded: its client is dropped");
        c->gone = true; /* its requests end; nothing waits for a reply that never comes */
        return SEND_GONE;
    }
    return send_bytes(f, c, bytes.data, bytes.n, now_us);
}

void client_port_reply(struct client_port *f, struct client *c, const struct client_msg *msg,
                       uint64_t now_us)
{
    struct wire_bytes bytes;
    if (client_port_send(f, c, msg, now_us) != SEND_BLOCKED)
        return;
    struct out_msg *m = NULL, **end = &c->outbox;
    if (encode(f, msg, &bytes) == ST_OK && c->n_outbox < MAX_OUTBOX)
        m = malloc(sizeof *m + bytes.n);
    if (!m) {
        log_line(LOG_WARN, "client %llu does not read its replies: it is dropped",
                 (unsigned long long)c->id);
        c->gone = true;
        return;
    }
    m->next = NULL;
    m->n = bytes.n;
    memcpy(m->data, bytes.data, bytes.n);
    while (*end)
        end = &(*end)->next;
    *end = m;
    c->n_outbox++;
}

static enum send_result tell_revoked(struct client_port *f, struct client *c, uint64_t now_us)
{
    const struct client_msg m = {
        .type = MSG_ERROR,
        .u.error = {.code = ST_PEER, .detail = "the key of this connection was removed"}};
    return client_port_send(f, c, &m, now_us);
}

/* The Error has had time to leave: while the connection can be sent to, its descriptor is its own. */
static void end_revoked(struct client_port *f, struct client *c, uint64_t now_us)
{
    if (now_us - c->revoked_us < REVOKED_US)
        return;
    if (tell_revoked(f, c, now_us) == SEND_OK)
        hang_up(c);
    c->gone = true;
}

void client_port_tend(struct client_port *f, const struct client_msg *probe, uint64_t probe_us,
                      uint64_t now_us)
{
    f->now_us = now_us;
    for (struct client *c = f->clients; c; c = c->next) {
        if (c->revoked_us && !c->gone)
            end_revoked(f, c, now_us);
        uint64_t idle = now_us - c->last_sent_us;
        if (c->gone || send_outbox(f, c, now_us) != SEND_OK)
            continue;
        if (idle > (c->n_requests || f->crowded ? probe_us : PROBE_ALL_US))
            client_port_send(f, c, probe, now_us);
    }
    f->crowded = false;
}

void client_port_drop_slow(struct client_port *f, uint64_t slow_us, uint64_t now_us)
{
    for (struct client *c = f->clients; c; c = c->next) {
        if (c->gone || !c->requests || !c->blocked_us || now_us - c->blocked_us <= slow_us)
            continue;
        log_line(LOG_WARN, "client %llu does not read: it is dropped", (unsigned long long)c->id);
        c->gone = true;
    }
}

void client_port_recheck(struct client_port *f, uint64_t now_us)
{
    for (struct client *c = f->clients; c; c = c->next) {
        const char *name;
        if (c->gone || c->revoked_us || !*c->rights.key)
            continue;
        c->rights.roles = gatekeeper_roles(f->keys, c->rights.key, &name);
        if (c->rights.roles & ~(unsigned)ROLE_SERVE)
            continue;
        log_line(LOG_WARN, "the connection of %s ends: its key was removed", c->rights.name);
        (void)tell_revoked(f, c, now_us);
        c->revoked_us = now_us;
    }
}

struct client *client_port_next_gone(struct client_port *f)
{
    for (struct client *c = f->clients; c; c = c->next)
        if (c->gone)
            return c;
    return NULL;
}

void client_port_forget(struct client_port *f, struct client *c)
{
    for (struct client **at = &f->clients; *at; at = &(*at)->next) {
        if (*at != c)
            continue;
        *at = c->next;
        drop_outbox(c);
        free(c);
        f->n_clients--;
        return;
    }
}
