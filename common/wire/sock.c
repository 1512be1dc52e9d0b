#include "common/wire/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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
             "endpoint %s is not a loopback address: messages are not encrypted; allow it with "
             "--allow-remote on a network that you trust",
             endpoint);
    return ST_OK;
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

/* ZeroMQ takes an ipc path away from whoever listens there: ask first */
static bool ipc_in_use(const char *endpoint)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (strncmp(endpoint, "ipc://", 6) != 0 || strlen(endpoint + 6) >= sizeof sa.sun_path)
        return false;
    memcpy(sa.sun_path, endpoint + 6, strlen(endpoint + 6));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool used = fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0;
    if (fd >= 0)
        close(fd);
    return used;
}

enum status sock_bind_more(void *sock, const char *endpoint)
{
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
    TRY(set_int(sock, ZMQ_ROUTER_MANDATORY, 1));
    TRY(sock_bind_more(sock, endpoint));
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

enum status sock_watch_ends(void **out, void *ctx, void *sock)
{
    char endpoint[64];
    *out = NULL;
    snprintf(endpoint, sizeof endpoint, "inproc://ends-%p", sock);
    if (zmq_socket_monitor(sock, endpoint, ZMQ_EVENT_DISCONNECTED) != 0)
        FAIL(ST_IO, "cannot watch the connections: %s", zmq_strerror(errno));
    void *watch = zmq_socket(ctx, ZMQ_PAIR);
    if (!watch || zmq_connect(watch, endpoint) != 0) {
        sock_close(watch);
        FAIL(ST_IO, "cannot watch the connections: %s", zmq_strerror(errno));
    }
    *out = watch;
    return ST_OK;
}

bool sock_take_ends(void *watch)
{
    char part[256]; /* an event has two parts; only that there is one matters */
    bool any = false;
    while (zmq_recv(watch, part, sizeof part, ZMQ_DONTWAIT) >= 0)
        any = true;
    return any;
}

void sock_unlink(const char *endpoint)
{
    if (strncmp(endpoint, "ipc://", 6) == 0)
        unlink(endpoint + 6);
}

void sock_close(void *sock)
{
    if (sock)
        zmq_close(sock);
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
