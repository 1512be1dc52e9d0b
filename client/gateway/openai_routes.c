#include "client/gateway/openai_routes.h"

#include <stdio.h>
#include <string.h>

#include "client/gateway/openai_answer.h"
#include "client/gateway/openai_error.h"
#include "client/gateway/request_log.h"
#include "client/gateway/scope.h"
#include "common/json/json_write.h"

enum { RETRY_MS = 1000 };

/* Answers with 503 when there is none. */
static const struct ingot_server *server_of(struct gateway *g, struct http_reply *r)
{
    const struct openai_error away = {.status = 503,
                                      .message = "there is no connection to the coordinator",
                                      .retry_after_ms = RETRY_MS};
    const struct ingot_server *s = upstream_server(g->upstream);
    if (!s)
        openai_error_send(r, &away);
    return s;
}

static const char *own_name(const struct ingot_server *s)
{
    return s->model.name ? s->model.name : "";
}

static void send_unknown_model(struct http_reply *r, const char *asked)
{
    char message[OPENAI_MAX_NAME + 64];
    snprintf(message, sizeof message, "the model '%s' is not served here", asked);
    http_reply_error_at(r, 404, message, "model");
}

static void send_refusal(struct http_reply *r, const struct scope_refusal *no)
{
    struct openai_error e = {
        .status = no->status, .message = no->message, .retry_after_ms = no->retry_after_ms};
    snprintf(e.param, sizeof e.param, "%s", no->param);
    openai_error_send(r, &e);
}

/* ---- answers ---- */

static void serve(struct gateway *g, enum openai_form form, const struct http_request *http,
                  struct http_reply *r)
{
    const struct ingot_server *s = server_of(g, r);
    struct request_log *log = http_reply_user(r);
    struct openai_request q;
    struct openai_refusal refusal;
    struct scope scope;
    struct scope_refusal no;
    if (!s)
        return;
    enum status st = openai_request_read(&q, form, http->body, http->n_body, &refusal);
    request_log_model(log, q.model, q.stream);
    if (st != ST_OK)
        http_reply_error_at(r, st == ST_NOMEM ? 503 : 400, status_text(), refusal.param);
    else if (!model_names_find(&g->names, own_name(s), q.model))
        send_unknown_model(r, q.model);
    else if (!scope_apply(&scope, g, http, r, &q.ask, &no))
        send_refusal(r, &no);
    else
        openai_answer_start(g->upstream, r, &q,
                            *q.model ? q.model : model_names_find(&g->names, own_name(s), ""));
    openai_request_free(&q);
}

void openai_serve_chat(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, OPENAI_CHAT, q, r);
}

void openai_serve_completions(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, OPENAI_COMPLETION, q, r);
}

/* ---- models ---- */

static void write_model(struct json_writer *w, const struct gateway *g,
                        const struct ingot_server *s, const char *name)
{
    json_write_object(w);
    json_member_string(w, "id", name);
    json_member_string(w, "object", "model");
    json_member_i64(w, "created", g->started);
    json_member_string(w, "owned_by", "ingot");
    json_member_string(w, "root", own_name(s));
    json_member_null(w, "parent");
    json_member_u64(w, "max_model_len", s->model.max_ctx);
    json_write_end_object(w);
}

static void send_json(struct http_reply *r, struct json_writer *w)
{
    if (w->status == ST_OK)
        http_reply_send(r, 200, "application/json", w->out->data, w->out->len);
    else
        http_reply_error(r, 503, status_text());
    text_buf_free(w->out);
}

void openai_serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = server_of(g, r);
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    (void)q;
    if (!s)
        return;
    json_write_object(&w);
    json_member_string(&w, "object", "list");
    json_write_key(&w, "data");
    json_write_array(&w);
    for (size_t i = 0; i < g->names.n; i++)
        write_model(&w, g, s, g->names.name[i]);
    if (g->names.n == 0)
        write_model(&w, g, s, own_name(s));
    json_write_end_array(&w);
    json_write_end_object(&w);
    send_json(r, &w);
}

void openai_serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = server_of(g, r);
    const char *asked = q->path + sizeof "/v1/models/" - 1;
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    if (!s)
        return;
    const char *name = *asked ? model_names_find(&g->names, own_name(s), asked) : NULL;
    if (!name) {
        send_unknown_model(r, asked);
        return;
    }
    write_model(&w, g, s, name);
    send_json(r, &w);
}
