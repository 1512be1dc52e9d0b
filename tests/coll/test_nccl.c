/* The "nccl" collective over a stand-in for the library (fake_nccl.c, found as libnccl.so.2): ranks
 * are threads, devices are emulated. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/conformance.h"
#include "collectives/nccl_coll.h"
#include "effort.h"

enum { MAX_RANKS = 8 };

struct rank {
    struct coll_config cfg;
    struct nccl_board *board;
    const unsigned char *id;
    int (*run)(struct coll *c, struct backend *be);
    struct coll *coll;
    int early; /* the rank that closes by itself, or -1 */
    int failures;
    enum status st;
    char text[300];
    pthread_t thread;
};

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct coll *c = NULL;
    r->st = backend_open(&r->cfg.be, "cuda", &(struct backend_config){0});
    if (r->st == ST_OK)
        r->st = nccl_join(&c, &r->cfg, r->id, r->board);
    if (r->st != ST_OK)
        snprintf(r->text, sizeof r->text, "%s", status_text());
    else if (r->run)
        r->failures = r->run(c, r->cfg.be);
    r->coll = r->cfg.rank == r->early ? NULL : c;
    return NULL;
}

static void rank_close(struct rank *r)
{
    if (r->coll)
        r->coll->ops->close(r->coll);
    if (r->cfg.be)
        backend_ops_of(r->cfg.be)->close(r->cfg.be);
}

/* All ranks of a world; `absent` never starts, `early` closes by itself (-1: none). */
static void start_but(struct rank *ranks, int world, uint32_t deadline_ms, int absent, int early,
                      int (*run)(struct coll *, struct backend *))
{
    static unsigned char id[NCCL_ID_BYTES];
    static struct nccl_board board;
    memset(&board, 0, sizeof board);
    cr_assert_eq(nccl_unique_id(id), ST_OK, "%s", status_detail());
    for (int i = 0; i < world; i++) {
        ranks[i] = (struct rank){.run = run, .board = &board, .id = id, .early = early};
        ranks[i].cfg = (struct coll_config){.rank = i,
                                            .world = world,
                                            .max_bytes = conf_max_bytes(world),
                                            .deadline_ms = deadline_ms};
        if (i != absent)
            cr_assert_eq(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < world; i++)
        if (i != absent)
            pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < world; i++)
        rank_close(&ranks[i]);
}

static void start(struct rank *ranks, int world, uint32_t deadline_ms, int absent,
                  int (*run)(struct coll *, struct backend *))
{
    start_but(ranks, world, deadline_ms, absent, -1, run);
}

static void all_pass_but(int world, int early, uint32_t deadline_ms,
                         int (*run)(struct coll *, struct backend *))
{
    struct rank ranks[MAX_RANKS];
    start_but(ranks, world, deadline_ms, -1, early, run);
    for (int i = 0; i < world; i++) {
        cr_assert_eq(ranks[i].st, ST_OK, "rank %d of %d: %s", i, world, ranks[i].text);
        cr_assert_eq(ranks[i].failures, 0, "rank %d of %d", i, world);
    }
}

static void all_pass(int world, uint32_t deadline_ms, int (*run)(struct coll *, struct backend *))
{
    all_pass_but(world, -1, deadline_ms, run);
}

Test(nccl, gives_the_results_of_the_contract)
{
    static const int worlds[] = {2, 3, 1, 4, 8};
    long n = effort(ARRAY_LEN(worlds), 2);
    for (long i = 0; i < n; i++)
        all_pass(worlds[i], 240000, conf_results_emulated);
}

static int last_missing(struct coll *c, struct backend *be)
{
    return conf_missing(c, be, c->world - 1);
}

Test(nccl, names_a_missing_rank)
{
    all_pass(3, 5000, last_missing);
}

Test(nccl, an_abort_reaches_the_others)
{
    all_pass(4, 240000, conf_abort);
}

static int last_closed(struct coll *c, struct backend *be)
{
    return conf_closed(c, be, c->world - 1);
}

Test(nccl, a_rank_that_closes_early_is_named)
{
    all_pass_but(2, 1, 240000, last_closed);
    all_pass_but(4, 3, 240000, last_closed);
}

Test(nccl, a_rank_that_never_connects)
{
    struct rank ranks[2];
    start(ranks, 2, 500, 1, NULL);
    cr_assert_eq(ranks[0].st, ST_TIMEOUT);
    cr_assert(strstr(ranks[0].text, "connecting: "), "%s", ranks[0].text);
    cr_assert(strstr(ranks[0].text, "did not come within 500 ms"), "%s", ranks[0].text);
}

static void expect_open_failure(const char *fault, uint32_t deadline_ms, enum status want,
                                const char *text)
{
    struct rank r[1];
    setenv("FAKE_NCCL", fault, 1);
    unsigned char id[NCCL_ID_BYTES] = {0};
    struct nccl_board board = {0};
    r[0] = (struct rank){.board = &board, .id = id, .early = -1};
    r[0].cfg = (struct coll_config){.world = 1, .max_bytes = 4096, .deadline_ms = deadline_ms};
    rank_main(&r[0]);
    rank_close(&r[0]);
    cr_assert_eq(r[0].st, want, "%s: %s", fault, r[0].text);
    cr_assert(strstr(r[0].text, text), "'%s' does not say '%s'", r[0].text, text);
}

Test(nccl, faults_have_names)
{
    expect_open_failure("old", 240000, ST_UNSUPPORTED, "is version 20000, needed is");
    expect_open_failure("init", 240000, ST_PEER, "connecting: some error");
    expect_open_failure("hang", 500, ST_TIMEOUT, "did not come within 500 ms");
    expect_open_failure("later", 240000, ST_PEER, "remote error");
}

/* What NCCL saw as its host in a rank's process of its own, which loads the library for this rank:
 * connecting fails, that is enough. */
static void host_id_of(int rank, bool share_device, char out[128])
{
    int pipe_fd[2];
    cr_assert_eq(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct nccl_board board = {0};
        unsigned char id[NCCL_ID_BYTES] = {0};
        struct rank r = {.board = &board, .id = id};
        r.cfg = (struct coll_config){.rank = rank,
                                     .world = 2,
                                     .max_bytes = 4096,
                                     .deadline_ms = 500,
                                     .session = 0xabc,
                                     .share_device = share_device};
        setenv("FAKE_NCCL", "init", 1);
        rank_main(&r);
        void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), *p;
        const char *(*seen)(void) = NULL;
        if (lib && (p = dlsym(lib, "fake_nccl_host_id")))
            memcpy(&seen, &p, sizeof p);
        const char *text = seen ? seen() : "the library is not loaded";
        bool written = write(pipe_fd[1], text, strlen(text) + 1) > 0;
        _exit(!written);
    }
    cr_assert(pid > 0 && read(pipe_fd[0], out, 127) > 0 && waitpid(pid, NULL, 0) == pid);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

Test(nccl, ranks_that_share_a_device_have_hosts_of_their_own)
{
    char id[128] = "";
    unsetenv("NCCL_HOSTID");
    host_id_of(0, true, id);
    cr_assert_str_eq(id, "ingot-0000000000000abc-0");
    host_id_of(1, true, id);
    cr_assert_str_eq(id, "ingot-0000000000000abc-1");
    host_id_of(1, false, id);
    cr_assert_str_eq(id, "");
    setenv("NCCL_HOSTID", "of-the-user", 1);
    host_id_of(1, true, id);
    cr_assert_str_eq(id, "of-the-user");
}
