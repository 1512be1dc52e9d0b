/* libingot and a coordinator in one process; no ranks, so requests wait in the queue. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/ingot.h"
#include "coordinator/front.h"
#include "coordinator/loop.h"

enum { PATIENCE_MS = 120000 };

static struct front front;
static pthread_t loop;
static int stop[2];

static void *run(void *arg)
{
    (void)arg;
    coordinator_run(&front.co, stop[0]);
    return NULL;
}

static void open_all(void)
{
    front_open(&front, (struct coordinator_config){.client_grace_ms = PATIENCE_MS,
                                                   .slow_client_ms = PATIENCE_MS});
    cr_assert_eq(pipe(stop), 0);
    cr_assert_eq(pthread_create(&loop, NULL, run, NULL), 0);
}

static void close_all(void)
{
    cr_assert_eq(write(stop[1], "xx", 2), 2); /* twice: at once */
    pthread_join(loop, NULL);
    front_close(&front);
}

TestSuite(libingot, .init = open_all, .fini = close_all);

static struct ingot_client *connect_with(const void *tenant, size_t n, const void *token,
                                         size_t n_token)
{
    struct ingot_client *c;
    struct ingot_options o = {.endpoint = front.endpoint,
                              .timeout_ms = PATIENCE_MS,
                              .tenant = tenant,
                              .n_tenant = n,
                              .token = token,
                              .n_token = n_token};
    cr_assert_eq(ingot_open(&c, &o), INGOT_OK, "%s", ingot_last_error());
    return c;
}

static struct ingot_client *connect_as(const void *tenant, size_t n)
{
    return connect_with(tenant, n, NULL, 0);
}

static struct ingot_event ask(struct ingot_client *c)
{
    struct ingot_request r = ingot_request_default();
    struct ingot_event ev;
    r.request_id = "mine";
    r.text = "Once upon a time";
    r.n_text = strlen(r.text);
    cr_assert_eq(ingot_generate(c, &r, NULL), INGOT_OK, "%s", ingot_last_error());
    cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    cr_assert_str_eq(ev.request_id, "mine");
    return ev;
}

Test(libingot, a_new_connection_attaches_to_its_requests)
{
    struct ingot_client *c = connect_as(NULL, 0);
    struct ingot_event ev = ask(c);
    cr_assert(ev.kind == INGOT_EVENT_ACCEPTED && !ev.attached && ev.prompt_tokens > 0);
    uint64_t seed = ev.seed; /* the library's: the request repeated is the same request */
    cr_assert_eq(ingot_reconnect(c, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    ev = ask(c);
    cr_assert(ev.kind == INGOT_EVENT_ACCEPTED && ev.attached && ev.prompt_tokens > 0);
    cr_assert_eq(ev.seed, seed);
    cr_assert_eq(ingot_cancel(c, "mine"), INGOT_OK);
    cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK);
    cr_assert_eq(ev.kind, INGOT_EVENT_FINISH);
    ingot_close(c);
}

Test(libingot, a_client_of_the_same_tenant_and_token_attaches_and_no_other)
{
    size_t n, n_token;
    struct ingot_client *c = connect_as("acme", 4), *same, *other = connect_as(NULL, 0);
    const char *tenant = ingot_tenant(c, &n), *token = ingot_token(c, &n_token);
    cr_assert(n == 4 && memcmp(tenant, "acme", 4) == 0);
    same = connect_with(tenant, n, token, n_token);
    cr_assert(!ask(c).attached);
    cr_assert(!ask(other).attached);
    cr_assert(ask(same).attached);
    tenant = ingot_tenant(other, &n);
    token = ingot_token(other, &n_token);
    cr_assert(n >= 16 && n_token >= 16);
    ingot_close(same);
    same = connect_with(tenant, n, token, n_token);
    cr_assert(ask(same).attached);
    ingot_close(same);
    same = connect_as(tenant, n); /* the name alone */
    cr_assert(!ask(same).attached);
    ingot_close(c);
    ingot_close(same);
    ingot_close(other);
}

Test(libingot, the_seed_is_of_tenant_and_id)
{
    struct ingot_client *c = connect_as("acme", 4), *other = connect_as("zeta", 4);
    struct ingot_request r = ingot_request_default();
    struct ingot_event ev;
    uint64_t seed[4];
    static const char *const ids[] = {"1", "2", "1", "3"};
    r.text = "Once";
    r.n_text = 4;
    for (int i = 0; i < 4; i++) {
        struct ingot_client *from = i == 2 ? other : c;
        r.request_id = ids[i];
        r.has_seed = i == 3;
        r.seed = 5;
        cr_assert_eq(ingot_generate(from, &r, NULL), INGOT_OK, "%s", ingot_last_error());
        cr_assert_eq(ingot_next(from, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
        cr_assert_eq(ev.kind, INGOT_EVENT_ACCEPTED);
        seed[i] = ev.seed;
    }
    cr_assert(seed[0] != seed[1] && seed[0] != seed[2] && seed[1] != seed[2]);
    cr_assert_eq(seed[3], 5);
    ingot_close(c);
    ingot_close(other);
}

Test(libingot, accepted_has_what_the_request_came_to)
{
    static const struct ingot_bias bias[] = {{5, 2.5f}};
    static const int32_t ids[] = {3, 4, 5};
    struct ingot_client *c = connect_as(NULL, 0);
    struct ingot_request r = ingot_request_default();
    struct ingot_event ev;
    r.ids = ids;
    r.n_ids = 3;
    r.top_k = 9;
    r.bias = bias;
    r.n_bias = 1;
    r.want_prompt_ids = true;
    cr_assert_eq(ingot_generate(c, &r, NULL), INGOT_OK, "%s", ingot_last_error());
    cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    cr_assert_eq(ev.kind, INGOT_EVENT_ACCEPTED);
    cr_assert_not_null(ev.prompt_digest);
    cr_assert_eq(ev.prompt_tokens, 3);
    cr_assert_arr_eq(ev.prompt_ids, ids, sizeof ids);
    cr_assert(!ev.has_clock);
    cr_assert_eq(ev.max_tokens, front.co.shape.max_ctx - 3);
    cr_assert_eq(ev.n_stop_ids, front.co.mt.n_eos);
    cr_assert(ev.sampling->top_k == 9 && ev.sampling->top_p == 1.0f);
    cr_assert_eq(ev.sampling->seed, ev.seed);
    cr_assert(ev.sampling->n_bias == 1 && ev.sampling->bias[0].bias == 2.5f);
    ingot_close(c);
}

Test(libingot, a_tenant_that_is_not_allowed_is_named)
{
    struct ingot_client *c = connect_as("acme", 4);
    struct ingot_request r = ingot_request_default();
    struct ingot_event ev;
    struct ingot_options o = {.endpoint = front.endpoint, .tenant = "", .n_tenant = 0};
    struct ingot_client *none;
    r.text = "Once";
    r.n_text = 4;
    r.tenant = "zeta";
    r.n_tenant = 4;
    cr_assert_eq(ingot_generate(c, &r, NULL), INGOT_OK, "%s", ingot_last_error());
    cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    cr_assert(ev.kind == INGOT_EVENT_ERROR && ev.rejected);
    cr_assert_str_eq(ev.field, "tenant");
    cr_assert_eq(ingot_open(&none, &o), INGOT_RANGE);
    cr_assert(strstr(ingot_last_error(), "tenant has 0 bytes"), "%s", ingot_last_error());
    cr_assert_null(none);
    ingot_close(c);
}

static struct ingot_event event_of(struct ingot_client *c, const char *id)
{
    struct ingot_event ev;
    cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    cr_assert_str_eq(ev.request_id, id);
    return ev;
}

Test(libingot, queries_need_not_wait)
{
    static const char text[] = "Once upon a time";
    const struct ingot_turn turn = {.role = "user", .content = "Hello", .n_content = 5};
    struct ingot_client *c = connect_as(NULL, 0);
    struct ingot_request r = ingot_request_default();
    const int32_t *want, no_such[] = {1 << 30};
    int32_t ids[64];
    size_t n;
    cr_assert_eq(ingot_tokenize(c, text, sizeof text - 1, true, &want, &n), INGOT_OK);
    cr_assert(n > 0 && n <= 64);
    memcpy(ids, want, n * sizeof *ids);

    cr_assert_eq(ingot_send_tokenize(c, "a", text, sizeof text - 1, true, false), INGOT_OK);
    cr_assert_eq(ingot_send_detokenize(c, "b", ids, n, true), INGOT_OK);
    cr_assert_eq(ingot_send_detokenize(c, "c", no_such, 1, true), INGOT_OK);
    cr_assert_eq(ingot_send_tokenize(c, "a", text, 1, true, false), INGOT_RANGE,
                 "its id is in use");
    cr_assert_eq(ingot_send_tokenize(c, "", text, 1, true, false), INGOT_RANGE);
    struct ingot_event ev = event_of(c, "a");
    cr_assert(ev.kind == INGOT_EVENT_TOKENS && ev.n_ids == n);
    cr_assert_arr_eq(ev.ids, ids, n * sizeof *ids);
    ev = event_of(c, "b");
    cr_assert(ev.kind == INGOT_EVENT_TEXT && ev.n_text == sizeof text - 1);
    cr_assert_arr_eq(ev.text, text, ev.n_text);
    ev = event_of(c, "c");
    cr_assert(ev.kind == INGOT_EVENT_ERROR && ev.code == INGOT_RANGE && !ev.rejected);

    r.request_id = "a";
    r.turns = &turn;
    r.n_turns = 1;
    cr_assert_eq(ingot_send_apply_template(c, &r), INGOT_OK, "%s", ingot_last_error());
    ev = event_of(c, "a");
    if (front.co.mt.chat)
        cr_assert(ev.kind == INGOT_EVENT_TEXT && ev.n_text > 5);
    else
        cr_assert(ev.kind == INGOT_EVENT_ERROR && ev.code == INGOT_UNSUPPORTED);
    const enum ingot_code told = front.co.mt.chat ? INGOT_OK : INGOT_UNSUPPORTED;
    cr_assert_eq(ingot_tokenize_chat(c, &r, false, &want, &n), told);
    if (told == INGOT_OK)
        memcpy(ids, want, n * sizeof *ids);
    cr_assert_eq(ingot_send_tokenize_chat(c, &r, false, true), INGOT_OK);
    ev = event_of(c, "a");
    cr_assert_eq(ev.code, told);
    if (told == INGOT_OK) {
        cr_assert(ev.kind == INGOT_EVENT_TOKENS && ev.n_ids == n && ev.n_token_text);
        cr_assert_arr_eq(ev.ids, ids, n * sizeof *ids);
    }
    ingot_close(c);
}

Test(libingot, a_query_waits_among_requests)
{
    struct ingot_client *c = connect_as(NULL, 0);
    const int32_t *ids;
    size_t n;
    struct ingot_event ev = ask(c);
    cr_assert_eq(ev.kind, INGOT_EVENT_ACCEPTED);
    cr_assert_eq(ingot_send_tokenize(c, "later", "Once", 4, false, false), INGOT_OK);
    cr_assert_eq(ingot_tokenize(c, "upon a", 6, false, &ids, &n), INGOT_OK); /* keeps the event */
    ev = event_of(c, "later");
    cr_assert(ev.kind == INGOT_EVENT_TOKENS && ev.n_ids > 0);
    cr_assert_eq(ingot_cancel(c, "mine"), INGOT_OK);
    ev = event_of(c, "mine");
    cr_assert_eq(ev.kind, INGOT_EVENT_FINISH);
    cr_assert_eq(ingot_send_tokenize(c, "lost", "Once", 4, false, false), INGOT_OK);
    cr_assert_eq(ingot_reconnect(c, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
    cr_assert_eq(ingot_send_tokenize(c, "lost", "Once", 4, false, false), INGOT_OK,
                 "a new connection has no queries");
    ev = event_of(c, "lost");
    cr_assert_eq(ev.kind, INGOT_EVENT_TOKENS);
    ingot_close(c);
}

/* Takes an event of each of n requests; every id in [first, first + n) comes once. */
static void one_of_each(struct ingot_client *c, enum ingot_event_kind want, int first, int n)
{
    bool seen[64] = {false};
    struct ingot_event ev;
    for (int i = 0; i < n; i++) {
        cr_assert_eq(ingot_next(c, &ev, PATIENCE_MS), INGOT_OK, "%s", ingot_last_error());
        int id = atoi(ev.request_id) - first;
        cr_assert_eq(ev.kind, want, "request %s: kind %d", ev.request_id, (int)ev.kind);
        cr_assert(id >= 0 && id < n && !seen[id], "request %s", ev.request_id);
        seen[id] = true;
    }
}

Test(libingot, a_client_that_reconnects_knows_each_of_its_many_requests)
{
    enum { N = 60 };
    struct ingot_client *c;
    struct ingot_options o = {
        .endpoint = front.endpoint, .timeout_ms = PATIENCE_MS, .reconnect_ms = PATIENCE_MS};
    cr_assert_eq(ingot_open(&c, &o), INGOT_OK, "%s", ingot_last_error());
    struct ingot_request r = ingot_request_default();
    char id[INGOT_ID_SIZE];
    r.request_id = id;
    r.text = "Once upon a time";
    r.n_text = strlen(r.text);
    for (int first = 0; first < 3 * N; first += N) {
        for (int i = 0; i < N; i++) {
            snprintf(id, sizeof id, "%d", first + i);
            cr_assert_eq(ingot_generate(c, &r, NULL), INGOT_OK, "%s", ingot_last_error());
        }
        one_of_each(c, INGOT_EVENT_ACCEPTED, first, N);
        for (int i = 0; i < N; i++) { /* in another order */
            snprintf(id, sizeof id, "%d", first + i * 7 % N);
            cr_assert_eq(ingot_cancel(c, id), INGOT_OK, "%s", ingot_last_error());
        }
        one_of_each(c, INGOT_EVENT_FINISH, first, N);
    }
    ingot_close(c);
}
