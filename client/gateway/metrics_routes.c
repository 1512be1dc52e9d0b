#include "client/gateway/metrics_routes.h"

#include <event2/event.h>
#include <stdlib.h>

#include "client/gateway/metrics_engine.h"

enum { ENGINE_MS = 3000 }; /* a coordinator that has not answered by then counts as absent */

struct scrape {
    struct upstream_call call; /* first: the call is the scrape */
    struct gateway *g;
    struct http_reply *reply;
    struct event *limit;
};

/* stats NULL: the coordinator did not answer. */
static void send_all(struct gateway *g, struct http_reply *r, const struct ingot_stats *stats)
{
    const struct ingot_server *s = upstream_server(g->upstream);
    struct text_buf body = {0};
    struct prometheus p = {.out = &body};
    prometheus_family(&p, "ingot_", "up", "gauge", "1: the coordinator answers.");
    prometheus_u64(&p, "", stats != NULL);
    http_metrics_write(&g->metrics, &p);
    if (stats)
        metrics_write_engine(&p, g->metrics.prefix, s && s->model.name ? s->model.name : "", stats);
    if (p.status == ST_OK)
        http_reply_send(r, 200, "text/plain; version=0.0.4; charset=utf-8", body.data, body.len);
    else
        http_reply_error(r, 503, "the figures could not be written");
    text_buf_free(&body);
}

static void scrape_free(struct scrape *s)
{
    upstream_cancel(s->g->upstream, &s->call);
    if (s->limit)
        event_free(s->limit);
    free(s);
}

static void on_stats(struct upstream_call *call, const struct ingot_event *ev)
{
    struct scrape *s = (struct scrape *)call;
    send_all(s->g, s->reply, ev->kind == INGOT_EVENT_STATS ? ev->stats : NULL);
    scrape_free(s);
}

static void on_limit(evutil_socket_t fd, short what, void *ctx)
{
    struct scrape *s = ctx;
    (void)fd, (void)what;
    send_all(s->g, s->reply, NULL);
    scrape_free(s);
}

static void on_gone(void *ctx)
{
    struct scrape *s = ctx;
    http_reply_end(s->reply);
    scrape_free(s);
}

void metrics_serve(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    static const struct timeval limit = {.tv_sec = ENGINE_MS / 1000};
    struct scrape *s = calloc(1, sizeof *s);
    (void)q;
    if (!s) {
        http_reply_error(r, 503, "no memory for the figures");
        return;
    }
    *s = (struct scrape){.call = {.event = on_stats}, .g = g, .reply = r};
    s->limit = evtimer_new(g->base, on_limit, s);
    if (!s->limit || !upstream_server(g->upstream) ||
        upstream_stats(g->upstream, &s->call) != INGOT_OK) {
        send_all(g, r, NULL);
        scrape_free(s);
        return;
    }
    event_add(s->limit, &limit);
    http_reply_watch(r, &(struct http_watch){.ctx = s, .gone = on_gone});
}
