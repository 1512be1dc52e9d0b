/* The workers' side with groups of the test's own and a clock of the test's own: why a group is lost, what
 * does not count against it, and for whom places are kept. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "common/wire/sock.h"
#include "coordinator/worker_port.h"

enum { SECOND = 1000000, STEP_MS = 3000, SILENCE_MS = 3000, LEASE_MS = 10000 };
enum { PATIENCE_MS = 300000 }; /* for what must come */

struct rig {
    void *ctx;
    struct worker_port *port;
    struct wire_mem mem;
    uint64_t now; /* us */
};

static const uint8_t digest[SHA256_BYTES] = {7};

static void set_up(struct rig *r)
{
    *r = (struct rig){.ctx = zmq_ctx_new(), .now = 1000 * (uint64_t)SECOND};
    struct worker_port_config cfg = {.endpoint = "tcp://127.0.0.1:*",
                                     .heartbeat_ms = 200,
                                     .silence_ms = SILENCE_MS,
                                     .step_min_ms = STEP_MS,
                                     .first_step_ms = STEP_MS,
                                     .lease_ms = LEASE_MS};
    struct worker_port_need need = {
        .model_vocab = 100, .model_max_ctx = 128, .has_weights = true, .weights_from = "own"};
    memcpy(need.weights, digest, sizeof digest);
    cr_assert_eq(wire_mem_init(&r->mem, 1 << 20), ST_OK);
    cr_assert_eq(worker_port_open(&r->port, r->ctx, &cfg), ST_OK, "%s", status_text());
    worker_port_require(r->port, &need);
}

static void tear_down(struct rig *r)
{
    worker_port_close(r->port);
    wire_mem_fini(&r->mem);
    zmq_ctx_term(r->ctx);
}

static void send_msg(struct rig *r, void *sock, const struct worker_msg *m)
{
    struct wire_bytes b;
    wire_mem_reset(&r->mem);
    cr_assert_eq(worker_msg_encode(&b, m, &r->mem), ST_OK, "%s", status_text());
    cr_assert_geq(zmq_send(sock, b.data, b.n, 0), 0);
}

/* Rank 0 of a new group, which has said Hello. */
static void *hello(struct rig *r, bool known)
{
    struct worker_msg m = {.type = WMSG_HELLO,
                           .u.hello = {.wire_version = WORKER_WIRE_VERSION,
                                       .model = "m",
                                       .backend = "cpu",
                                       .coll = "local",
                                       .numerics = "n",
                                       .has_weights = known,
                                       .world = 1,
                                       .vocab = 100,
                                       .max_ctx = 128,
                                       .block_len = 16,
                                       .n_blocks = 100,
                                       .max_step_tokens = 64,
                                       .max_seqs = 8,
                                       .launch = 1,
                                       .pid = 1}};
    struct sock_config sc = {.max_message = 1 << 20};
    void *sock;
    memcpy(m.u.hello.weights, digest, sizeof digest);
    cr_assert_eq(sock_connect_dealer(&sock, r->ctx, worker_port_endpoint(r->port), &sc), ST_OK);
    send_msg(r, sock, &m);
    return sock;
}

/* Polls, without time passing for the port, until an event comes. */
static struct worker_port_event await(struct rig *r)
{
    struct worker_port_event ev;
    zmq_pollitem_t items[] = {{.socket = worker_port_socket(r->port), .events = ZMQ_POLLIN},
                              {.socket = worker_port_monitor(r->port), .events = ZMQ_POLLIN}};
    for (int i = 0; i < PATIENCE_MS; i++) {
        worker_port_poll(r->port, r->now, &ev);
        if (ev.kind != WORKER_PORT_NONE)
            return ev;
        zmq_poll(items, 2, 1);
    }
    cr_assert_fail("no event came");
    return ev;
}

static bool answers(struct rig *r, void *sock, struct worker_msg *m)
{
    static uint8_t bytes[4096];
    zmq_pollitem_t item = {.socket = sock, .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, PATIENCE_MS), 1);
    int n = zmq_recv(sock, bytes, sizeof bytes, 0);
    wire_mem_reset(&r->mem);
    return n > 0 && worker_msg_decode(m, bytes, (size_t)n, &r->mem) == ST_OK;
}

static void *active_group(struct rig *r)
{
    void *sock = hello(r, true);
    cr_assert_eq(await(r).kind, WORKER_PORT_JOINED);
    cr_assert_not_null(worker_port_promote(r->port, false, NULL));
    return sock;
}

static void send_step(struct rig *r)
{
    struct plan_seq seq = {.seq_id = 1, .n_tokens = 1, .pos = 4};
    int32_t token = 1;
    struct step_plan plan = {
        .step_id = 1, .epoch = 1, .n_seqs = 1, .n_tokens = 1, .seqs = &seq, .tokens = &token};
    cr_assert_eq(worker_port_send_plan(r->port, worker_port_active(r->port), &plan, r->now), ST_OK,
                 "%s", status_text());
}

Test(worker_port, a_step_that_is_not_answered)
{
    struct rig r;
    struct worker_port_event ev;
    set_up(&r);
    void *sock = active_group(&r);
    send_step(&r);
    uint64_t begin = r.now;
    do {
        r.now += SECOND / 5;
        worker_port_poll(r.port, r.now, &ev);
    } while (ev.kind == WORKER_PORT_NONE && r.now - begin < 10 * (uint64_t)SECOND);
    cr_assert_eq(ev.kind, WORKER_PORT_LOST);
    cr_assert(strstr(ev.why, "no answer to a step of 1 tokens within 3200 ms"), "%s", ev.why);
    sock_close(sock);
    tear_down(&r);
}

/* A launcher's connection that has asked about the epoch.  Polls until the port has read it. */
static void *watcher(struct rig *r, uint64_t epoch)
{
    struct worker_msg m = {.type = WMSG_WATCH, .u.beat.epoch = epoch};
    struct sock_config sc = {.max_message = 1 << 20};
    zmq_pollitem_t item = {.socket = worker_port_socket(r->port), .events = ZMQ_POLLIN};
    struct worker_port_event ev;
    void *sock;
    cr_assert_eq(sock_connect_dealer(&sock, r->ctx, worker_port_endpoint(r->port), &sc), ST_OK);
    send_msg(r, sock, &m);
    cr_assert_eq(zmq_poll(&item, 1, PATIENCE_MS), 1);
    worker_port_poll(r->port, r->now, &ev);
    cr_assert_eq(ev.kind, WORKER_PORT_NONE);
    return sock;
}

Test(worker_port, a_launcher_is_told_that_its_group_is_given_up)
{
    for (int busy = 0; busy < 2; busy++) {
        struct rig r;
        struct worker_port_event ev = {.kind = WORKER_PORT_NONE};
        struct worker_msg m;
        set_up(&r);
        void *sock = active_group(&r);
        uint64_t epoch = worker_port_active(r.port)->epoch;
        void *early = watcher(&r, epoch), *again = watcher(&r, epoch); /* the last one is told */
        if (busy)
            send_step(&r);
        for (int i = 0; i < 50 && ev.kind == WORKER_PORT_NONE; i++) {
            r.now += SECOND / 5;
            worker_port_poll(r.port, r.now, &ev);
        }
        cr_assert_eq(ev.kind, WORKER_PORT_LOST);
        cr_assert(answers(&r, again, &m) && m.type == WMSG_REFUSED);
        cr_assert_str_eq(m.u.refused, ev.why);
        void *late = watcher(&r, epoch);
        cr_assert(answers(&r, late, &m) && m.type == WMSG_REFUSED);
        zmq_pollitem_t item = {.socket = early, .events = ZMQ_POLLIN};
        cr_assert_eq(zmq_poll(&item, 1, 0), 0);
        sock_close(early);
        sock_close(again);
        sock_close(late);
        sock_close(sock);
        tear_down(&r);
    }
}

Test(worker_port, a_launcher_is_not_told_of_a_group_that_ends_or_may_come_back)
{
    for (int says = 0; says < 2; says++) {
        struct rig r;
        struct worker_msg m = {.type = WMSG_GOODBYE};
        set_up(&r);
        void *sock = active_group(&r);
        m.u.beat.epoch = worker_port_active(r.port)->epoch;
        void *first = watcher(&r, m.u.beat.epoch);
        if (says)
            send_msg(&r, sock, &m);
        else
            sock_close(sock); /* rank 0 may say Hello again */
        cr_assert_eq(await(&r).kind, WORKER_PORT_LOST);
        void *late = watcher(&r, m.u.beat.epoch);
        cr_assert(answers(&r, late, &m) && m.type == WMSG_SHUTDOWN);
        zmq_pollitem_t item = {.socket = first, .events = ZMQ_POLLIN};
        cr_assert_eq(zmq_poll(&item, 1, 0), 0);
        sock_close(first);
        sock_close(late);
        if (says)
            sock_close(sock);
        tear_down(&r);
    }
}

Test(worker_port, an_own_pause_does_not_count)
{
    struct rig r;
    struct worker_port_event ev;
    set_up(&r);
    void *sock = active_group(&r);
    for (int i = 0; i < 3; i++) { /* idle and with a step in flight */
        r.now += 60 * (uint64_t)SECOND;
        worker_port_poll(r.port, r.now, &ev);
        cr_assert_eq(ev.kind, WORKER_PORT_NONE, "lost: %s", ev.why);
        if (i == 0)
            send_step(&r);
    }
    r.now += SECOND / 2; /* the deadline has begun again, not ended */
    worker_port_poll(r.port, r.now, &ev);
    cr_assert_eq(ev.kind, WORKER_PORT_NONE);
    for (int i = 0; i < 20 && ev.kind == WORKER_PORT_NONE; i++) {
        r.now += SECOND / 5;
        worker_port_poll(r.port, r.now, &ev);
    }
    cr_assert_eq(ev.kind, WORKER_PORT_LOST);
    sock_close(sock);
    tear_down(&r);
}

Test(worker_port, an_ended_connection_is_named)
{
    for (int busy = 0; busy < 2; busy++) {
        struct rig r;
        set_up(&r);
        void *sock = active_group(&r);
        if (busy)
            send_step(&r);
        sock_close(sock);
        struct worker_port_event ev = await(&r); /* at once: no time passes for the port */
        cr_assert_eq(ev.kind, WORKER_PORT_LOST);
        cr_assert_str_eq(ev.why, "its connection has ended");
        tear_down(&r);
    }
}

Test(worker_port, last_words_come_before_the_end_of_the_connection)
{
    struct rig r;
    struct worker_msg m;
    set_up(&r);
    void *sock = active_group(&r);
    cr_assert(answers(&r, sock, &m) && m.type == WMSG_WELCOME);
    struct worker_msg fault = {
        .type = WMSG_FAULT, .u.fault = {.epoch = m.u.welcome.epoch, .rank = 1, .detail = "gone"}};
    int linger = PATIENCE_MS;
    send_msg(&r, sock, &fault);
    zmq_setsockopt(sock, ZMQ_LINGER, &linger, sizeof linger);
    sock_close(sock);
    struct worker_port_event ev = await(&r);
    cr_assert_eq(ev.kind, WORKER_PORT_LOST);
    cr_assert_str_eq(ev.why, "rank 1: gone");
    tear_down(&r);
}

Test(worker_port, places_are_kept_for_known_groups)
{
    struct rig r;
    struct worker_msg m;
    void *sock[MAX_WORKER_GROUPS + 4];
    int n = 0;
    set_up(&r);
    for (; n < MAX_WORKER_GROUPS - 2; n++) {
        sock[n] = hello(&r, false);
        cr_assert_eq(await(&r).kind, WORKER_PORT_JOINED);
    }
    for (int i = 0; i < 4; i++, n++) { /* as many fakes as like to */
        struct worker_port_event ev;
        zmq_pollitem_t item = {.socket = worker_port_socket(r.port), .events = ZMQ_POLLIN};
        sock[n] = hello(&r, false);
        cr_assert_eq(zmq_poll(&item, 1, PATIENCE_MS), 1);
        worker_port_poll(r.port, r.now, &ev);
        cr_assert_eq(ev.kind, WORKER_PORT_NONE);
        cr_assert(answers(&r, sock[n], &m) && m.type == WMSG_REFUSED);
        cr_assert(strstr(m.u.refused, "too many worker groups"), "%s", m.u.refused);
    }
    for (int i = 0; i < 2; i++, n++) {
        sock[n] = hello(&r, true);
        cr_assert_eq(await(&r).kind, WORKER_PORT_JOINED);
    }
    while (n > 0)
        sock_close(sock[--n]);
    tear_down(&r);
}

/* Sends them and waits until the group has n, or is lost; ev.why then. */
static struct worker_port_event send_figures(struct rig *r, void *sock, uint64_t epoch, uint32_t n)
{
    static const uint64_t steps[2] = {7, 8}, step_us[2] = {900, 100}, comm[2] = {30, 40},
                          kv[2] = {4096, 8192};
    struct worker_msg m = {.type = WMSG_FIGURES,
                           .u.figures = {epoch, {n, steps, step_us, comm, kv}}};
    struct worker_group *g = worker_port_group(r->port, 0);
    struct worker_port_event ev = {.kind = WORKER_PORT_NONE};
    zmq_pollitem_t item = {.socket = worker_port_socket(r->port), .events = ZMQ_POLLIN};
    uint64_t heard = g->heard_us;
    r->now++;
    send_msg(r, sock, &m);
    while (ev.kind == WORKER_PORT_NONE && g->used && g->heard_us == heard) {
        cr_assert_eq(zmq_poll(&item, 1, PATIENCE_MS), 1);
        worker_port_poll(r->port, r->now, &ev);
    }
    return ev;
}

Test(worker_port, figures_of_ranks)
{
    struct rig r;
    set_up(&r);
    void *sock = active_group(&r);
    const struct worker_group *g = worker_port_active(r.port);
    cr_assert_eq(g->figures.n, 0);
    cr_assert_eq(send_figures(&r, sock, g->epoch + 1, 1).kind, WORKER_PORT_NONE);
    cr_assert_eq(g->figures.n, 0, "of another epoch");
    cr_assert_eq(send_figures(&r, sock, g->epoch, 1).kind, WORKER_PORT_NONE);
    cr_assert_eq(g->figures.n, 1);
    cr_assert(g->figures.steps[0] == 7 && g->figures.step_us[0] == 900 &&
              g->figures.collective_us[0] == 30 && g->figures.kv_bytes[0] == 4096);
    struct worker_port_event ev = send_figures(&r, sock, g->epoch, 2);
    cr_assert_eq(ev.kind, WORKER_PORT_LOST);
    cr_assert_str_eq(ev.why, "it has 1 ranks and sent figures of 2");
    sock_close(sock);
    tear_down(&r);
}

Test(worker_port, embeddings_of_another_size)
{
    struct rig r;
    float vector[4] = {1, 2, 3, 4};
    set_up(&r);
    void *sock = active_group(&r); /* its Hello says that it gives none */
    struct result_embedding embedding = {.seq_id = 1, .vector = vector};
    struct worker_msg m = {.type = WMSG_STEP_RESULT,
                           .u.result = {.step_id = 1,
                                        .epoch = worker_port_active(r.port)->epoch,
                                        .n_embeddings = 1,
                                        .dim = 4,
                                        .embeddings = &embedding}};
    send_step(&r);
    send_msg(&r, sock, &m);
    struct worker_port_event ev = await(&r);
    cr_assert_eq(ev.kind, WORKER_PORT_LOST);
    cr_assert_str_eq(ev.why, "its embeddings have 0 components, one came with 4");
    sock_close(sock);
    tear_down(&r);
}
