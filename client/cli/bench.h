/* What `ingot bench` measures, and how it is printed. */
#ifndef CLIENT_CLI_BENCH_H
#define CLIENT_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/bench_http.h"
#include "client/cli/cli.h"
#include "client/lib/ingot.h"

struct bench_args {
    const char *connect;
    struct cli_keys keys;
    const char *http, *model, *api_key; /* http NULL: over ZeroMQ */
    int64_t vocab;                      /* 0: the server's */
    int64_t concurrency, requests, prompt_tokens, max_tokens, shared_tokens, seed, timeout_ms;
    double rate, temperature;
    bool json;
};

struct series { /* milliseconds */
    double *v;
    size_t n, cap;
};

/* Counts add up: requests = finished + failed + lost. */
struct bench_result {
    uint64_t finished,
        failed;       /* failed: Error or Rejected, or an end other than length, eos, stop */
    uint64_t retried; /* refused for a moment and sent again */
    uint64_t lost;    /* without a terminal message */
    uint64_t doubled; /* messages after a terminal one, or a delta seen twice */
    bool stopped;     /* by Ctrl-C: nothing is known of what was still open */
    uint64_t gaps;    /* deltas that are missing: sequence numbers, token counts */
    uint64_t prompt_tokens, cached_tokens, completion_tokens;
    uint64_t preemptions, recoveries;
    double seconds;
    struct series ttft, inter, total; /* to the first token; between tokens; to the end */
    char first_error[200];
};

/* Runs the load over c or, where it is not NULL, over http, whose streams are min(concurrency, requests).  vocab: ids
 * of the prompts are below it.  INGOT_OK also when requests failed. */
enum ingot_code bench_load(struct ingot_client *c, struct bench_http *http, uint32_t vocab,
                           const struct bench_args *a, struct bench_result *r);
void bench_print(const struct bench_args *a, struct bench_result *r);
void bench_result_free(struct bench_result *r);

#endif
