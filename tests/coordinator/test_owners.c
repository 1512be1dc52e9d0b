/* A request belongs to the tenant with the token: a stranger who knows the tenant's name and the id gets nothing. */
#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/front.h"

static const struct tenant acme = {4, "acme"}, unset = {0};
static struct front front;
static struct peer own;

static void open_all(void)
{
    front_open(&front, (struct coordinator_config){.client_grace_ms = 300});
    peer_open(&own, &front, &acme);
}

static void close_all(void)
{
    peer_close(&own);
    front_close(&front);
}

TestSuite(owners, .init = open_all, .fini = close_all);

static void begin_own(void)
{
    peer_generate(&own, "r", "Once upon a time");
    peer_settle_texts(&own);
    peer_take(&own, MSG_ACCEPTED, "r");
}

/* Tries to cancel the request r of own, and to attach to it. */
static void try_all(struct peer *thief)
{
    peer_cancel(thief, "r");
    peer_settle(thief);
    cr_assert_eq(peer_take(thief, MSG_CANCEL_REPLY, "r").u.cancel_reply.result, CANCEL_UNKNOWN);
    peer_generate(thief, "r", "Once upon a time");
    peer_settle_texts(thief);
    cr_assert(!peer_take(thief, MSG_ACCEPTED, "r").u.accepted.attached);
    peer_nothing(thief);
    peer_settle(&own);
    peer_nothing(&own); /* it was neither cancelled nor taken away */
    cr_assert_eq(front.co.live, 2);
}

Test(owners, another_token_is_another_owner)
{
    struct peer thief;
    begin_own();
    peer_open_with(&thief, &front, &acme, "the token of a thief");
    try_all(&thief);
    peer_close(&thief);
}

Test(owners, without_a_token_nothing_of_the_tenant_is_owned)
{
    struct peer thief;
    begin_own();
    peer_open_with(&thief, &front, &acme, NULL);
    try_all(&thief);
    peer_close(&thief);
}

Test(owners, two_connections_without_a_token_are_two_owners)
{
    struct peer x, y;
    peer_open_with(&x, &front, &acme, NULL);
    peer_open_with(&y, &front, &acme, NULL);
    peer_generate(&x, "r", "Once");
    peer_settle_texts(&x);
    peer_take(&x, MSG_ACCEPTED, "r");
    peer_cancel(&y, "r");
    peer_settle(&y);
    cr_assert_eq(peer_take(&y, MSG_CANCEL_REPLY, "r").u.cancel_reply.result, CANCEL_UNKNOWN);
    peer_close(&x);
    peer_close(&y);
}

Test(owners, the_prefix_cache_tells_another_owner_nothing)
{
    struct peer thief;
    uint32_t at = 0, n_known;
    begin_own();
    peer_open_with(&thief, &front, &acme, "the token of a thief");
    peer_generate(&thief, "guess", "Once upon a time");
    peer_settle_texts(&thief);
    uint64_t first = sched_live(fleet_sched(front.co.fleet, FLEET_QUEUE), &at, &n_known)->salt;
    cr_assert_neq(first, sched_live(fleet_sched(front.co.fleet, FLEET_QUEUE), &at, &n_known)->salt);
    peer_close(&thief);
}

static struct client_msg hello_again(const char *token)
{
    struct client_msg m = {.type = MSG_HELLO};
    m.u.hello = (struct msg_hello){.major_min = WIRE_MAJOR,
                                   .major_max = WIRE_MAJOR,
                                   .client = "peer",
                                   .tenant = acme,
                                   .token = {token, strlen(token)}};
    peer_send(&own, &m);
    peer_settle(&own);
    return peer_take(&own, MSG_ERROR, NULL);
}

Test(owners, a_connection_keeps_its_token)
{
    begin_own();
    struct client_msg m = hello_again("the token of a thief");
    cr_assert_str_eq(m.u.error.field, "token");
    cr_assert_eq(m.u.error.code, ST_RANGE);
    peer_cancel(&own, "r");
    peer_settle(&own);
    cr_assert_eq(peer_take(&own, MSG_CANCEL_REPLY, "r").u.cancel_reply.result, CANCEL_STOPPED);
}

Test(owners, a_short_token_is_refused)
{
    struct client_msg m = hello_again("fifteen bytes..");
    cr_assert_str_eq(m.u.error.field, "token");
    cr_assert_eq(m.u.error.code, ST_RANGE);
}

Test(owners, a_proof_is_the_token_s_and_survives_a_restart)
{
    const struct wire_text token = {"the token of all peers", 22}, none = {NULL, 0};
    struct owner_proof a = owner_proof_of_token(token), b = owner_proof_of_token(token);
    struct owner x = owner_of(&acme, &a), y = owner_of(&acme, &b), named = owner_of(&acme, NULL);
    cr_assert(owner_equal(&x, &y));
    cr_assert(!owner_equal(&x, &named));
    y = owner_of(&unset, &a);
    cr_assert(!owner_equal(&x, &y));
    a = owner_proof_of_token(none);
    b = owner_proof_of_token(none);
    cr_assert(memcmp(&a, &b, sizeof a) != 0);
}
