/* The collective over MPI, for any backend: operands are staged through host memory, exchanged
 * point to point (so that a rank that does not come has a name) and added here, in the order of the
 * contract.
 *
 * Long operands go in pieces.  A piece of up to DIRECT_BYTES is sent to everyone and everyone adds
 * all; of a longer one each rank adds its part and sends the sum (reduce-scatter, then all-gather).
 */
#include "collectives/mpi_coll.h"

#include <stdlib.h>

#include "collectives/check.h"
#include "collectives/reduce.h"
#include "collectives/wait.h"

enum { DIRECT_BYTES = 16 << 10, PIECE_BYTES = 512 << 10 };
enum { SPIN_US = 1000 }; /* within a step the peers are near: poll this long before sleeping */
enum { WITHDRAW_US = 200000 };
enum { TAG_DATA = 1, TAG_ABORT = 2 };

struct mpi_coll {
    struct coll head;
    struct coll_config cfg;
    MPI_Comm comm;
    MPI_Request abort_req; /* receives a peer's word that it gives up */
    int abort_by;
    bool broken;
    uint32_t keep_us;
    char *send; /* [piece] the operand; its parts become the result */
    char *recv; /* [world][recv_each] */
    size_t piece, recv_each;
    MPI_Request *req; /* [2 world]: receives from, then sends to each rank */
};

enum status mpi_fail(int mpi_error, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    MPI_Error_string(mpi_error, text, &len);
    FAIL(ST_PEER, "%.60s: %s", call, text);
}

/* Takes back what a failed collective has posted.  false: a transfer has begun that its peer does
 * not finish, and MPI keeps its buffers. */
static bool withdraw(struct mpi_coll *c)
{
    struct backoff b;
    int n = 2 * c->head.world, done = 0;
    for (int i = 0; i < c->head.world; i++) /* sends cannot be taken back */
        if (c->req[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&c->req[i]);
    backoff_start(&b, 0, SPIN_US);
    do
        if (MPI_Testall(n, c->req, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return false;
    while (!done && backoff_pause(&b) < WITHDRAW_US);
    return done;
}

static void mpi_close(struct coll *head)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    if (!c)
        return;
    if (c->abort_req != MPI_REQUEST_NULL) {
        MPI_Cancel(&c->abort_req);
        MPI_Wait(&c->abort_req, MPI_STATUS_IGNORE);
    }
    if (c->req && !withdraw(c))
        return;
    if (!c->broken) /* collective, and the peers of a broken one may be gone */
        MPI_Comm_free(&c->comm);
    free(c->send);
    free(c->recv);
    free(c->req);
    free(c);
}

static enum status mpi_check_job(const struct coll_config *cfg)
{
    int initialised = 0, rank, world;
    TRY(coll_check_config(cfg, "mpi"));
    MPI_TRY(MPI_Initialized(&initialised));
    if (!initialised)
        FAIL(ST_UNSUPPORTED, "mpi: this process was not started by mpirun");
    MPI_TRY(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &world));
    if (rank != cfg->rank || world != cfg->world)
        FAIL(ST_RANGE, "mpi: opened as rank %d of %d, but mpirun started rank %d of %d", cfg->rank,
             cfg->world, rank, world);
    return ST_OK;
}

static size_t piece_of(const struct coll_config *cfg)
{
    return cfg->max_bytes < PIECE_BYTES ? (cfg->max_bytes + 63) / 64 * 64 : PIECE_BYTES;
}

static size_t recv_each_of(const struct coll_config *cfg)
{
    size_t each = part_begin(piece_of(cfg) / sizeof(float), cfg->world, 1) * sizeof(float);
    return each < DIRECT_BYTES ? DIRECT_BYTES : each;
}

static size_t mpi_host_bytes(const struct coll_config *cfg)
{
    size_t world = (size_t)cfg->world;
    return sizeof(struct mpi_coll) + piece_of(cfg) + 64 + world * recv_each_of(cfg) +
           2 * world * sizeof(MPI_Request);
}

static enum status take_buffers(struct mpi_coll *c)
{
    size_t world = (size_t)c->cfg.world;
    c->piece = piece_of(&c->cfg);
    c->recv_each = recv_each_of(&c->cfg);
    c->send = malloc(c->piece + 64);
    c->recv = malloc(world * c->recv_each);
    c->req = malloc(2 * world * sizeof(MPI_Request));
    if (!c->send || !c->recv || !c->req)
        FAIL(ST_NOMEM, "mpi: no memory for %zu bytes of buffers", c->piece + world * c->recv_each);
    for (size_t i = 0; i < 2 * world; i++)
        c->req[i] = MPI_REQUEST_NULL;
    return ST_OK;
}

static enum status mpi_poll(struct coll *head)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    int came = 0;
    if (c->broken)
        FAIL(ST_PEER, "mpi: this communicator has failed before");
    if (c->abort_req != MPI_REQUEST_NULL)
        MPI_TRY(MPI_Test(&c->abort_req, &came, MPI_STATUS_IGNORE));
    if (!came)
        return ST_OK;
    c->broken = true; /* abort_req is no more */
    FAIL(ST_PEER, "mpi: rank %d gave up", c->abort_by);
}

static void mpi_abort(struct coll *head)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    c->broken = true;
    for (int p = 0; p < head->world; p++) {
        MPI_Request req = MPI_REQUEST_NULL;
        if (p == head->rank)
            continue;
        if (MPI_Isend(&head->rank, 1, MPI_INT, p, TAG_ABORT, c->comm, &req) == MPI_SUCCESS)
            MPI_Request_free(&req);
    }
}

static enum status missing(struct mpi_coll *c)
{
    int world = c->head.world;
    for (int i = 0; i < 2 * world; i++)
        if (c->req[i] != MPI_REQUEST_NULL)
            FAIL(ST_TIMEOUT, "mpi: rank %d did not come within %u ms", i % world,
                 (unsigned)c->cfg.deadline_ms);
    FAIL(ST_BUG, "mpi: nothing is missing");
}

/* Waits for all posted transfers. */
static enum status wait_all(struct mpi_coll *c)
{
    struct backoff b;
    uint64_t waited = 0;
    backoff_start(&b, c->keep_us, SPIN_US);
    for (unsigned i = 1;; i++) {
        int done = 0, e = MPI_Testall(2 * c->head.world, c->req, &done, MPI_STATUSES_IGNORE);
        if (e != MPI_SUCCESS)
            return mpi_fail(e, "MPI_Testall");
        if (done)
            return ST_OK;
        if (i % 16 != 0)
            continue;
        TRY(mpi_poll(&c->head));
        waited = backoff_pause(&b);
        if (waited / 1000 < c->cfg.deadline_ms)
            continue;
        for (int p = 0; p < 2 * c->head.world; p++) /* Testall completes all or none */
            if (c->req[p] != MPI_REQUEST_NULL)
                MPI_Test(&c->req[p], &done, MPI_STATUS_IGNORE);
        return missing(c);
    }
}

static enum status post_recv(struct mpi_coll *c, int from, void *dst, size_t bytes)
{
    MPI_TRY(MPI_Irecv(dst, (int)bytes, MPI_BYTE, from, TAG_DATA, c->comm, &c->req[from]));
    return ST_OK;
}

static enum status post_send(struct mpi_coll *c, int to, const void *src, size_t bytes)
{
    MPI_TRY(
        MPI_Isend(src, (int)bytes, MPI_BYTE, to, TAG_DATA, c->comm, &c->req[c->head.world + to]));
    return ST_OK;
}

/* Everyone gets everyone's len bytes of send: rank p's come to recv + p * recv_each. */
static enum status exchange(struct mpi_coll *c, size_t len)
{
    int world = c->head.world, rank = c->head.rank;
    for (int p = 0; p < world; p++)
        if (p != rank)
            TRY(post_recv(c, p, c->recv + (size_t)p * c->recv_each, len));
    for (int i = 1; i < world; i++)
        TRY(post_send(c, (rank + i) % world, c->send, len));
    return wait_all(c);
}

static enum status connect_ranks(struct mpi_coll *c)
{
    c->comm = MPI_COMM_WORLD; /* MPI_Comm_dup has no deadline: first see that all are here */
    TRY(exchange(c, 0));
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &c->comm));
    MPI_TRY(MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Irecv(&c->abort_by, 1, MPI_INT, MPI_ANY_SOURCE, TAG_ABORT, c->comm, &c->abort_req));
    return ST_OK;
}

static enum status mpi_open(struct coll **out, const struct coll_config *cfg)
{
    *out = NULL;
    TRY(mpi_check_job(cfg));
    struct mpi_coll *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "mpi: out of memory");
    c->head = (struct coll){.ops = &mpi_coll_ops, .rank = cfg->rank, .world = cfg->world};
    c->cfg = *cfg;
    c->abort_req = MPI_REQUEST_NULL;
    c->keep_us = wait_keep_us(cfg->world);
    enum status st = take_buffers(c);
    if (st == ST_OK)
        st = connect_ranks(c);
    if (st != ST_OK) {
        c->broken = true;
        mpi_close(&c->head);
        return st;
    }
    *out = &c->head;
    return ST_OK;
}

/* send [n] becomes the sum over the ranks; every rank adds part_begin's part of its own. */
static enum status reduce_parts(struct mpi_coll *c, size_t n, enum reduce_op op)
{
    int world = c->head.world, rank = c->head.rank;
    float *x = (float *)(void *)c->send;
    const float *src[COLL_MAX_WORLD];
    size_t mine = part_begin(n, world, rank), len = part_begin(n, world, rank + 1) - mine;

    for (int p = 0; p < world; p++) {
        src[p] = p == rank ? x + mine : (float *)(void *)(c->recv + (size_t)p * c->recv_each);
        if (p != rank && len > 0)
            TRY(post_recv(c, p, c->recv + (size_t)p * c->recv_each, len * sizeof *x));
    }
    for (int i = 1; i < world; i++) {
        int p = (rank + i) % world;
        size_t at = part_begin(n, world, p), end = part_begin(n, world, p + 1);
        if (end > at)
            TRY(post_send(c, p, x + at, (end - at) * sizeof *x));
    }
    TRY(wait_all(c));
    reduce_tree(x + mine, src, world, len, op);
    for (int i = 1; i < world; i++) {
        int p = (rank + i) % world;
        size_t at = part_begin(n, world, p), end = part_begin(n, world, p + 1);
        if (end > at)
            TRY(post_recv(c, p, x + at, (end - at) * sizeof *x));
        if (len > 0)
            TRY(post_send(c, p, x + mine, len * sizeof *x));
    }
    return wait_all(c);
}

static enum status reduce_direct(struct mpi_coll *c, size_t n, enum reduce_op op)
{
    const float *src[COLL_MAX_WORLD];
    for (int p = 0; p < c->head.world; p++)
        src[p] =
            (const float *)(const void *)(p == c->head.rank ? c->send
                                                            : c->recv + (size_t)p * c->recv_each);
    TRY(exchange(c, n * sizeof(float)));
    reduce_tree((float *)(void *)c->send, src, c->head.world, n, op);
    return ST_OK;
}

/* Bytes [at, at + len) of a packed view. */
static struct view window(struct view v, size_t at, size_t len)
{
    int32_t cols = (int32_t)(len / dtype_size(v.dtype));
    return (struct view){
        .buf = v.buf, .off = v.off + at, .rows = 1, .cols = cols, .stride = cols, .dtype = v.dtype};
}

/* After a failure the ranks no longer stand at the same point. */
static enum status settle(struct mpi_coll *c, enum status st)
{
    if (st != ST_OK)
        c->broken = true;
    return st;
}

static enum status reduce_pieces(struct mpi_coll *c, struct view x, size_t bytes, enum reduce_op op)
{
    struct backend *be = c->cfg.be;
    const struct backend_ops *ops = backend_ops_of(be);
    size_t len;
    for (size_t at = 0; at < bytes; at += len) {
        len = bytes - at < c->piece ? bytes - at : c->piece;
        TRY(ops->read(be, c->send, window(x, at, len)));
        TRY(len <= DIRECT_BYTES ? reduce_direct(c, len / sizeof(float), op)
                                : reduce_parts(c, len / sizeof(float), op));
        TRY(ops->write(be, window(x, at, len), c->send));
    }
    return ST_OK;
}

static enum status mpi_all_reduce(struct coll *head, struct view x, enum reduce_op op)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    size_t n;
    TRY(coll_check_reduce(&c->cfg, x, op, &n));
    TRY(mpi_poll(head));
    return settle(c, reduce_pieces(c, x, n * sizeof(float), op));
}

static enum status gather_pieces(struct mpi_coll *c, struct view src, struct view dst, size_t bytes)
{
    struct backend *be = c->cfg.be;
    const struct backend_ops *ops = backend_ops_of(be);
    size_t len, most = c->recv_each < c->piece ? c->recv_each : c->piece;
    for (size_t at = 0; at < bytes; at += len) {
        len = bytes - at < most ? bytes - at : most;
        TRY(ops->read(be, c->send, window(src, at, len)));
        TRY(exchange(c, len));
        for (int p = 0; p < c->head.world; p++)
            TRY(ops->write(be, window(dst, (size_t)p * bytes + at, len),
                           p == c->head.rank ? c->send : c->recv + (size_t)p * c->recv_each));
    }
    return ST_OK;
}

static enum status mpi_all_gather(struct coll *head, struct view src, struct view dst)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    size_t bytes;
    TRY(coll_check_gather(&c->cfg, src, dst, &bytes));
    TRY(mpi_poll(head));
    return settle(c, gather_pieces(c, src, dst, bytes));
}

static enum status broadcast_piece(struct mpi_coll *c, struct view x, int root)
{
    struct backend *be = c->cfg.be;
    const struct backend_ops *ops = backend_ops_of(be);
    size_t len = (size_t)x.cols * dtype_size(x.dtype);
    if (c->head.rank == root) {
        TRY(ops->read(be, c->send, x));
        for (int i = 1; i < c->head.world; i++)
            TRY(post_send(c, (root + i) % c->head.world, c->send, len));
        return wait_all(c);
    }
    TRY(ops->sync(be)); /* an earlier write may still read the buffer */
    TRY(post_recv(c, root, c->send, len));
    TRY(wait_all(c));
    return ops->write(be, x, c->send);
}

static enum status mpi_broadcast(struct coll *head, struct view x, int root)
{
    struct mpi_coll *c = (struct mpi_coll *)head;
    size_t bytes, len;
    TRY(coll_check_broadcast(&c->cfg, x, root, &bytes));
    TRY(mpi_poll(head));
    for (size_t at = 0; at < bytes; at += len) {
        len = bytes - at < c->piece ? bytes - at : c->piece;
        TRY(settle(c, broadcast_piece(c, window(x, at, len), root)));
    }
    return ST_OK;
}

const struct coll_ops mpi_coll_ops = {
    .name = "mpi",
    .host_bytes = mpi_host_bytes,
    .open = mpi_open,
    .close = mpi_close,
    .all_reduce = mpi_all_reduce,
    .all_gather = mpi_all_gather,
    .broadcast = mpi_broadcast,
    .poll = mpi_poll,
    .abort = mpi_abort,
};
