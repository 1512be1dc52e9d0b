/* Answers that are cut and resumed: the rest of the bytes comes, no byte twice; what a server would carry out
 * differently is refused by name; resumed requests pass a full queue. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/answers.h"
#include "coordinator/front.h"

enum { N = 4, MAX_IDS = 64, MAX_TEXT = 1024, FULL = 256 };

static const struct tenant acme = {4, "acme"};
static const char *const script[N] = {
    ("Once upon a time there was a small h\xc3\xa9"
     "dgehog. STOP it said"),
    "A fox, a fox. The END",
    "One two three four five six seven eight nine ten eleven",
    "ST STO STOSTOP and more",
};
static struct front front;
static struct peer a;
static int32_t ids[N][MAX_IDS]; /* of the scripts */
static uint32_t n_ids[N];

static void open_all(void)
{
    front_open(&front, (struct coordinator_config){.client_grace_ms = 300, .max_waiting = FULL});
    struct served *served = &front.co.served;
    *served = (struct served){.any = true, .numerics = "test/strict", .has_weights = true};
    memset(served->weights, 7, sizeof served->weights);
    front.co.shape.vocab = (uint32_t)tokenizer_max_id(front.co.mt.tok) + 1;
    peer_open(&a, &front, &acme);
    for (int i = 0; i < N; i++) {
        struct token_list list = {0};
        cr_assert_eq(tokenizer_encode(front.co.mt.tok, script[i], strlen(script[i]), 0, &list),
                     ST_OK);
        cr_assert_leq(list.n, (size_t)MAX_IDS);
        n_ids[i] = (uint32_t)list.n;
        memcpy(ids[i], list.ids, list.n * sizeof list.ids[0]);
        token_list_free(&list);
    }
}

static void close_all(void)
{
    peer_close(&a);
    front_close(&front);
}

TestSuite(resume, .init = open_all, .fini = close_all);

/* what a client has of an answer */
struct got {
    struct {
        int32_t ids[MAX_IDS];
        uint32_t n;
        char text[MAX_TEXT];
        size_t n_text;
        float logprobs[MAX_IDS];
    } s[N];
    bool ended;
    struct msg_sample_end end[N];
    char matched[N][16];
    uint32_t prompt_tokens, completion_tokens;
};

/* The next step, after what waits was placed or has ended. */
static bool plan_next(struct step_plan *plan, struct sched_effect *fx, size_t fx_cap, size_t *n_fx)
{
    const struct fleet_move *moves;
    struct fleet *f = front.co.fleet;
    fleet_plan(f, FLEET_QUEUE, front.now_us, plan, fx, fx_cap, n_fx);
    answer_effects(&front.co, NULL, *n_fx, front.now_us);
    fleet_place(f, &moves);
    return fleet_plan(f, FRONT_GROUP, front.now_us, plan, fx, fx_cap, n_fx);
}

/* One step of all sequences: sample i draws the tokens of its script, again from the beginning after the last one. */
static bool step(void)
{
    struct coordinator *co = &front.co;
    struct step_plan plan;
    struct result_token tokens[16];
    struct step_result result = {.tokens = tokens};
    size_t n_fx = 0;
    co->fx_cap = 4096;
    if (!co->fx)
        co->fx = calloc(co->fx_cap, sizeof *co->fx);
    front.now_us += 1000;
    bool made = plan_next(&plan, co->fx, co->fx_cap, &n_fx);
    answer_effects(co, NULL, n_fx, front.now_us);
    if (!made)
        return false;
    result.step_id = plan.step_id;
    result.epoch = plan.epoch;
    for (uint32_t i = 0; i < plan.n_seqs; i++) {
        if (plan.seqs[i].want == WANT_NONE)
            continue;
        struct sample *s;
        struct request *r = request_of_seq(co->requests, plan.seqs[i].seq_id, &s);
        uint32_t k = (uint32_t)(s - r->samples), at = s->n - r->ask->n_prompt;
        cr_assert_eq(plan.seqs[i].pos + plan.seqs[i].n_tokens, s->n, "not at its place");
        tokens[result.n++] = (struct result_token){.seq_id = plan.seqs[i].seq_id,
                                                   .token = ids[k % N][at % n_ids[k % N]],
                                                   .logprob = -(float)at};
    }
    cr_assert_eq(fleet_commit(co->fleet, FRONT_GROUP, &result, co->fx, co->fx_cap, &n_fx), ST_OK,
                 "%s", status_text());
    answer_effects(co, &result, n_fx, front.now_us);
    answer_flush(co, front.now_us);
    return true;
}

static struct msg_generate request(const char *id)
{
    static const struct wire_text stops[] = {{"STOP", 4}, {"END", 3}};
    struct msg_generate g = msg_generate_default();
    g.request_id = id;
    g.text = (struct wire_text){"Tell me", 7};
    g.n = N;
    g.max_tokens = 24;
    g.n_stops = 2;
    g.stops = stops;
    g.deadline_ms = 10 * 60 * 1000;
    g.sampling.sp.logprobs = true;
    return g;
}

static void send_generate(const struct msg_generate *g)
{
    struct client_msg m = {.type = MSG_GENERATE, .u.generate = *g};
    peer_send(&a, &m);
    peer_settle_texts(&a);
}

/* Takes what has come of the request. */
static void take(struct got *g, const char *id)
{
    peer_settle(&a);
    while (a.n_kept > a.i_taken) {
        struct client_msg m = {0};
        cr_assert_eq(client_msg_decode_reply(&m, sock_msg_data(a.kept[a.i_taken]),
                                             sock_msg_size(a.kept[a.i_taken]), &a.rx),
                     ST_OK);
        if (m.type == MSG_FINISH) {
            m = peer_take(&a, MSG_FINISH, id);
            cr_assert(!g->ended);
            g->ended = true;
            g->prompt_tokens = m.u.finish.prompt_tokens;
            g->completion_tokens = m.u.finish.completion_tokens;
            for (uint32_t i = 0; i < N; i++) {
                g->end[i] = m.u.finish.samples[i];
                memcpy(g->matched[i], g->end[i].matched_stop.data, g->end[i].matched_stop.n);
                g->end[i].matched_stop.data = NULL;
            }
            return;
        }
        m = peer_take(&a, MSG_DELTA, id);
        const struct msg_delta *d = &m.u.delta;
        if (d->n) {
            memcpy(g->s[d->sample].ids + g->s[d->sample].n, d->ids, d->n * sizeof *d->ids);
            memcpy(g->s[d->sample].logprobs + g->s[d->sample].n, d->logprobs,
                   d->n * sizeof *d->logprobs);
        }
        g->s[d->sample].n += d->n;
        memcpy(g->s[d->sample].text + g->s[d->sample].n_text, d->text.data, d->text.n);
        g->s[d->sample].n_text += d->text.n;
    }
}

static void run_to_end(struct got *g, const char *id)
{
    for (take(g, id); !g->ended; take(g, id))
        cr_assert(step(), "nothing to do, and no end");
}

struct cut {
    struct msg_resume resume;
    struct msg_resumed_sample samples[N];
};

/* What a client has received that has the ids of `got`, and n_text bytes of the text of sample `i`. */
static void cut_at(struct cut *c, const struct msg_accepted *accepted, const struct got *got, int i,
                   size_t n_text)
{
    c->resume = (struct msg_resume){accepted, N, 1500, c->samples};
    for (int k = 0; k < N; k++)
        c->samples[k] = (struct msg_resumed_sample){got->s[k].n, got->s[k].ids,
                                                    k == i ? n_text : got->s[k].n_text, 0};
}

/* The Accepted of a request, which is valid as long as mem. */
static struct msg_accepted keep_accepted(struct wire_mem *mem)
{
    struct client_msg m;
    cr_assert_eq(wire_mem_init(mem, 1 << 20), ST_OK);
    cr_assert_eq(client_msg_decode_reply(&m, sock_msg_data(a.kept[a.i_taken]),
                                         sock_msg_size(a.kept[a.i_taken]), mem),
                 ST_OK);
    m = (struct client_msg){.type = m.type, .u.accepted = m.u.accepted};
    cr_assert_eq(m.type, MSG_ACCEPTED, "%s", m.u.error.detail);
    peer_take(&a, MSG_ACCEPTED, NULL);
    return m.u.accepted;
}

static void same_rest(const struct got *whole, const struct got *first, const struct got *rest,
                      int cut, size_t n_text)
{
    cr_assert_eq(rest->prompt_tokens, whole->prompt_tokens);
    cr_assert_eq(rest->completion_tokens, whole->completion_tokens);
    cr_assert_eq(memcmp(rest->end, whole->end, sizeof rest->end), 0);
    cr_assert_eq(memcmp(rest->matched, whole->matched, sizeof rest->matched), 0);
    for (int i = 0; i < N; i++) {
        size_t had = i == cut ? n_text : first->s[i].n_text;
        uint32_t n = whole->s[i].n - first->s[i].n;
        cr_assert_eq(rest->s[i].n, n);
        cr_assert_eq(memcmp(rest->s[i].ids, whole->s[i].ids + first->s[i].n, n * sizeof(int32_t)),
                     0);
        cr_assert_eq(
            memcmp(rest->s[i].logprobs, whole->s[i].logprobs + first->s[i].n, n * sizeof(float)),
            0);
        cr_assert_eq(rest->s[i].n_text, whole->s[i].n_text - had, "sample %d: %zu + %zu of %zu", i,
                     had, rest->s[i].n_text, whole->s[i].n_text);
        cr_assert_eq(memcmp(rest->s[i].text, whole->s[i].text + had, rest->s[i].n_text), 0);
    }
}

/* Resumes once per byte of the texts so far. */
static unsigned resume_at_every_byte(const struct msg_accepted *accepted, const struct got *whole,
                                     const struct got *first)
{
    unsigned n = 0;
    for (int i = 0; i < N; i++)
        for (size_t b = 0; b <= first->s[i].n_text; b++, n++) {
            char id[32];
            struct cut c;
            struct got rest = {0};
            snprintf(id, sizeof id, "again-%u-%d-%zu", first->s[2].n, i, b);
            struct msg_generate g = request(id);
            cut_at(&c, accepted, first, i, b);
            g.resume = &c.resume;
            send_generate(&g);
            cr_assert(!peer_take(&a, MSG_ACCEPTED, id).u.accepted.attached);
            run_to_end(&rest, id);
            same_rest(whole, first, &rest, i, b);
        }
    return n;
}

Test(resume, at_every_byte_the_rest_comes)
{
    static struct got firsts[MAX_IDS], whole; /* firsts: after each step */
    struct wire_mem mem;
    struct msg_generate g = request("whole");
    unsigned n = 0, n_cuts = 0;
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    take(&whole, "whole");
    for (; !whole.ended; take(&whole, "whole")) {
        firsts[n++] = whole;
        cr_assert_lt(n, (unsigned)MAX_IDS);
        cr_assert(step());
    }
    cr_assert_eq(whole.end[0].reason, REASON_STOP);
    cr_assert_eq(whole.end[1].reason, REASON_STOP);
    cr_assert_eq(whole.end[2].reason, REASON_LENGTH);
    cr_assert_str_eq(whole.matched[1], "END");
    cr_assert_lt(whole.s[1].n, whole.s[2].n, "a sample ends before the others");
    for (unsigned i = 0; i < n; i++)
        n_cuts += resume_at_every_byte(&accepted, &whole, &firsts[i]);
    cr_assert_gt(n_cuts, 500);
    wire_mem_fini(&mem);
}

/* A request that runs here is attached to, where its client is. */
Test(resume, a_request_that_runs_goes_on_where_its_client_is)
{
    struct wire_mem mem;
    struct got whole = {0}, rest = {0};
    struct msg_generate g = request("r");
    struct cut c;
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    for (int i = 0; i < 9; i++) {
        step();
        take(&whole, "r");
    }
    struct got first = whole;
    step();
    cut_at(&c, &accepted, &first, 0, first.s[0].n_text);
    g.resume = &c.resume;
    take(&whole, "r");
    send_generate(&g);
    cr_assert(peer_take(&a, MSG_ACCEPTED, "r").u.accepted.attached);
    run_to_end(&rest, "r");
    struct msg_generate again = request("r"); /* from the beginning */
    struct got all = {0};
    send_generate(&again);
    cr_assert(peer_take(&a, MSG_ACCEPTED, "r").u.accepted.attached);
    run_to_end(&all, "r");
    same_rest(&all, &first, &rest, 0, first.s[0].n_text);
    wire_mem_fini(&mem);
}

static void refused(const struct msg_generate *g, const char *field, enum status code)
{
    send_generate(g);
    struct client_msg m = peer_take(&a, MSG_REJECTED, g->request_id);
    cr_assert_eq(m.u.error.code, code, "%s: %s", field, m.u.error.detail);
    cr_assert_str_eq(m.u.error.field, field, "%s", m.u.error.detail);
    cr_assert_eq(m.u.error.retryable, code == ST_BUSY);
}

Test(resume, what_differs_is_named)
{
    struct wire_mem mem;
    struct msg_generate g = request("first");
    send_generate(&g);
    const struct msg_accepted good = keep_accepted(&mem);
    static const uint8_t other[SHA256_BYTES] = {1};
    struct got none = {0};
    struct cut c;
    struct msg_accepted bad = good;
    cut_at(&c, &bad, &none, 0, 0);
    g = request("second");
    g.resume = &c.resume;
#define REFUSED(change, field)                                                                     \
    do {                                                                                           \
        bad = good;                                                                                \
        change;                                                                                    \
        refused(&g, "resume.accepted." field, ST_RANGE);                                           \
    } while (0)
    REFUSED(bad.prompt_digest = other, "prompt_digest");
    REFUSED(bad.max_tokens--, "max_tokens");
    REFUSED(bad.n_stop_ids--, "stop_token_id");
    REFUSED(bad.weights = other, "weights_digest");
    REFUSED(bad.text = other, "text_digest");
    REFUSED(bad.numerics = "test/else", "numerics");
    REFUSED(bad.numerics = "test/" NUMERICS_ID_FAST, "numerics");
    REFUSED(bad.sampling.sp.temperature = 0.5f, "sampling.temperature");
    REFUSED(bad.sampling.sp.top_p = 0.5f, "sampling.top_p");
    REFUSED(bad.sampling.sp.min_p = 0.5f, "sampling.min_p");
    REFUSED(bad.sampling.sp.top_k = 7, "sampling.top_k");
    REFUSED(bad.sampling.sp.repetition_penalty = 1.5f, "sampling.repetition_penalty");
    REFUSED(bad.sampling.sp.presence_penalty = 1.5f, "sampling.presence_penalty");
    REFUSED(bad.sampling.sp.frequency_penalty = 1.5f, "sampling.frequency_penalty");
    REFUSED(bad.sampling.sp.min_new = 3, "sampling.min_tokens");
    REFUSED(bad.sampling.sp.logprobs = false, "sampling.logprobs");
    REFUSED(bad.sampling.sp.top_logprobs = 2, "sampling.top_logprobs");
    REFUSED(bad.sampling.ignore_eos = true, "sampling.ignore_eos");
    bad = good;
    g.sampling.has_seed = true; /* the request itself says another one */
    g.sampling.sp.seed = good.sampling.sp.seed + 1;
    refused(&g, "resume.accepted.sampling.seed", ST_RANGE);
    g.sampling.has_seed = false;
    c.resume.n_samples = 2;
    refused(&g, "resume.sample", ST_RANGE);
    c.resume.n_samples = N;
    c.samples[1] = (struct msg_resumed_sample){1, ids[1], 0, 0}; /* a part was received */
    REFUSED(bad.weights = NULL, "weights_digest");
    REFUSED(bad.numerics = "", "numerics");
    bad = good;
    c.samples[1] = (struct msg_resumed_sample){1, ids[1], 999, 0};
    refused(&g, "resume.sample.text_bytes", ST_RANGE);
    c.samples[1] =
        (struct msg_resumed_sample){n_ids[1] + 1, ids[1], 0, 0}; /* behind its stop string */
    refused(&g, "resume.sample.id", ST_RANGE);
    c.samples[1] = (struct msg_resumed_sample){1, (int32_t[]){-1}, 0, 0};
    refused(&g, "resume.sample.id", ST_RANGE);
    int32_t many[25] = {0};
    c.samples[1] = (struct msg_resumed_sample){25, many, 0, 0};
    refused(&g, "resume.sample.id", ST_RANGE);
    c.samples[1] = (struct msg_resumed_sample){0};
    front.co.served.has_weights = false;
    refused(&g, "", ST_BUSY);
    front.co.served.has_weights = true;
    send_generate(&g);
    peer_take(&a, MSG_ACCEPTED, "second");
    wire_mem_fini(&mem);
}

/* A server without groups, and without a weights digest, had accepted it. */
Test(resume, what_was_only_accepted_begins_here)
{
    struct wire_mem mem;
    struct msg_generate g = request("first");
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    struct got whole = {0}, none = {0}, rest = {0};
    struct cut c;
    run_to_end(&whole, "first");
    accepted.weights = NULL;
    accepted.numerics = "";
    cut_at(&c, &accepted, &none, 0, 0);
    g = request("second");
    g.resume = &c.resume;
    send_generate(&g);
    peer_take(&a, MSG_ACCEPTED, "second");
    run_to_end(&rest, "second");
    same_rest(&whole, &none, &rest, 0, 0);
    wire_mem_fini(&mem);
}

/* Every token was received, but the end was not. */
Test(resume, an_answer_that_is_whole_ends_at_once)
{
    struct wire_mem mem;
    struct got whole = {0}, rest = {0};
    struct msg_generate g = request("r");
    struct cut c;
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    run_to_end(&whole, "r");
    g = request("s");
    cut_at(&c, &accepted, &whole, 0, whole.s[0].n_text);
    g.resume = &c.resume;
    send_generate(&g);
    peer_take(&a, MSG_ACCEPTED, "s");
    take(&rest, "s");
    cr_assert(rest.ended);
    same_rest(&whole, &whole, &rest, 0, whole.s[0].n_text);
    wire_mem_fini(&mem);
}

Test(resume, the_deadline_is_the_first_request_s)
{
    struct wire_mem mem;
    struct got none = {0}, rest = {0};
    struct msg_generate g = request("r");
    struct cut c;
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    peer_cancel(&a, "r");
    peer_settle(&a);
    while (a.n_kept > a.i_taken)
        peer_take(&a, a.n_kept - a.i_taken == 2 ? MSG_CANCEL_REPLY : MSG_FINISH, "r");
    g = request("s");
    cut_at(&c, &accepted, &none, 0, 0);
    c.resume.elapsed_ms = g.deadline_ms + 1;
    g.resume = &c.resume;
    send_generate(&g);
    peer_take(&a, MSG_ACCEPTED, "s");
    step();
    answer_flush(&front.co, front.now_us);
    take(&rest, "s");
    cr_assert(rest.ended);
    cr_assert_eq(rest.end[0].reason, REASON_DEADLINE);
    wire_mem_fini(&mem);
}

Test(resume, many_resume_at_a_full_coordinator_and_go_first)
{
    struct wire_mem mem;
    struct got none = {0};
    struct cut c;
    char id[32];
    struct msg_generate g = request("first");
    g.n = 1;
    send_generate(&g);
    struct msg_accepted accepted = keep_accepted(&mem);
    for (int i = 1; i < FULL; i++) {
        snprintf(id, sizeof id, "new-%d", i);
        g.request_id = id;
        send_generate(&g);
        peer_take(&a, MSG_ACCEPTED, id);
    }
    g.request_id = "one too many";
    refused(&g, "", ST_BUSY);
    cut_at(&c, &accepted, &none, 0, 0);
    c.resume.n_samples = 1;
    c.samples[0] = (struct msg_resumed_sample){2, ids[0], 0, 0};
    g.resume = &c.resume;
    for (int i = 0; i < FULL; i++) {
        snprintf(id, sizeof id, "resumed-%d", i);
        g.request_id = id;
        send_generate(&g);
        peer_take(&a, MSG_ACCEPTED, id);
        peer_take(&a, MSG_DELTA, id); /* the text of the two ids */
    }
    struct step_plan plan;
    size_t n_fx;
    struct sched_effect *fx = calloc(4096, sizeof *fx);
    cr_assert(plan_next(&plan, fx, 4096, &n_fx));
    free(fx);
    cr_assert_eq(plan.n_seqs, 8);
    for (uint32_t i = 0; i < plan.n_seqs; i++) {
        struct sample *s;
        cr_assert(request_of_seq(front.co.requests, plan.seqs[i].seq_id, &s)->resumed);
    }
    wire_mem_fini(&mem);
}
