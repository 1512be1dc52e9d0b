/* The worker program refuses what cannot be and ends in every way it should, driven by a
 * coordinator of the test's own. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/fake.h"
#include "worker/options.h"

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
    fake_start(&f, 1, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    good_plan(&p, &f);
    p.tokens[1] = 104;
    fake_send(&f, &p.m);
    check_fault(&f, ST_PEER, "token id 104 is outside the vocabulary of 104");
}

Test(fault, impossible_plan_on_two_ranks)
{
    struct fake f;
    struct plan p;
    fake_start(&f, 2, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    good_plan(&p, &f);
    p.m.u.plan.n_opens = 0;
    fake_send(&f, &p.m);
    check_fault(&f, ST_PEER, "sequence 5 is not known");
}

Test(fault, bytes_that_are_no_message)
{
    struct fake f;
    fake_start(&f, 2, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    fake_send_bytes(&f, "nonsense", 8);
    check_fault(&f, ST_FORMAT, "not an Ingot frame");
}

Test(fault, a_message_for_the_other_side)
{
    struct fake f;
    struct worker_msg m = {.type = WMSG_GOODBYE};
    fake_start(&f, 1, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    fake_send(&f, &m);
    check_fault(&f, ST_PEER, "not for workers");
}

/* ---- a launcher's watch ---- */

Test(watch, waits_until_the_group_is_given_up)
{
    for (int known = 0; known < 2; known++) {
        struct fake f;
        struct worker_msg m,
            end = known ? (struct worker_msg){.type = WMSG_REFUSED, .u.refused = "no answer"}
                        : (struct worker_msg){.type = WMSG_SHUTDOWN};
        const char *const args[] = {"--watch-epoch", "77", NULL};
        fake_open(&f);
        fake_launch(&f, 1, "/nonexistent", args);
        for (int i = 0; i < 2; i++) { /* again, in case that the connection was cut */
            fake_await(&f, WMSG_WATCH, &m);
            cr_assert_eq(m.u.beat.epoch, 77);
        }
        fake_send(&f, &end);
        fake_check_exit(&f, known ? EXIT_REFUSED : EXIT_ORPHAN);
        cr_assert_eq(fake_logged(&f, "ingot-worker epoch 77 is given up: no answer\n"), known);
        fake_close(&f);
    }
}

/* ---- epochs ---- */

Test(epoch, a_stale_plan_is_dropped)
{
    struct fake f;
    struct plan p;
    struct worker_msg m;
    fake_start(&f, 2, fake_tiny_model(), "auto", FAKE_LEASE_MS);
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
    fake_shut_down(&f);
}

Test(epoch, a_reset_forgets_the_sequences)
{
    struct fake f;
    struct plan p;
    struct worker_msg m, reset = {.type = WMSG_RESET};
    int32_t first;
    fake_start(&f, 2, fake_tiny_model(), "auto", FAKE_LEASE_MS);
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
    fake_shut_down(&f);
}

/* ---- ends ---- */

Test(ends, heartbeats_keep_an_idle_group)
{
    struct fake f;
    fake_start(&f, 2, fake_tiny_model(), "auto", 2000);
    fake_heartbeats(&f, 45); /* longer than two leases */
    fake_shut_down(&f);
}

static void check_orphan(int world)
{
    struct fake f;
    fake_start(&f, world, fake_tiny_model(), "auto", 500);
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
    fake_launch(&f, 1, fake_tiny_model(), (const char *const[]){"--lease-ms", "300", NULL});
    fake_check_exit(&f, EXIT_ORPHAN);
    fake_close(&f);
}

Test(ends, refused)
{
    struct fake f;
    struct worker_msg m, no = {.type = WMSG_REFUSED, .u.refused = "another model"};
    fake_open(&f);
    fake_launch(&f, 2, fake_tiny_model(), fake_small_args);
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
    fake_start(&f, 2, fake_tiny_model(), "auto", FAKE_LEASE_MS);
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
    fake_start(&f, world, fake_tiny_model(), "auto", FAKE_LEASE_MS);
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
    char said[64];
    bool killed = false;
    fake_start(&f, 2, fake_tiny_model(), "shm", FAKE_LEASE_MS);
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
    if (victim != 0 &&
        !busy) { /* rank 0 tells the coordinator; it does not wait for its launcher */
        fake_await(&f, WMSG_FAULT, &m);
        cr_assert_eq(m.u.fault.rank, victim);
        cr_assert_eq(m.u.fault.epoch, f.epoch);
        cr_assert(strstr(m.u.fault.detail, "has ended"), "%s", m.u.fault.detail);
    }
    fake_check_killed(&f);
    fake_all_gone(&f);
    snprintf(said, sizeof said, "the process of rank %d (pid ", victim);
    cr_assert(fake_logged(&f, said));
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
    fake_launch(&f, 2, fake_tiny_model(),
                (const char *const[]){"--peer-ms", "4000", "--coll", "shm", NULL});
    fake_join(&f, FAKE_BEAT_MS, FAKE_LEASE_MS);
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
        {EXIT_USAGE,
         "needs --connect with one endpoint",
         {"--watch-epoch", "3", "--connect", "ipc://a,ipc://b", NULL}},
        {EXIT_USAGE, "say the same thing", {"--kv-blocks", "3", "--kv-memory", "1M", NULL}},
        {EXIT_MODEL, "this model was made for 128 tokens", {"--max-ctx", "129", NULL}},
        {EXIT_MODEL, "one block of 8 tokens needs", {"--kv-memory", "100", NULL}},
        {EXIT_MODEL, "no room on CPU", {"--kv-blocks", "90000000", NULL}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_start(fake_tiny_model(), cases[i].code, cases[i].text, cases[i].args);
    check_start("/nonexistent", EXIT_MODEL, "/nonexistent", NULL);
}

Test(start, ranks_that_disagree)
{
    struct fake f;
    fake_open(&f);
    fake_launch_mixed(&f, fake_tiny_model(), (const char *const[]){"--max-seqs", "8", NULL},
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
    fake_launch_mixed(&f, fake_tiny_model(), (const char *const[]){"--kv-blocks", "70", NULL},
                      (const char *const[]){"--kv-blocks", "50", NULL});
    fake_join(&f, FAKE_BEAT_MS, FAKE_LEASE_MS);
    cr_assert_eq(f.hello.n_blocks, 50);
    fake_shut_down(&f);
}
