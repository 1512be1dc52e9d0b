#include "client/gateway/openai_routes.h"

#include "client/gateway/admission.h"
#include "client/gateway/answer.h"
#include "client/gateway/openai_chat.h"
#include "client/gateway/openai_completion.h"
#include "common/json/json_write.h"

/* ---- answers ---- */

static void start(struct gateway *g, struct openai_request *q, const char *model,
                  struct http_reply *r)
{
    bool chat = q->form == OPENAI_CHAT;
    struct openai_head *h =
        chat ? openai_chat_create(q, model) : openai_completion_create(q, model);
    if (h)
        answer_start(g->upstream, &g->answers, r, &q->of,
                     chat ? &openai_chat_form : &openai_completion_form, h);
    else
        http_reply_error(r, 503, "no memory for an answer");
}

static void serve(struct gateway *g, enum openai_form form, const struct http_request *http,
                  struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct openai_request q;
    struct openai_refusal refusal;
    if (!s)
        return;
    enum status st = openai_request_read(&q, form, http->body, http->n_body, &refusal);
    const char *model = admission_check(g, s, &q.of, st, refusal.param, http, r);
    if (model)
        start(g, &q, model, r);
    answer_request_free(&q.of);
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
    json_member_string(w, "root", admission_own_name(s));
    json_member_null(w, "parent");
    json_member_u64(w, "max_model_len", s->model.max_ctx);
    json_write_end_object(w);
}

void openai_serve_models(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
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
        write_model(&w, g, s, admission_own_name(s));
    json_write_end_array(&w);
    json_write_end_object(&w);
    http_reply_json(r, &w);
}

void openai_serve_model(struct gateway *g, const struct http_request *q, struct http_reply *r)
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
