/* The journal when one allocation fails, each of them in turn: what was said to be durable is recovered, what cannot be
 * written is refused, and a reading that lacks memory says so instead of finding less. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/journal/journal.h"
#include "journal/runs.h"
#include "wrap_allocator.h"

static unsigned long n_left; /* allocations until the one that fails; 0: none does */
static bool in_journal;

static bool allocation_fails(void)
{
    return in_journal && n_left && --n_left == 0;
}

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

char *__wrap_strdup(const char *s)
{
    return allocation_fails() ? NULL : __real_strdup(s);
}

#define CALL(value, call)                                                                          \
    do {                                                                                           \
        in_journal = true;                                                                         \
        (value) = (call);                                                                          \
        in_journal = false;                                                                        \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        in_journal = true;                                                                         \
        (call);                                                                                    \
        in_journal = false;                                                                        \
    } while (0)

static void lacked_memory(enum status st)
{
    cr_assert_eq(st, ST_NOMEM, "%s: %s", status_name(st), status_text());
    cr_assert(strstr(status_text(), "memory"), "%s", status_text());
    cr_assert_eq(n_left, 0UL);
}

/* ---- writing ---- */

/* The second and the first after a while need a larger buffer than there is. */
enum { N_REQUESTS = 5, SECOND_US = 1000 * 1000, LARGE = 1200 << 10, N_NEW = 4 };
static uint8_t frame[2 * LARGE];
static const size_t frame_bytes[N_REQUESTS] = {100, LARGE, 200, 2 * LARGE, 300};
static const uint8_t owner[SHA256_BYTES] = {3};

struct run {
    struct sched *s;
    struct journal *j;
    uint64_t now_us;
    bool has[N_REQUESTS]; /* it was said to be durable */
    uint32_t n_tokens[N_REQUESTS];
    unsigned n_refused;
};

static void flush(struct run *r, bool *durable)
{
    r->now_us += SECOND_US;
    CALL(*durable, journal_flush(r->j, &(struct journal_source){.sched = r->s}, r->now_us));
}

/* One step of all; the token of a sequence is the number of tokens that came before. */
static void step(struct run *r)
{
    struct sched_effect fx[64];
    struct step_plan plan;
    struct result_token tokens[N_REQUESTS];
    struct step_result result = {.tokens = tokens};
    size_t n_fx;
    if (!sched_plan(r->s, r->now_us, &plan, fx, ARRAY_LEN(fx), &n_fx))
        return;
    DO(journal_plan(r->j, 0, r->now_us, true, &plan, fx, n_fx));
    result.step_id = plan.step_id;
    result.epoch = plan.epoch;
    for (uint32_t i = 0; i < plan.n_seqs; i++)
        if (plan.seqs[i].want != WANT_NONE) {
            uint32_t *n = &r->n_tokens[plan.seqs[i].seq_id / 16 - 1];
            tokens[result.n++] =
                (struct result_token){.seq_id = plan.seqs[i].seq_id, .token = (int32_t)(*n)++};
        }
    cr_assert_eq(sched_commit(r->s, &result, fx, ARRAY_LEN(fx), &n_fx), ST_OK);
    DO(journal_commit(r->j, 0, &result, fx, n_fx));
}

/* As a coordinator does: the answer is Accepted after a flush that says durable, else a refusal. */
static void ask(struct run *r, uint32_t i)
{
    static int32_t tokens[16] = {1, 2, 3};
    char id[8];
    bool durable;
    enum status st = ST_BUSY;
    struct admission *x = NULL;
    snprintf(id, sizeof id, "r%u", i);
    const struct journal_admission a = {.key = 16U * (i + 1),
                                        .id = id,
                                        .owner = owner,
                                        .tenant = owner,
                                        .n_tenant = 1,
                                        .n_samples = 1,
                                        .accepted = owner,
                                        .request = frame,
                                        .n_request = (uint32_t)frame_bytes[i]};
    const struct sched_req q = {.seq_id = a.key,
                                .group_id = a.key,
                                .tokens = tokens,
                                .n_tokens = 3,
                                .n_prompt = 3,
                                .max_new = N_NEW,
                                .sp = {.top_p = 1, .repetition_penalty = 1},
                                .owner = owner};
    if (journal_may_admit(r->j)) {
        CALL(st, journal_admit(r->j, &a, &x));
        if (st != ST_OK)
            lacked_memory(st);
    }
    if (st == ST_OK) {
        cr_assert_eq(sched_submit(r->s, &q), ST_OK);
        DO(journal_submit(r->j, &q));
    }
    flush(r, &durable);
    r->has[i] = st == ST_OK && durable;
    r->n_refused += !r->has[i];
    if (st == ST_OK && !durable) {
        sched_cancel(r->s, q.seq_id);
        DO(journal_cancel(r->j, q.seq_id, FINISH_CANCELLED));
        journal_ended(r->j, x);
    }
}

static void check_stats(const struct run *r)
{
    struct journal_stats stats;
    journal_stats(r->j, &stats);
    cr_assert_eq(journal_may_admit(r->j), stats.on);
    cr_assert_eq(stats.on, !*stats.why, "%s", stats.why);
    cr_assert(stats.on || strstr(stats.why, "memory"), "%s", stats.why);
}

/* false: there is no journal, and none was said to be. */
static bool open_journal(struct run *r, const struct journal_config *jc)
{
    enum status st;
    CALL(st, journal_open(&r->j, jc));
    if (st != ST_OK) {
        lacked_memory(st);
        cr_assert_null(r->j);
        CALL(st, journal_open(&r->j, jc));
    }
    cr_assert_eq(st, ST_OK);
    CALL(st, journal_begin(r->j, &(struct journal_source){.sched = r->s}, &small, 1));
    if (st != ST_OK) {
        lacked_memory(st);
        cr_assert_not(journal_may_admit(r->j));
        CALL(st, journal_begin(r->j, &(struct journal_source){.sched = r->s}, &small, 1));
    }
    cr_assert_eq(st, ST_OK);
    return true;
}

/* The k-th allocation fails.  Of each request without a failure the answer has three tokens of N_NEW. */
static void write_run(struct run *r, const struct journal_config *jc, unsigned long k)
{
    bool durable;
    *r = (struct run){.now_us = 1};
    cr_assert_eq(sched_create(&r->s, &small), ST_OK);
    n_left = k;
    open_journal(r, jc);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        ask(r, i);
        check_stats(r);
        if (i == 2) {
            r->now_us += 3600U * (uint64_t)SECOND_US; /* the next file begins */
            flush(r, &durable);
        }
    }
    for (int i = 0; i < 2; i++) {
        step(r);
        flush(r, &durable);
        check_stats(r);
    }
    flush(r, &durable);
}

static void end_run(struct run *r)
{
    journal_close(r->j);
    sched_destroy(r->s);
}

/* What the next coordinator reads: each durable request, and nothing that was refused for good. */
static void check_recovered(const struct run *r, const struct recovered *found, unsigned long k)
{
    bool seen[N_REQUESTS] = {0};
    for (const struct recovered_request *q = found->first; q; q = q->next) {
        uint32_t i = (uint32_t)(q->id[1] - '0');
        cr_assert(i < N_REQUESTS && !seen[i]);
        seen[i] = true;
        cr_assert_eq(q->a.n_request, frame_bytes[i]);
        cr_assert_eq(memcmp(q->a.request, frame, frame_bytes[i]), 0);
        cr_assert_leq(q->samples[0].n, r->n_tokens[i]);
        for (uint32_t t = 0; t < q->samples[0].n; t++)
            cr_assert_eq(q->samples[0].ids[t], (int32_t)t);
    }
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        cr_assert(seen[i] || !r->has[i], "allocation %lu: request %u was durable, and is lost", k,
                  i);
}

static struct journal_config config(char name[16], unsigned long k)
{
    snprintf(name, 16, "j%lu", k);
    return (struct journal_config){
        .dir = dir, .name = name, .max_file_bytes = 1U << 30, .bounds = {.max_age_s = 4 * 1800}};
}

static void fill_frame(void)
{
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (uint8_t)(i * 7 + i / 251);
}

Test(journal_memory, what_is_durable_is_recovered)
{
    unsigned n_refused = 0;
    unsigned long k = 0;
    struct run r;
    make_dir();
    fill_frame();
    for (bool reached = true; reached; k++) {
        char name[16];
        struct journal_config jc = config(name, k);
        struct recovered *found;
        write_run(&r, &jc, k);
        reached = k == 0 || n_left == 0;
        n_left = 0;
        end_run(&r);
        n_refused += r.n_refused;
        cr_assert(k > 0 || r.n_refused == 0);
        cr_assert_eq(journal_open(&r.j, &jc), ST_OK, "%s", status_text());
        cr_assert_eq(journal_recover(r.j, &found), ST_OK, "%s", status_text());
        check_recovered(&r, found, k);
        recovered_free(found);
        journal_close(r.j);
    }
    cr_assert_geq(n_refused, 4u, "of %lu", k);
    remove_dir();
}

/* Hashes in place of content: what the hidden scheduler has no memory for cannot be made up for. */
Test(journal_memory, without_content_it_says_so)
{
    unsigned n_failed = 0;
    unsigned long k = 0;
    make_dir();
    for (bool reached = true; reached; k++) {
        char name[16];
        struct journal_config jc = config(name, k);
        struct journal_stats stats;
        struct run r;
        jc.content = JOURNAL_NO_CONTENT;
        write_run(&r, &jc, k);
        reached = k == 0 || n_left == 0;
        n_left = 0;
        journal_stats(r.j, &stats);
        cr_assert_eq(stats.on, stats.n_lost == 0 && r.n_refused == 0, "allocation %lu", k);
        n_failed += !stats.on;
        end_run(&r);
    }
    cr_assert_geq(n_failed, 3u, "of %lu", k);
    remove_dir();
}

/* ---- reading ---- */

Test(journal_memory, recovery_finds_all_or_fails)
{
    char name[16];
    unsigned n_failed = 0;
    unsigned long k = 0;
    struct run r;
    make_dir();
    fill_frame();
    struct journal_config jc = config(name, 0);
    write_run(&r, &jc, 0);
    end_run(&r);
    for (bool reached = true; reached;) {
        struct recovered *found;
        struct journal *j;
        enum status st;
        n_left = ++k;
        CALL(st, journal_open(&j, &jc));
        if (st == ST_OK)
            CALL(st, journal_recover(j, &found));
        reached = n_left == 0;
        if (st != ST_OK) {
            lacked_memory(st);
            n_failed++;
        } else {
            n_left = 0;
            cr_assert_eq(found->n, (uint32_t)N_REQUESTS, "allocation %lu: %u requests", k,
                         found->n);
            check_recovered(&r, found, k);
            recovered_free(found);
        }
        n_left = 0;
        journal_close(j);
    }
    cr_assert_geq(n_failed, 2u * N_REQUESTS, "of %lu", k);
    remove_dir();
}

Test(journal_memory, a_replay_is_whole_or_fails)
{
    struct replay_summary want, sum;
    struct file f = one_run(150);
    unsigned n_failed = 0;
    unsigned long k = 0;
    cr_assert_eq(replay_all(f.data, f.n, &want), ST_OK, "%s", status_text());
    for (bool reached = true; reached;) {
        enum status st;
        n_left = ++k;
        CALL(st, replay_all(f.data, f.n, &sum));
        reached = n_left == 0;
        if (st != ST_OK)
            lacked_memory(st);
        else
            cr_assert(sum.n_records == want.n_records && sum.check == want.check);
        n_failed += st != ST_OK;
        n_left = 0;
    }
    cr_assert_geq(n_failed, 20u, "of %lu", k);
    free(f.data);
}
