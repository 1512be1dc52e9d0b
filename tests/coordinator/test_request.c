/* The table of requests, and what a sampled token does to one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/request.h"

enum { N = 5000 };

static struct owner acme;
static struct request_table *table;

static struct owner named(const char *tenant)
{
    struct tenant t = {.n = (uint8_t)strlen(tenant)};
    memcpy(t.bytes, tenant, t.n);
    return owner_of(&t, NULL);
}

static void open_table(void)
{
    acme = named("acme");
    cr_assert_eq(request_table_create(&table, N), ST_OK);
}

static void close_table(void)
{
    request_table_destroy(table);
}

TestSuite(request, .init = open_table, .fini = close_table);

static struct request *reserve(const char *id)
{
    struct request *r;
    cr_assert_eq(request_reserve(table, &acme, id, 1, 0, &r), ST_OK, "%s", status_text());
    return r;
}

static const char *name(uint32_t i)
{
    static char id[32];
    snprintf(id, sizeof id, "request-%u", i);
    return id;
}

Test(request, finding_one_of_5000_looks_at_few)
{
    for (uint32_t i = 0; i < N; i++)
        reserve(name(i));
    for (uint32_t i = 0; i < N; i++)
        cr_assert_str_eq(request_find(table, &acme, name(i))->id, name(i));
    for (uint32_t i = N; i < 2 * N; i++)
        cr_assert_null(request_find(table, &acme, name(i)));
    /* 8,192 lists: a hit looks at 1.3 on average, a miss at 0.6; a linear search at 2,500 and 5,000 */
    cr_assert_lt(request_probes(table), 3 * N);
    cr_assert_geq(request_probes(table), N);
}

Test(request, a_removed_one_is_not_found_and_its_key_names_nothing)
{
    struct request *a = reserve("a");
    uint64_t key = request_key(a);
    cr_assert_eq(request_of_key(table, key), a);
    request_remove(table, a);
    cr_assert_null(request_find(table, &acme, "a"));
    cr_assert_null(request_of_key(table, key));
    struct request *again = reserve("a"); /* in the same slot */
    cr_assert_eq(request_find(table, &acme, "a"), again);
    cr_assert_neq(request_key(again), key);
    cr_assert_null(request_of_key(table, key));
}

Test(request, the_same_id_of_two_owners_is_two_requests)
{
    const struct owner other = named("acmE"), none = named("");
    struct request *a = reserve("a"), *b;
    cr_assert_eq(request_reserve(table, &other, "a", 1, 0, &b), ST_OK);
    cr_assert_eq(request_find(table, &acme, "a"), a);
    cr_assert_eq(request_find(table, &other, "a"), b);
    cr_assert_null(request_find(table, &none, "a"));
    request_remove(table, a);
    cr_assert_null(request_find(table, &acme, "a"));
    cr_assert_eq(request_find(table, &other, "a"), b);
}

Test(request, a_full_table_drops_the_one_that_ended_first_and_was_told)
{
    struct request *r;
    for (uint32_t i = 0; i < N; i++)
        reserve(name(i));
    cr_assert_eq(request_reserve(table, &acme, "one more", 1, 0, &r), ST_BUSY);
    for (uint32_t i = 10; i < 13; i++)
        request_end(table, request_find(table, &acme, name(i)), i);
    cr_assert_eq(request_reserve(table, &acme, "one more", 1, 0, &r), ST_BUSY,
                 "none has told its end");
    request_find(table, &acme, name(11))->terminal_sent = true;
    request_find(table, &acme, name(12))->terminal_sent = true;
    reserve("one more");
    cr_assert_null(request_find(table, &acme, name(11)));
    cr_assert_not_null(request_find(table, &acme, name(12)));
    reserve("and one");
    cr_assert_null(request_find(table, &acme, name(12)));
    cr_assert_not_null(request_find(table, &acme, name(10)));
}

Test(request, ended_ones_expire_in_their_order)
{
    for (uint32_t i = 0; i < 4; i++)
        reserve(name(i));
    for (uint32_t i = 4; i-- > 1;) {
        struct request *r = request_find(table, &acme, name(i));
        request_end(table, r, 100 - i);
        r->terminal_sent = i != 2; /* that one has something to send yet */
    }
    request_expire(table, 100 + 98, 100);
    cr_assert_null(request_find(table, &acme, name(3)));
    cr_assert_not_null(request_find(table, &acme, name(2)));
    request_expire(table, 1000, 100);
    cr_assert_not_null(request_find(table, &acme, name(0)), "it has not ended");
    cr_assert_null(request_find(table, &acme, name(1)));
    cr_assert_not_null(request_find(table, &acme, name(2)));
    request_find(table, &acme, name(2))->terminal_sent = true;
    request_expire(table, 1000, 100);
    cr_assert_null(request_find(table, &acme, name(2)));
}

/* The requests that are overdue at that time, by the numbers in their names, each ended. */
static void check_overdue(uint64_t now_us, const char *numbers)
{
    char got[64] = "";
    for (struct request *r; (r = request_overdue(table, now_us));) {
        strcat(got, r->id + strlen("request-"));
        request_end(table, r, now_us);
    }
    cr_assert_str_eq(got, numbers);
}

Test(request, orphans_end_in_the_order_of_their_times)
{
    static const uint64_t end_us[] = {50, 20, 90, 20, 70, 10, 60, 30};
    struct request *first = NULL, *r[ARRAY_LEN(end_us)];
    struct client *c = (struct client *)&table; /* only its address is used */
    for (uint32_t i = 0; i < ARRAY_LEN(end_us); i++) {
        r[i] = reserve(name(i));
        request_join(table, r[i], c, &first);
    }
    cr_assert_eq(first, r[7]);
    cr_assert_null(request_overdue(table, UINT64_MAX));
    request_end(table, r[2], 0);
    request_remove(table, r[4]); /* out of the middle of the list */
    while (first)
        request_orphan(table, first, end_us[first->slot]);
    check_overdue(10, "");
    check_overdue(11, "5");
    request_join(table, r[1], c, &first); /* it attached again */
    request_end(table, r[6], 12);         /* it was complete before its time */
    check_overdue(21, "3");
    request_remove(table, r[7]);
    check_overdue(UINT64_MAX, "0");
    cr_assert_eq(first, r[1]);
    cr_assert_null(r[1]->next_of_client);
}

Test(request, thousands_of_orphans_end_in_the_order_of_their_times)
{
    struct request *first = NULL;
    struct client *c = (struct client *)&table;
    uint64_t last_us = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        struct request *r = reserve(name(i));
        request_join(table, r, c, &first);
        request_orphan(table, r, i * 7919U % 1000);
        if (i % 3 == 2) /* some attach again, from anywhere in the heap */
            request_join(table, request_find(table, &acme, name(i * 31U % i)), c, &first);
    }
    for (struct request *r = first; r; r = r->next_of_client)
        n++;
    for (struct request *r; (r = request_overdue(table, UINT64_MAX)); n++) {
        cr_assert_geq(r->orphan_end_us, last_us);
        last_us = r->orphan_end_us;
        request_end(table, r, 0);
    }
    cr_assert_eq(n, N, "each is either a client's or was an orphan");
}

Test(request, a_token_without_alternatives_adds_none)
{
    struct tokenizer *tok;
    struct resolved *q = calloc(1, sizeof *q);
    struct result_token t = {.token = 5, .logprob = -1.0f};
    bool ended;
    cr_assert_eq(tokenizer_open(&tok, INGOT_SOURCE_DIR "/deploy/demo-model"), ST_OK);
    q->n_prompt = q->n_samples = 1;
    q->max_new = 2;
    q->prompt = calloc(1, sizeof *q->prompt);
    q->sp = sample_params_default();
    q->sp.logprobs = true;
    q->sp.top_logprobs = 2;
    struct request *r = reserve("a");
    cr_assert_eq(request_start(r, &q, tok), ST_OK);
    struct sample *s = &r->samples[0];
    cr_assert_eq(sample_token(r, s, &t, &ended), ST_OK);
    t.n_top = 1;
    t.top[0] = (struct token_logprob){7, -0.5f};
    cr_assert_eq(sample_token(r, s, &t, &ended), ST_OK);
    cr_assert_eq(s->n, 3);
    cr_assert_eq(s->facts.n_top[0], 0);
    cr_assert_eq(s->facts.n_top[1], 1);
    cr_assert_eq(s->facts.n_top_all, 1);
    cr_assert_eq(s->facts.top[0].id, 7);
    tokenizer_destroy(tok);
}
