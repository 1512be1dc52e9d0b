/* The control plane over MPI.  A broadcast goes down a binomial tree of point-to-point messages:
 * unlike MPI_Ibcast a receive can be withdrawn, and a peer that does not come has a name.  The
 * ranks on rank 0's host sleep on a doorbell in shared memory. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control_ops.h"
#include "collectives/doorbell.h"
#include "collectives/mpi_coll.h"
#include "collectives/mpi_segments.h"
#include "collectives/segment.h"
#include "collectives/wait.h"
#include "common/clock.h"
#include "common/log.h"

enum { TAG_HEAD = 1, TAG_REST = 2 };
enum { HEAD_BYTES = 4000 }; /* of a message; below Open MPI's eager limit of 4096 */
enum { MAX_CHILDREN = 31 }; /* of a binomial tree */
enum { START_SPIN_US = 1000, BELL_US = 1000000, BELL_OPEN_MS = 10000 };

struct head {
    uint64_t len;           /* of the whole message */
    char bytes[HEAD_BYTES]; /* its beginning */
};

static struct {
    struct control_info info;
    MPI_Comm comm;
    struct segment bell_memory;
    struct doorbell *bell; /* NULL: not on rank 0's host */
    uint32_t n_heard;      /* broadcasts received; equals the bell's rings when idle */
    uint32_t keep_us, spin_us;
    bool broken;
    struct head head;
    MPI_Request head_req; /* the receive of the next head; stays posted over time-outs */
} m;

/* Waits without deadline. */
static enum status wait_request(MPI_Request *req)
{
    struct backoff b;
    backoff_start(&b, m.keep_us, START_SPIN_US);
    for (;;) {
        int done = 0;
        MPI_TRY(MPI_Test(req, &done, MPI_STATUS_IGNORE));
        if (done)
            return ST_OK;
        backoff_pause(&b);
    }
}

static enum status mpi_min_u64(uint64_t *v)
{
    MPI_Request req;
    uint64_t mine = *v;
    MPI_TRY(MPI_Iallreduce(&mine, v, 1, MPI_UINT64_T, MPI_MIN, m.comm, &req));
    return wait_request(&req);
}

static enum status mpi_barrier(void)
{
    MPI_Request req;
    MPI_TRY(MPI_Ibarrier(m.comm, &req));
    return wait_request(&req);
}

static enum status mpi_gather(const void *mine, size_t len, void *out)
{
    MPI_Request req;
    if (len > INT_MAX)
        FAIL(ST_RANGE, "a gather of %zu bytes from each rank", len);
    MPI_TRY(MPI_Igather(mine, (int)len, MPI_BYTE, out, (int)len, MPI_BYTE, 0, m.comm, &req));
    return wait_request(&req);
}

/* The ranks of rank 0's host map one doorbell; the others have none. */
static enum status open_bell(MPI_Comm host)
{
    struct { /* what host's first rank tells */
        int32_t has_rank_0, made;
        char name[56];
    } told = {0};
    enum status st = ST_OK;
    int mapped, all;

    if (m.info.rank == 0) {
        snprintf(told.name, sizeof told.name, "/ingot-bell-%ld-%08x", (long)getpid(),
                 (unsigned)clock_us()); /* macOS allows 31 bytes */
        st = segment_create(&m.bell_memory, told.name, sizeof(struct doorbell));
        told.has_rank_0 = 1;
        told.made = st == ST_OK;
    }
    MPI_TRY(MPI_Bcast(&told, (int)sizeof told, MPI_BYTE, 0, host));
    if (!told.has_rank_0)
        return ST_OK;
    if (told.made && m.info.rank != 0)
        st = segment_open(&m.bell_memory, told.name, sizeof(struct doorbell), BELL_OPEN_MS);
    mapped = m.bell_memory.at != NULL;
    MPI_TRY(MPI_Allreduce(&mapped, &all, 1, MPI_INT, MPI_MIN, host));
    if (m.info.rank == 0 && told.made)
        segment_unlink(told.name);
    if (all) {
        m.bell = m.bell_memory.at;
        return ST_OK;
    }
    if (st != ST_OK)
        log_failure(LOG_WARN, st, "no doorbell between the ranks, idle ones poll");
    segment_unmap(&m.bell_memory);
    return ST_OK;
}

static enum status describe(MPI_Comm *host)
{
    struct control_info *info = &m.info;
    MPI_TRY(MPI_Comm_dup(MPI_COMM_WORLD, &m.comm));
    MPI_TRY(MPI_Comm_set_errhandler(m.comm, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_rank(m.comm, &info->rank));
    MPI_TRY(MPI_Comm_size(m.comm, &info->world));
    MPI_TRY(MPI_Comm_split_type(m.comm, MPI_COMM_TYPE_SHARED, info->rank, MPI_INFO_NULL, host));
    MPI_TRY(MPI_Comm_rank(*host, &info->local_rank));
    MPI_TRY(MPI_Comm_size(*host, &info->local_world));
    m.keep_us = wait_keep_us(info->local_world);
    info->one_host = info->local_world == info->world;
    return ST_OK;
}

/* The files of Open MPI's shared memory lose their names once all ranks of the host have mapped
 * them, so that no death leaves one behind. */
static enum status unlink_segments(MPI_Comm host)
{
    int n = m.info.local_world, mapped = mpi_segments_find(n), fewest;
    MPI_TRY(MPI_Allreduce(&mapped, &fewest, 1, MPI_INT, MPI_MIN, host));
    if (n > 1 && fewest == n)
        mpi_segments_unlink(m.info.local_rank);
    return ST_OK;
}

static enum status mpi_open(struct control_info *out)
{
    int have = 0;
    MPI_Comm host = MPI_COMM_NULL;
    m.head_req = MPI_REQUEST_NULL;
    m.spin_us = 20;
    MPI_TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &have));
    enum status st = describe(&host);
    if (st == ST_OK)
        st = open_bell(host);
    if (st == ST_OK)
        st = unlink_segments(host);
    if (host != MPI_COMM_NULL)
        MPI_Comm_free(&host);
    *out = m.info;
    return st;
}

static void mpi_close(void)
{
    if (m.head_req != MPI_REQUEST_NULL) {
        MPI_Cancel(&m.head_req);
        MPI_Wait(&m.head_req, MPI_STATUS_IGNORE);
    }
    segment_unmap(&m.bell_memory);
    m.bell = NULL;
    MPI_Comm_free(&m.comm);
    mpi_segments_name_again();
    MPI_Finalize();
}

/* Rank r receives from r without its lowest set bit, and sends to r + 2^k below that bit. */
static int parent_of(int rank)
{
    return rank & (rank - 1);
}

static int children_of(int rank, int world, int *child)
{
    int n = 0, below = rank ? rank & -rank : INT_MAX;
    for (int step = 1; step < below && step < world - rank; step *= 2)
        child[n++] = rank + step;
    return n;
}

/* Waits until all of n sends are taken.  timeout_ms 0: for ever. */
static enum status wait_sends(MPI_Request *req, const int *to, int n, uint32_t timeout_ms)
{
    struct backoff b;
    backoff_start(&b, m.keep_us, START_SPIN_US);
    for (int i = 0; i < n;) {
        int done = 0;
        MPI_TRY(MPI_Test(&req[i], &done, MPI_STATUS_IGNORE));
        if (done)
            i++;
        else if (backoff_pause(&b) / 1000 >= timeout_ms && timeout_ms)
            FAIL(ST_TIMEOUT, "rank %d has not taken a broadcast within %u ms", to[i],
                 (unsigned)timeout_ms);
    }
    return ST_OK;
}

/* Sends len bytes to the children, the farthest (with the deepest tree below it) first. */
static enum status send_down(const void *bytes, size_t len, int tag, uint32_t timeout_ms)
{
    int child[MAX_CHILDREN], to[MAX_CHILDREN];
    MPI_Request req[MAX_CHILDREN];
    int n = children_of(m.info.rank, m.info.world, child);
    for (int i = 0; i < n; i++) {
        to[i] = child[n - 1 - i];
        MPI_TRY(MPI_Isend(bytes, (int)len, MPI_BYTE, to[i], tag, m.comm, &req[i]));
    }
    return wait_sends(req, to, n, timeout_ms);
}

/* Waits for the parent's next head, which stays awaited after a time-out. */
static enum status await_head(uint32_t timeout_ms)
{
    int parent = parent_of(m.info.rank);
    struct backoff b;
    if (m.head_req == MPI_REQUEST_NULL)
        MPI_TRY(MPI_Irecv(&m.head, (int)sizeof m.head, MPI_BYTE, parent, TAG_HEAD, m.comm,
                          &m.head_req));
    uint64_t begin = clock_us(), waited = 0, most = (uint64_t)timeout_ms * 1000;
    backoff_start(&b, m.keep_us, m.spin_us);
    for (;;) {
        int done = 0;
        MPI_TRY(MPI_Test(&m.head_req, &done, MPI_STATUS_IGNORE));
        if (done)
            return ST_OK;
        if (most && waited >= most)
            FAIL(ST_TIMEOUT, "no broadcast from rank %d within %u ms", parent,
                 (unsigned)timeout_ms);
        if (m.bell && waited >= m.spin_us && !doorbell_rung(m.bell, m.n_heard)) {
            doorbell_wait(m.bell, m.n_heard, most ? most - waited : BELL_US);
            backoff_start(&b, m.keep_us, START_SPIN_US); /* rung: the message is on its way */
        } else {
            backoff_pause(&b);
        }
        waited = clock_us() - begin;
    }
}

static enum status await_rest(void *buf, size_t len, uint32_t timeout_ms)
{
    MPI_Request req;
    int parent = parent_of(m.info.rank), done = 0;
    struct backoff b;
    MPI_TRY(MPI_Irecv(buf, (int)len, MPI_BYTE, parent, TAG_REST, m.comm, &req));
    backoff_start(&b, m.keep_us, START_SPIN_US);
    for (;;) {
        MPI_TRY(MPI_Test(&req, &done, MPI_STATUS_IGNORE));
        if (done)
            return ST_OK;
        if (backoff_pause(&b) / 1000 < timeout_ms || !timeout_ms)
            continue;
        MPI_Cancel(&req);
        MPI_Test(&req, &done, MPI_STATUS_IGNORE);
        FAIL(ST_PEER, "rank %d stopped in the middle of a broadcast", parent);
    }
}

static size_t head_part(size_t len)
{
    return len < HEAD_BYTES ? len : HEAD_BYTES;
}

static enum status give(const void *buf, size_t len, uint32_t timeout_ms)
{
    size_t first = head_part(len);
    m.head.len = len;
    if (first > 0)
        memcpy(m.head.bytes, buf, first);
    if (m.bell)
        doorbell_ring(m.bell);
    TRY(send_down(&m.head, offsetof(struct head, bytes) + first, TAG_HEAD, timeout_ms));
    if (len > first)
        TRY(send_down((const char *)buf + first, len - first, TAG_REST, timeout_ms));
    return ST_OK;
}

static enum status take(void *buf, size_t cap, size_t *len, uint32_t timeout_ms)
{
    if (m.head.len > cap)
        FAIL(ST_PEER, "a broadcast of %llu bytes, this rank takes %zu",
             (unsigned long long)m.head.len, cap);
    size_t first = head_part((size_t)m.head.len), rest = (size_t)m.head.len - first;
    TRY(send_down(&m.head, offsetof(struct head, bytes) + first, TAG_HEAD, timeout_ms));
    if (first > 0)
        memcpy(buf, m.head.bytes, first);
    if (rest > 0) {
        TRY(await_rest((char *)buf + first, rest, timeout_ms));
        TRY(send_down((char *)buf + first, rest, TAG_REST, timeout_ms));
    }
    *len = (size_t)m.head.len;
    return ST_OK;
}

static enum status mpi_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms)
{
    if (m.broken)
        FAIL(ST_PEER, "the control plane has failed before");
    if (m.info.rank == 0 && (*len > cap || *len > INT_MAX))
        FAIL(ST_RANGE, "a broadcast of %zu bytes, at most %zu are possible", *len,
             cap < INT_MAX ? cap : INT_MAX);
    if (m.info.rank != 0) {
        TRY(await_head(timeout_ms));
        m.n_heard++;
    }
    enum status st =
        m.info.rank == 0 ? give(buf, *len, timeout_ms) : take(buf, cap, len, timeout_ms);
    m.broken = st != ST_OK;
    return st;
}

static void mpi_set_spin(uint32_t spin_us)
{
    m.spin_us = spin_us;
}

static void mpi_abort(int exit_code)
{
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

const struct control_ops control_mpi_ops = {
    .open = mpi_open,
    .close = mpi_close,
    .bcast = mpi_bcast,
    .min_u64 = mpi_min_u64,
    .barrier = mpi_barrier,
    .gather = mpi_gather,
    .set_spin = mpi_set_spin,
    .abort = mpi_abort,
};
