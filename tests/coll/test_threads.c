/* Shared memory between threads of one process: the same code as between processes, where ThreadSanitizer
 * sees it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/conformance.h"
#include "coll/host_backend.h"
#include "collectives/shm.h"

enum { MAX_RANKS = 8, LONG_MS = 240000, SHORT_MS = 4000 };

struct rank {
    struct coll_config cfg;
    void *area;
    int (*run)(struct coll *c, struct backend *be);
    int failures;
    pthread_t thread;
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct coll *c;
    if (shm_join(&c, &r->cfg, r->area) != ST_OK) {
        fprintf(stderr, "rank %d: %s\n", r->cfg.rank, status_detail());
        r->failures = 100;
        return NULL;
    }
    r->failures = r->run(c, r->cfg.be);
    c->ops->close(c);
    return NULL;
}

static void run_all(int world, uint32_t deadline_ms, int (*run)(struct coll *, struct backend *))
{
    struct host_backend host;
    struct rank rank[MAX_RANKS] = {0};
    struct coll_config cfg = {.world = world, .deadline_ms = deadline_ms};
    size_t bytes;
    cfg.be = host_backend_init(&host, &host_backend_ops);
    cfg.max_bytes = conf_max_bytes(world);
    cr_assert_eq(shm_area_bytes(&cfg, &bytes), ST_OK);
    void *area = aligned_alloc(128, (bytes + 127) / 128 * 128);
    memset(area, 0, bytes);
    for (int i = 0; i < world; i++) {
        rank[i] = (struct rank){.cfg = cfg, .area = area, .run = run};
        rank[i].cfg.rank = i;
        cr_assert_eq(pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]), 0);
    }
    for (int i = 0; i < world; i++) {
        pthread_join(rank[i].thread, NULL);
        cr_expect_eq(rank[i].failures, 0, "rank %d of %d has failures", i, world);
    }
    free(area);
}

Test(threads, world_1) { run_all(1, LONG_MS, conf_results); }
Test(threads, world_2) { run_all(2, LONG_MS, conf_results); }
Test(threads, world_3) { run_all(3, LONG_MS, conf_results); }
Test(threads, world_4) { run_all(4, LONG_MS, conf_results); }
Test(threads, world_8) { run_all(8, LONG_MS, conf_results); }
Test(threads, abort_wakes_the_others) { run_all(4, LONG_MS, conf_abort); }

static int last_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, c->world - 1);
}

Test(threads, missing_rank_is_named) { run_all(3, SHORT_MS, last_missing); }

/* Ranks that call different collectives are told so. */
static int mixed_up(struct coll *c, struct backend *be)
{
    const struct backend_ops *ops = backend_ops_of(be);
    struct view x = {.rows = 1, .cols = 8, .stride = 8, .dtype = DT_F32};
    if (ops->alloc(be, 64, MEM_DEVICE, &x.buf) != ST_OK)
        return 1;
    enum status st = c->rank ? c->ops->all_reduce(c, x, REDUCE_SUM)
                             : c->ops->all_reduce(c, x, REDUCE_MAX);
    ops->free(be, x.buf);
    return st == ST_BUG && strstr(status_text(), "is in collective") ? 0 : 1;
}

Test(threads, different_calls_are_told) { run_all(2, LONG_MS, mixed_up); }
