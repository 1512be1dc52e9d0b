/* The files of a journal: their age and size, the folder, a full disk; what the next coordinator reads of them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/journal/journal.h"
#include "effort.h"
#include "journal/runs.h"
#include "sched/driver.h"

static uint64_t bytes_in(char (*names)[64], size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        struct file f = read_file(names[i]);
        sum += f.n;
        free(f.data);
    }
    return sum;
}

Test(journal_files, old_files_go)
{
    static char names[MAX_FILES][64];
    struct journal_config jc = {
        .dir = dir, .name = "few", .max_file_bytes = 8000, .bounds = {.max_bytes = 60000}};
    struct driver_options opts = {.journal = &jc};
    struct driver_report rep;
    struct dice dice = {.state = 3};
    make_dir();
    for (int run = 0; run < 2; run++) {
        driver_run(&small, &dice, 3000, &opts, &rep);
        cr_assert_gt(rep.journal.n_files, 5u);
        size_t n = file_names(names);
        cr_assert_geq(n, 2u);
        cr_assert_leq(bytes_in(names, n), 60000u);
    }
    cr_assert(strcmp(names[0], "few-00000010.journal") > 0, "numbers begin anew: %s", names[0]);
    remove_dir();
}

/* Of files that are too old all but two go, which the next server may need; a new one begins in time. */
Test(journal_files, aged_files_go)
{
    static char names[MAX_FILES][64];
    struct journal_config jc = {
        .dir = dir, .name = "age", .max_file_bytes = 1u << 30, .bounds = {.max_age_s = 3600}};
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    struct sched *s;
    struct journal *j;
    char path[160];
    make_dir();
    cr_assert_eq(sched_create(&s, &small), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK);
    cr_assert_eq(journal_begin(j, &(struct journal_source){.sched = s}, &small, 1), ST_OK);
    for (uint64_t i = 1; i < 8; i++) {
        size_t n = file_names(names);
        cr_assert_eq(n, i < 2 ? i : 2, "%zu files in round %llu", n, (unsigned long long)i);
        for (size_t k = 0; k < n; k++) {
            snprintf(path, sizeof path, "%s/%s", dir, names[k]);
            cr_assert_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
        }
        cr_assert(
            journal_flush(j, &(struct journal_source){.sched = s}, i * 1000u * 1000u * 1000u));
    }
    journal_close(j);
    sched_destroy(s);
    remove_dir();
}

Test(journal_files, folder_is_private)
{
    struct journal_config jc = {.dir = dir, .name = "a"};
    static const unsigned modes[] = {0755, 0710, 0702, 0777};
    struct journal *j;
    make_dir();
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        cr_assert_eq(chmod(dir, modes[i]), 0);
        cr_assert_eq(journal_open(&j, &jc), ST_RANGE, "mode %o", modes[i]);
        cr_assert(strstr(status_text(), "chmod 700"), "%s", status_text());
    }
    cr_assert_eq(chmod(dir, 0700), 0);
    cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
    journal_close(j);
    remove_dir();
}

/* A full disk (here: files of at most 50000 bytes): the run goes on, what was written replays, and after a while another
 * file begins with the whole state. */
Test(journal_files, full_disk)
{
    static char names[MAX_FILES][64];
    struct journal_config jc = {
        .dir = dir, .name = "full", .max_file_bytes = 1u << 30, .sync = JOURNAL_NONE};
    struct driver_options opts = {.journal = &jc};
    struct driver_report with, without;
    struct dice a = {.state = 5}, b = a;
    struct rlimit limit = {.rlim_cur = 50000, .rlim_max = RLIM_INFINITY};
    struct replay_summary sum;
    make_dir();
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    driver_run(&small, &a, 5000, &opts, &with);
    driver_run(&small, &b, 5000, NULL, &without);
    cr_assert_eq(with.digest, without.digest, "the journal changed the run");
    cr_assert_gt(with.journal.n_lost, 100u);
    size_t n = file_names(names);
    cr_assert_eq(n, with.journal.n_files);
    for (size_t i = 0; i < n; i++) {
        struct file f = read_file(names[i]);
        cr_assert_leq(f.n, 50000u);
        cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s: %s", names[i], status_text());
        cr_assert(i + 1 == n || !sum.ended_well);
        cr_assert_eq(sum.before, 0u, "what is missing between the files is not to be seen");
        free(f.data);
    }
    remove_dir();
}

static void flush(struct journal *j, const struct sched *s, uint64_t now_us, bool durable)
{
    cr_assert_eq(journal_flush(j, &(struct journal_source){.sched = s}, now_us), durable,
                 "at %llu us", (unsigned long long)now_us);
}

/* A request is durable, or refused; once the disk has room again, the next file has the requests that are open. */
Test(journal_files, admissions)
{
    static char names[MAX_FILES][64];
    static const uint8_t owner[SHA256_BYTES] = {1}, frame[3000] = "Generate";
    struct journal_admission a = {.key = 16,
                                  .id = "one",
                                  .owner = owner,
                                  .tenant = (const uint8_t *)"t",
                                  .n_tenant = 1,
                                  .n_samples = 1,
                                  .accepted = (const uint8_t *)"Accepted",
                                  .n_accepted = 8,
                                  .request = frame,
                                  .n_request = sizeof frame};
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    struct journal_stats stats;
    struct admission *one, *two, *three;
    struct recovered *r;
    struct sched *s;
    struct journal *j;
    make_dir();
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(sched_create(&s, &small), ST_OK);
    for (enum journal_sync sync = JOURNAL_BATCH; sync <= JOURNAL_NONE; sync++) {
        char name[2] = {(char)('a' + sync), 0};
        struct journal_config jc = {
            .dir = dir, .name = name, .max_file_bytes = 1u << 30, .sync = sync};
        cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
        flush(j, s, 1, true);
        cr_assert_eq(journal_begin(j, &(struct journal_source){.sched = s}, &small, 2), ST_OK);
        a.id = "one";
        cr_assert_eq(journal_admit(j, &a, &one), ST_OK);
        flush(j, s, 3, true);
        limit.rlim_cur = 5000;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        a.id = "two";
        cr_assert_eq(journal_admit(j, &a, &two), ST_OK);
        flush(j, s, 4, sync == JOURNAL_NONE);
        cr_assert_eq(journal_may_admit(j), sync == JOURNAL_NONE);
        journal_stats(j, &stats);
        cr_assert(!stats.on && strstr(stats.why, "large"), "%s", stats.why);
        journal_ended(j, two);
        limit.rlim_cur = RLIM_INFINITY;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        flush(j, s, 5, true);
        cr_assert_eq(journal_may_admit(j), sync == JOURNAL_NONE, "too early to try again");
        flush(j, s, 5 * 1000 * 1000, true);
        cr_assert(journal_may_admit(j));
        a.id = "three";
        a.key = 32;
        cr_assert_eq(journal_admit(j, &a, &three), ST_OK);
        flush(j, s, 6 * 1000 * 1000, true);
        journal_close(j);

        cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
        struct journal *second;
        cr_assert_eq(journal_open(&second, &jc), ST_RANGE, "two servers write into one folder");
        cr_assert(strstr(status_text(), "another server"), "%s", status_text());
        cr_assert_eq(journal_recover(j, &r), ST_OK);
        cr_assert_eq(r->n, 2u);
        cr_assert_str_eq(r->first->id, "one");
        cr_assert_str_eq(r->first->next->id, "three");
        cr_assert_arr_eq(r->first->a.request, frame, sizeof frame);
        cr_assert_arr_eq(r->first->a.owner, owner, sizeof owner);
        cr_assert_eq(r->first->samples[0].n, 0u);
        recovered_free(r);
        journal_close(j);
        a.key = 16;
    }
    sched_destroy(s);
    cr_assert_eq(file_names(names), 6u);
    remove_dir();
}

/* What a run that was cut off says of its requests is what its replay says of them, at any byte. */
Test(journal_files, recovered_tokens)
{
    struct journal_config jc = {.dir = dir, .name = "cut", .max_file_bytes = 1u << 30};
    static const uint8_t owner[SHA256_BYTES] = {9};
    struct sched *s;
    struct journal *j;
    struct recovered *r;
    struct admission *admission;
    struct sched_effect fx[64];
    struct step_plan plan;
    struct result_token token = {.seq_id = 17, .token = 5, .logprob = -0.5f};
    struct step_result result = {.tokens = &token, .n = 1};
    static int32_t tokens[20] = {1, 2, 3};
    struct sched_req q = {.seq_id = 17,
                          .group_id = 16,
                          .tokens = tokens,
                          .n_tokens = 3,
                          .n_prompt = 3,
                          .max_new = 9,
                          .sp = {.top_p = 1, .repetition_penalty = 1},
                          .owner = owner};
    struct journal_admission a = {.key = 16,
                                  .id = "r",
                                  .owner = owner,
                                  .tenant = owner,
                                  .n_tenant = 1,
                                  .n_samples = 2,
                                  .accepted = owner,
                                  .request = owner};
    size_t n_fx, ends[5] = {0};
    struct journal_stats stats;
    make_dir();
    cr_assert_eq(sched_create(&s, &small), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK);
    cr_assert_eq(journal_begin(j, &(struct journal_source){.sched = s}, &small, 1), ST_OK);
    cr_assert_eq(journal_admit(j, &a, &admission), ST_OK);
    cr_assert_eq(sched_submit(s, &q), ST_OK);
    journal_submit(j, &q);
    for (uint64_t i = 0; i < ARRAY_LEN(ends); i++) {
        flush(j, s, 10 * i, true);
        journal_stats(j, &stats);
        ends[i] = stats.n_bytes;
        cr_assert(sched_plan(s, 10 * i, &plan, fx, ARRAY_LEN(fx), &n_fx));
        journal_plan(j, 0, 10 * i, true, &plan, fx, n_fx);
        result.step_id = plan.step_id;
        result.epoch = plan.epoch;
        token.token = (int32_t)(5 + i);
        cr_assert_eq(sched_commit(s, &result, fx, ARRAY_LEN(fx), &n_fx), ST_OK);
        journal_commit(j, 0, &result, fx, n_fx);
    }
    flush(j, s, 100, true);
    struct file f = read_file("cut-00000001.journal");
    journal_close(j);
    sched_destroy(s);
    char path[160];
    snprintf(path, sizeof path, "%s/cut-00000001.journal", dir);
    for (size_t n = f.n; n >= ends[0] - 40; n--) {
        uint32_t n_tokens = 0;
        while (n_tokens + 1 < ARRAY_LEN(ends) && ends[n_tokens + 1] <= n)
            n_tokens++;
        n_tokens += n == f.n;
        cr_assert_eq(truncate(path, (off_t)n), 0);
        cr_assert_eq(journal_open(&j, &jc), ST_OK, "%s", status_text());
        cr_assert_eq(journal_recover(j, &r), ST_OK);
        cr_assert_eq(r->n, 1u, "of %zu bytes", n);
        cr_assert_eq(r->first->samples[0].n, 0u);
        cr_assert_eq(r->first->samples[1].n, n_tokens, "of %zu bytes: %u tokens, not %u", n,
                     r->first->samples[1].n, n_tokens);
        for (uint32_t i = 0; i < n_tokens; i++) {
            cr_assert_eq(r->first->samples[1].ids[i], (int32_t)(5 + i));
            cr_assert_eq(r->first->samples[1].logprobs[i], -0.5f);
        }
        recovered_free(r);
        journal_close(j);
    }
    free(f.data);
    remove_dir();
}
