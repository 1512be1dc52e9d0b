#include "client/gateway/gateway.h"

#include <stdio.h>
#include <string.h>

#include "client/gateway/anthropic_form.h"
#include "client/gateway/anthropic_routes.h"
#include "client/gateway/embed_routes.h"
#include "client/gateway/metrics_routes.h"
#include "client/gateway/ollama_form.h"
#include "client/gateway/ollama_routes.h"
#include "client/gateway/openai_routes.h"
#include "client/gateway/page_routes.h"
#include "client/gateway/request_log.h"
#include "client/gateway/responses_routes.h"
#include "client/gateway/tokenize_routes.h"
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

/* The page for browsers; Ollama's command line looks here whether a server is there. */
static void serve_root(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    static const char text[] = "Ingot is running\n";
    const char *accept = http_request_header(q, "accept");
    if (accept && strstr(accept, "text/html")) {
        page_serve_html(g, q, r);
        return;
    }
    http_reply_header(r, "Cache-Control", "no-store");
    http_reply_send(r, 200, "text/plain; charset=utf-8", text, sizeof text - 1);
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
    http_reply_json(r, &w);
}

static void serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (anthropic_asks(q) ? anthropic_serve_models : openai_serve_models)(g, q, r);
}

static void serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (anthropic_asks(q) ? anthropic_serve_model : openai_serve_model)(g, q, r);
}

static const struct route routes[] = {
    {HTTP_GET, "/", serve_root, true, false},
    {HTTP_GET, "/page.css", page_serve_css, true, false},
    {HTTP_GET, "/page.js", page_serve_script, true, false},
    {HTTP_GET, "/health", serve_health, true, false},
    {HTTP_GET, "/ready", serve_ready, true, false},
    {HTTP_GET, "/version", serve_version, true, false},
    {HTTP_GET, "/metrics", metrics_serve, true, false}, /* unless --metrics-need-key */
    {HTTP_GET, "/v1/models", serve_models, false, false},
    {HTTP_GET, "/v1/models/", serve_model, false, true},
    {HTTP_POST, "/v1/chat/completions", openai_serve_chat, false, false},
    {HTTP_POST, "/v1/completions", openai_serve_completions, false, false},
    {HTTP_POST, "/v1/responses", responses_serve, false, false},
    {HTTP_POST, "/v1/messages", anthropic_serve_messages, false, false},
    {HTTP_POST, "/v1/messages/count_tokens", anthropic_serve_count, false, false},
    {HTTP_POST, "/api/chat", ollama_serve_chat, false, false},
    {HTTP_POST, "/api/generate", ollama_serve_generate, false, false},
    {HTTP_GET, "/api/tags", ollama_serve_tags, false, false},
    {HTTP_POST, "/api/show", ollama_serve_show, false, false},
    {HTTP_GET, "/api/ps", ollama_serve_ps, false, false},
    {HTTP_GET, "/api/version", serve_version, false, false},
    {HTTP_POST, "/v1/embeddings", embed_serve_openai, false, false},
    {HTTP_POST, "/v1/rerank", embed_serve_rerank, false, false},
    {HTTP_POST, "/v1/score", embed_serve_score, false, false},
    {HTTP_POST, "/api/embed", embed_serve_ollama, false, false},
    {HTTP_POST, "/api/embeddings", embed_serve_ollama_one, false, false},
    {HTTP_POST, "/api/pull", ollama_refuse_management, false, false},
    {HTTP_POST, "/api/push", ollama_refuse_management, false, false},
    {HTTP_POST, "/api/create", ollama_refuse_management, false, false},
    {HTTP_POST, "/api/copy", ollama_refuse_management, false, false},
    {HTTP_DELETE, "/api/delete", ollama_refuse_management, false, false},
    {HTTP_POST, "/tokenize", tokenize_serve, false, false},
    {HTTP_POST, "/detokenize", detokenize_serve, false, false},
    {HTTP_POST, "/apply-template", apply_template_serve, false, false},
};

static bool is_at(const struct route *t, const char *path)
{
    return t->subtree ? strncmp(t->path, path, strlen(t->path)) == 0 : strcmp(t->path, path) == 0;
}

static enum http_method method_of(const struct http_request *q)
{
    return q->method == HTTP_HEAD ? HTTP_GET : q->method;
}

/* How the API to which the path belongs writes its errors, also where the path does not exist; NULL: as OpenAI's. */
static http_error_writer *error_writer(const struct http_request *q)
{
    static const char messages[] = "/v1/messages", api[] = "/api/";
    if (strncmp(q->path, api, sizeof api - 1) == 0)
        return ollama_write_error;
    if (strncmp(q->path, messages, sizeof messages - 1) == 0 || anthropic_asks(q))
        return anthropic_write_error;
    return NULL;
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

static bool is_open(const struct gateway *g, const struct route *t)
{
    return t->open && !(g->metrics.needs_key && t->serve == metrics_serve);
}

bool gateway_wants_body(void *ctx, const struct http_request *head)
{
    struct gateway *g = ctx;
    struct caller caller;
    const struct route *t = route_of(head);
    return t && t->method == method_of(head) &&
           (is_open(g, t) || api_keys_caller(g->keys, head, &caller));
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
    if (!(found && is_open(g, found)) && !known) {
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
    http_error_writer *write_error = error_writer(q);
    if (write_error)
        http_reply_error_writer(r, write_error);
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
    http_metrics_count(&g->metrics, o->user, o->status);
    request_log_free(o->user);
}
