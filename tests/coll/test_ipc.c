/* The "ipc" collective on emulated devices: ranks are threads that share their areas' addresses. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "coll/conformance.h"
#include "collectives/ipc_coll.h"
#include "effort.h"

enum { MAX_RANKS = 8 };

struct rank {
    struct coll_config cfg;
    struct ipc_group *group;
    int early; /* the rank that closes by itself, or -1 */
    struct coll *coll;
    int (*run)(struct coll *c, struct backend *be);
    int failures;
    enum status st;
    char text[300];
    pthread_t thread;
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct coll *c = NULL;
    r->st = backend_open(&r->cfg.be, "cuda", &(struct backend_config){0});
    if (r->st == ST_OK)
        r->st = ipc_join(&c, &r->cfg, r->group);
    if (r->st != ST_OK)
        snprintf(r->text, sizeof r->text, "%s", status_text());
    else
        r->failures = r->run(c, r->cfg.be);
    r->coll = c && r->cfg.rank != r->early ? c : NULL;
    return NULL;
}

static void *rank_close(void *arg)
{
    struct rank *r = arg;
    if (r->coll)
        r->coll->ops->close(r->coll);
    return NULL;
}

static void on_threads(struct rank *ranks, int world, void *(*fn)(void *))
{
    for (int i = 0; i < world; i++)
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, fn, &ranks[i]), 0);
}

static void wait_for(struct rank *ranks, int world, int but)
{
    for (int i = 0; i < world; i++)
        if (i != but)
            pthread_join(ranks[i].thread, NULL);
}

/* A close waits for those of the others. */
static void all_pass_but(int world, int early, uint32_t deadline_ms,
                         int (*run)(struct coll *, struct backend *))
{
    struct rank ranks[MAX_RANKS] = {0};
    struct ipc_group group = {0};
    for (int i = 0; i < world; i++) {
        ranks[i] = (struct rank){.run = run, .group = &group, .early = early};
        ranks[i].cfg = (struct coll_config){.rank = i,
                                            .world = world,
                                            .max_bytes = conf_max_bytes(world),
                                            .deadline_ms = deadline_ms,
                                            .one_host = true};
    }
    on_threads(ranks, world, rank_main);
    wait_for(ranks, world, early);
    pthread_t waiting = early >= 0 ? ranks[early].thread : 0;
    on_threads(ranks, world, rank_close);
    wait_for(ranks, world, -1);
    if (early >= 0)
        pthread_join(waiting, NULL);
    for (int i = 0; i < world; i++) {
        cr_expect_eq(ranks[i].st, ST_OK, "rank %d of %d: %s", i, world, ranks[i].text);
        cr_expect_eq(ranks[i].failures, 0, "rank %d of %d", i, world);
        if (ranks[i].cfg.be)
            backend_ops_of(ranks[i].cfg.be)->close(ranks[i].cfg.be);
    }
}

static void all_pass(int world, uint32_t deadline_ms, int (*run)(struct coll *, struct backend *))
{
    all_pass_but(world, -1, deadline_ms, run);
}

Test(ipc, gives_the_results_of_the_contract)
{
    static const int worlds[] = {2, 3, 1, 4, 8};
    long n = effort(ARRAY_LEN(worlds), 2);
    for (long i = 0; i < n; i++)
        all_pass(worlds[i], 240000, conf_results_emulated);
}

static int last_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, c->world - 1);
}

Test(ipc, names_a_missing_rank)
{
    all_pass(3, 5000, last_missing);
}

Test(ipc, an_abort_reaches_the_others)
{
    all_pass(4, 240000, conf_abort);
}

static int last_closed(struct coll *c, struct backend *be)
{
    return conf_closed(c, be, c->world - 1);
}

/* It waits for the others, which end at once. */
Test(ipc, a_rank_that_closes_early_is_named)
{
    all_pass_but(2, 1, 240000, last_closed);
    all_pass_but(4, 3, 240000, last_closed);
}

enum { REPLAYS = 20 };

/* A recorded all_reduce sums at each launch, and knows its epoch by itself. */
static int replayed(struct coll *c, struct backend *be)
{
    const struct backend_ops *ops = backend_ops_of(be);
    struct view x = {.rows = 1, .cols = 1000, .stride = 1000, .dtype = DT_F32};
    struct graph *g = NULL;
    float v[1000];
    int failures = ops->alloc(be, sizeof v, MEM_DEVICE, &x.buf) != ST_OK;
    failures += ops->graph_begin(be) != ST_OK;
    failures += c->ops->all_reduce(c, x, REDUCE_SUM) != ST_OK;
    failures += ops->graph_end(be, &g) != ST_OK;
    for (int k = 0; k < REPLAYS && failures == 0; k++) {
        float want = 0;
        for (int r = 0; r < c->world; r++)
            want += (float)(r + k);
        for (int i = 0; i < 1000; i++)
            v[i] = (float)(c->rank + k);
        failures += ops->write(be, x, v) != ST_OK || ops->graph_launch(be, g) != ST_OK ||
                    ops->read(be, v, x) != ST_OK;
        for (int i = 0; i < 1000 && failures == 0; i++)
            failures += v[i] != want;
    }
    if (g)
        ops->graph_free(be, g);
    ops->free(be, x.buf);
    return failures;
}

Test(ipc, in_a_graph)
{
    all_pass(4, 240000, replayed);
}
