#include "ptx/ptx_race.h"

#include <stdlib.h>
#include <string.h>

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

enum status ptx_times_add(struct ptx_times *t, const struct ptx_time *time, uint32_t *out)
{
    if (t->n == t->max) {
        uint32_t max = t->max ? 2 * t->max : 1024;
        struct ptx_time *more = realloc(t->time, max * sizeof *more);
        if (!more)
            FAIL(ST_NOMEM, "no memory for the times of accesses");
        t->time = more;
        t->max = max;
    }
    if (UINT32_MAX - t->first <= t->n)
        FAIL(ST_RANGE, "more than %u times of warps between barriers", UINT32_MAX);
    t->time[t->n] = *time;
    *out = t->first + t->n++;
    return ST_OK;
}

void ptx_times_end(struct ptx_times *t)
{
    t->first += t->n;
    t->n = 0;
}

void ptx_times_fini(struct ptx_times *t)
{
    free(t->time);
    *t = (struct ptx_times){0};
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

static bool is_known(const struct ptx_clock *c, const struct ptx_time *then, int32_t thread)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct ptx_known *k = &c->known[i];
        if (k->grid == then->grid && k->block == then->block && then->barriers < k->barriers &&
            (k->thread < 0 || k->thread == thread))
            return true;
    }
    return false;
}

/* A thread's access at a time. */
struct access {
    uint32_t time;
    uint8_t lane;
};

static bool same_lane(uint8_t a, uint8_t b)
{
    return ((a ^ b) & ~PTX_STRONG) == 0;
}

static bool both_strong(uint8_t a, uint8_t b)
{
    return a & b & PTX_STRONG;
}

static int32_t thread_of(const struct ptx_time *t, uint8_t lane)
{
    return 32 * t->warp + (lane & ~PTX_STRONG);
}

/* Of times of this run that differ.  many: of the threads that `then` is of (see ptx_mark). */
static bool times_ordered(const struct ptx_time *then, uint8_t then_lane, int many,
                          const struct ptx_time *now, uint8_t now_lane, const struct ptx_horizon *h)
{
    if (then->stream == now->stream && then->grid < h->own)
        return true;
    if (then->grid != now->grid || then->block != now->block)
        return h->of_block ||
               (many < MANY_GRID && is_known(h->clock, then, thread_of(now, now_lane)));
    if (many == MANY_GRID)
        return false;
    if (then->barriers != now->barriers)
        return true;
    if (then->warp != now->warp)
        return false;
    return (same_lane(then_lane, now_lane) && many == 0) ||
           (many <= MANY_WARP && then->warp_barriers != now->warp_barriers);
}

static bool is_ordered(struct access then, int many, struct access now, const struct ptx_horizon *h)
{
    const struct ptx_times *t = h->times;
    if (then.time < t->first)
        return true;
    if (then.time == now.time)
        return same_lane(then.lane, now.lane) && many == 0;
    return times_ordered(&t->time[then.time - t->first], then.lane, many,
                         &t->time[now.time - t->first], now.lane, h);
}

/* How far the reader `now` is from the mark's, which it is not ordered after. */
static int distance(struct access then, struct access now, const struct ptx_times *t)
{
    const struct ptx_time *a = &t->time[then.time - t->first], *b = &t->time[now.time - t->first];
    return a->grid != b->grid || a->block != b->block ? MANY_GRID
           : a->warp != b->warp                       ? MANY_BLOCK
           : !same_lane(then.lane, now.lane)          ? MANY_WARP
                                                      : 0;
}

/* Whether `then` is of an earlier run or grid, so that everything of this grid is ordered after it or told to be a race
 * on its own. */
static bool is_past(struct access then, struct access now, const struct ptx_times *t)
{
    return then.time < t->first ||
           t->time[then.time - t->first].grid != t->time[now.time - t->first].grid;
}

/* The mark keeps one reader for all since the last write: it is weak when one of them was. */
static void add_reader(struct ptx_mark *m, struct access now, const struct ptx_horizon *h)
{
    struct access then = {m->read, m->reader};
    int many = 0;
    if (is_ordered(then, m->many, now, h)) {
        m->many = 0;
    } else {
        many = distance(then, now, h->times);
        m->many = many > m->many ? (uint8_t)many : m->many;
    }
    bool weak =
        !(now.lane & PTX_STRONG) || (!(then.lane & PTX_STRONG) && !is_past(then, now, h->times));
    if (many < MANY_GRID) {
        m->read = now.time;
        m->reader = now.lane;
    }
    if (weak)
        m->reader &= (uint8_t)~PTX_STRONG;
}

static enum status conflict(const struct ptx_mark *m, bool read, struct access now, bool writes,
                            size_t byte, const struct ptx_times *t)
{
    const struct ptx_time *then = &t->time[(read ? m->read : m->written) - t->first];
    FAIL(ST_BUG,
         "thread %d %s what thread %d of block %u %s before, and nothing orders them (byte %zu)",
         thread_of(&t->time[now.time - t->first], now.lane), writes ? "writes" : "reads",
         thread_of(then, read ? m->reader : m->writer), then->block, read ? "read" : "wrote", byte);
}

static enum status note_byte(struct ptx_mark *m, size_t byte, struct access now,
                             const struct ptx_horizon *h, bool writes)
{
    struct access written = {m->written, m->writer}, read = {m->read, m->reader};
    if (!both_strong(written.lane, now.lane) && !is_ordered(written, 0, now, h))
        return conflict(m, false, now, writes, byte, h->times);
    if (!writes) {
        add_reader(m, now, h);
        return ST_OK;
    }
    if (!both_strong(read.lane, now.lane) && !is_ordered(read, m->many, now, h))
        return conflict(m, true, now, writes, byte, h->times);
    *m = (struct ptx_mark){.written = now.time, .writer = now.lane};
    return ST_OK;
}

/* Bytes that are accessed together mostly have equal marks: one stands for all. */
enum status ptx_race_note(struct ptx_mark *mark, size_t n, uint32_t now, uint8_t lane,
                          const struct ptx_horizon *horizon, bool writes)
{
    struct access access = {now, lane};
    if (memcmp(mark, mark + 1, (n - 1) * sizeof *mark) == 0) {
        TRY(note_byte(mark, 0, access, horizon, writes));
        for (size_t i = 1; i < n; i++)
            mark[i] = mark[0];
        return ST_OK;
    }
    for (size_t i = 0; i < n; i++)
        TRY(note_byte(&mark[i], i, access, horizon, writes));
    return ST_OK;
}
