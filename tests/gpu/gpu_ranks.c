#include "gpu/gpu_ranks.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/control.h"
#include "collectives/ipc_coll.h"
#ifdef INGOT_HAVE_NCCL
#include "collectives/nccl_coll.h"
#endif
#include "common/clock.h"
#include "gpu/host_coll.h"

enum { N = TRUTH_LEN, MAX_WORLD = 4, DEADLINE_MS = 120000, LEAVE_MS = 30000 };

/* ---- what the ranks share, in memory mapped before they begin ---- */

struct link {
    int world;
    size_t max_bytes;
    struct host_area *host;
    struct ipc_group ipc;
#ifdef INGOT_HAVE_NCCL
    unsigned char nccl_id[NCCL_ID_BYTES];
    struct nccl_board board;
#endif
    _Atomic int nccl_named, opened, done;
    atomic_bool gave_up;
};

/* Waits until *n is `want`. */
static enum status wait_for(struct link *l, _Atomic int *n, int want)
{
    uint64_t from = clock_us();
    while (atomic_load(n) < want) {
        if (atomic_load(&l->gave_up))
            FAIL(ST_PEER, "another rank has failed");
        if (clock_us() - from > DEADLINE_MS * UINT64_C(1000))
            FAIL(ST_TIMEOUT, "another rank has not come within %d ms", (int)DEADLINE_MS);
        sched_yield();
    }
    return ST_OK;
}

static enum status link_map(struct link **out, const char *dir, enum dtype kv, int world)
{
    struct loader *ld;
    size_t bytes;
    *out = mmap(NULL, sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (*out == MAP_FAILED)
        FAIL(ST_NOMEM, "no memory for %d ranks", world);
    TRY(loader_open(&ld, dir));
    struct decoder_config cfg = rank_config(loader_config(ld), kv, 0, world);
    enum status st = engine_coll_bytes(&bytes, loader_config(ld), &cfg);
    loader_close(ld);
    TRY(st);
    (*out)->world = world;
    (*out)->max_bytes = bytes;
    return host_area_map(&(*out)->host, world, bytes);
}

static void link_unmap(struct link *l)
{
    host_area_unmap(l->host);
    munmap(l, sizeof *l);
}

static struct coll_config coll_of(const struct rank_place *p, const struct rank_engine *r)
{
    return (struct coll_config){.rank = p->rank,
                                .world = p->world,
                                .be = r->be,
                                .max_bytes = ((struct link *)p->ctx)->max_bytes,
                                .deadline_ms = DEADLINE_MS,
                                .one_host = true,
                                .share_device = true};
}

static enum status join_host(const struct rank_place *p, struct rank_engine *r)
{
    struct coll_config cc = coll_of(p, r);
    return host_join(&r->co, &cc, ((struct link *)p->ctx)->host);
}

static enum status join_ipc(const struct rank_place *p, struct rank_engine *r)
{
    struct coll_config cc = coll_of(p, r);
    return ipc_join(&r->co, &cc, &((struct link *)p->ctx)->ipc);
}

static enum status join_nccl(const struct rank_place *p, struct rank_engine *r)
{
#ifdef INGOT_HAVE_NCCL
    struct link *l = p->ctx;
    struct coll_config cc = coll_of(p, r);
    TRY(nccl_take_host_id(&cc));
    if (p->rank == 0) {
        TRY(nccl_unique_id(l->nccl_id));
        atomic_store(&l->nccl_named, 1);
    }
    TRY(wait_for(l, &l->nccl_named, 1));
    return nccl_join(&r->co, &cc, l->nccl_id, &l->board);
#else
    (void)p;
    (void)r;
    FAIL(ST_UNSUPPORTED, "built without NCCL");
#endif
}

/* ---- one rank ---- */

struct member {
    struct truth *truth;
    struct link *link;
    struct rank_place place;
    pthread_t thread;
    bool began; /* every rank was there */
    enum status st;
    char detail[600];
};

/* A prefill, all rows of a chunk, a decode. */
static enum status run_rank(const struct truth *t, struct rank_engine *r)
{
    float *got = calloc((size_t)(N * t->vocab), sizeof *got);
    if (!got)
        FAIL(ST_NOMEM, "no memory for logits");
    enum status st = engine_prefill(r->e, 1, t->ids, 9, got);
    if (st == ST_OK)
        st = truth_same(t, got, 8, "prefill of several ranks");
    if (st == ST_OK)
        st = engine_forward_verify(r->e, 1, t->ids + 9, N - 10, got);
    for (int32_t i = 0; i < N - 10 && st == ST_OK; i++)
        st = truth_same(t, got + (size_t)i * (size_t)t->vocab, 9 + i, "rows of several ranks");
    if (st == ST_OK)
        st = engine_decode(r->e, 1, t->ids[N - 1], N - 1, got);
    if (st == ST_OK)
        st = truth_same(t, got, N - 1, "decode of several ranks");
    free(got);
    return st;
}

static void give_up(struct link *l, struct coll *co)
{
    atomic_store(&l->gave_up, true);
    host_area_abort(l->host);
    if (co)
        co->ops->abort(co);
}

/* Until all have come here, or for as long as a rank that failed may take to notice. */
static void leave(struct link *l)
{
    uint64_t from = clock_us();
    atomic_fetch_add(&l->done, 1);
    while (atomic_load(&l->done) < l->world && clock_us() - from < LEAVE_MS * UINT64_C(1000))
        sched_yield();
}

/* No rank begins before all have taken their memory, and none gives any back before all are done:
 * both can wait for the device, whose kernels wait for the other ranks. */
static void *member_main(void *arg)
{
    struct member *m = arg;
    struct rank_engine r;
    m->st = rank_open(&r, m->truth->dir, m->truth->kv, &m->place);
    if (m->st == ST_OK) {
        atomic_fetch_add(&m->link->opened, 1);
        m->st = wait_for(m->link, &m->link->opened, m->link->world);
    }
    m->began = m->st == ST_OK;
    if (m->st == ST_OK)
        m->st = run_rank(m->truth, &r);
    snprintf(m->detail, sizeof m->detail, "%s", m->st == ST_OK ? "" : status_detail());
    if (m->st != ST_OK)
        give_up(m->link, r.co);
    leave(m->link);
    rank_close(&r);
    return NULL;
}

static const struct member *first_failure(const struct member *m, int world)
{
    const struct member *first = NULL; /* the others only say that a rank failed */
    for (int i = 0; i < world; i++)
        if (m[i].st != ST_OK && (!first || first->st == ST_PEER))
            first = &m[i];
    return first;
}

/* ---- threads ---- */

static enum status same_on_threads(struct truth *t, int world)
{
    struct member m[MAX_WORLD];
    struct link *l;
    TRY(link_map(&l, t->dir, t->kv, world));
    for (int i = 0; i < world; i++) {
        m[i] = (struct member){.truth = t, .link = l, .place = {i, world, join_ipc, l}};
        if (pthread_create(&m[i].thread, NULL, member_main, &m[i]) != 0)
            abort();
    }
    for (int i = 0; i < world; i++)
        pthread_join(m[i].thread, NULL);
    link_unmap(l);
    const struct member *bad = first_failure(m, world);
    if (bad)
        FAIL(bad->st, "rank %d of %d: %s", bad->place.rank, world, bad->detail);
    return ST_OK;
}

enum status same_on_two_threads(struct truth *t)
{
    return same_on_threads(t, 2);
}

enum status same_on_four_threads(struct truth *t)
{
    return same_on_threads(t, 4);
}

/* ---- processes ---- */

/* Computes the truth too: this process has not used CUDA when it forks. */
static void process_main(struct member *m)
{
    m->st = truth_open(m->truth);
    if (m->st != ST_OK) {
        snprintf(m->detail, sizeof m->detail, "alone: %s", status_detail());
        give_up(m->link, NULL);
        atomic_fetch_add(&m->link->done, 1);
    } else {
        member_main(m);
    }
    _exit(m->st != ST_OK);
}

static enum status run_processes(struct member *m, const struct member *like, int world)
{
    pid_t pid[MAX_WORLD];
    int n = 0;
    fflush(NULL);
    for (; n < world; n++) {
        m[n] = *like;
        m[n].place.rank = n;
        m[n].st = ST_PEER;
        snprintf(m[n].detail, sizeof m[n].detail, "the process ended without a result");
        pid[n] = fork();
        if (pid[n] == 0)
            process_main(&m[n]);
        if (pid[n] < 0)
            break;
    }
    if (n < world)
        atomic_store(&like->link->gave_up, true);
    for (int i = 0; i < n; i++)
        waitpid(pid[i], NULL, 0);
    if (n < world)
        FAIL(ST_DEVICE, "fork failed");
    return ST_OK;
}

/* One case.  may_lack: where the ranks cannot come together the case is skipped with the reason. */
static void check_joined(struct tap *tap, const struct options *o, const char *what,
                         enum status (*join)(const struct rank_place *, struct rank_engine *),
                         bool may_lack)
{
    enum { WORLD = 2 };
    struct truth t = {.kv = DT_BF16};
    struct link *l;
    struct member *m =
        mmap(NULL, WORLD * sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char name[160];
    snprintf(name, sizeof name, "llama-sharded-bf16, %d processes on one device, %s", WORLD, what);
    snprintf(t.dir, sizeof t.dir, "%s/llama-sharded-bf16", o->models);
    if (m == MAP_FAILED || link_map(&l, t.dir, t.kv, WORLD) != ST_OK) {
        tap_ok(tap, false, "%s: %s", name, m == MAP_FAILED ? "no memory" : status_detail());
        return;
    }
    l->ipc.processes = true;
    struct member like = {.truth = &t, .link = l, .place = {0, WORLD, join, l}};
    enum status st = run_processes(m, &like, WORLD);
    const struct member *bad = st == ST_OK ? first_failure(m, WORLD) : NULL;
    if (st != ST_OK)
        tap_ok(tap, false, "%s: %s", name, status_detail());
    else if (bad && may_lack && !m[0].began && !m[1].began && strncmp(bad->detail, "alone", 5))
        tap_skip(tap, name, bad->detail);
    else
        tap_ok(tap, !bad, "%s%s%s", name, bad ? ": " : "", bad ? bad->detail : "");
    link_unmap(l);
    munmap(m, WORLD * sizeof *m);
}

void check_processes(struct tap *t, const struct options *o)
{
    check_joined(t, o, "through host memory", join_host, false);
#ifdef INGOT_EMULATE
    tap_skip(t, "2 processes, one-shot kernel", "emulated devices share no memory with others");
#else
    check_joined(t, o, "one-shot kernel through CUDA IPC", join_ipc, true);
#endif
}

void check_nccl(struct tap *t, const struct options *o)
{
    check_joined(t, o, "NCCL with an NCCL_HOSTID each", join_nccl, true);
}

/* ---- mpirun ---- */

struct mpi_link {
    struct link link; /* first: coll_of */
    const char *coll;
    uint64_t session;
};

static enum status join_by_name(const struct rank_place *p, struct rank_engine *r)
{
    const struct mpi_link *l = p->ctx;
    struct coll_config cc = coll_of(p, r);
    cc.session = l->session;
    return coll_open(&r->co, l->coll, &cc);
}

/* st, or a failure where another rank's is not ST_OK. */
static enum status all_well(enum status st)
{
    uint64_t well = st == ST_OK;
    TRY(control_min_u64(&well));
    TRY(st);
    if (!well)
        FAIL(ST_PEER, "another rank has failed");
    return ST_OK;
}

static enum status mpi_rank(const struct options *o, const struct control_info *ci,
                            const char *coll, struct truth *t, struct rank_engine *r)
{
    struct mpi_link l = {.coll = coll, .session = clock_us()};
    struct rank_place place = {ci->rank, ci->world, join_by_name, &l};
    size_t len = sizeof l.session;
    snprintf(t->dir, sizeof t->dir, "%s/llama-sharded-bf16", o->models);
    TRY(control_bcast(&l.session, sizeof l.session, &len, DEADLINE_MS));
    TRY(all_well(truth_open(t)));
    struct decoder_config cfg = rank_config(loader_config(t->r.ld), t->kv, 0, ci->world);
    TRY(engine_coll_bytes(&l.link.max_bytes, loader_config(t->r.ld), &cfg));
    TRY(all_well(rank_open(r, t->dir, t->kv, &place)));
    return all_well(run_rank(t, r));
}

int check_mpi_ranks(const struct options *o, const char *coll)
{
    struct control_info ci;
    struct tap tap = {0};
    struct truth t = {.kv = DT_BF16};
    struct rank_engine r = {0};
    if (control_open(&ci) != ST_OK) {
        fprintf(stderr, "gpu_model: %s\n", status_detail());
        return 1;
    }
    if (ci.world < 2) {
        tap_skip(&tap, coll, "one rank: not started by mpirun, or built without MPI");
        control_close();
        return tap_end(&tap);
    }
    enum status st = mpi_rank(o, &ci, coll, &t, &r);
    if (st != ST_OK && st != ST_PEER)
        fprintf(stderr, "gpu_model: rank %d: %s\n", ci.rank, status_detail());
    if (ci.rank == 0)
        tap_ok(&tap, st == ST_OK, "llama-sharded-bf16, %d ranks of mpirun on one device, %s%s%s",
               ci.world, coll, st == ST_OK ? "" : ": ", st == ST_OK ? "" : status_detail());
    rank_close(&r);
    truth_close(&t);
    control_close();
    return ci.rank == 0 ? tap_end(&tap) : st != ST_OK;
}
