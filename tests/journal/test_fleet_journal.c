/* The journal of several groups: each file, which begins in the middle of things, replays alone; a move, an opening or a
 * closing that cannot be is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "journal/runs.h"
#include "sched/fleet_driver.h"

static const struct sched_config cfg = {.max_seqs = 4,
                                        .max_step_tokens = 20,
                                        .max_waiting = 20,
                                        .max_waiting_tokens = 900,
                                        .max_ctx = 80,
                                        .n_blocks = 30,
                                        .block_len = 4,
                                        .prefix_cache = true,
                                        .max_inflight = 2,
                                        .target_itl_us = SCHED_AUTO,
                                        .max_step_us = SCHED_AUTO,
                                        .prefill_loss_pct = 4,
                                        .target_of_all = true,
                                        .turn_tokens = 4};

Test(fleet_journal, each_file_of_a_random_run_replays)
{
    static char names[MAX_FILES][64];
    struct journal_config jc = {.dir = dir, .name = "run", .max_file_bytes = 20000};
    struct dice dice = {.state = 3};
    struct fleet_report rep;
    uint64_t n_tokens = 0, n_opens = 0, n_moves = 0, n_mid_run = 0;
    make_dir();
    fleet_driver_run(&cfg, &dice, 20000, &jc, &rep);
    size_t n_files = file_names(names);
    for (size_t i = 0; i < n_files; i++) {
        struct file f = read_file(names[i]);
        struct replay_summary sum;
        cr_assert_eq(replay_all(f.data, f.n, &sum), ST_OK, "%s: %s", names[i], status_text());
        cr_assert(sum.ended_well && sum.n_torn == 0);
        n_tokens += sum.n_tokens;
        n_opens += sum.n_opens;
        n_moves += sum.n_moves;
        n_mid_run += sum.n_live > 0;
        if (i == 0) { /* its last byte but the end's is of some record's effects or moves */
            f.data[f.n - 40] ^= 1;
            cr_assert_eq(replay_all(f.data, f.n, &sum), ST_FORMAT, "%s", status_text());
        }
        free(f.data);
    }
    cr_assert_gt(n_files, 20u);
    cr_assert_gt(n_mid_run, 10u);
    cr_assert_eq(n_tokens, rep.n_tokens);
    cr_assert_eq(n_opens, rep.n_opened);
    cr_assert_eq(n_moves, rep.n_placed + rep.n_balanced);
    remove_dir();
}

/* What `say` records is refused with that status. */
static void refused(enum status want, const char *text, void (*say)(struct journal *j))
{
    struct journal_config jc = {.dir = dir, .name = "j", .max_file_bytes = 1 << 30};
    struct sched_config marked = cfg;
    struct replay_summary sum;
    struct fleet *f;
    struct journal *j;
    marked.queue_for = 1;
    make_dir();
    cr_assert_eq(fleet_create(&f, &cfg), ST_OK);
    cr_assert_eq(journal_open(&j, &jc), ST_OK);
    cr_assert_eq(journal_begin(j, &(struct journal_source){.fleet = f}, &marked, 0), ST_OK);
    say(j);
    journal_close(j);
    fleet_destroy(f);
    struct file file = read_file("j-00000001.journal");
    remove_dir();
    cr_assert_eq(replay_all(file.data, file.n, &sum), want, "%s", text);
    cr_assert(strstr(status_text(), text), "%s", status_text());
    free(file.data);
}

static void closes(struct journal *j)
{
    journal_close_group(j, 3, NULL, 0);
}

static void opens_the_queue(struct journal *j)
{
    journal_open_group(j, FLEET_QUEUE, 9, NULL, 0);
}

static void opens_twice(struct journal *j)
{
    journal_open_group(j, 2, 9, NULL, 0);
    journal_open_group(j, 2, 9, NULL, 0);
}

static void opens_the_65th(struct journal *j)
{
    journal_open_group(j, FLEET_SCHEDS, 9, NULL, 0);
}

static void moves_a_stranger(struct journal *j)
{
    struct fleet_move m = {.seq_id = 5, .from = 0, .to = 1};
    journal_open_group(j, 1, 9, NULL, 0);
    journal_moves(j, &m, 1);
}

static void moves_to_nowhere(struct journal *j)
{
    struct fleet_move m = {.seq_id = 5, .from = 0, .to = 9};
    journal_moves(j, &m, 1);
}

static void resets(struct journal *j)
{
    journal_reset(j, 5, NULL, 0);
}

static void commits_elsewhere(struct journal *j)
{
    struct step_result r = {.step_id = 1, .epoch = 1};
    journal_commit(j, 7, &r, NULL, 0);
}

Test(fleet_journal, what_cannot_be_is_refused)
{
    refused(ST_FORMAT, "group 3 cannot be closed", closes);
    refused(ST_FORMAT, "group 0 cannot be opened", opens_the_queue);
    refused(ST_FORMAT, "group 2 cannot be opened", opens_twice);
    refused(ST_FORMAT, "type", opens_the_65th);
    refused(ST_BUG, "sequence 5 is not there", moves_a_stranger);
    refused(ST_BUG, "there are no schedulers 0 and 9", moves_to_nowhere);
    refused(ST_FORMAT, "a reset of a fleet", resets);
    refused(ST_FORMAT, "there is no scheduler 7", commits_elsewhere);
}
