#include "coll/conformance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conf {
    struct coll *c;
    struct backend *be;
    const struct backend_ops *ops;
    struct buf *buf;
    float *mine, *got, *want; /* [CONF_MAX_FLOATS] */
    int failures;
};

PRINTF_LIKE(2, 3) static void failed(struct conf *t, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s rank %d of %d: %s\n", t->c->ops->name, t->c->rank, t->c->world, text);
    t->failures++;
}

/* Element i of rank's operand in round `round`: magnitudes spread over 2^40, so that the order of
 * addition shows in the bits. */
static float element(int rank, size_t i, unsigned round)
{
    uint64_t h = (i + 1) * 0x9e3779b97f4a7c15U ^ ((uint64_t)rank << 32 | round);
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9U;
    h ^= h >> 32;
    float sign = h & 1 ? -0x1p-30f : 0x1p-30f;
    return sign * (float)(h >> 40 & 0xffffff) * (float)(1U << (h >> 8 & 31));
}

static float apply(float a, float b, enum reduce_op op)
{
    if (op == REDUCE_SUM)
        return a + b;
    return op == REDUCE_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

/* The contract, level by level, an odd last operand moving up. */
static float tree(int world, size_t i, unsigned round, enum reduce_op op)
{
    float level[64];
    for (int r = 0; r < world; r++)
        level[r] = element(r, i, round);
    for (int n = world; n > 1; n = (n + 1) / 2)
        for (int j = 0; j < (n + 1) / 2; j++)
            level[j] = 2 * j + 1 < n ? apply(level[2 * j], level[2 * j + 1], op) : level[2 * j];
    return level[0];
}

static struct view packed(struct conf *t, size_t off, size_t rows, size_t cols, enum dtype type)
{
    return (struct view){.buf = t->buf,
                         .off = off,
                         .rows = (int32_t)rows,
                         .cols = (int32_t)cols,
                         .stride = (int32_t)cols,
                         .dtype = type};
}

static enum status put(struct conf *t, struct view v, const void *src)
{
    return v.rows && v.cols ? t->ops->write(t->be, v, src) : ST_OK;
}

static enum status get(struct conf *t, void *dst, struct view v)
{
    return v.rows && v.cols ? t->ops->read(t->be, dst, v) : ST_OK;
}

static void compare(struct conf *t, const char *what, const void *got, const void *want,
                    size_t bytes)
{
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            failed(t, "%s of %zu bytes: byte %zu is %02x instead of %02x", what, bytes, i, a[i],
                   b[i]);
            return;
        }
}

static void expect_ok(struct conf *t, const char *what, enum status st)
{
    if (st != ST_OK)
        failed(t, "%s: %s: %s", what, status_name(st), status_detail());
}

static void expect(struct conf *t, const char *what, enum status want, enum status st)
{
    if (st != want)
        failed(t, "%s: %s instead of %s: %s", what, status_name(st), status_name(want),
               st == ST_OK ? "" : status_detail());
}

/* Every rank compares the result with the serial tree: so all ranks have the same bits. */
static void check_reduce(struct conf *t, size_t rows, size_t cols, enum reduce_op op,
                         unsigned round)
{
    size_t n = rows * cols, off = 64 * (round % 3);
    struct view x = packed(t, off, rows, cols, DT_F32);
    for (size_t i = 0; i < n; i++) {
        t->mine[i] = element(t->c->rank, i, round);
        t->want[i] = tree(t->c->world, i, round, op);
    }
    expect_ok(t, "write", put(t, x, t->mine));
    expect_ok(t, "all_reduce", t->c->ops->all_reduce(t->c, x, op));
    expect_ok(t, "read", get(t, t->got, x));
    compare(t, "all_reduce", t->got, t->want, n * sizeof(float));
}

/* in_place: src is this rank's part of dst. */
static void check_gather(struct conf *t, size_t rows, size_t cols, enum dtype type, bool in_place)
{
    size_t world = (size_t)t->c->world, bytes = rows * cols * dtype_size(type);
    size_t far = (world * bytes + 127) / 64 * 64;
    struct view dst = packed(t, 0, world * rows, cols, type);
    struct view src = packed(t, in_place ? (size_t)t->c->rank * bytes : far, rows, cols, type);
    unsigned char *all = (unsigned char *)t->want;
    for (size_t i = 0; i < world * bytes; i++)
        all[i] = (unsigned char)(i * 131 + i / 251 + rows);
    expect_ok(t, "write", put(t, src, all + (size_t)t->c->rank * bytes));
    expect_ok(t, "all_gather", t->c->ops->all_gather(t->c, src, dst));
    expect_ok(t, "read", get(t, t->got, dst));
    compare(t, in_place ? "all_gather in place" : "all_gather", t->got, t->want, world * bytes);
}

static void check_broadcast(struct conf *t, size_t rows, size_t cols, enum dtype type, int root)
{
    size_t bytes = rows * cols * dtype_size(type);
    struct view x = packed(t, 0, rows, cols, type);
    unsigned char *want = (unsigned char *)t->want, *mine = (unsigned char *)t->mine;
    for (size_t i = 0; i < bytes; i++) {
        want[i] = (unsigned char)(i * 7 + i / 253 + (size_t)root);
        mine[i] = t->c->rank == root ? want[i] : 0xee;
    }
    expect_ok(t, "write", put(t, x, mine));
    expect_ok(t, "broadcast", t->c->ops->broadcast(t->c, x, root));
    expect_ok(t, "read", get(t, t->got, x));
    compare(t, "broadcast", t->got, t->want, bytes);
}

/* Wrong arguments are refused on every rank alike and break nothing. */
static void check_refusals(struct conf *t)
{
    const struct coll_ops *ops = t->c->ops;
    struct view x = packed(t, 0, 4, 16, DT_F32), bad = x;
    bad.stride = 17;
    expect(t, "stride", ST_RANGE, ops->all_reduce(t->c, bad, REDUCE_SUM));
    expect(t, "negative rows", ST_RANGE,
           ops->broadcast(t->c, (struct view){.buf = t->buf, .rows = -1}, 0));
    bad = packed(t, 0, INT32_MAX, INT32_MAX, DT_F32);
    expect(t, "too large", ST_RANGE, ops->all_reduce(t->c, bad, REDUCE_SUM));
    expect(t, "too large", ST_RANGE, ops->broadcast(t->c, bad, 0));
    bad = packed(t, 0, 4, 16, DT_F16);
    expect(t, "type", ST_UNSUPPORTED, ops->all_reduce(t->c, bad, REDUCE_SUM));
    expect(t, "operation", ST_UNSUPPORTED, ops->all_reduce(t->c, x, (enum reduce_op)7));
    expect(t, "root", ST_RANGE, ops->broadcast(t->c, x, t->c->world));
    expect(t, "root", ST_RANGE, ops->broadcast(t->c, x, -1));
    bad = packed(t, 0, 4 * (size_t)t->c->world + 1, 16, DT_F32);
    expect(t, "gather shape", ST_RANGE, ops->all_gather(t->c, x, bad));
    bad = packed(t, 0, 4 * (size_t)t->c->world, 16, DT_I32);
    expect(t, "gather type", ST_RANGE, ops->all_gather(t->c, x, bad));
    expect_ok(t, "poll", ops->poll(t->c));
}

static void check_nan(struct conf *t, enum reduce_op op)
{
    struct view x = packed(t, 0, 1, 8, DT_F32);
    for (int i = 0; i < 8; i++)
        t->mine[i] = i % t->c->world == t->c->rank ? NAN : (float)i;
    expect_ok(t, "write", put(t, x, t->mine));
    expect_ok(t, "all_reduce", t->c->ops->all_reduce(t->c, x, op));
    expect_ok(t, "read", get(t, t->got, x));
    for (int i = 0; i < 8; i++)
        if (!isnan(t->got[i]))
            failed(t, "operation %d: element %d is %g instead of NaN", (int)op, i,
                   (double)t->got[i]);
}

/* Many small ones back to back, of all kinds: a rank may run ahead of the others. */
static void check_many(struct conf *t, unsigned rounds)
{
    for (unsigned i = 0; i < rounds && t->failures == 0; i++) {
        check_reduce(t, 1, 1 + i % 37, REDUCE_SUM, i);
        if (i % 3 == 0)
            check_broadcast(t, 1, 3 + i % 5, DT_I32, (int)i % t->c->world);
        if (i % 5 == 0)
            check_gather(t, 1, 1 + i % 7, DT_I32, false);
        if (i % 7 == 0)
            check_broadcast(t, 1, 2, DT_F32, (int)(i / 7) % t->c->world);
    }
}

size_t conf_max_bytes(int world)
{
    (void)world;
    return CONF_MAX_FLOATS * sizeof(float);
}

static bool conf_init(struct conf *t, struct coll *c, struct backend *be)
{
    *t = (struct conf){.c = c, .be = be, .ops = backend_ops_of(be)};
    t->mine = calloc(CONF_MAX_FLOATS, sizeof(float));
    t->got = calloc(CONF_MAX_FLOATS, sizeof(float));
    t->want = calloc(CONF_MAX_FLOATS, sizeof(float));
    enum status st =
        t->ops->alloc(be, 2 * CONF_MAX_FLOATS * sizeof(float) + 256, MEM_DEVICE, &t->buf);
    if (t->mine && t->got && t->want && st == ST_OK)
        return true;
    failed(t, "out of memory");
    return false;
}

static int conf_fini(struct conf *t)
{
    t->ops->free(t->be, t->buf);
    free(t->mine);
    free(t->got);
    free(t->want);
    return t->failures;
}

static int check_results(struct coll *c, struct backend *be, const size_t *sizes, size_t n_sizes,
                         unsigned rounds)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_I8};
    struct conf t;
    if (!conf_init(&t, c, be))
        return conf_fini(&t);
    size_t world = (size_t)c->world;
    check_refusals(&t);
    check_many(&t, rounds);
    for (size_t i = 0; i < n_sizes; i++) {
        size_t n = sizes[i];
        check_reduce(&t, 1, n, REDUCE_SUM, (unsigned)i);
        check_reduce(&t, n, 1, REDUCE_MAX, (unsigned)i);
        check_reduce(&t, n / 3, 3, REDUCE_MIN, (unsigned)i);
        for (size_t k = 0; k < ARRAY_LEN(types); k++) {
            check_gather(&t, 1, n / world, types[k], false);
            check_gather(&t, n / world / 3, 3, types[k], true);
            check_broadcast(&t, 1, n, types[k], (int)((i + k) % world));
        }
    }
    check_nan(&t, REDUCE_SUM);
    check_nan(&t, REDUCE_MAX);
    check_nan(&t, REDUCE_MIN);
    check_many(&t, rounds);
    return conf_fini(&t);
}

int conf_results(struct coll *c, struct backend *be)
{
    /* around the borders: empty parts, a cache line, direct and by parts, one piece and several */
    static const size_t sizes[] = {
        0,    1,    2,    3,    15,    17,    64,    255,   257,    1000,
        2048, 2049, 4095, 4097, 10007, 65535, 65536, 65537, 131073, CONF_MAX_FLOATS};
    return check_results(c, be, sizes, ARRAY_LEN(sizes), 200);
}

int conf_results_emulated(struct coll *c, struct backend *be)
{
    static const size_t sizes[] = {0, 1, 3, 17, 257, 4097, CONF_MAX_FLOATS};
    size_t n = ARRAY_LEN(sizes) - (c->world > 3); /* the work grows with the world's square */
    return check_results(c, be, sizes, n, 12);
}

int conf_missing(struct coll *c, struct backend *be, int missing)
{
    struct conf t;
    char name[32];
    if (c->rank == missing)
        return 0;
    if (!conf_init(&t, c, be))
        return conf_fini(&t);
    struct view x = packed(&t, 0, 1, 100, DT_F32);
    snprintf(name, sizeof name, "rank %d ", missing);
    expect(&t, "a missing rank", ST_TIMEOUT, c->ops->all_reduce(c, x, REDUCE_SUM));
    if (!strstr(status_text(), name))
        failed(&t, "'%s' does not name %s", status_text(), name);
    expect(&t, "poll after a failure", ST_PEER, c->ops->poll(c));
    expect(&t, "all_reduce after a failure", ST_PEER, c->ops->all_reduce(c, x, REDUCE_SUM));
    return conf_fini(&t);
}

int conf_closed(struct coll *c, struct backend *be, int early)
{
    struct conf t;
    char name[32];
    if (!conf_init(&t, c, be))
        return conf_fini(&t);
    struct view x = packed(&t, 0, 1, 100, DT_F32);
    expect(&t, "all_reduce of all ranks", ST_OK, c->ops->all_reduce(c, x, REDUCE_SUM));
    if (c->rank == early) {
        c->ops->close(c);
        return conf_fini(&t);
    }
    snprintf(name, sizeof name, "rank %d has closed", early);
    enum status st = c->ops->all_reduce(c, x, REDUCE_SUM);
    expect(&t, "a rank that has closed", ST_PEER, st == ST_OK ? t.ops->sync(be) : st);
    if (!strstr(status_text(), name))
        failed(&t, "'%s' does not say '%s'", status_text(), name);
    expect(&t, "poll after it", ST_PEER, c->ops->poll(c));
    return conf_fini(&t);
}

int conf_abort(struct coll *c, struct backend *be)
{
    struct conf t;
    if (!conf_init(&t, c, be))
        return conf_fini(&t);
    struct view x = packed(&t, 0, 1, 100, DT_F32);
    if (c->rank == 0) {
        c->ops->abort(c);
    } else {
        expect(&t, "all_reduce with an aborting rank", ST_PEER,
               c->ops->all_reduce(c, x, REDUCE_SUM));
        if (!strstr(status_text(), "rank 0 gave up"))
            failed(&t, "'%s' does not say that rank 0 gave up", status_text());
    }
    expect(&t, "poll after an abort", ST_PEER, c->ops->poll(c));
    return conf_fini(&t);
}
