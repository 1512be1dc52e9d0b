#include "ptx/ptx_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/oneshot.h"
#include "collectives/reduce.h"
#include "effort.h"
#include "ops/op_cases.h"
#include "ptx/ptx_cuda.h"

enum { MAX_N = 3000, PIECE_BYTES = 16384, BLOCKS_AT_ONCE = 32 };

struct rank {
    struct backend *be;
    struct oneshot one;
    struct buf *area, *failed, *x, *gathered;
};

struct group {
    struct rank rank[ONESHOT_MAX_WORLD];
    int world;
};

static const struct backend_ops *ops_of(const struct rank *r)
{
    return backend_ops_of(r->be);
}

static struct view floats(struct buf *b, size_t n)
{
    return (struct view){
        .buf = b, .rows = 1, .cols = (int32_t)n, .stride = (int32_t)n, .dtype = DT_F32};
}

static enum status open_rank(struct group *g, int i)
{
    struct rank *r = &g->rank[i];
    TRY(backend_open(&r->be, "cuda", &(struct backend_config){0}));
    r->one = (struct oneshot){
        .rank = i, .world = g->world, .piece_bytes = PIECE_BYTES, .limit_ns = UINT64_C(1) << 40};
    TRY(ops_of(r)->alloc(r->be, 64, MEM_PINNED, &r->failed));
    TRY(ops_of(r)->alloc(r->be, MAX_N * sizeof(float), MEM_DEVICE, &r->x));
    TRY(ops_of(r)->alloc(r->be, (size_t)g->world * MAX_N * sizeof(float), MEM_DEVICE,
                         &r->gathered));
    r->one.failed = ops_of(r)->pinned_ptr(r->be, r->failed);
    *r->one.failed = 0;
    return oneshot_make_area(r->be, &r->one, &r->area, NULL);
}

static enum status open_group(struct group *g, int world)
{
    *g = (struct group){.world = world};
    for (int i = 0; i < world; i++)
        TRY(open_rank(g, i));
    for (int i = 0; i < world; i++)
        for (int k = 0; k < world; k++)
            g->rank[i].one.area[k] = g->rank[k].area->data;
    return ST_OK;
}

static void close_group(struct group *g)
{
    for (int i = 0; i < g->world; i++) {
        struct rank *r = &g->rank[i];
        if (!r->be)
            continue;
        cuda_free(r->be, r->area);
        cuda_free(r->be, r->failed);
        cuda_free(r->be, r->x);
        cuda_free(r->be, r->gathered);
        ops_of(r)->close(r->be);
    }
}

static float value_of(int rank, size_t i)
{
    return in_f32((uint32_t)rank, (int64_t)i, 7) * (i % 3 ? 1.0f : 1e6f);
}

static enum status write_operands(struct group *g, size_t n)
{
    float x[MAX_N];
    for (int i = 0; i < g->world; i++) {
        for (size_t k = 0; k < n; k++)
            x[k] = value_of(i, k);
        TRY(ops_of(&g->rank[i])->write(g->rank[i].be, floats(g->rank[i].x, n), x));
    }
    return ST_OK;
}

/* want [n] is what every rank's buffer has. */
static enum status check_all(struct group *g, bool gathered, const float *want, size_t n)
{
    float *got = calloc(n, sizeof *got);
    if (!got)
        FAIL(ST_NOMEM, "no memory");
    for (int i = 0; i < g->world; i++) {
        struct rank *r = &g->rank[i];
        enum status st = ops_of(r)->read(r->be, got, floats(gathered ? r->gathered : r->x, n));
        size_t k = 0;
        while (st == ST_OK && k < n && bits_of_f32(got[k]) == bits_of_f32(want[k]))
            k++;
        if (st != ST_OK || k < n || *r->one.failed) {
            float bad = k < n ? got[k] : 0;
            free(got);
            TRY(st);
            FAIL(ST_BUG, "rank %d of %d, element %zu of %zu: %a; failed is %u", i, g->world, k, n,
                 (double)bad, *r->one.failed);
        }
    }
    free(got);
    return ST_OK;
}

static enum status check_reduce(struct group *g, size_t n, enum reduce_op op)
{
    static float part[ONESHOT_MAX_WORLD][MAX_N], want[MAX_N];
    const float *parts[ONESHOT_MAX_WORLD];
    for (int i = 0; i < g->world; i++) {
        parts[i] = part[i];
        for (size_t k = 0; k < n; k++)
            part[i][k] = value_of(i, k);
    }
    reduce_tree(want, parts, g->world, n, op);
    TRY(write_operands(g, n));
    for (int i = 0; i < g->world; i++)
        TRY(oneshot_reduce(g->rank[i].be, &g->rank[i].one, g->rank[i].x->data, n, (int)op));
    return check_all(g, false, want, n);
}

static enum status check_gather(struct group *g, size_t n)
{
    static float want[ONESHOT_MAX_WORLD * MAX_N];
    TRY(write_operands(g, n));
    for (int i = 0; i < g->world; i++) {
        struct rank *r = &g->rank[i];
        TRY(oneshot_gather(r->be, &r->one, r->x->data, r->gathered->data, n * sizeof(float),
                           n * sizeof(float)));
        for (size_t k = 0; k < n; k++)
            want[(size_t)i * n + k] = value_of(i, k);
    }
    return check_all(g, true, want, (size_t)g->world * n);
}

static enum status check_broadcast(struct group *g, size_t n)
{
    static float want[MAX_N];
    int root = g->world - 1;
    TRY(write_operands(g, n));
    for (size_t k = 0; k < n; k++)
        want[k] = value_of(root, k);
    for (int i = 0; i < g->world; i++)
        TRY(oneshot_broadcast(g->rank[i].be, &g->rank[i].one, g->rank[i].x->data, n * sizeof(float),
                              root));
    return check_all(g, false, want, n);
}

/* The parts of all ranks on one device, added there. */
static enum status check_tree(struct group *g, size_t n)
{
    static float part[ONESHOT_MAX_WORLD * MAX_N], want[MAX_N];
    const float *parts[ONESHOT_MAX_WORLD];
    struct rank *r = &g->rank[0];
    for (int i = 0; i < g->world; i++) {
        parts[i] = part + (size_t)i * n;
        for (size_t k = 0; k < n; k++)
            part[(size_t)i * n + k] = value_of(i, k);
    }
    reduce_tree(want, parts, g->world, n, REDUCE_SUM);
    TRY(ops_of(r)->write(r->be, floats(r->gathered, (size_t)g->world * n), part));
    for (int i = 0; i < g->world; i++)
        TRY(ops_of(&g->rank[i])->write(g->rank[i].be, floats(g->rank[i].x, n), want));
    TRY(cuda_reduce_tree(r->be, r->gathered, g->world, n, REDUCE_SUM, floats(r->x, n)));
    return check_all(g, false, want, n);
}

static enum status check_world(int world)
{
    struct group g;
    enum status st = open_group(&g, world);
    /* several epochs, each buffer twice; sizes with and without whole fours */
    static const size_t sizes[] = {1, 129, 1000, 2999};
    for (size_t i = 0; st == ST_OK && i < ARRAY_LEN(sizes); i++)
        st = check_reduce(&g, sizes[i], (enum reduce_op)(i % 3));
    if (st == ST_OK)
        st = check_gather(&g, 1001);
    if (st == ST_OK)
        st = check_broadcast(&g, 515);
    if (st == ST_OK)
        st = check_tree(&g, 777);
    close_group(&g);
    return st;
}

/* Rank 1 of two never comes, or says that it gives up: rank 0's kernel ends and names it. */
static enum status check_absence(bool gives_up)
{
    struct group g;
    enum status st = open_group(&g, 2);
    struct rank *r = &g.rank[0];
    r->one.limit_ns = gives_up ? UINT64_C(1) << 40 : 20000;
    if (st == ST_OK)
        st = oneshot_reduce(r->be, &r->one, r->x->data, 100, REDUCE_SUM);
    if (st == ST_OK && gives_up)
        st = oneshot_give_up(g.rank[1].be, &g.rank[1].one);
    if (st == ST_OK)
        st = ops_of(r)->sync(r->be);
    uint32_t failed = st == ST_OK ? *r->one.failed : 0;
    uint32_t want = gives_up ? 1 + ONESHOT_MAX_WORLD + 1 : 1 + 1;
    close_group(&g);
    TRY(st);
    if (failed != want)
        FAIL(ST_BUG, "failed is %u, not %u", failed, want);
    return ST_OK;
}

/* Rank 1 of two takes part in one call and closes: rank 0's next one ends and names it, and both leave
 * together. */
static enum status check_close(void)
{
    struct group g;
    enum status st = open_group(&g, 2);
    uint32_t failed[2] = {0};
    if (st == ST_OK)
        st = write_operands(&g, 100);
    for (int i = 0; st == ST_OK && i < 2; i++)
        st = oneshot_reduce(g.rank[i].be, &g.rank[i].one, g.rank[i].x->data, 100, REDUCE_SUM);
    if (st == ST_OK)
        st = oneshot_close(g.rank[1].be, &g.rank[1].one);
    if (st == ST_OK)
        st = oneshot_reduce(g.rank[0].be, &g.rank[0].one, g.rank[0].x->data, 100, REDUCE_SUM);
    if (st == ST_OK)
        st = oneshot_close(g.rank[0].be, &g.rank[0].one);
    for (int i = 0; st == ST_OK && i < 2; i++)
        st = ops_of(&g.rank[i])->sync(g.rank[i].be);
    for (int i = 0; st == ST_OK && i < 2; i++)
        failed[i] = *g.rank[i].one.failed;
    close_group(&g);
    TRY(st);
    if (failed[0] != 1 + 2 * ONESHOT_MAX_WORLD + 1 || failed[1] != 0)
        FAIL(ST_BUG, "failed is %u and %u", failed[0], failed[1]);
    return ST_OK;
}

static void report(struct tap *t, enum status st, const char *name, int world)
{
    tap_ok(t, st == ST_OK, "%s, %d ranks%s%s", name, world, st == ST_OK ? "" : ": ",
           st == ST_OK ? "" : status_detail());
}

void ptx_check_ranks(struct tap *t)
{
    static const int worlds[] = {2, 3, 8};
    ptx_machine_config(ptx_cuda_machine())->resident = BLOCKS_AT_ONCE;
    for (size_t i = 0; i < ARRAY_LEN(worlds); i++)
        if (worlds[i] < 8 || everything())
            report(t, check_world(worlds[i]), "one-shot collectives", worlds[i]);
    report(t, check_absence(false), "a rank that does not come", 2);
    report(t, check_absence(true), "a rank that gives up", 2);
    report(t, check_close(), "a rank that closes early", 2);
    ptx_machine_config(ptx_cuda_machine())->resident = 0;
}
