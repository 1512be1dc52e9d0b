#include "gpu/host_coll.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "collectives/reduce.h"
#include "common/clock.h"

enum { MAX_RANKS = 8, HEAD_BYTES = 4096 };

struct host_area {
    size_t max_bytes, mapped;
    atomic_bool gave_up;
    _Atomic uint64_t arrived; /* at barriers, by all ranks together */
};

struct host_coll {
    struct coll base;
    struct coll_config cfg;
    const struct backend_ops *op;
    struct host_area *area;
    uint64_t n_barriers;
    float *sum; /* [max_bytes] */
};

static char *operand(struct host_area *a, int rank)
{
    return (char *)a + HEAD_BYTES + (size_t)rank * a->max_bytes;
}

enum status host_area_map(struct host_area **out, int world, size_t max_bytes)
{
    _Static_assert(sizeof(struct host_area) <= HEAD_BYTES, "head");
    size_t bytes = HEAD_BYTES + (size_t)world * max_bytes;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world < 1 || world > MAX_RANKS)
        FAIL(ST_RANGE, "%d ranks", world);
    if (p == MAP_FAILED)
        FAIL(ST_NOMEM, "no memory for %zu shared bytes", bytes);
    *out = p;
    (*out)->max_bytes = max_bytes;
    (*out)->mapped = bytes;
    return ST_OK;
}

void host_area_unmap(struct host_area *a)
{
    munmap(a, a->mapped);
}

void host_area_abort(struct host_area *a)
{
    atomic_store(&a->gave_up, true);
}

/* Everyone has come as often as this rank. */
static enum status meet(struct host_coll *c)
{
    uint64_t want = ++c->n_barriers * (uint64_t)c->base.world, from = clock_us();
    atomic_fetch_add(&c->area->arrived, 1);
    while (atomic_load(&c->area->arrived) < want) {
        if (atomic_load(&c->area->gave_up))
            FAIL(ST_PEER, "another rank has failed");
        if (clock_us() - from > (uint64_t)c->cfg.deadline_ms * 1000)
            FAIL(ST_TIMEOUT, "another rank has not come within %u ms", c->cfg.deadline_ms);
        sched_yield();
    }
    return ST_OK;
}

static size_t bytes_of(struct view v)
{
    return (size_t)v.rows * (size_t)v.cols * dtype_size(v.dtype);
}

/* Every rank's operand is in the area. */
static enum status share(struct host_coll *c, struct view x)
{
    if (bytes_of(x) > c->area->max_bytes)
        FAIL(ST_RANGE, "an operand of %zu bytes, %zu is the most", bytes_of(x), c->area->max_bytes);
    TRY(c->op->read(c->cfg.be, operand(c->area, c->base.rank), x));
    return meet(c);
}

static enum status host_all_reduce(struct coll *coll, struct view x, enum reduce_op op)
{
    struct host_coll *c = (struct host_coll *)coll;
    const float *src[MAX_RANKS];
    TRY(share(c, x));
    for (int r = 0; r < coll->world; r++)
        src[r] = (const float *)(const void *)operand(c->area, r);
    reduce_tree(c->sum, src, coll->world, bytes_of(x) / sizeof(float), op);
    TRY(c->op->write(c->cfg.be, x, c->sum));
    return meet(c); /* all have read the operands */
}

static enum status host_all_gather(struct coll *coll, struct view src, struct view dst)
{
    struct host_coll *c = (struct host_coll *)coll;
    TRY(share(c, src));
    for (int r = 0; r < coll->world; r++) {
        struct view part = dst;
        part.off += (size_t)r * bytes_of(src);
        part.rows = src.rows;
        TRY(c->op->write(c->cfg.be, part, operand(c->area, r)));
    }
    return meet(c);
}

static enum status host_broadcast(struct coll *coll, struct view x, int root)
{
    struct host_coll *c = (struct host_coll *)coll;
    TRY(share(c, x));
    TRY(c->op->write(c->cfg.be, x, operand(c->area, root)));
    return meet(c);
}

static enum status host_poll(struct coll *coll)
{
    struct host_coll *c = (struct host_coll *)coll;
    if (atomic_load(&c->area->gave_up))
        FAIL(ST_PEER, "another rank has failed");
    return ST_OK;
}

static void host_abort(struct coll *coll)
{
    host_area_abort(((struct host_coll *)coll)->area);
}

static void host_close(struct coll *coll)
{
    struct host_coll *c = (struct host_coll *)coll;
    free(c->sum);
    free(c);
}

static const struct coll_ops host_coll_ops = {
    .name = "host",
    .close = host_close,
    .all_reduce = host_all_reduce,
    .all_gather = host_all_gather,
    .broadcast = host_broadcast,
    .poll = host_poll,
    .abort = host_abort,
};

enum status host_join(struct coll **out, const struct coll_config *cfg, struct host_area *area)
{
    struct host_coll *c = calloc(1, sizeof *c);
    float *sum = malloc(area->max_bytes);
    if (!c || !sum) {
        free(c);
        free(sum);
        FAIL(ST_NOMEM, "no memory for a collective");
    }
    *c = (struct host_coll){.base = {&host_coll_ops, cfg->rank, cfg->world},
                            .cfg = *cfg,
                            .op = backend_ops_of(cfg->be),
                            .area = area,
                            .sum = sum};
    *out = &c->base;
    return ST_OK;
}
