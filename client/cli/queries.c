/* ingot status, models, ping, drain, version: one question to a server, one answer. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "common/clock.h"

struct args {
    const char *connect;
    struct cli_keys keys;
    bool json, watch, wait;
    int64_t timeout_ms, count;
};

#define AT(member) .at = offsetof(struct args, member)
#define CONNECT_ROW                                                                                \
    {.name = "connect",                                                                            \
     .type = OPT_STRING,                                                                           \
     AT(connect),                                                                                  \
     .arg = "EP",                                                                                  \
     .def = DEFAULT_ENDPOINT,                                                                      \
     .help = "Endpoint of the server; several, with commas between them, are tried in turn."},     \
        CLI_KEY_ROWS(struct args, keys)
#define JSON_ROW                                                                                   \
    {                                                                                              \
        .name = "json", .type = OPT_FLAG, AT(json), .help = "Print JSON."                          \
    }

static int parse(const struct option_row *rows, size_t n_rows, const char *program,
                 const char *summary, const char *epilog, struct args *a, int argc, char **argv)
{
    struct option_result res;
    struct option_set set = {.program = program,
                             .usage = "[--connect EP] [options]",
                             .summary = summary,
                             .epilog = epilog,
                             .rows = rows,
                             .n_rows = n_rows};
    *a = (struct args){.connect = NULL};
    return cli_parse(&set, a, argc, argv, &res);
}

/* ---- status ---- */

static const char *const histogram_names[INGOT_HISTOGRAMS] = {
    [INGOT_FIRST_TOKEN_US] = "first_token_us",
    [INGOT_BETWEEN_TOKENS_US] = "between_tokens_us",
    [INGOT_PER_TOKEN_US] = "per_token_us",
    [INGOT_TOTAL_US] = "total_us",
    [INGOT_QUEUE_US] = "queue_us",
    [INGOT_PREFILL_US] = "prefill_us",
    [INGOT_DECODE_US] = "decode_us",
    [INGOT_INFERENCE_US] = "inference_us",
    [INGOT_PROMPT_TOKENS] = "request_prompt_tokens",
    [INGOT_COMPUTED_PROMPT_TOKENS] = "request_computed_prompt_tokens",
    [INGOT_COMPLETION_TOKENS] = "sample_tokens",
    [INGOT_LONGEST_SAMPLE_TOKENS] = "longest_sample_tokens",
    [INGOT_MAX_TOKENS] = "request_max_tokens",
    [INGOT_SAMPLES] = "request_samples",
    [INGOT_PREEMPTIONS] = "request_preemptions",
    [INGOT_STEP_TOKENS] = "step_tokens",
    [INGOT_GRAMMAR_COMPILE_US] = "grammar_compile_us",
};

/* Counts are not cumulative; the last one is above all bounds. */
static void histogram_json(const char *comma, const char *name, const struct ingot_histogram *h)
{
    printf("%s\"%s\":{\"bound\":[", comma, name);
    for (uint32_t i = 0; i < h->n; i++)
        printf("%s%" PRIu64, i ? "," : "", h->bound[i]);
    fputs("],\"count\":[", stdout);
    for (uint32_t i = 0; h->n && i <= h->n; i++)
        printf("%s%" PRIu64, i ? "," : "", h->count[i]);
    printf("],\"sum\":%" PRIu64 "}", h->sum);
}

static void status_json(const struct ingot_stats *s, const char *server)
{
    fputs("{\"server\":", stdout);
    cli_put_json(stdout, server, strlen(server));
    printf(",\"ready\":%s,\"draining\":%s,\"running\":%" PRIu32 ",\"waiting\":%" PRIu32
           ",\"clients\":%" PRIu32 ",\"blocks_total\":%" PRIu32 ",\"blocks_free\":%" PRIu32
           ",\"blocks_cached\":%" PRIu32 ",\"snapshots_total\":%" PRIu32
           ",\"snapshots_known\":%" PRIu32,
           s->ready ? "true" : "false", s->draining ? "true" : "false", s->running, s->waiting,
           s->clients, s->blocks_total, s->blocks_free, s->blocks_cached, s->snapshots_total,
           s->snapshots_known);
    printf(",\"steps\":%" PRIu64 ",\"steps_overlapped\":%" PRIu64, s->steps, s->steps_overlapped);
    printf(",\"tokens_generated\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64
           ",\"cached_tokens\":%" PRIu64 ",\"preemptions\":%" PRIu64 ",\"pauses\":%" PRIu64
           ",\"recoveries\":%" PRIu64,
           s->tokens_generated, s->prompt_tokens, s->cached_tokens, s->preemptions, s->pauses,
           s->recoveries);
    printf(",\"finished\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"rejected\":%" PRIu64
           ",\"cancelled\":%" PRIu64
           ",\"last_step_age_ms\":%.3f,\"uptime_s\":%.3f,\"epoch\":%" PRIu64 ",\"groups\":[",
           s->finished, s->failed, s->rejected, s->cancelled, (double)s->last_step_age_us / 1e3,
           (double)s->uptime_us / 1e6, s->epoch);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        const struct ingot_group *g = &s->groups[i];
        printf("%s{\"epoch\":%" PRIu64 ",\"active\":%s,\"world\":%" PRIu32 ",\"backend\":",
               i ? "," : "", g->epoch, g->active ? "true" : "false", g->world);
        cli_put_json(stdout, g->backend, strlen(g->backend));
        fputs(",\"coll\":", stdout);
        cli_put_json(stdout, g->coll, strlen(g->coll));
        fputs(",\"numerics\":", stdout);
        cli_put_json(stdout, g->numerics, strlen(g->numerics));
        fputs(",\"hosts\":", stdout);
        cli_put_json(stdout, g->hosts, strlen(g->hosts));
        fputs(",\"address\":", stdout);
        cli_put_json(stdout, g->address, strlen(g->address));
        printf(",\"running\":%" PRIu32 ",\"waiting\":%" PRIu32 ",\"tokens_generated\":%" PRIu64,
               g->running, g->waiting, g->tokens_generated);
        printf(",\"weights_digest\":\"%s\",\"step_ms_p50\":%.3f,\"step_ms_p99\":%.3f}",
               g->weights_digest, (double)g->step_us_p50 / 1e3, (double)g->step_us_p99 / 1e3);
    }
    fputs("],\"histograms\":{", stdout);
    for (size_t i = 0; i < ARRAY_LEN(histogram_names); i++)
        histogram_json(i ? "," : "", histogram_names[i], &s->histogram[i]);
    printf("},\"grammars\":{\"compiled\":%" PRIu64 ",\"known\":%" PRIu64 ",\"refused\":%" PRIu64
           ",\"dropped\":%" PRIu64 "},\"masks\":{\"taken\":%" PRIu64 ",\"cached\":%" PRIu64
           ",\"us\":%" PRIu64 ",\"wait_us\":%" PRIu64,
           s->grammars_compiled, s->grammars_known, s->grammars_refused, s->grammars_dropped,
           s->masks, s->masks_cached, s->mask_us, s->mask_wait_us);
    printf("},\"prefix_queries\":%" PRIu64 ",\"prefix_hits\":%" PRIu64 ",\"journal\":",
           s->prefix_queries, s->prefix_hits);
    cli_put_json(stdout, s->journal, strlen(s->journal));
    puts("}");
}

/* The two greatest units: "12 s", "3 min 5 s", "2 h 0 min", "4 d 7 h". */
static void put_duration(uint64_t us)
{
    static const struct {
        const char *name;
        unsigned s;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    uint64_t s = us / 1000000;
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(units) && s < units[i].s)
        i++;
    printf("%" PRIu64 " %s", s / units[i].s, units[i].name);
    if (i + 1 < ARRAY_LEN(units))
        printf(" %" PRIu64 " %s", s % units[i].s / units[i + 1].s, units[i + 1].name);
}

/* "12.3 ms" of all values so far; "-": there are none. */
static void put_mean(const struct ingot_histogram *h)
{
    uint64_t n = 0;
    for (uint32_t i = 0; h->n && i <= h->n; i++)
        n += h->count[i];
    if (n)
        printf("%.2f ms", (double)h->sum / (double)n / 1e3);
    else
        putchar('-');
}

static void latency_line(const struct ingot_stats *s)
{
    fputs("times      on average: first token ", stdout);
    put_mean(&s->histogram[INGOT_FIRST_TOKEN_US]);
    fputs(", between tokens ", stdout);
    put_mean(&s->histogram[INGOT_BETWEEN_TOKENS_US]);
    fputs(", in the queue ", stdout);
    put_mean(&s->histogram[INGOT_QUEUE_US]);
    fputs(", whole request ", stdout);
    put_mean(&s->histogram[INGOT_TOTAL_US]);
    putchar('\n');
}

static void group_line(const struct ingot_group *g)
{
    printf("workers    %" PRIu32 " rank%s, ", g->world, g->world == 1 ? "" : "s");
    cli_put_name(stdout, g->backend);
    fputs(", ", stdout);
    cli_put_name(stdout, g->coll);
    fputs(g->active ? ", active" : ", standing by", stdout);
    if (g->active)
        printf("; %" PRIu32 " running, %" PRIu32 " waiting, %" PRIu64 " tokens", g->running,
               g->waiting, g->tokens_generated);
    if (g->step_us_p99)
        printf("; step %.2f ms, at worst 1 %% %.2f ms", (double)g->step_us_p50 / 1e3,
               (double)g->step_us_p99 / 1e3);
    if (*g->hosts) {
        fputs("\n           hosts ", stdout);
        cli_put_name(stdout, g->hosts);
    }
    if (*g->address) {
        fputs("; connected from ", stdout);
        cli_put_name(stdout, g->address);
    }
    fputs("\n           numerics ", stdout);
    cli_put_name(stdout, g->numerics);
    printf(", weights %.16s\n", *g->weights_digest ? g->weights_digest : "not known yet");
}

/* The beginnings of both digests, and where the first comes from. */
static void identity_line(const struct ingot_model *m)
{
    printf("model      weights %.16s (", *m->weights_digest ? m->weights_digest : "-");
    cli_put_name(stdout, m->weights_from);
    printf("), text %.16s\n", *m->text_digest ? m->text_digest : "-");
}

static void status_text_lines(const struct ingot_stats *s, const struct ingot_server *server)
{
    uint32_t held = s->blocks_total - s->blocks_free - s->blocks_cached;
    const char *state = s->draining ? "draining" : s->ready ? "ready" : "waiting for its workers";
    fputs(cli_sgr(stdout, 1), stdout);
    cli_put_name(stdout, server->model.name);
    printf("%s  %s%s%s, up ", cli_sgr(stdout, 0),
           cli_sgr(stdout, s->ready && !s->draining ? 32 : 33), state, cli_sgr(stdout, 0));
    put_duration(s->uptime_us);
    printf(", %" PRIu32 " client%s\nserver     ", s->clients, s->clients == 1 ? "" : "s");
    cli_put_name(stdout, server->version);
    putchar('\n');
    identity_line(&server->model);
    for (uint32_t i = 0; i < s->n_groups; i++)
        group_line(&s->groups[i]);
    printf("sequences  %" PRIu32 " running, %" PRIu32 " waiting\n", s->running, s->waiting);
    printf("requests   %" PRIu64 " finished, %" PRIu64 " cancelled, %" PRIu64 " refused, %" PRIu64
           " failed\n",
           s->finished, s->cancelled, s->rejected, s->failed);
    printf("tokens     %" PRIu64 " answered; prompts %" PRIu64 ", %" PRIu64 " of them cached\n",
           s->tokens_generated, s->prompt_tokens, s->cached_tokens);
    latency_line(s);
    printf("KV blocks  %" PRIu32 " of %" PRIu32 " in use, %" PRIu32 " cached, %" PRIu32 " free\n",
           held, s->blocks_total, s->blocks_cached, s->blocks_free);
    if (s->snapshots_total)
        printf("snapshots  %" PRIu32 " of %" PRIu32
               " states are kept for prompts that begin alike\n",
               s->snapshots_known, s->snapshots_total);
    printf("steps      %" PRIu64, s->steps);
    if (s->steps)
        printf(", the last %.1f s ago", (double)s->last_step_age_us / 1e6);
    printf("; %" PRIu64 " preemptions, %" PRIu64 " pauses, %" PRIu64 " recoveries\n",
           s->preemptions, s->pauses, s->recoveries);
    if (*s->journal) {
        fputs("journal    ", stdout);
        cli_put_name(stdout, s->journal);
        putchar('\n');
    }
}

static int status_once(struct ingot_client *c, const struct args *a)
{
    struct ingot_stats s;
    enum ingot_code code = ingot_stats(c, &s);
    if (code != INGOT_OK)
        return cli_fail("status", cli_exit_code(code));
    if (a->watch && !a->json && cli_is_terminal(stdout))
        fputs("\x1b[H\x1b[J", stdout);
    if (a->json)
        status_json(&s, ingot_server(c)->version);
    else
        status_text_lines(&s, ingot_server(c));
    fflush(stdout);
    return EXIT_OK;
}

int cmd_status(int argc, char **argv)
{
    static const struct option_row rows[] = {
        CONNECT_ROW,
        JSON_ROW,
        {.name = "watch",
         .type = OPT_FLAG,
         AT(watch),
         .help = "Print it again every second, until Ctrl-C."},
    };
    struct args a;
    struct ingot_client *c = NULL;
    int rc = parse(rows, ARRAY_LEN(rows), "ingot status",
                   "Prints the state of a server: its version and uptime, its worker groups "
                   "(active ones share "
                   "the load), requests, tokens, blocks of the KV "
                   "cache, steps. Counts are since the start of the server.",
                   "Examples:\n  ingot status\n  ingot status --watch\n  ingot status "
                   "--json\n" EXIT_CODES_HELP,
                   &a, argc, argv);
    if (rc < 0)
        rc = cli_connect(&c, "status", a.connect, &a.keys);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    do
        rc = status_once(c, &a);
    while (a.watch && rc == EXIT_OK && !interrupts() && sleep(1) == 0);
    ingot_close(c);
    return rc;
}

/* ---- models ---- */

static void model_json(const struct ingot_model *m)
{
    fputs("{\"name\":", stdout);
    cli_put_json(stdout, m->name, strlen(m->name));
    printf(",\"weights_digest\":\"%s\",\"text_digest\":\"%s\",\"weights_from\":", m->weights_digest,
           m->text_digest);
    cli_put_json(stdout, m->weights_from, strlen(m->weights_from));
    printf(",\"vocab\":%" PRIu32 ",\"max_ctx\":%" PRIu32 ",\"world\":%" PRIu32 ",\"chat\":%s}\n",
           m->vocab, m->max_ctx, m->world, m->chat ? "true" : "false");
}

static void model_line(const struct ingot_model *m)
{
    cli_put_name(stdout, m->name);
    printf("  %" PRIu32 " tokens of context, vocabulary %" PRIu32 ", %" PRIu32 " rank%s%s\n",
           m->max_ctx, m->vocab, m->world, m->world == 1 ? "" : "s", m->chat ? ", chat" : "");
}

int cmd_served_models(int argc, char **argv)
{
    static const struct option_row rows[] = {CONNECT_ROW, JSON_ROW};
    struct args a;
    struct ingot_client *c = NULL;
    const struct ingot_model *m;
    size_t n;
    int rc = parse(
        rows, ARRAY_LEN(rows), "ingot models",
        "Lists the models that a server serves, one per line.  'ingot models list' lists those "
        "in the hub's cache, 'ingot models remove ORG/NAME' removes one of them.",
        "Examples:\n"
        "  ingot models\n"
        "  ingot models --json\n"
        "  ingot models list                  # without a server: in the cache\n"
        "  ingot models remove ORG/NAME\n" EXIT_CODES_HELP,
        &a, argc, argv);
    if (rc < 0)
        rc = cli_connect(&c, "models", a.connect, &a.keys);
    if (rc >= 0)
        return rc;
    enum ingot_code code = ingot_models(c, &m, &n);
    rc = code == INGOT_OK ? EXIT_OK : cli_fail("models", cli_exit_code(code));
    for (size_t i = 0; code == INGOT_OK && i < n; i++) {
        if (a.json)
            model_json(&m[i]);
        else
            model_line(&m[i]);
    }
    ingot_close(c);
    return rc;
}

/* ---- ping ---- */

static int ping_once(struct ingot_client *c, const struct args *a)
{
    struct ingot_pong p;
    uint64_t t0 = clock_us();
    enum ingot_code code = ingot_ping(c, &p);
    if (code != INGOT_OK)
        return cli_fail("ping", cli_exit_code(code));
    double ms = (double)(clock_us() - t0) / 1e3;
    if (a->json)
        printf("{\"ready\":%s,\"rtt_ms\":%.3f,\"steps\":%" PRIu64 ",\"running\":%" PRIu32
               ",\"waiting\":%" PRIu32 ",\"epoch\":%" PRIu64 "}\n",
               p.ready ? "true" : "false", ms, p.steps, p.running, p.waiting, p.epoch);
    else
        printf("%s answers after %.2f ms; %s\n", a->connect, ms,
               p.ready ? "ready" : "no workers are there yet");
    return EXIT_OK;
}

int cmd_ping(int argc, char **argv)
{
    static const struct option_row rows[] = {
        CONNECT_ROW,
        JSON_ROW,
        {.name = "count",
         .type = OPT_INT,
         AT(count),
         .arg = "N",
         .def = "1",
         .min = 1,
         .max = 1e6,
         .help = "Number of messages."},
    };
    struct args a;
    struct ingot_client *c = NULL;
    int rc =
        parse(rows, ARRAY_LEN(rows), "ingot ping",
              "Sends a message to a server and prints the time until its answer.",
              "Examples:\n  ingot ping\n  ingot ping --count 10\n" EXIT_CODES_HELP, &a, argc, argv);
    if (rc < 0)
        rc = cli_connect(&c, "ping", a.connect, &a.keys);
    if (rc >= 0)
        return rc;
    for (int64_t i = 0; i < a.count && rc <= EXIT_OK; i++)
        rc = ping_once(c, &a);
    ingot_close(c);
    return rc;
}

/* ---- drain ---- */

/* Waits until the server has gone: a fresh connection is not answered. */
static int wait_gone(const struct args *a)
{
    enum { STEP_US = 100 * 1000 };
    uint64_t until = clock_us() + 1000U * (uint64_t)a->timeout_ms + 5U * 1000 * 1000;
    const struct ingot_options o = {.endpoint = a->connect,
                                    .timeout_ms = 1000,
                                    .key = a->keys.key,
                                    .server_key = a->keys.server_key};
    struct ingot_client *probe;
    while (clock_us() < until && !interrupts()) {
        if (ingot_open(&probe, &o) != INGOT_OK)
            return EXIT_OK;
        ingot_close(probe);
        usleep(STEP_US);
    }
    fprintf(stderr, "ingot drain: the server is still there\n");
    return interrupts() ? EXIT_INTERRUPTED : EXIT_FAILED;
}

int cmd_drain(int argc, char **argv)
{
    static const struct option_row rows[] = {
        CONNECT_ROW,
        {.name = "timeout-ms",
         .type = OPT_INT,
         AT(timeout_ms),
         .arg = "MS",
         .def = "30000",
         .min = 1,
         .max = 3600000,
         .help = "How long running requests may go on."},
        {.name = "wait", .type = OPT_FLAG, AT(wait), .help = "Wait until the server has ended."},
    };
    struct args a;
    struct ingot_client *c = NULL;
    uint32_t running = 0;
    int rc =
        parse(rows, ARRAY_LEN(rows), "ingot drain",
              "Tells a server to finish its running requests, to refuse new ones, and to end.",
              "It needs the server's own user on its host, or a key with the role operate.\n"
              "Examples:\n  ingot drain\n  ingot drain --timeout-ms 5000 --wait\n" EXIT_CODES_HELP,
              &a, argc, argv);
    if (rc < 0)
        rc = cli_connect_operator(&c, "drain", a.connect, &a.keys);
    if (rc >= 0)
        return rc;
    interrupts_catch();
    enum ingot_code code = ingot_drain(c, (uint32_t)a.timeout_ms, &running);
    rc = code == INGOT_OK ? EXIT_OK : cli_fail("drain", cli_exit_code(code));
    if (rc == EXIT_OK)
        printf("draining; %" PRIu32 " request%s still running\n", running,
               running == 1 ? " is" : "s are");
    fflush(stdout);
    if (rc == EXIT_OK && a.wait)
        rc = wait_gone(&a);
    ingot_close(c);
    return rc;
}
