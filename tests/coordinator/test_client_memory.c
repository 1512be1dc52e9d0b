/* libingot when one allocation fails, each of them in turn: the call says so, and nothing is lost with it: each request has
 * one Accepted, each token once and one Finish, each query one reply.  The server is a script. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "client/lib/ingot.h"
#include "common/wire/client_msg.h"
#include "common/wire/sock.h"
#include "temp_dir.h"
#include "wrap_allocator.h"

enum { PATIENCE_MS = 120000, N_TOKENS = 20, MAX_MEM = 1 << 20 };

/* ---- memory ---- */

static unsigned long n_left; /* allocations until the one that fails; 0: none does */
static _Thread_local bool in_libingot;

static bool allocation_fails(void)
{
    return in_libingot && n_left && --n_left == 0;
}

char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

char *__wrap_strdup(const char *s)
{
    return allocation_fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return allocation_fails() ? NULL : __real_strndup(s, n);
}

/* A call of the library. */
#define CALL(code, call)                                                                           \
    do {                                                                                           \
        in_libingot = true;                                                                        \
        (code) = (call);                                                                           \
        in_libingot = false;                                                                       \
    } while (0)

/* ---- the server ---- */

static struct {
    char dir[64], endpoint[96];
    void *ctx, *sock;
    pthread_t thread;
    int stop;
    struct wire_mem mem;
    zmq_msg_t from;
    bool open; /* the request "open" has not ended */
} server;

static void say(const struct client_msg *m)
{
    struct wire_bytes out;
    zmq_msg_t to;
    zmq_msg_init(&to);
    zmq_msg_copy(&to, &server.from);
    cr_assert_eq(client_msg_encode_reply(&out, m, &server.mem), ST_OK, "%s", status_text());
    if (zmq_msg_send(&to, server.sock, ZMQ_SNDMORE) < 0)
        zmq_msg_close(&to); /* the client has gone */
    else
        zmq_send(server.sock, out.data, out.n, 0);
}

static void say_finish(const char *id, uint32_t n, enum msg_reason reason)
{
    const struct msg_sample_end end = {.reason = reason, .stop_id = -1, .completion_tokens = n};
    struct client_msg m = {.type = MSG_FINISH};
    m.u.finish = (struct msg_finish){
        .request_id = id, .n_samples = 1, .samples = &end, .completion_tokens = n};
    say(&m);
}

static void on_generate(const struct msg_generate *g)
{
    const struct msg_sampling sampling = msg_generate_default().sampling;
    static const uint8_t digest[PROMPT_DIGEST] = {1};
    struct client_msg m = {.type = MSG_ACCEPTED};
    bool whole = strcmp(g->request_id, "whole") == 0;
    m.u.accepted = (struct msg_accepted){.request_id = g->request_id,
                                         .prompt_tokens = 3,
                                         .attached = g->resume != NULL,
                                         .prompt_digest = digest,
                                         .max_tokens = N_TOKENS,
                                         .sampling = sampling,
                                         .numerics = ""};
    say(&m);
    server.open = server.open || !whole;
    if (!whole)
        return;
    m.type = MSG_DELTA;
    for (int32_t i = g->resume ? (int32_t)g->resume->samples[0].n : 0; i < N_TOKENS; i++) {
        m.u.delta = (struct msg_delta){
            .request_id = g->request_id, .n = 1, .ids = &i, .text = {"word ", 5}};
        say(&m);
    }
    say_finish(g->request_id, N_TOKENS, REASON_LENGTH);
}

static void on_message(const struct client_msg *in)
{
    static const int32_t ids[] = {7, 8, 9};
    struct client_msg m = {.type = MSG_WELCOME};
    switch (in->type) {
    case MSG_HELLO:
        m.u.welcome = (struct msg_welcome){.major = WIRE_MAJOR,
                                           .epoch = 1,
                                           .server = "script",
                                           .max_message_bytes = MAX_MEM,
                                           .heartbeat_ms = PATIENCE_MS,
                                           .tenant = in->u.hello.tenant};
        say(&m);
        break;
    case MSG_GENERATE:
        on_generate(&in->u.generate);
        break;
    case MSG_TOKENIZE:
        m.type = MSG_TOKENS;
        m.u.tokens = (struct msg_tokens){
            .request_id = in->u.tokenize.request_id, .n_tokens = 3, .tokens = ids};
        say(&m);
        break;
    case MSG_CANCEL:
        if (server.open)
            say_finish(in->u.cancel.request_id, 0, REASON_CANCELLED);
        server.open = false;
        break;
    default:
        break;
    }
}

static void *serve(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&server.stop, __ATOMIC_SEQ_CST)) {
        zmq_pollitem_t item = {.socket = server.sock, .events = ZMQ_POLLIN};
        struct client_msg m;
        const char *id, *field;
        zmq_msg_t body;
        if (zmq_poll(&item, 1, 20) <= 0)
            continue;
        zmq_msg_init(&server.from);
        zmq_msg_init(&body);
        cr_assert_geq(zmq_msg_recv(&server.from, server.sock, 0), 0);
        cr_assert_geq(zmq_msg_recv(&body, server.sock, 0), 0);
        wire_mem_reset(&server.mem);
        cr_assert_eq(client_msg_decode_request(&m, zmq_msg_data(&body), zmq_msg_size(&body),
                                               &server.mem, &id, &field),
                     ST_OK, "%s", status_text());
        on_message(&m);
        zmq_msg_close(&server.from);
        zmq_msg_close(&body);
    }
    return NULL;
}

static void open_server(void)
{
    const struct sock_config sc = {.linger_ms = 0};
    temp_dir_make(server.dir);
    snprintf(server.endpoint, sizeof server.endpoint, "ipc://%s/clients", server.dir);
    server.ctx = zmq_ctx_new();
    cr_assert_eq(wire_mem_init(&server.mem, 16 << 20), ST_OK);
    cr_assert_eq(sock_bind_router(&server.sock, server.ctx, server.endpoint, &sc, NULL, 0), ST_OK,
                 "%s", status_text());
    cr_assert_eq(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void close_server(void)
{
    __atomic_store_n(&server.stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(server.thread, NULL);
    sock_close(server.sock);
    zmq_ctx_term(server.ctx);
    wire_mem_fini(&server.mem);
    temp_dir_remove(server.dir);
}

TestSuite(client_memory, .init = open_server, .fini = close_server);

/* ---- the client ---- */

struct session {
    struct ingot_client *c;
    bool reconnects; /* the library, by itself */
    unsigned n_failed;
    unsigned n_accepted, n_tokens, n_finished; /* of "whole", over this connection if it does not */
    unsigned n_replies;                        /* of the query */
    bool asking;                               /* it was sent over this connection */
    bool open_accepted, cancelled;
};

static void failed(struct session *s, enum ingot_code code)
{
    cr_assert_eq(code, INGOT_OUT_OF_MEMORY, "%s: %s", ingot_code_name(code), ingot_last_error());
    cr_assert(strstr(ingot_last_error(), "memory"), "%s", ingot_last_error());
    cr_assert_eq(n_left, 0UL);
    s->n_failed++;
}

static void generate(struct session *s, const char *id)
{
    struct ingot_request r = ingot_request_default();
    enum ingot_code code;
    r.request_id = id;
    r.text = "Once";
    r.n_text = 4;
    for (;;) {
        CALL(code, ingot_generate(s->c, &r, NULL));
        if (code == INGOT_OK)
            return;
        failed(s, code);
    }
}

/* The program's part, where the library does not connect again. */
static void connect_again(struct session *s)
{
    enum ingot_code code;
    CALL(code, ingot_reconnect(s->c, PATIENCE_MS));
    cr_assert_eq(code, INGOT_OK, "%s", ingot_last_error());
    s->n_accepted = s->n_tokens = s->n_finished = 0;
    s->asking = false;
    generate(s, "whole");
}

static void take(struct session *s, const struct ingot_event *ev)
{
    if (strcmp(ev->request_id, "query") == 0) {
        s->n_replies += ev->kind == INGOT_EVENT_TOKENS;
        s->asking = false;
        if (ev->kind == INGOT_EVENT_TOKENS)
            cr_assert_eq(ev->n_ids, 3u);
        else
            cr_assert(ev->kind == INGOT_EVENT_ERROR && ev->code == INGOT_PEER && ev->retryable &&
                      s->reconnects && s->n_failed);
    } else if (strcmp(ev->request_id, "open") == 0) {
        cr_assert_eq(ev->kind, s->open_accepted ? INGOT_EVENT_FINISH : INGOT_EVENT_ACCEPTED);
        s->cancelled = s->open_accepted && ev->samples[0].reason == INGOT_REASON_CANCELLED;
        s->open_accepted = true;
    } else if (ev->kind == INGOT_EVENT_DELTA) {
        cr_assert(ev->n_ids == 1 && ev->ids[0] == (int32_t)s->n_tokens,
                  "token %d is the %u. that came", ev->ids[0], s->n_tokens);
        cr_assert_eq(ev->n_text, 5u);
        s->n_tokens++;
    } else {
        s->n_accepted += ev->kind == INGOT_EVENT_ACCEPTED;
        s->n_finished += ev->kind == INGOT_EVENT_FINISH;
    }
}

static void pump(struct session *s)
{
    struct ingot_event ev;
    enum ingot_code code;
    CALL(code, ingot_next(s->c, &ev, PATIENCE_MS));
    if (code == INGOT_OK)
        take(s, &ev);
    else if (code == INGOT_PEER && !s->reconnects)
        connect_again(s);
    else
        failed(s, code);
}

/* With a reply, while events come. */
static void tokenize(struct session *s)
{
    const int32_t *ids;
    size_t n;
    for (;;) {
        enum ingot_code code;
        CALL(code, ingot_tokenize(s->c, "Once", 4, true, &ids, &n));
        if (code == INGOT_OK)
            break;
        failed(s, code);
        pump(s); /* a new connection */
    }
    cr_assert(n == 3 && ids[0] == 7 && ids[2] == 9);
}

static void send_query(struct session *s)
{
    for (;;) {
        enum ingot_code code;
        CALL(code, ingot_send_tokenize(s->c, "query", "Once", 4, true, false));
        s->asking = code == INGOT_OK;
        if (s->asking)
            return;
        failed(s, code);
    }
}

static void pack(struct session *s)
{
    struct ingot_request r = ingot_request_default();
    struct ingot_packed *p;
    enum ingot_code code = INGOT_OUT_OF_MEMORY;
    r.text = "Once";
    r.n_text = 4;
    while (code != INGOT_OK) {
        CALL(code, ingot_pack(s->c, &r, &p));
        if (code != INGOT_OK) {
            failed(s, code);
            cr_assert_null(p);
        }
    }
    ingot_packed_free(p);
}

static void open_client(struct session *s)
{
    char list[256];
    struct ingot_options o = {.endpoint = list,
                              .timeout_ms = PATIENCE_MS,
                              .reconnect_ms = s->reconnects ? PATIENCE_MS : 0};
    snprintf(list, sizeof list, "%s,%s", server.endpoint, server.endpoint);
    for (;;) {
        enum ingot_code code;
        CALL(code, ingot_open(&s->c, &o));
        if (code == INGOT_OK)
            return;
        cr_assert_null(s->c);
        failed(s, code);
    }
}

/* One session whose k-th allocation fails. */
static unsigned run(unsigned long k, bool reconnects)
{
    struct session s = {.reconnects = reconnects};
    enum ingot_code code;
    n_left = k;
    open_client(&s);
    generate(&s, "whole");
    tokenize(&s);
    while (!s.n_finished || !s.n_replies) {
        if (!s.n_replies && !s.asking && ingot_connected(s.c))
            send_query(&s); /* again, where one has gone with its connection */
        pump(&s);
    }
    cr_assert(s.n_accepted == 1 && s.n_tokens == N_TOKENS && s.n_finished == 1,
              "allocation %lu: %u Accepted, %u tokens, %u Finish", k, s.n_accepted, s.n_tokens,
              s.n_finished);
    generate(&s, "open");
    while (!s.open_accepted)
        pump(&s);
    CALL(code, ingot_cancel(s.c, "open"));
    cr_assert_eq(code, INGOT_OK);
    while (!s.cancelled)
        pump(&s);
    pack(&s);
    ingot_close(s.c);
    return s.n_failed;
}

static void each_fails(bool reconnects, unsigned least)
{
    unsigned n_failed = 0;
    unsigned long k = 0;
    cr_assert_eq(run(0, reconnects), 0u);
    for (bool reached = true; reached;) {
        unsigned one = run(++k, reconnects);
        reached = n_left == 0;
        n_left = 0;
        cr_assert_leq(one, 1u);
        n_failed += one;
    }
    cr_assert_geq(n_failed, least, "%u of %lu", n_failed, k);
}

Test(client_memory, the_library_connects_again)
{
    each_fails(true, N_TOKENS + 8);
}

Test(client_memory, the_program_connects_again)
{
    each_fails(false, N_TOKENS + 5);
}
