#include "client/gateway/gateway_options.h"

#include <stdio.h>

#include "common/build_info.h"

#define ROW(member, kind) .type = (kind), .at = offsetof(struct gateway_options, member)

static const struct option_row rows[] = {
    {.help = "Where"},
    {.name = "connect",
     ROW(connect, OPT_LIST),
     .arg = "EP",
     .help = "A coordinator, tcp://ADDRESS:PORT or ipc://PATH; default tcp://127.0.0.1:5555. Given "
             "several "
             "times: coordinators of one service, tried in order."},
    {.name = "http",
     ROW(http, OPT_LIST),
     .arg = "ADDR:PORT",
     .help = "Listen there, 127.0.0.1:8080 by default; may be given several times."},
    {.name = "served-model-name",
     ROW(served_model_name, OPT_LIST),
     .arg = "A,B",
     .help = "Names of the model instead of the coordinator's own; ORG/NAME and NAME:latest name "
             "the same as NAME."},
    {.name = "allow-remote",
     ROW(allow_remote, OPT_FLAG),
     .help = "Listen on addresses other than loopback although there is no --api-key: all who "
             "reach them are "
             "trusted."},
    {.help = "Keys"},
    {.name = "key",
     ROW(key, OPT_STRING),
     .arg = "FILE",
     .help = "This program's own key, made by `ingot key new FILE`: TCP "
             "connections between a server and its clients and workers are "
             "encrypted, and each side proves its key."},
    {.name = "server-key",
     ROW(server_key, OPT_STRING),
     .arg = "KEY|FILE",
     .help = "The coordinator's public key, or a file with it (FILE.pub of "
             "its key): needed with --key."},
    {.help = "Who may ask"},
    {.name = "api-key",
     ROW(api_key, OPT_LIST),
     .arg = "KEY",
     .help = "Requests must carry one of these keys. Other users of the machine can read a command "
             "line; the environment variable INGOT_API_KEY is a key too. Each of several keys is a "
             "tenant."},
    {.name = "api-keys",
     ROW(api_keys, OPT_STRING),
     .arg = "FILE",
     .help = "Requests must carry a key of this file (or an --api-key); `ingot api-key` writes it. "
             "Changes take effect within a second."},
    {.name = "tenants-secret",
     ROW(tenants_secret, OPT_STRING),
     .arg = "FILE",
     .help = "The coordinator's --tenants-secret: with it the gateway acts for the tenants of its "
             "keys. The environment variable INGOT_TENANTS_SECRET may have the secret itself."},
    {.name = "cors",
     ROW(cors, OPT_LIST),
     .arg = "ORIGIN|*",
     .help = "Web pages of this origin may ask, such as https://chat.example.org; those of this "
             "machine always "
             "may."},
    {.name = "host",
     ROW(host, OPT_LIST),
     .arg = "NAME|*",
     .help = "Without keys: a name of this gateway in the Host header, besides localhost and the "
             "bound address; others are refused, against DNS rebinding."},
    {.name = "tls-cert",
     ROW(tls_cert, OPT_STRING),
     .arg = "FILE",
     .help = "Serve TLS with this certificate chain (PEM)."},
    {.name = "tls-key",
     ROW(tls_key, OPT_STRING),
     .arg = "FILE",
     .help = "The certificate's key (PEM)."},
    {.help = "Metrics"},
    {.name = "metrics-prefix",
     ROW(metrics_prefix, OPT_STRING),
     .arg = "PREFIX",
     .def = "ingot_",
     .help = "Begins the names in /metrics that vLLM has too; with vllm: they are vLLM's, for its "
             "dashboards."},
    {.name = "metrics-need-key",
     ROW(metrics_need_key, OPT_FLAG),
     .help = "/metrics needs an API key too; otherwise all who reach the gateway can read it."},
    {.help = "Limits"},
    {.name = "max-connections",
     ROW(max_connections, OPT_INT),
     .arg = "N",
     .def = "16384",
     .min = 1,
     .max = 1000000,
     .help = "Connections at once; further ones are answered with 503."},
    {.name = "max-body",
     ROW(max_body, OPT_SIZE),
     .arg = "BYTES",
     .def = "32M",
     .min = 1024,
     .max = 1U << 30,
     .help = "Largest body of a request."},
    {.name = "max-body-memory",
     ROW(max_body_memory, OPT_SIZE),
     .arg = "BYTES",
     .def = "512M",
     .min = 1024,
     .max = 1e13,
     .help = "All bodies together that are being received."},
    {.name = "max-head",
     ROW(max_head, OPT_SIZE),
     .arg = "BYTES",
     .def = "64K",
     .min = 1024,
     .max = 1 << 20,
     .help = "Largest head of a request."},
    {.name = "max-headers",
     ROW(max_headers, OPT_INT),
     .arg = "N",
     .def = "100",
     .min = 10,
     .max = 10000,
     .help = "Headers of a request."},
    {.name = "max-output",
     ROW(max_output, OPT_SIZE),
     .arg = "BYTES",
     .def = "256K",
     .min = 4096,
     .max = 1 << 30,
     .help = "What may wait for a client that reads slowly before its stream pauses."},
    {.name = "max-answer",
     ROW(max_answer, OPT_SIZE),
     .arg = "BYTES",
     .def = "64M",
     .min = 1024,
     .max = 1e13,
     .help = "Memory of an answer that is not streamed, its text and its JSON together; a longer "
             "one ends with an error."},
    {.name = "max-answer-memory",
     ROW(max_answer_memory, OPT_SIZE),
     .arg = "BYTES",
     .def = "1G",
     .min = 4096,
     .max = 1e13,
     .help = "All answers together, with what waits for clients that read slowly: beyond it the "
             "largest ones end with an error. Where half of it waits for clients, those for which "
             "most waits are cut off."},
    {.help = "Time limits"},
    {.name = "idle-ms",
     ROW(idle_ms, OPT_INT),
     .arg = "MS",
     .def = "120000",
     .min = 1,
     .max = 86400000,
     .help = "A connection without a request is closed after that."},
    {.name = "head-ms",
     ROW(head_ms, OPT_INT),
     .arg = "MS",
     .def = "10000",
     .min = 1,
     .max = 3600000,
     .help = "From the first byte of a request to the end of its head."},
    {.name = "body-ms",
     ROW(body_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 1,
     .max = 3600000,
     .help = "For a body, and a second more for each KiB that has come."},
    {.name = "stall-ms",
     ROW(stall_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 1,
     .max = 3600000,
     .help = "A client that takes nothing of its answer for that long is dropped."},
    {.name = "comment-ms",
     ROW(comment_ms, OPT_INT),
     .arg = "MS",
     .def = "15000",
     .min = 0,
     .max = 3600000,
     .help = "After that much silence an event stream says ': keep-alive'; 0: never."},
    {.name = "resume-grace-ms",
     ROW(resume_grace_ms, OPT_INT),
     .arg = "MS",
     .def = "10000",
     .min = 0,
     .max = 600000,
     .help = "How long a request with an Idempotency-Key goes on without its client, and any "
             "request without the coordinator."},
    {.name = "drain-ms",
     ROW(drain_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 0,
     .max = 3600000,
     .help = "After SIGTERM: how long running answers may go on."},
    {.help = "Log"},
    {.name = "access-log",
     ROW(access_log, OPT_STRING),
     .arg = "FILE|-",
     .help = "One line of JSON for each request when it has ended, to a file or standard output; "
             "SIGHUP opens the file again."},
    {.name = "log-prompts",
     ROW(log_prompts, OPT_FLAG),
     .help = "Lines of the access log contain the request's body (its first 64 KiB)."},
    {.help = "Process"},
    {.name = "die-with-parent",
     ROW(die_with_parent, OPT_FLAG),
     .help = "End when the process that started this one ends."},
    {.name = "notify-fd",
     ROW(notify_fd, OPT_INT),
     .arg = "FD",
     .def = "-1",
     .min = -1,
     .max = 1024,
     .help =
         "Write a line with the address to this descriptor once it listens, and another one each "
         "second, for a supervisor."},
    {.name = "print-config",
     ROW(print_config, OPT_FLAG),
     .help = "Print the options in effect and end."},
    {.name = "log-level",
     ROW(log_level, OPT_ENUM),
     .arg = "debug|info|warn|error",
     .def = "info",
     .help = "Least level that is logged."},
};

static const struct option_set options = {
    .program = "ingot-gateway",
    .usage = "[options]",
    .summary = "Serves HTTP for an Ingot coordinator.",
    .epilog = "Examples:\n"
              "  ingot-gateway\n"
              "  ingot-gateway --connect tcp://head:5555 --http 0.0.0.0:8080 --api-key secret\n"
              "SIGTERM or SIGINT drains, a second one ends at once.\n"
              "Exit codes: 0 drained, 1 failure, 2 bad options, 3 address in use.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
};

int gateway_options_parse(struct gateway_options *o, int argc, char **argv)
{
    struct option_result res;
    if (options_parse(&options, o, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "ingot-gateway: %s\nTry --help.\n", status_text());
        return 2;
    }
    if (res.help)
        options_print_help(stdout, &options, res.help);
    else if (res.version)
        build_info_print(stdout, "ingot-gateway");
    else if (o->print_config)
        options_print_effective(stdout, &options, o, &res);
    else
        return -1;
    return 0;
}

static struct http_names names_of(const struct option_list *l)
{
    return (struct http_names){l->item, l->n};
}

static struct http_names addresses(const struct gateway_options *o)
{
    static const char *const by_default[] = {"127.0.0.1:8080"};
    return o->http.n ? names_of(&o->http) : (struct http_names){by_default, 1};
}

static bool needs_key(const struct gateway_options *o)
{
    return o->api_key.n > 0 || o->api_keys;
}

/* With keys any: a stranger's page that comes by DNS rebinding has none. */
static struct http_names host_names(const struct gateway_options *o)
{
    static const char *const any[] = {"*"};
    return needs_key(o) ? (struct http_names){any, 1} : names_of(&o->host);
}

struct http_options gateway_http_options(const struct gateway_options *o)
{
    struct http_options h = http_options_default();
    h.listen = addresses(o);
    h.tls_cert = o->tls_cert;
    h.tls_key = o->tls_key;
    h.origins = names_of(&o->cors);
    h.hosts = host_names(o);
    h.limits.max_headers = (size_t)o->max_headers;
    h.limits.max_head = (size_t)o->max_head;
    h.limits.max_body = (size_t)o->max_body;
    h.max_connections = (size_t)o->max_connections;
    h.max_body_memory = (size_t)o->max_body_memory;
    h.max_output = (size_t)o->max_output;
    h.max_output_memory = (size_t)o->max_answer_memory / 2;
    h.idle_ms = (uint32_t)o->idle_ms;
    h.head_ms = (uint32_t)o->head_ms;
    h.body_ms = (uint32_t)o->body_ms;
    h.stall_ms = (uint32_t)o->stall_ms;
    h.comment_ms = (uint32_t)o->comment_ms;
    return h;
}

enum status gateway_check_exposure(const struct gateway_options *o)
{
    if (!o->key != !o->server_key)
        FAIL(ST_RANGE, "--key and --server-key belong together");
    const struct http_names a = addresses(o);
    for (size_t i = 0; i < a.n && !needs_key(o) && !o->allow_remote; i++)
        if (!http_host_is_loopback(a.name[i]))
            FAIL(ST_RANGE,
                 "--http %s: other hosts could use this gateway; give --api-key or --api-keys, or "
                 "--allow-remote where all who reach it are trusted",
                 a.name[i]);
    return ST_OK;
}
