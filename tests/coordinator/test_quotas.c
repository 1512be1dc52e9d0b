/* Connections that act for any tenant: who may, what limits they set, and how long requests outlive them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/clients.h"
#include "coordinator/front.h"

#define SECRET "the secret of the gateways"

static const struct tenant own = {3, "own"}, acme = {4, "acme"}, zeta = {4, "zeta"};
static struct front front;
static struct peer gateway, other;

static void hello(struct peer *p, const char *secret)
{
    struct client_msg m = {.type = MSG_HELLO};
    m.u.hello = (struct msg_hello){.major_min = WIRE_MAJOR,
                                   .major_max = WIRE_MAJOR,
                                   .client = "peer",
                                   .tenants_secret = {secret, strlen(secret)}};
    peer_send(p, &m);
    peer_settle(p);
}

static void open_all(void)
{
    struct coordinator_config cfg = {
        .client_grace_ms = 300,
        .tenant_bounds = {.max_samples = 20, .max_queued = 10, .max_queued_tokens = 55}};
    cr_assert(secret_load(&cfg.tenants_secret, NULL, SECRET) == ST_OK);
    front_open(&front, cfg);
    peer_open(&gateway, &front, &own);
    peer_open(&other, &front, &zeta);
    hello(&gateway, SECRET);
    cr_assert(peer_take(&gateway, MSG_WELCOME, NULL).u.welcome.any_tenant);
}

static void close_all(void)
{
    peer_close(&gateway);
    peer_close(&other);
    front_close(&front);
}

TestSuite(quotas, .init = open_all, .fini = close_all);

struct ask {
    const char *id;
    const struct tenant *tenant;
    uint32_t max_samples, tokens_per_minute, n, grace_ms;
    const char *digest;
};

static void generate(struct peer *p, const struct ask *a)
{
    static const char text[] = "Once upon a time there was a fox";
    struct client_msg m = {.type = MSG_GENERATE};
    struct msg_generate *g = &m.u.generate;
    *g = msg_generate_default();
    g->request_id = a->id;
    g->tenant = a->tenant ? *a->tenant : acme;
    g->text = (struct wire_text){text, sizeof text - 1};
    g->max_tokens = 8;
    g->n = a->n ? a->n : 1;
    g->has_limits = a->max_samples || a->tokens_per_minute;
    g->limits = (struct tenant_limits){a->max_samples, a->tokens_per_minute};
    g->has_grace = a->grace_ms > 0;
    g->grace_ms = a->grace_ms;
    if (a->digest)
        g->client_digest = (struct wire_text){a->digest, strlen(a->digest)};
    peer_send(p, &m);
    peer_settle_texts(p);
}

static void rejected(struct peer *p, const char *id, enum status code, const char *field)
{
    struct msg_error e = peer_take(p, MSG_REJECTED, id).u.error;
    cr_assert_eq(e.code, code, "%s", e.detail);
    cr_assert_str_eq(e.field, field);
    cr_assert_eq(e.retryable, code == ST_BUSY);
    cr_assert_eq(e.retry_after_ms > 0, code == ST_BUSY);
}

static void cancel(struct peer *p, const struct tenant *tenant, const char *id)
{
    struct client_msg m = {.type = MSG_CANCEL, .u.cancel = {id, *tenant}};
    peer_send(p, &m);
    peer_settle(p);
    while (p->n_kept > p->i_taken)
        (void)peer_take(p, p->n_kept - p->i_taken == 2 ? MSG_CANCEL_REPLY : MSG_FINISH, id);
}

Test(quotas, only_with_the_secret)
{
    generate(&other, &(struct ask){.id = "a"});
    rejected(&other, "a", ST_RANGE, "tenant");
    generate(&other, &(struct ask){.id = "b", .tenant = &zeta, .max_samples = 1});
    rejected(&other, "b", ST_RANGE, "tenant_limits");
    for (size_t i = 0; i < 3; i++) {
        static const char *const wrong[] = {"the secret of the gateway", "another secret, no less",
                                            SECRET "!"};
        hello(&other, wrong[i]);
        struct client_msg m = peer_take(&other, MSG_ERROR, "");
        cr_assert_eq(m.u.error.code, ST_RANGE);
        cr_assert_str_eq(m.u.error.field, "tenants_secret");
    }
    generate(&other, &(struct ask){.id = "c"});
    rejected(&other, "c", ST_RANGE, "tenant");
    generate(&gateway, &(struct ask){.id = "d", .max_samples = 1});
    (void)peer_take(&gateway, MSG_ACCEPTED, "d");
}

Test(quotas, samples_in_flight)
{
    const struct ask first = {.id = "1", .max_samples = 2}, second = {.id = "2", .max_samples = 2};
    generate(&gateway, &first);
    (void)peer_take(&gateway, MSG_ACCEPTED, "1");
    generate(&gateway, &second);
    (void)peer_take(&gateway, MSG_ACCEPTED, "2");
    generate(&gateway, &(struct ask){.id = "3", .max_samples = 2});
    rejected(&gateway, "3", ST_BUSY, "tenant_limits.max_samples");
    generate(&gateway, &first); /* to attach needs no place */
    cr_assert(peer_take(&gateway, MSG_ACCEPTED, "1").u.accepted.attached);
    generate(&gateway, &(struct ask){.id = "4", .max_samples = 2, .tenant = &zeta});
    (void)peer_take(&gateway, MSG_ACCEPTED, "4");
    cancel(&gateway, &acme, "1");
    generate(&gateway, &(struct ask){.id = "5", .max_samples = 2, .n = 2});
    rejected(&gateway, "5", ST_BUSY, "tenant_limits.max_samples");
    generate(&gateway, &(struct ask){.id = "6", .max_samples = 2, .n = 3});
    rejected(&gateway, "6", ST_RANGE, "n");
    cancel(&gateway, &acme, "2");
    generate(&gateway, &(struct ask){.id = "7", .max_samples = 2, .n = 2});
    (void)peer_take(&gateway, MSG_ACCEPTED, "7");
    generate(&gateway, &(struct ask){.id = "8", .max_samples = 2});
    rejected(&gateway, "8", ST_BUSY, "tenant_limits.max_samples");
    generate(&gateway, &(struct ask){.id = "9", .max_samples = 3}); /* a limit that was raised */
    (void)peer_take(&gateway, MSG_ACCEPTED, "9");
}

Test(quotas, tokens_a_minute)
{
    generate(&gateway, &(struct ask){.id = "1", .tokens_per_minute = 5}); /* its prompt has more */
    (void)peer_take(&gateway, MSG_ACCEPTED, "1");
    generate(&gateway, &(struct ask){.id = "2", .tokens_per_minute = 5});
    rejected(&gateway, "2", ST_BUSY, "tenant_limits.tokens_per_minute");
    generate(&gateway, &(struct ask){.id = "3", .tokens_per_minute = 5, .tenant = &zeta});
    (void)peer_take(&gateway, MSG_ACCEPTED, "3");
    front.now_us += UINT64_C(600) * 1000 * 1000;
    generate(&gateway, &(struct ask){.id = "4", .tokens_per_minute = 5});
    (void)peer_take(&gateway, MSG_ACCEPTED, "4");
}

/* The same id with another client_digest is another request; with other limits it is the same. */
Test(quotas, a_digest_of_the_client)
{
    generate(&gateway, &(struct ask){.id = "1", .digest = "one"});
    (void)peer_take(&gateway, MSG_ACCEPTED, "1");
    generate(&gateway, &(struct ask){.id = "1", .digest = "two"});
    rejected(&gateway, "1", ST_RANGE, "request_id");
    generate(&gateway, &(struct ask){.id = "1", .digest = "one", .max_samples = 1, .grace_ms = 5});
    cr_assert(peer_take(&gateway, MSG_ACCEPTED, "1").u.accepted.attached);
}

Test(quotas, a_grace_of_its_own)
{
    generate(&gateway, &(struct ask){.id = "1", .grace_ms = 5000});
    (void)peer_take(&gateway, MSG_ACCEPTED, "1");
    generate(&gateway, &(struct ask){.id = "2"});
    (void)peer_take(&gateway, MSG_ACCEPTED, "2");
    struct client *c = client_port_find(front.co.client_port, 1);
    cr_assert(c && c->any_tenant && c->n_requests == 2);
    c->gone = true;
    clients_tend(&front.co, front.now_us);
    clients_tend(&front.co, front.now_us += 1000 * 1000);
    cr_assert_eq(front.co.n.cancelled, 1);
    clients_tend(&front.co, front.now_us += 4100 * 1000);
    cr_assert_eq(front.co.n.cancelled, 2);
}

Test(quotas, draining_is_said)
{
    struct client_msg m = {.type = MSG_PING, .u.simple = {.request_id = "ping"}};
    clients_drain(&front.co, 0, front.now_us);
    generate(&gateway, &(struct ask){.id = "1"});
    cr_assert(peer_take(&gateway, MSG_REJECTED, "1").u.error.draining);
    peer_send(&gateway, &m);
    peer_settle(&gateway);
    cr_assert(peer_take(&gateway, MSG_PONG, "ping").u.pong.draining);
}

/* Requests without limits of their own are bounded too, and only those of their tenant. */
Test(quotas, bounds_of_one_tenant)
{
    char id[16];
    uint32_t n_prompt = 0, n = 0;
    for (; n < 20; n++) {
        snprintf(id, sizeof id, "%u", n);
        generate(&gateway, &(struct ask){.id = id});
        if (n_prompt * (n + 1) > 55)
            break;
        n_prompt = peer_take(&gateway, MSG_ACCEPTED, id).u.accepted.prompt_tokens;
    }
    cr_assert(n > 2 && n < 10, "%u requests of %u tokens", n, n_prompt);
    struct msg_error e = peer_take(&gateway, MSG_REJECTED, id).u.error;
    cr_assert(e.code == ST_BUSY && e.retryable && e.retry_after_ms > 0);
    cr_assert(strstr(e.detail, "--tenant-queued-tokens"), "%s", e.detail);
    generate(&gateway, &(struct ask){.id = id, .tenant = &zeta});
    (void)peer_take(&gateway, MSG_ACCEPTED, id);
    cancel(&gateway, &acme, "0"); /* one that waits ends: its tokens are free */
    generate(&gateway, &(struct ask){.id = "again"});
    (void)peer_take(&gateway, MSG_ACCEPTED, "again");
    generate(&gateway, &(struct ask){.id = "many", .n = 16, .tenant = &own});
    e = peer_take(&gateway, MSG_REJECTED, "many").u.error;
    cr_assert(e.code == ST_RANGE && !e.retryable && strstr(e.detail, "prompt tokens"), "%s",
              e.detail);
}
