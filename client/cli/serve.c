/* ingot serve: a supervised server on this machine. */
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/gateway_job.h"
#include "client/cli/model_name.h"
#include "client/cli/state_path.h"
#include "client/cli/supervisor.h"
#include "common/hex.h"
#include "common/host.h"
#include "common/log.h"
#include "common/random.h"

/* Where the gateway listens, each time that it begins to. */
static void say_http(const struct gateway_job *g, bool *said)
{
    if (*g->address && !*said)
        printf("HTTP at http://%s/v1 (OpenAI's API)\n  page:   http://%s/\n", g->address,
               g->address);
    *said = *g->address != '\0';
    fflush(stdout);
}

/* No command asks a running server for a vector: HTTP does, or the Python client. */
static void say_vector(const struct gateway_job *g, const char *label, const char *path,
                       const char *body, const char *call)
{
    const char *key = getenv("INGOT_API_KEY");
    bool locked = g->args->api_keys || (key && *key);
    if (*g->address)
        printf("  %-7s curl http://%s%s%s -d '%s'\n", label, g->address, path,
               locked ? " -H \"Authorization: Bearer $INGOT_API_KEY\"" : "", body);
    else
        printf("  %-7s %s of the Python client (client/python)\n", label, call);
}

static void say_ready(const struct supervisor *s, const struct gateway_job *g, const char *key,
                      bool *said_http)
{
    const char *ep = supervisor_endpoint(s), *ingot = child_own_command();
    bool usual = strcmp(ep, "tcp://127.0.0.1:5555") == 0;
    if (key)
        printf("TCP connections need a key: --key FILE --server-key %s.pub\n", key);
    printf("Ready at %s\n", ep);
    say_http(g, said_http);
    if (*g->why)
        printf("No HTTP: %s\n", g->why);
    unsigned gives = supervisor_gives(s);
    if (gives & GIVES_ANSWERS) {
        printf("  ask:    %s generate%s%s --prompt 'Once upon a time'\n", ingot,
               usual ? "" : " --connect ", usual ? "" : ep);
        printf("  talk:   %s chat%s%s\n", ingot, usual ? "" : " --connect ", usual ? "" : ep);
    }
    if (gives & GIVES_EMBEDDINGS)
        say_vector(g, "embed:", "/v1/embeddings", "{\"input\": \"Once upon a time\"}", "embed()");
    if (gives & GIVES_SCORES)
        say_vector(g, "score:", "/v1/rerank",
                   "{\"query\": \"What is a fox?\", \"documents\": [\"An animal.\", \"A car.\"]}",
                   "rerank()");
    printf("  look:   %s status%s%s\n", ingot, usual ? "" : " --connect ", usual ? "" : ep);
    printf("  end:    Ctrl-C\n");
    fflush(stdout);
}

static int watch(struct supervisor *s, struct gateway_job *g, const char *key)
{
    enum supervisor_state state = SUP_STARTING;
    bool said_ready = false, said_http = false;
    int drained = 0;
    for (;;) {
        enum status st = supervisor_poll(s, 100, &state);
        if (st == ST_OK && state != SUP_ENDED)
            st = gateway_job_poll(g, supervisor_local_endpoint(s));
        if (st != ST_OK) {
            log_line(LOG_ERROR, "%s", status_text());
            return st == ST_RANGE ? EXIT_USAGE : EXIT_FAILED;
        }
        if (said_ready) {
            say_http(g, &said_http);
        } else if (state == SUP_READY && gateway_job_is_settled(g)) {
            said_ready = true;
            say_ready(s, g, key, &said_http);
        }
        if (state == SUP_ENDED)
            return supervisor_exit_code(s);
        if (interrupts() > drained) {
            drained = interrupts();
            log_line(LOG_INFO, drained > 1 ? "ending now"
                                           : "ending when the running requests have ended; Ctrl-C "
                                             "again ends at once");
            if (drained > 1)
                return EXIT_OK;
            gateway_job_drain(g);
            supervisor_drain(s);
        }
    }
}

/* Ranks that are slower together, and numbers of ranks whose shards are not whole slices of the sums: the
 * promise of the same bytes does not hold between them and others. */
static void warn_of_ranks(const struct serve_args *a)
{
    enum { BACKEND_CPU = 0 };
    int64_t tp = a->shared.tp, groups = a->groups;
    int cpus = host_cpus();
    if (a->shared.backend == BACKEND_CPU && tp * groups > cpus)
        log_line(LOG_WARN,
                 "%" PRId64 " ranks share %d core%s: they are slower than %d rank%s would be",
                 tp * groups, cpus, cpus == 1 ? "" : "s", cpus, cpus == 1 ? "" : "s");
    if (tp != 1 && tp != 2 && tp != 4 && tp != 8)
        log_line(LOG_WARN,
                 "--tp %" PRId64
                 ": answers differ in bits from those of 1, 2, 4 and 8 ranks, which "
                 "are all the same",
                 tp);
}

/* The gateway alone may act for other tenants: it and the coordinator find the secret in the environment. */
static void share_secret(void)
{
    uint8_t bytes[32];
    char text[2 * sizeof bytes + 1];
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, text);
    (void)setenv("INGOT_TENANTS_SECRET", text, 0); /* not where the user has set one */
}

/* Letters, digits, dots and hyphens stay; two servers cannot listen on one endpoint. */
static void folder_of_endpoint(char *out, size_t size, const char *endpoint)
{
    size_t n = strlen(endpoint);
    if (n >= size) /* the end tells the endpoints of one host apart */
        endpoint += n - size + 1;
    snprintf(out, size, "%s", endpoint);
    for (char *p = out; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '.' && *p != '-')
            *p = '_';
}

/* Where the journal is; NULL: there is none. */
static const char *journal_place(const struct shared_options *o, char path[STATE_PATH])
{
    enum { NAME = 128 };
    char name[NAME], below[NAME + 16];
    if (o->journal)
        return strcmp(o->journal, "off") == 0 ? NULL : o->journal;
    if (strchr(o->listen, '*')) {
        log_line(LOG_INFO,
                 "no journal, for the port is chosen at the start: --journal DIR keeps one");
        return NULL;
    }
    folder_of_endpoint(name, sizeof name, o->listen);
    snprintf(below, sizeof below, "journal/%s", name);
    if (state_path(path, getenv("XDG_STATE_HOME"), getenv("HOME"), below) == ST_OK)
        return path;
    log_line(LOG_WARN, "no journal: %s", status_text());
    return NULL;
}

static void say_journal(const struct shared_options *o)
{
    enum { CONTENT_NONE = 1 };
    if (o->journal && o->journal_content == CONTENT_NONE)
        log_line(LOG_INFO, "journal: without prompts and answers, in %s (--journal off: none)",
                 o->journal);
    else if (o->journal)
        log_line(LOG_INFO,
                 "journal: prompts and answers are kept in %s, at most %" PRIu64 " MiB for %" PRId64
                 " hours; requests that were accepted outlive the server (--journal off: neither)",
                 o->journal, o->journal_size >> 20, o->journal_hours);
}

static int run(const struct serve_args *a, const char *model)
{
    struct supervisor *s;
    struct gateway_job gateway;
    log_init("serve", LOG_INFO);
    warn_of_ranks(a);
    share_secret();
    interrupts_catch();
    signal(SIGPIPE, SIG_IGN);
    struct supervisor_config cfg = {.model = model, .args = *a, .command = FOR_SERVE};
    if (supervisor_start(&s, &cfg) != ST_OK) {
        log_line(LOG_ERROR, "%s", status_text());
        return EXIT_FAILED;
    }
    gateway_job_init(&gateway, a);
    int rc = watch(s, &gateway, a->shared.key);
    gateway_job_stop(&gateway);
    supervisor_stop(s);
    return rc;
}

int cmd_serve(int argc, char **argv)
{
    struct serve_args a = {.groups = 1};
    struct option_result res;
    struct row_list rows = {.n = 0};
    serve_rows(&rows, 0);
    struct option_set set = {
        .program = "ingot serve",
        .usage = "MODEL [options]",
        .summary =
            "Serves a model on this machine: starts a coordinator, worker ranks and an HTTP "
            "gateway, and starts "
            "ranks again when they fail; running requests go on with the same bytes. "
            "MODEL is a folder in HuggingFace layout, a .gguf file, or the name ORG/NAME of a "
            "model that 'ingot pull' has downloaded.",
        .epilog =
            "Examples:\n"
            "  ingot serve demo-model --tp 2\n"
            "  ingot serve Qwen/Qwen3-0.6B --pull\n"
            "  ingot serve models/Qwen3-0.6B --threads 8 --kv-memory 4G\n"
            "  ingot serve model-q8_0.gguf --listen tcp://0.0.0.0:5555 --allow-remote\n"
            "  ingot serve models/Llama-3.1-8B --tp 2 --groups 2\n"
            "  INGOT_API_KEY=secret ingot serve models/Qwen3-0.6B --http 0.0.0.0:8080\n"
            "Options for the coordinator and the workers are theirs by the same name: see\n"
            "ingot-coordinator --help and ingot-worker --help.\n"
            "Ctrl-C or SIGTERM drains, a second one ends at once. A coordinator that dies is\n"
            "started again, and clients that connect again go on with their streams.\n"
            "Exit codes: 0 ended as asked, 1 failure, 2 wrong options or model, 3 address in use, "
            "4 ended\n"
            "as asked, but requests failed because the time ran out.",
        .rows = rows.row,
        .n_rows = rows.n,
        .min_args = 1,
        .max_args = 1,
    };
    struct model_place model;
    char journal[STATE_PATH];
    int rc = cli_parse(&set, &a, argc, argv, &res);
    if (rc < 0)
        rc = model_find(&model, "serve", res.args[0], a.pull);
    if (rc >= 0)
        return rc;
    if (!a.shared.name)
        a.shared.name = model.name;
    a.shared.journal = journal_place(&a.shared, journal);
    say_journal(&a.shared);
    return run(&a, model.path);
}
