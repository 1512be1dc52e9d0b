/* A server for test_http_server.py.
 *
 *   /echo           the request as text: method, path, query, some headers, body
 *   /events         an event stream, see below
 *   /stream         the same as plain chunks
 *   /wait           no answer until the client has gone or /release
 *   /release        answers all who wait
 *   /flood          an endless stream, as fast as the client takes it; pauses when it is told to
 *   /abort          begins an answer and cuts the connection
 *   /bytes?N        N bytes at once, the text of 0 1 2 ... mod 10
 *   /counts         the server's counts, how many clients have gone, bytes of the largest flood
 *   /drain          drains the server; the program ends when the last connection has ended
 *
 * Streams: ?N sends N events at once and ends; without it the stream stays open until /release.
 * Command line: the addresses to listen at, and NAME=VALUE for options.  Prints one line with the bound
 * addresses. */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/http_server.h"
#include "common/log.h"

struct waiting {
    struct http_reply *reply;
    struct waiting *next, **at;
    bool begun, flood;
    uint64_t sent;
};

static struct event_base *base;
static struct http_server *server;
static struct waiting *waiting;
static uint64_t n_gone, most_sent;

static void forget(struct waiting *w)
{
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
    free(w);
}

static void on_gone(void *ctx)
{
    struct waiting *w = ctx;
    n_gone++;
    http_reply_end(w->reply);
    forget(w);
}

static void flood(void *ctx)
{
    static char data[10000];
    struct waiting *w = ctx;
    if (!w->flood)
        return;
    do
        w->sent += sizeof data;
    while (http_reply_chunk(w->reply, data, sizeof data));
    if (w->sent > most_sent)
        most_sent = w->sent;
}

static struct waiting *wait_with(struct http_reply *r)
{
    struct waiting *w = calloc(1, sizeof *w);
    if (!w)
        exit(1);
    *w = (struct waiting){.reply = r, .next = waiting, .at = &waiting};
    if (waiting)
        waiting->at = &w->next;
    waiting = w;
    http_reply_watch(r, &(struct http_watch){.ctx = w, .gone = on_gone, .writable = flood});
    return w;
}

static void release_all(void)
{
    while (waiting) {
        struct waiting *w = waiting;
        if (w->begun)
            http_reply_end(w->reply);
        else
            http_reply_send(w->reply, 200, "text/plain", "released\n", 9);
        forget(w);
    }
}

static void echo(const struct http_request *q, struct http_reply *r)
{
    static const char *const shown[] = {"x-test", "content-type"};
    struct text_buf out = {0};
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof text, "%s %s?%s host=%s\n",
                                http_method_name(q->method), q->path, q->query, q->host);
    if (text_buf_append(&out, text, n) != ST_OK)
        exit(1);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const char *v = http_request_header(q, shown[i]);
        n = v ? (size_t)snprintf(text, sizeof text, "%s: %s\n", shown[i], v) : 0;
        if (text_buf_append(&out, text, n) != ST_OK)
            exit(1);
    }
    if (text_buf_append(&out, q->body, q->n_body) != ST_OK)
        exit(1);
    http_reply_header(r, "X-Echo", q->query);
    http_reply_send(r, 200, "text/plain", out.data, out.len);
    text_buf_free(&out);
}

static void counts(struct http_reply *r)
{
    char text[256];
    struct http_counts c = http_server_counts(server);
    int n = snprintf(
        text, sizeof text,
        "{\"connections\":%zu,\"pending\":%zu,\"accepted\":%" PRIu64 ",\"refused\":%" PRIu64
        ",\"served\":%" PRIu64 ",\"gone\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"output\":%zu}",
        c.connections, c.pending, c.accepted, c.refused, c.served, n_gone, most_sent, c.output);
    http_reply_send(r, 200, "application/json", text, (size_t)n);
}

static void stream(const struct http_request *q, struct http_reply *r, bool events)
{
    char text[64];
    int n_events = atoi(q->query);
    if (events)
        http_reply_begin_events(r);
    else
        http_reply_begin(r, 200, "text/plain");
    for (int i = 0; i < n_events; i++) {
        int n = snprintf(text, sizeof text, events ? "data: %d\n\n" : "%d\n", i);
        (void)http_reply_chunk(r, text, (size_t)n);
    }
    if (*q->query)
        http_reply_end(r);
    else
        wait_with(r)->begun = true;
}

static void bytes(const struct http_request *q, struct http_reply *r)
{
    struct text_buf body = {0};
    size_t n = strtoul(q->query, NULL, 10);
    if (text_buf_reserve(&body, n) != ST_OK)
        exit(1);
    for (; body.len < n; body.len++)
        body.data[body.len] = (char)('0' + body.len % 10);
    http_reply_give(r, 200, "application/octet-stream", &body);
}

static void on_request(void *ctx, const struct http_request *q, struct http_reply *r)
{
    (void)ctx;
    if (strcmp(q->path, "/echo") == 0) {
        echo(q, r);
    } else if (strcmp(q->path, "/events") == 0 || strcmp(q->path, "/stream") == 0) {
        stream(q, r, q->path[1] == 'e');
    } else if (strcmp(q->path, "/wait") == 0) {
        (void)wait_with(r);
    } else if (strcmp(q->path, "/release") == 0) {
        release_all();
        http_reply_send(r, 200, NULL, "", 0);
    } else if (strcmp(q->path, "/flood") == 0) {
        http_reply_begin(r, 200, "application/octet-stream");
        struct waiting *w = wait_with(r);
        w->begun = w->flood = true;
        flood(w);
    } else if (strcmp(q->path, "/abort") == 0) {
        http_reply_begin(r, 200, "text/plain");
        (void)http_reply_chunk(r, "half", 4);
        http_reply_abort(r);
    } else if (strcmp(q->path, "/bytes") == 0) {
        bytes(q, r);
    } else if (strcmp(q->path, "/counts") == 0) {
        counts(r);
    } else if (strcmp(q->path, "/drain") == 0) {
        http_server_drain(server);
        http_reply_send(r, 200, NULL, "", 0);
    } else {
        http_reply_error(r, 404, "there is nothing at this path");
    }
}

static void on_drained(void *ctx)
{
    (void)ctx;
    event_base_loopbreak(base);
}

/* "idle_ms=100", "cert=FILE", "origin=X", "host=X"; false: an address. */
static bool set_option(struct http_options *o, char *text, const char **origins, const char **hosts)
{
    char *value = strchr(text, '=');
    if (!value)
        return false;
    *value++ = '\0';
    uint32_t *ms[] = {&o->idle_ms,  &o->head_ms,   &o->body_ms,
                      &o->stall_ms, &o->linger_ms, &o->comment_ms};
    size_t *sizes[] = {&o->max_connections, &o->max_body_memory, &o->max_output,
                       &o->max_output_memory, &o->limits.max_body};
    static const char *const ms_names[] = {"idle_ms",  "head_ms",   "body_ms",
                                           "stall_ms", "linger_ms", "comment_ms"};
    static const char *const size_names[] = {"max_connections", "max_body_memory", "max_output",
                                             "max_output_memory", "max_body"};
    for (size_t i = 0; i < ARRAY_LEN(ms_names); i++)
        if (strcmp(text, ms_names[i]) == 0)
            *ms[i] = (uint32_t)atoi(value);
    for (size_t i = 0; i < ARRAY_LEN(size_names); i++)
        if (strcmp(text, size_names[i]) == 0)
            *sizes[i] = strtoul(value, NULL, 10);
    if (strcmp(text, "cert") == 0)
        o->tls_cert = value;
    if (strcmp(text, "key") == 0)
        o->tls_key = value;
    if (strcmp(text, "origin") == 0)
        origins[o->origins.n++] = value;
    if (strcmp(text, "host") == 0)
        hosts[o->hosts.n++] = value;
    return true;
}

int main(int argc, char **argv)
{
    const char *listen[16], *origins[16], *hosts[16];
    struct http_options o = http_options_default();
    o.listen.name = listen;
    o.origins.name = origins;
    o.hosts.name = hosts;
    log_init("http_test_server", LOG_WARN);
    for (int i = 1; i < argc && i < 16; i++)
        if (!set_option(&o, argv[i], origins, hosts))
            listen[o.listen.n++] = argv[i];
    base = event_base_new();
    if (!base)
        return 1;
    enum status st = http_server_create(
        &server, base, &o, &(struct http_handler){.request = on_request, .drained = on_drained});
    if (st != ST_OK) {
        printf("%s: %s\n", status_name(st), status_text());
        event_base_free(base);
        return 2;
    }
    for (size_t i = 0; http_server_address(server, i); i++)
        printf("%s%s", i ? " " : "", http_server_address(server, i));
    printf("\n");
    fflush(stdout);
    event_base_dispatch(base);
    http_server_destroy(server);
    event_base_free(base);
    printf("ended\n");
    return 0;
}
