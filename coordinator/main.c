/* ingot-coordinator: options, signals, the loop. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/options.h"
#include "common/parent.h"
#include "coordinator/coordinator.h"

struct args {
    const char *model, *name, *weights_digest, *listen, *workers, *journal;
    int64_t max_seqs, max_step_tokens, max_queued, max_queued_tokens;
    int64_t heartbeat_ms, silence_ms, step_deadline_ms, first_step_ms, lease_ms;
    int64_t client_grace_ms, slow_client_ms, drain_ms, group_wait_ms, max_clients, notify_fd;
    uint64_t max_message;
    bool prefix_cache, overlap, allow_remote, die_with_parent;
    int log_level;
};

#define ROW(member, kind) .type = (kind), .at = offsetof(struct args, member)

static const struct option_row rows[] = {
    {.name = NULL, .help = "What is served"},
    {.name = "model",
     ROW(model, OPT_STRING),
     .arg = "PATH",
     .required = true,
     .help = "Model directory or .gguf file: its tokenizer and chat template."},
    {.name = "name",
     ROW(name, OPT_STRING),
     .arg = "NAME",
     .help = "Name that clients use; default: the last part of PATH."},
    {.name = "weights-digest",
     ROW(weights_digest, OPT_STRING),
     .arg = "HEX",
     .help = "Weights digest (64 digits) that worker groups must have; default: that of the weight "
             "files at PATH, which are read when a group is here and once only (the user's cache "
             "folder keeps it)."},
    {.name = NULL, .help = "Where"},
    {.name = "listen",
     ROW(listen, OPT_STRING),
     .arg = "EP,...",
     .def = "tcp://127.0.0.1:5555",
     .help = "Endpoints for clients, tcp://ADDRESS:PORT or ipc://PATH, separated by commas."},
    {.name = "workers",
     ROW(workers, OPT_STRING),
     .arg = "EP",
     .def = "tcp://127.0.0.1:5556",
     .help = "Endpoint for worker groups."},
    {.name = "allow-remote",
     ROW(allow_remote, OPT_FLAG),
     .help = "Listen on addresses other than loopback. Messages are not encrypted."},
    {.name = NULL, .help = "Scheduling"},
    {.name = "max-seqs",
     ROW(max_seqs, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 4096,
     .help = "Sequences in one step; 0 = what the workers can."},
    {.name = "max-step-tokens",
     ROW(max_step_tokens, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1 << 20,
     .help = "Tokens in one step; 0 = what the workers can."},
    {.name = "max-queued",
     ROW(max_queued, OPT_INT),
     .arg = "N",
     .def = "1024",
     .min = 1,
     .max = 32768,
     .help = "Sequences that may wait; more are refused with retry_after."},
    {.name = "max-queued-tokens",
     ROW(max_queued_tokens, OPT_INT),
     .arg = "N",
     .def = "4194304",
     .min = 1,
     .max = 1e12,
     .help = "Prompt tokens that may wait together."},
    {.name = "prefix-cache",
     ROW(prefix_cache, OPT_FLAG),
     .def = "true",
     .help = "Share the KV blocks of equal prompt beginnings between requests."},
    {.name = "overlap",
     ROW(overlap, OPT_FLAG),
     .def = "true",
     .help = "Plan and send the next step while one runs, so that the device does not wait for the "
             "coordinator; a device feeds greedy and top_k <= 64 sequences their own tokens."},
    {.name = NULL, .help = "Clients"},
    {.name = "max-clients",
     ROW(max_clients, OPT_INT),
     .arg = "N",
     .def = "4096",
     .min = 1,
     .max = 65536,
     .help = "Connections that are answered."},
    {.name = "max-message",
     ROW(max_message, OPT_SIZE),
     .arg = "BYTES",
     .def = "16M",
     .min = 65536,
     .max = 1U << 30,
     .help = "Largest message of a client."},
    {.name = "client-grace-ms",
     ROW(client_grace_ms, OPT_INT),
     .arg = "MS",
     .def = "300",
     .min = 0,
     .max = 3600000,
     .help = "How long a request lives on when its client is gone, so that it can attach again."},
    {.name = "slow-client-ms",
     ROW(slow_client_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 100,
     .max = 3600000,
     .help = "A client that reads nothing for that long is dropped."},
    {.name = "drain-ms",
     ROW(drain_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 0,
     .max = 3600000,
     .help = "After SIGTERM: how long running requests may go on."},
    {.name = NULL, .help = "Worker groups"},
    {.name = "heartbeat-ms",
     ROW(heartbeat_ms, OPT_INT),
     .arg = "MS",
     .def = "200",
     .min = 10,
     .max = 60000,
     .help = "Between heartbeats, both ways."},
    {.name = "silence-ms",
     ROW(silence_ms, OPT_INT),
     .arg = "MS",
     .def = "3000",
     .min = 100,
     .max = 600000,
     .help = "An idle group silent for longer is lost."},
    {.name = "step-deadline-ms",
     ROW(step_deadline_ms, OPT_INT),
     .arg = "MS",
     .def = "3000",
     .min = 10,
     .max = 3600000,
     .help = "A step's deadline is never shorter; longer ones follow from the steps measured."},
    {.name = "first-step-ms",
     ROW(first_step_ms, OPT_INT),
     .arg = "MS",
     .def = "120000",
     .min = 10,
     .max = 3600000,
     .help = "Deadline of a group's first three steps."},
    {.name = "lease-ms",
     ROW(lease_ms, OPT_INT),
     .arg = "MS",
     .def = "10000",
     .min = 100,
     .max = 3600000,
     .help = "Workers end themselves when they hear nothing for that long."},
    {.name = "group-wait-ms",
     ROW(group_wait_ms, OPT_INT),
     .arg = "MS",
     .def = "120000",
     .min = 100,
     .max = 86400000,
     .help = "When a group was lost, requests wait that long for another one."},
    {.name = NULL, .help = "Process"},
    {.name = "journal",
     ROW(journal, OPT_STRING),
     .arg = "DIR",
     .help = "Write all inputs and decisions into files there, for `ingot replay`. Prompts and "
             "answers are in them, readable by their owner only."},
    {.name = "notify-fd",
     ROW(notify_fd, OPT_INT),
     .arg = "FD",
     .def = "-1",
     .min = -1,
     .max = 1024,
     .help = "Write one line an event to this descriptor, for a supervisor."},
    {.name = "die-with-parent",
     ROW(die_with_parent, OPT_FLAG),
     .help = "End when the parent process ends (Linux)."},
    {.name = "log-level",
     ROW(log_level, OPT_ENUM),
     .arg = "debug|info|warn|error",
     .def = "info",
     .help = "Least level that is logged."},
};

static const struct option_set options = {
    .program = "ingot-coordinator",
    .usage = "--model PATH [options]",
    .summary =
        "Takes requests over ZeroMQ, tokenizes and schedules them, and sends steps to worker "
        "groups, which connect to --workers.",
    .epilog = "Example, on two terminals:\n"
              "  ingot-coordinator --model models/Qwen3-0.6B\n"
              "  mpirun -np 2 ingot-worker --model models/Qwen3-0.6B --connect "
              "tcp://127.0.0.1:5556\n"
              "SIGTERM or SIGINT drains, a second one ends at once.\n"
              "Exit codes: 0 drained, 1 failure, 2 bad options or model, 3 address in use.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
};

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

static struct coordinator_config config_of(const struct args *a)
{
    return (struct coordinator_config){
        .model_path = a->model,
        .model_name = a->name ? a->name : last_part(a->model),
        .weights_digest = a->weights_digest,
        .client_port = {.endpoints = a->listen,
                        .allow_remote = a->allow_remote,
                        .max_message = a->max_message,
                        .heartbeat_ms = (uint32_t)a->heartbeat_ms,
                        .max_clients = (uint32_t)a->max_clients},
        .worker_port = {.endpoint = a->workers,
                        .allow_remote = a->allow_remote,
                        .heartbeat_ms = (uint32_t)a->heartbeat_ms,
                        .silence_ms = (uint32_t)a->silence_ms,
                        .step_min_ms = (uint32_t)a->step_deadline_ms,
                        .first_step_ms = (uint32_t)a->first_step_ms,
                        .lease_ms = (uint32_t)a->lease_ms},
        .max_seqs = (uint32_t)a->max_seqs,
        .max_step_tokens = (uint32_t)a->max_step_tokens,
        .max_waiting = (uint32_t)a->max_queued,
        .max_waiting_tokens = (uint64_t)a->max_queued_tokens,
        .prefix_cache = a->prefix_cache,
        .overlap = a->overlap,
        .client_grace_ms = (uint32_t)a->client_grace_ms,
        .slow_client_ms = (uint32_t)a->slow_client_ms,
        .drain_ms = (uint32_t)a->drain_ms,
        .group_wait_ms = (uint32_t)a->group_wait_ms,
        .journal_dir = a->journal,
        .notify_fd = (int)a->notify_fd,
    };
}

int main(int argc, char **argv)
{
    static struct coordinator co;
    struct args args;
    struct option_result res;

    if (options_parse(&options, &args, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "ingot-coordinator: %s\nTry --help.\n", status_text());
        return 2;
    }
    if (res.help || res.version) {
        if (res.help)
            options_print_help(stdout, &options);
        else
            printf("ingot-coordinator %s\n", INGOT_VERSION);
        return 0;
    }
    log_init("coordinator", (enum log_level)args.log_level);
    if (args.die_with_parent && die_with_parent() != ST_OK) {
        fprintf(stderr, "ingot-coordinator: %s\n", status_text());
        return 1;
    }
    struct coordinator_config cfg = config_of(&args);
    digest_cache_init(&cfg.digests, getenv("XDG_CACHE_HOME"), getenv("HOME"));
    enum status st = catch_signals();
    if (st == ST_OK)
        st = coordinator_open(&co, &cfg);
    int rc = st == ST_OK                     ? coordinator_run(&co, stop_pipe[0])
             : st == ST_BUSY                 ? 3
             : st == ST_IO || st == ST_NOMEM ? 1
                                             : 2;
    if (st != ST_OK)
        log_failure(LOG_ERROR, st, "cannot start");
    coordinator_close(&co);
    return rc;
}
