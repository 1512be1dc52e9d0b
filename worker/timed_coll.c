#include "worker/timed_coll.h"

#include <stdlib.h>

#include "common/clock.h"

static struct timed_coll *timed(struct coll *c)
{
    return (struct timed_coll *)(void *)c;
}

static enum status timed_all_reduce(struct coll *c, struct view x, enum reduce_op op)
{
    struct timed_coll *t = timed(c);
    uint64_t begin = clock_us();
    enum status st = t->inner->ops->all_reduce(t->inner, x, op);
    t->us += clock_us() - begin;
    return st;
}

static enum status timed_all_gather(struct coll *c, struct view src, struct view dst)
{
    struct timed_coll *t = timed(c);
    uint64_t begin = clock_us();
    enum status st = t->inner->ops->all_gather(t->inner, src, dst);
    t->us += clock_us() - begin;
    return st;
}

static enum status timed_broadcast(struct coll *c, struct view x, int root)
{
    struct timed_coll *t = timed(c);
    uint64_t begin = clock_us();
    enum status st = t->inner->ops->broadcast(t->inner, x, root);
    t->us += clock_us() - begin;
    return st;
}

static enum status timed_poll(struct coll *c)
{
    return timed(c)->inner->ops->poll(timed(c)->inner);
}

static void timed_abort(struct coll *c)
{
    timed(c)->inner->ops->abort(timed(c)->inner);
}

static void timed_close(struct coll *c)
{
    timed_coll_close(timed(c));
}

enum status timed_coll_open(struct timed_coll **out, const char *name,
                            const struct coll_config *cfg)
{
    *out = NULL;
    struct timed_coll *t = calloc(1, sizeof *t);
    if (!t)
        FAIL(ST_NOMEM, "no memory for a communicator");
    enum status st = coll_open(&t->inner, name, cfg);
    if (st != ST_OK) {
        free(t);
        return st;
    }
    t->ops = (struct coll_ops){.name = t->inner->ops->name,
                               .in_graph = t->inner->ops->in_graph,
                               .close = timed_close,
                               .all_reduce = timed_all_reduce,
                               .all_gather = timed_all_gather,
                               .broadcast = timed_broadcast,
                               .poll = timed_poll,
                               .abort = timed_abort};
    t->head = (struct coll){.ops = &t->ops, .rank = cfg->rank, .world = cfg->world};
    *out = t;
    return ST_OK;
}

void timed_coll_close(struct timed_coll *t)
{
    if (!t)
        return;
    t->inner->ops->close(t->inner);
    free(t);
}
