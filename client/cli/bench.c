/* ingot bench: concurrent load on a server, and what it says about it. */
#include "client/cli/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"

enum { HTTP_VOCAB = 256 };

#define AT(member) .at = offsetof(struct bench_args, member)

static const struct option_row rows[] = {
    {.name = "connect",
     .type = OPT_STRING,
     AT(connect),
     .arg = "EP",
     .def = DEFAULT_ENDPOINT,
     .help = "Endpoint of the server; several, with commas between them, are tried in turn."},
    CLI_KEY_ROWS(struct bench_args, keys),
    {.name = "http",
     .type = OPT_STRING,
     AT(http),
     .arg = "URL",
     .help = "Load http://HOST:PORT over HTTP instead: streams of /v1/completions. A piece of "
             "an answer counts as one token; ids are not checked."},
    {.name = "model-name",
     .type = OPT_STRING,
     AT(model),
     .arg = "NAME",
     .help = "With --http: the model that requests name."},
    {.name = "api-key",
     .type = OPT_STRING,
     AT(api_key),
     .arg = "KEY",
     .help = "With --http: the key that requests carry."},
    {.name = "vocab",
     .type = OPT_INT,
     AT(vocab),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1 << 30,
     .help = "Ids of the prompts are below N; 0: below the server's vocabulary, with --http 256."},
    {.name = "concurrency",
     .type = OPT_INT,
     AT(concurrency),
     .arg = "N",
     .def = "8",
     .min = 1,
     .max = 4096,
     .help = "Requests that run at the same time."},
    {.name = "requests",
     .type = OPT_INT,
     AT(requests),
     .arg = "N",
     .def = "64",
     .min = 1,
     .max = 1e7,
     .help = "Number of requests."},
    {.name = "prompt-tokens",
     .type = OPT_INT,
     AT(prompt_tokens),
     .arg = "N",
     .def = "32",
     .min = 1,
     .max = 1e7,
     .help = "Tokens of each prompt; they are random."},
    {.name = "shared-tokens",
     .type = OPT_INT,
     AT(shared_tokens),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1e7,
     .help = "Number of first tokens that all prompts share, to measure the prefix cache."},
    {.name = "max-tokens",
     .type = OPT_INT,
     AT(max_tokens),
     .arg = "N",
     .def = "64",
     .min = 1,
     .max = 1e7,
     .help = "Tokens of each answer; end-of-sequence tokens do not stop it."},
    {.name = "temperature",
     .type = OPT_FLOAT,
     AT(temperature),
     .arg = "X",
     .def = "0",
     .min = 0,
     .max = 100,
     .help = "Temperature; 0: greedy."},
    {.name = "rate",
     .type = OPT_FLOAT,
     AT(rate),
     .arg = "R",
     .def = "0",
     .min = 0,
     .max = 1e6,
     .help = "Send at most R requests per second; 0: a new one as soon as one has ended."},
    {.name = "seed",
     .type = OPT_INT,
     AT(seed),
     .arg = "N",
     .def = "0",
     .help = "Seed of the prompts."},
    {.name = "timeout-ms",
     .type = OPT_INT,
     AT(timeout_ms),
     .arg = "MS",
     .def = "60000",
     .min = 100,
     .max = 3600000,
     .help = "Give up after that time without a message from the server."},
    {.name = "json", .type = OPT_FLAG, AT(json), .help = "Print one JSON object."},
};

static const struct option_set options = {
    .program = "ingot bench",
    .usage = "[--connect EP | --http URL] [options]",
    .summary =
        "Loads a server with concurrent requests and measures: time to the first token, time "
        "between "
        "tokens, tokens per second. Checks that every request has exactly one end and that no "
        "piece of an answer is missing or doubled.",
    .epilog = "Example:\n"
              "  ingot bench --concurrency 64 --requests 256 --prompt-tokens 100 --max-tokens 100\n"
              "Exit codes: 0 all requests finished and nothing is missing or doubled, 1 failure, 2 "
              "wrong\n"
              "options, 3 no server answers or it went away, 4 requests failed, were lost or "
              "doubled, 130\n"
              "interrupted.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
};

/* ---- printing ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* nearest rank; 0 without values; sorts */
static double percentile(struct series *s, double p)
{
    if (!s->n)
        return 0.0;
    qsort(s->v, s->n, sizeof *s->v, by_value);
    size_t i = (size_t)(p / 100.0 * (double)s->n);
    return s->v[i < s->n ? i : s->n - 1];
}

static void print_series(const char *name, struct series *s)
{
    printf("%-20s p50 %9.2f ms   p99 %9.2f ms   worst %9.2f ms\n", name, percentile(s, 50),
           percentile(s, 99), percentile(s, 100));
}

static void json_series(const char *name, struct series *s)
{
    printf(",\"%s\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f,\"count\":%zu}", name,
           percentile(s, 50), percentile(s, 99), percentile(s, 100), s->n);
}

static double per_second(uint64_t n, double seconds)
{
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

static void print_json(const struct bench_args *a, struct bench_result *r)
{
    printf("{\"requests\":%" PRId64 ",\"concurrency\":%" PRId64 ",\"finished\":%" PRIu64
           ",\"failed\":%" PRIu64 ",\"retried\":%" PRIu64 ",\"lost\":%" PRIu64
           ",\"doubled\":%" PRIu64 ",\"gaps\":%" PRIu64,
           a->requests, a->concurrency, r->finished, r->failed, r->retried, r->lost, r->doubled,
           r->gaps);
    printf(",\"seconds\":%.3f,\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
           ",\"completion_tokens\":%" PRIu64 ",\"preemptions\":%" PRIu64 ",\"recoveries\":%" PRIu64
           ",\"tokens_per_s\":%.1f,\"requests_per_s\":%.2f",
           r->seconds, r->prompt_tokens, r->cached_tokens, r->completion_tokens, r->preemptions,
           r->recoveries, per_second(r->completion_tokens, r->seconds),
           per_second(r->finished, r->seconds));
    json_series("ttft_ms", &r->ttft);
    json_series("inter_token_ms", &r->inter);
    json_series("total_ms", &r->total);
    if (*r->first_error) {
        fputs(",\"first_error\":", stdout);
        cli_put_json(stdout, r->first_error, strlen(r->first_error));
    }
    fputs("}\n", stdout);
}

static void print_text(const struct bench_args *a, struct bench_result *r)
{
    printf("%" PRIu64 " of %" PRId64 " requests finished in %.2f s, %" PRId64 " at a time\n",
           r->finished, a->requests, r->seconds, a->concurrency);
    printf("tokens answered      %" PRIu64 ", %s%.1f a second%s; prompts %" PRIu64 ", %" PRIu64
           " of them cached\n",
           r->completion_tokens, cli_sgr(stdout, 1), per_second(r->completion_tokens, r->seconds),
           cli_sgr(stdout, 0), r->prompt_tokens, r->cached_tokens);
    print_series("to the first token", &r->ttft);
    print_series("between tokens", &r->inter);
    print_series("whole request", &r->total);
    bool bad = r->failed || r->lost || r->doubled || r->gaps;
    printf("%s%" PRIu64 " failed, %" PRIu64 " lost, %" PRIu64 " doubled, %" PRIu64
           " missing pieces%s; %" PRIu64 " sent again after a refusal, %" PRIu64
           " preemptions, %" PRIu64 " recoveries\n",
           cli_sgr(stdout, bad ? 31 : 32), r->failed, r->lost, r->doubled, r->gaps,
           cli_sgr(stdout, 0), r->retried, r->preemptions, r->recoveries);
    if (*r->first_error) {
        fputs("first error: ", stdout);
        cli_put_name(stdout, r->first_error);
        putchar('\n');
    }
}

void bench_print(const struct bench_args *a, struct bench_result *r)
{
    if (a->json)
        print_json(a, r);
    else
        print_text(a, r);
}

/* ---- */

static int check(const struct bench_args *a, struct ingot_client *c)
{
    const struct ingot_model *m = &ingot_server(c)->model;
    if (!m->vocab)
        return cli_usage("bench", "the server does not say how large its vocabulary is");
    if (m->max_ctx && (uint64_t)a->prompt_tokens + (uint64_t)a->max_tokens > m->max_ctx)
        return cli_usage("bench",
                         "--prompt-tokens and --max-tokens exceed the model's context of %" PRIu32,
                         m->max_ctx);
    return -1;
}

static int load(struct ingot_client *c, struct bench_http *http, const struct bench_args *a)
{
    struct bench_result r;
    uint32_t vocab = a->vocab ? (uint32_t)a->vocab : c ? ingot_server(c)->model.vocab : HTTP_VOCAB;
    enum ingot_code code = bench_load(c, http, vocab, a, &r);
    int rc = code == INGOT_OK ? EXIT_OK : cli_fail("bench", cli_exit_code(code));
    if (code == INGOT_OK) {
        bench_print(a, &r);
        if (r.failed || r.lost || r.doubled || r.gaps)
            rc = EXIT_REFUSED;
        if (interrupts())
            rc = EXIT_INTERRUPTED;
    }
    bench_result_free(&r);
    return rc;
}

static int open_http(struct bench_http **http, const struct bench_args *a)
{
    const struct bench_http_options o = {a->http, a->model, a->api_key};
    size_t n = (size_t)(a->concurrency < a->requests ? a->concurrency : a->requests);
    enum ingot_code code = bench_http_open(http, &o, n);
    if (code == INGOT_OK)
        return -1;
    return cli_fail("bench", code == INGOT_RANGE ? EXIT_USAGE : cli_exit_code(code));
}

int cmd_bench(int argc, char **argv)
{
    struct bench_args a;
    struct option_result res;
    struct ingot_client *c = NULL;
    struct bench_http *http = NULL;
    int rc = cli_parse(&options, &a, argc, argv, &res);
    if (rc < 0 && a.http)
        rc = open_http(&http, &a);
    else if (rc < 0)
        rc = cli_connect(&c, "bench", a.connect, &a.keys);
    if (rc < 0 && c)
        rc = check(&a, c);
    if (rc < 0) {
        interrupts_catch();
        rc = load(c, http, &a);
    }
    ingot_close(c);
    bench_http_close(http);
    return rc;
}
