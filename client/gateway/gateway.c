#include "client/gateway/gateway.h"

#include <stdio.h>
#include <string.h>

#include "client/gateway/openai_routes.h"
#include "client/gateway/request_log.h"
#include "common/json/json_write.h"

struct route {
    enum http_method method; /* HTTP_GET serves HEAD too */
    const char *path;
    void (*serve)(struct gateway *g, const struct http_request *q, struct http_reply *r);
    bool open;    /* also without a key */
    bool subtree; /* path ends in '/': all that begins with it */
};

/* The process lives and its loop turns. */
static void serve_health(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    http_reply_send(r, 200, NULL, "", 0);
}

/* Requests are taken: the coordinator is there and has a worker group. */
static void serve_ready(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)q;
    if (!upstream_is_ready(g->upstream))
        http_reply_header(r, "retry-after", "1");
    http_reply_send(r, upstream_is_ready(g->upstream) ? 200 : 503, NULL, "", 0);
}

static void serve_version(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    (void)g, (void)q;
    json_write_object(&w);
    json_member_string(&w, "version", INGOT_VERSION);
    json_write_end_object(&w);
    if (w.status == ST_OK)
        http_reply_send(r, 200, "application/json", body.data, body.len);
    else
        http_reply_error(r, 503, status_text());
    text_buf_free(&body);
}

static const struct route routes[] = {
    {HTTP_GET, "/health", serve_health, true, false},
    {HTTP_GET, "/ready", serve_ready, true, false},
    {HTTP_GET, "/version", serve_version, true, false},
    {HTTP_GET, "/v1/models", openai_serve_models, false, false},
    {HTTP_GET, "/v1/models/", openai_serve_model, false, true},
    {HTTP_POST, "/v1/chat/completions", openai_serve_chat, false, false},
    {HTTP_POST, "/v1/completions", openai_serve_completions, false, false},
};

static bool is_at(const struct route *t, const char *path)
{
    return t->subtree ? strncmp(t->path, path, strlen(t->path)) == 0 : strcmp(t->path, path) == 0;
}

static enum http_method method_of(const struct http_request *q)
{
    return q->method == HTTP_HEAD ? HTTP_GET : q->method;
}

/* That of another method when there is none of this one; NULL: nothing is at this path. */
static const struct route *route_of(const struct http_request *q)
{
    const struct route *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (is_at(&routes[i], q->path) && (!found || routes[i].method == method_of(q)))
            found = &routes[i];
    return found;
}

bool gateway_wants_body(void *ctx, const struct http_request *head)
{
    struct gateway *g = ctx;
    struct caller caller;
    const struct route *t = route_of(head);
    return t && t->method == method_of(head) &&
           (t->open || api_keys_caller(g->keys, head, &caller));
}

static void serve(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct route *found = route_of(q);
    struct request_log *log = http_reply_user(r);
    struct caller caller;
    bool known = api_keys_caller(g->keys, q, &caller);
    if (found)
        log->route = found->path;
    if (known)
        snprintf(log->key_id, sizeof log->key_id, "%s", caller.id);
    if (!(found && found->open) && !known) {
        http_reply_header(r, "WWW-Authenticate", "Bearer");
        http_reply_error(r, 401, "the API key is missing or wrong");
    } else if (!found) {
        http_reply_error(r, 404, "there is nothing at this path");
    } else if (found->method != method_of(q)) {
        http_reply_header(
            r, "Allow", found->method == HTTP_GET ? "GET, HEAD" : http_method_name(found->method));
        http_reply_error(r, 405, "this path does not serve this method");
    } else {
        found->serve(g, q, r);
    }
}

void gateway_request(void *ctx, const struct http_request *q, struct http_reply *r)
{
    struct gateway *g = ctx;
    struct request_log *log = request_log_begin(q, r, g->log_prompts);
    if (!log) {
        http_reply_error(r, 503, "no memory for a request");
        return;
    }
    http_reply_set_user(r, log);
    serve(g, q, r);
}

void gateway_ended(void *ctx, const struct http_outcome *o)
{
    struct gateway *g = ctx;
    struct text_buf line = {0};
    if (g->access_log) {
        if (request_log_line(&line, o->user, o) == ST_OK)
            access_log_write(g->access_log, line.data, line.len);
        text_buf_free(&line);
    }
    request_log_free(o->user);
}
