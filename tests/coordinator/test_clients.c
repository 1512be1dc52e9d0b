/* The walk of a request while the text thread has it: cancelled, attached to, repeated, refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "coordinator/front.h"

static const struct tenant acme = {4, "acme"}, zeta = {4, "zeta"}, unset = {0};
static struct front front;
static struct peer a, b;

static void open_all(void)
{
    front_open(&front, (struct coordinator_config){.client_grace_ms = 300});
    peer_open(&a, &front, &acme);
    peer_open(&b, &front, &acme);
}

static void close_all(void)
{
    peer_close(&a);
    peer_close(&b);
    front_close(&front);
}

TestSuite(clients, .init = open_all, .fini = close_all);

/* the text thread's first job is a long one; its result is taken when the test takes results */
static void occupy_text_thread(void)
{
    static char text[4 << 20];
    struct client_msg m = {.type = MSG_TOKENIZE};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "once upon a time "[i % 17];
    m.u.tokenize =
        (struct msg_tokenize){.request_id = "long", .model = "", .text = {text, sizeof text}};
    peer_send(&b, &m);
    peer_settle(&b);
}

static void long_job_came_back(void)
{
    cr_assert_gt(peer_take(&b, MSG_TOKENS, "long").u.tokens.n_tokens, 1000);
}

Test(clients, a_request_goes_to_the_scheduler)
{
    struct sched_stats stats;
    peer_generate(&a, "r", "Once upon a time");
    peer_settle(&a);
    peer_nothing(&a);
    cr_assert_eq(front.co.live, 1);
    peer_settle_texts(&a);
    struct client_msg m = peer_take(&a, MSG_ACCEPTED, "r");
    cr_assert_gt(m.u.accepted.prompt_tokens, 0);
    cr_assert(!m.u.accepted.attached);
    fleet_stats(front.co.fleet, &stats);
    cr_assert_eq(stats.waiting, 1);
    peer_nothing(&a);
}

static void cancelled(struct peer *p, enum cancel_result want)
{
    cr_assert_eq(peer_take(p, MSG_CANCEL_REPLY, "r").u.cancel_reply.result, want);
}

Test(clients, every_cancel_is_answered)
{
    peer_cancel(&a, "r");
    peer_settle(&a);
    cancelled(&a, CANCEL_UNKNOWN);
    peer_generate(&a, "r", "Once upon a time");
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
    peer_cancel(&b, "r"); /* another connection of the tenant */
    peer_settle(&b);
    cancelled(&b, CANCEL_STOPPED);
    peer_settle(&a);
    peer_take(&a, MSG_FINISH, "r");
    peer_cancel(&a, "r");
    peer_cancel(&b, "r");
    peer_settle(&a);
    peer_settle(&b);
    cancelled(&a, CANCEL_ENDED_BEFORE);
    cancelled(&b, CANCEL_ENDED_BEFORE);
    peer_nothing(&a);
    peer_nothing(&b);
}

Test(clients, a_cancel_that_cannot_work_is_answered)
{
    struct client_msg m = {.type = MSG_CANCEL, .u.cancel = {.request_id = ""}};
    struct peer stranger;
    peer_open(&stranger, &front, &zeta);
    peer_generate(&a, "r", "Once upon a time");
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
    peer_cancel(&stranger, "r"); /* of another tenant */
    peer_settle(&stranger);
    cancelled(&stranger, CANCEL_UNKNOWN);
    m.u.cancel.tenant = acme;
    m.u.cancel.request_id = "r"; /* in the name of another tenant */
    peer_send(&stranger, &m);
    peer_settle(&stranger);
    cr_assert_str_eq(peer_take(&stranger, MSG_ERROR, "r").u.error.field, "tenant");
    m.u.cancel = (struct msg_cancel){.request_id = ""};
    peer_send(&stranger, &m);
    peer_settle(&stranger);
    cr_assert_str_eq(peer_take(&stranger, MSG_ERROR, "").u.error.field, "request_id");
    peer_nothing(&stranger);
    peer_nothing(&a);
    peer_close(&stranger);
}

/* ---- sizes ---- */

static char large[17 << 20];

static void fill_large(void)
{
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('!' + i % 90);
}

static void too_large(struct peer *p, const char *id, const char *words)
{
    struct msg_error e = peer_take(p, MSG_ERROR, id).u.error;
    cr_assert_eq(e.code, ST_RANGE);
    cr_assert(strstr(e.detail, words) && !e.retryable, "%s", e.detail);
}

Test(clients, a_message_beyond_the_limit_gets_an_error)
{
    struct client_msg m = {.type = MSG_TOKENIZE};
    fill_large();
    m.u.tokenize =
        (struct msg_tokenize){.request_id = "t", .model = "", .text = {large, sizeof large}};
    peer_send(&a, &m);
    peer_settle(&a);
    too_large(&a, "t", "--max-message");
    peer_generate(&a, "r", "Once upon a time"); /* and the connection goes on */
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
    peer_nothing(&a);
}

Test(clients, a_reply_beyond_the_limit_is_an_error)
{
    enum { N = 6 << 20 };
    static int32_t ids[N];
    struct text_buf scratch = {0};
    int32_t longest = 0;
    size_t n_longest = 0;
    for (int32_t id = 0; id <= tokenizer_max_id(front.co.mt.tok); id++) {
        size_t n = tokenizer_piece(front.co.mt.tok, id, &scratch).bytes.len;
        scratch.len = 0;
        longest = n > n_longest ? id : longest;
        n_longest = n > n_longest ? n : n_longest;
    }
    text_buf_free(&scratch);
    cr_assert_gt(n_longest * N, MAX_REPLY, "%zu bytes", n_longest);
    for (size_t i = 0; i < N; i++)
        ids[i] = longest;
    struct client_msg m = {.type = MSG_DETOKENIZE};
    m.u.detokenize =
        (struct msg_detokenize){.request_id = "d", .model = "", .n_tokens = N, .tokens = ids};
    peer_send(&a, &m);
    peer_settle_texts(&a);
    too_large(&a, "d", "ask for less at once");
    fill_large();
    m.type =
        MSG_TOKENIZE; /* ids, texts and spellings of 16 MB: four and more times as many bytes */
    m.u.tokenize = (struct msg_tokenize){
        .request_id = "t", .model = "", .text = {large, 16000000}, .want_token_text = true};
    peer_send(&a, &m);
    peer_settle_texts(&a);
    too_large(&a, "t", "ask for less at once");
    peer_nothing(&a);
}

Test(clients, cancel_ends_a_request_that_the_text_thread_has)
{
    struct sched_stats stats;
    occupy_text_thread();
    peer_generate(&a, "r", "Once upon a time");
    peer_cancel(&a, "r");
    peer_settle(&a);
    cancelled(&a, CANCEL_STOPPED);
    peer_take(&a, MSG_ACCEPTED, "r");
    struct client_msg m = peer_take(&a, MSG_FINISH, "r");
    cr_assert_eq(m.u.finish.n_samples, 1);
    cr_assert_eq(m.u.finish.samples[0].reason, REASON_CANCELLED);
    peer_nothing(&b);
    peer_settle_texts(&b);
    long_job_came_back();
    peer_settle(&a);
    peer_nothing(&a); /* the text came back, for nothing */
    fleet_stats(front.co.fleet, &stats);
    cr_assert_eq(stats.waiting, 0);
    cr_assert_eq(front.co.live, 0);
}

Test(clients, attaching_moves_a_request_that_the_text_thread_has)
{
    struct peer c;
    peer_open(&c, &front, &acme);
    occupy_text_thread();
    peer_generate(&a, "r", "Once upon a time");
    peer_settle(&a);
    peer_generate(&c, "r", "Once upon a time");
    peer_settle(&c);
    peer_settle(&a);
    cr_assert_eq(peer_take(&a, MSG_ERROR, "r").u.error.code, ST_PEER);
    cr_assert_eq(front.co.live, 1);
    peer_settle_texts(&b);
    long_job_came_back();
    peer_settle(&c);
    struct client_msg m = peer_take(&c, MSG_ACCEPTED, "r");
    cr_assert(m.u.accepted.attached);
    cr_assert_gt(m.u.accepted.prompt_tokens, 0);
    peer_settle(&a);
    peer_nothing(&a);
    peer_nothing(&c);
    peer_close(&c);
}

Test(clients, an_id_is_taken_from_its_first_byte_on)
{
    occupy_text_thread();
    peer_generate(&a, "r", "Once upon a time");
    peer_generate(&a, "r", "Something else");
    peer_settle(&a);
    struct client_msg m = peer_take(&a, MSG_REJECTED, "r");
    cr_assert_str_eq(m.u.error.field, "request_id");
    peer_nothing(&a);
    peer_generate(&a, "r", "Once upon a time"); /* the same again: it is attached to */
    peer_settle_texts(&a);
    cr_assert(peer_take(&a, MSG_ACCEPTED, "r").u.accepted.attached);
    peer_nothing(&a);
}

Test(clients, a_bad_request_gives_its_id_back)
{
    struct client_msg m = {.type = MSG_GENERATE};
    occupy_text_thread();
    m.u.generate = msg_generate_default();
    m.u.generate.request_id = "r";
    m.u.generate.text = (struct wire_text){"Once", 4};
    m.u.generate.n = 99;
    peer_send(&a, &m);
    peer_settle(&a);
    peer_nothing(&a); /* the fault is in what the text thread decodes */
    cr_assert_eq(front.co.live, 1);
    peer_settle_texts(&a);
    m = peer_take(&a, MSG_REJECTED, "r");
    cr_assert_str_eq(m.u.error.field, "n");
    cr_assert(!m.u.error.retryable);
    cr_assert_eq(front.co.live, 0);
    peer_generate(&a, "r", "Once upon a time");
    peer_settle_texts(&a);
    cr_assert(!peer_take(&a, MSG_ACCEPTED, "r").u.accepted.attached);
}

Test(clients, bytes_that_are_no_message_give_their_id_back)
{
    /* the id is whole; what follows is a packed list of ids whose last varint does not end */
    static const uint8_t bytes[] = {'I', 'N', 'G', 'T', 1,  0, 2,  0, 0, 0,   0,
                                    0,   10,  1,   'r', 34, 4, 10, 2, 1, 0x80};
    cr_assert_geq(zmq_send(a.sock, bytes, sizeof bytes, 0), 0);
    peer_settle_texts(&a);
    cr_assert_eq(peer_take(&a, MSG_REJECTED, "r").u.error.code, ST_FORMAT);
    cr_assert_eq(front.co.live, 0);
    peer_generate(&a, "r", "Once upon a time");
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
}

Test(clients, a_text_that_comes_late_is_not_given_to_the_next_of_that_id)
{
    occupy_text_thread();
    peer_generate(&a, "r", "Once upon a time there was a very small house");
    peer_cancel(&a, "r");
    peer_settle(&a);
    cancelled(&a, CANCEL_STOPPED);
    peer_take(&a, MSG_ACCEPTED, "r");
    peer_take(&a, MSG_FINISH, "r");
    request_expire(front.co.requests, front.now_us + 60 * 1000 * 1000, 0);
    peer_generate(&a, "r", "Once");
    peer_settle_texts(&a);
    uint32_t n = peer_take(&a, MSG_ACCEPTED, "r").u.accepted.prompt_tokens;
    struct token_list want = {0};
    cr_assert_eq(tokenizer_encode(front.co.mt.tok, "Once", 4, TOK_ADD_SPECIAL, &want), ST_OK);
    cr_assert_eq(n, want.n);
    token_list_free(&want);
    peer_nothing(&a);
}

/* ---- tenants ---- */

static void generate_of(struct peer *p, const struct tenant *tenant)
{
    struct client_msg m = {.type = MSG_GENERATE};
    m.u.generate = msg_generate_default();
    m.u.generate.request_id = "r";
    m.u.generate.text = (struct wire_text){"Once", 4};
    m.u.generate.max_tokens = 8;
    m.u.generate.tenant = *tenant;
    peer_send(p, &m);
}

static void cancel_of(struct peer *p, const struct tenant *tenant)
{
    struct client_msg m = {.type = MSG_CANCEL, .u.cancel = {"r", *tenant}};
    peer_send(p, &m);
}

Test(clients, two_tenants_use_the_same_id)
{
    struct peer z;
    peer_open(&z, &front, &zeta);
    peer_generate(&a, "r", "Once upon a time");
    peer_settle(&a);
    peer_generate(&z, "r", "Once upon a time"); /* the same bytes: no attachment */
    peer_settle_texts(&z);
    peer_settle(&a);
    cr_assert(!peer_take(&a, MSG_ACCEPTED, "r").u.accepted.attached);
    cr_assert(!peer_take(&z, MSG_ACCEPTED, "r").u.accepted.attached);
    cr_assert_eq(front.co.live, 2);
    peer_cancel(&z, "r");
    peer_settle(&z);
    cancelled(&z, CANCEL_STOPPED);
    peer_take(&z, MSG_FINISH, "r");
    peer_settle(&a);
    peer_nothing(&a);
    cr_assert_eq(front.co.live, 1);
    peer_close(&z);
}

Test(clients, connections_without_a_tenant_are_strangers)
{
    struct peer x, y;
    peer_open(&x, &front, &unset);
    peer_open(&y, &front, &unset);
    peer_generate(&x, "r", "Once");
    peer_settle_texts(&x);
    peer_take(&x, MSG_ACCEPTED, "r");
    peer_cancel(&y, "r");
    peer_settle(&y);
    cancelled(&y, CANCEL_UNKNOWN);
    peer_settle(&x);
    peer_nothing(&x);
    peer_close(&x);
    peer_close(&y);
}

Test(clients, another_tenant_is_refused)
{
    struct client_msg m = {.type = MSG_TOKENIZE}, hello = {.type = MSG_HELLO};
    generate_of(&a, &zeta);
    cancel_of(&a, &zeta);
    m.u.tokenize =
        (struct msg_tokenize){.request_id = "t", .model = "", .text = {"x", 1}, .tenant = zeta};
    peer_send(&a, &m);
    hello.u.hello = (struct msg_hello){
        .major_min = WIRE_MAJOR, .major_max = WIRE_MAJOR, .client = "peer", .tenant = zeta};
    peer_send(&a, &hello);
    peer_settle_texts(&a);
    static const enum msg_type types[] = {MSG_REJECTED, MSG_ERROR, MSG_ERROR, MSG_ERROR};
    static const char *const ids[] = {"r", "r", "t", ""};
    for (int i = 0; i < 4; i++) {
        m = peer_take(&a, types[i], ids[i]);
        cr_assert_str_eq(m.u.error.field, "tenant");
        cr_assert_eq(m.u.error.code, ST_RANGE);
    }
    peer_nothing(&a);
    cr_assert_eq(front.co.live, 0);
    generate_of(&a, &acme); /* to name the own one is fine */
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
}

Test(clients, with_tenants_any_a_client_speaks_for_all)
{
    struct peer z;
    front.co.cfg.tenants = TENANTS_ANY;
    peer_open(&z, &front, &zeta);
    generate_of(&a, &zeta);
    peer_settle_texts(&a);
    peer_take(&a, MSG_ACCEPTED, "r");
    peer_cancel(&a, "r"); /* its own tenant has no such request */
    peer_settle(&a);
    cancelled(&a, CANCEL_UNKNOWN);
    generate_of(&z, &zeta); /* the tenant itself attaches */
    peer_settle(&z);
    cr_assert(peer_take(&z, MSG_ACCEPTED, "r").u.accepted.attached);
    peer_settle(&a);
    cr_assert_eq(peer_take(&a, MSG_ERROR, "r").u.error.code, ST_PEER);
    cancel_of(&a, &zeta);
    peer_settle(&a);
    cancelled(&a, CANCEL_STOPPED);
    peer_settle(&z);
    peer_take(&z, MSG_FINISH, "r");
    peer_close(&z);
}

/* the salts of the n sequences that wait */
static void salts(uint64_t *out, uint32_t n)
{
    uint32_t at = 0, n_known;
    for (uint32_t i = 0; i < n; i++)
        out[i] = sched_live(fleet_sched(front.co.fleet, FLEET_QUEUE), &at, &n_known)->salt;
    cr_assert_null(sched_live(fleet_sched(front.co.fleet, FLEET_QUEUE), &at, &n_known));
}

Test(clients, each_tenant_has_a_salt_of_its_own)
{
    struct peer z;
    uint64_t s[3];
    peer_open(&z, &front, &zeta);
    peer_generate(&a, "1", "Once");
    peer_settle_texts(&a);
    peer_generate(&b, "2", "Once");
    peer_settle_texts(&b);
    peer_generate(&z, "3", "Once");
    peer_settle_texts(&z);
    salts(s, 3);
    cr_assert(s[0] != 0 && s[2] != 0);
    cr_assert_eq(s[0], s[1]);
    cr_assert_neq(s[0], s[2]);
    peer_close(&z);
}

/* ---- what a request came to ---- */

static struct client_msg accepted_of(const struct msg_generate *g)
{
    struct client_msg m = {.type = MSG_GENERATE};
    m.u.generate = *g;
    m.u.generate.request_id = "r";
    peer_send(&a, &m);
    peer_settle_texts(&a);
    return peer_take(&a, MSG_ACCEPTED, "r");
}

static void digest_of(const struct token_list *ids, uint8_t out[SHA256_BYTES])
{
    uint8_t bytes[4096];
    cr_assert_leq(ids->n, sizeof bytes / 4);
    for (size_t i = 0; i < 4 * ids->n; i++)
        bytes[i] = (uint8_t)((uint32_t)ids->ids[i / 4] >> i % 4 * 8);
    sha256(bytes, 4 * ids->n, out);
}

static void has_ids(const struct msg_accepted *got, const char *text, unsigned flags)
{
    uint8_t digest[SHA256_BYTES];
    struct token_list want = {0};
    cr_assert_eq(tokenizer_encode(front.co.mt.tok, text, strlen(text), flags, &want), ST_OK);
    digest_of(&want, digest);
    cr_assert_eq(got->prompt_tokens, want.n);
    cr_assert_arr_eq(got->prompt_digest, digest, sizeof digest);
    if (got->n_prompt_ids) {
        cr_assert_eq(got->n_prompt_ids, want.n);
        cr_assert_arr_eq(got->prompt_ids, want.ids, want.n * sizeof *want.ids);
    }
    token_list_free(&want);
}

Test(clients, accepted_tells_every_default)
{
    struct msg_generate g = msg_generate_default();
    g.text = (struct wire_text){"Once upon a time", 16};
    struct client_msg m = accepted_of(&g);
    const struct msg_accepted *got = &m.u.accepted;
    const struct sample_params *sp = &got->sampling.sp;
    has_ids(got, "Once upon a time", TOK_ADD_SPECIAL);
    cr_assert_eq(got->n_prompt_ids, 0);
    cr_assert(!got->has_clock);
    cr_assert_eq(got->max_tokens + got->prompt_tokens, front.co.shape.max_ctx);
    cr_assert_eq(got->n_stop_ids, front.co.mt.n_eos);
    cr_assert_gt(got->n_stop_ids, 0);
    cr_assert_arr_eq(got->stop_ids, front.co.mt.eos, got->n_stop_ids * sizeof *got->stop_ids);
    cr_assert(got->sampling.has_seed);
    cr_assert_eq(sp->seed, got->seed);
    cr_assert(sp->temperature == 1.0f && sp->top_p == 1.0f && sp->min_p == 0.0f && sp->top_k == 0);
    cr_assert(sp->repetition_penalty == 1.0f && sp->presence_penalty == 0.0f &&
              sp->frequency_penalty == 0.0f);
    cr_assert(sp->min_new == 0 && !sp->logprobs && sp->top_logprobs == 0);
    cr_assert_eq(got->sampling.n_stop_ids, 0);
    cr_assert_eq(got->sampling.n_bias, 0);
}

Test(clients, accepted_tells_all_that_was_asked)
{
    static const int32_t stop_ids[] = {7, 9};
    static const struct logit_bias bias[] = {{5, 2.5f}};
    struct msg_generate g = msg_generate_default();
    g.sampling.unset = 0;
    g.text = (struct wire_text){"Once", 4};
    g.add_special = false;
    g.want_prompt_ids = true;
    g.max_tokens = 3;
    g.sampling.sp.top_p = 0.5f;
    g.sampling.sp.seed = 77;
    g.sampling.has_seed = true;
    g.sampling.ignore_eos = true;
    g.sampling.n_stop_ids = 2;
    g.sampling.stop_ids = stop_ids;
    g.sampling.n_bias = 1;
    g.sampling.bias = bias;
    struct client_msg m = accepted_of(&g);
    const struct msg_accepted *got = &m.u.accepted;
    has_ids(got, "Once", 0);
    cr_assert_gt(got->n_prompt_ids, 0);
    cr_assert_eq(got->max_tokens, 3);
    cr_assert_eq(got->seed, 77);
    cr_assert(got->sampling.ignore_eos);
    cr_assert_eq(got->n_stop_ids, 2);
    cr_assert_arr_eq(got->stop_ids, stop_ids, sizeof stop_ids);
    cr_assert_eq(got->sampling.n_stop_ids, 2);
    cr_assert_eq(got->sampling.sp.top_p, 0.5f);
    cr_assert_eq(got->sampling.sp.seed, 77);
    cr_assert_eq(got->sampling.bias[0].id, 5);
}

static const struct msg_turn turns[] = {
    {.role = "user", .content = {"Hi", 2}, .json = {"", 0}},
};

/* the model's template shows the clock from now on */
static void show_clock(void)
{
    static const char source[] =
        "{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ messages[0].content }}";
    chat_template_destroy(front.co.mt.chat);
    cr_assert_eq(chat_template_create(&front.co.mt.chat, source, sizeof source - 1), ST_OK);
}

static const char *rendered(int64_t clock_s, int32_t zone_s)
{
    struct client_msg m = {.type = MSG_APPLY_TEMPLATE};
    m.u.apply_template.request_id = "t";
    m.u.apply_template.model = "";
    m.u.apply_template.chat = (struct msg_chat){.n_turns = 1,
                                                .turns = turns,
                                                .has_clock = true,
                                                .clock_s = clock_s,
                                                .has_zone = true,
                                                .zone_s = zone_s};
    peer_send(&a, &m);
    peer_settle_texts(&a);
    static char text[64];
    struct wire_text t = peer_take(&a, MSG_TEXT, "t").u.text.text;
    snprintf(text, sizeof text, "%.*s", (int)t.n, t.data);
    return text;
}

Test(clients, a_template_takes_the_clock_of_the_chat)
{
    show_clock();
    cr_assert_str_eq(rendered(1700000000, 0), "2023-11-14 22:13:20 Hi");
    cr_assert_str_eq(rendered(1700000000, 5400), "2023-11-14 23:43:20 Hi");
    cr_assert_str_eq(rendered(1700000000, -86399), "2023-11-13 22:13:21 Hi");
    cr_assert_str_eq(rendered(0, 0), "1970-01-01 00:00:00 Hi");
    cr_assert_str_eq(rendered(MAX_CLOCK_S, 0), "9999-12-31 23:59:59 Hi");
}

Test(clients, a_chat_without_a_clock_is_told_the_servers)
{
    struct msg_generate g = msg_generate_default();
    uint8_t digest[PROMPT_DIGEST];
    show_clock();
    g.kind = PROMPT_CHAT;
    g.chat.n_turns = 1;
    g.chat.turns = turns;
    g.max_tokens = 3;
    int64_t before = (int64_t)time(NULL);
    struct client_msg m = accepted_of(&g);
    struct msg_accepted first = m.u.accepted;
    cr_assert(first.has_clock);
    cr_assert(first.clock_s >= before && first.clock_s <= (int64_t)time(NULL));
    time_t t = (time_t)first.clock_s;
    struct tm local;
    localtime_r(&t, &local);
    cr_assert_eq(first.zone_s, local.tm_gmtoff);
    memcpy(digest, first.prompt_digest, sizeof digest); /* the next reply takes its place */
    first.prompt_digest = digest;
    has_ids(&first, rendered(first.clock_s, first.zone_s), 0);
    /* the same chat with that clock is the same prompt; with another it is not */
    for (int64_t later = 0; later < 2; later++) {
        peer_cancel(&a, "r");
        peer_settle(&a);
        cancelled(&a, CANCEL_STOPPED);
        peer_take(&a, MSG_FINISH, "r");
        request_expire(front.co.requests, front.now_us + 60 * 1000 * 1000, 0);
        g.chat.has_clock = g.chat.has_zone = true;
        g.chat.clock_s = first.clock_s + later;
        g.chat.zone_s = first.zone_s;
        m = accepted_of(&g);
        cr_assert_eq(m.u.accepted.clock_s, first.clock_s + later);
        cr_assert_eq(memcmp(m.u.accepted.prompt_digest, digest, sizeof digest) == 0, later == 0);
    }
}
