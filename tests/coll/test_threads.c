/* Shared memory between threads of one process: the same code as between processes, where
 * ThreadSanitizer sees it.  A plain program: Criterion's own memory collides with that of
 * ThreadSanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/conformance.h"
#include "coll/host_backend.h"
#include "collectives/shm.h"
#include "effort.h"

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

static int n_passed, n_failed;

static void run_all(const char *name, int world, uint32_t deadline_ms,
                    int (*run)(struct coll *, struct backend *))
{
    struct host_backend host;
    struct rank rank[MAX_RANKS] = {0};
    struct coll_config cfg = {.world = world, .deadline_ms = deadline_ms};
    size_t bytes = 0;
    int failures = 0;
    cfg.be = host_backend_init(&host, &host_backend_ops);
    cfg.max_bytes = conf_max_bytes(world);
    enum status st = shm_area_bytes(&cfg, &bytes);
    void *area = aligned_alloc(128, (bytes + 127) / 128 * 128);
    if (st != ST_OK || !area)
        abort();
    memset(area, 0, bytes);
    for (int i = 0; i < world; i++) {
        rank[i] = (struct rank){.cfg = cfg, .area = area, .run = run};
        rank[i].cfg.rank = i;
        if (pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]) != 0)
            abort();
    }
    for (int i = 0; i < world; i++) {
        pthread_join(rank[i].thread, NULL);
        failures += rank[i].failures;
    }
    free(area);
    printf("%s, %d ranks: %s\n", name, world, failures ? "FAILED" : "ok");
    n_passed += failures == 0;
    n_failed += failures != 0;
}

static int last_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, c->world - 1);
}

/* Ranks that call different collectives are told so. */
static int mixed_up(struct coll *c, struct backend *be)
{
    const struct backend_ops *ops = backend_ops_of(be);
    struct view x = {.rows = 1, .cols = 8, .stride = 8, .dtype = DT_F32};
    if (ops->alloc(be, 64, MEM_DEVICE, &x.buf) != ST_OK)
        return 1;
    enum status st = c->ops->all_reduce(c, x, c->rank ? REDUCE_SUM : REDUCE_MAX);
    ops->free(be, x.buf);
    return st == ST_BUG && strstr(status_text(), "is in collective") ? 0 : 1;
}

int main(void)
{
    static const int worlds[] = {2, 3, 4, 1, 8};
    long n = effort(ARRAY_LEN(worlds), 3);
    for (long i = 0; i < n; i++)
        run_all("results", worlds[i], LONG_MS, conf_results);
    run_all("abort wakes the others", 4, LONG_MS, conf_abort);
    run_all("a missing rank is named", 3, SHORT_MS, last_missing);
    run_all("different calls are told", 2, LONG_MS, mixed_up);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed ? 1 : 0;
}
