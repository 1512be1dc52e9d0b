/* The CPU backend's thread pool: every part and item runs exactly once, results are visible,
 * sleeping threads wake. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/pool.h"

enum { MAX_PARTS = 64 };

struct count {
    long plain[MAX_PARTS]; /* written by one part each, read by the caller after pool_run */
    atomic_int running;
    int n_parts;
};

static void add_one(void *ctx, int part, int n_parts)
{
    struct count *c = ctx;
    c->plain[part] += 1;
    c->n_parts = part == 0 ? n_parts : c->n_parts;
}

static void run_many(int n_parts, int n_threads, long rounds)
{
    struct pool *p = NULL;
    struct count c = {0};
    cr_assert_eq(pool_create(&p, n_parts, n_threads, false), ST_OK);
    cr_assert_eq(pool_parts(p), n_parts);
    cr_assert_eq(pool_threads(p), n_threads < n_parts ? n_threads : n_parts);
    for (long i = 1; i <= rounds; i++) {
        pool_run(p, add_one, &c);
        for (int part = 0; part < n_parts; part++)
            if (c.plain[part] != i)
                cr_assert_fail("part %d of %d ran %ld times in %ld rounds", part, n_parts,
                               c.plain[part], i);
    }
    cr_assert_eq(c.n_parts, n_parts);
    pool_destroy(p);
}

Test(pool, every_part_runs_once)
{
    run_many(1, 1, 1000);
    run_many(2, 2, 2000);
    run_many(3, 2, 2000);
    run_many(7, 3, 1000);
    run_many(40, 4, 300);
    run_many(8, 8, 300); /* more threads than cores from here on, on small machines */
    run_many(21, 21, 100);
    run_many(MAX_PARTS, MAX_PARTS, 50);
    run_many(2, 9, 300); /* no more threads than parts */
}

/* All parts wait for each other: they really run at the same time. */
static void meet(void *ctx, int part, int n_parts)
{
    struct count *c = ctx;
    (void)part;
    atomic_fetch_add(&c->running, 1);
    while (atomic_load(&c->running) < n_parts)
        sched_yield();
}

Test(pool, parts_run_at_the_same_time)
{
    struct pool *p = NULL;
    cr_assert_eq(pool_create(&p, 3, 3, false), ST_OK);
    for (int i = 0; i < 100; i++) {
        struct count c = {0};
        pool_run(p, meet, &c);
        cr_assert_eq(atomic_load(&c.running), 3);
    }
    pool_destroy(p);
}

/* Bound threads do the same work. */
Test(pool, bound_threads)
{
    struct pool *p = NULL;
    struct count c = {0};
    cr_assert_eq(pool_create(&p, 5, 5, true), ST_OK);
    for (int i = 1; i <= 100; i++) {
        pool_run(p, add_one, &c);
        for (int part = 0; part < 5; part++)
            cr_assert_eq(c.plain[part], i);
    }
    pool_destroy(p);
}

enum { MAX_ITEMS = 1000 };

struct item_count {
    long ran[MAX_ITEMS]; /* written by one thread each, read after the job */
    long n;
    int n_threads;
    atomic_long done;
    bool first_waits;
};

static void count_item(void *ctx, long item, int part)
{
    struct item_count *c = ctx;
    cr_assert(item >= 0 && item < c->n && part >= 0 && part < c->n_threads);
    while (item == 0 && c->first_waits && atomic_load(&c->done) < c->n - c->n / c->n_threads / 2)
        sched_yield();
    c->ran[item] += 1;
    atomic_fetch_add(&c->done, 1);
}

static void run_items(int n_parts, int n_threads, long n, long rounds, bool first_waits)
{
    struct pool *p = NULL;
    cr_assert_eq(pool_create(&p, n_parts, n_threads, false), ST_OK);
    struct item_count c = {.n = n, .n_threads = pool_threads(p), .first_waits = first_waits};
    for (long i = 1; i <= rounds; i++) {
        atomic_store(&c.done, 0);
        pool_run_items(p, n, count_item, &c);
        for (long item = 0; item < n; item++)
            if (c.ran[item] != i)
                cr_assert_fail("item %ld of %ld, %d threads, ran %ld times in %ld rounds", item, n,
                               n_threads, c.ran[item], i);
    }
    pool_destroy(p);
}

/* More rounds than there are tags of a job. */
Test(pool, every_item_runs_once)
{
    run_items(1, 1, 10, 300, false);
    run_items(2, 2, 0, 300, false);
    run_items(2, 2, 1, 600, false);
    run_items(2, 2, 997, 600, false);
    run_items(3, 3, 2, 600, false);
    run_items(7, 3, 100, 300, false);
    run_items(8, 8, 5, 300, false); /* most threads have no share */
    run_items(21, 21, MAX_ITEMS, 30, false);
}

/* The first thread is held in its first item until others have done half of its share. */
Test(pool, items_of_a_slow_thread_are_taken)
{
    run_items(2, 2, MAX_ITEMS, 20, true);
    run_items(3, 3, 100, 20, true);
    run_items(9, 9, 100, 5, true);
}

static double cpu_seconds(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* How many threads of this process, the calling one aside, are not asleep; -1: it cannot be told. */
static int n_awake(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    if (!tasks)
        return -1;
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], text[512] = "";
        int tid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        FILE *f = tid == 0 || tid == getpid() ? NULL : fopen(path, "r");
        if (!f)
            continue;
        const char *name_end = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        n += !name_end || name_end[2] != 'S';
        fclose(f);
    }
    closedir(tasks);
    return n;
}

/* Between jobs the threads fall asleep (one that spins never does, so that this waits in vain), and
 * they take part in the next one. */
Test(pool, idle_threads_sleep_and_wake)
{
    enum { JOBS = 50, PATIENCE = 100000 };
    struct pool *p = NULL;
    struct count c = {0};
    if (n_awake() < 0)
        cr_skip_test("no /proc on this system");
    cr_assert_eq(pool_create(&p, 4, 4, false), ST_OK);
    double before = cpu_seconds();
    for (int i = 1; i <= JOBS; i++) {
        int looks = 0;
        pool_run(p, add_one, &c);
        cr_assert_eq(c.plain[3], i);
        while (n_awake() > 0) {
            cr_assert(looks++ < PATIENCE, "an idle thread does not sleep");
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    fprintf(stderr, "%d jobs with 4 threads asleep between them: %.3f s of processor time\n",
            (int)JOBS, cpu_seconds() - before);
    pool_destroy(p);
}

Test(pool, destroy_of_nothing_and_of_an_idle_pool)
{
    pool_destroy(NULL);
    for (int i = 0; i < 200; i++) {
        struct pool *p = NULL;
        cr_assert_eq(pool_create(&p, 3, 3, false), ST_OK);
        pool_destroy(p);
    }
}

Test(pool, shares_cover_everything)
{
    for (long n = 0; n < 50; n++)
        for (int parts = 1; parts < 9; parts++) {
            long at = 0, from, to;
            for (int i = 0; i < parts; i++, at = to) {
                pool_share(n, i, parts, &from, &to);
                cr_assert_eq(from, at);
            }
            cr_assert_eq(at, n);
        }
}
