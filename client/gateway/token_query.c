#include "client/gateway/token_query.h"

#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_error.h"

struct token_query {
    struct upstream_call call; /* first */
    struct upstream *upstream;
    struct http_reply *reply;
    token_query_body *body;
    const char *field; /* of errors */
};

static void on_gone(void *ctx)
{
    struct token_query *t = ctx;
    upstream_cancel(t->upstream, &t->call);
    http_reply_end(t->reply);
    free(t);
}

static void fail(struct token_query *t, const struct ingot_event *ev)
{
    const struct answer_error e = answer_error_of(ev, upstream_is_ready(t->upstream));
    answer_error_headers(t->reply, &e);
    http_reply_error_at(t->reply, e.status, e.message, *e.field ? t->field : "");
    free(t);
}

/* The query was sent, or fails with code. */
static void sent(struct token_query *t, enum ingot_code code)
{
    if (code != INGOT_OK)
        fail(t, &(struct ingot_event){.kind = INGOT_EVENT_ERROR,
                                      .code = code,
                                      .detail = ingot_last_error(),
                                      .field = ""});
}

static void answer(struct token_query *t, const struct ingot_event *ev)
{
    const struct ingot_server *s = upstream_server(t->upstream);
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    t->body(&w, ev, s ? s->model.max_ctx : 0);
    http_reply_json(t->reply, &w);
    free(t);
}

static void on_event(struct upstream_call *call, const struct ingot_event *ev)
{
    struct token_query *t = (struct token_query *)call;
    if (ev->kind == INGOT_EVENT_ERROR) {
        fail(t, ev);
    } else {
        answer(t, ev);
    }
}

static struct token_query *create(struct upstream *u, struct http_reply *r, token_query_body *body,
                                  const char *field)
{
    struct token_query *t = calloc(1, sizeof *t);
    if (!t) {
        http_reply_error(r, 503, "no memory for a query");
        return NULL;
    }
    *t = (struct token_query){
        .call = {.event = on_event}, .upstream = u, .reply = r, .body = body, .field = field};
    http_reply_watch(r, &(struct http_watch){t, on_gone, NULL});
    return t;
}

void token_query_tokenize(struct upstream *u, struct http_reply *r, const char *text, size_t n,
                          bool add_special, bool token_text, token_query_body *body,
                          const char *prompt)
{
    struct token_query *t = create(u, r, body, prompt);
    if (t)
        sent(t, upstream_tokenize(u, &t->call, text, n, add_special, token_text));
}

void token_query_detokenize(struct upstream *u, struct http_reply *r, const int32_t *ids, size_t n,
                            token_query_body *body)
{
    struct token_query *t = create(u, r, body, "tokens");
    if (t)
        sent(t, upstream_detokenize(u, &t->call, ids, n));
}

void token_query_template(struct upstream *u, struct http_reply *r, struct ingot_request *request,
                          token_query_body *body)
{
    struct token_query *t = create(u, r, body, "messages");
    if (t)
        sent(t, upstream_apply_template(u, &t->call, request));
}

void token_query_tokenize_chat(struct upstream *u, struct http_reply *r,
                               const struct ingot_request *request, bool add_special,
                               bool token_text, token_query_body *body)
{
    struct token_query *t = create(u, r, body, "messages");
    if (t)
        sent(t, upstream_tokenize_chat(u, &t->call, request, add_special, token_text));
}
