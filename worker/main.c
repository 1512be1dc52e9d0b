/* ingot-worker: one rank of a worker group.  `ingot-worker --help` is its manual. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/build_info.h"
#include "common/failure_file.h"
#include "common/log.h"
#include "common/parent.h"
#include "worker/coordinator_port.h"
#include "worker/group_watch.h"
#include "worker/host_share.h"
#include "worker/inspect.h"
#include "worker/life_signs.h"
#include "worker/peer_watch.h"
#include "worker/rank.h"
#include "worker/rank_loop.h"
#include "worker/rank_meet.h"

enum { WATCH_MS = 1000 }; /* between two questions of --watch-epoch */

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    (void)sig;
    stop_asked = 1;
}

/* SIGTERM and SIGINT ask once; a second one kills.  SIGPIPE would end a rank whose log reader went
 * away. */
static void set_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static const char *base_name(const char *path)
{
    const char *end = path + strlen(path), *p = end;
    while (p > path && p[-1] != '/')
        p--;
    return *p ? p : path;
}

/* Ends the whole job.  Ranks other than 0 give rank 0 a moment: it tells the coordinator why, and
 * the first rank that aborts takes all others with it. */
static _Noreturn void give_up(const struct rank *g, enum status st, const char *what, int code)
{
    const struct timespec moment = {.tv_sec = 1};
    log_failure(LOG_ERROR, st, what);
    if (code == EXIT_MODEL)
        failure_file_write(g->opt->failure_file);
    if (g->co)
        g->co->ops.abort(&g->co->head);
    if (g->ci.rank != 0)
        nanosleep(&moment, NULL);
    control_abort(code);
}

static int exit_code_of(enum loop_end end)
{
    switch (end) {
    case LOOP_SHUTDOWN:
    case LOOP_SIGNAL:
        return EXIT_AS_ASKED;
    case LOOP_ORPHAN:
        return EXIT_ORPHAN;
    case LOOP_REFUSED:
        return EXIT_REFUSED;
    case LOOP_FAULT:
        break;
    }
    return EXIT_FAULT;
}

static struct worker_hello hello_of(const struct rank *g)
{
    const struct model_config *mc = decoder_model(g->model);
    struct worker_hello h = {
        .wire_version = WORKER_WIRE_VERSION,
        .model = g->opt->name ? g->opt->name : base_name(g->opt->model),
        .backend = worker_backend_name(g->opt),
        .coll = g->co->ops.name,
        .numerics = g->numerics,
        .hosts = g->hosts,
        .has_text = g->has_text,
        .masks = g->plan.rc.masks,
        .embedding = (uint32_t)g->plan.modules.dim,
        .headless = mc->headless,
        .world = (uint32_t)g->ci.world,
        .vocab = (uint32_t)mc->vocab,
        .max_ctx = (uint32_t)g->plan.dc.max_ctx,
        .block_len = (uint32_t)g->plan.dc.block_len,
        .n_blocks = (uint32_t)g->plan.dc.n_blocks,
        .max_step_tokens = (uint32_t)g->plan.dc.max_tokens,
        .max_seqs = (uint32_t)g->plan.dc.max_seqs,
        .n_snapshots = (uint32_t)g->plan.dc.n_snapshots,
        .launch = g->launch,
        .pid = (uint64_t)getpid(),
    };
    h.has_weights = g->weights_agreed && weights_digest_get(g->weights, h.weights) == DIGEST_KNOWN;
    memcpy(h.text, g->text, sizeof h.text);
    return h;
}

static void close_watch(struct peer_watch **watch)
{
    peer_watch_close(*watch);
    *watch = NULL;
}

/* The keys of the connection to the coordinator, in out; *curve is NULL when there are none. */
static enum status load_keys(const struct shared_options *o, const char *endpoint,
                             struct sock_curve *out, const struct sock_curve **curve)
{
    *curve = NULL;
    if ((!o->key && !o->server_key) || !strstr(endpoint, "tcp://"))
        return ST_OK;
    if (!o->key || !o->server_key)
        FAIL(ST_RANGE, "--key and --server-key belong together");
    *out = (struct sock_curve){.server = false};
    TRY(curve_pair_load(&out->own, o->key));
    TRY(curve_public_load(out->server_key, o->server_key));
    *curve = out;
    return ST_OK;
}

/* The loop, and the end of the job when it does not end as asked. */
static int serve(struct rank *g, struct peer_watch **watch, const char *connect)
{
    struct worker_hello hello = hello_of(g);
    struct rank_loop_config rl = {.rank = g->ci.rank,
                                  .world = g->ci.world,
                                  .step = g->step,
                                  .comm_us = &g->co->us,
                                  .kv_bytes = g->plan.memory.kv,
                                  .hello = &hello,
                                  .weights = g->weights,
                                  .first_on_host = g->ci.local_rank == 0,
                                  .lease_ms = (uint32_t)g->opt->lease_ms,
                                  .peer_ms = (uint32_t)g->opt->peer_ms,
                                  .stop = &stop_asked};
    struct coordinator_port_config lc = {.endpoint = connect,
                                         .lease_ms = (uint32_t)g->opt->lease_ms,
                                         .rejoin_ms = (uint32_t)g->opt->rejoin_ms,
                                         .max_message = RANK_MAX_MESSAGE,
                                         .refused_exit = EXIT_REFUSED};
    struct sock_curve keys;
    enum loop_end end;
    enum status st = ST_OK;
    if (g->ci.rank == 0)
        st = load_keys(g->opt, connect, &keys, &lc.curve);
    if (g->ci.rank == 0 && st == ST_OK)
        st = coordinator_port_open(&rl.port, &lc);
    if (st != ST_OK)
        give_up(g, st, "cannot reach the coordinator", EXIT_START);
    peer_watch_report_to(*watch, rl.port);
    st = rank_loop_run(&rl, &end);
    if (end == LOOP_FAULT)
        peer_watch_report_to(*watch, NULL); /* the Fault was sent; the others end this rank */
    else
        close_watch(watch);
    if (end == LOOP_SHUTDOWN && rl.port)
        coordinator_port_dismissed(rl.port);
    coordinator_port_close(rl.port);
    if (end == LOOP_FAULT)
        give_up(g, st, "fault", EXIT_FAULT);
    if (st != ST_OK)
        log_failure(LOG_ERROR, st, "ending");
    else if (g->ci.rank == 0)
        log_line(LOG_INFO, "ended as asked");
    return exit_code_of(end);
}

static int run(const struct worker_options *opt, const struct option_result *res)
{
    struct rank g = {.opt = &opt->shared};
    struct control_info ci = {0};
    struct digest_cache cache;
    struct peer_watch *watch = NULL;
    log_init("worker", (enum log_level)opt->shared.log_level);
    int early = opt->signs_of_life ? rank_to_be() : -1;
    enum status st = early >= 0 ? life_signs_begin(early) : ST_OK;
    if (st == ST_OK)
        st = rank_meet(&ci, (uint32_t)opt->shared.contact_ms, EXIT_START);
    digest_cache_init(&cache, getenv("XDG_CACHE_HOME"), getenv("HOME"));
    rank_name_log(&ci, (enum log_level)opt->shared.log_level);
    if (st != ST_OK) {
        log_failure(LOG_ERROR, st, "cannot start");
        return EXIT_START;
    }
    if (worker_options_check_world(opt, ci.world) != ST_OK) {
        if (ci.rank == 0)
            log_line(LOG_ERROR, "%s", status_text());
        control_close();
        return EXIT_USAGE;
    }
    if (opt->shared.print_config && ci.rank == 0)
        worker_options_print(stderr, opt, res);
    g.ci = ci;
    st = peer_watch_open(&watch, &ci, EXIT_FAULT);
    if (st == ST_OK && opt->signs_of_life && early < 0)
        st = life_signs_begin(ci.rank);
    if (st != ST_OK)
        give_up(&g, st, "cannot watch the other ranks", EXIT_START);
    st = rank_prepare(&g, &opt->shared, &ci, &cache);
    g.ci = ci;
    if (st == ST_OK)
        st = rank_load(&g, !opt->no_warm_up);
    if (st == ST_OK)
        st = rank_hosts(&ci, g.hosts);
    if (st != ST_OK)
        give_up(&g, st, "cannot serve", EXIT_MODEL);
    int code = serve(&g, &watch, opt->connect);
    rank_close(&g);
    /* an end that all ranks have agreed on; after an orphan's they may not be there any more */
    if (code == EXIT_ORPHAN && ci.rank != 0)
        control_abort(code);
    control_close();
    return code;
}

/* --inspect and --device-info: one process, no other ranks.  The ranks planned for share this host's cores. */
static enum status look_at(const struct worker_options *opt)
{
    const struct shared_options *o = &opt->shared;
    int threads = o->threads ? (int)o->threads : host_share_threads((int)o->tp);
    struct backend_config bc = worker_backend_config(o, threads, 0);
    struct backend *be;
    TRY(backend_open(&be, worker_backend_name(o), &bc));
    enum status st = ST_OK;
    if (opt->device_info)
        inspect_device(stdout, be);
    else
        st = inspect_model(stdout, opt, be);
    backend_ops_of(be)->close(be);
    return st;
}

static int look(const struct worker_options *opt)
{
    if (look_at(opt) == ST_OK)
        return EXIT_AS_ASKED;
    fprintf(stderr, "ingot-worker: %s\n", status_text());
    return EXIT_MODEL;
}

/* --hello */
static int hello(const struct worker_options *opt)
{
    struct control_info ci = {0};
    log_init("worker", (enum log_level)opt->shared.log_level);
    enum status st = rank_meet(&ci, (uint32_t)opt->shared.contact_ms, EXIT_START);
    if (st != ST_OK) {
        fprintf(stderr, "ingot-worker: %s\n", status_text());
        control_abort(EXIT_START);
    }
    if (ci.rank == 0)
        printf("%d rank%s: hello\n", ci.world, ci.world == 1 ? "" : "s");
    control_close();
    return EXIT_AS_ASKED;
}

/* --watch-epoch: the line is for the launcher, which has begun this process. */
static int watch_group(const struct worker_options *opt)
{
    struct sock_curve keys;
    const struct sock_curve *curve;
    enum watch_end end = WATCH_UNKNOWN;
    char why[512];
    enum status st = load_keys(&opt->shared, opt->connect, &keys, &curve);
    if (st == ST_OK)
        st = group_watch_run(opt->connect, curve, (uint64_t)opt->watch_epoch, WATCH_MS, &end, why);
    if (st != ST_OK) {
        fprintf(stderr, "ingot-worker: %s\n", status_text());
        return EXIT_START;
    }
    if (end == WATCH_UNKNOWN)
        return EXIT_ORPHAN;
    printf("ingot-worker epoch %lld is given up: %s\n", (long long)opt->watch_epoch, why);
    return EXIT_REFUSED;
}

int main(int argc, char **argv)
{
    struct worker_options opt;
    struct option_result res;
    if (worker_options_parse(&opt, argc, argv, &res) != ST_OK ||
        (!res.help && !res.version && worker_options_check(&opt) != ST_OK)) {
        fprintf(stderr, "ingot-worker: %s\n", status_text());
        return EXIT_USAGE;
    }
    if (res.help) {
        worker_options_print_help(stdout, res.help);
        return EXIT_AS_ASKED;
    }
    if (res.version) {
        build_info_print(stdout, "ingot-worker");
        return EXIT_AS_ASKED;
    }
    if (opt.shared.die_with_parent && die_with_parent() != ST_OK) {
        fprintf(stderr, "ingot-worker: %s\n", status_text());
        return EXIT_START;
    }
    if (opt.inspect || opt.device_info)
        return look(&opt);
    if (opt.hello)
        return hello(&opt);
    if (opt.watch_epoch)
        return watch_group(&opt);
    set_signals();
    /* A kernel that is loaded at its first launch waits for the device: for ever where another rank's kernel there
     * waits for this one. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    return run(&opt, &res);
}
