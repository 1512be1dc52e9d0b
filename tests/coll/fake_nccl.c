/* A libnccl.so.2 for tests, with the header stand_in/nccl.h: ranks are threads of one process and
 * device memory is host memory, as on the emulator.  A call posts the rank's operand and returns ncclInProgress; the last rank to
 * come carries the operation out; CommGetAsyncError tells when it is done, as on a non-blocking
 * communicator.  FAKE_NCCL names a fault: "old" (version), "init" (connecting fails), "hang" (it
 * never ends), "later" (an asynchronous error after the first operations). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

/* Calls so far, of all ranks: connecting, sums, gathers, broadcasts, groups of sends. */
struct fake_nccl_calls {
    int joined, sums, gathers, broadcasts, exchanges;
};
struct fake_nccl_calls fake_nccl_calls(void);
static struct fake_nccl_calls calls;

enum { MAX_WORLD = 16, MAX_GROUPS = 64, FAULT_AFTER = 1 };
enum kind { REDUCE, GATHER, BROADCAST, EXCHANGE };

/* One group of calls: what a rank sends to and receives from each. */
struct sends {
    const char *from[MAX_WORLD];
    char *to[MAX_WORLD];
    size_t bytes;
    int n_sent, n_received;
};

struct group {
    char id[NCCL_UNIQUE_ID_BYTES];
    int world, joined, posted;
    unsigned long done; /* operations carried out */
    struct {
        const char *from;
        char *to;
        struct sends sends;
    } of[MAX_WORLD];
};

struct ncclComm {
    struct group *g;
    int rank;
    unsigned long calls;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct group groups[MAX_GROUPS];
static int n_groups;

/* NCCL_HOSTID when the library was loaded: NCCL reads its environment once. */
const char *fake_nccl_host_id(void);
static char host_id[128];

__attribute__((constructor)) static void loaded(void)
{
    const char *id = getenv("NCCL_HOSTID");
    snprintf(host_id, sizeof host_id, "%s", id ? id : "");
}

const char *fake_nccl_host_id(void)
{
    return host_id;
}

static int fault(const char *name)
{
    const char *f = getenv("FAKE_NCCL");
    return f && strcmp(f, name) == 0;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = fault("old") ? 20000 : NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int n;
    pthread_mutex_lock(&lock);
    snprintf(id->internal, sizeof id->internal, "group %d", n++);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    return r == ncclSuccess ? "no error" : r == ncclRemoteError ? "remote error" : "some error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof *c);
    if (fault("init") || !c || world > MAX_WORLD || config->blocking != 0) {
        free(c);
        return ncclUnhandledCudaError;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_groups; i++)
        if (memcmp(groups[i].id, id.internal, sizeof id.internal) == 0)
            c->g = &groups[i];
    if (!c->g) {
        c->g = &groups[n_groups++];
        memcpy(c->g->id, id.internal, sizeof id.internal);
        c->g->world = world;
    }
    c->g->joined++;
    calls.joined++;
    c->rank = rank;
    pthread_mutex_unlock(&lock);
    *comm = c;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    pthread_mutex_lock(&lock);
    *state = c->g->joined < c->g->world || c->calls > c->g->done ? ncclInProgress : ncclSuccess;
    if (fault("hang"))
        *state = ncclInProgress;
    if (fault("later") && c->calls > FAULT_AFTER)
        *state = ncclRemoteError;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    (void)c;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    free(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    free(c);
    return ncclSuccess;
}

static void carry_out(struct group *g, enum kind kind, size_t n, int root)
{
    if (kind == GATHER)
        for (int to = 0; to < g->world; to++)
            for (int r = 0; r < g->world; r++)
                memmove(g->of[to].to + (size_t)r * n, g->of[r].from, n);
    if (kind == BROADCAST)
        for (int to = 0; to < g->world; to++)
            memmove(g->of[to].to, g->of[root].from, n);
    if (kind == EXCHANGE)
        for (int to = 0; to < g->world; to++)
            for (int r = 0; r < g->world; r++)
                memmove(g->of[to].sends.to[r], g->of[r].sends.from[to], n);
    for (size_t i = 0; kind == REDUCE && i < n; i++) {
        float sum = 0.0f; /* some order of its own */
        for (int r = g->world - 1; r >= 0; r--)
            sum += ((const float *)(const void *)g->of[r].from)[i];
        for (int r = 0; r < g->world; r++)
            ((float *)(void *)g->of[r].to)[i] = sum;
    }
}

struct fake_nccl_calls fake_nccl_calls(void)
{
    pthread_mutex_lock(&lock);
    struct fake_nccl_calls now = calls;
    pthread_mutex_unlock(&lock);
    return now;
}

static ncclResult_t post(ncclComm_t c, enum kind kind, const void *from, void *to, size_t n,
                         int root)
{
    struct group *g = c->g;
    pthread_mutex_lock(&lock);
    calls.sums += kind == REDUCE;
    calls.gathers += kind == GATHER;
    calls.broadcasts += kind == BROADCAST;
    calls.exchanges += kind == EXCHANGE;
    g->of[c->rank].from = from;
    g->of[c->rank].to = to;
    c->calls++;
    if (++g->posted == g->world) {
        carry_out(g, kind, n, root);
        g->posted = 0;
        g->done++;
    }
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    (void)stream;
    if (type != ncclFloat32 || op != ncclSum)
        return ncclInvalidArgument;
    return post(c, REDUCE, from, to, n, 0);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream)
{
    (void)stream;
    return post(c, GATHER, from, to, n * (type == ncclFloat32 ? 4 : 1), 0);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream)
{
    (void)stream;
    return post(c, BROADCAST, from, to, n * (type == ncclFloat32 ? 4 : 1), root);
}

/* The group that this thread has open. */
static __thread struct {
    ncclComm_t comm;
    struct sends sends;
    int open;
} now;

ncclResult_t ncclGroupStart(void)
{
    memset(&now, 0, sizeof now);
    now.open = 1;
    return ncclSuccess;
}

static ncclResult_t add(ncclComm_t c, size_t n, ncclDataType_t type, int peer)
{
    if (!now.open || type != ncclFloat32 || peer < 0 || peer >= c->g->world ||
        (now.sends.bytes && now.sends.bytes != n * 4))
        return ncclInvalidArgument;
    now.comm = c;
    now.sends.bytes = n * 4;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    (void)stream;
    ncclResult_t r = add(c, n, type, peer);
    if (r == ncclSuccess) {
        now.sends.from[peer] = from;
        now.sends.n_sent++;
    }
    return r;
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    (void)stream;
    ncclResult_t r = add(c, n, type, peer);
    if (r == ncclSuccess) {
        now.sends.to[peer] = to;
        now.sends.n_received++;
    }
    return r;
}

/* Every rank with every rank, once. */
ncclResult_t ncclGroupEnd(void)
{
    struct group *g = now.comm ? now.comm->g : NULL;
    if (!now.open || !g || now.sends.n_sent != g->world || now.sends.n_received != g->world)
        return ncclInvalidArgument;
    now.open = 0;
    pthread_mutex_lock(&lock);
    g->of[now.comm->rank].sends = now.sends;
    pthread_mutex_unlock(&lock);
    return post(now.comm, EXCHANGE, NULL, NULL, now.sends.bytes, 0);
}
