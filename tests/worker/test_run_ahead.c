/* Steps that are enqueued before the last one's results are taken, and decodes that run as graphs,
 * on a backend that computes as late as it may: the tokens and logprobs are those of one step after
 * the other on the plain CPU backend. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/queue_backend.h"
#include "worker/rank_step.h"

enum { SEQS = 11, BLOCK = 4, PER_SEQ = 16, MAX_NEW = 30, STREAMS = 14, PROMPT = 9 };

struct stream {
    struct sample_params sp;
    uint32_t start; /* the step that it begins in */
    uint32_t n_prompt, n_new;
    bool bias;
    /* state */
    uint32_t n_planned, n_got, n_blocks;
    struct result_token got[MAX_NEW];
};

struct mode {
    bool queue, ahead, graphs;
    bool few_edits; /* room for less than steps want */
    uint32_t deadline_ms;
};

struct rig {
    struct mode mode;
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct decoder *model;
    struct rank_step *step;
    struct vocab_part part;
    struct stream streams[STREAMS];
    uint32_t i_step;
    uint64_t closes[STREAMS]; /* for the next plan */
    uint32_t n_closes;
    int n_fed, n_whole;
};

static int32_t prompt_token(int i, uint32_t k)
{
    return (int32_t)(3 + (i * 31 + (int)k * 17) % 90);
}

/* Every kind that the device draws; one that the host draws when `host`. */
static void make_streams(struct rig *r, bool host)
{
    for (int i = 0; i < STREAMS; i++) {
        struct stream *s = &r->streams[i];
        *s = (struct stream){.sp = sample_params_default(),
                             .start = (uint32_t)(i < 8 ? i / 3 : 6 + i),
                             .n_prompt = 1 + (uint32_t)(i * 5) % PROMPT,
                             .n_new = 2 + (uint32_t)(i * 11 + 20) % (MAX_NEW - 2),
                             .bias = i % 4 == 2};
        s->sp.seed = 1000U + (uint64_t)i;
        s->sp.temperature = i % 3 == 0 ? 0.0f : 0.5f + 0.2f * (float)i;
        s->sp.top_k = i % 3 == 0 ? 0 : 5U + 4U * (uint32_t)i;
        s->sp.top_p = i % 5 == 1 ? 0.8f : 1.0f;
        s->sp.top_logprobs = (uint32_t)i % 4;
    }
    if (host) {
        r->streams[4].sp.top_k = 0;
        r->streams[4].sp.temperature = 5.0f; /* wants whole rows */
        r->streams[7].sp.presence_penalty = 0.5f;
    }
}

static void open_rig(struct rig *r, struct mode mode)
{
    char path[512];
    struct backend_config bc = {.threads = 1};
    struct decoder_config dc = {.world = 1,
                                .max_tokens = 64,
                                .max_seqs = SEQS,
                                .max_out = SEQS,
                                .n_blocks = STREAMS * PER_SEQ,
                                .n_pad_blocks = mode.graphs,
                                .block_len = BLOCK,
                                .max_ctx = BLOCK * PER_SEQ,
                                .kv_dtype = DT_F32};
    *r = (struct rig){.mode = mode};
    snprintf(path, sizeof path, "%s/tests/golden/models/llama-gqa", INGOT_SOURCE_DIR);
    cr_assert_eq(backend_open(&r->be, "cpu", &bc), ST_OK, "%s", status_text());
    if (mode.queue)
        queue_backend_wrap(r->be);
    cr_assert_eq(loader_open(&r->ld, path), ST_OK, "%s", status_text());
    const struct model_config *mc = loader_config(r->ld);
    struct coll_config cc = {.world = 1,
                             .be = r->be,
                             .max_bytes = decoder_coll_bytes(mc, &dc),
                             .deadline_ms = 1000,
                             .one_host = true};
    cr_assert_eq(coll_open(&r->co, NULL, &cc), ST_OK, "%s", status_text());
    cr_assert_eq(decoder_open(&r->model, mc, r->ld, r->be, r->co, &dc), ST_OK, "%s", status_text());
    r->part = decoder_shard(r->model)->vocab;
    struct rank_step_config rc = {
        .world = 1,
        .be = r->be,
        .co = r->co,
        .model = r->model,
        .parts = &r->part,
        .graphs = mode.graphs,
        .deadline_ms = mode.deadline_ms,
        .step = {.max_tokens = 64,
                 .max_seqs = SEQS,
                 .max_open = STREAMS,
                 .max_ctx = BLOCK * PER_SEQ,
                 .n_blocks = STREAMS * PER_SEQ,
                 .block_len = BLOCK,
                 .vocab = mc->vocab,
                 .max_edits = mode.few_edits ? 2 : 256,
                 .pad = mode.graphs},
    };
    cr_assert_eq(rank_step_create(&r->step, &rc), ST_OK, "%s", status_text());
}

static void close_rig(struct rig *r)
{
    rank_step_destroy(r->step);
    decoder_close(r->model);
    r->co->ops->close(r->co);
    loader_close(r->ld);
    backend_ops_of(r->be)->close(r->be);
}

/* ---- plans ---- */

struct draft {
    struct step_plan p;
    struct plan_seq seqs[STREAMS];
    struct plan_open opens[STREAMS];
    int32_t tokens[64], blocks[64];
    struct logit_bias bias[STREAMS];
    uint64_t closes[STREAMS];
};

static void add_stream(struct draft *d, struct rig *r, int i)
{
    struct stream *s = &r->streams[i];
    struct step_plan *p = &d->p;
    bool first = s->n_planned == 0;
    uint32_t pos = first ? 0 : s->n_prompt + s->n_planned - 1, n = first ? s->n_prompt : 1;
    if (first) {
        d->opens[p->n_opens++] = (struct plan_open){.seq_id = 100 + (uint64_t)i,
                                                    .sp = s->sp,
                                                    .n_prompt = s->n_prompt,
                                                    .n_bias = s->bias,
                                                    .bias_off = p->n_bias};
        if (s->bias)
            d->bias[p->n_bias++] = (struct logit_bias){40 + i, 4.0f};
    }
    struct plan_seq *q = &d->seqs[p->n_seqs++];
    *q = (struct plan_seq){.seq_id = 100 + (uint64_t)i,
                           .pos = pos,
                           .n_tokens = n,
                           .token_off = p->n_tokens,
                           .block_off = p->n_blocks,
                           .want = WANT_LAST};
    for (uint32_t k = 0; k < n; k++) {
        bool known = first || s->n_got == s->n_planned;
        r->n_fed += !known;
        d->tokens[p->n_tokens++] = first   ? prompt_token(i, k)
                                   : known ? s->got[s->n_got - 1].token
                                           : TOKEN_OF_LAST_STEP;
    }
    for (; s->n_blocks * BLOCK < pos + n; s->n_blocks++, q->n_blocks++)
        d->blocks[p->n_blocks++] = i * PER_SEQ + (int32_t)s->n_blocks;
    s->n_planned++;
    if (s->n_planned == s->n_new)
        r->closes[r->n_closes++] = 100 + (uint64_t)i;
}

/* False: there is nothing more to do. */
static bool make_plan(struct rig *r, struct draft *d)
{
    bool live = false;
    *d = (struct draft){0};
    d->p = (struct step_plan){.seqs = d->seqs,
                              .opens = d->opens,
                              .tokens = d->tokens,
                              .blocks = d->blocks,
                              .bias = d->bias,
                              .closes = d->closes,
                              .n_closes = r->n_closes};
    memcpy(d->closes, r->closes, sizeof d->closes);
    r->n_closes = 0;
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *s = &r->streams[i];
        live = live || s->n_planned < s->n_new;
        bool host_has_it = s->n_got == s->n_planned || sample_on_device(&s->sp);
        if (r->i_step >= s->start && s->n_planned < s->n_new && d->p.n_seqs < SEQS && host_has_it)
            add_stream(d, r, i);
    }
    r->i_step++;
    return live;
}

static void take_results(struct rig *r)
{
    int32_t rows[SEQS], n_rows;
    uint32_t n;
    cr_assert_eq(rank_step_sample(r->step, rows, &n_rows), ST_OK, "%s", status_text());
    cr_assert_leq(n_rows, (int32_t)FULL_ROWS);
    if (n_rows > 0)
        cr_assert_eq(rank_step_full(r->step, rows, n_rows), ST_OK, "%s", status_text());
    r->n_whole += n_rows;
    const struct result_token *t = rank_step_tokens(r->step, &n);
    for (uint32_t k = 0; k < n; k++) {
        struct stream *s = &r->streams[t[k].seq_id - 100];
        s->got[s->n_got++] = t[k];
    }
}

static void generate(struct rig *r)
{
    static struct draft d;
    while (make_plan(r, &d)) {
        cr_assert_eq(rank_step_run(r->step, &d.p), ST_OK, "%s", status_text());
        memset(&d, 0x5a, sizeof d); /* the plan is not looked at again */
        while (rank_step_n_running(r->step) > 0 && !(r->mode.ahead && rank_step_may_run(r->step)))
            take_results(r);
    }
    while (rank_step_n_running(r->step) > 0)
        take_results(r);
}

/* ---- */

static struct rig oracle, other;

static void check_same(const char *what)
{
    for (int i = 0; i < STREAMS; i++) {
        const struct stream *a = &oracle.streams[i], *b = &other.streams[i];
        cr_assert_eq(a->n_got, a->n_new);
        cr_assert_eq(b->n_got, b->n_new);
        for (uint32_t k = 0; k < a->n_new; k++) {
            const struct result_token *x = &a->got[k], *y = &b->got[k];
            cr_assert(x->token == y->token && x->logprob == y->logprob && x->n_top == y->n_top &&
                          memcmp(x->top, y->top, x->n_top * sizeof x->top[0]) == 0,
                      "%s: stream %d, token %u: %d (%a), expected %d (%a)", what, i, k, y->token,
                      (double)y->logprob, x->token, (double)x->logprob);
        }
    }
}

static void compare(const char *what, struct mode mode, bool host)
{
    open_rig(&oracle, (struct mode){0});
    make_streams(&oracle, host);
    generate(&oracle);
    cr_assert_eq(oracle.n_fed, 0);
    close_rig(&oracle);

    open_rig(&other, mode);
    make_streams(&other, host);
    generate(&other);
    check_same(what);
    cr_assert_eq(other.n_whole, oracle.n_whole);
    cr_assert_eq(other.n_whole > 0, host);
    cr_assert_eq(other.n_fed > 20, mode.ahead, "%d tokens were fed", other.n_fed);
    if (mode.queue) {
        cr_assert_eq(queue_backend_launches() > 20, mode.graphs);
        cr_assert_gt(queue_backend_depth(), 5u, "nothing was queued");
    }
    cr_assert_eq(rank_step_n_graphs(other.step), mode.graphs ? 5 : 0); /* 1 2 4 8 11 */
    close_rig(&other);
}

Test(run_ahead, on_the_cpu)
{
    compare("ahead on the CPU", (struct mode){.ahead = true}, false);
}

Test(run_ahead, one_after_the_other_on_a_queue)
{
    compare("queue", (struct mode){.queue = true}, false);
}

Test(run_ahead, on_a_queue)
{
    compare("ahead on a queue", (struct mode){.queue = true, .ahead = true}, false);
}

/* Steps with more edits than an upload has room for are no graphs. */
Test(run_ahead, graphs_without_room_for_edits)
{
    compare("few edits", (struct mode){.queue = true, .graphs = true, .few_edits = true}, true);
    int launches = queue_backend_launches();
    compare("more", (struct mode){.queue = true, .graphs = true}, true);
    cr_assert_gt(queue_backend_launches(), launches);
}

/* While the host draws, nothing runs ahead; then it does again. */
Test(run_ahead, with_the_host_drawing)
{
    compare("the host draws", (struct mode){.queue = true, .ahead = true}, true);
}

Test(run_ahead, graphs)
{
    compare("graphs", (struct mode){.queue = true, .graphs = true}, true);
}

Test(run_ahead, graphs_on_a_queue)
{
    compare("graphs ahead", (struct mode){.queue = true, .ahead = true, .graphs = true}, false);
}

/* A device that finishes nothing is given up, whether the host asks or waits. */
Test(run_ahead, a_step_has_a_deadline)
{
    static struct draft d;
    static struct rig r;
    int32_t rows[SEQS], n_rows;
    bool done = false;
    open_rig(&r, (struct mode){.queue = true, .ahead = true, .deadline_ms = 1});
    make_streams(&r, false);
    cr_assert(make_plan(&r, &d));
    cr_assert_eq(rank_step_run(r.step, &d.p), ST_OK, "%s", status_text());
    queue_backend_stall(true);
    enum status st = ST_OK;
    while (st == ST_OK) {
        st = rank_step_done(r.step, 1, &done);
        cr_assert_not(done);
    }
    cr_assert_eq(st, ST_TIMEOUT);
    cr_assert(strstr(status_text(), "within 1 ms"), "%s", status_text());
    cr_assert_eq(rank_step_sample(r.step, rows, &n_rows), ST_TIMEOUT);
    queue_backend_stall(false);
    close_rig(&r);
}

Test(run_ahead, batches_of_graphs)
{
    const int32_t expected[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 200};
    int32_t b = 0;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        b = step_batch(b + 1, 200);
        cr_assert_eq(b, expected[i], "%d", b);
    }
    for (int32_t n = 1; n <= 200; n++)
        cr_assert(step_batch(n, 200) >= n && step_batch(n, n) == n);
}
