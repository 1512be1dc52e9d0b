/* The "nccl" collective opened as a worker does, over a control plane: NCCL beside the one-shot
 * kernels.  Ranks are threads, devices are emulated, the library is fake_nccl.c. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "coll/thread_control.h"
#include "collectives/nccl_coll.h"

enum { WORLD = 3, SMALL = 64, LARGE = 100 << 10 }; /* floats; LARGE: beyond what "ipc" takes */

struct fake_nccl_calls {
    int joined, sums, gathers, broadcasts, exchanges;
};

static struct fake_nccl_calls calls_now(void)
{
    struct fake_nccl_calls (*fn)(void) = NULL;
    void *lib = dlopen("libnccl.so.2", RTLD_NOW), *p = lib ? dlsym(lib, "fake_nccl_calls") : NULL;
    cr_assert_not_null(p);
    memcpy(&fn, &p, sizeof fn);
    return fn();
}

struct rank {
    struct coll_config cfg;
    bool any_order, planned;
    struct coll *coll;
    enum status st;
    char text[300];
    pthread_t thread;
};

static _Atomic int too_early; /* waits of "ipc" before every rank had joined NCCL and was warm */

static void look(void)
{
    struct fake_nccl_calls now = calls_now();
    if (now.joined < WORLD || now.broadcasts < WORLD)
        atomic_fetch_add(&too_early, 1);
}

/* The collective's memory alone, as a rank reserves it. */
static enum status reserve(struct rank *r)
{
    const struct mem_plan plan = {.part = {[PART_COLL] = nccl_coll_ops.device_bytes(&r->cfg)},
                                  .pinned = alloc_bytes(COLL_PINNED_BYTES)};
    backend_part(r->cfg.be, PART_COLL);
    return backend_ops_of(r->cfg.be)->reserve(r->cfg.be, &plan);
}

static void *open_rank(void *arg)
{
    struct rank *r = arg;
    thread_control_join(r->cfg.rank);
    r->st = backend_open(&r->cfg.be, "cuda", &(struct backend_config){.planned = r->planned});
    if (r->st == ST_OK && r->planned)
        r->st = reserve(r);
    if (r->st == ST_OK)
        r->st = nccl_coll_ops.open(&r->coll, &r->cfg);
    if (r->st != ST_OK)
        strncpy(r->text, status_text(), sizeof r->text - 1);
    return NULL;
}

static void open_all(struct rank *ranks, bool any_order, bool planned, uint64_t session)
{
    thread_control_start(WORLD, look);
    for (int i = 0; i < WORLD; i++) {
        ranks[i] = (struct rank){.planned = planned,
                                 .cfg = {.rank = i,
                                         .world = WORLD,
                                         .max_bytes = LARGE * sizeof(float),
                                         .deadline_ms = 240000,
                                         .session = session,
                                         .any_order = any_order,
                                         .one_host = true}};
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, open_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < WORLD; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < WORLD; i++)
        cr_assert_eq(ranks[i].st, ST_OK, "rank %d: %s", i, ranks[i].text);
}

static struct view floats(struct buf *b, int32_t rows, int32_t n)
{
    return (struct view){.buf = b, .rows = rows, .cols = n, .stride = n, .dtype = DT_F32};
}

/* One of each, of n floats a rank; the results of the sum and the gather. */
static void *use(void *arg)
{
    struct rank *r = arg;
    const struct backend_ops *ops = backend_ops_of(r->cfg.be);
    const struct coll_ops *op = r->coll->ops;
    static _Thread_local float x[WORLD * SMALL];
    struct buf *one, *all;
    thread_control_join(r->cfg.rank);
    r->st = ops->alloc(r->cfg.be, SMALL * sizeof *x, MEM_DEVICE, &one);
    if (r->st == ST_OK)
        r->st = ops->alloc(r->cfg.be, sizeof x, MEM_DEVICE, &all);
    for (int i = 0; i < SMALL; i++)
        x[i] = (float)(r->cfg.rank + i);
    if (r->st == ST_OK)
        r->st = ops->write(r->cfg.be, floats(one, 1, SMALL), x);
    if (r->st == ST_OK)
        r->st = op->all_gather(r->coll, floats(one, 1, SMALL), floats(all, WORLD, SMALL));
    if (r->st == ST_OK)
        r->st = op->all_reduce(r->coll, floats(one, 1, SMALL), REDUCE_SUM);
    if (r->st == ST_OK)
        r->st = op->broadcast(r->coll, floats(one, 1, SMALL), 1);
    if (r->st == ST_OK)
        r->st = ops->read(r->cfg.be, x, floats(one, 1, SMALL));
    for (int i = 0; i < SMALL && r->st == ST_OK; i++)
        if (x[i] != (float)(0 + 1 + 2 + WORLD * i))
            r->st = ST_BUG;
    if (r->st == ST_OK)
        r->st = ops->read(r->cfg.be, x, floats(all, WORLD, SMALL));
    for (int i = 0; i < WORLD * SMALL && r->st == ST_OK; i++)
        if (x[i] != (float)(i / SMALL + i % SMALL))
            r->st = ST_BUG;
    ops->free(r->cfg.be, one);
    ops->free(r->cfg.be, all);
    return NULL;
}

static void *close_rank(void *arg)
{
    struct rank *r = arg;
    r->coll->ops->close(r->coll);
    backend_ops_of(r->cfg.be)->close(r->cfg.be);
    return NULL;
}

/* Together: "ipc" waits until all have. */
static void close_all(struct rank *ranks)
{
    for (int i = 0; i < WORLD; i++)
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, close_rank, &ranks[i]), 0);
    for (int i = 0; i < WORLD; i++)
        pthread_join(ranks[i].thread, NULL);
}

/* What a step records must have been called before: NCCL connects at the first call of a kind. */
Test(nccl_open, nccl_is_warm_before_small_operands_leave_it)
{
    for (int any_order = 0; any_order < 2; any_order++) {
        struct rank ranks[WORLD];
        struct fake_nccl_calls a = calls_now();
        too_early = 0;
        open_all(ranks, any_order, false, 0x5e55100 + (uint64_t)any_order);
        struct fake_nccl_calls b = calls_now();
        cr_assert_eq(b.joined - a.joined, WORLD);
        cr_assert_eq(b.sums - a.sums, any_order ? WORLD : 0); /* else a sum is a gather */
        cr_assert_eq(b.gathers - a.gathers, any_order ? WORLD : 2 * WORLD);
        cr_assert_eq(b.broadcasts - a.broadcasts, WORLD);
        cr_assert_eq(b.exchanges - a.exchanges, any_order ? 0 : WORLD);
        cr_assert_eq(too_early, 0, "%d waits without a deadline before all had joined", too_early);
        close_all(ranks);
    }
}

Test(nccl_open, small_operands_take_the_one_shot_kernels)
{
    struct rank ranks[WORLD];
    open_all(ranks, false, false, 0x5e55200);
    struct fake_nccl_calls a = calls_now();
    for (int i = 0; i < WORLD; i++)
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, use, &ranks[i]), 0);
    for (int i = 0; i < WORLD; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < WORLD; i++)
        cr_assert_eq(ranks[i].st, ST_OK, "rank %d: %s", i, status_name(ranks[i].st));
    struct fake_nccl_calls b = calls_now();
    cr_assert_eq(memcmp(&a, &b, sizeof a), 0, "NCCL was called");
    close_all(ranks);
}

/* It is open and warm before weights and KV cache have any memory. */
Test(nccl_open, takes_what_was_reserved_for_it)
{
    struct rank ranks[WORLD];
    struct mem_plan used;
    open_all(ranks, false, true, 0x5e55300);
    for (int i = 0; i < WORLD; i++) {
        backend_ops_of(ranks[i].cfg.be)->used(ranks[i].cfg.be, &used);
        cr_assert_eq(used.part[PART_COLL], nccl_coll_ops.device_bytes(&ranks[i].cfg));
        cr_assert_eq(used.pinned, alloc_bytes(COLL_PINNED_BYTES));
    }
    close_all(ranks);
}
