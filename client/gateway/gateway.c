#include "client/gateway/gateway.h"

#include <string.h>

#include "common/json/json_write.h"

struct route {
    enum http_method method; /* HTTP_GET serves HEAD too */
    const char *path;
    void (*serve)(struct gateway *g, const struct http_request *q, struct http_reply *r);
    bool open; /* also without a key */
};

/* The process lives and its loop turns. */
static void serve_health(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    http_reply_send(r, 200, NULL, "", 0);
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
    {HTTP_GET, "/health", serve_health, true},
    {HTTP_GET, "/version", serve_version, true},
};

void gateway_request(void *ctx, const struct http_request *q, struct http_reply *r)
{
    struct gateway *g = ctx;
    enum http_method method = q->method == HTTP_HEAD ? HTTP_GET : q->method;
    const struct route *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (strcmp(routes[i].path, q->path) == 0 && (!found || routes[i].method == method))
            found = &routes[i];
    if (!(found && found->open) && !api_keys_allow(&g->keys, q)) {
        http_reply_header(r, "WWW-Authenticate", "Bearer");
        http_reply_error(r, 401, "the API key is missing or wrong");
    } else if (!found) {
        http_reply_error(r, 404, "there is nothing at this path");
    } else if (found->method != method) {
        http_reply_header(
            r, "Allow", found->method == HTTP_GET ? "GET, HEAD" : http_method_name(found->method));
        http_reply_error(r, 405, "this path does not serve this method");
    } else {
        found->serve(g, q, r);
    }
}
