/* What the gateway counts for /metrics: answers by route, method and class of status, their times.  The loop's
 * thread alone.
 *
 * Names that vLLM has keep its stems, buckets and labels behind a prefix that can be chosen; all others begin with
 * "ingot_", or "http_" as is usual.  A coordinator's figures carry its name and the number of its start as labels
 * (model_name, engine), which are the same at each gateway in front of it. */
#ifndef CLIENT_GATEWAY_METRICS_H
#define CLIENT_GATEWAY_METRICS_H

#include "client/gateway/http_server.h"
#include "client/gateway/prometheus.h"
#include "common/histogram.h"

struct request_log;
struct answer_memory;

enum { STATUS_CLASSES = 6 }; /* 1xx to 5xx */

struct http_counter { /* of one route and method */
    const char *route, *method;
    uint64_t answers[STATUS_CLASSES]; /* by the first digit of the status */
    struct histogram duration_us;
};

struct metrics {
    const struct http_server *server;
    const struct answer_memory *answers;
    const char *prefix; /* of vLLM's stems: "ingot_", "vllm:" */
    bool needs_key;
    struct http_counter *http; /* [n_http] */
    size_t n_http;
};

/* ST_RANGE: the prefix does not begin a name. */
MUST_CHECK enum status http_metrics_init(struct metrics *m, const char *prefix, bool needs_key);
void http_metrics_fini(struct metrics *m);

/* An answer has ended.  log NULL: the server refused the request before it reached the gateway. */
void http_metrics_count(struct metrics *m, const struct request_log *log, int status);

/* All of it. */
void http_metrics_write(const struct metrics *m, struct prometheus *p);

#endif
