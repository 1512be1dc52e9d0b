/* The collective of ranks on one host: operands go through slots in shared memory, and each rank
 * tells how far it is by a word of its own.  No locks; every sum is added in the order of the
 * contract.
 *
 * Each rank has two slots, used in turn.  A piece has a number e; a rank's `progress` is 2e when
 * its operand lies in its slot, 2e + 1 when its part of the sum does too.  Before a rank writes its
 * slot of piece e it waits until all have begun e - 1: then all have finished e - 2, which had the
 * same slot.
 *
 * Every rank adds the whole of a piece of up to DIRECT_BYTES.  Of a longer one each rank adds its
 * own part and the others copy the sum (reduce-scatter, then all-gather).
 *
 * Waiting: a short spin, then yielding, then asleep on the other's word. */
#include "collectives/shm.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/check.h"
#include "collectives/reduce.h"
#include "collectives/segment.h"
#include "collectives/wait.h"
#include "common/clock.h"

enum { LINE = 128 }; /* two cache lines: neighbours are fetched in pairs */
enum { DIRECT_BYTES = 16 << 10, PIECE_BYTES = 256 << 10 };
enum { RELAX_ROUNDS = 2000, SPIN_US = 200, SLEEP_US = 50000 };

struct rank_line {
    _Atomic uint32_t progress;
    _Atomic uint32_t sleepers; /* ranks asleep on progress */
    uint64_t what[2];          /* which collective the slot's operand is for */
    char pad[LINE - 24];
};

struct shm_area {
    _Atomic uint32_t aborted_by; /* rank + 1 */
    char pad[LINE - 4];
    struct rank_line line[]; /* [world]; then the slots, [world][2][slot_bytes] */
};

struct shm_coll {
    struct coll head;
    struct coll_config cfg;
    struct segment memory; /* none: the caller owns the area */
    struct shm_area *area;
    char *slots;
    size_t slot_bytes;
    uint32_t piece;                /* e */
    uint32_t seen[COLL_MAX_WORLD]; /* the last progress seen of each rank */
    uint32_t relax_rounds;
    bool broken;
};

static size_t slot_bytes_of(const struct coll_config *cfg)
{
    return cfg->max_bytes < PIECE_BYTES ? (cfg->max_bytes + LINE - 1) / LINE * LINE : PIECE_BYTES;
}

static size_t area_bytes_of(const struct coll_config *cfg)
{
    return sizeof(struct shm_area) +
           (size_t)cfg->world * (sizeof(struct rank_line) + 2 * slot_bytes_of(cfg));
}

enum status shm_area_bytes(const struct coll_config *cfg, size_t *bytes)
{
    TRY(coll_check_config(cfg, "shm"));
    if (!backend_ops_of(cfg->be)->host_ptr)
        FAIL(ST_UNSUPPORTED, "shm: the memory of backend %s is not host memory",
             backend_ops_of(cfg->be)->name);
    *bytes = area_bytes_of(cfg);
    return ST_OK;
}

/* The segment is the ranks' together. */
static size_t shm_host_bytes(const struct coll_config *cfg)
{
    return (segment_bytes(area_bytes_of(cfg)) + (size_t)cfg->world - 1) / (size_t)cfg->world;
}

static char *slot(const struct shm_coll *c, int rank)
{
    return c->slots + ((size_t)rank * 2 + c->piece % 2) * c->slot_bytes;
}

/* progress a has reached b, also when the counters have wrapped */
static bool reached(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) >= 0;
}

static enum status shm_poll(struct coll *head)
{
    struct shm_coll *c = (struct shm_coll *)head;
    uint32_t by = atomic_load(&c->area->aborted_by);
    if (by)
        FAIL(ST_PEER, "shm: rank %d gave up", (int)by - 1);
    if (c->broken)
        FAIL(ST_PEER, "shm: this communicator has failed before");
    return ST_OK;
}

/* Tells the others this rank's progress, and wakes those that sleep on it.  Sequentially
 * consistent: either this sees the sleeper or the sleeper (the kernel, in word_wait) sees the
 * progress. */
static void tell(struct shm_coll *c, uint32_t progress)
{
    struct rank_line *mine = &c->area->line[c->head.rank];
    atomic_store(&mine->progress, progress);
    if (atomic_load(&mine->sleepers) > 0)
        word_wake_all(&mine->progress);
}

/* Yields, then sleeps, until rank p has reached `progress`. */
static enum status await_slowly(struct shm_coll *c, int p, uint32_t progress)
{
    struct rank_line *line = &c->area->line[p];
    uint64_t begin = clock_us(), waited = 0;
    for (;;) {
        uint32_t at = atomic_load_explicit(&line->progress, memory_order_acquire);
        if (reached(at, progress)) {
            c->seen[p] = at;
            return ST_OK;
        }
        if (atomic_load_explicit(&c->area->aborted_by, memory_order_relaxed))
            return shm_poll(&c->head);
        if (waited / 1000 >= c->cfg.deadline_ms)
            FAIL(ST_TIMEOUT, "shm: rank %d did not come within %u ms", p,
                 (unsigned)c->cfg.deadline_ms);
        if (waited < SPIN_US) {
            sched_yield();
        } else {
            uint64_t left = (uint64_t)c->cfg.deadline_ms * 1000 - waited;
            atomic_fetch_add(&line->sleepers, 1);
            word_wait(&line->progress, at, left < SLEEP_US ? left : SLEEP_US);
            atomic_fetch_sub(&line->sleepers, 1);
        }
        waited = clock_us() - begin;
    }
}

static enum status await(struct shm_coll *c, int p, uint32_t progress)
{
    struct rank_line *line = &c->area->line[p];
    if (reached(c->seen[p], progress))
        return ST_OK;
    for (uint32_t i = 0; i < c->relax_rounds; i++) {
        uint32_t at = atomic_load_explicit(&line->progress, memory_order_acquire);
        if (reached(at, progress)) {
            c->seen[p] = at;
            return ST_OK;
        }
        wait_relax();
    }
    return await_slowly(c, p, progress);
}

static enum status await_others(struct shm_coll *c, uint32_t progress)
{
    for (int p = 0; p < c->head.world; p++)
        if (p != c->head.rank)
            TRY(await(c, p, progress));
    return ST_OK;
}

enum { DO_REDUCE = 1, DO_GATHER, DO_BROADCAST };

static uint64_t what_of(int kind, int detail, size_t len)
{
    return (uint64_t)len << 16 | (uint64_t)detail << 8 | (uint64_t)kind;
}

/* Begins the next piece: this rank's slot is free now. */
static enum status begin(struct shm_coll *c, uint64_t what)
{
    c->piece++;
    TRY(await_others(c, 2 * (c->piece - 1)));
    c->area->line[c->head.rank].what[c->piece % 2] = what;
    return ST_OK;
}

/* Waits until rank p's operand lies in its slot. */
static enum status operand(struct shm_coll *c, int p)
{
    const struct rank_line *mine = &c->area->line[c->head.rank], *line = &c->area->line[p];
    TRY(await(c, p, 2 * c->piece));
    if (line->what[c->piece % 2] != mine->what[c->piece % 2])
        FAIL(ST_BUG,
             "shm: rank %d is in collective %llx, this rank in %llx (bytes, operation, kind)", p,
             (unsigned long long)line->what[c->piece % 2],
             (unsigned long long)mine->what[c->piece % 2]);
    return ST_OK;
}

/* x [n] becomes the sum over the ranks. */
static enum status reduce_direct(struct shm_coll *c, float *x, size_t n, enum reduce_op op)
{
    const float *src[COLL_MAX_WORLD];
    memcpy(slot(c, c->head.rank), x, n * sizeof *x);
    tell(c, 2 * c->piece);
    for (int p = 0; p < c->head.world; p++) {
        src[p] = x;
        if (p == c->head.rank)
            continue;
        TRY(operand(c, p));
        src[p] = (const float *)(const void *)slot(c, p);
    }
    reduce_tree(x, src, c->head.world, n, op);
    return ST_OK;
}

static enum status reduce_parts(struct shm_coll *c, float *x, size_t n, enum reduce_op op)
{
    int world = c->head.world, rank = c->head.rank;
    const float *src[COLL_MAX_WORLD];
    float *own = (float *)(void *)slot(c, rank);
    size_t mine = part_begin(n, world, rank), end = part_begin(n, world, rank + 1);

    memcpy(own, x, mine * sizeof *x);
    memcpy(own + end, x + end, (n - end) * sizeof *x);
    tell(c, 2 * c->piece);
    for (int p = 0; p < world; p++) {
        src[p] = x + mine;
        if (p == rank)
            continue;
        TRY(operand(c, p));
        src[p] = (const float *)(const void *)slot(c, p) + mine;
    }
    reduce_tree(x + mine, src, world, end - mine, op);
    memcpy(own + mine, x + mine, (end - mine) * sizeof *x);
    tell(c, 2 * c->piece + 1);
    for (int i = 1; i < world; i++) {
        int p = (rank + i) % world;
        size_t at = part_begin(n, world, p), len = part_begin(n, world, p + 1) - at;
        TRY(await(c, p, 2 * c->piece + 1));
        memcpy(x + at, (const float *)(const void *)slot(c, p) + at, len * sizeof *x);
    }
    return ST_OK;
}

/* After a failure the ranks no longer stand at the same point. */
static enum status settle(struct shm_coll *c, enum status st)
{
    if (st != ST_OK)
        c->broken = true;
    return st;
}

/* The host memory of a packed view, after all that is enqueued before. */
static enum status host_memory(struct shm_coll *c, struct view v, char **out)
{
    const struct backend_ops *ops = backend_ops_of(c->cfg.be);
    TRY(ops->sync(c->cfg.be));
    *out = ops->host_ptr(c->cfg.be, v);
    return ST_OK;
}

static size_t next_piece(const struct shm_coll *c, size_t left)
{
    return left < c->slot_bytes ? left : c->slot_bytes;
}

static enum status reduce_pieces(struct shm_coll *c, struct view x, size_t bytes, enum reduce_op op)
{
    char *at;
    TRY(host_memory(c, x, &at));
    for (size_t len; bytes > 0; at += len, bytes -= len) {
        len = next_piece(c, bytes);
        size_t n = len / sizeof(float);
        float *piece = (float *)(void *)at;
        TRY(begin(c, what_of(DO_REDUCE, (int)op, len)));
        TRY(len <= DIRECT_BYTES ? reduce_direct(c, piece, n, op) : reduce_parts(c, piece, n, op));
    }
    return ST_OK;
}

static enum status shm_all_reduce(struct coll *head, struct view x, enum reduce_op op)
{
    struct shm_coll *c = (struct shm_coll *)head;
    size_t n;
    TRY(coll_check_reduce(&c->cfg, x, op, &n));
    TRY(shm_poll(head));
    return n == 0 ? ST_OK : settle(c, reduce_pieces(c, x, n * sizeof(float), op));
}

static enum status gather_pieces(struct shm_coll *c, struct view src, struct view dst, size_t bytes)
{
    char *from, *to;
    size_t len;
    TRY(host_memory(c, src, &from));
    TRY(host_memory(c, dst, &to));
    for (size_t at = 0; at < bytes; at += len) {
        len = next_piece(c, bytes - at);
        TRY(begin(c, what_of(DO_GATHER, 0, len)));
        memcpy(slot(c, c->head.rank), from + at, len);
        tell(c, 2 * c->piece);
        for (int p = 0; p < c->head.world; p++) {
            char *part = to + (size_t)p * bytes + at;
            if (p != c->head.rank) {
                TRY(operand(c, p));
                memcpy(part, slot(c, p), len);
            } else if (part != from + at) {
                memcpy(part, from + at, len);
            }
        }
    }
    return ST_OK;
}

static enum status shm_all_gather(struct coll *head, struct view src, struct view dst)
{
    struct shm_coll *c = (struct shm_coll *)head;
    size_t bytes;
    TRY(coll_check_gather(&c->cfg, src, dst, &bytes));
    TRY(shm_poll(head));
    return bytes == 0 ? ST_OK : settle(c, gather_pieces(c, src, dst, bytes));
}

static enum status broadcast_pieces(struct shm_coll *c, struct view x, size_t bytes, int root)
{
    char *at;
    TRY(host_memory(c, x, &at));
    for (size_t len; bytes > 0; at += len, bytes -= len) {
        len = next_piece(c, bytes);
        TRY(begin(c, what_of(DO_BROADCAST, root, len)));
        if (c->head.rank == root)
            memcpy(slot(c, root), at, len);
        tell(c, 2 * c->piece);
        if (c->head.rank == root)
            continue;
        TRY(operand(c, root));
        memcpy(at, slot(c, root), len);
    }
    return ST_OK;
}

static enum status shm_broadcast(struct coll *head, struct view x, int root)
{
    struct shm_coll *c = (struct shm_coll *)head;
    size_t bytes;
    TRY(coll_check_broadcast(&c->cfg, x, root, &bytes));
    TRY(shm_poll(head));
    return bytes == 0 ? ST_OK : settle(c, broadcast_pieces(c, x, bytes, root));
}

static void shm_abort(struct coll *head)
{
    struct shm_coll *c = (struct shm_coll *)head;
    uint32_t none = 0;
    c->broken = true;
    atomic_compare_exchange_strong(&c->area->aborted_by, &none, (uint32_t)head->rank + 1);
    for (int p = 0; p < head->world; p++)
        word_wake_all(&c->area->line[p].progress);
}

static void shm_close(struct coll *head)
{
    struct shm_coll *c = (struct shm_coll *)head;
    if (!c)
        return;
    segment_unmap(&c->memory);
    free(c);
}

enum status shm_join(struct coll **out, const struct coll_config *cfg, void *area)
{
    size_t bytes;
    *out = NULL;
    TRY(shm_area_bytes(cfg, &bytes));
    struct shm_coll *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "shm: out of memory");
    c->head = (struct coll){.ops = &shm_coll_ops, .rank = cfg->rank, .world = cfg->world};
    c->cfg = *cfg;
    c->area = area;
    c->slots =
        (char *)area + sizeof(struct shm_area) + (size_t)cfg->world * sizeof(struct rank_line);
    c->slot_bytes = slot_bytes_of(cfg);
    c->relax_rounds = wait_keep_us(cfg->world) ? RELAX_ROUNDS : 0;
    enum status st = begin(c, what_of(0, cfg->world, cfg->max_bytes));
    if (st == ST_OK)
        tell(c, 2 * c->piece);
    for (int p = 0; st == ST_OK && p < cfg->world; p++)
        if (p != cfg->rank)
            st = operand(c, p);
    if (st != ST_OK) {
        free(c);
        return st;
    }
    *out = &c->head;
    return ST_OK;
}

static enum status shm_open_segment(struct segment *memory, const struct coll_config *cfg,
                                    const char *name)
{
    size_t bytes;
    TRY(shm_area_bytes(cfg, &bytes));
    if (cfg->rank == 0)
        return segment_create(memory, name, bytes);
    enum status st = segment_open(memory, name, bytes, cfg->deadline_ms);
    if (st == ST_TIMEOUT)
        FAIL(ST_TIMEOUT, "shm: rank 0 did not come within %u ms", (unsigned)cfg->deadline_ms);
    return st;
}

static enum status shm_open_all(struct coll **out, const struct coll_config *cfg)
{
    struct segment memory = {0};
    char name[64];
    *out = NULL;
    snprintf(name, sizeof name, "/ingot-%llx", (unsigned long long)cfg->session);
    enum status st = shm_open_segment(&memory, cfg, name);
    if (!memory.at)
        return st;
    st = shm_join(out, cfg, memory.at);
    /* All have mapped it, or will not any more: whoever is here takes the name away. */
    segment_unlink(name);
    if (st == ST_OK)
        ((struct shm_coll *)*out)->memory = memory;
    else
        segment_unmap(&memory);
    return st;
}

const struct coll_ops shm_coll_ops = {
    .name = "shm",
    .host_bytes = shm_host_bytes,
    .open = shm_open_all,
    .close = shm_close,
    .all_reduce = shm_all_reduce,
    .all_gather = shm_all_gather,
    .broadcast = shm_broadcast,
    .poll = shm_poll,
    .abort = shm_abort,
};
