#include "common/wire/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

/* 127.0.0.0/8, ::1 and the name localhost */
static bool is_loopback(const char *host, size_t n)
{
    char copy[64];
    struct in_addr v4;
    if (n >= sizeof copy)
        return false;
    memcpy(copy, host, n);
    copy[n] = '\0';
    if (strcmp(copy, "localhost") == 0 || strcmp(copy, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, copy, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

enum status sock_check_endpoint(const char *endpoint, bool bind, bool allow_remote)
{
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        size_t n = strlen(endpoint + 6);
        if (n == 0 || n >= sizeof((struct sockaddr_un *)0)->sun_path)
            FAIL(ST_RANGE, "endpoint %s: an ipc path has 1 to %zu bytes", endpoint,
                 sizeof((struct sockaddr_un *)0)->sun_path - 1);
        return ST_OK;
    }
    if (strncmp(endpoint, "tcp://", 6) != 0)
        FAIL(ST_RANGE, "endpoint %s: it must begin with tcp:// or ipc://", endpoint);
    const char *host = endpoint + 6, *colon = strrchr(host, ':');
    if (!colon || colon == host || !colon[1])
        FAIL(ST_RANGE, "endpoint %s: write tcp://ADDRESS:PORT", endpoint);
    if (!(bind && strcmp(colon + 1, "*") == 0)) {
        char *end;
        long port = strtol(colon + 1, &end, 10);
        if (*end || !isdigit((unsigned char)colon[1]) || port < 1 || port > 65535)
            FAIL(ST_RANGE, "endpoint %s: the port must be between 1 and 65535", endpoint);
    }
    if (bind && !allow_remote && !is_loopback(host, (size_t)(colon - host)))
        FAIL(ST_RANGE,
             "endpoint %s is not a loopback address: give the keys that may connect (--key and "
             "--allowed-keys), or --allow-remote on a network that you trust",
             endpoint);
    return ST_OK;
}

bool sock_control_endpoint(char out[SOCK_CONTROL_SIZE], const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || !isdigit((unsigned char)colon[1]))
        return false;
    snprintf(out, SOCK_CONTROL_SIZE, "ipc://@ingot-%.5s", colon + 1);
    return true;
}

static enum status set_int(void *sock, int option, int value)
{
    if (zmq_setsockopt(sock, option, &value, sizeof value) != 0)
        FAIL(ST_IO, "cannot set socket option %d: %s", option, zmq_strerror(errno));
    return ST_OK;
}

static enum status set_options(void *sock, const char *endpoint, const struct sock_config *cfg)
{
    size_t max = cfg->max_message ? cfg->max_message : DEFAULT_MAX_MESSAGE;
    int64_t max64 = (int64_t)max;
    int beat = cfg->heartbeat_ms ? (int)cfg->heartbeat_ms : 1000;
    int water = cfg->high_water ? cfg->high_water : 1000;

    if (zmq_setsockopt(sock, ZMQ_MAXMSGSIZE, &max64, sizeof max64) != 0)
        FAIL(ST_IO, "cannot set the largest message: %s", zmq_strerror(errno));
    TRY(set_int(sock, ZMQ_HANDSHAKE_IVL, 5000));
    TRY(set_int(sock, ZMQ_HEARTBEAT_IVL, cfg->no_heartbeat ? 0 : beat));
    TRY(set_int(sock, ZMQ_HEARTBEAT_TIMEOUT, 3 * beat));
    TRY(set_int(sock, ZMQ_HEARTBEAT_TTL, 3 * beat));
    TRY(set_int(sock, ZMQ_LINGER, (int)cfg->linger_ms));
    TRY(set_int(sock, ZMQ_SNDHWM, water));
    TRY(set_int(sock, ZMQ_RCVHWM, water));
    /* only where it is meant: else addresses come back as [::ffff:127.0.0.1] */
    TRY(set_int(sock, ZMQ_IPV6, strchr(endpoint, '[') != NULL));
    return ST_OK;
}

/* A server sends no ZMTP heartbeats: where a flood of messages has stopped the reading of a connection that has ended since,
 * libzmq 4.3 ends the process when one is due (zeromq/libzmq#3937).  The kernel finds the hosts that are gone. */
static enum status find_lost_hosts(void *sock)
{
    TRY(set_int(sock, ZMQ_HEARTBEAT_IVL, 0));
    TRY(set_int(sock, ZMQ_TCP_KEEPALIVE, 1));
    TRY(set_int(sock, ZMQ_TCP_KEEPALIVE_IDLE, 10)); /* s */
    TRY(set_int(sock, ZMQ_TCP_KEEPALIVE_INTVL, 5));
    TRY(set_int(sock, ZMQ_TCP_KEEPALIVE_CNT, 4));
    return set_int(sock, ZMQ_TCP_MAXRT, 30000); /* ms */
}

static enum status set_text(void *sock, int option, const char *text)
{
    if (zmq_setsockopt(sock, option, text, strlen(text)) != 0)
        FAIL(ST_IO, "cannot set socket option %d: %s", option, zmq_strerror(errno));
    return ST_OK;
}

/* Of the endpoint that is bound or connected next. */
static enum status set_curve(void *sock, const char *endpoint, const struct sock_curve *c)
{
    bool secured = c && strncmp(endpoint, "tcp://", 6) == 0;
    if (secured && !zmq_has("curve"))
        FAIL(ST_UNSUPPORTED, "this build of ZeroMQ has no CURVE");
    if (!secured) /* another endpoint of the socket may have had them; its ZAP domain cannot be unset */
        return set_int(sock, ZMQ_CURVE_SERVER, 0);
    TRY(set_text(sock, ZMQ_CURVE_PUBLICKEY, c->own.public_key));
    TRY(set_text(sock, ZMQ_CURVE_SECRETKEY, c->own.secret_key));
    if (!c->server)
        return set_text(sock, ZMQ_CURVE_SERVERKEY, c->server_key);
    TRY(set_int(sock, ZMQ_CURVE_SERVER, 1));
    return set_text(sock, ZMQ_ZAP_DOMAIN, c->domain);
}

/* ZeroMQ takes an ipc path away from whoever listens there: ask first */
static bool ipc_in_use(const char *endpoint)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strncmp(endpoint, "ipc://", 6) != 0 || endpoint[6] == '@' ||
        strlen(endpoint + 6) >= sizeof sa.sun_path)
        return false; /* @: an abstract name, which the kernel guards */
    memcpy(sa.sun_path, endpoint + 6, strlen(endpoint + 6));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool used = fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0;
    if (fd >= 0)
        close(fd);
    return used;
}

/* ZeroMQ would remove whatever file has the path. */
static enum status check_file(const char *endpoint)
{
    struct stat st;
    if (strncmp(endpoint, "ipc://", 6) != 0 || endpoint[6] == '@' || lstat(endpoint + 6, &st) != 0)
        return ST_OK;
    if (!S_ISSOCK(st.st_mode))
        FAIL(ST_BUSY, "%s: the file exists and is no socket", endpoint);
    return ST_OK;
}

bool sock_control_answers(char out[SOCK_CONTROL_SIZE], const char *endpoint)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const char *colon = strrchr(endpoint, ':');
    if (!sock_control_endpoint(out, endpoint) ||
        !is_loopback(endpoint + 6, (size_t)(colon - (endpoint + 6))))
        return false;
    size_t n = strlen(out + 7); /* an abstract name begins with NUL and has no end */
    memcpy(sa.sun_path + 1, out + 7, n);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool there =
        fd >= 0 && connect(fd, (struct sockaddr *)&sa,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

enum status sock_bind_more(void *sock, const char *endpoint, const struct sock_config *cfg)
{
    TRY(check_file(endpoint));
    TRY(set_curve(sock, endpoint, cfg->curve));
    if (ipc_in_use(endpoint))
        FAIL(ST_BUSY, "%s is in use by another program", endpoint);
    if (zmq_bind(sock, endpoint) == 0)
        return ST_OK;
    if (errno == EADDRINUSE)
        FAIL(ST_BUSY, "%s is in use by another program", endpoint);
    FAIL(ST_IO, "cannot listen on %s: %s", endpoint, zmq_strerror(errno));
}

static enum status bind_router(void *sock, const char *endpoint, const struct sock_config *cfg,
                               char *bound, size_t bound_size)
{
    TRY(set_options(sock, endpoint, cfg));
    TRY(find_lost_hosts(sock));
    TRY(set_int(sock, ZMQ_ROUTER_MANDATORY, 1));
    TRY(sock_bind_more(sock, endpoint, cfg));
    if (bound && zmq_getsockopt(sock, ZMQ_LAST_ENDPOINT, bound, &bound_size) != 0)
        FAIL(ST_IO, "cannot read back the endpoint: %s", zmq_strerror(errno));
    return ST_OK;
}

enum status sock_bind_router(void **out, void *ctx, const char *endpoint,
                             const struct sock_config *cfg, char *bound, size_t bound_size)
{
    *out = NULL;
    void *sock = zmq_socket(ctx, ZMQ_ROUTER);
    if (!sock)
        FAIL(ST_IO, "cannot make a socket: %s", zmq_strerror(errno));
    enum status st = bind_router(sock, endpoint, cfg, bound, bound_size);
    if (st != ST_OK) {
        zmq_close(sock);
        return st;
    }
    *out = sock;
    return ST_OK;
}

static enum status connect_dealer(void *sock, const char *endpoint, const struct sock_config *cfg)
{
    TRY(set_options(sock, endpoint, cfg));
    TRY(set_curve(sock, endpoint, cfg->curve));
    TRY(set_int(sock, ZMQ_RECONNECT_IVL, 100));
    TRY(set_int(sock, ZMQ_RECONNECT_IVL_MAX, 1000));
    if (zmq_connect(sock, endpoint) != 0)
        FAIL(ST_IO, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
    return ST_OK;
}

enum status sock_connect_dealer(void **out, void *ctx, const char *endpoint,
                                const struct sock_config *cfg)
{
    *out = NULL;
    void *sock = zmq_socket(ctx, ZMQ_DEALER);
    if (!sock)
        FAIL(ST_IO, "cannot make a socket: %s", zmq_strerror(errno));
    enum status st = connect_dealer(sock, endpoint, cfg);
    if (st != ST_OK) {
        zmq_close(sock);
        return st;
    }
    *out = sock;
    return ST_OK;
}

enum {
    WATCHED_EVENTS = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
};

static enum status monitor(void **out, void *ctx, void *sock, int events)
{
    char endpoint[64];
    *out = NULL;
    snprintf(endpoint, sizeof endpoint, "inproc://events-%p", sock);
    if (zmq_socket_monitor(sock, endpoint, events) != 0)
        FAIL(ST_IO, "cannot watch the connections: %s", zmq_strerror(errno));
    void *watch = zmq_socket(ctx, ZMQ_PAIR);
    int all = 0; /* the I/O thread would wait where events are not taken soon */
    if (!watch || zmq_setsockopt(watch, ZMQ_RCVHWM, &all, sizeof all) != 0 ||
        zmq_connect(watch, endpoint) != 0) {
        int why = errno;
        zmq_socket_monitor(sock, NULL, 0);
        sock_close(watch);
        FAIL(ST_IO, "cannot watch the connections: %s", zmq_strerror(why));
    }
    *out = watch;
    return ST_OK;
}

enum status sock_watch_ends(void **out, void *ctx, void *sock)
{
    return monitor(out, ctx, sock, WATCHED_EVENTS);
}

enum status sock_guard_open(void **out, void *ctx, void *sock)
{
    return monitor(out, ctx, sock, ZMQ_EVENT_ACCEPTED);
}

/* The next event of a monitor: its number [2 bytes] and a value [4], both in host order; then the endpoint. */
static bool next_event(void *from, uint16_t *event, uint32_t *value)
{
    uint8_t part[256];
    int n = zmq_recv(from, part, sizeof part, ZMQ_DONTWAIT);
    *event = 0;
    *value = 0;
    if (n == (int)(sizeof *event + sizeof *value)) {
        memcpy(event, part, sizeof *event);
        memcpy(value, part + sizeof *event, sizeof *value);
    }
    return n >= 0 && zmq_recv(from, part, sizeof part, ZMQ_DONTWAIT) >= 0;
}

/* The kernel gives the lowest free descriptor: a great one tells that all below it are used. */
uint32_t sock_guard_close(void *guard, int max_fd)
{
    uint16_t event;
    uint32_t fd, n = 0;
    while (guard && next_event(guard, &event, &fd))
        if ((int)fd > max_fd && shutdown((int)fd, SHUT_RDWR) == 0)
            n++;
    return n;
}

bool sock_take_refusal(void *watch, enum sock_refusal *why)
{
    bool any = false;
    uint16_t event;
    uint32_t value;
    *why = SOCK_REFUSED_NOT;
    while (next_event(watch, &event, &value)) {
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            *why = SOCK_REFUSED_KEY;
        else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                 value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
            *why = SOCK_REFUSED_MECHANISM;
        else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                 event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
            *why = SOCK_REFUSED_SILENTLY;
        any = any || event == ZMQ_EVENT_DISCONNECTED;
    }
    return any;
}

bool sock_take_ends(void *watch)
{
    enum sock_refusal why;
    return sock_take_refusal(watch, &why);
}

const char *sock_refusal_text(enum sock_refusal why)
{
    static const char *const texts[] = {
        [SOCK_REFUSED_NOT] = "it was not refused",
        [SOCK_REFUSED_KEY] = "the server refuses this key",
        [SOCK_REFUSED_MECHANISM] = "one side has keys and the other has none (--key, --server-key)",
        [SOCK_REFUSED_SILENTLY] =
            "the server ended the connection at once: it may have another key than --server-key",
    };
    return texts[why];
}

void sock_unlink(const char *endpoint)
{
    if (strncmp(endpoint, "ipc://", 6) == 0 && endpoint[6] != '@')
        unlink(endpoint + 6);
}

void sock_close(void *sock)
{
    if (sock)
        zmq_close(sock);
}

/* The I/O thread tells of events until the socket is gone, and waits for ever to tell them to a closed watch. */
void sock_close_watched(void *sock, void *watch)
{
    if (sock)
        zmq_socket_monitor(sock, NULL, 0);
    sock_close(sock);
    sock_close(watch);
}

struct sock_msg {
    zmq_msg_t body;
};

enum status sock_msg_take(struct sock_msg **out, zmq_msg_t *from)
{
    struct sock_msg *m = malloc(sizeof *m);
    *out = NULL;
    if (!m)
        FAIL(ST_NOMEM, "no memory for a message of %zu bytes", zmq_msg_size(from));
    zmq_msg_init(&m->body);
    zmq_msg_move(&m->body, from);
    *out = m;
    return ST_OK;
}

const void *sock_msg_data(const struct sock_msg *m)
{
    return zmq_msg_data((zmq_msg_t *)(uintptr_t)&m->body);
}

size_t sock_msg_size(const struct sock_msg *m)
{
    return zmq_msg_size(&m->body);
}

void sock_msg_free(struct sock_msg *m)
{
    if (m)
        zmq_msg_close(&m->body);
    free(m);
}
