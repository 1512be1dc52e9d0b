#include "coordinator/gatekeeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "common/log.h"
#include "coordinator/log_limit.h"

#define LOCAL_PEER "localhost:" /* libzmq writes ipc peers as localhost:UID:GID:PID */

enum { KEY_BYTES = 32, MAX_FRAME = 256, ZAP_FRAMES = 7 };

/* What tells that a file is another one. */
struct file_mark {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct gatekeeper {
    void *sock;
    struct sock_curve clients, workers;
    char *path;
    struct file_mark mark;
    struct key_list list;
    struct log_limit refusals;
};

static struct file_mark mark_of(const char *path)
{
    struct stat st;
    struct file_mark m;
    memset(&m, 0, sizeof m); /* compared as bytes */
    if (stat(path, &st) != 0)
        return m;
    m.dev = st.st_dev;
    m.ino = st.st_ino;
    m.size = st.st_size;
    m.changed = st.st_mtim;
    return m;
}

static enum status listen_to_zap(struct gatekeeper *g, void *ctx)
{
    int linger = 0;
    g->sock = zmq_socket(ctx, ZMQ_ROUTER);
    if (!g->sock || zmq_setsockopt(g->sock, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_bind(g->sock, "inproc://zeromq.zap.01") != 0)
        FAIL(ST_IO, "cannot listen to questions about keys: %s", zmq_strerror(errno));
    return ST_OK;
}

static enum status start(struct gatekeeper *g, void *ctx, const char *key_path,
                         const char *list_path)
{
    struct curve_pair own;
    if (!key_path || !list_path)
        FAIL(ST_RANGE, "--key and --allowed-keys belong together: the server's own key, and the "
                       "keys that may connect");
    TRY(curve_pair_load(&own, key_path));
    g->clients = (struct sock_curve){.server = true, .own = own, .domain = DOMAIN_CLIENTS};
    g->workers = (struct sock_curve){.server = true, .own = own, .domain = DOMAIN_WORKERS};
    g->path = strdup(list_path);
    if (!g->path)
        FAIL(ST_NOMEM, "no memory for a path");
    g->mark = mark_of(list_path);
    TRY(key_list_load(&g->list, list_path));
    return listen_to_zap(g, ctx);
}

enum status gatekeeper_open(struct gatekeeper **out, void *zmq_ctx, const char *key_path,
                            const char *list_path)
{
    *out = NULL;
    if (!key_path && !list_path)
        return ST_OK;
    struct gatekeeper *g = calloc(1, sizeof *g);
    if (!g)
        FAIL(ST_NOMEM, "no memory for the list of keys");
    enum status st = start(g, zmq_ctx, key_path, list_path);
    if (st != ST_OK) {
        gatekeeper_close(g);
        return st;
    }
    log_line(LOG_INFO, "connections over TCP need one of %zu keys; this server's is %s", g->list.n,
             g->clients.own.public_key);
    *out = g;
    return ST_OK;
}

void gatekeeper_close(struct gatekeeper *g)
{
    if (!g)
        return;
    sock_close(g->sock);
    key_list_free(&g->list);
    free(g->path);
    memset(&g->clients, 0, sizeof g->clients);
    memset(&g->workers, 0, sizeof g->workers);
    free(g);
}

const struct sock_curve *gatekeeper_curve(const struct gatekeeper *g, const char *domain)
{
    if (!g)
        return NULL;
    return strcmp(domain, DOMAIN_WORKERS) == 0 ? &g->workers : &g->clients;
}

void *gatekeeper_socket(const struct gatekeeper *g)
{
    return g ? g->sock : NULL;
}

unsigned gatekeeper_roles(const struct gatekeeper *g, const char *key, const char **name)
{
    const struct key_grant *k = g ? key_list_find(&g->list, key) : NULL;
    *name = k ? k->name : "";
    return k ? k->roles : 0;
}

bool gatekeeper_reload(struct gatekeeper *g)
{
    struct key_list next;
    struct file_mark mark;
    if (!g)
        return false;
    mark = mark_of(g->path);
    if (memcmp(&mark, &g->mark, sizeof mark) == 0)
        return false;
    g->mark = mark;
    enum status st = key_list_load(&next, g->path);
    if (st != ST_OK) {
        log_failure(LOG_ERROR, st, "the list of keys stays as it was");
        return false;
    }
    key_list_free(&g->list);
    g->list = next;
    log_line(LOG_INFO, "the list of keys was read again: %zu keys", g->list.n);
    return true;
}

/* ---- ZAP ---- */

struct frames {
    char data[ZAP_FRAMES][MAX_FRAME];
    size_t n[ZAP_FRAMES];
};

/* The frames of a question after the two of the ROUTER; false: it has another form.  All frames are read; the last, the
 * key, is not there in questions about connections without one. */
static bool take_question(void *sock, zmq_msg_t *from, struct frames *f)
{
    int n = 0, more = 1;
    bool good = true;
    memset(f, 0, sizeof *f);
    for (int i = 0; more; i++) {
        zmq_msg_t m;
        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, sock, ZMQ_DONTWAIT) < 0)
            return false;
        more = zmq_msg_more(&m);
        size_t size = zmq_msg_size(&m);
        if (i == 0)
            zmq_msg_move(from, &m);
        else if (i == 1)
            good = good && size == 0;
        else if (n == ZAP_FRAMES || size >= MAX_FRAME)
            good = false;
        else {
            memcpy(f->data[n], zmq_msg_data(&m), size);
            f->n[n++] = size;
        }
        zmq_msg_close(&m);
    }
    return good && n >= ZAP_FRAMES - 1;
}

static void answer(void *sock, zmq_msg_t *to, const char *id, size_t n_id, const char *user)
{
    const char *const parts[] = {user ? "200" : "400", user ? "OK" : "this key may not connect",
                                 user ? user : "", ""};
    if (zmq_msg_send(to, sock, ZMQ_SNDMORE) < 0 || zmq_send(sock, "", 0, ZMQ_SNDMORE) < 0 ||
        zmq_send(sock, "1.0", 3, ZMQ_SNDMORE) < 0 || zmq_send(sock, id, n_id, ZMQ_SNDMORE) < 0)
        return; /* the connection has ended meanwhile */
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (zmq_send(sock, parts[i], strlen(parts[i]), i + 1 < ARRAY_LEN(parts) ? ZMQ_SNDMORE : 0) <
            0)
            return;
}

/* A question is: version, id, domain, address, identity, mechanism, key. */
static bool may_connect(struct gatekeeper *g, const struct frames *f, char key[CURVE_SIZE],
                        uint64_t now_us)
{
    const char *domain = f->data[2], *name;
    if (strcmp(f->data[5], "NULL") == 0) /* of the ipc endpoints alone: TCP ones speak CURVE */
        return strncmp(f->data[3], LOCAL_PEER, strlen(LOCAL_PEER)) == 0;
    if (strcmp(f->data[5], "CURVE") != 0 || f->n[6] != KEY_BYTES ||
        !zmq_z85_encode(key, (const uint8_t *)f->data[6], KEY_BYTES))
        return false;
    unsigned roles = gatekeeper_roles(g, key, &name);
    unsigned need = strcmp(domain, DOMAIN_WORKERS) == 0
                        ? ROLE_SERVE
                        : ROLE_ASK | ROLE_OBSERVE | ROLE_OPERATE | ROLE_ACT;
    if (roles & need)
        return true;
    uint32_t hidden;
    if (log_limit_take(&g->refusals, now_us, &hidden)) {
        char rest[48] = "";
        if (hidden)
            snprintf(rest, sizeof rest, " (and %u more refusals)", hidden);
        log_line(LOG_WARN, "key %s from %s refused for %s: %s%s%s", key, f->data[3], domain,
                 *name ? "its roles do not suffice, " : "it is not in the list", name, rest);
    }
    return false;
}

void gatekeeper_answer(struct gatekeeper *g, uint64_t now_us)
{
    enum { AT_ONCE = 256 };
    for (int i = 0; g && i < AT_ONCE; i++) {
        zmq_pollitem_t item = {.socket = g->sock, .events = ZMQ_POLLIN};
        struct frames f;
        zmq_msg_t from;
        char key[CURVE_SIZE] = "";
        if (zmq_poll(&item, 1, 0) <= 0)
            return;
        zmq_msg_init(&from);
        bool good = take_question(g->sock, &from, &f);
        if (good)
            answer(g->sock, &from, f.data[1], f.n[1], may_connect(g, &f, key, now_us) ? key : NULL);
        zmq_msg_close(&from);
    }
}
