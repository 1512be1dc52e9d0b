#include "client/gateway/anthropic_routes.h"

#include "client/gateway/admission.h"
#include "client/gateway/answer.h"
#include "client/gateway/anthropic_form.h"
#include "client/gateway/time_text.h"
#include "client/gateway/token_query.h"

/* ---- messages ---- */

static void start(struct gateway *g, struct anthropic_request *q, const char *model,
                  struct http_reply *r)
{
    void *a = anthropic_answer_create(q, model);
    if (a)
        answer_start(g->upstream, &g->answers, r, &q->of, &anthropic_form, a);
    else
        http_reply_error(r, 503, "no memory for an answer");
}

static void count_body(struct json_writer *w, const struct ingot_event *ev, uint32_t max_ctx)
{
    (void)max_ctx;
    json_write_object(w);
    json_member_u64(w, "input_tokens", ev->n_ids);
    json_write_end_object(w);
}

static void serve(struct gateway *g, bool count, const struct http_request *http,
                  struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct anthropic_request q;
    char param[JSON_PATH_SIZE];
    if (!s)
        return;
    enum status st = anthropic_request_read(&q, count, http->body, http->n_body, param);
    const char *model = admission_check(g, s, &q.of, st, param, http, r);
    if (model && count)
        token_query_tokenize_chat(g->upstream, r, &q.of.ask, false, false, count_body);
    else if (model)
        start(g, &q, model, r);
    anthropic_request_free(&q);
}

void anthropic_serve_messages(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, false, q, r);
}

void anthropic_serve_count(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, true, q, r);
}

/* ---- models ---- */

bool anthropic_asks(const struct http_request *q)
{
    return http_request_header(q, "anthropic-version") != NULL;
}

static void write_model(struct json_writer *w, const struct gateway *g,
                        const struct ingot_server *s, const char *name)
{
    char created[TIME_TEXT_SIZE];
    json_write_object(w);
    json_member_string(w, "type", "model");
    json_member_string(w, "id", name);
    json_member_string(w, "display_name", name);
    json_member_string(w, "created_at", time_text(created, g->started, -1));
    json_member_u64(w, "max_input_tokens", s->model.max_ctx);
    json_write_end_object(w);
}

void anthropic_serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    (void)q;
    if (!s)
        return;
    size_t n = g->names.n ? g->names.n : 1;
    const char *own = admission_own_name(s);
    json_write_object(&w);
    json_write_key(&w, "data");
    json_write_array(&w);
    for (size_t i = 0; i < n; i++)
        write_model(&w, g, s, g->names.n ? g->names.name[i] : own);
    json_write_end_array(&w);
    json_member_bool(&w, "has_more", false);
    json_member_string(&w, "first_id", g->names.n ? g->names.name[0] : own);
    json_member_string(&w, "last_id", g->names.n ? g->names.name[n - 1] : own);
    json_write_end_object(&w);
    http_reply_json(r, &w);
}

void anthropic_serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    if (!s)
        return;
    const char *name = admission_model_at(g, s, q, r);
    if (!name)
        return;
    write_model(&w, g, s, name);
    http_reply_json(r, &w);
}
