/* ingot-coordinator: options, signals, the loop. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/build_info.h"
#include "common/failure_file.h"
#include "common/log.h"
#include "common/parent.h"
#include "common/shared_options.h"
#include "coordinator/loop.h"

struct args {
    struct shared_options shared;
    const char *workers, *weights_digest, *tenants_secret;
    int64_t notify_fd;
};

static const struct option_row own_rows[] = {
    {.help = "Identity"},
    {.name = "weights-digest",
     .type = OPT_STRING,
     .at = offsetof(struct args, weights_digest),
     .arg = "HEX",
     .help = "Weights digest (64 digits) that worker groups must have; default: that of the weight "
             "files at --model, which are read once when a group is connected (the user's cache "
             "folder keeps the result)."},
    {.help = "Endpoints"},
    {.name = "workers",
     .type = OPT_STRING,
     .at = offsetof(struct args, workers),
     .arg = "EP",
     .def = "tcp://127.0.0.1:5556",
     .help = "Endpoint for worker groups."},
    {.help = "Clients"},
    {.name = "tenants-secret",
     .type = OPT_STRING,
     .at = offsetof(struct args, tenants_secret),
     .arg = "FILE",
     .help = "Clients that say Hello with the content of this file, gateways for example, may act "
             "for every tenant and set limits for them. The environment variable "
             "INGOT_TENANTS_SECRET may have the secret itself."},
    {.help = "Process"},
    {.name = "notify-fd",
     .type = OPT_INT,
     .at = offsetof(struct args, notify_fd),
     .arg = "FD",
     .def = "-1",
     .min = -1,
     .max = 1024,
     .help = "Write one line an event to this descriptor, for a supervisor."},
};

static struct option_set options_of(struct row_list *rows)
{
    shared_rows(rows, FOR_COORDINATOR, offsetof(struct args, shared));
    rows_add(rows, own_rows, ARRAY_LEN(own_rows), 0);
    return (struct option_set){
        .program = "ingot-coordinator",
        .usage = "--model PATH [options]",
        .summary =
            "Takes requests over ZeroMQ, tokenizes and schedules them, and sends steps to worker "
            "groups, which connect to --workers.",
        .epilog =
            "Examples:\n"
            "  ingot-coordinator --model models/Qwen3-0.6B\n"
            "  mpirun -np 2 ingot-worker --model models/Qwen3-0.6B --connect tcp://127.0.0.1:5556\n"
            "                                                  (on another terminal)\n"
            "  ingot-coordinator --model /models/m --workers tcp://0.0.0.0:5556 --allow-remote\n"
            "                                                  (workers on other hosts)\n"
            "SIGTERM or SIGINT drains, a second one ends at once.\n"
            "Files: the weight files' digests are kept in $XDG_CACHE_HOME/ingot/digests, else in\n"
            "~/.cache/ingot/digests (macOS: ~/Library/Caches/ingot/digests).\n"
            "Exit codes: 0 drained, 1 failure, 2 bad options or model, 3 address in use, 4 "
            "drained, but\n"
            "requests failed because the time ran out.",
        .rows = rows->row,
        .n_rows = rows->n,
    };
}

static int stop_pipe[2];

static void on_stop(int sig)
{
    int err = errno;
    (void)sig;
    ssize_t n = write(stop_pipe[1], "x", 1);
    (void)n;
    errno = err;
}

static enum status catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_stop};
    if (pipe(stop_pipe) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fcntl(stop_pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(stop_pipe[i], F_SETFD, FD_CLOEXEC);
    }
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a full disk to the journal, not an end */
    return ST_OK;
}

/* As many descriptors as the system lets this process have; some are kept for workers, files and the journal. */
static int raise_descriptors(void)
{
    enum { LEAST_KEPT = 64, MOST_KEPT = 4096 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t had = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = had;
    if (limit.rlim_cur >= INT_MAX || limit.rlim_cur <= 2 * LEAST_KEPT)
        return 0;
    rlim_t kept = limit.rlim_cur / 4;
    kept = kept < LEAST_KEPT ? LEAST_KEPT : kept > MOST_KEPT ? MOST_KEPT : kept;
    return (int)(limit.rlim_cur - kept);
}

static const char *last_part(const char *path)
{
    static char name[256];
    snprintf(name, sizeof name, "%s", path);
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/')
        name[--n] = '\0';
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

static uint32_t step_time_us(double ms)
{
    return ms < 0.0 ? SCHED_AUTO : (uint32_t)(ms * 1000.0);
}

/* What one tenant may have of `all` where nothing is asked for: the others always find a part of it. */
static uint64_t share_of(int64_t asked, uint64_t all)
{
    return asked ? (uint64_t)asked : all - all / 4;
}

static struct tenant_bounds bounds_of(const struct shared_options *o)
{
    uint64_t queued = (uint64_t)o->max_queued;
    return (struct tenant_bounds){
        .max_samples = (uint32_t)share_of(o->tenant_requests, queued + SPARE_REQUESTS),
        .max_queued = (uint32_t)share_of(0, queued),
        .max_queued_tokens = share_of(o->tenant_queued_tokens, (uint64_t)o->max_queued_tokens)};
}

static struct coordinator_config config_of(const struct args *a)
{
    const struct shared_options *o = &a->shared;
    return (struct coordinator_config){
        .model_path = o->model,
        .model_name = o->name ? o->name : last_part(o->model),
        .generation_config = o->generation_config == 0,
        .asked = {o->embed, o->rerank},
        .weights_digest = a->weights_digest,
        .key = o->key,
        .allowed_keys = o->allowed_keys,
        .client_port = {.endpoints = o->listen,
                        .allow_remote = o->allow_remote,
                        .max_message = o->max_message,
                        .heartbeat_ms = (uint32_t)o->heartbeat_ms,
                        .max_clients = (uint32_t)o->max_clients,
                        .peer_clients =
                            (uint32_t)share_of(o->tenant_clients, (uint64_t)o->max_clients)},
        .worker_port = {.endpoint = a->workers,
                        .allow_remote = o->allow_remote,
                        .heartbeat_ms = (uint32_t)o->heartbeat_ms,
                        .silence_ms = (uint32_t)o->silence_ms,
                        .step_min_ms = (uint32_t)o->step_deadline_ms,
                        .first_step_ms = (uint32_t)o->first_step_ms,
                        .lease_ms = (uint32_t)o->lease_ms},
        .max_seqs = (uint32_t)o->max_seqs,
        .max_step_tokens = (uint32_t)o->max_step_tokens,
        .max_waiting = (uint32_t)o->max_queued,
        .max_waiting_tokens = (uint64_t)o->max_queued_tokens,
        .max_score_bytes = o->prompt_logprob_memory,
        .tenant_bounds = bounds_of(o),
        .overtake = (uint32_t)o->overtake,
        .target_itl_us = step_time_us(o->target_itl_ms),
        .max_step_us = step_time_us(o->max_step_ms),
        .turn_tokens = (uint32_t)o->turn_tokens,
        .prefix_cache = o->prefix_cache,
        .plain_content = o->parse_special != 0,
        .tenants = (enum tenants)o->tenants,
        .overlap = o->overlap,
        .client_grace_ms = (uint32_t)o->client_grace_ms,
        .slow_client_ms = (uint32_t)o->slow_client_ms,
        .drain_ms = (uint32_t)o->drain_ms,
        .group_wait_ms = (uint32_t)o->group_wait_ms,
        .journal_dir = o->journal && strcmp(o->journal, "off") != 0 ? o->journal : NULL,
        .journal_sync = (enum journal_sync)o->journal_sync,
        .journal_content = (enum journal_content)o->journal_content,
        .journal_bounds = {.max_bytes = o->journal_size,
                           .max_age_s = 3600U * (uint64_t)o->journal_hours},
        .notify_fd = (int)a->notify_fd,
    };
}

/* -1 to go on, else the exit code */
static int parse(struct args *a, int argc, char **argv)
{
    struct row_list rows = {.n = 0};
    struct option_set set = options_of(&rows);
    struct option_result res;
    enum status st = options_parse(&set, a, argc, argv, &res);
    if (st == ST_OK && (res.help || res.version)) {
        if (res.help)
            options_print_help(stdout, &set, res.help);
        else
            build_info_print(stdout, set.program);
        return 0;
    }
    if (st == ST_OK && !a->shared.model)
        st = status_fail(ST_RANGE, __FILE__, __LINE__, "--model PATH is required");
    if (st != ST_OK) {
        fprintf(stderr, "ingot-coordinator: %s\nTry --help.\n", status_text());
        return 2;
    }
    if (a->shared.print_config) {
        fputs("ingot-coordinator, the configuration in effect:\n", stderr);
        options_print_effective(stderr, &set, a, &res);
    }
    return -1;
}

int main(int argc, char **argv)
{
    static struct coordinator co;
    struct args args = {.notify_fd = -1};
    int code = parse(&args, argc, argv);
    if (code >= 0)
        return code;
    log_init("coordinator", (enum log_level)args.shared.log_level);
    if (args.shared.die_with_parent && die_with_parent() != ST_OK) {
        fprintf(stderr, "ingot-coordinator: %s\n", status_text());
        return 1;
    }
    struct coordinator_config cfg = config_of(&args);
    cfg.client_port.max_fd = raise_descriptors();
    digest_cache_init(&cfg.digests, getenv("XDG_CACHE_HOME"), getenv("HOME"));
    enum status st =
        secret_load(&cfg.tenants_secret, args.tenants_secret, getenv("INGOT_TENANTS_SECRET"));
    if (st == ST_OK)
        st = catch_signals();
    if (st == ST_OK)
        st = coordinator_open(&co, &cfg);
    int rc = st == ST_OK                     ? coordinator_run(&co, stop_pipe[0])
             : st == ST_BUSY                 ? 3
             : st == ST_IO || st == ST_NOMEM ? 1
                                             : 2;
    if (st != ST_OK) {
        log_failure(LOG_ERROR, st, "cannot start");
        failure_file_write(args.shared.failure_file);
    }
    coordinator_close(&co);
    return rc;
}
