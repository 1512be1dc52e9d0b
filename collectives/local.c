/* The collective of a single rank: everything is already where it belongs. */
#include "collectives/local.h"

#include <stdlib.h>

#include "collectives/check.h"

struct local_coll {
    struct coll head;
    struct coll_config cfg;
};

static enum status local_open(struct coll **out, const struct coll_config *cfg)
{
    *out = NULL;
    TRY(coll_check_config(cfg, "local"));
    if (cfg->world != 1)
        FAIL(ST_UNSUPPORTED, "local is for one rank, there are %d", cfg->world);
    struct local_coll *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "local: out of memory");
    c->head = (struct coll){.ops = &local_coll_ops, .rank = 0, .world = 1};
    c->cfg = *cfg;
    *out = &c->head;
    return ST_OK;
}

static void local_close(struct coll *c)
{
    free(c);
}

static enum status local_all_reduce(struct coll *head, struct view x, enum reduce_op op)
{
    struct local_coll *c = (struct local_coll *)head;
    size_t n;
    return coll_check_reduce(&c->cfg, x, op, &n);
}

static enum status local_all_gather(struct coll *head, struct view src, struct view dst)
{
    struct local_coll *c = (struct local_coll *)head;
    size_t bytes;
    TRY(coll_check_gather(&c->cfg, src, dst, &bytes));
    if (bytes == 0 || (src.buf == dst.buf && src.off == dst.off))
        return ST_OK;
    return backend_ops_of(c->cfg.be)->copy(c->cfg.be, dst, src);
}

static enum status local_broadcast(struct coll *head, struct view x, int root)
{
    struct local_coll *c = (struct local_coll *)head;
    size_t bytes;
    return coll_check_broadcast(&c->cfg, x, root, &bytes);
}

static enum status local_poll(struct coll *c)
{
    (void)c;
    return ST_OK;
}

static void local_abort(struct coll *c)
{
    (void)c; /* no other rank waits */
}

const struct coll_ops local_coll_ops = {
    .name = "local",
    .in_graph = true,
    .open = local_open,
    .close = local_close,
    .all_reduce = local_all_reduce,
    .all_gather = local_all_gather,
    .broadcast = local_broadcast,
    .poll = local_poll,
    .abort = local_abort,
};
