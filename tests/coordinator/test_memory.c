/* A request whose coordinator has no memory for one allocation, each of them in turn, from the Generate to the last
 * token: it is refused or ends with an Error that says so and passes, and goes on from there with the same bytes; and the
 * coordinator serves the next one. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/answers.h"
#include "coordinator/clients.h"
#include "coordinator/front.h"
#include "coordinator/recovery.h"
#include "wrap_allocator.h"

static unsigned long n_left; /* allocations until the one that fails; 0: none does */
static pthread_t asker;      /* the thread of the test, which is the loop too */
static struct front front;

static bool allocation_fails(void)
{
    if (!__atomic_load_n(&n_left, __ATOMIC_SEQ_CST) ||
        (pthread_equal(pthread_self(), asker) && !front.in_loop))
        return false;
    return __atomic_sub_fetch(&n_left, 1, __ATOMIC_SEQ_CST) == 0;
}

enum { MAX_IDS = 64, MAX_TEXT = 1024, NEW = 20 };
static const char script[] = "Once upon a time there was a small h\xc3\xa9"
                             "dgehog. It said: one two three.";
static const struct tenant acme = {4, "acme"};
static struct peer peer;
static int32_t ids[MAX_IDS];
static uint32_t n_ids;

static void open_all(void)
{
    struct token_list list = {0};
    asker = pthread_self();
    front_open(&front, (struct coordinator_config){.client_grace_ms = 1000000});
    struct served *served = &front.co.served;
    *served = (struct served){.any = true, .numerics = "test/strict", .has_weights = true};
    front.co.shape.vocab = (uint32_t)tokenizer_max_id(front.co.mt.tok) + 1;
    front.co.fx_cap = 4096;
    front.co.fx = calloc(front.co.fx_cap, sizeof *front.co.fx);
    peer_open(&peer, &front, &acme);
    cr_assert_eq(tokenizer_encode(front.co.mt.tok, script, strlen(script), 0, &list), ST_OK);
    n_ids = (uint32_t)list.n;
    cr_assert(n_ids >= NEW && n_ids <= MAX_IDS);
    memcpy(ids, list.ids, list.n * sizeof list.ids[0]);
    token_list_free(&list);
}

static void close_all(void)
{
    peer_close(&peer);
    front_close(&front);
}

TestSuite(memory, .init = open_all, .fini = close_all);

/* ---- the loop's part, with memory that ends ---- */

static void effects(const struct step_result *result, size_t n_fx)
{
    front.in_loop = true;
    answer_effects(&front.co, result, n_fx, front.now_us);
    front.in_loop = false;
}

/* A step of all sequences; false: there is none. */
static bool step(void)
{
    struct coordinator *co = &front.co;
    const struct fleet_move *moves;
    struct step_plan plan;
    struct result_token tokens[16];
    size_t n_fx = 0;
    front.now_us += 1000;
    fleet_plan(co->fleet, FLEET_QUEUE, front.now_us, &plan, co->fx, co->fx_cap, &n_fx);
    effects(NULL, n_fx);
    fleet_place(co->fleet, &moves);
    bool made = fleet_plan(co->fleet, FRONT_GROUP, front.now_us, &plan, co->fx, co->fx_cap, &n_fx);
    effects(NULL, n_fx);
    if (!made)
        return false;
    struct step_result result = {.step_id = plan.step_id, .epoch = plan.epoch, .tokens = tokens};
    for (uint32_t i = 0; i < plan.n_seqs; i++) {
        struct sample *s;
        if (plan.seqs[i].want == WANT_NONE)
            continue;
        struct request *r = request_of_seq(co->requests, plan.seqs[i].seq_id, &s);
        uint32_t at = s->n - r->ask->n_prompt;
        tokens[result.n++] = (struct result_token){.seq_id = plan.seqs[i].seq_id,
                                                   .token = ids[at % n_ids],
                                                   .logprob = -(float)at,
                                                   .top = {{1, -1.0f}, {2, -2.0f}},
                                                   .n_top = 2};
    }
    cr_assert_eq(fleet_commit(co->fleet, FRONT_GROUP, &result, co->fx, co->fx_cap, &n_fx), ST_OK);
    effects(&result, n_fx);
    front.in_loop = true;
    answer_flush(co, front.now_us);
    front.in_loop = false;
    return true;
}

/* ---- a client ---- */

struct got {
    int32_t ids[MAX_IDS];
    uint32_t n, n_top;
    float logprobs[MAX_IDS];
    char text[MAX_TEXT];
    size_t n_text;
    bool accepted, ended, again; /* again: refused, or ended for lack of memory */
    struct msg_accepted first;   /* its memory is mem's */
    struct wire_mem mem;
};

static char id[32]; /* of the request: of each run its own */

static struct msg_generate request(void)
{
    static const struct wire_text stops[] = {{"STOP", 4}, {"END", 3}};
    static const struct logit_bias bias[] = {{7, 1.0f}};
    struct msg_generate g = msg_generate_default();
    g.request_id = id;
    g.text = (struct wire_text){"Tell me", 7};
    g.max_tokens = NEW;
    g.n_stops = 2;
    g.stops = stops;
    g.sampling.sp.logprobs = true;
    g.sampling.sp.top_logprobs = 2;
    g.sampling.bias = bias;
    g.sampling.n_bias = 1;
    g.want_token_text = true;
    g.want_prompt_ids = g.want_prompt_text = true;
    return g;
}

static void take_delta(struct got *g, const struct msg_delta *d)
{
    cr_assert_leq(g->n + d->n, (uint32_t)MAX_IDS);
    if (d->n) {
        memcpy(g->ids + g->n, d->ids, d->n * sizeof *d->ids);
        memcpy(g->logprobs + g->n, d->logprobs, d->n * sizeof *d->logprobs);
    }
    for (uint32_t i = 0; i < d->n; i++)
        g->n_top += d->n_top[i];
    g->n += d->n;
    memcpy(g->text + g->n_text, d->text.data, d->text.n);
    g->n_text += d->text.n;
}

static void take_error(struct got *g, const struct msg_error *e)
{
    cr_assert(e->code == ST_NOMEM && e->retryable && *e->detail, "%s: %s", status_name(e->code),
              e->detail);
    g->again = true;
}

/* All that has come; Accepted is kept once. */
static void take(struct got *g)
{
    while (peer.n_kept > peer.i_taken) {
        struct sock_msg *bytes = peer.kept[peer.i_taken];
        struct client_msg m;
        struct wire_mem *mem = g->accepted ? &peer.rx : &g->mem;
        wire_mem_reset(mem);
        cr_assert_eq(client_msg_decode_reply(&m, sock_msg_data(bytes), sock_msg_size(bytes), mem),
                     ST_OK);
        if (m.type == MSG_DELTA)
            take_delta(g, &m.u.delta);
        else if (m.type == MSG_FINISH)
            g->ended = true;
        else if (m.type == MSG_ERROR || m.type == MSG_REJECTED)
            take_error(g, &m.u.error);
        else if (m.type == MSG_ACCEPTED && !g->accepted)
            g->first = m.u.accepted;
        else
            cr_assert_eq(m.type, MSG_ACCEPTED);
        g->accepted = g->accepted || m.type == MSG_ACCEPTED;
        peer_take(&peer, m.type, id);
    }
}

/* Asks, or goes on with what has come. */
static void ask(struct got *g)
{
    struct client_msg m = {.type = MSG_GENERATE, .u.generate = request()};
    struct msg_resumed_sample sample = {g->n, g->ids, g->n_text, 0};
    struct msg_resume resume = {&g->first, 1, 1000, &sample};
    if (g->accepted)
        m.u.generate.resume = &resume;
    g->first.n_prompt_ids = 0;
    g->first.prompt_text = (struct wire_text){NULL, 0};
    g->again = false;
    peer_send(&peer, &m);
}

/* Runs the request to its end, with as many attempts as it needs.  The k-th allocation fails, 0: none. */
static unsigned run(struct got *g, unsigned long k)
{
    unsigned attempts = 0, idle = 0;
    *g = (struct got){0};
    snprintf(id, sizeof id, "r-%lu", k);
    cr_assert_eq(wire_mem_init(&g->mem, 1 << 20), ST_OK);
    __atomic_store_n(&n_left, k, __ATOMIC_SEQ_CST);
    while (!g->ended) {
        cr_assert_lt(++attempts, 10u);
        ask(g);
        peer_settle_texts(&peer);
        for (take(g); !g->ended && !g->again; take(g)) {
            if (step()) {
                peer_settle(&peer);
                continue;
            } /* it was the test's own Tokenize that had no memory */
            cr_assert_lt(++idle, 10u, "allocation %lu: nothing to do, and no end", k);
            peer_settle_texts(&peer);
        }
    }
    return attempts;
}

Test(memory, each_allocation_fails_once)
{
    static struct got whole, g;
    unsigned long k = 0, n_failed = 0;
    bool reached = true;
    cr_assert_eq(run(&whole, 0), 1u);
    cr_assert_eq(whole.n, (uint32_t)NEW);
    cr_assert_eq(whole.n_top, 2u * NEW);
    while (reached) {
        unsigned attempts = run(&g, ++k);
        reached = __atomic_load_n(&n_left, __ATOMIC_SEQ_CST) == 0;
        __atomic_store_n(&n_left, 0, __ATOMIC_SEQ_CST);
        n_failed += attempts > 1;
        cr_assert_eq(g.n, whole.n, "allocation %lu: %u tokens", k, g.n);
        cr_assert_eq(memcmp(g.ids, whole.ids, sizeof g.ids), 0, "allocation %lu", k);
        cr_assert_eq(memcmp(g.logprobs, whole.logprobs, sizeof g.logprobs), 0, "allocation %lu", k);
        cr_assert_eq(g.n_text, whole.n_text, "allocation %lu", k);
        cr_assert_eq(memcmp(g.text, whole.text, g.n_text), 0, "allocation %lu", k);
        cr_assert_eq(g.n_top, whole.n_top, "allocation %lu", k);
        wire_mem_fini(&g.mem);
    }
    cr_assert_gt(n_failed, 20u, "%lu of %lu", n_failed, k);
    wire_mem_fini(&whole.mem);
}

/* A request of the journal whose turn has no memory: it is taken by a later turn, not given up. */
Test(memory, a_recovered_request_waits_for_memory)
{
    static uint8_t frame[1024];
    static const struct owner owner = {{5}};
    struct coordinator *co = &front.co;
    unsigned n_failed = 0;
    co->recovered = calloc(1, sizeof *co->recovered);
    for (unsigned long k = 1; k < 10; k++) {
        struct client_msg m = {.type = MSG_GENERATE};
        struct wire_bytes bytes;
        struct recovered_request *q = calloc(1, sizeof *q);
        snprintf(q->id, sizeof q->id, "recovered-%lu", k);
        snprintf(id, sizeof id, "recovered-%lu", k);
        m.u.generate = request();
        wire_mem_reset(&peer.tx);
        cr_assert_eq(client_msg_encode_request(&bytes, &m, &peer.tx), ST_OK);
        cr_assert_leq(bytes.n, sizeof frame);
        memcpy(frame, bytes.data, bytes.n);
        q->a = (struct journal_admission){.id = q->id,
                                          .owner = owner.bytes,
                                          .tenant = (const uint8_t *)"acme",
                                          .n_tenant = 4,
                                          .n_samples = 1,
                                          .accepted = frame,
                                          .request = frame,
                                          .n_request = (uint32_t)bytes.n};
        co->recovered->first = q;
        __atomic_store_n(&n_left, k, __ATOMIC_SEQ_CST);
        front.in_loop = true;
        recovery_tend(co, front.now_us);
        front.in_loop = false;
        __atomic_store_n(&n_left, 0, __ATOMIC_SEQ_CST);
        if (co->recovered->first) {
            n_failed++;
            cr_assert_eq(co->recovered->first, q);
            cr_assert(!request_find(co->requests, &owner, q->id));
            recovery_tend(co, front.now_us);
        }
        cr_assert_null(co->recovered->first, "allocation %lu", k);
        cr_assert(request_find(co->requests, &owner, id), "allocation %lu: it is lost", k);
        peer_settle_texts(&peer);
    }
    cr_assert_geq(n_failed, 3u);
}
