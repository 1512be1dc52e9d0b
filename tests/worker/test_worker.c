/* The worker program as a whole, driven by a coordinator of the test's own: tokens, worlds, collectives,
 * and every way to end. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "worker/fake.h"
#include "worker/options.h"

enum { LEASE_MS = 20000, BEAT_MS = 100 };

static const char *const small[] = {"--max-seqs",  "8", "--max-step-tokens", "64",
                                    "--kv-blocks", "512", "--threads", "1", NULL};

static char fixture[512]; /* a tiny random model of the repository: 104 tokens, 8 heads, 128 positions */

static const char *tiny_model(void)
{
    snprintf(fixture, sizeof fixture, "%s/tests/golden/models/llama-gqa", INGOT_SOURCE_DIR);
    return fixture;
}

static cJSON *load_json(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = fopen(path, "r"), *m = open_memstream(&text, &n);
    cr_assert(f && m, "cannot read %s", path);
    for (int c; (c = fgetc(f)) != EOF;)
        fputc(c, m);
    fclose(f);
    fclose(m);
    cJSON *j = cJSON_Parse(text);
    free(text);
    cr_assert(j, "%s is not JSON", path);
    return j;
}

static uint32_t int_list(const cJSON *j, const char *name, int32_t *out, uint32_t max)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(j, name), *e;
    uint32_t n = 0;
    cr_assert(cJSON_IsArray(list), "%s is not a list", name);
    cJSON_ArrayForEach(e, list)
    {
        cr_assert(n < max);
        out[n++] = e->valueint;
    }
    return n;
}

static void launch(struct fake *f, int world, const char *model, const char *coll,
                   uint32_t lease_ms)
{
    const char *args[32];
    int n = 0;
    for (; small[n]; n++)
        args[n] = small[n];
    args[n++] = "--coll";
    args[n++] = coll;
    args[n] = NULL;
    fake_open(f);
    fake_launch(f, world, model, args);
    fake_join(f, BEAT_MS, lease_ms);
}

/* Asks the group to end and sees that all of it does. */
static void shut_down(struct fake *f)
{
    struct worker_msg m = {.type = WMSG_SHUTDOWN, .u.beat.epoch = f->epoch};
    fake_send(f, &m);
    fake_check_exit(f, EXIT_AS_ASKED);
    fake_all_gone(f);
    fake_close(f);
}

/* ---- the right tokens ---- */

/* All prompts of an expected.json at once, greedy. */
static void check_expected(const char *name, int world, const char *coll)
{
    enum { CASES = 3, NEW = 128 };
    static int32_t prompt[CASES][64], ids[CASES][NEW];
    static struct result_token out[CASES][NEW];
    struct fake_stream s[CASES] = {0};
    struct fake f;
    char file[256], model[1024];
    snprintf(file, sizeof file, "models/%s/expected.json", name);
    const char *path = shared_data(file);
    if (!path)
        cr_skip_test("no models/%s in the shared data", name);
    snprintf(model, sizeof model, "%.*s", (int)(strrchr(path, '/') - path), path);
    cJSON *j = load_json(path);
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(j, "cases");
    cr_assert_eq(cJSON_GetArraySize(cases), CASES);
    for (int i = 0; i < CASES; i++) {
        const cJSON *c = cJSON_GetArrayItem(cases, i);
        s[i] = (struct fake_stream){.seq_id = 100 + (uint64_t)i,
                                    .sp = sample_params_default(),
                                    .prompt = prompt[i],
                                    .n_prompt = int_list(c, "prompt_ids", prompt[i], 64),
                                    .n_new = int_list(c, "ids", ids[i], NEW),
                                    .out = out[i]};
        s[i].sp.temperature = 0.0f;
    }
    cJSON_Delete(j);
    launch(&f, world, model, coll, LEASE_MS);
    fake_generate(&f, s, CASES, 3);
    for (int i = 0; i < CASES; i++)
        for (uint32_t k = 0; k < s[i].n_new; k++)
            cr_assert_eq(out[i][k].token, ids[i][k], "prompt %d, token %u: %d, expected %d", i, k,
                         out[i][k].token, ids[i][k]);
    shut_down(&f);
}

Test(stories, one_rank)
{
    check_expected("stories260K", 1, "auto");
}

Test(stories, two_ranks_shm)
{
    check_expected("stories260K", 2, "shm");
}

Test(stories, two_ranks_mpi)
{
    check_expected("stories260K", 2, "mpi");
}

Test(stories, four_ranks_shm)
{
    check_expected("stories260K", 4, "shm");
}

Test(stories, four_ranks_mpi)
{
    check_expected("stories260K", 4, "mpi");
}

Test(stories, bf16_shards_on_two_ranks)
{
    check_expected("stories260K-bf16", 2, "auto");
}

/* The fixture's positions one after the other: each greedy token is the greatest of HuggingFace's logits. */
static void check_fixture(int world, uint32_t chunk)
{
    enum { V = 104, N = 68, FIRST = 20 };
    static int32_t ids[N];
    static float logits[N][V];
    static struct result_token out[N];
    char path[600];
    struct fake f;
    snprintf(path, sizeof path, "%s/expected.json", tiny_model());
    cJSON *j = load_json(path);
    cr_assert_eq(int_list(j, "input_ids", ids, N), N);
    cJSON_Delete(j);
    snprintf(path, sizeof path, "%s/logits.f32", tiny_model());
    FILE *file = fopen(path, "rb");
    cr_assert(file && fread(logits, sizeof logits, 1, file) == 1);
    fclose(file);
    struct fake_stream s = {.seq_id = 7,
                            .sp = sample_params_default(),
                            .prompt = ids,
                            .n_prompt = FIRST,
                            .n_new = N - FIRST + 1,
                            .forced = true,
                            .out = out};
    s.sp.temperature = 0.0f;
    launch(&f, world, tiny_model(), "auto", LEASE_MS);
    fake_generate(&f, &s, 1, chunk);
    for (int i = FIRST; i <= N; i++) {
        int32_t token = out[i - FIRST].token;
        for (int32_t v = 0; v < V; v++) /* 1e-4: what the project promises of its logits */
            cr_assert(logits[i - 1][v] <= logits[i - 1][token] + 1e-4f,
                      "position %d: %d, HuggingFace has %d", i, token, v);
    }
    shut_down(&f);
}

Test(fixture, one_rank)
{
    check_fixture(1, 64);
}

Test(fixture, two_ranks)
{
    check_fixture(2, 7);
}

Test(fixture, four_ranks)
{
    check_fixture(4, 64);
}

/* ---- the same tokens, whatever the world ---- */

enum { N_MIXED = 8, NEW_MIXED = 40 };

static struct result_token mixed[3][N_MIXED][NEW_MIXED];
static const int32_t mixed_prompt[] = {1, 5, 77, 100, 9, 9, 42, 17, 3, 88, 21};
static const int32_t mixed_stop[] = {2, 50, 51, 52};
static const struct logit_bias mixed_bias[] = {{10, 3.5f}, {90, -100.0f}};

static void mixed_streams(struct fake_stream *s, struct result_token out[N_MIXED][NEW_MIXED])
{
    for (int i = 0; i < N_MIXED; i++) {
        s[i] = (struct fake_stream){.seq_id = 1 + (uint64_t)i,
                                    .sp = sample_params_default(),
                                    .prompt = mixed_prompt,
                                    .n_prompt = 3 + (uint32_t)i,
                                    .n_new = NEW_MIXED - (uint32_t)i,
                                    .out = out[i]};
        s[i].sp.seed = 1000 + (uint64_t)i;
        s[i].sp.top_logprobs = (uint32_t)(i * 20 / 7);
    }
    s[1].sp.temperature = 3.0f; /* flat over 104 tokens: 64 candidates often do not decide */
    s[2].sp.top_p = 0.9f;
    s[3].sp.top_k = 90; /* more than there are candidates: always the whole row */
    s[4].sp.min_p = 0.3f;
    s[5].sp.temperature = 0.0f;
    s[5].sp.repetition_penalty = 1.3f;
    s[6].sp.presence_penalty = 1.5f;
    s[6].sp.frequency_penalty = 0.5f;
    s[7].sp.min_new = 20;
    s[7].stop_ids = mixed_stop;
    s[7].n_stop_ids = 4;
    s[7].bias = mixed_bias;
    s[7].n_bias = 2;
}

static void run_mixed(int world, const char *coll, uint32_t chunk,
                      struct result_token out[N_MIXED][NEW_MIXED])
{
    struct fake_stream s[N_MIXED];
    struct fake f;
    mixed_streams(s, out);
    launch(&f, world, tiny_model(), coll, LEASE_MS);
    fake_generate(&f, s, N_MIXED, chunk);
    shut_down(&f);
}

static void check_same(struct result_token a[N_MIXED][NEW_MIXED],
                       struct result_token b[N_MIXED][NEW_MIXED])
{
    for (int i = 0; i < N_MIXED; i++)
        for (int k = 0; k < NEW_MIXED - i; k++) {
            cr_assert_eq(a[i][k].token, b[i][k].token, "stream %d, token %d", i, k);
            cr_assert_eq(a[i][k].logprob, b[i][k].logprob, "stream %d, logprob %d", i, k);
            cr_assert_eq(a[i][k].n_top, b[i][k].n_top);
            cr_assert_arr_eq(a[i][k].top, b[i][k].top, a[i][k].n_top * sizeof a[i][k].top[0]);
        }
}

Test(same_bytes, one_two_and_four_ranks)
{
    run_mixed(1, "auto", 8, mixed[0]);
    run_mixed(2, "shm", 3, mixed[1]);
    run_mixed(4, "mpi", 1, mixed[2]);
    check_same(mixed[0], mixed[1]);
    check_same(mixed[0], mixed[2]);
    /* the parameters did something: bias, minimum and penalties show */
    for (int k = 0; k < NEW_MIXED - 7; k++) {
        cr_assert_neq(mixed[0][7][k].token, 90);
        for (int i = 0; i < 4 && k < 20; i++)
            cr_assert_neq(mixed[0][7][k].token, mixed_stop[i]);
    }
}

Test(same_bytes, alone_and_in_a_batch)
{
    static struct result_token alone[NEW_MIXED];
    struct fake_stream s[N_MIXED];
    struct fake f;
    run_mixed(1, "auto", 8, mixed[0]);
    launch(&f, 1, tiny_model(), "auto", LEASE_MS);
    for (int i = 0; i < N_MIXED; i++) {
        mixed_streams(s, mixed[1]);
        s[i].out = alone;
        fake_generate(&f, &s[i], 1, 64);
        for (uint32_t k = 0; k < s[i].n_new; k++) {
            cr_assert_eq(alone[k].token, mixed[0][i][k].token, "stream %d, token %u", i, k);
            cr_assert_eq(alone[k].logprob, mixed[0][i][k].logprob);
        }
    }
    shut_down(&f);
}

/* ---- plans that cannot be ---- */

struct plan {
    struct worker_msg m;
    struct plan_seq seq;
    struct plan_open open;
    int32_t tokens[2], blocks[1];
};

static void good_plan(struct plan *p, const struct fake *f)
{
    *p = (struct plan){.m.type = WMSG_STEP_PLAN,
                       .seq = {.seq_id = 5, .n_tokens = 2, .n_blocks = 1, .want = WANT_LAST},
                       .open = {.seq_id = 5, .sp = sample_params_default(), .n_prompt = 2},
                       .tokens = {1, 3},
                       .blocks = {0}};
    p->m.u.plan = (struct step_plan){.step_id = 1,
                                     .epoch = f->epoch,
                                     .n_seqs = 1,
                                     .n_tokens = 2,
                                     .n_blocks = 1,
                                     .n_opens = 1,
                                     .seqs = &p->seq,
                                     .tokens = p->tokens,
                                     .blocks = p->blocks,
                                     .opens = &p->open};
}

static void check_fault(struct fake *f, enum status status, const char *text)
{
    struct worker_msg m;
    fake_await(f, WMSG_FAULT, &m);
    cr_assert_eq(m.u.fault.status, status, "%s: %s", status_name(m.u.fault.status),
                 m.u.fault.detail);
    cr_assert_eq(m.u.fault.epoch, f->epoch);
    cr_assert(strstr(m.u.fault.detail, text), "\"%s\" does not say \"%s\"", m.u.fault.detail, text);
    fake_check_exit(f, EXIT_FAULT);
    fake_all_gone(f);
    fake_close(f);
}

Test(fault, impossible_plan_on_one_rank)
{
    struct fake f;
    struct plan p;
    launch(&f, 1, tiny_model(), "auto", LEASE_MS);
    good_plan(&p, &f);
    p.tokens[1] = 104;
    fake_send(&f, &p.m);
    check_fault(&f, ST_PEER, "token id 104 is outside the vocabulary of 104");
}

Test(fault, impossible_plan_on_two_ranks)
{
    struct fake f;
    struct plan p;
    launch(&f, 2, tiny_model(), "auto", LEASE_MS);
    good_plan(&p, &f);
    p.m.u.plan.n_opens = 0;
    fake_send(&f, &p.m);
    check_fault(&f, ST_PEER, "sequence 5 is not known");
}

Test(fault, bytes_that_are_no_message)
{
    struct fake f;
    launch(&f, 2, tiny_model(), "auto", LEASE_MS);
    fake_send_bytes(&f, "nonsense", 8);
    check_fault(&f, ST_FORMAT, "not an Ingot frame");
}

Test(fault, a_message_for_the_other_side)
{
    struct fake f;
    struct worker_msg m = {.type = WMSG_GOODBYE};
    launch(&f, 1, tiny_model(), "auto", LEASE_MS);
    fake_send(&f, &m);
    check_fault(&f, ST_PEER, "not for workers");
}

/* ---- epochs ---- */

Test(epoch, a_stale_plan_is_dropped)
{
    struct fake f;
    struct plan p;
    struct worker_msg m;
    launch(&f, 2, tiny_model(), "auto", LEASE_MS);
    good_plan(&p, &f);
    p.m.u.plan.epoch = f.epoch - 1;
    p.tokens[0] = 9999; /* would be a fault if it were looked at */
    fake_send(&f, &p.m);
    good_plan(&p, &f);
    p.m.u.plan.step_id = 2;
    fake_send(&f, &p.m);
    fake_await(&f, WMSG_STEP_RESULT, &m);
    cr_assert_eq(m.u.result.step_id, 2);
    cr_assert_eq(m.u.result.n, 1);
    shut_down(&f);
}

Test(epoch, a_reset_forgets_the_sequences)
{
    struct fake f;
    struct plan p;
    struct worker_msg m, reset = {.type = WMSG_RESET};
    int32_t first;
    launch(&f, 2, tiny_model(), "auto", LEASE_MS);
    good_plan(&p, &f);
    p.open.sp.temperature = 0.0f;
    fake_send(&f, &p.m);
    fake_await(&f, WMSG_STEP_RESULT, &m);
    first = m.u.result.tokens[0].token;
    f.epoch = reset.u.beat.epoch = 99;
    fake_send(&f, &reset);
    good_plan(&p, &f); /* the same sequence opens again: it would be a fault without the reset */
    p.open.sp.temperature = 0.0f;
    fake_send(&f, &p.m);
    fake_await(&f, WMSG_STEP_RESULT, &m);
    cr_assert_eq(m.u.result.epoch, 99);
    cr_assert_eq(m.u.result.tokens[0].token, first);
    fake_heartbeats(&f, 2); /* they carry the new epoch */
    shut_down(&f);
}

/* ---- ends ---- */

Test(ends, heartbeats_keep_an_idle_group)
{
    struct fake f;
    launch(&f, 2, tiny_model(), "auto", 1000);
    fake_heartbeats(&f, 25); /* longer than two leases */
    shut_down(&f);
}

static void check_orphan(int world)
{
    struct fake f;
    launch(&f, world, tiny_model(), "auto", 500);
    /* from here on the coordinator is silent */
    fake_check_exit(&f, EXIT_ORPHAN);
    cr_assert(fake_logged(&f, "the coordinator has been silent for"));
    fake_all_gone(&f);
    fake_close(&f);
}

Test(ends, orphan_of_one_rank)
{
    check_orphan(1);
}

Test(ends, orphans_of_two_ranks)
{
    check_orphan(2);
}

Test(ends, no_coordinator_at_all)
{
    struct fake f;
    fake_open(&f);
    fake_launch(&f, 1, tiny_model(), (const char *const[]){"--lease-ms", "300", NULL});
    fake_check_exit(&f, EXIT_ORPHAN);
    fake_close(&f);
}

Test(ends, refused)
{
    struct fake f;
    struct worker_msg m, no = {.type = WMSG_REFUSED, .u.refused = "another model"};
    fake_open(&f);
    fake_launch(&f, 2, tiny_model(), small);
    fake_await(&f, WMSG_HELLO, &m);
    fake_send(&f, &no);
    fake_check_exit(&f, EXIT_REFUSED);
    cr_assert(fake_logged(&f, "the coordinator refuses this group: another model"));
    fake_all_gone(&f);
    fake_close(&f);
}

Test(ends, fenced)
{
    struct fake f;
    struct worker_msg m = {.type = WMSG_SHUTDOWN};
    launch(&f, 2, tiny_model(), "auto", LEASE_MS);
    m.u.beat.epoch = f.epoch - 1;
    fake_send(&f, &m);
    fake_check_exit(&f, EXIT_REFUSED);
    fake_all_gone(&f);
    fake_close(&f);
}

static void check_sigterm(int world)
{
    struct fake f;
    struct worker_msg m;
    launch(&f, world, tiny_model(), "auto", LEASE_MS);
    fake_heartbeats(&f, 1);
    cr_assert_eq(kill((pid_t)f.hello.pid, SIGTERM), 0);
    fake_await(&f, WMSG_GOODBYE, &m);
    cr_assert_eq(m.u.beat.epoch, f.epoch);
    fake_check_exit(&f, EXIT_AS_ASKED);
    fake_all_gone(&f);
    fake_close(&f);
}

Test(ends, sigterm_on_one_rank)
{
    check_sigterm(1);
}

Test(ends, sigterm_on_two_ranks)
{
    check_sigterm(2);
}

/* Names of this group's shared memory that are there now. */
static int segments(const struct fake *f)
{
    char bell[64], data[64];
    int n = 0;
    DIR *dir = opendir("/dev/shm");
    snprintf(bell, sizeof bell, "ingot-bell-%llu-", (unsigned long long)f->hello.pid);
    snprintf(data, sizeof data, "ingot-%llx", (unsigned long long)f->hello.launch);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strncmp(e->d_name, bell, strlen(bell)) == 0 || strcmp(e->d_name, data) == 0;
    if (dir)
        closedir(dir);
    return n;
}

/* SIGKILL of one rank between steps or in the middle of them: nothing is left. */
static void check_kill(int victim, bool busy)
{
    struct fake f;
    struct plan p;
    struct worker_msg m;
    pid_t pids[16];
    bool killed = false;
    launch(&f, 2, tiny_model(), "shm", LEASE_MS);
    int n = fake_ranks(&f, pids, 16);
    if (n == 0)
        cr_skip_test("no /proc on this system");
    cr_assert_eq(n, 2);
    good_plan(&p, &f);
    fake_send(&f, &p.m);
    fake_await(&f, WMSG_STEP_RESULT, &m);
    p.m.u.plan.n_opens = p.m.u.plan.n_blocks = p.seq.n_blocks = 0;
    p.m.u.plan.n_tokens = p.seq.n_tokens = 1;
    for (uint32_t i = 0; busy && i < 6; i++) { /* queued: the victim dies somewhere in them */
        p.seq.pos = 2 + i;
        p.m.u.plan.step_id = 2 + i;
        fake_send(&f, &p.m);
    }
    for (int i = 0; i < n; i++)
        if (fake_rank_of(pids[i]) == victim)
            killed = kill(pids[i], SIGKILL) == 0;
    cr_assert(killed);
    fake_check_killed(&f);
    fake_all_gone(&f);
    cr_assert_eq(segments(&f), 0);
    fake_close(&f);
}

Test(ends, sigkill_of_rank_1_when_idle)
{
    check_kill(1, false);
}

Test(ends, sigkill_of_rank_1_when_busy)
{
    check_kill(1, true);
}

Test(ends, sigkill_of_rank_0)
{
    check_kill(0, true);
}

/* A stopped rank does not hold up the others for ever: the collective's deadline names it. */
Test(ends, sigstop_of_rank_1)
{
    struct fake f;
    struct plan p;
    struct worker_msg m;
    pid_t pids[16];
    fake_open(&f);
    fake_launch(&f, 2, tiny_model(),
                (const char *const[]){"--peer-ms", "1000", "--coll", "shm", NULL});
    fake_join(&f, BEAT_MS, LEASE_MS);
    int n = fake_ranks(&f, pids, 16);
    if (n == 0)
        cr_skip_test("no /proc on this system");
    for (int i = 0; i < n; i++)
        if (fake_rank_of(pids[i]) == 1)
            kill(pids[i], SIGSTOP);
    good_plan(&p, &f);
    fake_send(&f, &p.m);
    fake_await(&f, WMSG_FAULT, &m);
    cr_assert(strstr(m.u.fault.detail, "rank 1"), "%s", m.u.fault.detail);
    fake_check_killed(&f);
    fake_all_gone(&f);
    fake_close(&f);
}

/* ---- starts that are refused ---- */

static void check_start(const char *model, int code, const char *text, const char *const *args)
{
    struct fake f;
    fake_open(&f);
    fake_launch(&f, 1, model, args);
    fake_check_exit(&f, code);
    cr_assert(fake_logged(&f, text), "the log does not say \"%s\"", text);
    fake_close(&f);
}

Test(start, wrong_options_and_models)
{
    static const struct {
        int code;
        const char *text, *args[5];
    } cases[] = {
        {EXIT_USAGE, "did you mean --kv-blocks?", {"--kv-block", "3", NULL}},
        {EXIT_USAGE, "say the same thing", {"--kv-blocks", "3", "--kv-memory", "1M", NULL}},
        {EXIT_MODEL, "this model was made for 128 tokens", {"--max-ctx", "129", NULL}},
        {EXIT_MODEL, "one block of 8 tokens needs", {"--kv-memory", "100", NULL}},
        {EXIT_MODEL, "does not fit into", {"--kv-blocks", "90000000", NULL}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_start(tiny_model(), cases[i].code, cases[i].text, cases[i].args);
    check_start("/nonexistent", EXIT_MODEL, "/nonexistent", NULL);
}

Test(start, ranks_that_disagree)
{
    struct fake f;
    fake_open(&f);
    fake_launch_mixed(&f, tiny_model(), (const char *const[]){"--max-seqs", "8", NULL},
                      (const char *const[]){"--max-seqs", "9", NULL});
    fake_check_exit(&f, EXIT_MODEL);
    cr_assert(fake_logged(&f, "rank 1 has --max-seqs 9, rank 0 has 8"));
    fake_all_gone(&f);
    fake_close(&f);
}

Test(start, all_ranks_take_the_least_cache)
{
    struct fake f;
    fake_open(&f);
    fake_launch_mixed(&f, tiny_model(), (const char *const[]){"--kv-blocks", "70", NULL},
                      (const char *const[]){"--kv-blocks", "50", NULL});
    fake_join(&f, BEAT_MS, LEASE_MS);
    cr_assert_eq(f.hello.n_blocks, 50);
    shut_down(&f);
}
