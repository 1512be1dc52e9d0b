#include "ptx/ptx_race.h"

#include <stdlib.h>

enum { PIECE = 4096, MANY_WARP = 1, MANY_BLOCK = 2, MANY_GRID = 3 };

struct ptx_mark **ptx_marks_create(size_t bytes)
{
    return calloc(bytes / PIECE + 1, sizeof(struct ptx_mark *));
}

void ptx_marks_destroy(struct ptx_mark **marks, size_t bytes)
{
    if (!marks)
        return;
    for (size_t i = 0; i <= bytes / PIECE; i++)
        free(marks[i]);
    free(marks);
}

struct ptx_mark *ptx_marks_at(struct ptx_mark **marks, size_t offset)
{
    struct ptx_mark **piece = &marks[offset / PIECE];
    if (!*piece)
        *piece = calloc(PIECE, sizeof **piece);
    return *piece ? *piece + offset % PIECE : NULL;
}

enum status ptx_clock_add(struct ptx_clock *c, struct ptx_known k)
{
    for (size_t i = 0; i < c->n; i++) {
        struct ptx_known *o = &c->known[i];
        if (o->grid == k.grid && o->block == k.block && o->thread == k.thread) {
            o->barriers = k.barriers > o->barriers ? k.barriers : o->barriers;
            return ST_OK;
        }
    }
    struct ptx_known *more = realloc(c->known, (c->n + 1) * sizeof *more);
    if (!more)
        FAIL(ST_NOMEM, "no memory for clocks");
    c->known = more;
    more[c->n++] = k;
    return ST_OK;
}

void ptx_clock_barrier(struct ptx_clock *c)
{
    for (size_t i = 0; i < c->n; i++)
        c->known[i].thread = -1;
}

void ptx_clock_fini(struct ptx_clock *c)
{
    free(c->known);
    *c = (struct ptx_clock){0};
}

static bool is_known(const struct ptx_clock *c, const struct ptx_time *then, uint16_t thread)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct ptx_known *k = &c->known[i];
        if (k->grid == then->grid && k->block == then->block && then->barriers < k->barriers &&
            (k->thread < 0 || k->thread == thread))
            return true;
    }
    return false;
}

/* many: of the threads that `then` stands for (see ptx_mark). */
static bool is_ordered(const struct ptx_time *then, int many, const struct ptx_time *now,
                       const struct ptx_horizon *h)
{
    if (then->grid < h->all || (then->stream == now->stream && then->grid < h->own))
        return true;
    if (then->grid != now->grid || then->block != now->block)
        return h->of_block || (many < MANY_GRID && is_known(h->clock, then, now->thread));
    if (many == MANY_GRID)
        return false;
    if (then->barriers != now->barriers)
        return true;
    if (then->thread == now->thread && many == 0)
        return true;
    return then->thread / 32 == now->thread / 32 && many <= MANY_WARP &&
           then->warp_barriers != now->warp_barriers;
}

static void add_reader(struct ptx_mark *m, const struct ptx_time *now, const struct ptx_horizon *h)
{
    const struct ptx_time *r = &m->read;
    bool newer = is_ordered(r, m->many, now, h);
    int many = r->grid != now->grid || r->block != now->block ? MANY_GRID
               : r->thread / 32 != now->thread / 32           ? MANY_BLOCK
               : r->thread != now->thread                     ? MANY_WARP
                                                              : 0;
    if (newer)
        m->many = 0;
    else if (many > m->many)
        m->many = (uint8_t)many;
    if (newer || many < MANY_GRID)
        m->read = *now;
    else
        m->read.strong = m->read.strong && now->strong;
}

enum status ptx_race_note(struct ptx_mark *mark, size_t n, const struct ptx_time *now,
                          const struct ptx_horizon *horizon, bool writes)
{
    for (size_t i = 0; i < n; i++) {
        struct ptx_mark *m = &mark[i];
        const struct ptx_time *then = &m->written;
        bool read = false;
        bool clean = (then->strong && now->strong) || is_ordered(then, 0, now, horizon);
        if (clean && writes) {
            then = &m->read;
            read = true;
            clean = (then->strong && now->strong) || is_ordered(then, m->many, now, horizon);
        }
        if (!clean)
            FAIL(ST_BUG,
                 "thread %d %s what thread %d of block %u %s before, and nothing orders them (byte "
                 "%zu)",
                 now->thread, writes ? "writes" : "reads", then->thread, then->block,
                 read ? "read" : "wrote", i);
        if (writes) {
            m->written = *now;
            m->read = (struct ptx_time){0};
            m->many = 0;
        } else {
            add_reader(m, now, horizon);
        }
    }
    return ST_OK;
}
