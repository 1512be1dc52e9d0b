/* Small operands go through the one-shot kernels of "ipc" where the devices share memory.  NCCL is connected
 * and warmed up before these: its first call of a kind makes connections, which a recording does
 * not allow.
 *
 * Sums in the contract's order: two ranks add in one way only, so NCCL does it.  With more, rank r
 * receives every rank's r-th share of the operand, adds the tree itself (cuda_reduce_tree), and the
 * sums are gathered: each rank receives twice the operand, whatever their number.  Small operands are
 * gathered whole, in one exchange.  With any_order NCCL reduces as it likes. */
#include "collectives/nccl_coll.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "collectives/check.h"
#include "collectives/control.h"
#include "collectives/ipc_coll.h"
#include "collectives/nccl_api.h"
#include "collectives/segment.h"
#include "common/clock.h"
#include "common/log.h"

enum {
    PIECE_BYTES = 4 << 20,   /* of an operand that each rank gives at once */
    WHOLE_BYTES = 32 << 10,  /* operands up to here are gathered whole */
    SMALL_BYTES = 256 << 10, /* up to here the one-shot kernels are faster */
};

struct nccl_coll {
    struct coll head;
    struct coll_config cfg;
    struct nccl_api api;
    ncclComm_t comm;
    struct coll *small;   /* "ipc", for operands up to SMALL_BYTES; NULL: not possible here */
    struct buf *gathered; /* [world, piece] f32 */
    size_t piece;         /* floats */
    bool broken;
    struct nccl_board *board; /* of the ranks of this host, or of this one alone */
    struct segment shared;    /* that holds it, if any */
    struct nccl_board alone;
};

static enum status failed(struct nccl_coll *c, enum status st, const char *what, const char *why)
{
    c->broken = true;
    FAIL(st, "nccl: rank %d of %d: %s: %s", c->head.rank, c->head.world, what, why);
}

static enum status nccl_says(struct nccl_coll *c, const char *what, ncclResult_t r)
{
    const char *detail = c->comm ? c->api.GetLastError(c->comm) : "";
    if (detail && detail[0])
        return failed(c, ST_PEER, what, detail);
    return failed(c, ST_PEER, what, c->api.GetErrorString(r));
}

/* The rank that has begun fewer collectives than this one, or -1. */
static int behind(const struct nccl_coll *c)
{
    uint64_t mine = atomic_load(&c->board->n_calls[c->head.rank]);
    for (int r = 0; c->board != &c->alone && r < c->head.world; r++)
        if (atomic_load(&c->board->n_calls[r]) < mine)
            return r;
    return -1;
}

/* A rank of this host that has closed, or -1. */
static int closed(const struct nccl_coll *c)
{
    for (int r = 0; r < c->head.world; r++)
        if (r != c->head.rank && atomic_load(&c->board->closed[r]))
            return r;
    return -1;
}

/* One that has closed before it began what this one has begun, or -1. */
static int closed_behind(const struct nccl_coll *c)
{
    uint64_t mine = atomic_load(&c->board->n_calls[c->head.rank]);
    for (int r = 0; r < c->head.world; r++)
        if (atomic_load(&c->board->closed[r]) && atomic_load(&c->board->n_calls[r]) < mine)
            return r;
    return -1;
}

static enum status too_late(struct nccl_coll *c, const char *what)
{
    int r = behind(c), gone = closed(c);
    char who[48] = "a rank", why[96];
    if (r >= 0)
        snprintf(who, sizeof who, "rank %d", r);
    else if (gone >= 0) /* calls of a recorded step are not counted */
        snprintf(who, sizeof who, "rank %d, which has closed,", gone);
    snprintf(why, sizeof why, "%s did not come within %u ms", who, c->cfg.deadline_ms);
    return failed(c, ST_TIMEOUT, what, why);
}

/* Has a rank of this host given up, or closed? */
static enum status look_at_board(struct nccl_coll *c, const char *what)
{
    uint32_t by = atomic_load(&c->board->gave_up);
    char why[32];
    int r = closed_behind(c);
    if (by == 0 && r < 0)
        return ST_OK;
    if (by != 0)
        snprintf(why, sizeof why, "rank %u gave up", by - 1);
    else
        snprintf(why, sizeof why, "rank %d has closed", r);
    return failed(c, ST_PEER, what, why);
}

static bool late(const struct nccl_coll *c, uint64_t waited_us)
{
    return waited_us > c->cfg.deadline_ms * UINT64_C(1000);
}

/* A call of a non-blocking communicator has returned r:
 * waits until it is carried out or enqueued. */
static enum status finish(struct nccl_coll *c, const char *what, ncclResult_t r)
{
    uint64_t from = clock_us();
    while (r == ncclInProgress || r == ncclSuccess) {
        ncclResult_t state = ncclSuccess;
        r = c->comm ? c->api.CommGetAsyncError(c->comm, &state) : ncclSuccess;
        if (r != ncclSuccess)
            break;
        if (state == ncclSuccess)
            return ST_OK;
        r = state;
        TRY(look_at_board(c, what));
        if (r == ncclInProgress && late(c, clock_us() - from))
            return too_late(c, what);
        sched_yield();
    }
    return nccl_says(c, what, r);
}

#define NCCL_TRY(c, what, call)                                                                    \
    do {                                                                                           \
        if ((c)->broken)                                                                           \
            FAIL(ST_PEER, "nccl: this communicator has failed before");                            \
        atomic_fetch_add(&(c)->board->n_calls[(c)->head.rank], 1);                                 \
        TRY(finish((c), (what), (call)));                                                          \
    } while (0)

/* While the host waits for the device: has a peer failed, or taken too long? */
static enum status watch(void *ctx, uint64_t waited_us)
{
    struct nccl_coll *c = ctx;
    ncclResult_t state = ncclSuccess, r;
    if (c->broken)
        FAIL(ST_PEER, "nccl: this communicator has failed before");
    r = c->api.CommGetAsyncError(c->comm, &state);
    if (r == ncclSuccess)
        r = state;
    if (r != ncclSuccess && r != ncclInProgress)
        return nccl_says(c, "a peer has failed", r);
    TRY(look_at_board(c, "waiting for the device"));
    if (c->small)
        TRY(c->small->ops->poll(c->small));
    return late(c, waited_us) ? too_late(c, "waiting for the device") : ST_OK;
}

static enum status nccl_poll(struct coll *head)
{
    return watch(head, 0);
}

static void nccl_abort(struct coll *head)
{
    struct nccl_coll *c = (struct nccl_coll *)head;
    uint32_t none = 0;
    atomic_compare_exchange_strong(&c->board->gave_up, &none, (uint32_t)c->head.rank + 1);
    c->broken = true;
    if (c->small)
        c->small->ops->abort(c->small);
    if (c->comm)
        c->api.CommAbort(c->comm);
    c->comm = NULL;
}

static void nccl_close(struct coll *head)
{
    struct nccl_coll *c = (struct nccl_coll *)head;
    if (!c)
        return;
    if (!c->broken)
        atomic_store(&c->board->closed[c->head.rank], 1);
    if (c->small)
        c->small->ops->close(c->small);
    cuda_watch(c->cfg.be, NULL, NULL);
    if (c->comm && !c->broken && finish(c, "finalize", c->api.CommFinalize(c->comm)) == ST_OK)
        c->api.CommDestroy(c->comm);
    else if (c->comm)
        c->api.CommAbort(c->comm);
    if (c->gathered)
        backend_ops_of(c->cfg.be)->free(c->cfg.be, c->gathered);
    segment_unmap(&c->shared);
    free(c);
}

static struct view floats(struct buf *b, size_t off_bytes, size_t n)
{
    return (struct view){.buf = b,
                         .off = off_bytes,
                         .rows = 1,
                         .cols = (int32_t)n,
                         .stride = (int32_t)n,
                         .dtype = DT_F32};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum status reduce_piece(struct nccl_coll *c, struct view x, enum reduce_op op, size_t n)
{
    void *to = cuda_device_ptr(floats(c->gathered, 0, n * (size_t)c->head.world));
    NCCL_TRY(
        c, "all_reduce",
        c->api.AllGather(cuda_device_ptr(x), to, n, ncclFloat32, c->comm, cuda_stream(c->cfg.be)));
    return cuda_reduce_tree(c->cfg.be, c->gathered, c->head.world, n, (int)op, x);
}

/* Shares [world][n] of x: share r of every rank to rank r. */
static enum status exchange(struct nccl_coll *c, struct view x, size_t n)
{
    float *from = cuda_device_ptr(x),
          *to = cuda_device_ptr(floats(c->gathered, 0, n * (size_t)c->head.world));
    ncclResult_t r = c->api.GroupStart();
    for (int rank = 0; r == ncclSuccess && rank < c->head.world; rank++) {
        size_t at = (size_t)rank * n;
        r = c->api.Send(from + at, n, ncclFloat32, rank, c->comm, cuda_stream(c->cfg.be));
        if (r == ncclSuccess || r == ncclInProgress)
            r = c->api.Recv(to + at, n, ncclFloat32, rank, c->comm, cuda_stream(c->cfg.be));
        r = r == ncclInProgress ? ncclSuccess : r;
    }
    if (r != ncclSuccess)
        return nccl_says(c, "all_reduce", r);
    NCCL_TRY(c, "all_reduce", c->api.GroupEnd());
    return ST_OK;
}

/* x [world * n], in shares. */
static enum status reduce_shares(struct nccl_coll *c, struct view x, enum reduce_op op, size_t n)
{
    struct view own = floats(x.buf, x.off + (size_t)c->head.rank * n * sizeof(float), n);
    TRY(exchange(c, x, n));
    TRY(cuda_reduce_tree(c->cfg.be, c->gathered, c->head.world, n, (int)op, own));
    NCCL_TRY(c, "all_reduce",
             c->api.AllGather(cuda_device_ptr(own), cuda_device_ptr(x), n, ncclFloat32, c->comm,
                              cuda_stream(c->cfg.be)));
    return ST_OK;
}

/* In the order of the tree. */
static enum status reduce_in_order(struct nccl_coll *c, struct view x, enum reduce_op op, size_t n)
{
    size_t world = (size_t)c->head.world, at = 0;
    while ((n - at) * sizeof(float) > WHOLE_BYTES && n - at >= world) {
        size_t share = least((n - at) / world, c->piece);
        TRY(reduce_shares(c, floats(x.buf, x.off + at * sizeof(float), share * world), op, share));
        at += share * world;
    }
    for (size_t some; at < n; at += some) {
        some = least(n - at, c->piece);
        TRY(reduce_piece(c, floats(x.buf, x.off + at * sizeof(float), some), op, some));
    }
    return ST_OK;
}

static enum status nccl_all_reduce(struct coll *head, struct view x, enum reduce_op op)
{
    struct nccl_coll *c = (struct nccl_coll *)head;
    size_t n;
    TRY(coll_check_reduce(&c->cfg, x, op, &n));
    if (n == 0)
        return ST_OK;
    if (c->small && n * sizeof(float) <= SMALL_BYTES)
        return c->small->ops->all_reduce(c->small, x, op);
    if (op == REDUCE_SUM && (c->head.world <= 2 || c->cfg.any_order)) {
        void *p = cuda_device_ptr(x);
        NCCL_TRY(c, "all_reduce",
                 c->api.AllReduce(p, p, n, ncclFloat32, ncclSum, c->comm, cuda_stream(c->cfg.be)));
        return ST_OK;
    }
    return reduce_in_order(c, x, op, n);
}

static enum status nccl_all_gather(struct coll *head, struct view src, struct view dst)
{
    struct nccl_coll *c = (struct nccl_coll *)head;
    size_t bytes;
    TRY(coll_check_gather(&c->cfg, src, dst, &bytes));
    if (bytes == 0)
        return ST_OK;
    if (c->small && bytes * (size_t)c->head.world <= SMALL_BYTES)
        return c->small->ops->all_gather(c->small, src, dst);
    NCCL_TRY(c, "all_gather",
             c->api.AllGather(cuda_device_ptr(src), cuda_device_ptr(dst), bytes, ncclUint8, c->comm,
                              cuda_stream(c->cfg.be)));
    return ST_OK;
}

static enum status nccl_broadcast(struct coll *head, struct view x, int root)
{
    struct nccl_coll *c = (struct nccl_coll *)head;
    size_t bytes;
    TRY(coll_check_broadcast(&c->cfg, x, root, &bytes));
    if (bytes == 0)
        return ST_OK;
    void *p = cuda_device_ptr(x);
    if (c->small && bytes <= SMALL_BYTES)
        return c->small->ops->broadcast(c->small, x, root);
    NCCL_TRY(c, "broadcast",
             c->api.Broadcast(p, p, bytes, ncclUint8, root, c->comm, cuda_stream(c->cfg.be)));
    return ST_OK;
}

/* Every operation once, through NCCL: it makes its connections when they are first used, and that is
 * not possible while a graph is recorded. */
static enum status warm_up(struct nccl_coll *c)
{
    assert(!c->small);
    size_t world = (size_t)c->head.world;
    struct view one = floats(c->gathered, 0, 1);
    TRY(nccl_all_reduce(&c->head, one, REDUCE_SUM));
    TRY(nccl_all_gather(
        &c->head, floats(c->gathered, (size_t)c->head.rank * sizeof(float), 1),
        (struct view){
            .buf = c->gathered, .rows = (int32_t)world, .cols = 1, .stride = 1, .dtype = DT_F32}));
    TRY(nccl_broadcast(&c->head, one, 0));
    if (world > 2 && !c->cfg.any_order && c->piece > 1) /* behind what it writes */
        TRY(exchange(c, floats(c->gathered, world * sizeof(float), world), 1));
    return backend_ops_of(c->cfg.be)->sync(c->cfg.be);
}

static size_t piece_of(const struct coll_config *cfg)
{
    size_t all = cfg->max_bytes / sizeof(float) + 1, most = PIECE_BYTES / sizeof(float);
    return least(all, most);
}

static size_t gathered_bytes(const struct coll_config *cfg)
{
    return (size_t)cfg->world * piece_of(cfg) * sizeof(float);
}

/* May small sums go through "ipc"? */
static bool small_possible(const struct coll_config *cfg)
{
    return cfg->one_host && cfg->world >= 2 && cfg->world <= ONESHOT_MAX_WORLD;
}

static struct coll_config small_config(const struct coll_config *cfg)
{
    struct coll_config small = *cfg;
    small.max_bytes = least(cfg->max_bytes, SMALL_BYTES);
    return small;
}

static size_t nccl_device_bytes(const struct coll_config *cfg)
{
    struct coll_config small = small_config(cfg);
    return alloc_bytes(gathered_bytes(cfg)) + (small_possible(cfg) ? ipc_device_bytes(&small) : 0);
}

static enum status connect(struct nccl_coll *c, const unsigned char *bytes)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memcpy(&id, bytes, sizeof id);
    config.blocking = 0;
    TRY(cuda_use(c->cfg.be));
    ncclResult_t r = c->api.CommInitRankConfig(&c->comm, c->head.world, id, c->head.rank, &config);
    TRY(finish(c, "connecting", r));
    c->piece = piece_of(&c->cfg);
    TRY(backend_ops_of(c->cfg.be)->alloc(c->cfg.be, gathered_bytes(&c->cfg), MEM_DEVICE,
                                         &c->gathered));
    cuda_watch(c->cfg.be, watch, c);
    return warm_up(c);
}

enum status nccl_take_host_id(const struct coll_config *cfg)
{
    char id[64];
    if (!cfg->share_device)
        return ST_OK;
    snprintf(id, sizeof id, "ingot-%016llx-%d", (unsigned long long)cfg->session, cfg->rank);
    if (setenv("NCCL_HOSTID", id, 0) != 0)
        FAIL(ST_NOMEM, "nccl: no memory for NCCL_HOSTID");
    return ST_OK;
}

static enum status create(struct nccl_coll **out, const struct coll_config *cfg)
{
    TRY(coll_check_config(cfg, "nccl"));
    if (!cuda_is(cfg->be))
        FAIL(ST_UNSUPPORTED, "nccl: for the CUDA backend only");
    TRY(nccl_take_host_id(cfg));
    struct nccl_coll *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "nccl: out of memory");
    c->head = (struct coll){.ops = &nccl_coll_ops, .rank = cfg->rank, .world = cfg->world};
    c->cfg = *cfg;
    c->board = &c->alone;
    *out = c;
    return ST_OK;
}

/* Connects c, or ends it without a farewell to peers that may not be there. */
static enum status join(struct coll **out, struct nccl_coll *c, const unsigned char *id)
{
    enum status st = nccl_load(&c->api);
    if (st == ST_OK)
        st = connect(c, id);
    if (st != ST_OK) {
        c->broken = true;
        nccl_close(&c->head);
        return st;
    }
    *out = &c->head;
    return ST_OK;
}

enum status nccl_join(struct coll **out, const struct coll_config *cfg,
                      const unsigned char id[NCCL_ID_BYTES], struct nccl_board *board)
{
    struct nccl_coll *c;
    *out = NULL;
    TRY(create(&c, cfg));
    c->board = board;
    return join(out, c, id);
}

enum status nccl_unique_id(unsigned char id[NCCL_ID_BYTES])
{
    struct nccl_api api;
    ncclUniqueId made;
    _Static_assert(sizeof made == NCCL_ID_BYTES, "the size of NCCL's unique id");
    TRY(nccl_load(&api));
    ncclResult_t r = api.GetUniqueId(&made);
    if (r != ncclSuccess)
        FAIL(ST_DEVICE, "nccl: no unique id: %s", api.GetErrorString(r));
    memcpy(id, &made, sizeof made);
    return ST_OK;
}

enum { BOARD_NAME = 48 };

static const char *board_name(const struct coll_config *cfg, char name[BOARD_NAME])
{
    snprintf(name, BOARD_NAME, "/ingot-nccl-%016llx", (unsigned long long)cfg->session);
    return name;
}

/* The board of ranks of one host; ranks on several have none. */
static enum status share_board(struct nccl_coll *c)
{
    char name[BOARD_NAME];
    size_t bytes = sizeof *c->board;
    if (!c->cfg.one_host || c->head.world == 1)
        return ST_OK;
    board_name(&c->cfg, name);
    if (c->head.rank == 0)
        TRY(segment_create(&c->shared, name, bytes));
    else
        TRY(segment_open(&c->shared, name, bytes, c->cfg.deadline_ms));
    c->board = c->shared.at;
    return ST_OK;
}

static enum status exchange_id(const struct nccl_coll *c, unsigned char *id)
{
    size_t len = NCCL_ID_BYTES;
    if (c->head.rank == 0)
        TRY(nccl_unique_id(id));
    TRY(control_bcast(id, NCCL_ID_BYTES, &len, c->cfg.deadline_ms));
    if (len != NCCL_ID_BYTES)
        FAIL(ST_PEER, "nccl: an id of %zu bytes from rank 0", len);
    return ST_OK;
}

/* Ranks of one host whose devices can share memory: all of them or none.  They wait for each other
 * without a deadline, so all have joined before. */
static void open_small(struct nccl_coll *c)
{
    struct coll_config cfg = small_config(&c->cfg);
    if (!small_possible(&cfg))
        return;
    enum status st = ipc_coll_ops.open(&c->small, &cfg);
    if (st != ST_OK)
        log_failure(LOG_INFO, st, "small sums go through NCCL too");
    cuda_watch(c->cfg.be, watch, c); /* it asks the small one too */
}

static enum status nccl_open(struct coll **out, const struct coll_config *cfg)
{
    unsigned char id[NCCL_ID_BYTES] = {0};
    struct nccl_coll *c;
    *out = NULL;
    TRY(create(&c, cfg));
    enum status st = share_board(c);
    if (st == ST_OK)
        st = exchange_id(c, id);
    if (st == ST_OK) {
        st = join(out, c, id);
        if (st == ST_OK)
            open_small(c);
    } else {
        c->broken = true;
        nccl_close(&c->head);
    }
    if (cfg->rank == 0 && cfg->one_host && cfg->world > 1) {
        /* all have mapped the board: they are connected, or it is of no use */
        char name[BOARD_NAME];
        segment_unlink(board_name(cfg, name));
    }
    return st;
}

const struct coll_ops nccl_coll_ops = {
    .name = "nccl",
    .in_graph = true,
    .device_bytes = nccl_device_bytes,
    .open = nccl_open,
    .close = nccl_close,
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .broadcast = nccl_broadcast,
    .poll = nccl_poll,
    .abort = nccl_abort,
};
