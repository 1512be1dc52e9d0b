#include "client/gateway/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_memory.h"
#include "client/gateway/request_log.h"
#include "common/clock.h"

static const uint64_t duration_us[] = {
    5000,    10000,   25000,    50000,    100000,   250000,    500000,    1000000,
    2500000, 5000000, 10000000, 30000000, 60000000, 120000000, 300000000, 600000000,
};

/* ---- counting ---- */

enum status http_metrics_init(struct metrics *m, const char *prefix, bool needs_key)
{
    if (!prometheus_is_name(prefix) || strlen(prefix) > 32)
        FAIL(ST_RANGE, "--metrics-prefix %s: up to 32 letters, digits, '_' and ':', no digit first",
             prefix);
    *m = (struct metrics){.prefix = prefix, .needs_key = needs_key};
    return ST_OK;
}

void http_metrics_fini(struct metrics *m)
{
    free(m->http);
}

/* Probes and scrapes would hide the rest; vLLM leaves them out too. */
static bool is_counted(const char *route)
{
    static const char *const quiet[] = {"/metrics", "/health", "/ready", "/version"};
    for (size_t i = 0; i < ARRAY_LEN(quiet); i++)
        if (strcmp(route, quiet[i]) == 0)
            return false;
    return true;
}

/* NULL: no memory. */
static struct http_counter *counter_of(struct metrics *m, const char *route, const char *method)
{
    for (size_t i = 0; i < m->n_http; i++)
        if (strcmp(m->http[i].route, route) == 0 && strcmp(m->http[i].method, method) == 0)
            return &m->http[i];
    struct http_counter *more = realloc(m->http, (m->n_http + 1) * sizeof *more);
    if (!more)
        return NULL;
    m->http = more;
    struct http_counter *c = &m->http[m->n_http++];
    *c = (struct http_counter){.route = route, .method = method};
    histogram_init(&c->duration_us, duration_us, ARRAY_LEN(duration_us));
    return c;
}

void http_metrics_count(struct metrics *m, const struct request_log *log, int status)
{
    const char *route = log ? log->route : "other";
    if (!is_counted(route))
        return;
    struct http_counter *c = counter_of(m, route, log ? log->method : "other");
    int class = (status ? status : STATUS_CLIENT_GONE) / 100;
    if (!c || class >= STATUS_CLASSES)
        return;
    c->answers[class]++;
    if (log)
        histogram_add(&c->duration_us, clock_us() - log->began_us);
}

/* ---- the gateway's own ---- */

static void write_http(struct prometheus *p, const struct metrics *m)
{
    char labels[256];
    prometheus_family(p, "", "http_requests_total", "counter",
                      "Answers, by path, method and class of status.");
    for (size_t i = 0; i < m->n_http; i++)
        for (int class = 1; class < STATUS_CLASSES; class ++) {
            if (!m->http[i].answers[class])
                continue;
            snprintf(labels, sizeof labels, "handler=\"%s\",method=\"%s\",status=\"%dxx\"",
                     m->http[i].route, m->http[i].method, class);
            prometheus_u64(p, labels, m->http[i].answers[class]);
        }
    prometheus_family(p, "", "http_request_duration_seconds", "histogram",
                      "From a whole request to the end of its answer.");
    for (size_t i = 0; i < m->n_http; i++) {
        const struct histogram *h = &m->http[i].duration_us;
        const struct ingot_histogram as = {h->n_bounds, h->bound, h->count, h->sum};
        snprintf(labels, sizeof labels, "handler=\"%s\",method=\"%s\"", m->http[i].route,
                 m->http[i].method);
        prometheus_histogram(p, labels, &as, PROMETHEUS_US);
    }
}

static void write_connections(struct prometheus *p, const struct metrics *m)
{
    const struct http_counts n = http_server_counts(m->server);
    prometheus_family(p, "ingot_", "http_connections", "gauge", "Open HTTP connections.");
    prometheus_u64(p, "", n.connections);
    prometheus_family(p, "ingot_", "http_requests_pending", "gauge",
                      "Requests that are being answered, this one included.");
    prometheus_u64(p, "", n.pending);
    prometheus_family(p, "ingot_", "http_accepted_total", "counter",
                      "HTTP connections that were accepted.");
    prometheus_u64(p, "", n.accepted);
    prometheus_family(p, "ingot_", "http_refused_total", "counter",
                      "HTTP connections that were answered with 503, because there were too many.");
    prometheus_u64(p, "", n.refused);
    prometheus_family(p, "ingot_", "http_output_bytes", "gauge",
                      "Bytes of answers that wait for clients to read.");
    prometheus_u64(p, "", n.output);
    prometheus_family(p, "ingot_", "answer_bytes", "gauge",
                      "Memory of the answers that are being made.");
    prometheus_u64(p, "", m->answers->held);
}

void http_metrics_write(const struct metrics *m, struct prometheus *p)
{
    write_connections(p, m);
    write_http(p, m);
}
