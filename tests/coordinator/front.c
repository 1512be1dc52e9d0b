#include "coordinator/front.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "common/wire/sock.h"
#include "coordinator/answers.h"
#include "coordinator/clients.h"
#include "coordinator/loop.h"
#include "temp_dir.h"

enum { PATIENCE_MS = 120000, VOCAB = 1024, CTX = 512, N_BLOCKS = 256, BLOCK = 16 };

void front_open(struct front *f, struct coordinator_config cfg)
{
    static char workers[96];
    struct sched_config sc = {.max_seqs = 8,
                              .max_step_tokens = 64,
                              .max_waiting = 64,
                              .max_waiting_tokens = 1 << 20,
                              .max_ctx = CTX,
                              .n_blocks = N_BLOCKS,
                              .block_len = BLOCK,
                              .prefix_cache = true,
                              .max_inflight = 1};
    if (cfg.max_waiting)
        sc.max_waiting = cfg.max_waiting;
    temp_dir_make(f->dir);
    snprintf(f->endpoint, sizeof f->endpoint, "ipc://%s/clients", f->dir);
    snprintf(workers, sizeof workers, "ipc://%s/workers", f->dir);
    f->now_us = 1000 * 1000;
    cfg.model_path = INGOT_SOURCE_DIR "/deploy/demo-model";
    cfg.model_name = "demo";
    cfg.client_port.endpoints = f->endpoint;
    cfg.client_port.max_message = 16 << 20;
    cfg.client_port.heartbeat_ms = 200;
    cfg.client_port.max_clients = 16;
    cfg.worker_port.endpoint = workers;
    cfg.max_waiting = sc.max_waiting;
    cfg.notify_fd = -1;
    cr_assert_eq(coordinator_open(&f->co, &cfg), ST_OK, "%s", status_text());
    cr_assert_eq(fleet_create(&f->co.fleet, &sc), ST_OK, "%s", status_text());
    struct sched_effect fx;
    size_t n_fx;
    cr_assert_eq(fleet_open(f->co.fleet, FRONT_GROUP, sc.n_blocks, &fx, 1, &n_fx), ST_OK);
    f->co.shape.vocab = VOCAB;
    f->co.shape.max_ctx = CTX;
}

void front_close(struct front *f)
{
    coordinator_close(&f->co);
    temp_dir_remove(f->dir);
}

/* ---- a client ---- */

static void receive(struct peer *p)
{
    for (;;) {
        zmq_msg_t m;
        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, p->sock, ZMQ_DONTWAIT) < 0)
            return;
        cr_assert_lt(p->n_kept, ARRAY_LEN(p->kept));
        cr_assert_eq(sock_msg_take(&p->kept[p->n_kept++], &m), ST_OK);
    }
}

static struct client_msg decode(struct peer *p, uint32_t i)
{
    struct client_msg m;
    wire_mem_reset(&p->rx);
    cr_assert_eq(
        client_msg_decode_reply(&m, sock_msg_data(p->kept[i]), sock_msg_size(p->kept[i]), &p->rx),
        ST_OK, "%s", status_text());
    return m;
}

static const char *id_of(const struct client_msg *m)
{
    return m->type == MSG_WELCOME ? "" : m->u.simple.request_id;
}

static void drop(struct peer *p, uint32_t i)
{
    sock_msg_free(p->kept[i]);
    p->n_kept--;
    memmove(&p->kept[i], &p->kept[i + 1], (p->n_kept - i) * sizeof p->kept[0]);
}

/* Turns the loop until the reply with that id has come, and drops it. */
static void turn_until(struct peer *p, const char *id, bool texts)
{
    struct front *f = p->f;
    for (;;) {
        zmq_pollitem_t items[] = {
            {.socket = p->sock, .events = ZMQ_POLLIN},
            {.socket = client_port_socket(f->co.client_port), .events = ZMQ_POLLIN},
            {.fd = text_service_fd(f->co.text), .events = ZMQ_POLLIN},
        };
        cr_assert_gt(zmq_poll(items, texts ? 3 : 2, PATIENCE_MS), 0, "nothing came");
        f->now_us += 1000;
        f->in_loop = true;
        if (texts)
            clients_text_results(&f->co, f->now_us);
        clients_receive(&f->co, f->now_us);
        answer_flush(&f->co, f->now_us);
        f->in_loop = false;
        receive(p);
        for (uint32_t i = p->i_taken; i < p->n_kept; i++) {
            struct client_msg m = decode(p, i);
            if (strcmp(id_of(&m), id) == 0) {
                drop(p, i);
                return;
            }
        }
    }
}

void peer_settle(struct peer *p)
{
    for (int i = 0; i < 2; i++) { /* the second: what was sent after the first reply has come too */
        char id[32];
        struct client_msg m = {.type = MSG_PING};
        snprintf(id, sizeof id, "round-%u", p->n_rounds++);
        m.u.simple.request_id = id;
        peer_send(p, &m);
        turn_until(p, id, false);
    }
}

void peer_settle_texts(struct peer *p)
{
    char id[32];
    struct client_msg m = {.type = MSG_TOKENIZE};
    snprintf(id, sizeof id, "round-%u", p->n_rounds++);
    m.u.tokenize = (struct msg_tokenize){.request_id = id, .model = "", .text = {"x", 1}};
    peer_send(p, &m);
    turn_until(p, id, true); /* jobs are done in order: those before it are done as well */
    peer_settle(p);
}

void peer_open(struct peer *p, struct front *f, const struct tenant *tenant)
{
    peer_open_with(p, f, tenant, "the token of all peers");
}

void peer_open_with(struct peer *p, struct front *f, const struct tenant *tenant, const char *token)
{
    struct sock_config sc = {.linger_ms = 0};
    struct client_msg m = {.type = MSG_HELLO};
    *p = (struct peer){.f = f};
    cr_assert_eq(wire_mem_init(&p->tx, 64 << 20), ST_OK);
    cr_assert_eq(wire_mem_init(&p->rx, 64 << 20), ST_OK);
    cr_assert_eq(sock_connect_dealer(&p->sock, f->co.zmq_ctx, f->endpoint, &sc), ST_OK);
    m.u.hello = (struct msg_hello){
        .major_min = WIRE_MAJOR, .major_max = WIRE_MAJOR, .client = "peer", .tenant = *tenant};
    m.u.hello.token = (struct wire_text){token, token ? strlen(token) : 0};
    peer_send(p, &m);
    peer_settle(p);
    struct tenant own = peer_take(p, MSG_WELCOME, NULL).u.welcome.tenant;
    cr_assert(tenant->n ? tenant_equal(&own, tenant) : own.n >= 16);
}

void peer_close(struct peer *p)
{
    while (p->n_kept)
        drop(p, p->n_kept - 1);
    sock_close(p->sock);
    wire_mem_fini(&p->tx);
    wire_mem_fini(&p->rx);
}

void peer_send(struct peer *p, const struct client_msg *m)
{
    struct wire_bytes out;
    wire_mem_reset(&p->tx);
    cr_assert_eq(client_msg_encode_request(&out, m, &p->tx), ST_OK, "%s", status_text());
    cr_assert_geq(zmq_send(p->sock, out.data, out.n, 0), 0);
}

void peer_generate(struct peer *p, const char *id, const char *text)
{
    struct client_msg m = {.type = MSG_GENERATE};
    m.u.generate = msg_generate_default();
    m.u.generate.request_id = id;
    m.u.generate.text = (struct wire_text){text, strlen(text)};
    m.u.generate.max_tokens = 8;
    peer_send(p, &m);
}

void peer_cancel(struct peer *p, const char *id)
{
    struct client_msg m = {.type = MSG_CANCEL, .u.cancel = {.request_id = id}};
    peer_send(p, &m);
}

struct client_msg peer_take(struct peer *p, enum msg_type want, const char *id)
{
    while (p->i_taken) { /* the pointers of the reply before are void now */
        drop(p, 0);
        p->i_taken--;
    }
    cr_assert_gt(p->n_kept, 0, "nothing has come for %s", id ? id : "the connection");
    struct client_msg m = decode(p, 0);
    p->i_taken = 1;
    cr_assert_eq(m.type, want, "a message of type %d for %s: %s", (int)m.type, id_of(&m),
                 m.type == MSG_ERROR || m.type == MSG_REJECTED ? m.u.error.detail : "");
    if (id)
        cr_assert_str_eq(id_of(&m), id);
    return m;
}

void peer_nothing(const struct peer *p)
{
    cr_assert_eq(p->n_kept, p->i_taken, "%u more replies came", p->n_kept - p->i_taken);
}
