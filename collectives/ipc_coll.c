#include "collectives/ipc_coll.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "collectives/check.h"
#include "collectives/control.h"
#include "common/clock.h"
#include "common/log.h"

enum { PIECE_BYTES = 1 << 20 };

struct ipc_coll {
    struct coll head;
    struct coll_config cfg;
    struct oneshot one;
    struct buf *area;   /* this rank's */
    struct buf *failed; /* pinned u32, see struct oneshot */
    bool joined;        /* all areas are known: other ranks' kernels use this one's */
    bool broken;
};

static size_t piece_of(const struct coll_config *cfg)
{
    size_t most = (cfg->max_bytes + 15) / 16 * 16;
    return most < PIECE_BYTES ? most + 16 : PIECE_BYTES;
}

size_t ipc_device_bytes(const struct coll_config *cfg)
{
    return alloc_bytes(oneshot_area_bytes(piece_of(cfg)));
}

static enum status ipc_poll(struct coll *head)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    uint32_t who = *(volatile uint32_t *)c->one.failed;
    if (c->broken)
        FAIL(ST_PEER, "ipc: this communicator has failed before");
    if (who == 0)
        return ST_OK;
    c->broken = true;
    if (who > 2 * ONESHOT_MAX_WORLD)
        FAIL(ST_PEER, "ipc: rank %u has closed", who - 2 * ONESHOT_MAX_WORLD - 1);
    if (who > ONESHOT_MAX_WORLD)
        FAIL(ST_PEER, "ipc: rank %u gave up", who - ONESHOT_MAX_WORLD - 1);
    FAIL(ST_TIMEOUT, "ipc: rank %u did not come within %u ms", who - 1, c->cfg.deadline_ms);
}

/* Asked while the host waits for the device: the kernels have the deadline themselves. */
static enum status watch(void *ctx, uint64_t waited_us)
{
    (void)waited_us;
    return ipc_poll(ctx);
}

/* Also after a failure: the others' kernels may still read this rank's area. */
static enum status leave(struct ipc_coll *c)
{
    TRY(oneshot_close(c->cfg.be, &c->one));
    return backend_ops_of(c->cfg.be)->sync(c->cfg.be);
}

static void ipc_close(struct coll *head)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    if (!c)
        return;
    const struct backend_ops *ops = backend_ops_of(c->cfg.be);
    cuda_watch(c->cfg.be, NULL, NULL);
    if (c->joined && leave(c) != ST_OK)
        log_failure(LOG_WARN, ST_DEVICE, "the other ranks may not know that this one has closed");
    oneshot_unmap_areas(&c->one);
    ops->free(c->cfg.be, c->area);
    ops->free(c->cfg.be, c->failed);
    free(c);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum status ipc_all_reduce(struct coll *head, struct view x, enum reduce_op op)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    size_t n, piece = c->one.piece_bytes / sizeof(float);
    TRY(coll_check_reduce(&c->cfg, x, op, &n));
    TRY(ipc_poll(head));
    float *p = cuda_device_ptr(x);
    for (size_t at = 0; at < n; at += piece)
        TRY(oneshot_reduce(c->cfg.be, &c->one, p + at, least(n - at, piece), (int)op));
    return ipc_poll(head);
}

static enum status ipc_all_gather(struct coll *head, struct view src, struct view dst)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    size_t bytes, piece = c->one.piece_bytes;
    TRY(coll_check_gather(&c->cfg, src, dst, &bytes));
    TRY(ipc_poll(head));
    const char *from = cuda_device_ptr(src);
    char *to = cuda_device_ptr(dst);
    for (size_t at = 0; at < bytes; at += piece)
        TRY(oneshot_gather(c->cfg.be, &c->one, from + at, to + at, least(bytes - at, piece),
                           bytes));
    return ipc_poll(head);
}

static enum status ipc_broadcast(struct coll *head, struct view x, int root)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    size_t bytes, piece = c->one.piece_bytes;
    TRY(coll_check_broadcast(&c->cfg, x, root, &bytes));
    TRY(ipc_poll(head));
    char *p = cuda_device_ptr(x);
    for (size_t at = 0; at < bytes; at += piece)
        TRY(oneshot_broadcast(c->cfg.be, &c->one, p + at, least(bytes - at, piece), root));
    return ipc_poll(head);
}

static void ipc_abort(struct coll *head)
{
    struct ipc_coll *c = (struct ipc_coll *)head;
    c->broken = true;
    *(volatile uint32_t *)c->one.failed = ONESHOT_MAX_WORLD + 1 + (uint32_t)c->head.rank;
    if (oneshot_give_up(c->cfg.be, &c->one) != ST_OK)
        log_failure(LOG_WARN, ST_DEVICE, "the other ranks wait until their deadline");
}

static enum status create(struct ipc_coll **out, const struct coll_config *cfg,
                          unsigned char *handle)
{
    *out = NULL;
    TRY(coll_check_config(cfg, "ipc"));
    if (!cuda_is(cfg->be))
        FAIL(ST_UNSUPPORTED, "ipc: for the CUDA backend only");
    if (cfg->world > ONESHOT_MAX_WORLD)
        FAIL(ST_UNSUPPORTED, "ipc: %d ranks, at most %d", cfg->world, (int)ONESHOT_MAX_WORLD);
    const struct backend_ops *ops = backend_ops_of(cfg->be);
    struct ipc_coll *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "ipc: out of memory");
    c->head = (struct coll){.ops = &ipc_coll_ops, .rank = cfg->rank, .world = cfg->world};
    c->cfg = *cfg;
    c->one = (struct oneshot){.rank = cfg->rank,
                              .world = cfg->world,
                              .piece_bytes = piece_of(cfg),
                              .limit_ns = cfg->deadline_ms * UINT64_C(1000000)};
    enum status st = cuda_use(cfg->be);
    if (st == ST_OK)
        st = ops->alloc(cfg->be, COLL_PINNED_BYTES, MEM_PINNED, &c->failed);
    if (st == ST_OK)
        st = oneshot_make_area(cfg->be, &c->one, &c->area, handle);
    if (st != ST_OK) {
        ipc_close(&c->head);
        return st;
    }
    c->one.failed = ops->pinned_ptr(cfg->be, c->failed);
    *c->one.failed = 0;
    cuda_watch(cfg->be, watch, c);
    *out = c;
    return ST_OK;
}

/* Rank r's area, as this rank addresses it, once it is there. */
static enum status meet(struct ipc_coll *c, struct ipc_group *group, int r)
{
    uint64_t from = clock_us();
    void *area;
    while (!(area = atomic_load(&group->area[r]))) {
        if (clock_us() - from > c->cfg.deadline_ms * UINT64_C(1000))
            FAIL(ST_TIMEOUT, "ipc: rank %d did not come within %u ms", r, c->cfg.deadline_ms);
        sched_yield();
    }
    if (group->processes)
        return oneshot_map_area(&c->one, r, group->handle[r]);
    c->one.area[r] = area;
    return ST_OK;
}

enum status ipc_join(struct coll **out, const struct coll_config *cfg, struct ipc_group *group)
{
    struct ipc_coll *c;
    enum status st = ST_OK;
    *out = NULL;
    TRY(create(&c, cfg, group->processes ? group->handle[cfg->rank] : NULL));
    atomic_store(&group->area[cfg->rank], c->one.area[cfg->rank]);
    for (int r = 0; r < cfg->world && st == ST_OK; r++)
        if (r != cfg->rank)
            st = meet(c, group, r);
    if (st != ST_OK) {
        ipc_close(&c->head);
        return st;
    }
    c->joined = true;
    *out = &c->head;
    return ST_OK;
}

/* Is st ST_OK on all ranks?  Otherwise a failure on each. */
static enum status all_well(enum status st)
{
    uint64_t well = st == ST_OK;
    TRY(control_min_u64(&well));
    TRY(st);
    if (!well)
        FAIL(ST_UNSUPPORTED, "ipc: another rank cannot share its memory");
    return ST_OK;
}

/* Every rank's handle to every rank, by rank 0. */
static enum status exchange(struct ipc_coll *c, const unsigned char *mine)
{
    unsigned char all[ONESHOT_MAX_WORLD][ONESHOT_HANDLE_BYTES];
    size_t len = (size_t)c->head.world * ONESHOT_HANDLE_BYTES, want = len;
    TRY(control_gather(mine, ONESHOT_HANDLE_BYTES, all));
    TRY(control_bcast(all, sizeof all, &len, c->cfg.deadline_ms));
    if (len != want)
        FAIL(ST_PEER, "ipc: %zu bytes of handles instead of %zu", len, want);
    enum status st = ST_OK;
    for (int r = 0; st == ST_OK && r < c->head.world; r++)
        if (r != c->head.rank)
            st = oneshot_map_area(&c->one, r, all[r]);
    return all_well(st); /* no rank begins before all have mapped */
}

static enum status ipc_open(struct coll **out, const struct coll_config *cfg)
{
    unsigned char handle[ONESHOT_HANDLE_BYTES];
    struct ipc_coll *c = NULL;
    *out = NULL;
    if (!cfg->one_host && cfg->world > 1)
        FAIL(ST_UNSUPPORTED, "ipc: the ranks are not on one host");
    enum status st = all_well(create(&c, cfg, handle));
    if (st == ST_OK)
        st = exchange(c, handle);
    if (st != ST_OK) {
        ipc_close(c ? &c->head : NULL);
        return st;
    }
    c->joined = true;
    *out = &c->head;
    return ST_OK;
}

const struct coll_ops ipc_coll_ops = {
    .name = "ipc",
    .in_graph = true,
    .device_bytes = ipc_device_bytes,
    .open = ipc_open,
    .close = ipc_close,
    .all_reduce = ipc_all_reduce,
    .all_gather = ipc_all_gather,
    .broadcast = ipc_broadcast,
    .poll = ipc_poll,
    .abort = ipc_abort,
};
