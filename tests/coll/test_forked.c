/* Shared memory between processes: results, and what happens when one does not come, dies or gives
 * up. */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/forked.h"
#include "collectives/segment.h"

static void run_all(int world, uint32_t deadline_ms, rank_case *run)
{
    struct job job;
    job_init(&job, world, deadline_ms);
    for (int r = 0; r < world; r++)
        job_start(&job, r, run);
    for (int r = 0; r < world; r++)
        cr_expect_eq(job_wait(&job, r), 0, "rank %d of %d has failures", r, world);
    cr_expect(!job_has_segment(&job), "the segment's name is left");
}

Test(forked, world_1)
{
    run_all(1, FORKED_LONG_MS, conf_results);
}
Test(forked, world_2)
{
    run_all(2, FORKED_LONG_MS, conf_results);
}
Test(forked, world_3)
{
    run_all(3, FORKED_LONG_MS, conf_results);
}
Test(forked, world_4)
{
    run_all(4, FORKED_LONG_MS, conf_results);
}
Test(forked, world_8)
{
    run_all(8, FORKED_LONG_MS, conf_results);
}

Test(forked, abort_wakes_the_others)
{
    run_all(2, FORKED_LONG_MS, conf_abort);
    run_all(4, FORKED_LONG_MS, conf_abort);
}

static int first_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, 0);
}

static int last_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, c->world - 1);
}

Test(forked, missing_rank_is_named)
{
    run_all(2, FORKED_SHORT_MS, first_missing);
    run_all(4, FORKED_SHORT_MS, last_missing);
}

/* All ranks add in a loop; the last tells through the pipe that it is under way, and is killed. */
static int under_way[2];

static int add_until_failure(struct coll *c, struct backend *be)
{
    const struct backend_ops *ops = backend_ops_of(be);
    char name[32], byte = 1;
    struct view x = {.rows = 100, .cols = 1000, .stride = 1000, .dtype = DT_F32};
    if (ops->alloc(be, 400000, MEM_DEVICE, &x.buf) != ST_OK)
        return 1;
    enum status st = ST_OK;
    for (int i = 0; st == ST_OK; i++) {
        st = c->ops->all_reduce(c, x, REDUCE_SUM);
        if (i == 20 && c->rank == c->world - 1 && write(under_way[1], &byte, 1) != 1)
            return 2;
    }
    ops->free(be, x.buf);
    snprintf(name, sizeof name, "rank %d ", c->world - 1);
    return st == ST_TIMEOUT && strstr(status_text(), name) ? 0 : 3;
}

static void kill_one_of(int world)
{
    struct job job;
    char byte;
    cr_assert_eq(pipe(under_way), 0);
    job_init(&job, world, FORKED_SHORT_MS);
    for (int r = 0; r < world; r++)
        job_start(&job, r, add_until_failure);
    cr_assert_eq(read(under_way[0], &byte, 1), 1);
    cr_expect(!job_has_segment(&job), "the name stays while the ranks run");
    kill(job.pid[world - 1], SIGKILL);
    cr_expect_eq(job_wait(&job, world - 1), -SIGKILL);
    for (int r = 0; r < world - 1; r++)
        cr_expect_eq(job_wait(&job, r), 0, "rank %d of %d does not name the dead", r, world);
    cr_expect(!job_has_segment(&job), "the segment's name is left");
    close(under_way[0]);
    close(under_way[1]);
}

Test(forked, killed_rank_is_named)
{
    kill_one_of(2);
    kill_one_of(4);
}

static int nothing(struct coll *c, struct backend *be)
{
    (void)c;
    (void)be;
    return 0;
}

static void await_segment(const struct job *job)
{
    while (!job_has_segment(job)) /* ends with the test's time limit */
        sched_yield();
}

Test(forked, name_is_gone_once_all_have_opened)
{
    struct job job;
    job_init(&job, 2, FORKED_LONG_MS);
    job_start(&job, 0, nothing);
    await_segment(&job);
    job_start(&job, 1, nothing);
    cr_expect_eq(job_wait(&job, 0), 0);
    cr_expect_eq(job_wait(&job, 1), 0);
    cr_expect(!job_has_segment(&job));
}

static void expect_named(const struct job *job, int rank, int missing)
{
    struct coll_config cfg = job_config(job, rank);
    struct coll *c;
    char name[32];
    snprintf(name, sizeof name, "rank %d ", missing);
    cr_expect_eq(coll_open(&c, "shm", &cfg), ST_TIMEOUT);
    cr_expect(strstr(status_text(), name), "'%s' does not name %s", status_text(), name);
    cr_expect(!job_has_segment(job), "the segment's name is left");
}

Test(forked, rank_that_never_opens_is_named)
{
    struct job job;
    job_init(&job, 2, 100); /* ms; there is no other process */
    expect_named(&job, 0, 1);
    expect_named(&job, 1, 0);
}

/* Rank 0 dies between making the name and removing it: the next to come removes it. */
Test(forked, killed_while_opening)
{
    struct job job;
    struct coll *c;
    struct coll_config cfg;
    job_init(&job, 3, FORKED_LONG_MS);
    job_start(&job, 0, nothing);
    await_segment(&job);
    kill(job.pid[0], SIGKILL);
    cr_expect_eq(job_wait(&job, 0), -SIGKILL);
    job.deadline_ms = 100;
    cfg = job_config(&job, 1);
    enum status st = coll_open(&c, "shm", &cfg);
    /* it may have died before it gave the segment its size, or before it joined, or after */
    cr_expect(st == ST_TIMEOUT || st == ST_PEER, "%s", status_name(st));
    cr_expect(!job_has_segment(&job), "the segment's name is left");
}

/* Rank 0 dies between making the name and removing it, and no other of its ranks comes. */
Test(forked, the_next_creator_removes_what_a_dead_one_left)
{
    struct job dead, alive;
    struct segment next;
    char name[64];
    job_init(&dead, 2, FORKED_LONG_MS);
    job_init(&alive, 2, FORKED_LONG_MS);
    alive.session = dead.session + 1;
    job_start(&dead, 0, nothing);
    job_start(&alive, 0, nothing);
    await_segment(&dead);
    await_segment(&alive);
    kill(dead.pid[0], SIGKILL);
    cr_expect_eq(job_wait(&dead, 0), -SIGKILL);
    cr_expect(job_has_segment(&dead), "nothing to remove");
    snprintf(name, sizeof name, "/ingot-%llx", (unsigned long long)dead.session + 2);
    cr_assert_eq(segment_create(&next, name, 1), ST_OK, "%s", status_text());
    segment_unlink(name);
    segment_unmap(&next);
#ifdef __linux__
    cr_expect(!job_has_segment(&dead), "the name that a dead process left is there");
#endif
    await_segment(&alive); /* a living process has its name, or makes it again */
    job_start(&alive, 1, nothing);
    cr_expect_eq(job_wait(&alive, 0), 0);
    cr_expect_eq(job_wait(&alive, 1), 0);
    snprintf(name, sizeof name, "/ingot-%llx", (unsigned long long)dead.session);
    segment_unlink(name);
}

Test(forked, session_used_twice_is_refused)
{
    struct job job;
    struct coll *c;
    char name[64];
    job_init(&job, 2, 100);
    struct coll_config cfg = job_config(&job, 0);
    snprintf(name, sizeof name, "/ingot-%llx", (unsigned long long)job.session);
    struct segment others;
    cr_assert_eq(segment_create(&others, name, 1), ST_OK);
    cr_expect_eq(coll_open(&c, "shm", &cfg), ST_BUSY);
    cr_expect(job_has_segment(&job), "another job's segment was taken away");
    segment_unlink(name);
    segment_unmap(&others);
}

static int other_size(struct coll *c, struct backend *be)
{
    (void)c;
    (void)be;
    return 50; /* must not open */
}

Test(forked, different_sizes_are_refused)
{
    struct job job;
    struct coll *c;
    job_init(&job, 2, FORKED_SHORT_MS);
    job_start(&job, 0, other_size);
    await_segment(&job);
    struct coll_config cfg = job_config(&job, 1);
    cfg.max_bytes = 64;
    enum status st = coll_open(&c, "shm", &cfg);
    cr_expect_eq(st, ST_PEER, "%s", status_name(st));
    cr_expect_eq(job_wait(&job, 0), 100, "rank 0 has opened");
    cr_expect(!job_has_segment(&job), "the segment's name is left");
}
