#include "worker/coordinator_port.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "common/wire/sock.h"

enum { LINGER_MS = 500, TRY_MS = 500 /* for the answer to a Hello */, MAX_ENDPOINTS = 8 };
enum { TX_BYTES = 64 << 20 };      /* address space for one encoded message */
enum { REFUSED_BYTES = 64 << 10 }; /* for decoding a Refused */
enum { MAX_EARLY = 16 };           /* messages that the beater receives while the socket is lent */

struct coordinator_port {
    void *ctx, *sock;
    void *ends; /* tells when the connection has ended, and why one was refused */
    enum sock_refusal refusal;
    struct sock_config sc;
    struct sock_curve curve;
    char *endpoints[MAX_ENDPOINTS]; /* [n_endpoints] */
    uint32_t n_endpoints, endpoint; /* the one that is used */
    struct wire_mem tx;
    uint64_t heard_ms; /* when the coordinator last spoke */
    uint32_t lease_ms, rejoin_ms;
    bool welcomed;               /* by the present coordinator */
    uint64_t alone_ms, tried_ms; /* since when there is none, and the present attempt */
    uint32_t patience_ms;        /* how long there may be none */

    int refused_exit; /* of the process when it is refused while the socket is lent */

    /* under lock while the socket is lent: sock, tx, heard_ms and these */
    pthread_mutex_t lock;
    zmq_msg_t early[MAX_EARLY]; /* ring: received and not yet returned */
    int first_early, n_early;
    uint64_t epoch, last_step, beat_ms; /* when the last heartbeat went out */
    uint32_t heartbeat_ms;              /* 0: not welcomed yet */

    pthread_t beater;
    int wake[2]; /* pipe: closing the writing end (wake[1]) ends the beater */
    bool beating;

    atomic_bool ending; /* coordinator_port_last_words wants the socket */
    int alarm[2];       /* pipe: says so to a main thread that waits */
};

static uint64_t now_ms(void)
{
    return clock_us() / 1000U;
}

/* ---- sending ---- */

enum status coordinator_port_send(struct coordinator_port *l, const struct worker_msg *msg)
{
    struct wire_bytes b;
    wire_mem_reset(&l->tx);
    TRY(worker_msg_encode(&b, msg, &l->tx));
    while (zmq_send(l->sock, b.data, b.n, ZMQ_DONTWAIT) < 0) {
        if (errno == EAGAIN)
            FAIL(ST_BUSY, "the coordinator takes no more messages");
        if (errno != EINTR)
            FAIL(ST_IO, "cannot send to the coordinator: %s", zmq_strerror(errno));
    }
    return ST_OK;
}

/* Sends a heartbeat when it is due.  One that cannot be sent is a lost heartbeat: the next may
 * pass, and if none does the lease says so. */
static void beat_if_due(struct coordinator_port *l)
{
    uint64_t now = now_ms();
    if (!l->heartbeat_ms || now - l->beat_ms < l->heartbeat_ms)
        return;
    struct worker_msg m = {.type = WMSG_HEARTBEAT,
                           .u.beat = {.epoch = l->epoch, .last_step = l->last_step}};
    l->beat_ms = now;
    enum status st = coordinator_port_send(l, &m);
    (void)st;
}

/* The process ends when the coordinator refuses the group in the middle of a step: the main thread
 * may be waiting in a collective for a rank that will never answer. */
static void end_if_refused(const struct coordinator_port *l, zmq_msg_t *msg)
{
    struct frame f;
    struct worker_msg m;
    struct wire_mem mem;
    if (frame_parse(&f, zmq_msg_data(msg), zmq_msg_size(msg)) != ST_OK || f.type != WMSG_REFUSED ||
        wire_mem_init(&mem, REFUSED_BYTES) != ST_OK)
        return;
    bool known = worker_msg_decode(&m, zmq_msg_data(msg), zmq_msg_size(msg), &mem) == ST_OK;
    log_line(LOG_ERROR, "ending in the middle of a step: the coordinator refuses this group: %s",
             known ? m.u.refused : "no reason given");
    _Exit(l->refused_exit);
}

/* Receives a message, if one is there and the ring has room. */
static enum status receive_early(struct coordinator_port *l, zmq_msg_t **out)
{
    zmq_msg_t *m = &l->early[(l->first_early + l->n_early) % MAX_EARLY];
    *out = NULL;
    if (l->n_early == MAX_EARLY)
        return ST_OK;
    zmq_msg_init(m);
    if (zmq_msg_recv(m, l->sock, ZMQ_DONTWAIT) < 0) {
        int why = errno;
        zmq_msg_close(m);
        if (why == EAGAIN || why == EINTR)
            return ST_OK;
        FAIL(ST_IO, "cannot receive from the coordinator: %s", zmq_strerror(why));
    }
    l->heard_ms = now_ms();
    l->n_early++;
    *out = m;
    return ST_OK;
}

/* Sends heartbeats and receives messages whenever it can have the socket. */
static void *beat(void *arg)
{
    struct coordinator_port *l = arg;
    uint32_t pause_ms = 50;
    for (;;) {
        struct pollfd end = {.fd = l->wake[0], .events = POLLIN};
        if (poll(&end, 1, (int)pause_ms) > 0)
            return NULL;
        if (pthread_mutex_trylock(&l->lock) != 0)
            continue; /* the main thread has it and sends its own */
        beat_if_due(l);
        zmq_msg_t *m;
        while (receive_early(l, &m) == ST_OK && m)
            end_if_refused(l, m);
        if (l->heartbeat_ms)
            pause_ms = l->heartbeat_ms / 2 + 1;
        pthread_mutex_unlock(&l->lock);
    }
}

/* What has come of this connection and was not read is void. */
static void disconnect(struct coordinator_port *l)
{
    for (; l->n_early > 0; l->n_early--)
        zmq_msg_close(&l->early[(l->first_early + l->n_early - 1) % MAX_EARLY]);
    sock_close_watched(l->sock, l->ends);
    l->sock = l->ends = NULL;
}

static void moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void coordinator_port_last_words(struct coordinator_port *l, uint32_t rank, enum status st,
                                 const char *detail, uint32_t wait_ms)
{
    struct worker_msg m = {.type = WMSG_FAULT,
                           .u.fault = {.rank = rank, .status = st, .detail = detail}};
    int linger = (int)wait_ms;
    uint64_t until = now_ms() + wait_ms;
    atomic_store(&l->ending, true);
    if (write(l->alarm[1], "x", 1) != 1)
        return; /* the end of the connection tells the coordinator too, as below */
    while (pthread_mutex_trylock(&l->lock) != 0) {
        if (now_ms() >= until)
            return;
        moment();
    }
    m.u.fault.epoch = l->epoch;
    if (coordinator_port_send(l, &m) != ST_OK ||
        zmq_setsockopt(l->sock, ZMQ_LINGER, &linger, sizeof linger) != 0)
        return;
    disconnect(l);
    zmq_ctx_term(l->ctx);
}

/* The main thread gives the socket away for good. */
static void yield_if_ending(struct coordinator_port *l)
{
    while (atomic_load(&l->ending)) {
        pthread_mutex_unlock(&l->lock);
        moment();
        pthread_mutex_lock(&l->lock);
    }
}

void coordinator_port_lend(struct coordinator_port *l)
{
    pthread_mutex_unlock(&l->lock);
}

void coordinator_port_take(struct coordinator_port *l, uint64_t last_step)
{
    pthread_mutex_lock(&l->lock);
    l->last_step = last_step;
}

/* ---- life ---- */

/* list: endpoints with commas between them */
static enum status take_endpoints(struct coordinator_port *l, const char *list)
{
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        if (l->n_endpoints == MAX_ENDPOINTS)
            FAIL(ST_RANGE, "%s: at most %d endpoints are possible", list, MAX_ENDPOINTS);
        char *one = l->endpoints[l->n_endpoints] = strndup(p, n);
        if (!one)
            FAIL(ST_NOMEM, "no memory for the coordinator's link");
        l->n_endpoints++;
        TRY(sock_check_endpoint(one, false, false));
        p += n;
        if (!*p)
            return ST_OK;
    }
}

static enum status connect_endpoint(struct coordinator_port *l)
{
    l->heard_ms = l->tried_ms = now_ms();
    TRY(sock_connect_dealer(&l->sock, l->ctx, l->endpoints[l->endpoint], &l->sc));
    return sock_watch_ends(&l->ends, l->ctx, l->sock);
}

const char *coordinator_port_endpoint(const struct coordinator_port *l)
{
    return l->endpoints[l->endpoint];
}

enum status coordinator_port_again(struct coordinator_port *l)
{
    if (l->welcomed) { /* perhaps only the connection was cut, and the clients are still there: the same one first */
        l->alone_ms = now_ms();
        l->patience_ms = l->rejoin_ms;
    } else {
        l->endpoint = (l->endpoint + 1) % l->n_endpoints;
    }
    l->welcomed = false;
    l->epoch = 0;
    l->heartbeat_ms = 0;
    disconnect(l);
    return connect_endpoint(l);
}

static enum status start(struct coordinator_port *l, const struct coordinator_port_config *cfg)
{
    /* The lease tells whether the coordinator is there; ZeroMQ's heartbeats are slower, so that a
     * pause of either side does not end the connection. */
    l->sc = (struct sock_config){.max_message = cfg->max_message,
                                 .heartbeat_ms = cfg->lease_ms / 2 + 1,
                                 .linger_ms = LINGER_MS};
    if (cfg->curve) {
        l->curve = *cfg->curve;
        l->sc.curve = &l->curve;
    }
    TRY(take_endpoints(l, cfg->endpoint));
    TRY(wire_mem_init(&l->tx, TX_BYTES));
    l->ctx = zmq_ctx_new();
    if (!l->ctx)
        FAIL(ST_IO, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    TRY(connect_endpoint(l));
    if (pipe(l->wake) != 0 || pipe(l->alarm) != 0)
        FAIL(ST_IO, "cannot make a pipe");
    l->beating = thread_start(&l->beater, beat, l) == 0;
    if (!l->beating)
        FAIL(ST_NOMEM, "cannot start the heartbeat thread");
    return ST_OK;
}

enum status coordinator_port_open(struct coordinator_port **out,
                                  const struct coordinator_port_config *cfg)
{
    *out = NULL;
    struct coordinator_port *l = calloc(1, sizeof *l);
    if (!l)
        FAIL(ST_NOMEM, "no memory for the coordinator's link");
    l->wake[0] = l->wake[1] = l->alarm[0] = l->alarm[1] = -1;
    l->lease_ms = l->patience_ms = cfg->lease_ms;
    l->rejoin_ms = cfg->rejoin_ms;
    l->alone_ms = now_ms();
    l->refused_exit = cfg->refused_exit;
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_lock(&l->lock);
    enum status st = start(l, cfg);
    if (st != ST_OK) {
        coordinator_port_close(l);
        return st;
    }
    *out = l;
    return ST_OK;
}

void coordinator_port_dismissed(struct coordinator_port *l)
{
    int linger = 0;
    (void)zmq_setsockopt(l->sock, ZMQ_LINGER, &linger,
                         sizeof linger); /* else closing takes longer */
}

void coordinator_port_close(struct coordinator_port *l)
{
    if (!l)
        return;
    if (l->wake[1] >= 0)
        close(l->wake[1]);
    if (l->beating)
        pthread_join(l->beater, NULL);
    if (l->wake[0] >= 0)
        close(l->wake[0]);
    for (int i = 0; i < 2; i++)
        if (l->alarm[i] >= 0)
            close(l->alarm[i]);
    disconnect(l);
    if (l->ctx)
        zmq_ctx_term(l->ctx);
    wire_mem_fini(&l->tx);
    for (uint32_t i = 0; i < l->n_endpoints; i++)
        free(l->endpoints[i]);
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void coordinator_port_welcome(struct coordinator_port *l, const struct worker_welcome *w)
{
    l->epoch = w->epoch;
    l->refusal = SOCK_REFUSED_NOT;
    l->welcomed = true;
    (void)sock_take_ends(l->ends); /* of connections before this one */
    l->heartbeat_ms = w->heartbeat_ms ? w->heartbeat_ms : 1000;
    l->beat_ms = now_ms();
    if (w->lease_ms)
        l->lease_ms = w->lease_ms;
}

/* ---- receiving ---- */

static enum status copy_out(zmq_msg_t *msg, void *buf, size_t cap, size_t *n)
{
    size_t size = zmq_msg_size(msg);
    if (size > cap)
        FAIL(ST_PEER, "the coordinator sent %zu bytes, at most %zu are taken", size, cap);
    if (zmq_msg_more(msg))
        FAIL(ST_PEER, "the coordinator sent a message of several parts");
    memcpy(buf, zmq_msg_data(msg), size);
    *n = size;
    return ST_OK;
}

/* The oldest message that is there; *n = 0 when there is none. */
static enum status take(struct coordinator_port *l, void *buf, size_t cap, size_t *n)
{
    zmq_msg_t *m;
    *n = 0;
    if (l->n_early == 0)
        TRY(receive_early(l, &m));
    if (l->n_early == 0)
        return ST_OK;
    m = &l->early[l->first_early];
    enum status st = copy_out(m, buf, cap, n);
    zmq_msg_close(m);
    l->first_early = (l->first_early + 1) % MAX_EARLY;
    l->n_early--;
    return st;
}

/* Keeps why the connection that is being made was refused. */
static void note_refusal(struct coordinator_port *l)
{
    enum sock_refusal why;
    (void)sock_take_refusal(l->ends, &why);
    if (why != SOCK_REFUSED_NOT)
        l->refusal = why;
}

/* Is a coordinator there?  *left_ms: until that must be asked again. */
static enum status check_coordinator(const struct coordinator_port *l, uint64_t *left_ms)
{
    uint64_t now = now_ms();
    if (l->welcomed) {
        uint64_t silent = now - l->heard_ms;
        if (silent >= l->lease_ms)
            FAIL(ST_CANCELED,
                 "the coordinator has been silent for %llu ms at %s (the lease is %u ms)",
                 (unsigned long long)silent, l->endpoints[l->endpoint], l->lease_ms);
        *left_ms = l->lease_ms - silent;
        return ST_OK;
    }
    uint64_t alone = now - l->alone_ms, tried = now - l->tried_ms;
    if (alone >= l->patience_ms && l->refusal != SOCK_REFUSED_NOT)
        FAIL(ST_TIMEOUT, "no coordinator has welcomed this group for %llu ms: %s (last tried: %s)",
             (unsigned long long)alone, sock_refusal_text(l->refusal), l->endpoints[l->endpoint]);
    if (alone >= l->patience_ms)
        FAIL(ST_TIMEOUT, "no coordinator has welcomed this group for %llu ms (last tried: %s)",
             (unsigned long long)alone, l->endpoints[l->endpoint]);
    if (tried >= TRY_MS)
        FAIL(ST_CANCELED, "no answer to Hello within %d ms from %s", TRY_MS,
             l->endpoints[l->endpoint]);
    *left_ms = TRY_MS - tried;
    if (*left_ms > l->patience_ms - alone)
        *left_ms = l->patience_ms - alone;
    return ST_OK;
}

/* Is it the order to end of the coordinator that welcomed this group?  The next one at the same address answers a late
 * heartbeat over the same socket with a Shutdown of no epoch. */
static bool is_own_shutdown(struct coordinator_port *l, const void *data, size_t n)
{
    struct worker_msg m;
    wire_mem_reset(&l->tx);
    return worker_msg_decode(&m, data, n, &l->tx) == ST_OK && m.type == WMSG_SHUTDOWN &&
           m.u.beat.epoch == l->epoch;
}

/* The connection has ended.  Of what was not read only a Shutdown counts: the coordinator sends it and goes. */
static enum status take_last_order(struct coordinator_port *l, void *buf, size_t cap, size_t *n)
{
    do {
        TRY(take(l, buf, cap, n));
    } while (*n && !is_own_shutdown(l, buf, *n));
    if (!*n)
        FAIL(ST_CANCELED, "the connection to the coordinator has ended");
    return ST_OK;
}

enum status coordinator_port_recv(struct coordinator_port *l, void *buf, size_t cap, size_t *n,
                                  uint32_t wait_ms)
{
    zmq_pollitem_t items[] = {{.socket = l->sock, .events = ZMQ_POLLIN},
                              {.fd = l->alarm[0], .events = ZMQ_POLLIN},
                              {.socket = l->ends, .events = ZMQ_POLLIN}};
    uint64_t begin = now_ms(), waited = 0;
    for (;;) {
        yield_if_ending(l);
        beat_if_due(l);
        if (l->welcomed && sock_take_ends(l->ends))
            return take_last_order(l, buf, cap, n);
        TRY(take(l, buf, cap, n));
        if (*n)
            return ST_OK;
        if (!l->welcomed)
            note_refusal(l);
        uint64_t left_ms = 0;
        TRY(check_coordinator(l, &left_ms));
        waited = now_ms() - begin;
        if (waited >= wait_ms)
            return ST_OK;
        uint64_t pause = wait_ms - waited;
        if (pause > left_ms)
            pause = left_ms;
        if (l->heartbeat_ms && pause > l->heartbeat_ms / 2 + 1)
            pause = l->heartbeat_ms / 2 + 1;
        if (zmq_poll(items, l->welcomed ? 3 : 2, (long)pause) < 0 && errno == EINTR)
            return ST_OK; /* a signal: the caller wants to know */
    }
}
