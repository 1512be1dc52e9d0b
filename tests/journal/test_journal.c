/* The journal: what random runs write can be replayed, and anything changed in it is seen. */
#define _GNU_SOURCE /* memmem */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/journal/journal.h"
#include "data.h"
#include "effort.h"
#include "journal/runs.h"
#include "sched/driver.h"

Test(journal, a_request_has_its_owner)
{
    static char names[MAX_FILES][64];
    uint8_t owner[SHA256_BYTES];
    int32_t tokens[80] = {1, 2, 3};
    struct sched_req q = {.seq_id = 16,
                          .tokens = tokens,
                          .n_tokens = 3,
                          .n_prompt = 3,
                          .max_new = 2,
                          .sp = {.top_p = 1, .repetition_penalty = 1},
                          .label = "r",
                          .owner = owner};
    struct journal_config jc = {.dir = dir, .name = "j", .max_file_bytes = 1u << 30};
    struct sched *s;
    struct journal *j;
    struct replay *p;
    for (size_t i = 0; i < sizeof owner; i++)
        owner[i] = (uint8_t)(200 + i);
    make_dir();
    cr_assert_eq(sched_create(&s, &small), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
    cr_assert_eq(journal_begin(j, &(struct journal_source){.sched = s}, &small, 0), ST_OK);
    cr_assert_eq(sched_submit(s, &q), ST_OK, "%s", status_text());
    journal_submit(j, &q);
    journal_close(j);
    sched_destroy(s);
    cr_assert_eq(file_names(names), 1u);
    struct file f = read_file(names[0]);
    struct replay_event ev;
    cr_assert_eq(replay_open(&p, f.data, f.n, MEMORY), ST_OK, "%s", status_text());
    cr_assert_eq(replay_next(p, &ev), ST_OK, "%s", status_text());
    cr_assert_eq(ev.kind, REPLAY_SERVED); /* each file begins so */
    cr_assert_eq(replay_next(p, &ev), ST_OK, "%s", status_text());
    cr_assert_eq(ev.kind, REPLAY_SUBMIT);
    cr_assert_arr_eq(ev.request->r.owner, owner, sizeof owner);
    replay_close(p);
    free(f.data);
    remove_dir();
}

static struct file timed_run(void)
{
    struct sched_config cfg = small;
    cfg.target_itl_us = cfg.max_step_us = SCHED_AUTO;
    cfg.prefill_loss_pct = 4;
    cfg.target_of_all = true;
    cfg.max_step_tokens = 40;
    return run_of(&cfg, 600);
}

/* Many small files, each of which begins with a state in the middle of things.  The third run is
 * planned by the time that its steps took. */
static void run_replays(uint32_t run, enum journal_content content)
{
    static char names[MAX_FILES][64];
    uint32_t inflight = run < 2 ? 1 : 2;
    struct journal_config jc = {
        .dir = dir, .name = "run", .max_file_bytes = 20000, .content = content};
    struct driver_options opts = {.journal = &jc};
    struct dice dice = {.state = run};
    struct driver_report rep;
    struct sched_config cfg = small;
    uint64_t n_tokens = 0, n_resets = 0, n_mid_run = 0;
    cfg.max_inflight = inflight;
    cfg.has_states = run > 1;
    cfg.n_snapshots = run > 1 ? 5 : 0;
    if (run > 1) { /* more borders, behind which they are taken */
        cfg.n_blocks *= cfg.block_len;
        cfg.block_len = 1;
    }
    cfg.target_itl_us = cfg.max_step_us = run == 3 ? SCHED_AUTO : 0;
    cfg.prefill_loss_pct = run;
    cfg.target_of_all = run > 1;
    cfg.turn_tokens = 4;
    make_dir();
    driver_run(&cfg, &dice, 20000, &opts, &rep);
    cr_assert(rep.journal.on, "%s", rep.journal.why);
    cr_assert_eq(rep.stats.pauses > 0, run == 3);
    size_t n = file_names(names);
    cr_assert_gt(n, 50u);
    cr_assert_eq(n, rep.journal.n_files);
    for (size_t i = 0; i < n; i++) {
        struct file f = read_file(names[i]);
        struct replay_summary sum;
        cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s: %s", names[i], status_text());
        cr_assert(sum.ended_well);
        cr_assert_eq(sum.n_torn, 0u);
        cr_assert_eq(sum.cfg.n_blocks, cfg.n_blocks);
        cr_assert_eq(sum.cfg.has_states, cfg.has_states);
        cr_assert_eq(sum.cfg.n_snapshots, cfg.n_snapshots);
        cr_assert(sum.cfg.prefix_cache);
        cr_assert_eq(sum.no_content, content == JOURNAL_NO_CONTENT);
        n_tokens += sum.n_tokens;
        n_resets += sum.n_resets;
        n_mid_run += i + 1 < n && sum.n_live > 0;
        free(f.data);
    }
    cr_assert_eq(n_tokens, rep.n_tokens);
    cr_assert_eq(n_resets, rep.n_resets);
    cr_assert_eq(rep.stats.snapshots_known > 0, run > 1);
    cr_assert_gt(n_mid_run, 20u, "the files begin where nothing lives");
    remove_dir();
}

Test(journal, random_runs_replay)
{
    for (uint32_t run = 1; run <= 3; run++)
        run_replays(run, JOURNAL_ALL_CONTENT);
}

Test(journal, random_runs_without_content_replay)
{
    for (uint32_t run = 1; run <= 3; run++)
        run_replays(run, JOURNAL_NO_CONTENT);
}

/* ---- no content ---- */

#define DRAWN_LOGPROB (-1.5f)
#define BIAS 1.0f
enum { SECRET = 0x3a5c0000, SECRETS = 4096, SECRET_PROMPT = 24, SECRET_ROUNDS = 60 };

static bool is_secret(uint32_t v)
{
    return v >= SECRET && v < SECRET + SECRETS;
}

/* Bytes that could be two secret ids, or one with its log probability or its bias: four bytes of a keyed hash are a
 * secret id by chance in one of 30 runs. */
static bool has_secret(const struct file *f)
{
    const float values[] = {DRAWN_LOGPROB, BIAS};
    for (size_t i = 0; i + 8 <= f->n; i++) {
        uint32_t v[2];
        memcpy(v, f->data + i, sizeof v);
        if (is_secret(v[0]) && (is_secret(v[1]) || memcmp(&v[1], &values[0], 4) == 0 ||
                                memcmp(&v[1], &values[1], 4) == 0))
            return true;
    }
    return false;
}

/* One sequence from its submit to its end: two share the beginning of their prompts. */
static void secret_sequence(struct sched *s, struct journal *j, uint64_t id)
{
    static struct sched_effect fx[4096];
    int32_t tokens[80];
    struct logit_bias bias = {.id = SECRET + 4000, .bias = BIAS};
    struct result_token drawn = {.seq_id = id};
    struct sched_req q = {.seq_id = id,
                          .tokens = tokens,
                          .n_tokens = SECRET_PROMPT,
                          .n_prompt = SECRET_PROMPT,
                          .max_new = 4,
                          .salt = 9,
                          .sp = {.top_p = 1, .repetition_penalty = 1},
                          .n_bias = 1,
                          .bias = &bias,
                          .grammar = 77,
                          .grammar_kind = 1,
                          .grammar_source = "a secret grammar",
                          .n_grammar = 16};
    struct step_plan p;
    size_t n_fx;
    for (int i = 0; i < SECRET_PROMPT; i++)
        tokens[i] = SECRET + i + (i < 16 ? 0 : (int)(id % 50) * 8);
    cr_assert_eq(sched_submit(s, &q), ST_OK, "%s", status_text());
    journal_submit(j, &q);
    for (uint64_t now = id * 100; sched_has(s, id); now++) {
        bool made = sched_plan(s, now, &p, fx, ARRAY_LEN(fx), &n_fx);
        journal_plan(j, 0, now, made, &p, fx, n_fx);
        cr_assert(made);
        drawn.token = SECRET + 2000 + (int32_t)(now % 1000);
        drawn.logprob = DRAWN_LOGPROB;
        struct step_result r = {
            .step_id = p.step_id, .epoch = p.epoch, .n = p.seqs[0].want, .tokens = &drawn};
        cr_assert_eq(sched_commit(s, &r, fx, ARRAY_LEN(fx), &n_fx), ST_OK, "%s", status_text());
        journal_commit(j, 0, &r, fx, n_fx);
    }
    cr_assert(journal_flush(j, &(struct journal_source){.sched = s}, id * 100));
}

/* The files of such a run, their prompts in the prefix cache too; how many have a secret. */
static unsigned files_with_secrets(enum journal_content content, uint64_t *cached)
{
    static char names[MAX_FILES][64];
    struct sched_config cfg = small;
    struct journal_config jc = {
        .dir = dir, .name = "j", .max_file_bytes = 2000, .content = content};
    struct sched_stats stats;
    struct replay_summary sum;
    struct sched *s;
    struct journal *j;
    unsigned n_secret = 0;
    cfg.prefix_cache = true;
    make_dir();
    cr_assert_eq(sched_create(&s, &cfg), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
    cr_assert_eq(journal_begin(j, &(struct journal_source){.sched = s}, &cfg, 0), ST_OK);
    for (uint64_t id = 1; id <= SECRET_ROUNDS; id++)
        secret_sequence(s, j, id);
    journal_close(j);
    sched_stats(s, &stats);
    *cached = stats.tokens_cached;
    sched_destroy(s);
    size_t n = file_names(names);
    cr_assert_gt(n, 5u);
    for (size_t i = 0; i < n; i++) {
        struct file f = read_file(names[i]);
        n_secret += has_secret(&f) || memmem(f.data, f.n, "a secret grammar", 16) != NULL;
        cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s: %s", names[i], status_text());
        free(f.data);
    }
    remove_dir();
    return n_secret;
}

/* Neither records nor the states that files begin with; the prefix cache finds what it found. */
Test(journal, without_content_no_id_is_in_the_files)
{
    uint64_t cached, cached_blind;
    cr_assert_gt(files_with_secrets(JOURNAL_ALL_CONTENT, &cached), 5u);
    cr_assert_eq(files_with_secrets(JOURNAL_NO_CONTENT, &cached_blind), 0u);
    cr_assert(cached > 0 && cached == cached_blind);
}

static struct file read_fixture(const char *name)
{
    const char *path = own_data(name);
    cr_assert_not_null(path, "%s", name);
    FILE *in = fopen(path, "rb");
    struct file f = {.data = malloc(1 << 20)};
    f.n = fread(f.data, 1, 1 << 20, in);
    fclose(in);
    return f;
}

/* A file that was written before steps were planned by time: the same plans, by tokens. */
Test(journal, version_1_replays)
{
    struct file f = read_fixture("journal/version1.journal");
    struct replay_summary sum;
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s", status_text());
    cr_assert(sum.ended_well && sum.n_plans == 31 && sum.n_resets == 1 && sum.n_live == 9);
    cr_assert_eq(sum.cfg.target_itl_us, 0u);
    free(f.data);
}

/* A timed file that was written when short steps might cost 2 % of the prefill speed. */
Test(journal, version_7_replays)
{
    struct file f = read_fixture("journal/version7.journal");
    struct replay_summary sum;
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s", status_text());
    cr_assert(sum.ended_well && sum.n_plans == 152 && sum.n_tokens == 332);
    cr_assert(sum.cfg.max_step_us == SCHED_AUTO && sum.cfg.prefill_loss_pct == 2);
    cr_assert(!sum.cfg.target_of_all);
    free(f.data);
}

/* It begins in the middle of a run, with sequences and steps under way, before states could be kept. */
Test(journal, version_8_replays)
{
    struct file f = read_fixture("journal/version8.journal");
    struct replay_summary sum;
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s", status_text());
    cr_assert(sum.ended_well && sum.n_plans == 58 && sum.n_tokens == 96 && sum.n_live == 8);
    cr_assert(sum.cfg.prefix_cache && sum.cfg.n_snapshots == 0);
    free(f.data);
}

/* Each request of the run is found again with its tokens, as the oracle has checked them. */
Test(journal, requests_are_found)
{
    struct file f = one_run(2000);
    struct replay *p;
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    uint64_t n_ended = 0, n_length = 0;
    cr_assert_eq(replay_open(&p, f.data, f.n, MEMORY), ST_OK, "%s", status_text());
    while (ev.kind != REPLAY_DONE) {
        cr_assert_eq(replay_next(p, &ev), ST_OK, "%s", status_text());
        for (const struct replay_request *q = ev.ended; q; q = q->next) {
            char label[32];
            snprintf(label, sizeof label, "request-%llu", (unsigned long long)q->r.seq_id);
            cr_assert_str_eq(q->label, label);
            n_ended++;
            n_length += q->reason == FINISH_LENGTH;
            cr_assert(q->reason != FINISH_LENGTH || q->n_known == q->n_end);
        }
    }
    cr_assert_null(replay_live(p));
    cr_assert_gt(n_ended, 100u);
    cr_assert_gt(n_length, 20u);
    replay_close(p);
    free(f.data);
}

/* Cut anywhere: the rest replays, and the cut is told. */
Test(journal, cut_files)
{
    struct file f = one_run(60);
    struct replay_summary sum;
    for (size_t n = 0; n < f.n; n += (size_t)effort(1, 5)) {
        unsigned char *copy = malloc(n + 1); /* exact size: ASan sees a read beyond */
        memcpy(copy, f.data, n);
        enum status st = replay_all(copy, n, &sum);
        cr_assert(st == ST_OK || st == ST_FORMAT, "%zu bytes: %s", n, status_name(st));
        cr_assert(st == ST_FORMAT || !sum.ended_well);
        free(copy);
    }
    free(f.data);
}

/* Any changed byte is seen as damage, also in a length. */
Test(journal, changed_bytes)
{
    struct file f = one_run(60);
    struct replay_summary sum;
    for (size_t i = 0; i < f.n; i += (size_t)effort(1, 5))
        for (unsigned bit = 0; bit < 8; bit += 3) {
            f.data[i] ^= (unsigned char)(1u << bit);
            enum status st = replay_all(f.data, f.n, &sum);
            cr_assert_eq(st, ST_FORMAT, "byte %zu bit %u: %s", i, bit, status_name(st));
            f.data[i] ^= (unsigned char)(1u << bit);
        }
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK);
    free(f.data);
}

/* Finds record number k of a type; its body. */
static unsigned char *record(struct file f, enum record_type type, unsigned k, size_t *n,
                             uint64_t *number)
{
    size_t at = 8;
    for (*number = 0; at < f.n; (*number)++) {
        struct byte_reader r = {.data = f.data + at, .left = f.n - at};
        uint32_t t = get_u32(&r);
        *n = get_u32(&r);
        if (t == type && k-- == 0)
            return f.data + at + RECORD_HEAD;
        at += RECORD_HEAD + *n;
    }
    cr_assert_fail("no such record");
    return NULL;
}

/* Makes all seals right again. */
static void reseal(struct file f)
{
    uint64_t chain = CHAIN_START;
    for (size_t at = 8; at < f.n;) {
        struct byte_reader r = {.data = f.data + at, .left = f.n - at};
        struct byte_writer seal = {.data = f.data + at + 8, .cap = 8};
        uint32_t type = get_u32(&r), n = get_u32(&r);
        put_u64(&seal, record_seal(&chain, type, f.data + at + RECORD_HEAD, n));
        at += RECORD_HEAD + n;
    }
}

/* A change with a correct check: the replay itself must see it, and say where. */
static void change(struct file f, enum record_type type, unsigned k, size_t at, unsigned char by,
                   enum status want, const char *says)
{
    size_t n;
    uint64_t number;
    struct replay_summary sum;
    unsigned char *body = record(f, type, k, &n, &number);
    cr_assert_lt(at, n);
    body[at] = (unsigned char)(body[at] + by);
    reseal(f);
    enum status st = replay_all(f.data, f.n, &sum);
    cr_assert_eq(st, want, "%s: %s, %s", says, status_name(st), status_text());
    cr_assert(strstr(status_text(), says), "'%s' lacks '%s'", status_text(), says);
    body[at] = (unsigned char)(body[at] - by);
    reseal(f);
}

Test(journal, differences_are_named)
{
    struct file f = one_run(400);
    struct replay_summary sum;
    char where[40];
    size_t n;
    uint64_t number;
    record(f, REC_PLAN, 5, &n, &number);
    snprintf(where, sizeof where, "record %llu ", (unsigned long long)number);
    change(f, REC_PLAN, 5, n - 1, 1, ST_BUG, "effects");
    change(f, REC_PLAN, 5, n - 13, 1, ST_BUG, "the plan differs"); /* its digest's last byte */
    change(f, REC_PLAN, 5, n - 13, 1, ST_BUG, where);
    record(f, REC_COMMIT, 3, &n, &number);
    change(f, REC_COMMIT, 3, 0, 1, ST_BUG, "the result was accepted");
    change(f, REC_HEADER, 0, 0, 1, ST_UNSUPPORTED, "version");
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK);
    free(f.data);
}

/* The recorded time of a step decides over the next ones: another time is seen. */
Test(journal, times_decide)
{
    struct file f = timed_run();
    struct replay_summary sum;
    cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s", status_text());
    change(f, REC_COMMIT, 3, 18, 1, ST_BUG, "the plan differs"); /* 65 ms more */
    free(f.data);
}

/* The same inputs under another scheduler give another run:
 * with another budget the replay differs. */
Test(journal, another_scheduler_is_seen)
{
    struct file f = one_run(400);
    size_t n;
    uint64_t number;
    unsigned char *body = record(f, REC_HEADER, 0, &n, &number);
    struct byte_reader r = {.data = body, .left = n};
    char text[64];
    get_u32(&r);
    get_u64(&r);
    get_text(&r, text, sizeof text);
    get_u32(&r); /* max_seqs; max_step_tokens is next */
    change(f, REC_HEADER, 0, (size_t)(r.data - body), (unsigned char)-3, ST_BUG,
           "the plan differs");
    free(f.data);
}

Test(journal, refusals)
{
    struct sched *s;
    struct journal *j;
    struct journal_config jc = {.name = "a"};
    cr_assert_eq(sched_create(&s, &small), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK);
    cr_assert_null(j, "a journal without the option");
    journal_submit(j, NULL); /* all calls take NULL */
    journal_cancel(j, 1, FINISH_CANCELLED);
    journal_plan(j, 0, 0, true, NULL, NULL, 0);
    journal_commit(j, 0, NULL, NULL, 0);
    journal_reset(j, 0, NULL, 0);
    cr_assert(journal_may_admit(j));
    cr_assert(journal_flush(j, &(struct journal_source){.sched = s}, 0));
    journal_close(j);

    make_dir();
    struct {
        struct journal_config jc;
        enum status st;
        const char *says;
    } rows[] = {{{.dir = "/proc/none/at/all", .name = "a"}, ST_IO, "/proc/none"},
                {{.dir = dir, .name = "../a"}, ST_RANGE, "../a"},
                {{.dir = dir, .name = ""}, ST_RANGE, "name"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_eq(journal_open(&j, &rows[i].jc), rows[i].st, "row %zu", i);
        cr_assert_null(j);
        cr_assert(strstr(status_text(), rows[i].says), "%s", status_text());
    }
    remove_dir();
    sched_destroy(s);
}

/* What a replay may allocate is bounded, whatever the file says. */
Test(journal, memory_is_bounded)
{
    struct file f = one_run(60);
    struct replay *p;
    cr_assert_eq(replay_open(&p, f.data, f.n, 2000), ST_RANGE);
    cr_assert_null(p);
    cr_assert(strstr(status_text(), "2000"));
    free(f.data);
}
